//! Exercises of chapter 5, multi-head attention.

use anyhow::{Result, ensure};
use ch03_scaled::scaled_dot_product_attention;
use ch05_multihead::{Projection, merge_heads};
use ndarray::{Array2, Array3, ArrayView2, ArrayView4, Axis, s};
use std::ops::Range;

/// Exercise 1: the parameters of multi-head attention, 12 wide, 3 heads, with biases.
pub fn parameters_by_hand() -> usize {
    todo!("complete parameters_by_hand")
}

/// Exercise 2: the columns of one head.
///
/// # Errors
/// If `heads` does not divide `width`, or there is no head of this number, counted from 0.
pub fn columns_of_head(
    width: usize,
    heads: usize,
    head: usize,
) -> Result<Range<usize>> {
    todo!("complete columns_of_head")
}

/// Exercise 3: self-attention of one sequence, head by head, without biases and without a mask.
///
/// `x` is `n × d_model`; the weights are those of all heads side by side, `d_model × (heads · d_k)`,
/// and `w_output` is `(heads · d_v) × d_model`.
///
/// # Errors
/// If there are no heads, or they do not divide the width of the queries, keys or values.
pub fn head_by_head(
    x: ArrayView2<f64>,
    heads: usize,
    w_query: ArrayView2<f64>,
    w_key: ArrayView2<f64>,
    w_value: ArrayView2<f64>,
    w_output: ArrayView2<f64>,
) -> Result<Array2<f64>> {
    todo!("complete head_by_head")
}

/// Exercise 4: the output if one head had answered 0.
///
/// `answers` are `(batch, heads, m, d_v)`, the result is `(batch, m, d_model)`.
///
/// # Errors
/// If there is no head of this number, or the projection does not fit.
pub fn without_head(
    answers: ArrayView4<f64>,
    head: usize,
    output: &Projection<f64>,
) -> Result<Array3<f64>> {
    todo!("complete without_head")
}
