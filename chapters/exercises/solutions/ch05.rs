//! Exercises of chapter 5, multi-head attention.

use anyhow::{Result, ensure};
use ch03_scaled::scaled_dot_product_attention;
use ch05_multihead::{Projection, merge_heads};
use ndarray::{Array2, Array3, ArrayView2, ArrayView4, Axis, s};
use std::ops::Range;

/// Exercise 1: the parameters of multi-head attention, 12 wide, 3 heads, with biases.
// ANCHOR: parameters_by_hand
pub fn parameters_by_hand() -> usize {
    // ANCHOR: parameters_by_hand_body
    // Four projections of 12 × 12 weights and 12 biases; the heads do not matter.
    4 * (12 * 12 + 12)
    // ANCHOR_END: parameters_by_hand_body
}
// ANCHOR_END: parameters_by_hand

/// Exercise 2: the columns of one head.
///
/// # Errors
/// If `heads` does not divide `width`, or there is no head of this number, counted from 0.
// ANCHOR: columns_of_head
pub fn columns_of_head(
    width: usize,
    heads: usize,
    head: usize,
) -> Result<Range<usize>> {
    // ANCHOR: columns_of_head_body
    ensure!(head < heads, "there is no head {head} among {heads}");
    ensure!(
        width.is_multiple_of(heads),
        "{heads} heads do not divide {width}"
    );
    let d = width / heads;
    Ok(head * d..(head + 1) * d)
    // ANCHOR_END: columns_of_head_body
}
// ANCHOR_END: columns_of_head

/// Exercise 3: self-attention of one sequence, head by head, without biases and without a mask.
///
/// `x` is `n × d_model`; the weights are those of all heads side by side, `d_model × (heads · d_k)`,
/// and `w_output` is `(heads · d_v) × d_model`.
///
/// # Errors
/// If there are no heads, or they do not divide the width of the queries, keys or values.
// ANCHOR: head_by_head
pub fn head_by_head(
    x: ArrayView2<f64>,
    heads: usize,
    w_query: ArrayView2<f64>,
    w_key: ArrayView2<f64>,
    w_value: ArrayView2<f64>,
    w_output: ArrayView2<f64>,
) -> Result<Array2<f64>> {
    // ANCHOR: head_by_head_body
    ensure!(heads > 0, "attention needs at least one head");
    let mut joined = Array2::zeros((x.nrows(), w_value.ncols()));
    for head in 0..heads {
        let of_head = |weight: ArrayView2<f64>| -> Result<Array2<f64>> {
            let columns = columns_of_head(weight.ncols(), heads, head)?;
            Ok(x.dot(&weight.slice(s![.., columns])))
        };
        let (q, k, v) = (of_head(w_query)?, of_head(w_key)?, of_head(w_value)?);
        let answer =
            scaled_dot_product_attention(q.view(), k.view(), v.view())?.output;
        let columns = columns_of_head(w_value.ncols(), heads, head)?;
        joined.slice_mut(s![.., columns]).assign(&answer);
    }
    Ok(joined.dot(&w_output))
    // ANCHOR_END: head_by_head_body
}
// ANCHOR_END: head_by_head

/// Exercise 4: the output if one head had answered 0.
///
/// `answers` are `(batch, heads, m, d_v)`, the result is `(batch, m, d_model)`.
///
/// # Errors
/// If there is no head of this number, or the projection does not fit.
// ANCHOR: without_head
pub fn without_head(
    answers: ArrayView4<f64>,
    head: usize,
    output: &Projection<f64>,
) -> Result<Array3<f64>> {
    // ANCHOR: without_head_body
    let heads = answers.len_of(Axis(1));
    ensure!(head < heads, "there is no head {head} among {heads}");
    let mut silenced = answers.to_owned();
    silenced.index_axis_mut(Axis(1), head).fill(0.0);
    output.apply(merge_heads(silenced.view()).view())
    // ANCHOR_END: without_head_body
}
// ANCHOR_END: without_head
