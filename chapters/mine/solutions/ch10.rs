//! Exercises of chapter 10, what attention costs.

use anyhow::{Context, Result};
use ch04_masks::Mask;
use ch10_efficient::{Model, Partial, Visible, grouped_attention, merge};
use ndarray::{Array4, ArrayView4, Axis, concatenate, s};

/// Exercise 1: the bytes of the cache of 24 layers, each with 16 heads of keys and values of width
/// 64, for 1000 tokens in 16-bit numbers.
// ANCHOR: cache_by_hand
pub fn cache_by_hand() -> u128 {
    // ANCHOR: cache_by_hand_body
    // Keys and values, layers, heads, tokens, width, bytes.
    2 * 24 * 16 * 1000 * 64 * 2
    // ANCHOR_END: cache_by_hand_body
}
// ANCHOR_END: cache_by_hand

/// Exercise 2: the answers from all these parts of the keys together.
// ANCHOR: merge_all
pub fn merge_all(parts: &[Partial<f64>]) -> Result<Partial<f64>> {
    // ANCHOR: merge_all_body
    let (first, others) =
        parts.split_first().context("there is nothing to merge")?;
    others
        .iter()
        .try_fold(first.clone(), |merged, part| merge(&merged, part))
    // ANCHOR_END: merge_all_body
}
// ANCHOR_END: merge_all

/// Exercise 3: how many tiles of `tile × tile` scores a window of `width` looks at, for `n` queries
/// and keys.
// ANCHOR: tiles_of_window
pub fn tiles_of_window(n: usize, tile: usize, width: usize) -> Result<usize> {
    // ANCHOR: tiles_of_window_body
    let window = Visible::window(width)?;
    let blocks = (0..n).step_by(tile);
    let spans =
        blocks.map(|first| window.span_of(first..(first + tile).min(n), n, n));
    Ok(spans.map(|span| span.len().div_ceil(tile)).sum())
    // ANCHOR_END: tiles_of_window_body
}
// ANCHOR_END: tiles_of_window

/// Exercise 4: the answers of a sequence under a window, with no more than `width` keys and values
/// kept at any time.
///
/// `queries` are `(batch, heads, n, d_k)`, `keys` are `(batch, kv_heads, n, d_k)`, `values` are
/// `(batch, kv_heads, n, d_v)`, the result is `(batch, heads, n, d_v)`.
// ANCHOR: rolling_cache
pub fn rolling_cache(
    queries: ArrayView4<f64>,
    keys: ArrayView4<f64>,
    values: ArrayView4<f64>,
    width: usize,
) -> Result<Array4<f64>> {
    // ANCHOR: rolling_cache_body
    let (batch, heads, n, _) = queries.dim();
    let mut output = Array4::zeros((batch, heads, n, values.dim().3));
    let mut kept: Vec<(ArrayView4<f64>, ArrayView4<f64>)> = Vec::new();
    for i in 0..n {
        let new = s![.., .., i..=i, ..];
        kept.push((keys.slice_move(new), values.slice_move(new)));
        // The oldest is beyond the window of this query, and of every later one.
        if kept.len() > width {
            kept.remove(0);
        }
        let (keys, values): (Vec<_>, Vec<_>) = kept.iter().copied().unzip();
        let keys = concatenate(Axis(2), &keys)?;
        let values = concatenate(Axis(2), &values)?;
        let everything = Mask::everything();
        let answer = grouped_attention(
            queries.slice(new),
            keys.view(),
            values.view(),
            &everything,
        )?;
        output.slice_mut(new).assign(&answer.output);
    }
    Ok(output)
    // ANCHOR_END: rolling_cache_body
}
// ANCHOR_END: rolling_cache

/// Exercise 5: the most tokens for which the caches of `requests` texts fit into `bytes`.
// ANCHOR: longest
pub fn longest(model: &Model, requests: usize, bytes: u128) -> u128 {
    // ANCHOR: longest_body
    let token = model.cache_bytes(1).saturating_mul(requests as u128);
    // Nothing to keep fits without end.
    bytes.checked_div(token).unwrap_or(u128::MAX)
    // ANCHOR_END: longest_body
}
// ANCHOR_END: longest
