//! A cache of keys and values: what has been read is not projected again.

// ANCHOR: imports
use crate::grouped_attention;
use anyhow::{Result, ensure};
use ch04_masks::{BatchedAttention, Mask};
use ndarray::{Array4, ArrayRef4, ArrayView4, NdFloat, s};
// ANCHOR_END: imports

/// The keys and values of the positions read so far, with room for more.
// ANCHOR: cache
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValueCache<F> {
    keys: Array4<F>,
    values: Array4<F>,
    length: usize,
}

impl<F: NdFloat> KeyValueCache<F> {
    /// An empty cache with room for `capacity` positions of `kv_heads` heads.
    pub fn new(
        batch: usize,
        kv_heads: usize,
        capacity: usize,
        (d_k, d_v): (usize, usize),
    ) -> Self {
        Self {
            keys: Array4::zeros((batch, kv_heads, capacity, d_k)),
            values: Array4::zeros((batch, kv_heads, capacity, d_v)),
            length: 0,
        }
    }

    /// How many positions it holds.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The keys it holds, `(batch, kv_heads, length, d_k)`.
    pub fn keys(&self) -> ArrayView4<'_, F> {
        self.keys.slice(s![.., .., ..self.length, ..])
    }

    /// The values it holds, `(batch, kv_heads, length, d_v)`.
    pub fn values(&self) -> ArrayView4<'_, F> {
        self.values.slice(s![.., .., ..self.length, ..])
    }
}
// ANCHOR_END: cache

// ANCHOR: extend
impl<F: NdFloat> KeyValueCache<F> {
    /// Writes the keys and values of the next positions behind the others.
    ///
    /// `keys` are `(batch, kv_heads, new, d_k)` and `values` are `(batch, kv_heads,
    /// new, d_v)`. Keys that are rotated by their position go in rotated.
    ///
    /// # Errors
    /// If there is no room for them, or a shape is not the cache's.
    pub fn extend(
        &mut self,
        keys: &ArrayRef4<F>,
        values: &ArrayRef4<F>,
    ) -> Result<()> {
        let (batch, heads, capacity, d_k) = self.keys.dim();
        let (new, d_v) = (keys.dim().2, self.values.dim().3);
        for (name, found, expected) in [
            ("keys", keys.dim(), (batch, heads, new, d_k)),
            ("values", values.dim(), (batch, heads, new, d_v)),
        ] {
            ensure!(
                found == expected,
                "the cache takes {name} of {expected:?} but these are {found:?}"
            );
        }
        ensure!(
            new <= capacity - self.length,
            "the cache has room for {capacity} positions and holds {}, so {new} more do not fit",
            self.length
        );
        let places = self.length..self.length + new;
        self.keys
            .slice_mut(s![.., .., places.clone(), ..])
            .assign(keys);
        self.values.slice_mut(s![.., .., places, ..]).assign(values);
        self.length += new;
        Ok(())
    }
}
// ANCHOR_END: extend

// ANCHOR: ask
impl<F: NdFloat> KeyValueCache<F> {
    /// Answers queries from everything the cache holds.
    ///
    /// `queries` are `(batch, heads, m, d_k)`, and the mask stretches to `(batch,
    /// heads, m, length)`. The newest positions ask under `Mask::causal(m,
    /// length)`.
    ///
    /// # Errors
    /// As [`grouped_attention`].
    pub fn ask(
        &self,
        queries: &ArrayRef4<F>,
        mask: &Mask,
    ) -> Result<BatchedAttention<F>> {
        grouped_attention(queries, &self.keys(), &self.values(), mask)
    }
}
// ANCHOR_END: ask
