//! Exercises of chapter 7, cross-attention.

use anyhow::Result;
use ch04_masks::{Mask, Shape};
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::{bidirectional_mask, causal_mask};
use ch07_cross_attention::cross_attention;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the shape of the cross-attention weights of the speech recogniser.
// ANCHOR: shape_by_hand
pub fn shape_by_hand() -> Shape {
    // ANCHOR: shape_by_hand_body
    (4, 8, 7, 200)
    // ANCHOR_END: shape_by_hand_body
}
// ANCHOR_END: shape_by_hand

/// Exercise 2: the masks of a decoder's self-attention and of its cross-attention, in this order.
///
/// `source` is `batch × n`, `target` is `batch × m`.
// ANCHOR: decoder_masks
pub fn decoder_masks(
    source: ArrayView2<u32>,
    target: ArrayView2<u32>,
    pad: u32,
) -> Result<(Mask, Mask)> {
    // ANCHOR: decoder_masks_body
    Ok((causal_mask(target, pad)?, bidirectional_mask(source, pad)))
    // ANCHOR_END: decoder_masks_body
}
// ANCHOR_END: decoder_masks

/// Exercise 3: one query asks every text.
///
/// `query` is `d_model` wide, `texts` are `(batch, n, d_model)`, the result is `batch × d_model`.
// ANCHOR: pool
pub fn pool(
    attention: &MultiHeadAttention<f64>,
    query: ArrayView1<f64>,
    texts: ArrayView3<f64>,
    mask: &Mask,
) -> Result<Array2<f64>> {
    // ANCHOR: pool_body
    // The same query for every text; whether its width fits, the attention says.
    let queries = query
        .broadcast((texts.len_of(Axis(0)), 1, query.len()))
        .expect("axes may always be put in front");
    let answer = cross_attention(attention, queries, texts, mask)?;
    // Only the axis of the single query goes.
    Ok(answer.output.index_axis_move(Axis(1), 0))
    // ANCHOR_END: pool_body
}
// ANCHOR_END: pool

/// Exercise 4: how much attention each source word got from all target words together.
///
/// `weights` are `m × n`, the result is `n` long.
// ANCHOR: coverage
pub fn coverage(weights: ArrayView2<f64>) -> Array1<f64> {
    // ANCHOR: coverage_body
    weights.sum_axis(Axis(0))
    // ANCHOR_END: coverage_body
}
// ANCHOR_END: coverage
