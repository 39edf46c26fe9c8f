//! Chapter 8: what stands around attention?

use crate::ch04::causal;
use crate::ch05::project;
use crate::ch06::{positions, self_attention};
use crate::ch07::cross_attention;
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ch05_multihead::{Projection, cast};
use ch08_transformer::{
    DecoderLayer, Embedding, Encoder, EncoderLayer, FeedForward, NormOrder,
    Residual,
};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, NdFloat, s};

/// What stands under the root of a LayerNorm beside the variance: the same in all models here.
pub const EPS: f64 = 1e-5;

/// Tokens brought in: √d_model times the row of the table, plus your sinusoidal position. The first
/// token stands at position `first`.
///
/// [`row`](Embedding::row) gives the row of a token, [`scale`](Embedding::scale) the √d_model. The
/// result is `n × d_model` for `n` tokens.
///
/// # Errors
/// If a token is not in the vocabulary.
// ANCHOR: embed
pub fn embed<F: NdFloat>(
    embedding: &Embedding<F>,
    tokens: &[u32],
    first: usize,
) -> Result<Array2<F>> {
    // ANCHOR: embed_body
    let d_model = embedding.table().ncols();
    let places = positions::<F>(first + tokens.len(), d_model);
    let mut x = places.slice(s![first.., ..]).to_owned();
    for (mut x, &token) in x.rows_mut().into_iter().zip(tokens) {
        x.scaled_add(embedding.scale(), &embedding.row(token)?);
    }
    Ok(x)
    // ANCHOR_END: embed_body
}
// ANCHOR_END: embed

/// Layer normalization: each row moved to mean 0 and divided by √(variance + ε), then multiplied by the
/// gain and moved by the shift, column by column. The variance divides by the width.
///
/// `x` is `n × d`, gain and shift are `d` long, the result is `n × d`.
///
/// # Errors
/// If gain or shift are not as long as a row.
// ANCHOR: layer_norm
pub fn layer_norm<F: NdFloat>(
    x: &ArrayRef2<F>,
    gain: &ArrayRef1<F>,
    shift: &ArrayRef1<F>,
    eps: f64,
) -> Result<Array2<F>> {
    // ANCHOR: layer_norm_body
    let d = x.ncols();
    ensure!(
        gain.len() == d && shift.len() == d,
        "vectors are {d} wide but gain and shift {} and {}",
        gain.len(),
        shift.len()
    );
    let mut y = x.to_owned();
    for mut row in y.rows_mut() {
        let mean = row.sum() / cast(d as f64);
        row -= mean;
        let variance = row.dot(&row) / cast(d as f64);
        row /= (variance + cast(eps)).sqrt();
    }
    Ok(y * gain + shift)
    // ANCHOR_END: layer_norm_body
}
// ANCHOR_END: layer_norm

/// The feed-forward network, f(x W_1 + b_1) W_2 + b_2, on each row by itself. Its
/// [`activation`](FeedForward::activation) is f.
///
/// `x` is `n × d_model`, and so is the result.
///
/// # Errors
/// If the widths do not fit.
// ANCHOR: feed_forward
pub fn feed_forward<F: NdFloat>(
    network: &FeedForward<F>,
    x: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    // ANCHOR: feed_forward_body
    let inner = project(x, &network.inner)?;
    let active = inner.mapv(|x| network.activation.apply(x));
    project(&active, &network.outer)
    // ANCHOR_END: feed_forward_body
}
// ANCHOR_END: feed_forward

/// What goes around a part f: x + f(LayerNorm(x)) in the order [`NormOrder::Pre`],
/// LayerNorm(x + f(x)) in the order [`NormOrder::Post`]. The LayerNorm has the
/// [`gain`](ch08_transformer::LayerNorm::gain) and [`shift`](ch08_transformer::LayerNorm::shift) of `around.norm`, and [`EPS`].
///
/// `x` is `n × d_model`, and so is what the part returns, and the result.
///
/// # Errors
/// If the part fails, or the widths do not fit.
// ANCHOR: residual
pub fn residual<F: NdFloat>(
    around: &Residual<F>,
    x: &ArrayRef2<F>,
    part: impl FnOnce(&ArrayRef2<F>) -> Result<Array2<F>>,
) -> Result<Array2<F>> {
    // ANCHOR: residual_body
    let norm = |x: &ArrayRef2<F>| {
        layer_norm(x, around.norm.gain(), around.norm.shift(), EPS)
    };
    match around.order {
        NormOrder::Pre => Ok(part(&norm(x)?)? + x),
        NormOrder::Post => norm(&(part(x)? + x)),
    }
    // ANCHOR_END: residual_body
}
// ANCHOR_END: residual

/// One layer of an encoder: your `self_attention`, then your `feed_forward`, each with your `residual`
/// around it.
///
/// `x` is `n × d_model`, and so is the result. The mask stretches to `(1, heads, n, n)`.
///
/// # Errors
/// If the widths or the mask do not fit.
// ANCHOR: encoder_layer
pub fn encoder_layer<F: NdFloat>(
    layer: &EncoderLayer<F>,
    x: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: encoder_layer_body
    let x = residual(&layer.attention_residual, x, |x| {
        self_attention(&layer.attention, x, mask)
    })?;
    residual(&layer.feed_forward_residual, &x, |x| {
        feed_forward(&layer.feed_forward, x)
    })
    // ANCHOR_END: encoder_layer_body
}
// ANCHOR_END: encoder_layer

/// One layer of a decoder: your `self_attention`, your `cross_attention` to the memory, then your
/// `feed_forward`, each with your `residual` around it.
///
/// `x` is `m × d_model`, and so is the result; `memory` is `n × d_model`. The masks stretch to
/// `(1, heads, m, m)` and `(1, heads, m, n)`.
///
/// # Errors
/// If the widths or the masks do not fit.
// ANCHOR: decoder_layer
pub fn decoder_layer<F: NdFloat>(
    layer: &DecoderLayer<F>,
    x: &ArrayRef2<F>,
    memory: &ArrayRef2<F>,
    mask: &Mask,
    source_mask: &Mask,
) -> Result<Array2<F>> {
    // ANCHOR: decoder_layer_body
    let x = residual(&layer.attention_residual, x, |x| {
        self_attention(&layer.attention, x, mask)
    })?;
    let x = residual(&layer.cross_attention_residual, &x, |x| {
        cross_attention(&layer.cross_attention, x, memory, source_mask)
    })?;
    residual(&layer.feed_forward_residual, &x, |x| {
        feed_forward(&layer.feed_forward, x)
    })
    // ANCHOR_END: decoder_layer_body
}
// ANCHOR_END: decoder_layer

/// A small GPT: what a decoder without cross-attention thinks of the next token, after each. Its layers
/// are encoder layers under a causal mask; the LayerNorm at their end, if there is one, has [`EPS`].
///
/// The result is `n × vocabulary` for `n` tokens, none of which is padding.
///
/// # Errors
/// If a token is not in the vocabulary, or the parts do not fit each other.
// ANCHOR: next_token_scores
pub fn next_token_scores<F: NdFloat>(
    embedding: &Embedding<F>,
    layers: &Encoder<F>,
    output: &Projection<F>,
    tokens: &[u32],
) -> Result<Array2<F>> {
    // ANCHOR: next_token_scores_body
    let mut x = embed(embedding, tokens, 0)?;
    let mask = causal(tokens.len(), tokens.len());
    for layer in &layers.layers {
        x = encoder_layer(layer, &x, &mask)?;
    }
    if let Some(norm) = &layers.final_norm {
        x = layer_norm(&x, norm.gain(), norm.shift(), EPS)?;
    }
    project(&x, output)
    // ANCHOR_END: next_token_scores_body
}
// ANCHOR_END: next_token_scores

/// By hand: how many numbers an encoder layer learns, all biases included.
// ANCHOR: encoder_layer_parameters
pub fn encoder_layer_parameters(d: usize, d_ff: usize) -> usize {
    // ANCHOR: encoder_layer_parameters_body
    let attention = 4 * (d * d + d);
    let feed_forward = (d * d_ff + d_ff) + (d_ff * d + d);
    let norms = 2 * (d + d);
    attention + feed_forward + norms
    // ANCHOR_END: encoder_layer_parameters_body
}
// ANCHOR_END: encoder_layer_parameters

/// RMSNorm: γ ⊙ x / √(mean(x²) + ε) for each row.
///
/// `x` is `n × d` and so is the result; `gain` is `d` long.
// ANCHOR: rms_norm
pub fn rms_norm(
    x: &ArrayRef2<f64>,
    gain: &ArrayRef1<f64>,
    eps: f64,
) -> Array2<f64> {
    // ANCHOR: rms_norm_body
    let mut y = x.to_owned();
    for mut row in y.rows_mut() {
        let mean_square = row.dot(&row) / row.len() as f64;
        row /= (mean_square + eps).sqrt();
    }
    y * gain
    // ANCHOR_END: rms_norm_body
}
// ANCHOR_END: rms_norm

/// Find the fault: this wants to be the residual in the order `Pre`, x + f(LayerNorm(x)), with a gain
/// of 1 and a shift of 0, and one line of it is wrong.
///
/// # Errors
/// As your `layer_norm`.
// ANCHOR: find_the_fault_08
pub fn find_the_fault_08(
    x: &ArrayRef2<f64>,
    part: impl Fn(&ArrayRef2<f64>) -> Array2<f64>,
) -> Result<Array2<f64>> {
    let (ones, zeros) = (Array1::ones(x.ncols()), Array1::zeros(x.ncols()));
    let inside = layer_norm(x, &ones, &zeros, EPS)?;
    // instead of: let shortcut = inside.clone();
    let shortcut = x.to_owned();
    Ok(part(&inside) + shortcut)
}
// ANCHOR_END: find_the_fault_08
