//! Chapter 5: how to look in several ways at once?

use crate::ch04::masked_attention;
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use ndarray::{Array2, ArrayRef2, Axis, NdFloat, s, stack};
use std::ops::Range;

/// The columns of one head.
///
/// # Errors
/// If `heads` does not divide `width`, or there is no head of this number, counted from 0.
pub fn columns_of_head(
    width: usize,
    heads: usize,
    head: usize,
) -> Result<Range<usize>> {
    todo!("ch05::columns_of_head")
}

/// Every vector projected, x W + b. The [`weight`](Projection::weight) is `in × out`, the
/// [`bias`](Projection::bias), if there is one, `out` long.
///
/// `x` is `n × in`, the result is `n × out`.
///
/// # Errors
/// If the vectors are not as wide as the weight takes.
pub fn project<F: NdFloat>(
    x: &ArrayRef2<F>,
    projection: &Projection<F>,
) -> Result<Array2<F>> {
    todo!("ch05::project")
}

/// The answers of all heads, side by side: concat(head_1, …, head_h), each head being your
/// `masked_attention` of its own columns.
///
/// `q` are `m × (heads · d_k)`, `k` are `n × (heads · d_k)`, `v` are `n × (heads · d_v)`, the result is
/// `m × (heads · d_v)`. The mask stretches to `(1, heads, m, n)`, and each head has its own part of it.
///
/// # Errors
/// If the heads do not divide a width, or the shapes or the mask do not fit.
pub fn side_by_side<F: NdFloat>(
    heads: usize,
    q: &ArrayRef2<F>,
    k: &ArrayRef2<F>,
    v: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch05::side_by_side")
}

/// Multi-head attention of one sequence to another, or to itself: concat(head_1, …, head_h) W^O with
/// head_i made of Q W_i^Q, K W_i^K and V W_i^V.
///
/// `numbers` only holds what was learned: its [`heads`](MultiHeadAttention::heads) and, in the order
/// query, key, value, output, its [`projections`](MultiHeadAttention::projections).
/// `queries` are `m × d_model`, `keys` and `values` have `n` rows, the result is `m × d_model`. The
/// mask stretches to `(1, heads, m, n)`.
///
/// # Errors
/// If the widths or the mask do not fit.
pub fn multi_head<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch05::multi_head")
}

/// By hand: the parameters of multi-head attention, 12 wide, 3 heads, with biases.
pub fn parameters_by_hand() -> usize {
    todo!("ch05::parameters_by_hand")
}

/// Find the fault: this wants to join the answers of the heads side by side, the first head's
/// columns first, and one line of it is wrong.
///
/// Each answer is `m × d_v`, the result is `m × (heads · d_v)`.
///
/// # Errors
/// If there are no heads, or their answers differ in shape.
pub fn find_the_fault_05(answers: &[Array2<f64>]) -> Result<Array2<f64>> {
    let views: Vec<_> = answers.iter().map(|answer| answer.view()).collect();
    // heads × m × d_v
    let stacked = stack(Axis(0), &views)?;
    let (heads, m, d_v) = stacked.dim();
    let in_order = stacked;
    let joined = in_order.as_standard_layout().into_owned();
    Ok(joined.into_shape_with_order((m, heads * d_v))?)
}
