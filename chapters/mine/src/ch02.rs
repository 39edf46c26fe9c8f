//! Chapter 2: how much of each value?

use anyhow::{Result, ensure};
use ndarray::{
    Array1, Array2, ArrayRef1, ArrayRef2, Axis, NdFloat, array, concatenate, s,
};

/// From scores to weights, a_j = exp(e_j) / Σ exp(e_l), right for scores of any size: subtract the
/// largest first.
///
/// `scores` are `n` long, and so is the result. No scores give no weights; if all are −∞, all weights
/// are 0; a NaN among them makes all weights NaN.
pub fn softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    todo!("ch02::softmax")
}

/// The weights of every query: your `softmax` of each row.
///
/// `scores` are `m × n`, and so is the result.
pub fn attention_weights<F: NdFloat>(scores: &ArrayRef2<F>) -> Array2<F> {
    todo!("ch02::attention_weights")
}

/// What each query is given: the mean of the values by its weights, A V.
///
/// `weights` are `m × n`, `values` are `n × d_v`, the result is `m × d_v`.
///
/// # Errors
/// If there is not one value for each weight of a row.
pub fn weighted_sum<F: NdFloat>(
    weights: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    todo!("ch02::weighted_sum")
}

/// By hand: the weights of the scores 0, log 2 and log 3, as fractions.
pub fn weights_by_hand() -> [f64; 3] {
    todo!("ch02::weights_by_hand")
}

/// The logarithm of each weight of finite scores, right even where the weight itself is rounded to
/// 0. Chapter 9 asks for it again.
///
/// `scores` are `n` long, at least one, and so is the result.
pub fn log_softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    todo!("ch02::log_softmax")
}

/// Attention that may say no: exp(e_j) / (1 + Σ exp(e_l)), right for finite scores of any size.
///
/// `scores` are `n` long, and so is the result.
pub fn softmax_or_nothing(scores: &ArrayRef1<f64>) -> Array1<f64> {
    todo!("ch02::softmax_or_nothing")
}

/// Find the fault: this wants to be the softmax of every row at once, for scores that are not large,
/// and one line of it is wrong.
pub fn find_the_fault_02(scores: &ArrayRef2<f64>) -> Array2<f64> {
    let exponentials = scores.mapv(f64::exp);
    let sums = exponentials.sum_axis(Axis(0));
    &exponentials / &sums
}
