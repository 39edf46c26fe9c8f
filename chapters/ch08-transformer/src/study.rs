//! What happens without the parts around attention, measured.

// ANCHOR: study_imports
use crate::{LayerNorm, Mode, NormOrder, Residual, Settings, attend};
use anyhow::{Result, ensure};
use ch01_alignment::cosine_scores;
use ch04_masks::Mask;
use ch05_multihead::MultiHeadAttention;
use ndarray::{Array3, ArrayRef3, Axis};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
// ANCHOR_END: study_imports

/// Random vectors of mean 0 and variance 1, `(1, n, d_model)`.
// ANCHOR: random_vectors
pub fn random_vectors(
    n: usize,
    d_model: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Array3<f64> {
    Array3::from_shape_simple_fn((1, n, d_model), || StandardNormal.sample(rng))
}
// ANCHOR_END: random_vectors

/// How alike the vectors of a sequence are: the mean cosine between two different ones, 1 if all
/// point the same way. A sequence of one vector is like itself.
///
/// `x` is `(batch, n, d_model)`; the first sequence is looked at.
///
/// # Errors
/// If there is no sequence or no vector.
// ANCHOR: likeness
pub fn likeness(x: &ArrayRef3<f64>) -> Result<f64> {
    let (batch, n, _) = x.dim();
    ensure!(batch > 0 && n > 0, "there are no vectors to compare");
    if n == 1 {
        return Ok(1.0);
    }
    let x = x.index_axis(Axis(0), 0);
    let cosines = cosine_scores(&x, &x)?;
    let others = cosines.sum() - cosines.diag().sum();
    Ok(others / (n * (n - 1)) as f64)
}
// ANCHOR_END: likeness

/// How alike random vectors become in layers of random self-attention: before the first layer, and
/// after each. With the shortcut a layer is `x + f(LayerNorm(x))`, without it `f(LayerNorm(x))`.
///
/// # Errors
/// If a size is 0, or the heads do not divide the width.
///
/// Source: the effect is that of Dong, Cordonnier, Loukas, *Attention Is Not All You Need* (2021).
// ANCHOR: collapse
pub fn collapse(
    [n, d_model, heads, depth]: [usize; 4],
    shortcut: bool,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<f64>> {
    let mut x = random_vectors(n, d_model, rng);
    let mut alike = vec![likeness(&x)?];
    let residual = Residual::new(LayerNorm::fresh(d_model)?, NormOrder::Pre);
    let mode = &mut Mode::Evaluation;
    for _ in 0..depth {
        let attention = MultiHeadAttention::random(d_model, heads, rng)?;
        let steps = residual.around(&x, mode, |x, mode| {
            attend(&attention, x, x, &Mask::everything(), mode)
        })?;
        x = if shortcut {
            steps.output
        } else {
            steps.part.asked.output
        };
        alike.push(likeness(&x)?);
    }
    Ok(alike)
}
// ANCHOR_END: collapse

/// How large the numbers become in the layers of a random encoder: the root of their mean square
/// before the first layer, and after each.
///
/// # Errors
/// If the settings give no encoder, or `n` is 0.
// ANCHOR: growth
pub fn growth(
    settings: &Settings,
    n: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<f64>> {
    ensure!(n > 0, "there are no vectors to measure");
    let encoder = settings.encoder::<f64>(rng)?;
    let x = random_vectors(n, settings.d_model, rng);
    let (mask, mode) = (Mask::everything(), &mut Mode::Evaluation);
    let steps = encoder.apply_in_steps(&x, &mask, mode)?;
    let outputs = steps.layers.iter().map(|layer| &layer.feed_forward.output);
    let size = |x: &Array3<f64>| (x.mapv(|x| x * x).sum() / x.len() as f64).sqrt();
    Ok(std::iter::once(&x).chain(outputs).map(size).collect())
}
// ANCHOR_END: growth
