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
// ANCHOR: softmax
pub fn softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    // ANCHOR: softmax_body
    let nothing = F::neg_infinity();
    // A NaN stays, which `max` would hide.
    let largest = scores.fold(nothing, |largest, &e| {
        if e > largest || e.is_nan() {
            e
        } else {
            largest
        }
    });
    if largest == nothing {
        return Array1::zeros(scores.len());
    }
    let exponentials = scores.mapv(|e| (e - largest).exp());
    &exponentials / exponentials.sum()
    // ANCHOR_END: softmax_body
}
// ANCHOR_END: softmax

/// The weights of every query: your `softmax` of each row.
///
/// `scores` are `m × n`, and so is the result.
// ANCHOR: attention_weights
pub fn attention_weights<F: NdFloat>(scores: &ArrayRef2<F>) -> Array2<F> {
    // ANCHOR: attention_weights_body
    let mut weights = scores.to_owned();
    for mut row in weights.rows_mut() {
        let of_row = softmax(&row);
        row.assign(&of_row);
    }
    weights
    // ANCHOR_END: attention_weights_body
}
// ANCHOR_END: attention_weights

/// What each query is given: the mean of the values by its weights, A V.
///
/// `weights` are `m × n`, `values` are `n × d_v`, the result is `m × d_v`.
///
/// # Errors
/// If there is not one value for each weight of a row.
// ANCHOR: weighted_sum
pub fn weighted_sum<F: NdFloat>(
    weights: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: weighted_sum_body
    ensure!(
        weights.ncols() == values.nrows(),
        "each query has {} weights but there are {} values",
        weights.ncols(),
        values.nrows()
    );
    Ok(weights.dot(values))
    // ANCHOR_END: weighted_sum_body
}
// ANCHOR_END: weighted_sum

/// By hand: the weights of the scores 0, log 2 and log 3, as fractions.
// ANCHOR: weights_by_hand
pub fn weights_by_hand() -> [f64; 3] {
    // ANCHOR: weights_by_hand_body
    [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]
    // ANCHOR_END: weights_by_hand_body
}
// ANCHOR_END: weights_by_hand

/// The logarithm of each weight of finite scores, right even where the weight itself is rounded to
/// 0. Chapter 9 asks for it again.
///
/// `scores` are `n` long, at least one, and so is the result.
// ANCHOR: log_softmax
pub fn log_softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    // ANCHOR: log_softmax_body
    let largest = scores.fold(F::neg_infinity(), |a, &b| a.max(b));
    let sum = scores.mapv(|e| (e - largest).exp()).sum();
    // log a_j = e_j − (max + log Σ exp(e_l − max))
    scores.mapv(|e| e - (largest + sum.ln()))
    // ANCHOR_END: log_softmax_body
}
// ANCHOR_END: log_softmax

/// Attention that may say no: exp(e_j) / (1 + Σ exp(e_l)), right for finite scores of any size.
///
/// `scores` are `n` long, and so is the result.
// ANCHOR: softmax_or_nothing
pub fn softmax_or_nothing(scores: &ArrayRef1<f64>) -> Array1<f64> {
    // ANCHOR: softmax_or_nothing_body
    let with_nothing = concatenate![Axis(0), scores.view(), array![0.0]];
    let weights = softmax(&with_nothing);
    weights.slice(s![..scores.len()]).to_owned()
    // ANCHOR_END: softmax_or_nothing_body
}
// ANCHOR_END: softmax_or_nothing

/// Find the fault: this wants to be the softmax of every row at once, for scores that are not large,
/// and one line of it is wrong.
// ANCHOR: find_the_fault_02
pub fn find_the_fault_02(scores: &ArrayRef2<f64>) -> Array2<f64> {
    let exponentials = scores.mapv(f64::exp);
    // instead of: let sums = exponentials.sum_axis(Axis(0));
    let sums = exponentials.sum_axis(Axis(1)).insert_axis(Axis(1));
    &exponentials / &sums
}
// ANCHOR_END: find_the_fault_02
