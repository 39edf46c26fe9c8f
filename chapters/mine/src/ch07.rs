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
pub fn cross_attention<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    decoder: &ArrayRef2<F>,
    memory: &ArrayRef2<F>,
    source_mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch07::cross_attention")
}

/// The masks of a decoder's self-attention, `(1, 1, m, m)`, and of its cross-attention, which stretches
/// to `(1, 1, m, n)`, in this order. Neither lets padding be seen.
///
/// `source` has `n` tokens, `target` has `m`.
pub fn decoder_masks(source: &[u32], target: &[u32], pad: u32) -> (Mask, Mask) {
    todo!("ch07::decoder_masks")
}

/// By hand: the shape of the cross-attention weights of the speech recogniser.
pub fn shape_by_hand() -> Shape {
    todo!("ch07::shape_by_hand")
}

/// How much attention each source word got from all target words together.
///
/// `weights` are `m × n`, the result is `n` long.
pub fn coverage(weights: &ArrayRef2<f64>) -> Array1<f64> {
    todo!("ch07::coverage")
}

/// Find the fault: this wants to be the mask of cross-attention, which hides padding, and one line of
/// it is wrong.
///
/// `source` has `n` tokens, `target` has `m`; the mask is `(1, 1, m, n)`.
pub fn find_the_fault_07(source: &[u32], target: &[u32], pad: u32) -> Mask {
    let m = target.len();
    let keys = target;
    Mask::from_fn((1, 1, m, keys.len()), |_, _, _, j| keys[j] != pad)
}
