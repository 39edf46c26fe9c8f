//! Exercises of chapter 6, self-attention.

use anyhow::{Result, ensure};
use ndarray::{Array2, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the length at which self-attention of width 512 multiplies as often as a convolution
/// over 3 words.
pub fn break_even_by_hand() -> u32 {
    todo!("complete break_even_by_hand")
}

/// Exercise 2: rotary positions that pair column `i` with column `i + d/2`.
///
/// `x` is `n × d`, `positions` are `n`, the result is `n × d`.
///
/// # Errors
/// If the width is odd, or there is not one position for each vector.
pub fn rotate_halves(
    x: ArrayView2<f64>,
    positions: &[usize],
) -> Result<Array2<f64>> {
    todo!("complete rotate_halves")
}

/// Exercise 3: the mean of the vectors of the real tokens; zeros if there are none.
///
/// `x` is `(batch, n, d)`, `tokens` are `batch × n`, the result is `batch × d`.
///
/// # Errors
/// If there is not one vector for each token.
pub fn mean_of_real(
    x: ArrayView3<f64>,
    tokens: ArrayView2<u32>,
    pad: u32,
) -> Result<Array2<f64>> {
    todo!("complete mean_of_real")
}

/// Exercise 4: whether exchanging two neighbouring rows of the input exchanges the same rows of the
/// output and changes nothing else, up to 1e-9.
///
/// `x` is `n × d`, and so is what `layer` makes of it.
pub fn ignores_order(
    layer: impl Fn(ArrayView2<f64>) -> Result<Array2<f64>>,
    x: ArrayView2<f64>,
) -> Result<bool> {
    todo!("complete ignores_order")
}
