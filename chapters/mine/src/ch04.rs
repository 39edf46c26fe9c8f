//! Chapter 4: what may be seen?

use crate::ch02::{attention_weights, weighted_sum};
use crate::ch03::scaled_scores;
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ndarray::{Array2, ArrayRef2, NdFloat, s};

/// The causal mask for `m` queries and `n` keys, where the last query sees every key.
///
/// The shape is `(1, 1, m, n)`. [`Mask::from_fn`] makes a mask of any shape from a rule.
pub fn causal(m: usize, n: usize) -> Mask {
    todo!("ch04::causal")
}

/// The weights behind a mask: what it forbids weighs exactly 0, and the rest of a row sums to 1. A
/// query that may see nothing gets weights of 0.
///
/// `scores` are `m × n`, and so is the result. The mask stretches to `(1, 1, m, n)`: its
/// [`allows`](Mask::allows) says of query `i` and key `j` whether `i` may attend to `j`.
///
/// # Errors
/// If the mask does not fit, which its [`fit`](Mask::fit) tells.
pub fn masked_weights<F: NdFloat>(
    scores: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch04::masked_weights")
}

/// Scaled dot-product attention behind a mask. The heads of chapter 5 are made of this.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, the result is `m × d_v`. The
/// mask stretches to `(1, 1, m, n)`.
///
/// # Errors
/// If the shapes or the mask do not fit.
pub fn masked_attention<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch04::masked_attention")
}

/// By hand: how many entries of the causal mask for 3 queries and 7 keys are allowed.
pub fn allowed_by_hand() -> usize {
    todo!("ch04::allowed_by_hand")
}

/// The first `prefix` of `n` positions see each other; the others are causal.
///
/// The shape is `(1, 1, n, n)`.
///
/// # Errors
/// If the prefix is longer than the sequence.
pub fn prefix_mask(prefix: usize, n: usize) -> Result<Mask> {
    todo!("ch04::prefix_mask")
}

/// Causal within each sentence, and nothing across sentences.
///
/// `sentence` says for each of n positions which sentence it belongs to; the shape of the mask is
/// `(1, 1, n, n)`.
pub fn packed_mask(sentence: &[usize]) -> Mask {
    todo!("ch04::packed_mask")
}

/// Whether any output of a function depends on a later position of its input.
///
/// `x` is `n × d`, and so is what `attention` makes of it.
///
/// # Errors
/// If the function fails.
pub fn looks_ahead(
    attention: impl Fn(&ArrayRef2<f64>) -> Result<Array2<f64>>,
    x: &ArrayRef2<f64>,
) -> Result<bool> {
    todo!("ch04::looks_ahead")
}

/// Find the fault: this wants to be `masked_weights`, and one line of it is wrong.
pub fn find_the_fault_04(
    scores: &ArrayRef2<f64>,
    mask: &Mask,
) -> Result<Array2<f64>> {
    let (m, n) = scores.dim();
    mask.fit((1, 1, m, n))?;
    let mut hidden = scores.to_owned();
    for ((i, j), score) in hidden.indexed_iter_mut() {
        if !mask.allows(0, 0, i, j) {
            *score = -1e9;
        }
    }
    Ok(attention_weights(&hidden))
}
