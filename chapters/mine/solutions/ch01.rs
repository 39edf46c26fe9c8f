//! Chapter 1: how well does each query match each key?

use anyhow::{Result, ensure};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, Axis, NdFloat};

/// The scores of every query and every key, E = Q Kᵀ. Everything that follows is built on this.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide.
// ANCHOR: scores
pub fn scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: scores_body
    ensure!(
        queries.ncols() == keys.ncols(),
        "queries are {} wide but keys are {} wide",
        queries.ncols(),
        keys.ncols()
    );
    // E = Q Kᵀ:  m × d_k · d_k × n  →  m × n
    Ok(queries.dot(&keys.t()))
    // ANCHOR_END: scores_body
}
// ANCHOR_END: scores

/// For each query, the number of its best key, counted from 0; the first of them, if several tie.
///
/// `scores` are `m × n`, the result is `m` long.
///
/// # Errors
/// If there are no keys.
// ANCHOR: best_key
pub fn best_key<F: NdFloat>(scores: &ArrayRef2<F>) -> Result<Vec<usize>> {
    // ANCHOR: best_key_body
    ensure!(scores.ncols() > 0, "there are no keys to choose from");
    let best = |row: &ArrayRef1<F>| {
        (1..row.len()).fold(0, |best, j| if row[j] > row[best] { j } else { best })
    };
    Ok(scores.rows().into_iter().map(|row| best(&row)).collect())
    // ANCHOR_END: best_key_body
}
// ANCHOR_END: best_key

/// By hand: the score of `q1` of the chapter's first example and a fifth key, [0.5, −1, 2, 1].
// ANCHOR: score_by_hand
pub fn score_by_hand() -> f64 {
    // ANCHOR: score_by_hand_body
    // 0.6 · 0.5 − 1.2 · 1.0 − 1.2 · 2.0 + 1.8 · 1.0 = 0.3 − 1.2 − 2.4 + 1.8
    -1.5
    // ANCHOR_END: score_by_hand_body
}
// ANCHOR_END: score_by_hand

/// By hand: a key, not all zeros, that `q1` of the chapter's first example scores 0.
// ANCHOR: key_at_a_right_angle
pub fn key_at_a_right_angle() -> [f64; 4] {
    // ANCHOR: key_at_a_right_angle_body
    // 0.6 · 1.2 + 1.2 · (−0.6) = 0
    [1.2, -0.6, 0.0, 0.0]
    // ANCHOR_END: key_at_a_right_angle_body
}
// ANCHOR_END: key_at_a_right_angle

/// The scores −‖q_i − k_j‖², without a loop over pairs: with your `scores`.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide.
// ANCHOR: distance_scores
pub fn distance_scores(
    queries: &ArrayRef2<f64>,
    keys: &ArrayRef2<f64>,
) -> Result<Array2<f64>> {
    // ANCHOR: distance_scores_body
    let squared_lengths = |rows: &ArrayRef2<f64>| -> Array1<f64> {
        rows.mapv(|x| x * x).sum_axis(Axis(1))
    };
    // m × n  −  m × 1  −  n
    Ok(2.0 * scores(queries, keys)?
        - squared_lengths(queries).insert_axis(Axis(1))
        - squared_lengths(keys))
    // ANCHOR_END: distance_scores_body
}
// ANCHOR_END: distance_scores

/// Find the fault: this wants to be the cosine between two vectors, q · k / (‖q‖ ‖k‖), and one line
/// of it is wrong.
// ANCHOR: find_the_fault_01
pub fn find_the_fault_01(q: &ArrayRef1<f64>, k: &ArrayRef1<f64>) -> f64 {
    // instead of: let lengths = q.dot(q) * k.dot(k);
    let lengths = (q.dot(q) * k.dot(k)).sqrt();
    q.dot(k) / lengths
}
// ANCHOR_END: find_the_fault_01
