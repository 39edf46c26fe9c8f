//! Exercises of chapter 4, masks.

use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ndarray::{Array2, ArrayView2, s};

/// Exercise 1: how many entries of the causal mask for 2 queries and 5 keys are allowed.
// ANCHOR: allowed_by_hand
pub fn allowed_by_hand() -> usize {
    // ANCHOR: allowed_by_hand_body
    4 + 5
    // ANCHOR_END: allowed_by_hand_body
}
// ANCHOR_END: allowed_by_hand

/// Exercise 2: the first `prefix` of `n` positions see each other; the others are causal.
///
/// The shape is `(1, 1, n, n)`.
///
/// # Errors
/// If the prefix is longer than the sequence.
// ANCHOR: prefix_mask
pub fn prefix_mask(prefix: usize, n: usize) -> Result<Mask> {
    // ANCHOR: prefix_mask_body
    ensure!(
        prefix <= n,
        "a prefix of {prefix} does not fit into {n} positions"
    );
    Ok(Mask::from_fn((1, 1, n, n), |_, _, i, j| {
        j <= i || j < prefix && i < prefix
    }))
    // ANCHOR_END: prefix_mask_body
}
// ANCHOR_END: prefix_mask

/// Exercise 3: causal within each sentence, and nothing across sentences.
///
/// `sentence` says for each of n positions which sentence it belongs to; the shape of the mask is
/// `(1, 1, n, n)`.
// ANCHOR: packed_mask
pub fn packed_mask(sentence: &[usize]) -> Mask {
    // ANCHOR: packed_mask_body
    let n = sentence.len();
    Mask::from_fn((1, 1, n, n), |_, _, i, j| {
        j <= i && sentence[i] == sentence[j]
    })
    // ANCHOR_END: packed_mask_body
}
// ANCHOR_END: packed_mask

/// Exercise 4: whether any output of a function depends on a later position of its input.
///
/// `x` is `n × d`, and so is what `attention` makes of it.
// ANCHOR: looks_ahead
pub fn looks_ahead(
    attention: impl Fn(ArrayView2<f64>) -> Result<Array2<f64>>,
    x: ArrayView2<f64>,
) -> Result<bool> {
    // ANCHOR: looks_ahead_body
    let before = attention(x)?;
    for last in (1..x.nrows()).rev() {
        let mut changed = x.to_owned();
        // No number is its own exponential.
        changed.row_mut(last).mapv_inplace(f64::exp);
        let after = attention(changed.view())?;
        if before.slice(s![..last, ..]) != after.slice(s![..last, ..]) {
            return Ok(true);
        }
    }
    Ok(false)
    // ANCHOR_END: looks_ahead_body
}
// ANCHOR_END: looks_ahead
