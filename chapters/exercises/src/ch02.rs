//! Exercises of chapter 2, softmax weights.

use anyhow::{Result, ensure};
use ch02_softmax::{log_sum_exp, softmax, softmax_with_temperature};
use ndarray::{Array1, ArrayView1, Axis, array, concatenate, s};

/// Exercise 1: the weights of the scores 0, log 2 and log 3, worked out by hand, as fractions.
pub fn weights_by_hand() -> [f64; 3] {
    todo!("complete weights_by_hand")
}

/// Exercise 2: the logarithm of each weight of finite scores, right even where the weight itself is
/// rounded to 0.
pub fn log_softmax(scores: ArrayView1<f64>) -> Array1<f64> {
    todo!("complete log_softmax")
}

/// Exercise 3: a temperature at which the largest weight is `wanted`, to within a thousandth.
///
/// # Errors
/// If no temperature between 1e-3 and 1e3 gives it.
pub fn temperature_for(scores: ArrayView1<f64>, wanted: f64) -> Result<f64> {
    todo!("complete temperature_for")
}

/// Exercise 4: `exp(e_j) / (1 + Σ exp(e_l))`, stable for scores of any finite size.
pub fn softmax_or_nothing(scores: ArrayView1<f64>) -> Array1<f64> {
    todo!("complete softmax_or_nothing")
}
