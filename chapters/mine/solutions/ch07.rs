//! Chapter 7: what if one sequence reads another?

use crate::ch04::causal;
use crate::ch05::multi_head;
use anyhow::Result;
use ch04_masks::{Mask, Shape};
use ch05_multihead::MultiHeadAttention;
use ndarray::{Array1, Array2, ArrayRef2, Axis, NdFloat};

/// Cross-attention: the decoder asks, the encoder's memory answers.
///
/// `decoder` is `m × d_model`, `memory` has `n` rows, the result is `m × d_model`. The mask is over the
/// source, and stretches to `(1, heads, m, n)`.
///
/// # Errors
/// As your `multi_head`.
// ANCHOR: cross_attention
pub fn cross_attention<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    decoder: &ArrayRef2<F>,
    memory: &ArrayRef2<F>,
    source_mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: cross_attention_body
    multi_head(numbers, decoder, memory, memory, source_mask)
    // ANCHOR_END: cross_attention_body
}
// ANCHOR_END: cross_attention

/// The masks of a decoder's self-attention, `(1, 1, m, m)`, and of its cross-attention, which stretches
/// to `(1, 1, m, n)`, in this order. Neither lets padding be seen.
///
/// `source` has `n` tokens, `target` has `m`.
// ANCHOR: decoder_masks
pub fn decoder_masks(source: &[u32], target: &[u32], pad: u32) -> (Mask, Mask) {
    // ANCHOR: decoder_masks_body
    let (m, n) = (target.len(), source.len());
    let future = causal(m, m);
    let own = Mask::from_fn((1, 1, m, m), |_, _, i, j| {
        future.allows(0, 0, i, j) && target[j] != pad
    });
    let cross = Mask::from_fn((1, 1, 1, n), |_, _, _, j| source[j] != pad);
    (own, cross)
    // ANCHOR_END: decoder_masks_body
}
// ANCHOR_END: decoder_masks

/// By hand: the shape of the cross-attention weights of the speech recogniser.
// ANCHOR: shape_by_hand
pub fn shape_by_hand() -> Shape {
    // ANCHOR: shape_by_hand_body
    (4, 8, 7, 200)
    // ANCHOR_END: shape_by_hand_body
}
// ANCHOR_END: shape_by_hand

/// How much attention each source word got from all target words together.
///
/// `weights` are `m × n`, the result is `n` long.
// ANCHOR: coverage
pub fn coverage(weights: &ArrayRef2<f64>) -> Array1<f64> {
    // ANCHOR: coverage_body
    weights.sum_axis(Axis(0))
    // ANCHOR_END: coverage_body
}
// ANCHOR_END: coverage

/// Find the fault: this wants to be the mask of cross-attention, which hides padding, and one line of
/// it is wrong.
///
/// `source` has `n` tokens, `target` has `m`; the mask is `(1, 1, m, n)`.
// ANCHOR: find_the_fault_07
pub fn find_the_fault_07(source: &[u32], target: &[u32], pad: u32) -> Mask {
    let m = target.len();
    // instead of: let keys = target;
    let keys = source;
    Mask::from_fn((1, 1, m, keys.len()), |_, _, _, j| keys[j] != pad)
}
// ANCHOR_END: find_the_fault_07
