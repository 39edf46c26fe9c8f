//! Multi-head attention.

use anyhow::{Result, bail, ensure};
use ch04_masks::{Mask, batched_scaled_scores};
use ch05_multihead::{Memory, MultiHeadAnswer, MultiHeadSteps, Projection};
use figures::number;
use figures::with::{LOOKS, Picked, hand_made, heads_of};
use ndarray::{Array3, Axis, s};

use crate::{Control, Kind, Live, Spot, State, Use, View, heads, row};

pub(crate) const HEADS: Live = Live {
    chapter: "ch05",
    figure: "heads",
    hint: "Point at a weight of a head, or at an entry of the output, to see every step to it. Choose more heads, \
           or write up to five short words of your own, some of them alike.",
    part: "numbers",
    controls,
    draw,
};

const COUNTS: &[(&str, &str)] = &[("1", "one"), ("2", "two"), ("4", "four")];

fn controls() -> Result<Vec<Control>> {
    let words = Kind::Text { longest: 60 };
    Ok(vec![
        Control::new("words", "up to five words", words, "the cat saw the dog"),
        Control::new("heads", "heads", Kind::Choice(COUNTS), 2),
        Control::new("picked", "picked", Kind::Hidden, ""),
    ])
}

/// What the heads did, step by step.
struct Asked<'a> {
    words: &'a [&'a str],
    memory: Memory<f64>,
    steps: MultiHeadSteps<f64>,
    /// `W^O`.
    output: Projection<f64>,
}

fn draw(state: &mut State) -> Result<View> {
    let text = state.text("words")?.to_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let n = words.len();
    ensure!(
        (1..=5).contains(&n),
        "There is room for one to five words, not {n}."
    );
    let count = match state.choice("heads")? {
        "1" => 1,
        "2" => 2,
        _ => 4,
    };
    let mut picked = read(state.text("picked")?)?;
    // With fewer words or heads it may be gone.
    let is_there = |picked: Picked| match picked {
        Picked::Weight { head, query, key } => head < count && query < n && key < n,
        Picked::Output { token, entry } => token < n && entry < 2 * n,
    };
    if !picked.is_none_or(is_there) {
        picked = None;
        state.set("picked", "")?;
    }
    // Equal words have the number of the first of them.
    let numbers: Vec<usize> = words
        .iter()
        .map(|word| words.iter().position(|w| w == word).unwrap_or_default())
        .collect();
    let (attention, x) = hand_made(&numbers, count)?;
    let x = x.insert_axis(Axis(0));
    let memory = attention.remember(&x, &x)?;
    let steps = attention.ask_in_steps(&x, &memory, &Mask::everything())?;
    let [.., output] = attention.projections();
    let asked = Asked {
        words: &words,
        memory,
        steps,
        output: output.clone(),
    };
    let answer = MultiHeadAnswer {
        output: asked.steps.output.clone(),
        weights: asked.steps.weights.clone(),
    };
    let picture = heads_of(&words, &answer, picked)?;
    let (said, table) = match picked {
        None => asked.everything(answer.average_weights()),
        Some(Picked::Weight { head, query, key }) => asked.weight(head, query, key)?,
        Some(Picked::Output { token, entry }) => asked.entry(token, entry),
    };
    let spots = picture.cells.iter().map(|cell| {
        let (grid, i, j) = (cell.grid, cell.row, cell.column);
        let (label, picked) = if grid < count {
            let weight = number(answer.weights[[0, grid, i, j]], 2);
            (
                format!("Head {}, {} for {}: {weight}", grid + 1, words[i], words[j]),
                format!("{grid} {i} {j}"),
            )
        } else {
            let entry = number(answer.output[[0, i, j]], 2);
            (
                format!("Output of {}, {}: {entry}", words[i], asked.name(j)),
                format!("output {i} {j}"),
            )
        };
        Spot {
            used: Use::Point,
            at: cell.at,
            size: cell.size,
            place: (grid, i, j),
            label,
            sets: vec![("picked", picked)],
        }
    });
    Ok(View {
        spots: spots.collect(),
        picture,
        said,
        table,
    })
}

impl Asked<'_> {
    fn heads(&self) -> usize {
        self.steps.weights.len_of(Axis(1))
    }

    /// What an entry of the output stands for.
    fn name(&self, entry: usize) -> String {
        let n = self.words.len();
        match self.words.get(entry) {
            None => format!("position {}", entry - n + 1),
            Some(word) if self.words[..entry].contains(word) => format!("{word} again"),
            Some(word) => format!("word {word}"),
        }
    }

    /// All weights, their average and the output.
    fn everything(&self, average: Array3<f64>) -> (String, Vec<Vec<String>>) {
        let (words, n) = (self.words, self.words.len());
        let names = ["weights"].into_iter().chain(words.iter().copied());
        let mut table = vec![heads(names)];
        for head in 0..self.heads() {
            for (i, word) in words.iter().enumerate() {
                let weights = self.steps.weights.slice(s![0, head, i, ..]);
                let name = format!("head {}, {word}", head + 1);
                table.push(row(name, weights.to_vec(), 2));
            }
        }
        for (i, word) in words.iter().enumerate() {
            let weights = average.slice(s![0, i, ..]);
            table.push(row(format!("average, {word}"), weights.to_vec(), 2));
        }
        for (half, what) in ["words", "positions"].into_iter().enumerate() {
            for (i, word) in words.iter().enumerate() {
                let entries = self.steps.output.slice(s![0, i, half * n..(half + 1) * n]);
                let name = format!("output of {word}, {what}");
                table.push(row(name, entries.to_vec(), 2));
            }
        }
        let looks = LOOKS.into_iter().take(self.heads()).enumerate();
        let looks: Vec<_> = looks
            .map(|(head, look)| match head {
                0 => format!("Head 1 looks for {look}"),
                _ => format!("head {} for {look}", head + 1),
            })
            .collect();
        (format!("{}.", looks.join(", ")), table)
    }

    /// How a weight came about.
    fn weight(&self, head: usize, query: usize, key: usize) -> Result<(String, Vec<Vec<String>>)> {
        let (words, n) = (self.words, self.words.len());
        let (queries, keys) = (&self.steps.queries, &self.memory.keys);
        let scores = batched_scaled_scores(queries, keys)?;
        let q = queries.slice(s![0, head, query, ..]);
        let k = keys.slice(s![0, head, key, ..]);
        let products = &q * &k;
        let names = (1..=n).map(|c| format!("entry {c}"));
        let mut table = vec![heads(
            std::iter::once(format!("head {}", head + 1)).chain(names),
        )];
        table.push(row(format!("q of {}", words[query]), q.to_vec(), 0));
        table.push(row(format!("k of {}", words[key]), k.to_vec(), 0));
        table.push(row("products", products.to_vec(), 0));
        let scaled = scores.slice(s![0, head, query, ..]);
        table.push(row("all scores / √d_k", scaled.to_vec(), 2));
        let weights = self.steps.weights.slice(s![0, head, query, ..]);
        table.push(row("softmax of the row", weights.to_vec(), 2));
        let said = format!(
            "Head {}, {} for {}: q · k = {}, divided by √{n} is {}, and the softmax of the row makes {} of it.",
            head + 1,
            words[query],
            words[key],
            number(products.sum(), 2),
            number(scaled[key], 2),
            number(weights[key], 2)
        );
        Ok((said, table))
    }

    /// How an entry of the output came about: `concat(head_1, …, head_h)` times a column of `W^O`, where
    /// each entry of a head is a sum of weights times values.
    fn entry(&self, token: usize, entry: usize) -> (String, Vec<Vec<String>>) {
        let (words, n) = (self.words, self.words.len());
        let parts = words.iter().map(|word| format!("a · v of {word}"));
        let ends = ["sum", "W^O", "product"].map(str::to_owned);
        let mut table = vec![heads(
            ["joined heads".to_owned()]
                .into_iter()
                .chain(parts)
                .chain(ends),
        )];
        let mut terms = vec![];
        for head in 0..self.heads() {
            let weights = self.steps.weights.slice(s![0, head, token, ..]);
            let values = self.memory.values.slice(s![0, head, .., ..]);
            for (c, values) in values.columns().into_iter().enumerate() {
                let place = head * n + c;
                let sum = self.steps.merged[[0, token, place]];
                let mixed = self.output.weight()[[place, entry]];
                let parts = (&weights * &values).to_vec().into_iter();
                let cells = parts.chain([sum, mixed, sum * mixed]);
                table.push(row(format!("head {}, entry {}", head + 1, c + 1), cells, 2));
                if mixed != 0.0 {
                    let (sum, mixed) = (number(sum, 3), number(mixed, 0));
                    terms.push(format!("{sum} · {mixed} (head {})", head + 1));
                }
            }
        }
        let output = self.steps.output[[0, token, entry]];
        let mut last = vec!["output".to_owned()];
        last.resize(n + 3, String::new());
        last.push(number(output, 2));
        table.push(last);
        let sum = match terms.is_empty() {
            true => format!(
                "no head leads there, W^O has only zeros, so it is {}",
                number(output, 3)
            ),
            false => format!("{} = {}", terms.join(" + "), number(output, 3)),
        };
        let said = format!(
            "Output of {}, {}: {sum}. The framed rows are its weights.",
            words[token],
            self.name(entry)
        );
        (said, table)
    }
}

/// Head, query and key, or token and entry, or nothing.
fn read(picked: &str) -> Result<Option<Picked>> {
    if picked.is_empty() {
        return Ok(None);
    }
    let (kind, places) = match picked.strip_prefix("output ") {
        Some(places) => ("output", places),
        None => ("weight", picked),
    };
    let numbers: Result<Vec<usize>, _> = places.split(' ').map(str::parse).collect();
    match (kind, numbers.as_deref()) {
        ("weight", Ok(&[head, query, key])) if head < LOOKS.len() => {
            Ok(Some(Picked::Weight { head, query, key }))
        }
        ("output", Ok(&[token, entry])) => Ok(Some(Picked::Output { token, entry })),
        _ => bail!("“{picked}” is neither a weight of a head nor an entry of the output"),
    }
}
