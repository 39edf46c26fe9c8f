//! Exercises of chapter 1, alignment scores.

use anyhow::{Result, ensure};
use ch01_alignment::alignment_scores;
use ndarray::{Array1, Array2, ArrayView2, Axis};

/// Exercise 1: the score of `q1` and `k4` of the first example, worked out by hand.
pub fn score_by_hand() -> f64 {
    todo!("complete score_by_hand")
}

/// Exercise 2: a key, not all zeros, that `q1` of the first example scores 0.
pub fn key_at_a_right_angle() -> [f64; 4] {
    todo!("complete key_at_a_right_angle")
}

/// Exercise 3: for each query, the index of its best key, counted from 0; the first of them, if
/// several tie.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m` long.
///
/// # Errors
/// If queries and keys are not equally wide, or there are no keys.
pub fn best_key(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
) -> Result<Vec<usize>> {
    todo!("complete best_key")
}

/// Exercise 4: the scores −‖q_i − k_j‖².
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
pub fn distance_scores(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
) -> Result<Array2<f64>> {
    todo!("complete distance_scores")
}
