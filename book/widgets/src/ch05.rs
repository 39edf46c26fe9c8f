//! Multi-head attention.

use anyhow::{Result, bail, ensure};
use ch04_masks::{Mask, batched_scaled_scores};
use ch05_multihead::MultiHeadAnswer;
use figures::number;
use figures::with::{Picked, hand_made, heads_of};
use ndarray::{Axis, s};

use crate::{Control, Kind, Live, Spot, State, Use, View, heads, row};

pub(crate) const HEADS: Live = Live {
    chapter: "ch05",
    figure: "heads",
    hint: "Point at a weight of a head to see the query and the key it came from and every step to it; or write \
           five short words of your own, some of them alike.",
    part: "numbers",
    controls,
    draw,
};

fn controls() -> Result<Vec<Control>> {
    let words = Kind::Text { longest: 60 };
    Ok(vec![
        Control::new("words", "up to five words", words, "the cat saw the dog"),
        Control::new("picked", "weight", Kind::Hidden, ""),
    ])
}

fn draw(state: &mut State) -> Result<View> {
    let text = state.text("words")?.to_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let n = words.len();
    ensure!(
        (1..=5).contains(&n),
        "There is room for one to five words, not {n}."
    );
    let mut picked = read(state.text("picked")?)?;
    // With fewer words the weight may be gone.
    if picked.is_some_and(|p| p.query >= n || p.key >= n) {
        picked = None;
        state.set("picked", "")?;
    }
    // Equal words have the number of the first of them.
    let numbers: Vec<usize> = words
        .iter()
        .map(|word| words.iter().position(|w| w == word).unwrap_or_default())
        .collect();
    let (attention, x) = hand_made(&numbers)?;
    let x = x.insert_axis(Axis(0));
    let memory = attention.remember(x.view(), x.view())?;
    let steps = attention.ask_in_steps(x.view(), &memory, &Mask::everything())?;
    let answer = MultiHeadAnswer {
        output: steps.output,
        weights: steps.weights,
    };
    let picture = heads_of(&words, &answer, picked)?;

    let (said, table) = match picked {
        None => {
            let names = ["weights"].into_iter().chain(words.iter().copied());
            let mut table = vec![heads(names)];
            for head in 0..2 {
                for (i, word) in words.iter().enumerate() {
                    let weights = answer.weights.slice(s![0, head, i, ..]);
                    table.push(row(
                        format!("head {}, {word}", head + 1),
                        weights.to_vec(),
                        2,
                    ));
                }
            }
            let said = "Head 1 looks for the token before, head 2 for the same word.".to_owned();
            (said, table)
        }
        Some(Picked { head, query, key }) => {
            let scores = batched_scaled_scores(steps.queries.view(), memory.keys.view())?;
            let q = steps.queries.slice(s![0, head, query, ..]);
            let k = memory.keys.slice(s![0, head, key, ..]);
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
            let weights = answer.weights.slice(s![0, head, query, ..]);
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
            (said, table)
        }
    };
    let spots = picture.cells.iter().map(|cell| Spot {
        used: Use::Point,
        at: cell.at,
        size: cell.size,
        place: (cell.grid, cell.row, cell.column),
        label: format!(
            "Head {}, {} for {}: {}",
            cell.grid + 1,
            words[cell.row],
            words[cell.column],
            number(answer.weights[[0, cell.grid, cell.row, cell.column]], 2)
        ),
        sets: vec![(
            "picked",
            format!("{} {} {}", cell.grid, cell.row, cell.column),
        )],
    });
    Ok(View {
        spots: spots.collect(),
        picture,
        said,
        table,
    })
}

/// Head, query and key, or nothing.
fn read(picked: &str) -> Result<Option<Picked>> {
    if picked.is_empty() {
        return Ok(None);
    }
    let numbers: Result<Vec<usize>, _> = picked.split(' ').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[head, query, key]) if head < 2 => Ok(Some(Picked { head, query, key })),
        _ => bail!("“{picked}” is no weight of a head"),
    }
}
