//! Exercises of chapter 4, masks.

use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ndarray::{Array2, ArrayView2, s};

/// Exercise 1: how many entries of the causal mask for 2 queries and 5 keys are allowed.
pub fn allowed_by_hand() -> usize {
    todo!("complete allowed_by_hand")
}

/// Exercise 2: the first `prefix` of `n` positions see each other; the others are causal.
///
/// The shape is `(1, 1, n, n)`.
///
/// # Errors
/// If the prefix is longer than the sequence.
pub fn prefix_mask(prefix: usize, n: usize) -> Result<Mask> {
    todo!("complete prefix_mask")
}

/// Exercise 3: causal within each sentence, and nothing across sentences.
///
/// `sentence` says for each of n positions which sentence it belongs to; the shape of the mask is
/// `(1, 1, n, n)`.
pub fn packed_mask(sentence: &[usize]) -> Mask {
    todo!("complete packed_mask")
}

/// Exercise 4: whether any output of a function depends on a later position of its input.
///
/// `x` is `n × d`, and so is what `attention` makes of it.
pub fn looks_ahead(
    attention: impl Fn(ArrayView2<f64>) -> Result<Array2<f64>>,
    x: ArrayView2<f64>,
) -> Result<bool> {
    todo!("complete looks_ahead")
}
