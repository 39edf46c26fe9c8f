//! Grouped heads: several heads of queries share one head of keys and values.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch04_masks::{BatchedAttention, Mask, batched_attention};
use ndarray::{Array4, ArrayRef4, Axis, NdFloat};
// ANCHOR_END: imports

/// Every head of keys or values repeated before the next one comes, until there are `heads`: query
/// head `i` uses head `i / (heads / kv_heads)`.
///
/// `x` is `(batch, kv_heads, n, d)`, the result is `(batch, heads, n, d)`.
///
/// # Errors
/// If the heads of keys and values do not divide those of the queries.
///
/// Source: Ainslie et al., *GQA* (2023), section 2.2.
// ANCHOR: repeat_heads
pub fn repeat_heads<F: NdFloat>(
    x: &ArrayRef4<F>,
    heads: usize,
) -> Result<Array4<F>> {
    let (batch, kv_heads, n, d) = x.dim();
    let group = group_size(heads, kv_heads)?;
    let mut repeated = Array4::zeros((batch, heads, n, d));
    for (i, mut head) in repeated.axis_iter_mut(Axis(1)).enumerate() {
        head.assign(&x.index_axis(Axis(1), i / group));
    }
    Ok(repeated)
}

/// How many heads of queries share a head of keys and values.
///
/// # Errors
/// If they cannot share evenly.
pub fn group_size(heads: usize, kv_heads: usize) -> Result<usize> {
    ensure!(
        heads.is_multiple_of(kv_heads),
        "{heads} heads of queries cannot share {kv_heads} heads of keys and values evenly"
    );
    Ok(heads.checked_div(kv_heads).unwrap_or(1).max(1))
}
// ANCHOR_END: repeat_heads

/// Attention with grouped heads: multi-head attention if there are as many heads of keys and values
/// as of queries (MHA), grouped-query attention if there are fewer (GQA), multi-query attention if
/// there is one (MQA).
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, kv_heads, n, d_k)`, `values` are
/// `(batch, kv_heads, n, d_v)`, and the mask stretches to `(batch, heads, m, n)`.
///
/// # Errors
/// If there are not as many heads of values as of keys, they do not divide those of the queries, or
/// as [`batched_attention`].
// ANCHOR: grouped_attention
pub fn grouped_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<BatchedAttention<F>> {
    let heads = queries.len_of(Axis(1));
    let (kv_heads, value_heads) = (keys.len_of(Axis(1)), values.len_of(Axis(1)));
    ensure!(
        kv_heads == value_heads,
        "there are {kv_heads} heads of keys but {value_heads} of values"
    );
    let keys = repeat_heads(keys, heads)?;
    let values = repeat_heads(values, heads)?;
    batched_attention(queries, &keys, &values, mask)
}
// ANCHOR_END: grouped_attention
