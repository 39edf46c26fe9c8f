//! Scaled dot-product attention: why divide by $\sqrt{d_k}$?
//!
//! The dot product of two random vectors grows with their width, and large scores leave the softmax
//! nothing to learn from. This crate divides the scores by $\sqrt{d_k}$, and measures what happens
//! when nobody does.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch01_alignment::alignment_scores;
use ch02_softmax::{Attention, attend, softmax};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, NdFloat};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
// ANCHOR_END: imports

/// The scale of the scores: $1/\sqrt{d_k}$, where `d_k` is the width of one head's keys.
///
/// # Errors
/// If `d_k` is 0: vectors without entries have no scale.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.1.
// ANCHOR: scale
pub fn scale<F: NdFloat>(d_k: usize) -> Result<F> {
    ensure!(
        d_k > 0,
        "queries and keys are 0 wide, so 1/√d_k has no value"
    );
    let d_k = F::from(d_k).expect("every float type holds every width, rounded");
    Ok(d_k.sqrt().recip())
}
// ANCHOR_END: scale

/// The scaled scores $E = QK^\top/\sqrt{d_k}$.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`.
///
/// # Errors
/// If queries and keys are not equally wide, or are 0 wide.
// ANCHOR: scaled_scores
pub fn scaled_scores<F: NdFloat>(queries: ArrayView2<F>, keys: ArrayView2<F>) -> Result<Array2<F>> {
    Ok(alignment_scores(queries, keys)? * scale::<F>(keys.ncols())?)
}
// ANCHOR_END: scaled_scores

/// Scaled dot-product attention: $\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`; the output is `m × d_v`
/// and the weights are `m × n`. Without keys (n = 0) the output is 0: the sum is empty.
///
/// # Errors
/// If queries and keys are not equally wide or are 0 wide, or keys and values are not equally many.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), equation 1.
// ANCHOR: scaled_dot_product_attention
pub fn scaled_dot_product_attention<F: NdFloat>(
    queries: ArrayView2<F>,
    keys: ArrayView2<F>,
    values: ArrayView2<F>,
) -> Result<Attention<F>> {
    ensure!(
        keys.nrows() == values.nrows(),
        "there are {} keys but {} values",
        keys.nrows(),
        values.nrows()
    );
    attend(scaled_scores(queries, keys)?.view(), values)
}
// ANCHOR_END: scaled_dot_product_attention

/// How the weights answer to the scores: the Jacobian $\partial a_i/\partial e_j = a_i(\delta_{ij} - a_j)$.
///
/// `weights` are one row of weights, `n` long; the result is `n × n` and symmetric.
// ANCHOR: softmax_jacobian
pub fn softmax_jacobian<F: NdFloat>(weights: ArrayView1<F>) -> Array2<F> {
    let n = weights.len();
    // ∂a_i/∂e_j = a_i (δ_ij − a_j)
    Array2::from_shape_fn((n, n), |(i, j)| {
        let delta = if i == j { F::one() } else { F::zero() };
        weights[i] * (delta - weights[j])
    })
}
// ANCHOR_END: softmax_jacobian

/// A vector of `width` independent numbers of mean 0 and variance 1.
// ANCHOR: random_vector
pub fn random_vector(width: usize, rng: &mut impl Rng) -> Array1<f64> {
    Array1::from_shape_simple_fn(width, || StandardNormal.sample(rng))
}
// ANCHOR_END: random_vector

/// The mean and the variance of $q \cdot k$ over `samples` random pairs of width `d_k`.
///
/// # Errors
/// If there are no samples to take a mean of.
// ANCHOR: dot_product_spread
pub fn dot_product_spread(d_k: usize, samples: usize, rng: &mut impl Rng) -> Result<(f64, f64)> {
    ensure!(samples > 0, "0 samples have no mean");
    let dots = Array1::from_shape_simple_fn(samples, || {
        random_vector(d_k, rng).dot(&random_vector(d_k, rng))
    });
    let mean = dots.sum() / samples as f64;
    let variance = dots.mapv(|dot| (dot - mean).powi(2)).sum() / samples as f64;
    Ok((mean, variance))
}
// ANCHOR_END: dot_product_spread

/// How far the softmax has saturated, averaged over many random queries.
// ANCHOR: saturation
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saturation {
    /// The largest weight of a row: 1/n if all are equal, 1 if one key takes everything.
    pub largest_weight: f64,
    /// The size of the softmax's gradient: the root of the sum of the squares of its Jacobian.
    pub gradient: f64,
}

/// The saturation of a random query against `n` random keys, all `d_k` wide, without the scale and
/// with it, averaged over `samples` draws. Both are measured on the same draws.
///
/// # Errors
/// If `d_k`, `n` or `samples` is 0.
pub fn saturation(
    d_k: usize,
    n: usize,
    samples: usize,
    rng: &mut impl Rng,
) -> Result<(Saturation, Saturation)> {
    ensure!(
        n > 0 && samples > 0,
        "nothing to measure with {n} keys and {samples} samples"
    );
    let scale = scale::<f64>(d_k)?;
    let (mut unscaled, mut scaled) = (Saturation::default(), Saturation::default());
    for _ in 0..samples {
        let query = random_vector(d_k, rng);
        let scores = Array1::from_shape_simple_fn(n, || query.dot(&random_vector(d_k, rng)));
        for (mean, scores) in [
            (&mut unscaled, scores.clone()),
            (&mut scaled, scores * scale),
        ] {
            let weights = softmax(scores.view());
            let gradient = softmax_jacobian(weights.view())
                .mapv(|d| d * d)
                .sum()
                .sqrt();
            mean.largest_weight += weights.fold(0.0, |a, &b| f64::max(a, b)) / samples as f64;
            mean.gradient += gradient / samples as f64;
        }
    }
    Ok((unscaled, scaled))
}
// ANCHOR_END: saturation
