//! Softmax weights and the weighted sum.

use anyhow::Result;
use ch01_alignment::{SENTENCE, alignment_scores, first_example};
use ch02_softmax::{
    Attention, TRANSLATION, naive_softmax, softmax_with_temperature, weighted_sum, word_values,
};
use figures::number;
use figures::with::{mixture_of, weights_of};
use ndarray::{Array1, Axis};

use crate::{Control, Kind, Live, State, View, heads, list, row};

pub(crate) const WEIGHTS: Live = Live {
    chapter: "ch02",
    figure: "weights",
    hint: "Type other scores, or slide the temperature down: the largest score takes everything. Then choose \
           the naive formula and watch it break where the stable one does not.",
    part: "numbers",
    controls: weights_controls,
    draw: weights,
};

pub(crate) const MIXTURE: Live = Live {
    chapter: "ch02",
    figure: "mixture",
    hint: "Raise one score until its value is the whole answer, or raise the temperature until all four count \
           alike.",
    part: "numbers",
    controls: scores_controls,
    draw: mixture,
};

const SCORES: [&str; 4] = ["e1", "e2", "e3", "e4"];

/// The scores of the first example's query, and the temperature.
fn scores_controls() -> Result<Vec<Control>> {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let typed = Kind::Number {
        min: -1000.0,
        max: 1000.0,
        step: 0.1,
    };
    let mut controls: Vec<_> = SCORES
        .into_iter()
        .zip(scores.row(0))
        .map(|(name, score)| {
            let label = format!("score of k{}", &name[1..]);
            Control::new(name, label, typed.clone(), format!("{score:.2}"))
        })
        .collect();
    let slider = Kind::Slider {
        min: -2.0,
        max: 1.0,
        step: 0.05,
        runs: false,
    };
    controls.push(Control::new("tau", "temperature τ", slider, 0));
    Ok(controls)
}

/// The scores and the temperature, whose logarithm the slider holds.
fn read(state: &mut State) -> Result<(Array1<f64>, f64)> {
    let scores = SCORES.map(|name| state.number(name));
    let scores: Array1<f64> = scores.into_iter().collect::<Result<_>>()?;
    let tau = 10f64.powf(state.number("tau")?);
    state.show("tau", number(tau, if tau < 0.1 { 3 } else { 2 }))?;
    Ok((scores, tau))
}

fn weights_controls() -> Result<Vec<Control>> {
    let mut controls = scores_controls()?;
    let formulas = Kind::Choice(&[
        ("stable", "stable, as the library does it"),
        ("naive", "naive, in f32"),
    ]);
    controls.push(Control::new("formula", "softmax", formulas, "stable"));
    Ok(controls)
}

fn weights(state: &mut State) -> Result<View> {
    let (scores, tau) = read(state)?;
    let stable = softmax_with_temperature(&scores, tau)?;
    let (weights, said) = if state.choice("formula")? == "naive" {
        let divided = scores.mapv(|e| (e / tau) as f32);
        let naive = naive_softmax(&divided).mapv(f64::from);
        let largest = scores.fold(f64::NEG_INFINITY, |a, &e| a.max(e)) / tau;
        let said = if (naive.sum() - 1.0).abs() < 1e-3 {
            "The naive formula still holds".to_owned()
        } else {
            format!(
                "The naive formula breaks: exp({}) has no place in f32. The stable one still gives {}",
                number(largest, 1),
                list(stable, 3)
            )
        };
        (naive, said)
    } else {
        let most = stable.fold(0.0, |a: f64, &x| a.max(x));
        (stable, format!("The largest weight is {}", number(most, 3)))
    };
    let values = word_values();
    let answer = weighted_sum(&weights.view().insert_axis(Axis(0)), &values)?;
    let answer = answer.row(0);
    let mut table = vec![heads(["key", "score", "score / τ", "weight"])];
    for j in 0..scores.len() {
        let mut cells = row(format!("k{}", j + 1), [scores[j], scores[j] / tau], 2);
        cells.push(number(weights[j], 3));
        table.push(cells);
    }
    let said = format!(
        "Weights {}, together {}. {said}. The answer r: {}.",
        list(weights.to_vec(), 3),
        number(weights.sum(), 3),
        by_word(answer.iter().copied())
    );
    Ok(View {
        picture: weights_of(&scores.to_vec(), &weights.to_vec())?,
        said,
        table,
        spots: vec![],
    })
}

fn mixture(state: &mut State) -> Result<View> {
    let (scores, tau) = read(state)?;
    let values = word_values();
    let weights = softmax_with_temperature(&scores, tau)?.insert_axis(Axis(0));
    let output = weighted_sum(&weights, &values)?;
    let attention = Attention { output, weights };
    let (weights, answer) = (attention.weights.row(0), attention.output.row(0));
    let mut table = vec![heads(["share", "weight"].into_iter().chain(TRANSLATION))];
    for (j, value) in values.rows().into_iter().enumerate() {
        let shares = value.iter().map(|v| weights[j] * v);
        let numbers = std::iter::once(weights[j]).chain(shares);
        table.push(row(SENTENCE[j], numbers, 3));
    }
    let sums = std::iter::once(weights.sum()).chain(answer.iter().copied());
    table.push(row("r", sums, 3));
    Ok(View {
        picture: mixture_of(&attention, values.view())?,
        said: format!(
            "Weights {}. The answer r: {}.",
            list(weights.to_vec(), 3),
            by_word(answer.iter().copied())
        ),
        table,
        spots: vec![],
    })
}

/// The entries of an answer, each with its word of the translation.
fn by_word(answer: impl IntoIterator<Item = f64>) -> String {
    let entries = TRANSLATION.iter().zip(answer);
    let entries: Vec<_> = entries
        .map(|(word, x)| format!("{word} {}", number(x, 3)))
        .collect();
    entries.join(", ")
}
