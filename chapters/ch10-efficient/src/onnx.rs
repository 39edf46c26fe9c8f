//! The operator `Attention` of ONNX, opsets 23 to 25, from the stages of this book.

// ANCHOR: imports
use crate::{Sizes, Visible, repeat_heads};
use anyhow::{Context, Result, bail, ensure};
use ch01_alignment::batched_scores;
use ch03_scaled::scale;
use ch04_masks::{Mask, Shape, attend_masked};
use ch05_multihead::{merge_heads, split_heads};
use ndarray::{
    Array, Array3, Array4, ArrayD, ArrayRef, ArrayRef4, ArrayRefD, ArrayView4,
    ArrayViewD, Axis, Dimension, IxDyn, NdFloat, Zip, concatenate,
};
// ANCHOR_END: imports

/// The attributes of the operator.
// ANCHOR: attributes
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OnnxAttention<F> {
    /// The factor of the scores; `1/√d_k` if there is none.
    pub scale: Option<F>,
    /// Scores are bent into ± this; 0 leaves them as they are.
    pub softcap: F,
    /// Whether a query may not see what comes after it.
    pub is_causal: bool,
    /// How many keys before its own position a query may see, and how many after it;
    /// `None` for all. Opset 25.
    pub window: (Option<usize>, Option<usize>),
    /// Heads of the queries, and of keys and values, for inputs with three axes.
    pub heads: Option<(usize, usize)>,
    /// Which scores to give out: `qk_matmul_output_mode`.
    pub score_output: ScoreOutput,
}

/// The score output, by its mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScoreOutput {
    /// Mode 0: scaled, and nothing else.
    #[default]
    Scaled,
    /// Mode 1: and capped.
    Capped,
    /// Mode 2: and with the mask added, −∞ where it forbids.
    Masked,
    /// Mode 3: the weights.
    Weights,
}
// ANCHOR_END: attributes

/// The inputs of the operator.
// ANCHOR: inputs
#[derive(Clone, Debug)]
pub struct OnnxInputs<'a, F> {
    /// `(batch, heads, m, d_k)` or `(batch, m, heads · d_k)`.
    pub queries: ArrayViewD<'a, F>,
    /// `(batch, kv_heads, n, d_k)` or `(batch, n, kv_heads · d_k)`.
    pub keys: ArrayViewD<'a, F>,
    /// `(batch, kv_heads, n, d_v)` or `(batch, n, kv_heads · d_v)`.
    pub values: ArrayViewD<'a, F>,
    /// A mask of one to four axes, the last of which may be too short.
    pub mask: Option<OnnxMask<'a, F>>,
    /// Keys `(batch, kv_heads, past, d_k)` and values `(batch, kv_heads, past,
    /// d_v)` that come before.
    pub past: Option<(ArrayView4<'a, F>, ArrayView4<'a, F>)>,
    /// How many keys of each sequence are not padding: `nonpad_kv_seqlen`, opset
    /// 24.
    pub lengths: Option<&'a [usize]>,
}

/// A mask: true and false, or numbers to add to the scores.
#[derive(Clone, Debug)]
pub enum OnnxMask<'a, F> {
    /// True = may attend.
    Allowed(ArrayViewD<'a, bool>),
    /// Added to the scores.
    Added(ArrayViewD<'a, F>),
}

/// The outputs of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct OnnxAnswer<F> {
    /// The answers, with as many axes as the queries.
    pub output: ArrayD<F>,
    /// All keys, the past ones first, `(batch, kv_heads, n, d_k)`.
    pub keys: Array4<F>,
    /// All values, `(batch, kv_heads, n, d_v)`.
    pub values: Array4<F>,
    /// Scores or weights, `(batch, heads, m, n)`.
    pub scores: Array4<F>,
}
// ANCHOR_END: inputs

// ANCHOR: attend
impl<F: NdFloat> OnnxAttention<F> {
    /// The operator.
    ///
    /// # Errors
    /// If the shapes do not fit each other, inputs with three axes come without
    /// numbers of heads or those with four have other ones, past keys come together
    /// with lengths, or the scale or the softcap is negative or not finite.
    ///
    /// Source: ONNX, *Attention*, opsets 23 to 25.
    pub fn attend(&self, inputs: &OnnxInputs<F>) -> Result<OnnxAnswer<F>> {
        // Cut into heads, put behind the past, and repeated for their groups.
        let (heads, kv_heads) = self.heads.unzip();
        let queries = with_heads(&inputs.queries, heads, "queries")?;
        let mut keys = with_heads(&inputs.keys, kv_heads, "keys")?;
        let mut values = with_heads(&inputs.values, kv_heads, "values")?;
        let mut past = 0;
        if let Some((past_keys, past_values)) = &inputs.past {
            ensure!(
                inputs.lengths.is_none(),
                "past keys cannot come together with lengths"
            );
            past = past_keys.len_of(Axis(2));
            keys = behind(past_keys, &keys, "keys")?;
            values = behind(past_values, &values, "values")?;
        }
        let visible = Visible::everything();
        let sizes = Sizes::new(&queries, &keys, &values, &visible)?;
        let Sizes {
            batch, heads, m, n, ..
        } = sizes;
        let every_key = repeat_heads(&keys, heads)?;
        let every_value = repeat_heads(&values, heads)?;

        // c Q Kᵀ, bent by the softcap if there is one.
        let scaled = self.scaled(queries, every_key)?;
        let capped = self.capped(&scaled)?;

        // Add the mask; forbid what it, the order or the lengths forbid.
        let shape = (batch, heads, m, n);
        let (added, given) = read_mask(inputs.mask.as_ref(), shape)?;
        let mask = (&given & &self.rule(shape, past, inputs.lengths)?)?;
        let masked = mask.hide(&capped + &added)?;
        let attention = attend_masked(&masked, &every_value, &mask)?;
        let (answers, weights) = (attention.output, attention.weights);

        Ok(OnnxAnswer {
            output: match inputs.queries.ndim() {
                3 => merge_heads(&answers).into_dyn(),
                _ => answers.into_dyn(),
            },
            scores: match self.score_output {
                ScoreOutput::Scaled => scaled,
                ScoreOutput::Capped => capped,
                ScoreOutput::Masked => masked,
                ScoreOutput::Weights => weights,
            },
            keys,
            values,
        })
    }
}
// ANCHOR_END: attend

// ANCHOR: shapes
/// Inputs with three axes cut into heads; those with four as they are.
fn with_heads<F: NdFloat>(
    x: &ArrayRefD<F>,
    heads: Option<usize>,
    name: &str,
) -> Result<Array4<F>> {
    match x.ndim() {
        3 => {
            let heads = heads.with_context(|| {
                format!(
                    "{name} have three axes, so the number of heads must be given"
                )
            })?;
            split_heads(&x.view().into_dimensionality()?, heads)
        }
        4 => {
            let given = heads.unwrap_or(x.len_of(Axis(1)));
            ensure!(
                given == x.len_of(Axis(1)),
                "{name} have {} heads, not {given}",
                x.len_of(Axis(1))
            );
            Ok(copy(&x.view().into_dimensionality()?))
        }
        axes => bail!("{name} have {axes} axes, but should have 3 or 4"),
    }
}

/// A copy with strides of its own: those of an empty view can be of something larger.
fn copy<T: Copy, D: Dimension>(x: &ArrayRef<T, D>) -> Array<T, D> {
    Zip::from(x).map_collect(|&x| x)
}

/// What comes after the past, behind it.
fn behind<F: NdFloat>(
    past: &ArrayRef4<F>,
    new: &Array4<F>,
    name: &str,
) -> Result<Array4<F>> {
    let ((batch, heads, _, d), (b, h, _, width)) = (past.dim(), new.dim());
    ensure!(
        (batch, heads, d) == (b, h, width),
        "past {name} are {batch} × {heads} × … × {d} but new ones {b} × {h} × … × {width}"
    );
    Ok(concatenate(Axis(2), &[past.view(), new.view()])?)
}

/// Batch and heads as one axis.
fn one_batch<F: NdFloat>(x: Array4<F>) -> Result<Array3<F>> {
    let (batch, heads, n, d) = x.dim();
    let x = x.as_standard_layout().into_owned();
    Ok(x.into_shape_with_order((batch * heads, n, d))?)
}
// ANCHOR_END: shapes

// ANCHOR: scores
impl<F: NdFloat> OnnxAttention<F> {
    /// `c Q Kᵀ`, computed as `(√c Q) (√c K)ᵀ`.
    fn scaled(&self, q: Array4<F>, k: Array4<F>) -> Result<Array4<F>> {
        let ((batch, heads, m, d_k), n) = (q.dim(), k.len_of(Axis(2)));
        let c = match self.scale {
            Some(c) => c,
            None => scale(d_k)?,
        };
        ensure!(
            c.is_finite() && c >= F::zero(),
            "the scale must be a finite number and not below 0, not {c}"
        );
        let (q, k) = (one_batch(q * c.sqrt())?, one_batch(k * c.sqrt())?);
        let scores = batched_scores(&q, &k)?;
        Ok(scores.into_shape_with_order((batch, heads, m, n))?)
    }

    /// `s tanh(e / s)`, which never leaves ± s.
    fn capped(&self, scores: &Array4<F>) -> Result<Array4<F>> {
        let s = self.softcap;
        ensure!(
            s.is_finite() && s >= F::zero(),
            "the softcap must be a finite number and not below 0, not {s}"
        );
        Ok(if s == F::zero() {
            scores.clone()
        } else {
            scores.mapv(|e| s * (e / s).tanh())
        })
    }
}
// ANCHOR_END: scores

// ANCHOR: masks
/// What a mask adds to the scores, and what it allows.
fn read_mask<F: NdFloat>(
    mask: Option<&OnnxMask<F>>,
    shape: Shape,
) -> Result<(Array4<F>, Mask)> {
    Ok(match mask {
        None => (Array4::zeros((1, 1, 1, 1)), Mask::everything()),
        Some(OnnxMask::Allowed(allowed)) => {
            let allowed = stretch(allowed, false, shape)?;
            let mask = Mask::from_fn(shape, |b, h, i, j| allowed[[b, h, i, j]]);
            (Array4::zeros((1, 1, 1, 1)), mask)
        }
        Some(OnnxMask::Added(added)) => {
            let added = stretch(added, F::neg_infinity(), shape)?;
            let mask = Mask::from_fn(shape, |b, h, i, j| {
                added[[b, h, i, j]] != F::neg_infinity()
            });
            (added, mask)
        }
    })
}

/// A mask of any number of axes, filled up along the last and then stretched.
fn stretch<T: Copy>(
    mask: &ArrayRefD<T>,
    filling: T,
    shape: Shape,
) -> Result<Array4<T>> {
    let (batch, heads, m, n) = shape;
    ensure!(
        mask.ndim() > 0,
        "a mask without axes does not say for which key"
    );
    let last = Axis(mask.ndim() - 1);
    let mut sizes = mask.raw_dim();
    let missing = n.saturating_sub(mask.len_of(last));
    sizes[last.index()] = missing;
    let filled = concatenate(
        last,
        &[mask.view(), ArrayD::from_elem(sizes, filling).view()],
    )?;
    let stretched = filled.broadcast(IxDyn(&[batch, heads, m, n]));
    let stretched = stretched.with_context(|| {
        format!(
            "a mask of {:?} does not fit scores of {shape:?}",
            mask.shape()
        )
    })?;
    Ok(copy(&stretched.into_dimensionality()?))
}

impl<F: NdFloat> OnnxAttention<F> {
    /// Where attention is allowed by the order of positions and the lengths of the
    /// sequences.
    fn rule(
        &self,
        (batch, _, m, n): Shape,
        past: usize,
        lengths: Option<&[usize]>,
    ) -> Result<Mask> {
        let all = vec![n; batch];
        let real = lengths.unwrap_or(&all);
        ensure!(
            real.len() == batch,
            "there are {batch} sequences but {} lengths",
            real.len()
        );
        let padding = Mask::padding(real, n)?;
        // Query i of sequence b stands behind all that was there before the queries came.
        let distance = |b: usize, i: usize, j: usize| {
            let before = match lengths {
                Some(lengths) => lengths[b] as i128 - m as i128,
                None => past as i128,
            };
            i as i128 + before - j as i128
        };
        let within = |distance: i128, most: Option<usize>| {
            most.is_none_or(|most| distance <= most as i128)
        };
        let (left, right) = self.window;
        let near = Mask::from_fn((batch, 1, m, n), |b, _, i, j| {
            let distance = distance(b, i, j);
            let is_seen = distance >= 0 || !self.is_causal;
            is_seen && within(distance, left) && within(-distance, right)
        });
        &near & &padding
    }
}
// ANCHOR_END: masks
