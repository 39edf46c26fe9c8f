//! Exercises of chapter 1, alignment scores.

use anyhow::{Result, ensure};
use ch01_alignment::alignment_scores;
use ndarray::{Array1, Array2, ArrayView2, Axis};

/// Exercise 1: the score of `q1` and `k4` of the first example, worked out by hand.
// ANCHOR: score_by_hand
pub fn score_by_hand() -> f64 {
    // ANCHOR: score_by_hand_body
    // 0.6 · 1.6 + 1.2 · 0.2 − 1.2 · 1.0 + 1.8 · 0.2 = 0.96 + 0.24 − 1.20 + 0.36
    0.36
    // ANCHOR_END: score_by_hand_body
}
// ANCHOR_END: score_by_hand

/// Exercise 2: a key, not all zeros, that `q1` of the first example scores 0.
// ANCHOR: key_at_a_right_angle
pub fn key_at_a_right_angle() -> [f64; 4] {
    // ANCHOR: key_at_a_right_angle_body
    // 0.6 · 1.2 + 1.2 · (−0.6) = 0
    [1.2, -0.6, 0.0, 0.0]
    // ANCHOR_END: key_at_a_right_angle_body
}
// ANCHOR_END: key_at_a_right_angle

/// Exercise 3: for each query, the index of its best key, counted from 0; the first of them, if
/// several tie.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m` long.
///
/// # Errors
/// If queries and keys are not equally wide, or there are no keys.
// ANCHOR: best_key
pub fn best_key(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
) -> Result<Vec<usize>> {
    // ANCHOR: best_key_body
    ensure!(keys.nrows() > 0, "there are no keys to choose from");
    let scores = alignment_scores(queries, keys)?;
    Ok(scores
        .rows()
        .into_iter()
        .map(|row| {
            (1..row.len())
                .fold(0, |best, j| if row[j] > row[best] { j } else { best })
        })
        .collect())
    // ANCHOR_END: best_key_body
}
// ANCHOR_END: best_key

/// Exercise 4: the scores −‖q_i − k_j‖².
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
// ANCHOR: distance_scores
pub fn distance_scores(
    queries: ArrayView2<f64>,
    keys: ArrayView2<f64>,
) -> Result<Array2<f64>> {
    // ANCHOR: distance_scores_body
    let squared_lengths = |rows: ArrayView2<f64>| -> Array1<f64> {
        rows.mapv(|x| x * x).sum_axis(Axis(1))
    };
    // m × n  −  m × 1  −  n
    Ok(2.0 * alignment_scores(queries, keys)?
        - squared_lengths(queries).insert_axis(Axis(1))
        - squared_lengths(keys))
    // ANCHOR_END: distance_scores_body
}
// ANCHOR_END: distance_scores
