//! Alignment scores: how well does a query match each key?
//!
//! A *query* says what is looked for, a *key* says what an entry offers to be found by. This crate
//! turns a query and a key into one number, the alignment score, in the four ways that are in use:
//! the dot product, and its cosine, bilinear and additive alternatives.
//!
//! Everywhere `m` is the number of queries, `n` the number of keys and `d_k` the width of both.
//! A row is a vector: queries are `m × d_k`, keys are `n × d_k`, scores are `m × n`.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ndarray::{
    Array2, Array3, ArrayRef1, ArrayRef2, ArrayRef3, Axis, NdFloat, array,
};
// ANCHOR_END: imports

/// The score of one query and one key: their dot product `q · k`.
///
/// Both are `d_k` wide. Two vectors of width 0 score 0, the empty sum.
///
/// # Errors
/// If the widths differ.
///
/// Source: Luong, Pham, Manning, *Effective Approaches to Attention-based Neural Machine
/// Translation* (2015), section 3.1, "dot".
// ANCHOR: dot_score
pub fn dot_score<F: NdFloat>(
    query: &ArrayRef1<F>,
    key: &ArrayRef1<F>,
) -> Result<F> {
    ensure!(
        query.len() == key.len(),
        "the query is {} wide but the key is {} wide",
        query.len(),
        key.len()
    );
    Ok(query.dot(key))
}
// ANCHOR_END: dot_score

/// All the scores at once: `E = Q Kᵀ`, where `E[i, j]` is the score of query `i` and key `j`.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.1, before the scale.
// ANCHOR: alignment_scores
pub fn alignment_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    ensure!(
        queries.ncols() == keys.ncols(),
        "queries are {} wide but keys are {} wide",
        queries.ncols(),
        keys.ncols()
    );
    // E = Q Kᵀ:  (m × d_k) · (d_k × n)  →  m × n
    Ok(queries.dot(&keys.t()))
}
// ANCHOR_END: alignment_scores

/// The scores of a batch: `E_b = Q_b K_bᵀ` for every batch entry `b` on its own.
///
/// `queries` are `batch × m × d_k`, `keys` are `batch × n × d_k`, the result is `batch × m × n`.
/// Of the keys' three axes only the last two trade places; the batch stays where it is.
///
/// # Errors
/// If the two batches differ in size, or queries and keys in width.
// ANCHOR: batched_scores
pub fn batched_scores<F: NdFloat>(
    queries: &ArrayRef3<F>,
    keys: &ArrayRef3<F>,
) -> Result<Array3<F>> {
    let ((batch, m, d_k), (key_batch, n, key_width)) = (queries.dim(), keys.dim());
    ensure!(
        batch == key_batch,
        "queries come in a batch of {batch} but keys in a batch of {key_batch}"
    );
    ensure!(
        d_k == key_width,
        "queries are {d_k} wide but keys are {key_width} wide"
    );
    let mut scores = Array3::zeros((batch, m, n));
    for b in 0..batch {
        // E_b = Q_b K_bᵀ
        let scores_b = alignment_scores(
            &queries.index_axis(Axis(0), b),
            &keys.index_axis(Axis(0), b),
        )?;
        scores.index_axis_mut(Axis(0), b).assign(&scores_b);
    }
    Ok(scores)
}
// ANCHOR_END: batched_scores

/// Cosine scores: `cos θ = q · k / (‖q‖ ‖k‖)` for every pair, the direction without the length.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n` and lies in [−1, 1] up to
/// rounding. A vector of zeros has no direction: its scores against finite vectors are 0. An infinity or a NaN
/// in a vector makes its scores NaN.
///
/// # Errors
/// If queries and keys are not equally wide.
///
/// Source: Graves, Wayne, Danihelka, *Neural Turing Machines* (2014), equation 6.
// ANCHOR: cosine_scores
pub fn cosine_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // cos θ = (q/‖q‖) · (k/‖k‖)
    alignment_scores(&unit_rows(queries), &unit_rows(keys))
}

/// Each row divided by its length; a row of zeros stays as it is.
fn unit_rows<F: NdFloat>(rows: &ArrayRef2<F>) -> Array2<F> {
    let mut units = rows.to_owned();
    for mut row in units.rows_mut() {
        let largest = row.fold(F::zero(), |largest, x| largest.max(x.abs()));
        if largest.is_zero() {
            continue;
        }
        // Divide by the largest entry first, so that no square overflows or vanishes.
        row.mapv_inplace(|x| x / largest);
        let length = row.dot(&row).sqrt();
        row.mapv_inplace(|x| x / length);
    }
    units
}
// ANCHOR_END: cosine_scores

/// Bilinear scores: `E[i, j] = q_iᵀ W k_j`, with a learned matrix between the two.
///
/// `queries` are `m × d_q`, `weight` is `d_q × d_k`, `keys` are `n × d_k`, the result is `m × n`.
/// Queries and keys may differ in width. With the identity as weight these are the dot scores.
///
/// # Errors
/// If the weight's rows do not match the queries or its columns do not match the keys.
///
/// Source: Luong, Pham, Manning (2015), section 3.1, "general".
// ANCHOR: bilinear_scores
pub fn bilinear_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    weight: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    ensure!(
        (queries.ncols(), keys.ncols()) == weight.dim(),
        "queries are {} wide and keys are {} wide, but the weight between them is {} × {}",
        queries.ncols(),
        keys.ncols(),
        weight.nrows(),
        weight.ncols()
    );
    // E = (Q W) Kᵀ
    alignment_scores(&queries.dot(weight), keys)
}
// ANCHOR_END: bilinear_scores

/// Additive scores: `E[i, j] = vᵀ tanh(W_q q_i + W_k k_j)`, a small network with one hidden layer
/// of width `d_a`.
///
/// `queries` are `m × d_q`, `keys` are `n × d_k`, `w_query` is `d_a × d_q`, `w_key` is `d_a × d_k`,
/// `v` is `d_a` long, the result is `m × n`. Queries and keys may differ in width.
///
/// # Errors
/// If `w_query` does not fit the queries, `w_key` the keys, or the three hidden widths differ.
///
/// Source: Bahdanau, Cho, Bengio, *Neural Machine Translation by Jointly Learning to Align and
/// Translate* (2015), appendix A.1.2.
// ANCHOR: additive_scores
pub fn additive_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    w_query: &ArrayRef2<F>,
    w_key: &ArrayRef2<F>,
    v: &ArrayRef1<F>,
) -> Result<Array2<F>> {
    ensure!(
        w_query.nrows() == v.len() && w_key.nrows() == v.len(),
        "the hidden layer is {} wide after w_query, {} after w_key and {} in v",
        w_query.nrows(),
        w_key.nrows(),
        v.len()
    );
    ensure!(
        queries.ncols() == w_query.ncols(),
        "queries are {} wide but w_query takes {}",
        queries.ncols(),
        w_query.ncols()
    );
    ensure!(
        keys.ncols() == w_key.ncols(),
        "keys are {} wide but w_key takes {}",
        keys.ncols(),
        w_key.ncols()
    );
    // W_q q_i and W_k k_j are rows of Q W_qᵀ (m × d_a) and K W_kᵀ (n × d_a).
    let from_queries = alignment_scores(queries, w_query)?;
    let from_keys = alignment_scores(keys, w_key)?;
    Ok(Array2::from_shape_fn(
        (queries.nrows(), keys.nrows()),
        |(i, j)| {
            // e_ij = vᵀ tanh(W_q q_i + W_k k_j)
            let hidden =
                (&from_queries.row(i) + &from_keys.row(j)).mapv(|x| x.tanh());
            v.dot(&hidden)
        },
    ))
}
// ANCHOR_END: additive_scores

/// The book's sentence, "today the weather is very nice".
// ANCHOR: sentence
pub const SENTENCE: [&str; 4] = ["今天", "天气", "很", "好"];
// ANCHOR_END: sentence

/// A picture in the plane: one query (1 × 2) and four keys (4 × 2). `k1` points almost along the
/// query, `k2` is less well aligned but longer, `k3` stands across it and `k4` points away.
// ANCHOR: plane_example
pub fn plane_example() -> (Array2<f64>, Array2<f64>) {
    let queries = array![[2.0, 0.0]];
    let keys = array![[1.2, 0.35], [2.4, 1.8], [0.0, 1.5], [-1.5, 0.8]];
    (queries, keys)
}
// ANCHOR_END: plane_example

/// The book's first example: one query `q1` (1 × 4) and four keys `k1` … `k4` (4 × 4), a key for each
/// word of [`SENTENCE`].
///
/// Source of the numbers: Vasilev, *Python Deep Learning*, 3rd edition (2023), chapter 7.
// ANCHOR: first_example
pub fn first_example() -> (Array2<f64>, Array2<f64>) {
    let queries = array![[0.6, 1.2, -1.2, 1.8]];
    let keys = array![
        [-0.2, 0.4, 1.2, 0.8],
        [0.2, 0.4, -0.6, 0.6],
        [0.6, -0.4, 1.4, 0.8],
        [1.6, 0.2, 1.0, 0.2],
    ];
    (queries, keys)
}
// ANCHOR_END: first_example

/// The book's second example: two queries (2 × 3) and four keys (4 × 3), no two scores alike and
/// no two sizes alike, so that a swapped row, column or axis shows.
// ANCHOR: second_example
pub fn second_example() -> (Array2<f64>, Array2<f64>) {
    let queries = array![[1.0, 0.5, -1.0], [-0.5, 2.0, 0.5]];
    let keys = array![
        [0.5, 1.0, 0.25],
        [2.0, -1.0, 0.5],
        [-1.0, 0.75, 1.5],
        [0.25, 0.5, -1.25],
    ];
    (queries, keys)
}
// ANCHOR_END: second_example
