//! Chapter 6: what if a sequence reads itself?

use crate::ch05::multi_head;
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, cast};
use ndarray::{Array2, ArrayRef2, Axis, NdFloat};

/// Self-attention: queries, keys and values all are the sequence itself.
///
/// `x` is `n × d_model`, and so is the result. The mask stretches to `(1, heads, n, n)`.
///
/// # Errors
/// As your `multi_head`.
pub fn self_attention<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    x: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch06::self_attention")
}

/// Sinusoidal positions: column `2i` of position `p` is sin(p · ω_i), column `2i + 1` is cos(p · ω_i),
/// with ω_i = 10000^(−2i / width). Compute in `f64`; [`cast`] makes an `F` of it.
///
/// The result is `length × width`. The width may be odd.
pub fn positions<F: NdFloat>(length: usize, width: usize) -> Array2<F> {
    todo!("ch06::positions")
}

/// Rotary positions: each pair of columns `(2i, 2i + 1)` is turned by the angle p · ω_i, where p is the
/// vector's position and ω_i is that of your `positions`.
///
/// `x` is `n × d`, `positions` are `n`, the result is `n × d`.
///
/// # Errors
/// If the width is odd, or there is not one position for each vector.
pub fn rotate<F: NdFloat>(
    x: &ArrayRef2<F>,
    positions: &[usize],
) -> Result<Array2<F>> {
    todo!("ch06::rotate")
}

/// By hand: the length at which self-attention of width 512 multiplies as often as a convolution over
/// 3 words.
pub fn break_even_by_hand() -> u32 {
    todo!("ch06::break_even_by_hand")
}

/// Whether exchanging two neighbouring rows of the input exchanges the same rows of the output and
/// changes nothing else, up to 1e-9.
///
/// `x` is `n × d`, and so is what `layer` makes of it.
///
/// # Errors
/// If the layer fails.
pub fn ignores_order(
    layer: impl Fn(&ArrayRef2<f64>) -> Result<Array2<f64>>,
    x: &ArrayRef2<f64>,
) -> Result<bool> {
    todo!("ch06::ignores_order")
}

/// Find the fault: this wants to be one entry of the sinusoidal positions, and one line of it is wrong.
pub fn find_the_fault_06(position: usize, column: usize, width: usize) -> f64 {
    let i = column;
    let frequency = 10_000_f64.powf(-2.0 * i as f64 / width as f64);
    let angle = position as f64 * frequency;
    if column.is_multiple_of(2) {
        angle.sin()
    } else {
        angle.cos()
    }
}
