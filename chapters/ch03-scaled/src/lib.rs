//! Scaled dot-product attention: why divide by `√d_k`?
//!
//! The dot product of two random vectors grows with their width, and large scores leave the softmax
//! nothing to learn from. This crate divides the scores by `√d_k`, and measures what happens
//! when nobody does.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch01_alignment::alignment_scores;
use ch02_softmax::{Attention, attend, softmax};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, NdFloat};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
// ANCHOR_END: imports

/// The scale of the scores: `1/√d_k`, where `d_k` is the width of one head's keys.
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

/// The scaled scores `E = Q Kᵀ / √d_k`.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, the result is `m × n`. The queries are scaled before
/// the product is taken, which would otherwise leave the range of `F` before its result does.
///
/// # Errors
/// If queries and keys are not equally wide, or are 0 wide.
// ANCHOR: scaled_scores
pub fn scaled_scores<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // (Q / √d_k) Kᵀ: a product that is scaled afterwards could have overflowed by then.
    let scaled = queries * scale::<F>(queries.ncols())?;
    alignment_scores(&scaled, keys)
}
// ANCHOR_END: scaled_scores

/// Scaled dot-product attention: `softmax(Q Kᵀ / √d_k) V`.
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
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Attention<F>> {
    ensure!(
        keys.nrows() == values.nrows(),
        "there are {} keys but {} values",
        keys.nrows(),
        values.nrows()
    );
    attend(&scaled_scores(queries, keys)?, values)
}
// ANCHOR_END: scaled_dot_product_attention

/// How the weights answer to the scores: the Jacobian `∂a_i/∂e_j = a_i (δ_ij − a_j)`.
///
/// `weights` are one row of weights, `n` long; the result is `n × n` and symmetric.
// ANCHOR: softmax_jacobian
pub fn softmax_jacobian<F: NdFloat>(weights: &ArrayRef1<F>) -> Array2<F> {
    let n = weights.len();
    // ∂a_i/∂e_j = a_i (δ_ij − a_j)
    Array2::from_shape_fn((n, n), |(i, j)| {
        let delta = if i == j { F::one() } else { F::zero() };
        weights[i] * (delta - weights[j])
    })
}
// ANCHOR_END: softmax_jacobian

/// The widths at which this chapter measures.
// ANCHOR: settings
pub const WIDTHS: [usize; 6] = [1, 4, 16, 64, 256, 1024];
/// The seed of its random numbers.
pub const SEED: u64 = 2017;
/// How many dot products it draws at each width.
pub const PAIRS: usize = 4_000;
/// How many queries it draws at each width, and how many keys for each of them.
pub const QUERIES: usize = 401;
/// See [`QUERIES`].
pub const KEYS: usize = 16;
// ANCHOR_END: settings

/// A vector of `width` independent numbers of mean 0 and variance 1.
// ANCHOR: random_vector
pub fn random_vector(width: usize, rng: &mut (impl Rng + ?Sized)) -> Array1<f64> {
    Array1::from_shape_simple_fn(width, || StandardNormal.sample(rng))
}
// ANCHOR_END: random_vector

/// The mean of `q · k` over `samples` random pairs of width `d_k`, and its variance, the mean of the
/// squared distances from that mean.
///
/// # Errors
/// If there are no samples to take a mean of.
// ANCHOR: dot_product_spread
pub fn dot_product_spread(
    d_k: usize,
    samples: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<(f64, f64)> {
    ensure!(samples > 0, "0 samples have no mean");
    let dots = Array1::from_shape_simple_fn(samples, || {
        random_vector(d_k, rng).dot(&random_vector(d_k, rng))
    });
    let mean = dots.sum() / samples as f64;
    let variance = dots.mapv(|dot| (dot - mean).powi(2)).sum() / samples as f64;
    Ok((mean, variance))
}
// ANCHOR_END: dot_product_spread

/// How far the softmax has saturated for a typical query: the medians of many random ones.
// ANCHOR: saturation_type
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// The largest weight: 1/n if all are equal, 1 if one takes everything.
    pub largest_weight: f64,
    /// How far the weights move when the query does: the size of `∂a/∂q`, `n × d_k`.
    pub gradient: f64,
}
// ANCHOR_END: saturation_type

/// The saturation of random queries against `n` random keys, all `d_k` wide: without the scale, and
/// with it. Both are measured on the same `samples` draws.
///
/// # Errors
/// If `d_k`, `n` or `samples` is 0.
// ANCHOR: saturation
pub fn saturation(
    d_k: usize,
    n: usize,
    samples: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<[Saturation; 2]> {
    ensure!(
        n > 0 && samples > 0,
        "nothing to measure with {n} keys and {samples} samples"
    );
    let factors = [1.0, scale(d_k)?];
    let mut largest_weights = [vec![], vec![]];
    let mut gradients = [vec![], vec![]];
    for _ in 0..samples {
        let query = random_vector(d_k, rng);
        let keys =
            Array2::from_shape_simple_fn((n, d_k), || StandardNormal.sample(rng));
        for (i, factor) in factors.into_iter().enumerate() {
            // e = c K q, so ∂a/∂q = J · c K
            let weights = softmax(&(keys.dot(&query) * factor));
            let gradient = softmax_jacobian(&weights).dot(&keys) * factor;
            largest_weights[i].push(weights.fold(0.0, |a: f64, &b| a.max(b)));
            gradients[i].push(size(&gradient));
        }
    }
    Ok([0, 1].map(|i| Saturation {
        largest_weight: median(&mut largest_weights[i]),
        gradient: median(&mut gradients[i]),
    }))
}

/// The size of a table of numbers: the root of the sum of their squares.
pub fn size(table: &ArrayRef2<f64>) -> f64 {
    table.mapv(|x| x * x).sum().sqrt()
}

/// The middle of some samples, of which there is at least one.
fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    f64::midpoint(samples[(samples.len() - 1) / 2], samples[samples.len() / 2])
}
// ANCHOR_END: saturation
