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
pub fn scaled_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    todo!("ch03::scaled_scores")
}

/// Scaled dot-product attention, softmax(Q Kᵀ / √d_k) V, out of what you have.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, the result is `m × d_v`.
///
/// # Errors
/// If the shapes do not fit each other.
pub fn attention<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    todo!("ch03::attention")
}

/// By hand: the two weights of scaled attention for scores 4 log 3 and 0 at width 16.
pub fn weights_by_hand() -> [f64; 2] {
    todo!("ch03::weights_by_hand")
}

/// The factor that gives a score variance 1, for entries of mean 0 and the given variances.
pub fn scale_for(d_k: usize, query_variance: f64, key_variance: f64) -> f64 {
    todo!("ch03::scale_for")
}

/// From the derivatives by the weights, `g`, to the derivatives by the scores, without the table of
/// all ∂a_i/∂e_j. Chapter 9 asks for it again.
///
/// `weights` and `g` are `n` long, and so is the result.
pub fn gradient_through_softmax<F: NdFloat>(
    weights: &ArrayRef1<F>,
    g: &ArrayRef1<F>,
) -> Array1<F> {
    todo!("ch03::gradient_through_softmax")
}

/// Find the fault: this wants to be the scale of attention, and one line of it is wrong.
///
/// `keys` are `n × d_k`.
pub fn find_the_fault_03(keys: &ArrayRef2<f64>) -> f64 {
    let d_k = keys.nrows();
    1.0 / (d_k as f64).sqrt()
}
