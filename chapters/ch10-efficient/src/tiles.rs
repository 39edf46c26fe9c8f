//! Attention in tiles: the scores are made a block at a time, and never all kept.

// ANCHOR: imports
use crate::{Partial, Visible, group_size, merge, repeat_heads};
use anyhow::{Result, ensure};
use ch02_softmax::largest;
use ch03_scaled::scale;
use ch04_masks::{Mask, attend_masked, batched_scaled_scores};
use ndarray::{Array3, Array4, ArrayRef4, Axis, NdFloat, Zip, s};
// ANCHOR_END: imports

/// The sizes of an attention whose shapes fit each other.
// ANCHOR: sizes
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sequences.
    pub batch: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of queries to each head of keys and values.
    pub group: usize,
    /// Queries.
    pub m: usize,
    /// Keys and values.
    pub n: usize,
    /// Width of a query and a key.
    pub d_k: usize,
    /// Width of a value.
    pub d_v: usize,
}

impl Sizes {
    /// The sizes of these queries, keys and values, with grouped heads or without.
    ///
    /// # Errors
    /// If batches or widths differ, the width is 0, there is not one value for each
    /// key, the heads of keys do not divide those of the queries, or the mask does
    /// not fit.
    pub fn new<F>(
        queries: &ArrayRef4<F>,
        keys: &ArrayRef4<F>,
        values: &ArrayRef4<F>,
        visible: &Visible,
    ) -> Result<Self> {
        let (batch, heads, m, d_k) = queries.dim();
        let (key_batch, kv_heads, n, key_width) = keys.dim();
        let (value_batch, value_heads, value_n, d_v) = values.dim();
        ensure!(
            d_k == key_width,
            "queries are {d_k} wide but keys are {key_width} wide"
        );
        scale::<f64>(d_k)?;
        ensure!(
            (key_batch, kv_heads, n) == (value_batch, value_heads, value_n),
            "there are {key_batch} × {kv_heads} × {n} keys but {value_batch} × {value_heads} × {value_n} values"
        );
        ensure!(
            batch == key_batch,
            "there are {batch} sequences of queries but {key_batch} of keys"
        );
        let group = group_size(heads, kv_heads)?;
        for mask in visible.masks() {
            mask.fit((batch, heads, m, n))?;
        }
        Ok(Self {
            batch,
            heads,
            group,
            m,
            n,
            d_k,
            d_v,
        })
    }
}
// ANCHOR_END: sizes

/// Attention over a part of the keys: chapter 4's answers, with the largest score and the sum that
/// [`merge`] needs.
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, heads, n, d_k)`, `values` are
/// `(batch, heads, n, d_v)`, and the mask stretches to `(batch, heads, m, n)`.
///
/// # Errors
/// As `ch04_masks::batched_attention`.
// ANCHOR: partial_attention
pub fn partial_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<Partial<F>> {
    let scores = mask.hide(batched_scaled_scores(queries, keys)?)?;
    let output = attend_masked(&scores, values, mask)?.output;
    // max e_j and Σ exp(e_j − max) over the keys that may be seen
    let largest = scores.map_axis(Axis(3), |row| largest(&row));
    let mut sum = Array3::zeros(largest.dim());
    Zip::from(&mut sum)
        .and(&largest)
        .and(scores.lanes(Axis(3)))
        .for_each(|sum, &largest, row| {
            if largest != F::neg_infinity() {
                *sum = row.fold(F::zero(), |sum, &e| sum + (e - largest).exp());
            }
        });
    Ok(Partial {
        output,
        largest,
        sum,
    })
}
// ANCHOR_END: partial_attention

/// Attention that never holds more than `tile × tile` scores of a head: chapter 4's output, but not
/// its weights.
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, kv_heads, n, d_k)`, `values` are
/// `(batch, kv_heads, n, d_v)`, the result is `(batch, heads, m, d_v)`. Masks beside the rule
/// stretch to `(batch, heads, m, n)`.
///
/// # Errors
/// If the tile is 0, or as [`Sizes::new`].
///
/// Source: Dao et al., *FlashAttention* (2022), algorithm 1; Rabe, Staats, *Self-attention Does Not
/// Need O(n²) Memory* (2021), section 2.
// ANCHOR: tiled_attention
pub fn tiled_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    visible: &Visible,
    tile: usize,
) -> Result<Array4<F>> {
    ensure!(tile > 0, "a tile of 0 queries and keys does no work");
    let sizes = Sizes::new(queries, keys, values, visible)?;
    let Sizes {
        batch, heads, m, n, ..
    } = sizes;
    let mut output = Array4::zeros((batch, heads, m, sizes.d_v));
    for first in (0..m).step_by(tile) {
        let rows = first..first.saturating_add(tile).min(m);
        let q = queries.slice(s![.., .., rows.clone(), ..]);
        let mut seen = Partial::empty((batch, heads, rows.len(), sizes.d_v));
        // Keys that none of these queries may see are not even looked at.
        let reach = visible.span_of(rows.clone(), m, n);
        for first in reach.clone().step_by(tile) {
            let columns = first..first.saturating_add(tile).min(reach.end);
            let k = keys.slice(s![.., .., columns.clone(), ..]);
            let v = values.slice(s![.., .., columns.clone(), ..]);
            let (k, v) = (repeat_heads(&k, heads)?, repeat_heads(&v, heads)?);
            let mask =
                visible.block((rows.clone(), m), (columns, n), (batch, heads));
            let part = partial_attention(&q, &k, &v, &mask)?;
            seen = merge(&seen, &part)?;
        }
        output.slice_mut(s![.., .., rows, ..]).assign(&seen.output);
    }
    Ok(output)
}
// ANCHOR_END: tiled_attention
