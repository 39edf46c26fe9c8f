//! The online softmax.

use anyhow::{Context, Result, bail, ensure};
use ch02_softmax::{log_sum_exp, softmax};
use ch10_efficient::rising_example;
use figures::with::{Seen, online_of, read_in_tiles};
use figures::{number, short};
use ndarray::{Array1, Array2};

use crate::{Control, Kind, Live, State, View, heads, list};

pub(crate) const ONLINE: Live = Live {
    chapter: "ch10",
    figure: "online",
    hint: "Step through the blocks and watch what is remembered being corrected. Write other scores, up to eight, \
           with -inf for a key that may not be seen; if there are fewer values, they are used again from the first.",
    part: "numbers",
    controls,
    draw,
};

const TILES: &[(&str, &str)] = &[("1", "1"), ("2", "2"), ("4", "4")];

/// The most scores that there is room for.
const MOST: usize = 8;

/// The largest number without its sign that there is room for, among scores and among values.
const LARGEST: (f64, f64) = (1000.0, 9.0);

fn controls() -> Result<Vec<Control>> {
    let (scores, values) = rising_example();
    let spelled = |numbers: Vec<f64>| {
        let numbers: Vec<_> = numbers.iter().map(f64::to_string).collect();
        numbers.join(" ")
    };
    let pairs: Vec<_> = values
        .rows()
        .into_iter()
        .map(|v| spelled(v.to_vec()))
        .collect();
    let text = |longest| Kind::Text { longest };
    let slider = Kind::Slider {
        min: 1.0,
        max: MOST as f64,
        step: 1.0,
        runs: true,
    };
    Ok(vec![
        Control::new("read", "blocks read", slider, scores.len()),
        Control::new("tile", "keys in a block", Kind::Choice(TILES), 1),
        Control::new("scores", "scores", text(80), spelled(scores.to_vec())),
        Control::new("values", "values", text(120), pairs.join(", ")),
        Control::new("counted", "keys in a tile before", Kind::Hidden, 1),
        Control::new("held", "blocks read before", Kind::Hidden, scores.len()),
        Control::new("keys", "keys to be read", Kind::Hidden, scores.len()),
    ])
}

fn draw(state: &mut State) -> Result<View> {
    let scores = Array1::from(numbers(state.text("scores")?, LARGEST.0).context("scores")?);
    let n = scores.len();
    ensure!(
        (1..=MOST).contains(&n),
        "There is room for one to {MOST} scores, not {n}."
    );
    let values = values(state.text("values")?, n)?;
    let tile = match state.choice("tile")? {
        "1" => 1,
        "2" => 2,
        _ => 4,
    };
    let tiles = read_in_tiles(scores.view(), values.view(), tile)?;
    // How many keys are to be read changes only when the reader moves the slider: not with larger tiles,
    // nor for good while a row that is being written has fewer scores.
    let (moved, counted) = (state.whole("read")?, state.whole("counted")?);
    let keys = if moved == state.whole("held")? {
        state.whole("keys")?
    } else {
        moved * counted.clamp(1, MOST)
    };
    let read = keys.div_ceil(tile).clamp(1, tiles.len());
    for (name, value) in [
        ("read", read),
        ("held", read),
        ("keys", keys),
        ("counted", tile),
    ] {
        state.set(name, value)?;
    }
    state.show("read", format!("{read} of {}", tiles.len()))?;

    let mut table = vec![heads([
        "after",
        "its scores",
        "μ",
        "factor e^(μ − μ′)",
        "ℓ",
        "o/ℓ, entry 1",
        "entry 2",
    ])];
    let spelled = |scores: &[f64]| {
        let scores: Vec<_> = scores.iter().map(|&e| short(e)).collect();
        scores.join(", ")
    };
    for seen in &tiles[..read] {
        let its = scores.slice(ndarray::s![seen.keys.clone()]).to_vec();
        let mut cells = vec![seen.name(), spelled(&its), short(seen.largest)];
        cells.extend([seen.factor, seen.sum].map(|x| number(x, 3)));
        cells.extend(seen.answer.iter().map(|&r| number(r, 3)));
        table.push(cells);
    }
    // As chapter 2 does it, with the whole row at hand.
    let answer = softmax(&scores).dot(&values);
    let largest = scores.fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let sum = if largest == f64::NEG_INFINITY {
        0.0
    } else {
        (log_sum_exp(&scores) - largest).exp()
    };
    let mut cells = vec!["all at once".to_owned()];
    cells.extend([spelled(&scores.to_vec()), short(largest), String::new()]);
    cells.push(number(sum, 3));
    cells.extend(answer.iter().map(|&r| number(r, 3)));
    table.push(cells);

    let mut said = step(&tiles, read);
    if read == tiles.len() {
        let off = (&tiles[read - 1].answer - &answer).fold(0.0, |a: f64, x| a.max(x.abs()));
        ensure!(
            off < 1e-9,
            "the answer is {off} off what softmax gives all at once"
        );
        said += " Softmax over all at once gives the same.";
    }
    Ok(View {
        picture: online_of(scores.view(), &tiles, read)?,
        said,
        table,
        spots: vec![],
    })
}

/// What the last tile that was read changed, and the answer then.
fn step(tiles: &[Seen], read: usize) -> String {
    let seen = &tiles[read - 1];
    let name = seen.name().replacen('k', "K", 1);
    let (before, sum_before) = match read.checked_sub(2) {
        Some(before) => (tiles[before].largest, tiles[before].sum),
        None => (f64::NEG_INFINITY, 0.0),
    };
    let (mu, sum) = (short(seen.largest), number(seen.sum, 2));
    let shrunk = sum_before * seen.factor;
    let added = number(seen.sum - shrunk, 2);
    let what = if seen.exponentials[seen.keys.clone()]
        .iter()
        .all(|&x| x == 0.0)
    {
        format!("{name} added nothing, and nothing was corrected: μ = {mu}, ℓ = {sum}.")
    } else if before == f64::NEG_INFINITY {
        format!("{name} came first: μ = {mu}, ℓ = {sum}, and there was nothing to correct.")
    } else if seen.largest == before {
        format!("{name} left μ at {mu}, so nothing was corrected; ℓ grew by {added} to {sum}.")
    } else {
        format!(
            "{name} raised μ from {} to {mu}: what was remembered shrank by the factor e^({}) = {}, ℓ from {} to {}, \
             and with the {added} added ℓ = {sum}.",
            short(before),
            short(before - seen.largest),
            number(seen.factor, 2),
            number(sum_before, 2),
            number(shrunk, 2),
        )
    };
    format!(
        "{what} The answer so far is ({}).",
        list(seen.answer.to_vec(), 3)
    )
}

/// The numbers of a text, none larger than that without its sign. Minus infinity is one.
fn numbers(text: &str, largest: f64) -> Result<Vec<f64>> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    let words = words.filter(|word| !word.is_empty());
    let number = |word: &str| {
        let x = word.replace('−', "-").replace('∞', "inf").parse::<f64>();
        match x {
            Ok(x) if x == f64::NEG_INFINITY || x.abs() <= largest => Ok(x),
            _ => bail!("“{word}” is no number from -{largest} to {largest}"),
        }
    };
    words.map(number).collect()
}

/// A value for each of `n` keys: those of the text, over and over.
fn values(text: &str, n: usize) -> Result<Array2<f64>> {
    let mut pairs = vec![];
    for pair in text.split(',') {
        let value = numbers(pair, LARGEST.1).context("values")?;
        ensure!(
            value.len() == 2 && value.iter().all(|x| x.is_finite()),
            "a value is two numbers, with a comma after them, not “{}”",
            pair.trim()
        );
        pairs.push([value[0], value[1]]);
    }
    Ok(Array2::from_shape_fn((n, 2), |(j, c)| {
        pairs[j % pairs.len()][c]
    }))
}
