//! Exercises of chapter 7, cross-attention.

use anyhow::Result;
use ch04_masks::{Mask, Shape};
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::{bidirectional_mask, causal_mask};
use ch07_cross_attention::cross_attention;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the shape of the cross-attention weights of the speech recogniser.
pub fn shape_by_hand() -> Shape {
    todo!("complete shape_by_hand")
}

/// Exercise 2: the masks of a decoder's self-attention and of its cross-attention, in this order.
///
/// `source` is `batch × n`, `target` is `batch × m`.
pub fn decoder_masks(
    source: ArrayView2<u32>,
    target: ArrayView2<u32>,
    pad: u32,
) -> Result<(Mask, Mask)> {
    todo!("complete decoder_masks")
}

/// Exercise 3: one query asks every text.
///
/// `query` is `d_model` wide, `texts` are `(batch, n, d_model)`, the result is `batch × d_model`.
pub fn pool(
    attention: &MultiHeadAttention<f64>,
    query: ArrayView1<f64>,
    texts: ArrayView3<f64>,
    mask: &Mask,
) -> Result<Array2<f64>> {
    todo!("complete pool")
}

/// Exercise 4: how much attention each source word got from all target words together.
///
/// `weights` are `m × n`, the result is `n` long.
pub fn coverage(weights: ArrayView2<f64>) -> Array1<f64> {
    todo!("complete coverage")
}
