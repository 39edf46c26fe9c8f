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
// ANCHOR: self_attention
pub fn self_attention<F: NdFloat>(
    numbers: &MultiHeadAttention<F>,
    x: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: self_attention_body
    multi_head(numbers, x, x, x, mask)
    // ANCHOR_END: self_attention_body
}
// ANCHOR_END: self_attention

/// Sinusoidal positions: column `2i` of position `p` is sin(p · ω_i), column `2i + 1` is cos(p · ω_i),
/// with ω_i = 10000^(−2i / width). Compute in `f64`; [`cast`] makes an `F` of it.
///
/// The result is `length × width`. The width may be odd.
// ANCHOR: positions
pub fn positions<F: NdFloat>(length: usize, width: usize) -> Array2<F> {
    // ANCHOR: positions_body
    Array2::from_shape_fn((length, width), |(position, column)| {
        // Columns 2i and 2i + 1 share a frequency.
        let i = column / 2;
        let angle =
            position as f64 * 10_000_f64.powf(-2.0 * i as f64 / width as f64);
        cast(if column % 2 == 0 {
            angle.sin()
        } else {
            angle.cos()
        })
    })
    // ANCHOR_END: positions_body
}
// ANCHOR_END: positions

/// Rotary positions: each pair of columns `(2i, 2i + 1)` is turned by the angle p · ω_i, where p is the
/// vector's position and ω_i is that of your `positions`.
///
/// `x` is `n × d`, `positions` are `n`, the result is `n × d`.
///
/// # Errors
/// If the width is odd, or there is not one position for each vector.
// ANCHOR: rotate
pub fn rotate<F: NdFloat>(
    x: &ArrayRef2<F>,
    positions: &[usize],
) -> Result<Array2<F>> {
    // ANCHOR: rotate_body
    let (n, d) = x.dim();
    ensure!(d % 2 == 0, "a width of {d} has no pairs");
    ensure!(
        positions.len() == n,
        "{n} vectors, {} positions",
        positions.len()
    );
    Ok(Array2::from_shape_fn((n, d), |(j, column)| {
        let pair = column / 2;
        let frequency = 10_000_f64.powf(-2.0 * pair as f64 / d as f64);
        let (sin, cos) = (positions[j] as f64 * frequency).sin_cos();
        let (sin, cos) = (cast::<F>(sin), cast::<F>(cos));
        let (a, b) = (x[[j, 2 * pair]], x[[j, 2 * pair + 1]]);
        if column % 2 == 0 {
            a * cos - b * sin
        } else {
            a * sin + b * cos
        }
    }))
    // ANCHOR_END: rotate_body
}
// ANCHOR_END: rotate

/// By hand: the length at which self-attention of width 512 multiplies as often as a convolution over
/// 3 words.
// ANCHOR: break_even_by_hand
pub fn break_even_by_hand() -> u32 {
    // ANCHOR: break_even_by_hand_body
    3 * 512 / 2
    // ANCHOR_END: break_even_by_hand_body
}
// ANCHOR_END: break_even_by_hand

/// Whether exchanging two neighbouring rows of the input exchanges the same rows of the output and
/// changes nothing else, up to 1e-9.
///
/// `x` is `n × d`, and so is what `layer` makes of it.
///
/// # Errors
/// If the layer fails.
// ANCHOR: ignores_order
pub fn ignores_order(
    layer: impl Fn(&ArrayRef2<f64>) -> Result<Array2<f64>>,
    x: &ArrayRef2<f64>,
) -> Result<bool> {
    // ANCHOR: ignores_order_body
    let answer = layer(x)?;
    for i in 1..x.nrows() {
        let mut order: Vec<usize> = (0..x.nrows()).collect();
        order.swap(i - 1, i);
        let exchanged = layer(&x.select(Axis(0), &order))?;
        let difference = exchanged - answer.select(Axis(0), &order);
        // A NaN is not within 1e-9 of anything.
        if !difference.iter().all(|x| x.abs() <= 1e-9) {
            return Ok(false);
        }
    }
    Ok(true)
    // ANCHOR_END: ignores_order_body
}
// ANCHOR_END: ignores_order

/// Find the fault: this wants to be one entry of the sinusoidal positions, and one line of it is wrong.
// ANCHOR: find_the_fault_06
pub fn find_the_fault_06(position: usize, column: usize, width: usize) -> f64 {
    // instead of: let i = column;
    let i = column / 2;
    let frequency = 10_000_f64.powf(-2.0 * i as f64 / width as f64);
    let angle = position as f64 * frequency;
    if column.is_multiple_of(2) {
        angle.sin()
    } else {
        angle.cos()
    }
}
// ANCHOR_END: find_the_fault_06
