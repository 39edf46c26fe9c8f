//! The way back through every stage: from the gradient by what a stage returns to the gradient by what
//! it is given.
//!
//! `d_x` stands for `∂L/∂x`, the gradient of the loss by `x`, and has the shape of `x`. The gradient
//! by learned numbers is *added* to a thing of the same type that holds gradients instead.

// ANCHOR: backward_imports
use crate::same_shape;
use anyhow::{Result, ensure};
use ch01_alignment::batched_scores;
use ch03_scaled::scale;
use ch04_masks::{Mask, masked_sum};
use ch05_multihead::{
    Memory, MultiHeadAttention, MultiHeadSteps, Projection, cast, merge_heads,
    split_heads,
};
use ch08_transformer::{
    Activation, Embedding, FeedForward, FeedForwardSteps, LayerNorm,
    normal_share_below,
};
use ndarray::linalg::general_mat_mul;
use ndarray::{
    Array2, Array3, Array4, ArrayRef1, ArrayRef2, ArrayRef3, ArrayRef4, ArrayView4,
    Axis, NdFloat, Zip,
};
// ANCHOR_END: backward_imports

/// Back through the softmax of one row: `d_e_j = a_j (d_a_j − Σ_l a_l d_a_l)`.
///
/// `weights` and `d_weights` are `n` long, and so is the result. It is the product of the Jacobian
/// of chapter 3 with `d_weights`, without the Jacobian.
///
/// # Errors
/// If the two are not equally long.
// ANCHOR: softmax
pub fn softmax<F: NdFloat>(
    weights: &ArrayRef1<F>,
    d_weights: &ArrayRef1<F>,
) -> Result<ndarray::Array1<F>> {
    same_shape("weights", weights.shape(), "gradient", d_weights.shape())?;
    // Σ_l a_l d_a_l
    let mean = weights.dot(d_weights);
    Ok((d_weights - mean) * weights)
}
// ANCHOR_END: softmax

/// Back through the masked softmax and dropout on the weights:
/// `d_e = Ã ⊙ d_ã − A ⊙ (row sums of Ã ⊙ d_ã)`.
///
/// `weights` are `A`, `kept` are `Ã`, what dropout left of them, and `d_kept` is the gradient
/// by `Ã`; all are `(batch, heads, m, n)`, and so is the result. What the mask forbids gets 0, and so
/// does every key of a query that sees nothing.
///
/// # Errors
/// If the shapes differ, or the mask does not fit them.
// ANCHOR: masked_softmax
pub fn masked_softmax<F: NdFloat>(
    weights: &ArrayRef4<F>,
    kept: &ArrayRef4<F>,
    d_kept: &ArrayRef4<F>,
    mask: &Mask,
) -> Result<Array4<F>> {
    same_shape("weights", weights.shape(), "kept weights", kept.shape())?;
    same_shape("weights", weights.shape(), "gradient", d_kept.shape())?;
    let allowed = mask.fit(weights.dim())?;
    // Ã ⊙ d_ã, and 0 where the mask forbids, whatever stands there.
    let mut d_scores = Array4::zeros(weights.dim());
    Zip::from(&mut d_scores)
        .and(kept)
        .and(d_kept)
        .and(&allowed)
        .for_each(|d_e, &kept, &d_kept, &allowed| {
            if allowed {
                *d_e = kept * d_kept;
            }
        });
    for (mut d_e, a) in d_scores.rows_mut().into_iter().zip(weights.rows()) {
        let mean = d_e.sum();
        d_e.zip_mut_with(&a, |d_e, &a| *d_e -= a * mean);
    }
    Zip::from(&mut d_scores)
        .and(&allowed)
        .for_each(|d_e, &allowed| {
            if !allowed {
                *d_e = F::zero();
            }
        });
    Ok(d_scores)
}
// ANCHOR_END: masked_softmax

/// Back through the weighted sums `O = A V`: `d_A = d_O Vᵀ` and `d_V = Aᵀ d_O`.
///
/// `weights` are `(batch, heads, m, n)`, `values` are `(batch, heads, n, d_v)`, `d_output` is
/// `(batch, heads, m, d_v)`. What stands in a value that is hidden from all does not matter to `d_V`.
/// `d_A` has a meaning only where the mask allows: elsewhere a hidden NaN may stand, and
/// [`masked_softmax`] does not look there.
///
/// # Errors
/// If the shapes or the mask do not fit each other.
// ANCHOR: weighted_sum
pub fn weighted_sum<F: NdFloat>(
    weights: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    mask: &Mask,
    d_output: &ArrayRef4<F>,
) -> Result<(Array4<F>, Array4<F>)> {
    let d_weights = products(d_output, values)?;
    same_shape("weights", weights.shape(), "gradient", d_weights.shape())?;
    let d_values = masked_sum(&transposed(weights), d_output, &mask.transposed())?;
    Ok((d_weights, d_values))
}

/// `A Bᵀ` in each head of each sequence.
fn products<F: NdFloat>(a: &ArrayRef4<F>, b: &ArrayRef4<F>) -> Result<Array4<F>> {
    let ((batch, heads, m, width), (b_batch, b_heads, n, b_width)) =
        (a.dim(), b.dim());
    ensure!(
        (batch, heads) == (b_batch, b_heads),
        "{batch} × {heads} gradients (batch × heads) do not fit {b_batch} × {b_heads} values"
    );
    let together = a.to_shape((batch * heads, m, width))?;
    let apart = b.to_shape((batch * heads, n, b_width))?;
    let products = batched_scores(&together, &apart)?;
    Ok(products.into_shape_with_order((batch, heads, m, n))?)
}

fn transposed<F>(x: &ArrayRef4<F>) -> ArrayView4<'_, F> {
    x.view().permuted_axes([0, 1, 3, 2])
}
// ANCHOR_END: weighted_sum

/// Back through the scaled scores `E = c Q Kᵀ` with `c = 1/√d_k`: `d_Q = c d_E K` and
/// `d_K = c d_Eᵀ Q`.
///
/// `queries` are `(batch, heads, m, d_k)`, `keys` are `(batch, heads, n, d_k)`, `d_scores` are
/// `(batch, heads, m, n)` and 0 wherever the mask forbids.
///
/// # Errors
/// If the shapes or the mask do not fit each other, or the width is 0.
// ANCHOR: scaled_scores
pub fn scaled_scores<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    mask: &Mask,
    d_scores: &ArrayRef4<F>,
) -> Result<(Array4<F>, Array4<F>)> {
    let c = scale::<F>(queries.dim().3)?;
    let d_queries = masked_sum(d_scores, keys, mask)? * c;
    let d_keys =
        masked_sum(&transposed(d_scores), queries, &mask.transposed())? * c;
    same_shape("queries", queries.shape(), "gradient", d_queries.shape())?;
    same_shape("keys", keys.shape(), "gradient", d_keys.shape())?;
    Ok((d_queries, d_keys))
}
// ANCHOR_END: scaled_scores

/// Back through `y = x W + b`: `d_W = xᵀ d_y`, `d_b = Σ d_y` and `d_x = d_y Wᵀ`.
///
/// `x` is `(batch, n, in)`, `d_y` is `(batch, n, out)`, the result is as `x`.
///
/// # Errors
/// If the shapes do not fit each other.
// ANCHOR: projection
pub fn projection<F: NdFloat>(
    projection: &Projection<F>,
    x: &ArrayRef3<F>,
    d_y: &ArrayRef3<F>,
    gradient: &mut Projection<F>,
) -> Result<Array3<F>> {
    let (batch, n, width) = x.dim();
    let (width_in, width_out) = projection.weight().dim();
    same_shape("input", x.shape(), "projection's", &[batch, n, width_in])?;
    same_shape(
        "gradient",
        d_y.shape(),
        "projection's",
        &[batch, n, width_out],
    )?;
    let x = x.to_shape((batch * n, width))?;
    let d_y = d_y.to_shape((batch * n, width_out))?;

    let (mut d_weight, d_bias) = gradient.numbers_mut();
    same_shape(
        "weight",
        projection.weight().shape(),
        "gradient",
        d_weight.shape(),
    )?;
    ensure!(
        projection.bias().is_some() == d_bias.is_some(),
        "of projection and gradient only one has a bias"
    );
    general_mat_mul(F::one(), &x.t(), &d_y, F::one(), &mut d_weight);
    if let Some(mut d_bias) = d_bias {
        d_bias += &d_y.sum_axis(Axis(0));
    }
    let mut d_x = Array2::zeros((batch * n, width));
    general_mat_mul(
        F::one(),
        &d_y,
        &projection.weight().t(),
        F::zero(),
        &mut d_x,
    );
    Ok(d_x.into_shape_with_order((batch, n, width))?)
}
// ANCHOR_END: projection

/// Back through multi-head attention, step by step: the gradients by the queries, `(batch, m, width)`,
/// and by the source of keys and values, `(batch, n, width)`.
///
/// `queries` and `source` are what the attention was given, `memory` and `steps` what became of them;
/// `d_output` is `(batch, m, d_model)`.
///
/// # Errors
/// If the shapes or the mask do not fit each other.
// ANCHOR: multi_head
pub fn multi_head<F: NdFloat>(
    attention: &MultiHeadAttention<F>,
    [queries, source]: [&ArrayRef3<F>; 2],
    memory: &Memory<F>,
    steps: &MultiHeadSteps<F>,
    mask: &Mask,
    d_output: &ArrayRef3<F>,
    gradient: &mut MultiHeadAttention<F>,
) -> Result<[Array3<F>; 2]> {
    let heads = attention.heads();
    let [w_q, w_k, w_v, w_o] = attention.projections();
    let [d_w_q, d_w_k, d_w_v, d_w_o] = gradient.projections_mut();
    // output = concat(heads) W^O
    let d_merged = projection(w_o, &steps.merged, d_output, d_w_o)?;
    let d_answers = split_heads(&d_merged, heads)?;
    // heads = Ã V
    let (d_kept, d_v) =
        weighted_sum(&steps.kept, &memory.values, mask, &d_answers)?;
    // Ã = Dropout(softmax(E))
    let d_scores = masked_softmax(&steps.weights, &steps.kept, &d_kept, mask)?;
    // E = Q Kᵀ / √d_k
    let (d_q, d_k) = scaled_scores(&steps.queries, &memory.keys, mask, &d_scores)?;
    // Q = X W^Q, and K and V from the source
    let d_queries = projection(w_q, queries, &merge_heads(&d_q), d_w_q)?;
    let from_keys = projection(w_k, source, &merge_heads(&d_k), d_w_k)?;
    let from_values = projection(w_v, source, &merge_heads(&d_v), d_w_v)?;
    Ok([d_queries, from_keys + from_values])
}
// ANCHOR_END: multi_head

/// Back through LayerNorm `y = γ x̂ + β`: with `g = γ d_y`,
/// `d_x = (g − mean(g) − x̂ mean(g ⊙ x̂)) / σ`, `d_γ = Σ d_y ⊙ x̂`, `d_β = Σ d_y`.
///
/// `x` and `d_y` are `(batch, n, d_model)`, and so is the result.
///
/// # Errors
/// If the shapes do not fit each other.
// ANCHOR: layer_norm
pub fn layer_norm<F: NdFloat>(
    norm: &LayerNorm<F>,
    x: &ArrayRef3<F>,
    d_y: &ArrayRef3<F>,
    gradient: &mut LayerNorm<F>,
) -> Result<Array3<F>> {
    same_shape("input", x.shape(), "gradient", d_y.shape())?;
    let (standardized, sigmas) = norm.standardized(x)?;
    let [mut d_gain, mut d_shift] = gradient.numbers_mut();
    same_shape("gain", norm.gain().shape(), "gradient", d_gain.shape())?;
    let d = cast::<F>(norm.gain().len() as f64);
    let mut d_x = Array3::zeros(x.dim());
    let rows = standardized.rows().into_iter().zip(d_y.rows()).zip(&sigmas);
    for (((x, d_y), &sigma), mut d_x) in rows.zip(d_x.rows_mut()) {
        d_gain += &(&d_y * &x);
        d_shift += &d_y;
        // d_x = (g − mean(g) − x̂ mean(g ⊙ x̂)) / σ
        d_x.assign(&(norm.gain() * &d_y));
        let (mean, slope) = (d_x.sum() / d, d_x.dot(&x) / d);
        d_x.zip_mut_with(&x, |g, &x| *g = (*g - mean - x * slope) / sigma);
    }
    Ok(d_x)
}
// ANCHOR_END: layer_norm

/// The slope of an activation at `x`. That of ReLU at 0 is 0.
// ANCHOR: activation
pub fn slope<F: NdFloat>(activation: Activation, x: F) -> F {
    match activation {
        Activation::Relu if x <= F::zero() => F::zero(),
        Activation::Relu => F::one(),
        // (x Φ(x))′ = Φ(x) + x φ(x),  φ(x) = exp(−x²/2) / √(2π)
        Activation::Gelu => {
            let density =
                (-x * x / cast(2.0)).exp() / cast(std::f64::consts::TAU.sqrt());
            // Far from 0 there is no density, and ∞ · 0 would be a NaN.
            if density == F::zero() {
                normal_share_below(x)
            } else {
                normal_share_below(x) + x * density
            }
        }
    }
}
// ANCHOR_END: activation

/// Back through a feed-forward network: `(batch, n, d_model)` → the same shape.
///
/// # Errors
/// If the shapes do not fit each other.
// ANCHOR: feed_forward
pub fn feed_forward<F: NdFloat>(
    network: &FeedForward<F>,
    x: &ArrayRef3<F>,
    steps: &FeedForwardSteps<F>,
    d_output: &ArrayRef3<F>,
    gradient: &mut FeedForward<F>,
) -> Result<Array3<F>> {
    let mut d_active =
        projection(&network.outer, &steps.active, d_output, &mut gradient.outer)?;
    same_shape(
        "inner vectors",
        steps.inner.shape(),
        "gradient",
        d_active.shape(),
    )?;
    d_active.zip_mut_with(&steps.inner, |d, &x| {
        *d *= slope(network.activation, x);
    });
    projection(&network.inner, x, &d_active, &mut gradient.inner)
}
// ANCHOR_END: feed_forward

/// Back through an embedding: the row of each token receives `√d_model · d_x` from every place
/// where the token stands.
///
/// `tokens` are `batch × n`, `d_x` is `(batch, n, d_model)`.
///
/// # Errors
/// If the shapes do not fit each other, or a token is not in the vocabulary.
// ANCHOR: embedding
pub fn embedding<F: NdFloat>(
    embedding: &Embedding<F>,
    tokens: &ArrayRef2<u32>,
    d_x: &ArrayRef3<F>,
    gradient: &mut Embedding<F>,
) -> Result<()> {
    let (batch, n) = tokens.dim();
    let width = embedding.table().ncols();
    same_shape("gradient", d_x.shape(), "embedding's", &[batch, n, width])?;
    same_shape(
        "table",
        embedding.table().shape(),
        "gradient",
        gradient.table().shape(),
    )?;
    let scale = embedding.scale();
    let mut d_table = gradient.table_mut();
    for (&token, d_x) in tokens.iter().zip(d_x.rows()) {
        embedding.row(token)?;
        d_table.row_mut(token as usize).scaled_add(scale, &d_x);
    }
    Ok(())
}
// ANCHOR_END: embedding
