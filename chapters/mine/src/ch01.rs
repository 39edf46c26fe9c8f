//! Chapter 1: how well does each query match each key?

use anyhow::{Result, ensure};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, Axis, NdFloat};

/// The scores of every query and every key, E = Q Kᵀ. Everything that follows is built on this.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide.
pub fn scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    todo!("ch01::scores")
}

/// For each query, the number of its best key, counted from 0; the first of them, if several tie.
///
/// `scores` are `m × n`, the result is `m` long.
///
/// # Errors
/// If there are no keys.
pub fn best_key<F: NdFloat>(scores: &ArrayRef2<F>) -> Result<Vec<usize>> {
    todo!("ch01::best_key")
}

/// By hand: the score of `q1` of the chapter's first example and a fifth key, [0.5, −1, 2, 1].
pub fn score_by_hand() -> f64 {
    todo!("ch01::score_by_hand")
}

/// By hand: a key, not all zeros, that `q1` of the chapter's first example scores 0.
pub fn key_at_a_right_angle() -> [f64; 4] {
    todo!("ch01::key_at_a_right_angle")
}

/// The scores −‖q_i − k_j‖², without a loop over pairs: with your `scores`.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide.
pub fn distance_scores(
    queries: &ArrayRef2<f64>,
    keys: &ArrayRef2<f64>,
) -> Result<Array2<f64>> {
    todo!("ch01::distance_scores")
}

/// Find the fault: this wants to be the cosine between two vectors, q · k / (‖q‖ ‖k‖), and one line
/// of it is wrong.
pub fn find_the_fault_01(q: &ArrayRef1<f64>, k: &ArrayRef1<f64>) -> f64 {
    let lengths = q.dot(q) * k.dot(k);
    q.dot(k) / lengths
}
