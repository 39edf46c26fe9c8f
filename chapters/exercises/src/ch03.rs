//! Exercises of chapter 3, scaled attention.

use anyhow::Result;
use ch01_alignment::alignment_scores;
use ch02_softmax::{Attention, attend};
use ch03_scaled::scale;
use ndarray::{Array1, ArrayView1, ArrayView2};

/// Exercise 1: the two weights of scaled attention for scores 4 log 3 and 0 at width 16, by hand.
pub fn weights_by_hand() -> [f64; 2] {
    todo!("complete weights_by_hand")
}

/// Exercise 2: the factor that gives a score variance 1, for entries of the given variances.
pub fn scale_for(d_k: usize, query_variance: f64, key_variance: f64) -> f64 {
    todo!("complete scale_for")
}

/// Exercise 3: scaled dot-product attention with the scale on the queries.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`.
pub fn attention_with_scaled_queries(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
    values: ArrayView2<f64>,
) -> Result<Attention<f64>> {
    todo!("complete attention_with_scaled_queries")
}

/// Exercise 4: from the derivatives by the weights, `g`, to the derivatives by the scores.
///
/// `weights` and `g` are `n` long, and so is the result.
pub fn gradient_through_softmax(weights: ArrayView1<f64>, g: ArrayView1<f64>) -> Array1<f64> {
    todo!("complete gradient_through_softmax")
}
