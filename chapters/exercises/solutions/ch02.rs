//! Exercises of chapter 2, softmax weights.

use anyhow::{Result, ensure};
use ch02_softmax::{log_sum_exp, softmax, softmax_with_temperature};
use ndarray::{Array1, ArrayView1, Axis, array, concatenate, s};

/// Exercise 1: the weights of the scores 0, log 2 and log 3, worked out by hand, as fractions.
// ANCHOR: weights_by_hand
pub fn weights_by_hand() -> [f64; 3] {
    // ANCHOR: weights_by_hand_body
    [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]
    // ANCHOR_END: weights_by_hand_body
}
// ANCHOR_END: weights_by_hand

/// Exercise 2: the logarithm of each weight of finite scores, right even where the weight itself is
/// rounded to 0.
// ANCHOR: log_softmax
pub fn log_softmax(scores: ArrayView1<f64>) -> Array1<f64> {
    // ANCHOR: log_softmax_body
    let lse = log_sum_exp(scores);
    scores.mapv(|e| e - lse)
    // ANCHOR_END: log_softmax_body
}
// ANCHOR_END: log_softmax

/// Exercise 3: a temperature at which the largest weight is `wanted`, to within a thousandth.
///
/// # Errors
/// If no temperature between 1e-3 and 1e3 gives it.
// ANCHOR: temperature_for
pub fn temperature_for(scores: ArrayView1<f64>, wanted: f64) -> Result<f64> {
    // ANCHOR: temperature_for_body
    let largest_weight = |temperature: f64| -> Result<f64> {
        let weights = softmax_with_temperature(scores, temperature)?;
        Ok(weights.fold(0.0, |largest, &weight| f64::max(largest, weight)))
    };
    let (mut sharp, mut flat) = (1e-3, 1e3);
    for _ in 0..60 {
        // Halve on the logarithm: the interval spans six powers of ten.
        let middle = f64::sqrt(sharp * flat);
        if largest_weight(middle)? > wanted {
            sharp = middle;
        } else {
            flat = middle;
        }
    }
    let found = largest_weight(flat)?;
    ensure!(
        (found - wanted).abs() < 1e-3,
        "no temperature between 1e-3 and 1e3 gives a largest weight of {wanted}"
    );
    Ok(flat)
    // ANCHOR_END: temperature_for_body
}
// ANCHOR_END: temperature_for

/// Exercise 4: `exp(e_j) / (1 + Σ exp(e_l))`, stable for scores of any finite size.
// ANCHOR: softmax_or_nothing
pub fn softmax_or_nothing(scores: ArrayView1<f64>) -> Array1<f64> {
    // ANCHOR: softmax_or_nothing_body
    let with_nothing = concatenate![Axis(0), scores, array![0.0]];
    let weights = softmax(with_nothing.view());
    weights.slice(s![..scores.len()]).to_owned()
    // ANCHOR_END: softmax_or_nothing_body
}
// ANCHOR_END: softmax_or_nothing
