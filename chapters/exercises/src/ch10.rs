//! Exercises of chapter 10, what attention costs.

use anyhow::{Context, Result};
use ch04_masks::Mask;
use ch10_efficient::{Model, Partial, Visible, grouped_attention, merge};
use ndarray::{Array4, ArrayView4, Axis, concatenate, s};

/// Exercise 1: the bytes of the cache of 24 layers, each with 16 heads of keys and values of width
/// 64, for 1000 tokens in 16-bit numbers.
pub fn cache_by_hand() -> u128 {
    todo!("complete cache_by_hand")
}

/// Exercise 2: the answers from all these parts of the keys together.
pub fn merge_all(parts: &[Partial<f64>]) -> Result<Partial<f64>> {
    todo!("complete merge_all")
}

/// Exercise 3: how many tiles of `tile × tile` scores a window of `width` looks at, for `n` queries
/// and keys.
pub fn tiles_of_window(n: usize, tile: usize, width: usize) -> Result<usize> {
    todo!("complete tiles_of_window")
}

/// Exercise 4: the answers of a sequence under a window, with no more than `width` keys and values
/// kept at any time.
///
/// `queries` are `(batch, heads, n, d_k)`, `keys` are `(batch, kv_heads, n, d_k)`, `values` are
/// `(batch, kv_heads, n, d_v)`, the result is `(batch, heads, n, d_v)`.
pub fn rolling_cache(
    queries: ArrayView4<f64>,
    keys: ArrayView4<f64>,
    values: ArrayView4<f64>,
    width: usize,
) -> Result<Array4<f64>> {
    todo!("complete rolling_cache")
}

/// Exercise 5: the most tokens for which the caches of `requests` texts fit into `bytes`.
pub fn longest(model: &Model, requests: usize, bytes: u128) -> u128 {
    todo!("complete longest")
}
