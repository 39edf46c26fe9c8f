//! The worked examples of chapter 2, printed: `cargo run -p ch02-softmax`.

use anyhow::Result;
use ch01_alignment::{SENTENCE, alignment_scores, first_example, second_example};
use ch02_softmax::{
    TRANSLATION, attend, attention_weights, first_example_values, log_sum_exp,
    naive_softmax, second_example_values, softmax, softmax_with_temperature,
    word_values,
};
use ndarray::{Array1, Array2, Axis, NdFloat, array};

fn main() -> Result<()> {
    weights()?;
    answer()?;
    original()?;
    second()?;
    overflow();
    shift();
    log_sum()?;
    temperature()?;
    special_cases();
    axis()?;
    normalise_twice()?;
    Ok(())
}

// ANCHOR: weights
fn weights() -> Result<()> {
    println!("# weights: From four scores to four weights");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let scores = scores.row(0);
    let exponentials = scores.mapv(f64::exp);
    println!("scores = {scores:.2}   shape ({})", scores.len());
    println!("exp(scores) = {exponentials:.3}");
    println!("their sum = {:.3}", exponentials.sum());
    println!("weights = {:.3}", softmax(&scores));
    println!("their total = {:.3}", softmax(&scores).sum());
    println!();
    Ok(())
}
// ANCHOR_END: weights

// ANCHOR: answer
fn answer() -> Result<()> {
    println!("# answer: What the four words hand over to q1");
    let (queries, keys) = first_example();
    let values = word_values();
    let scores = alignment_scores(&queries, &keys)?;
    let attention = attend(&scores, &values)?;
    let weights = attention.weights.row(0);
    for ((word, weight), value) in SENTENCE.iter().zip(weights).zip(values.rows()) {
        println!("{weight:.3} of {word}: {}", by_word(&value * *weight));
    }
    let r = attention.output.row(0);
    println!("together: {}", by_word(r.to_owned()));
    println!("weight of {} = {:.3}", SENTENCE[1], weights[1]);
    println!("r = {r:.3}");
    println!();
    Ok(())
}

/// The entries that are not 0, each with its word of the translation.
fn by_word(value: Array1<f64>) -> String {
    let entries = TRANSLATION.iter().zip(value).filter(|(_, x)| *x != 0.0);
    let entries: Vec<_> =
        entries.map(|(word, x)| format!("{word} {x:.3}")).collect();
    entries.join(", ")
}
// ANCHOR_END: answer

// ANCHOR: original
fn original() -> Result<()> {
    println!("# original: The same weights, and the values of the source");
    let (queries, keys) = first_example();
    let values = first_example_values();
    let scores = alignment_scores(&queries, &keys)?;
    let attention = attend(&scores, &values)?;
    for (weight, value) in attention.weights.row(0).iter().zip(values.rows()) {
        println!("{weight:.3} × {value} = {:.3}", &value * *weight);
    }
    println!("r = {:.3}", attention.output.row(0));
    println!();
    Ok(())
}
// ANCHOR_END: original

// ANCHOR: second
fn second() -> Result<()> {
    println!("# second: Two queries, four keys, values of width 5");
    let (queries, keys) = second_example();
    let values = second_example_values();
    let scores = alignment_scores(&queries, &keys)?;
    let attention = attend(&scores, &values)?;
    show("scores E", &scores);
    show("weights A", &attention.weights);
    show("values V", &values);
    show("output A V", &attention.output);
    println!();
    Ok(())
}

fn show(name: &str, matrix: &Array2<f64>) {
    println!("{name}   {} × {}", matrix.nrows(), matrix.ncols());
    println!("{matrix:6.3}");
}
// ANCHOR_END: second

// ANCHOR: overflow
fn overflow() {
    println!("# overflow: The formula as it reads, and the formula shifted");
    println!("largest exponent of f32 = {:.2}", f32::MAX.ln());
    println!("largest exponent of f64 = {:.2}", f64::MAX.ln());
    compare("f64, at 1000", [0.0_f64, 1000.0]);
    compare("f64, at −1000", [-1000.0_f64, -1001.0]);
    compare("f32, at 90", [0.0_f32, 90.0]);
    compare("f32, twice 88.5", [88.5_f32, 88.5]);
    println!();
}

fn compare<F: NdFloat>(name: &str, scores: [F; 2]) {
    let scores = Array1::from_vec(scores.to_vec());
    println!("{name}: scores {scores}");
    println!("    naive  {:.3}", naive_softmax(&scores));
    println!("    stable {:.3}", softmax(&scores));
}
// ANCHOR_END: overflow

// ANCHOR: shift
fn shift() {
    println!("# shift: Adding the same number to every score");
    let scores = array![1.0, 3.0, 2.0];
    for by in [0.0, 100.0, -100.0] {
        println!(
            "scores {:>20} → {:.6}",
            format!("{:.0}", &scores + by),
            softmax(&(&scores + by))
        );
    }
    println!();
}
// ANCHOR_END: shift

// ANCHOR: log_sum
fn log_sum() -> Result<()> {
    println!("# log-sum-exp: The denominator, as a logarithm");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let scores = scores.row(0);
    let lse = log_sum_exp(&scores);
    println!(
        "largest score = {:.3}",
        scores.fold(f64::NEG_INFINITY, |a, &b| a.max(b))
    );
    println!("log-sum-exp = {lse:.3}");
    println!(
        "exp(score − log-sum-exp) = {:.3}",
        scores.mapv(|e| (e - lse).exp())
    );
    println!(
        "of [1000, 1000] = {:.3}",
        log_sum_exp(&array![1000.0, 1000.0])
    );
    println!();
    Ok(())
}
// ANCHOR_END: log_sum

// ANCHOR: temperature
fn temperature() -> Result<()> {
    println!("# temperature: The same scores, sharper and flatter");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    for temperature in [0.1, 0.5, 1.0, 2.0, 10.0] {
        let weights = softmax_with_temperature(&scores.row(0), temperature)?;
        println!("τ = {temperature:<4}  weights {weights:.3}");
    }
    if let Err(error) = softmax_with_temperature(&scores.row(0), 0.0) {
        println!("τ = 0     error: {error}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: temperature

// ANCHOR: special_cases
fn special_cases() {
    println!("# special-cases: What softmax does where the formula says nothing");
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for scores in [
        array![],
        array![1.0, -inf, 2.0],
        array![-inf, -inf, -inf],
        array![1.0, inf, 2.0],
        array![1.0, nan, 2.0],
    ] {
        println!("{:>18} → {:.3}", scores.to_string(), softmax(&scores));
    }
    println!();
}
// ANCHOR_END: special_cases

// ANCHOR: axis
fn axis() -> Result<()> {
    println!("# axis: Softmax over the keys, and over the queries by mistake");
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys)?;
    let right = attention_weights(&scores);
    let wrong = attention_weights(&scores.t()).reversed_axes();
    show("over each row, the keys", &right);
    println!("row sums = {:.3}", right.sum_axis(Axis(1)));
    show("over each column, the queries", &wrong);
    println!("row sums by mistake = {:.3}", wrong.sum_axis(Axis(1)));

    let (query, keys) = first_example();
    let one_row = alignment_scores(&query, &keys)?;
    show(
        "one query, over the queries",
        &attention_weights(&one_row.t()).reversed_axes(),
    );
    println!();
    Ok(())
}
// ANCHOR_END: axis

// ANCHOR: normalise_twice
fn normalise_twice() -> Result<()> {
    println!("# twice: Softmax of a softmax");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let once = softmax(&scores.row(0));
    println!("once = {once:.3}");
    println!("twice = {:.3}", softmax(&once));
    Ok(())
}
// ANCHOR_END: normalise_twice
