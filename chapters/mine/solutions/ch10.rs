//! Chapter 10: what does it cost, and how to pay less?

use crate::ch04::causal;
use crate::ch05::{project, side_by_side};
use anyhow::{Result, ensure};
use ch05_multihead::MultiHeadAttention;
use ch10_efficient::Model;
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, Axis, NdFloat, s};

/// Attention of one query, a block of keys at a time, so that there never is a whole row of scores:
/// softmax(q Kᵀ / √d_k) V.
///
/// `query` is `d_k` long, `keys` are `n × d_k`, `values` are `n × d_v`, `block` keys are looked at
/// together, the result is `d_v` long. Without keys it is zeros.
///
/// # Errors
/// If the shapes do not fit, or a block holds nothing.
// ANCHOR: online_attention
pub fn online_attention<F: NdFloat>(
    query: &ArrayRef1<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    block: usize,
) -> Result<Array1<F>> {
    // ANCHOR: online_attention_body
    ensure!(block > 0, "a block of 0 keys never comes to an end");
    ensure!(keys.nrows() == values.nrows(), "keys and values differ");
    ensure!(keys.ncols() == query.len(), "query and keys differ");
    let root = F::from(query.len()).expect("a width is a number").sqrt();
    let mut largest = F::neg_infinity();
    let (mut sum, mut mixed) = (F::zero(), Array1::zeros(values.ncols()));
    for first in (0..keys.nrows()).step_by(block) {
        let last = (first + block).min(keys.nrows());
        let scores = keys.slice(s![first..last, ..]).dot(query) / root;
        let new = scores.fold(largest, |a, &b| a.max(b));
        // What was summed relative to the old largest, relative to the new.
        let factor = (largest - new).exp();
        let exponentials = scores.mapv(|e| (e - new).exp());
        sum = sum * factor + exponentials.sum();
        mixed =
            mixed * factor + exponentials.dot(&values.slice(s![first..last, ..]));
        largest = new;
    }
    Ok(if sum > F::zero() { mixed / sum } else { mixed })
    // ANCHOR_END: online_attention_body
}
// ANCHOR_END: online_attention

/// The keys and values of what has been read, projected and all heads side by side, a row for each
/// position.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache<F> {
    /// `n × (heads · d_k)`
    pub keys: Array2<F>,
    /// `n × (heads · d_v)`
    pub values: Array2<F>,
}

impl<F: NdFloat> Cache<F> {
    /// Of nothing yet.
    pub fn new(numbers: &MultiHeadAttention<F>) -> Self {
        let [_, key, value, _] = numbers.projections();
        Self {
            keys: Array2::zeros((0, key.weight().ncols())),
            values: Array2::zeros((0, value.weight().ncols())),
        }
    }
}

/// Causal self-attention of what is new to all that has been read: project `x`, put its keys and values
/// behind the others in the cache, and let its queries ask them all. Nothing old is projected again.
///
/// `x` is `m × d_model`, what is new; so is the result.
///
/// # Errors
/// If the widths do not fit.
// ANCHOR: cached_attention
pub fn cached_attention<F: NdFloat>(
    cache: &mut Cache<F>,
    numbers: &MultiHeadAttention<F>,
    x: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: cached_attention_body
    let [w_query, w_key, w_value, w_output] = numbers.projections();
    let q = project(x, w_query)?;
    cache.keys.append(Axis(0), project(x, w_key)?.view())?;
    cache.values.append(Axis(0), project(x, w_value)?.view())?;
    let (k, v) = (&cache.keys, &cache.values);
    let mask = causal(q.nrows(), k.nrows());
    project(&side_by_side(numbers.heads(), &q, k, v, &mask)?, w_output)
    // ANCHOR_END: cached_attention_body
}
// ANCHOR_END: cached_attention

/// By hand: the bytes of the cache of 24 layers, each with 16 heads of keys and values of width 64, for
/// 1000 tokens in 16-bit numbers.
// ANCHOR: cache_by_hand
pub fn cache_by_hand() -> u128 {
    // ANCHOR: cache_by_hand_body
    // Keys and values, layers, heads, tokens, width, bytes.
    2 * 24 * 16 * 1000 * 64 * 2
    // ANCHOR_END: cache_by_hand_body
}
// ANCHOR_END: cache_by_hand

/// The most tokens for which the caches of `requests` texts fit into `bytes`.
// ANCHOR: longest
pub fn longest(model: &Model, requests: usize, bytes: u128) -> u128 {
    // ANCHOR: longest_body
    let token = model.cache_bytes(1).saturating_mul(requests as u128);
    // Nothing to keep fits without end.
    bytes.checked_div(token).unwrap_or(u128::MAX)
    // ANCHOR_END: longest_body
}
// ANCHOR_END: longest

/// Find the fault: this wants to be the log-sum-exp of scores that come one at a time, and one line of
/// it is wrong.
// ANCHOR: find_the_fault_10
pub fn find_the_fault_10(scores: &[f64]) -> f64 {
    let Some((&first, others)) = scores.split_first() else {
        return f64::NEG_INFINITY;
    };
    let (mut largest, mut sum) = (first, 1.0);
    for &score in others {
        let new = f64::max(largest, score);
        // instead of: sum = sum * (new - largest).exp() + (score - new).exp();
        sum = sum * (largest - new).exp() + (score - new).exp();
        largest = new;
    }
    largest + sum.ln()
}
// ANCHOR_END: find_the_fault_10
