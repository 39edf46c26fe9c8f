//! What attention costs, counted.

/// The sizes of a model's attention: what its cost depends on, apart from the length of the text.
// ANCHOR: model
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// How many layers attend.
    pub layers: usize,
    /// Heads of queries in a layer.
    pub heads: usize,
    /// Heads of keys and values in a layer: as many (MHA), fewer (GQA), or one
    /// (MQA).
    pub kv_heads: usize,
    /// Width of a query, a key and a value in one head.
    pub d_k: usize,
    /// Bytes to a number: 4 in `f32`, 2 in 16-bit floats.
    pub bytes: usize,
}
// ANCHOR_END: model

/// A product that stays at the largest number instead of overflowing.
// ANCHOR: operations
fn product(factors: &[usize]) -> u128 {
    let factors = factors.iter().map(|&factor| factor as u128);
    factors.fold(1, u128::saturating_mul)
}

impl Model {
    /// Multiplications and additions of one layer, for `m` queries and `n` keys: `2
    /// m n d_k` for `QKᵀ` and as many for `AV`, in each head.
    pub fn operations(&self, m: usize, n: usize) -> u128 {
        product(&[4, self.heads, m, n, self.d_k])
    }

    /// Bytes of one layer's scores, all heads of them: what an attention that
    /// writes them down needs.
    pub fn score_bytes(&self, m: usize, n: usize) -> u128 {
        product(&[self.heads, m, n, self.bytes])
    }

    /// Bytes of one layer's queries, keys, values and output: what nobody can do
    /// without.
    pub fn operand_bytes(&self, m: usize, n: usize) -> u128 {
        let queries = product(&[2, self.heads, m, self.d_k, self.bytes]);
        queries.saturating_add(product(&[
            2,
            self.kv_heads,
            n,
            self.d_k,
            self.bytes,
        ]))
    }
}
// ANCHOR_END: operations

// ANCHOR: cache_bytes
impl Model {
    /// Bytes of the keys and values of `n` positions, in all layers.
    pub fn cache_bytes(&self, n: usize) -> u128 {
        product(&[2, self.layers, self.kv_heads, n, self.d_k, self.bytes])
    }

    /// The same model with another number of heads of keys and values.
    pub fn with_kv_heads(self, kv_heads: usize) -> Self {
        Self { kv_heads, ..self }
    }
}
// ANCHOR_END: cache_bytes

// ANCHOR: sent
impl Model {
    /// Bytes that each of several workers sends in one layer when keys and values
    /// go round a ring: its share of the `n` keys and values, once for every other
    /// worker.
    pub fn ring_bytes(&self, n: usize, workers: usize) -> u128 {
        let share = n.div_ceil(workers.max(1));
        let rounds = workers.saturating_sub(1);
        product(&[2, self.kv_heads, share, self.d_k, self.bytes, rounds])
    }

    /// Bytes that a worker sends in one layer when keys and values stay where they
    /// are: its partial result for `m` queries, an output and a log-sum-exp for
    /// each head.
    pub fn partial_bytes(&self, m: usize) -> u128 {
        product(&[self.heads, m, self.d_k.saturating_add(1), self.bytes])
    }
}
// ANCHOR_END: sent
