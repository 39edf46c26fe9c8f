//! Exercises of chapter 6, self-attention.

use anyhow::{Result, ensure};
use ndarray::{Array2, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the length at which self-attention of width 512 multiplies as often as a convolution
/// over 3 words.
// ANCHOR: break_even_by_hand
pub fn break_even_by_hand() -> u32 {
    // ANCHOR: break_even_by_hand_body
    3 * 512 / 2
    // ANCHOR_END: break_even_by_hand_body
}
// ANCHOR_END: break_even_by_hand

/// Exercise 2: rotary positions that pair column `i` with column `i + d/2`.
///
/// `x` is `n × d`, `positions` are `n`, the result is `n × d`.
///
/// # Errors
/// If the width is odd, or there is not one position for each vector.
// ANCHOR: rotate_halves
pub fn rotate_halves(
    x: ArrayView2<f64>,
    positions: &[usize],
) -> Result<Array2<f64>> {
    // ANCHOR: rotate_halves_body
    let (n, d) = x.dim();
    ensure!(d % 2 == 0, "a width of {d} has no halves");
    ensure!(
        positions.len() == n,
        "{n} vectors, {} positions",
        positions.len()
    );
    let half = d / 2;
    Ok(Array2::from_shape_fn((n, d), |(j, column)| {
        let pair = column % half;
        let frequency = 10_000_f64.powf(-2.0 * pair as f64 / d as f64);
        let (sin, cos) = (positions[j] as f64 * frequency).sin_cos();
        let (a, b) = (x[[j, pair]], x[[j, pair + half]]);
        if column < half {
            a * cos - b * sin
        } else {
            a * sin + b * cos
        }
    }))
    // ANCHOR_END: rotate_halves_body
}
// ANCHOR_END: rotate_halves

/// Exercise 3: the mean of the vectors of the real tokens; zeros if there are none.
///
/// `x` is `(batch, n, d)`, `tokens` are `batch × n`, the result is `batch × d`.
///
/// # Errors
/// If there is not one vector for each token.
// ANCHOR: mean_of_real
pub fn mean_of_real(
    x: ArrayView3<f64>,
    tokens: ArrayView2<u32>,
    pad: u32,
) -> Result<Array2<f64>> {
    // ANCHOR: mean_of_real_body
    let (batch, n, d) = x.dim();
    ensure!(
        tokens.dim() == (batch, n),
        "{batch} × {n} vectors, {} × {} tokens",
        tokens.nrows(),
        tokens.ncols()
    );
    let mut means = Array2::zeros((batch, d));
    for b in 0..batch {
        let real: Vec<usize> = (0..n).filter(|&j| tokens[[b, j]] != pad).collect();
        if !real.is_empty() {
            let vectors = x.index_axis(Axis(0), b).select(Axis(0), &real);
            let mean = vectors.sum_axis(Axis(0)) / real.len() as f64;
            means.row_mut(b).assign(&mean);
        }
    }
    Ok(means)
    // ANCHOR_END: mean_of_real_body
}
// ANCHOR_END: mean_of_real

/// Exercise 4: whether exchanging two neighbouring rows of the input exchanges the same rows of the
/// output and changes nothing else, up to 1e-9.
///
/// `x` is `n × d`, and so is what `layer` makes of it.
// ANCHOR: ignores_order
pub fn ignores_order(
    layer: impl Fn(ArrayView2<f64>) -> Result<Array2<f64>>,
    x: ArrayView2<f64>,
) -> Result<bool> {
    // ANCHOR: ignores_order_body
    let answer = layer(x)?;
    for i in 1..x.nrows() {
        let mut order: Vec<usize> = (0..x.nrows()).collect();
        order.swap(i - 1, i);
        let exchanged = layer(x.select(Axis(0), &order).view())?;
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
