//! Masks: what may be seen?
//!
//! A [`Mask`] says where attention is allowed: `true` means "may attend". The scores of everything
//! else become −∞ before the softmax, so that its weight is exactly 0 and its value never matters.
//!
//! Where there are four axes they are `(batch, heads, m, n)`: `m` queries, `n` keys.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, anyhow, ensure};
use ch02_softmax::{Attention, attention_weights, weighted_sum};
use ch03_scaled::{scale, scaled_scores};
use ndarray::{
    Array2, Array4, ArrayRef2, ArrayRef4, ArrayView4, Axis, NdFloat, array,
};
use std::borrow::Cow;
use std::fmt;
use std::ops::BitAnd;
// ANCHOR_END: imports

/// Where attention is allowed: `true` at `(batch, head, query, key)` means that this query may
/// attend to this key.
///
/// An axis of size 1 holds for every place along it: a padding mask is `(batch, 1, 1, n)`, a causal
/// mask `(1, 1, m, n)`.
// ANCHOR: mask_type
#[derive(Clone, PartialEq, Eq)]
pub struct Mask {
    allowed: Array4<bool>,
}
// ANCHOR_END: mask_type

/// The four sizes of scores or of a mask: batch, heads, m, n.
// ANCHOR: from_fn
pub type Shape = (usize, usize, usize, usize);

impl Mask {
    /// A mask of this shape, allowed where `allow(batch, head, query, key)` says so.
    pub fn from_fn(
        shape: Shape,
        allow: impl Fn(usize, usize, usize, usize) -> bool,
    ) -> Self {
        let allowed =
            Array4::from_shape_fn(shape, |(b, h, i, j)| allow(b, h, i, j));
        Self { allowed }
    }

    /// Whether a query may attend to a key. An axis of size 1 answers for every place along it;
    /// beyond the end of a longer axis nothing is allowed.
    pub fn allows(
        &self,
        batch: usize,
        head: usize,
        query: usize,
        key: usize,
    ) -> bool {
        let place = |axis, index| {
            if self.allowed.len_of(Axis(axis)) == 1 {
                0
            } else {
                index
            }
        };
        let places = [
            place(0, batch),
            place(1, head),
            place(2, query),
            place(3, key),
        ];
        self.allowed.get(places).copied().unwrap_or(false)
    }

    /// The mask that forbids nothing, for scores of any shape.
    pub fn everything() -> Self {
        Self::from_fn((1, 1, 1, 1), |_, _, _, _| true)
    }
}
// ANCHOR_END: from_fn

// ANCHOR: padding
impl Mask {
    /// Sequences of these lengths, filled up to `n`: key `j` of sequence `b` is real if
    /// `j < lengths[b]`. The shape is `(batch, 1, 1, n)`.
    ///
    /// # Errors
    /// If a length is above `n`.
    pub fn padding(lengths: &[usize], n: usize) -> Result<Self> {
        for (b, &length) in lengths.iter().enumerate() {
            ensure!(
                length <= n,
                "sequence {b} is {length} long but there are only {n} keys"
            );
        }
        let shape = (lengths.len(), 1, 1, n);
        Ok(Self::from_fn(shape, |b, _, _, j| j < lengths[b]))
    }

    /// The same from token numbers, `batch × n`: every token but `pad` is real, wherever
    /// it stands. The shape is `(batch, 1, 1, n)`.
    pub fn padding_of_tokens(tokens: &ArrayRef2<u32>, pad: u32) -> Self {
        let shape = (tokens.nrows(), 1, 1, tokens.ncols());
        Self::from_fn(shape, |b, _, _, j| tokens[[b, j]] != pad)
    }
}
// ANCHOR_END: padding

// ANCHOR: causal
impl Mask {
    /// No query sees what comes after it. The `m` queries are the last `m` of `n`
    /// positions, so the last query sees every key. The shape is `(1, 1, m, n)`.
    ///
    /// With more queries than keys the first `m − n` queries see nothing.
    pub fn causal(m: usize, n: usize) -> Self {
        // Query i stands at position i + n − m, and sees every j up to there.
        Self::from_fn((1, 1, m, n), |_, _, i, j| j + m <= i + n)
    }

    /// The same, where the first query stands at position `first`: with a cache, that is
    /// the number of positions already in it. The shape is `(1, 1, m, n)`.
    pub fn causal_from(first: usize, m: usize, n: usize) -> Self {
        Self::from_fn((1, 1, m, n), |_, _, i, j| j <= first.saturating_add(i))
    }
}
// ANCHOR_END: causal

// ANCHOR: window
impl Mask {
    /// Each query sees the last `width` positions up to its own, itself included, and
    /// nothing after it; aligned as [`Mask::causal`] is. The shape is `(1, 1, m, n)`.
    ///
    /// # Errors
    /// If the width is 0, which would hide a query from itself.
    pub fn window(m: usize, n: usize, width: usize) -> Result<Self> {
        ensure!(
            width > 0,
            "a window of width 0 hides every query from itself"
        );
        Ok(Self::from_fn((1, 1, m, n), |_, _, i, j| {
            // Position of the query minus position of the key: 0 ≤ distance < width.
            (i + n)
                .checked_sub(j + m)
                .is_some_and(|distance| distance < width)
        }))
    }
}
// ANCHOR_END: window

// ANCHOR: and
impl BitAnd for &Mask {
    type Output = Result<Mask>;

    /// Allowed where both masks allow it; an axis of size 1 stretches to the other's.
    fn bitand(self, other: &Mask) -> Result<Mask> {
        let common = |axis: usize| {
            let (ours, theirs) = (
                self.allowed.len_of(Axis(axis)),
                other.allowed.len_of(Axis(axis)),
            );
            ensure!(
                ours == theirs || ours == 1 || theirs == 1,
                "masks of {self:?} and {other:?} do not fit each other"
            );
            Ok(if ours == 1 { theirs } else { ours })
        };
        let shape = (common(0)?, common(1)?, common(2)?, common(3)?);
        let (ours, theirs) = (self.fit(shape)?, other.fit(shape)?);
        Ok(Mask::from_fn(shape, |b, h, i, j| {
            ours[[b, h, i, j]] && theirs[[b, h, i, j]]
        }))
    }
}
// ANCHOR_END: and

// ANCHOR: fit
impl Mask {
    /// The mask stretched to the shape of the scores it is for.
    ///
    /// # Errors
    /// If an axis of the mask is neither 1 nor as long as that of the scores.
    pub fn fit(&self, scores: Shape) -> Result<ArrayView4<'_, bool>> {
        let (batch, heads, m, n) = scores;
        self.allowed.broadcast(scores).ok_or_else(|| {
            anyhow!("a mask of {self:?} does not fit scores of {batch} × {heads} × {m} × {n}")
        })
    }
}
// ANCHOR_END: fit

// ANCHOR: transposed
impl Mask {
    /// The mask seen from the keys: which queries may attend to each. The shape is
    /// `(batch, heads, n, m)`.
    pub fn transposed(&self) -> Self {
        Self {
            allowed: self.allowed.view().permuted_axes([0, 1, 3, 2]).to_owned(),
        }
    }
}
// ANCHOR_END: transposed

// ANCHOR: to_additive
impl Mask {
    /// What other libraries add to the scores: 0 where attention is allowed, −∞ where it
    /// is not.
    pub fn to_additive<F: NdFloat>(&self) -> Array4<F> {
        let forbidden = F::neg_infinity();
        self.allowed
            .mapv(|allowed| if allowed { F::zero() } else { forbidden })
    }
}
// ANCHOR_END: to_additive

// ANCHOR: shown
impl fmt::Debug for Mask {
    /// The shape alone, as `2 × 1 × 1 × 5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (batch, heads, m, n) = self.allowed.dim();
        write!(f, "{batch} × {heads} × {m} × {n}")
    }
}

impl fmt::Display for Mask {
    /// A line for each row of keys, 1 where attention is allowed and · where it is not, and
    /// an empty line between matrices of more than one row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = self.allowed.len_of(Axis(2));
        for (number, row) in self.allowed.rows().into_iter().enumerate() {
            if number > 0 {
                f.write_str(if m > 1 && number % m == 0 {
                    "\n\n"
                } else {
                    "\n"
                })?;
            }
            for &allowed in row {
                f.write_str(if allowed { " 1" } else { " ·" })?;
            }
        }
        Ok(())
    }
}
// ANCHOR_END: shown

// ANCHOR: hide
impl Mask {
    /// The scores, `(batch, heads, m, n)`, with −∞ for what is forbidden.
    ///
    /// # Errors
    /// If the mask does not fit the scores.
    pub fn hide<F: NdFloat>(&self, mut scores: Array4<F>) -> Result<Array4<F>> {
        let allowed = self.fit(scores.dim())?;
        // E_ij becomes −∞ where the mask forbids j to i. It is replaced, not added to.
        scores.zip_mut_with(&allowed, |e, &allowed| {
            if !allowed {
                *e = F::neg_infinity();
            }
        });
        Ok(scores)
    }
}
// ANCHOR_END: hide

/// The weights behind a mask: the softmax of each row of scores, with −∞ for what is forbidden.
///
/// `scores` and the result are `(batch, heads, m, n)`. A query that may attend to nothing gets
/// weights of 0. A NaN or a +∞ among the allowed scores makes its row NaN; a forbidden one does not
/// matter.
///
/// # Errors
/// If the mask does not fit the scores.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.3.
// ANCHOR: masked_softmax
pub fn masked_softmax<F: NdFloat>(
    scores: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<Array4<F>> {
    let mut weights = Array4::zeros(scores.dim());
    weights.assign(scores);
    let mut weights = mask.hide(weights)?;
    for mut sequence in weights.outer_iter_mut() {
        for mut head in sequence.outer_iter_mut() {
            let weights_of_head = attention_weights(&head);
            head.assign(&weights_of_head);
        }
    }
    Ok(weights)
}
// ANCHOR_END: masked_softmax

/// The weighted sums behind a mask. What stands in the value of a forbidden key does not matter,
/// NaN and infinity included. An allowed one counts even with weight 0: 0 · ∞ is NaN.
///
/// `weights` are `(batch, heads, m, n)` and 0 wherever the mask forbids, `values` are
/// `(batch, heads, n, d_v)`, the result is `(batch, heads, m, d_v)`.
///
/// # Errors
/// If the mask does not fit the weights, or weights and values do not fit each other.
// ANCHOR: masked_sum
pub fn masked_sum<F: NdFloat>(
    weights: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<Array4<F>> {
    let ((.., n), (_, _, values_n, _)) = (weights.dim(), values.dim());
    ensure!(
        n == values_n,
        "each query has {n} weights but there are {values_n} values"
    );
    let allowed = mask.fit(weights.dim())?;
    // 0 · NaN is NaN, so the product takes only what is finite …
    let mut finite = Array4::zeros(values.dim());
    finite.zip_mut_with(values, |finite, &v| {
        if v.is_finite() {
            *finite = v;
        }
    });
    let (names, d_v) = (["weights", "values"], values.dim().3);
    let mut output = per_head(names, weights, &finite, d_v, weighted_sum)?;
    // … and the rest is added where it is allowed.
    for ((b, h, j, c), &v) in values.indexed_iter().filter(|(_, v)| !v.is_finite())
    {
        for i in (0..weights.dim().2).filter(|&i| allowed[[b, h, i, j]]) {
            output[[b, h, i, c]] += weights[[b, h, i, j]] * v;
        }
    }
    Ok(output)
}
// ANCHOR_END: masked_sum

/// What attention returns for a batch: the answers, and the weights that made them.
// ANCHOR: batched_type
#[derive(Clone, Debug, PartialEq)]
pub struct BatchedAttention<F> {
    /// The weighted sums, `(batch, heads, m, d_v)`.
    pub output: Array4<F>,
    /// The attention weights, `(batch, heads, m, n)`.
    pub weights: Array4<F>,
}
// ANCHOR_END: batched_type

/// Scaled dot-product attention behind a mask, for every head of every sequence.
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, heads, n, d_k)`, `values` are
/// `(batch, heads, n, d_v)`, and the mask stretches to `(batch, heads, m, n)`.
///
/// # Errors
/// If the shapes do not fit each other, the mask does not fit the scores, or the width is 0.
///
/// Source: Vaswani et al. (2017), equation 1 and section 3.2.3.
// ANCHOR: batched_attention
pub fn batched_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<BatchedAttention<F>> {
    attend_masked(&batched_scaled_scores(queries, keys)?, values, mask)
}
// ANCHOR_END: batched_attention

// ANCHOR: attend_masked
impl Mask {
    /// The mask and what these scores, `(batch, heads, m, n)`, forbid themselves: a
    /// score of −∞ hides its key.
    ///
    /// # Errors
    /// If the mask does not fit the scores.
    pub fn seen_in<F: NdFloat>(
        &self,
        scores: &ArrayRef4<F>,
    ) -> Result<Cow<'_, Mask>> {
        if scores.iter().all(|&e| e != F::neg_infinity()) {
            return Ok(Cow::Borrowed(self));
        }
        let seen = Mask::from_fn(scores.dim(), |b, h, i, j| {
            scores[[b, h, i, j]] != F::neg_infinity()
        });
        Ok(Cow::Owned((self & &seen)?))
    }
}

/// From scores to answers behind a mask: the weights, then the weighted sums of the values.
///
/// `scores` are `(batch, heads, m, n)`, `values` are `(batch, heads, n, d_v)`, and the mask stretches
/// to the scores. A score of −∞ forbids its key as the mask does: nothing in its value matters.
///
/// # Errors
/// If the mask does not fit the scores, or scores and values do not fit each other.
pub fn attend_masked<F: NdFloat>(
    scores: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<BatchedAttention<F>> {
    let weights = masked_softmax(scores, mask)?;
    let output = masked_sum(&weights, values, &*mask.seen_in(scores)?)?;
    Ok(BatchedAttention { output, weights })
}
// ANCHOR_END: attend_masked

/// The scaled scores of every head of every sequence: chapter 3's, one matrix after the other.
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, heads, n, d_k)`, the result is
/// `(batch, heads, m, n)`.
///
/// # Errors
/// If batch, heads or widths differ, or the width is 0.
// ANCHOR: batched_scaled_scores
pub fn batched_scaled_scores<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
) -> Result<Array4<F>> {
    let ((.., d_k), (_, _, n, key_width)) = (queries.dim(), keys.dim());
    // Said here too, because without a single head nobody else looks at the widths.
    ensure!(
        d_k == key_width,
        "queries are {d_k} wide but keys are {key_width} wide"
    );
    scale::<F>(d_k)?;
    per_head(["queries", "keys"], queries, keys, n, scaled_scores)
}

/// Applies a function to each head of each sequence; its results are `m × width`.
fn per_head<F: NdFloat>(
    names: [&str; 2],
    left: &ArrayRef4<F>,
    right: &ArrayRef4<F>,
    width: usize,
    apply: impl Fn(&ArrayRef2<F>, &ArrayRef2<F>) -> Result<Array2<F>>,
) -> Result<Array4<F>> {
    let (batch, heads, m, _) = left.dim();
    let (right_batch, right_heads, ..) = right.dim();
    ensure!(
        (batch, heads) == (right_batch, right_heads),
        "{} are {batch} × {heads} (batch × heads) but {} are {right_batch} × {right_heads}",
        names[0],
        names[1]
    );
    let mut results = Array4::zeros((batch, heads, m, width));
    for b in 0..batch {
        for h in 0..heads {
            let left = left.index_axis(Axis(0), b).index_axis_move(Axis(0), h);
            let right = right.index_axis(Axis(0), b).index_axis_move(Axis(0), h);
            let mut result = results
                .index_axis_mut(Axis(0), b)
                .index_axis_move(Axis(0), h);
            result.assign(&apply(&left, &right)?);
        }
    }
    Ok(results)
}
// ANCHOR_END: batched_scaled_scores

/// Scaled dot-product attention behind a mask, for one head of one sequence.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, and the mask stretches to
/// `(1, 1, m, n)`. Without a mask, pass [`Mask::everything`].
///
/// # Errors
/// As [`batched_attention`].
// ANCHOR: masked_attention
pub fn masked_attention<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Attention<F>> {
    let alone = |x| ArrayRef2::view(x).insert_axis(Axis(0)).insert_axis(Axis(0));
    let attention =
        batched_attention(&alone(queries), &alone(keys), &alone(values), mask)?;
    let only =
        |x: Array4<F>| x.index_axis_move(Axis(0), 0).index_axis_move(Axis(0), 0);
    Ok(Attention {
        output: only(attention.output),
        weights: only(attention.weights),
    })
}
// ANCHOR_END: masked_attention

/// The token that fills up the sentences of the padding example.
// ANCHOR: example_tokens
pub const PAD: u32 = 0;

/// The tokens of the padding example: two sentences, filled up to five places with [`PAD`].
pub fn example_tokens() -> Array2<u32> {
    array![[1, 2, 3, PAD, PAD], [1, 2, PAD, PAD, PAD]]
}
// ANCHOR_END: example_tokens
