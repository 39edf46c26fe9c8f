//! Chapter 3: why divide by √d_k?

use crate::ch01::scores;
use crate::ch02::{attention_weights, weighted_sum};
use anyhow::{Result, ensure};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, NdFloat};

/// The scores of chapter 1, divided by √d_k: Q Kᵀ / √d_k.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide, or 0 wide.
// ANCHOR: scaled_scores
pub fn scaled_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: scaled_scores_body
    let d_k = queries.ncols();
    ensure!(d_k > 0, "1/√d_k has no value for a width of 0");
    let root = F::from(d_k).expect("a width is a number").sqrt();
    Ok(scores(queries, keys)? / root)
    // ANCHOR_END: scaled_scores_body
}
// ANCHOR_END: scaled_scores

/// Scaled dot-product attention, softmax(Q Kᵀ / √d_k) V, out of what you have.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, the result is `m × d_v`.
///
/// # Errors
/// If the shapes do not fit each other.
// ANCHOR: attention
pub fn attention<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: attention_body
    let weights = attention_weights(&scaled_scores(queries, keys)?);
    weighted_sum(&weights, values)
    // ANCHOR_END: attention_body
}
// ANCHOR_END: attention

/// By hand: the two weights of scaled attention for scores 4 log 3 and 0 at width 16.
// ANCHOR: weights_by_hand
pub fn weights_by_hand() -> [f64; 2] {
    // ANCHOR: weights_by_hand_body
    [0.75, 0.25]
    // ANCHOR_END: weights_by_hand_body
}
// ANCHOR_END: weights_by_hand

/// The factor that gives a score variance 1, for entries of mean 0 and the given variances.
// ANCHOR: scale_for
pub fn scale_for(d_k: usize, query_variance: f64, key_variance: f64) -> f64 {
    // ANCHOR: scale_for_body
    1.0 / (d_k as f64 * query_variance * key_variance).sqrt()
    // ANCHOR_END: scale_for_body
}
// ANCHOR_END: scale_for

/// From the derivatives by the weights, `g`, to the derivatives by the scores, without the table of
/// all ∂a_i/∂e_j. Chapter 9 asks for it again.
///
/// `weights` and `g` are `n` long, and so is the result.
// ANCHOR: gradient_through_softmax
pub fn gradient_through_softmax<F: NdFloat>(
    weights: &ArrayRef1<F>,
    g: &ArrayRef1<F>,
) -> Array1<F> {
    // ANCHOR: gradient_through_softmax_body
    // a_j (g_j − g · a)
    weights * (g - weights.dot(g))
    // ANCHOR_END: gradient_through_softmax_body
}
// ANCHOR_END: gradient_through_softmax

/// Find the fault: this wants to be the scale of attention, and one line of it is wrong.
///
/// `keys` are `n × d_k`.
// ANCHOR: find_the_fault_03
pub fn find_the_fault_03(keys: &ArrayRef2<f64>) -> f64 {
    // instead of: let d_k = keys.nrows();
    let d_k = keys.ncols();
    1.0 / (d_k as f64).sqrt()
}
// ANCHOR_END: find_the_fault_03
