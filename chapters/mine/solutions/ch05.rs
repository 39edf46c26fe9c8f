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

/// Every vector projected, x W + b. The [`weight`](Projection::weight) is `in × out`, the
/// [`bias`](Projection::bias), if there is one, `out` long.
///
/// `x` is `n × in`, the result is `n × out`.
///
/// # Errors
/// If the vectors are not as wide as the weight takes.
// ANCHOR: project
pub fn project<F: NdFloat>(
    x: &ArrayRef2<F>,
    projection: &Projection<F>,
) -> Result<Array2<F>> {
    // ANCHOR: project_body
    let weight = projection.weight();
    ensure!(
        x.ncols() == weight.nrows(),
        "vectors are {} wide but the projection takes {}",
        x.ncols(),
        weight.nrows()
    );
    let y = x.dot(weight);
    Ok(match projection.bias() {
        Some(bias) => y + bias,
        None => y,
    })
    // ANCHOR_END: project_body
}
// ANCHOR_END: project

/// The answers of all heads, side by side: concat(head_1, …, head_h), each head being your
/// `masked_attention` of its own columns.
///
/// `q` are `m × (heads · d_k)`, `k` are `n × (heads · d_k)`, `v` are `n × (heads · d_v)`, the result is
/// `m × (heads · d_v)`. The mask stretches to `(1, heads, m, n)`, and each head has its own part of it.
///
/// # Errors
/// If the heads do not divide a width, or the shapes or the mask do not fit.
// ANCHOR: side_by_side
pub fn side_by_side<F: NdFloat>(
    heads: usize,
    q: &ArrayRef2<F>,
    k: &ArrayRef2<F>,
    v: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: side_by_side_body
    let (m, n) = (q.nrows(), k.nrows());
    mask.fit((1, heads, m, n))?;
    let mut joined = Array2::zeros((m, v.ncols()));
    for head in 0..heads {
        let of_keys = columns_of_head(k.ncols(), heads, head)?;
        let of_values = columns_of_head(v.ncols(), heads, head)?;
        let mask =
            Mask::from_fn((1, 1, m, n), |_, _, i, j| mask.allows(0, head, i, j));
        let answer = masked_attention(
            &q.slice(s![.., of_keys.clone()]),
            &k.slice(s![.., of_keys]),
            &v.slice(s![.., of_values.clone()]),
            &mask,
        )?;
        joined.slice_mut(s![.., of_values]).assign(&answer);
    }
    Ok(joined)
    // ANCHOR_END: side_by_side_body
}
// ANCHOR_END: side_by_side

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
// ANCHOR: multi_head
pub fn multi_head<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: multi_head_body
    let [w_query, w_key, w_value, w_output] = numbers.projections();
    let q = project(queries, w_query)?;
    let k = project(keys, w_key)?;
    let v = project(values, w_value)?;
    let joined = side_by_side(numbers.heads(), &q, &k, &v, mask)?;
    project(&joined, w_output)
    // ANCHOR_END: multi_head_body
}
// ANCHOR_END: multi_head

/// By hand: the parameters of multi-head attention, 12 wide, 3 heads, with biases.
// ANCHOR: parameters_by_hand
pub fn parameters_by_hand() -> usize {
    // ANCHOR: parameters_by_hand_body
    // Four projections of 12 × 12 weights and 12 biases; the heads do not matter.
    4 * (12 * 12 + 12)
    // ANCHOR_END: parameters_by_hand_body
}
// ANCHOR_END: parameters_by_hand

/// Find the fault: this wants to join the answers of the heads side by side, the first head's
/// columns first, and one line of it is wrong.
///
/// Each answer is `m × d_v`, the result is `m × (heads · d_v)`.
///
/// # Errors
/// If there are no heads, or their answers differ in shape.
// ANCHOR: find_the_fault_05
pub fn find_the_fault_05(answers: &[Array2<f64>]) -> Result<Array2<f64>> {
    let views: Vec<_> = answers.iter().map(|answer| answer.view()).collect();
    // heads × m × d_v
    let stacked = stack(Axis(0), &views)?;
    let (heads, m, d_v) = stacked.dim();
    // instead of: let in_order = stacked;
    let in_order = stacked.permuted_axes([1, 0, 2]);
    let joined = in_order.as_standard_layout().into_owned();
    Ok(joined.into_shape_with_order((m, heads * d_v))?)
}
// ANCHOR_END: find_the_fault_05
