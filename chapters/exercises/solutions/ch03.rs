//! Exercises of chapter 3, scaled attention.

use anyhow::Result;
use ch01_alignment::alignment_scores;
use ch02_softmax::{Attention, attend};
use ch03_scaled::scale;
use ndarray::{Array1, ArrayView1, ArrayView2};

/// Exercise 1: the two weights of scaled attention for scores 4 log 3 and 0 at width 16, by hand.
// ANCHOR: weights_by_hand
pub fn weights_by_hand() -> [f64; 2] {
    // ANCHOR: weights_by_hand_body
    [0.75, 0.25]
    // ANCHOR_END: weights_by_hand_body
}
// ANCHOR_END: weights_by_hand

/// Exercise 2: the factor that gives a score variance 1, for entries of the given variances.
// ANCHOR: scale_for
pub fn scale_for(d_k: usize, query_variance: f64, key_variance: f64) -> f64 {
    // ANCHOR: scale_for_body
    1.0 / (d_k as f64 * query_variance * key_variance).sqrt()
    // ANCHOR_END: scale_for_body
}
// ANCHOR_END: scale_for

/// Exercise 3: scaled dot-product attention with the scale on the queries.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`.
// ANCHOR: attention_with_scaled_queries
pub fn attention_with_scaled_queries(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
    values: ArrayView2<f64>,
) -> Result<Attention<f64>> {
    // ANCHOR: attention_with_scaled_queries_body
    let scaled = &queries * scale::<f64>(queries.ncols())?;
    attend(alignment_scores(scaled.view(), keys)?.view(), values)
    // ANCHOR_END: attention_with_scaled_queries_body
}
// ANCHOR_END: attention_with_scaled_queries

/// Exercise 4: from the derivatives by the weights, `g`, to the derivatives by the scores.
///
/// `weights` and `g` are `n` long, and so is the result.
// ANCHOR: gradient_through_softmax
pub fn gradient_through_softmax(weights: ArrayView1<f64>, g: ArrayView1<f64>) -> Array1<f64> {
    // ANCHOR: gradient_through_softmax_body
    let mean = weights.dot(&g);
    &weights * &(&g - mean)
    // ANCHOR_END: gradient_through_softmax_body
}
// ANCHOR_END: gradient_through_softmax
