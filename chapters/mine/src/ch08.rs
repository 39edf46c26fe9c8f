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
pub fn embed<F: NdFloat>(
    embedding: &Embedding<F>,
    tokens: &[u32],
    first: usize,
) -> Result<Array2<F>> {
    todo!("ch08::embed")
}

/// Layer normalization: each row moved to mean 0 and divided by √(variance + ε), then multiplied by the
/// gain and moved by the shift, column by column. The variance divides by the width.
///
/// `x` is `n × d`, gain and shift are `d` long, the result is `n × d`.
///
/// # Errors
/// If gain or shift are not as long as a row.
pub fn layer_norm<F: NdFloat>(
    x: &ArrayRef2<F>,
    gain: &ArrayRef1<F>,
    shift: &ArrayRef1<F>,
    eps: f64,
) -> Result<Array2<F>> {
    todo!("ch08::layer_norm")
}

/// The feed-forward network, f(x W_1 + b_1) W_2 + b_2, on each row by itself. Its
/// [`activation`](FeedForward::activation) is f.
///
/// `x` is `n × d_model`, and so is the result.
///
/// # Errors
/// If the widths do not fit.
pub fn feed_forward<F: NdFloat>(
    network: &FeedForward<F>,
    x: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    todo!("ch08::feed_forward")
}

/// What goes around a part f: x + f(LayerNorm(x)) in the order [`NormOrder::Pre`],
/// LayerNorm(x + f(x)) in the order [`NormOrder::Post`]. The LayerNorm has the
/// [`gain`](ch08_transformer::LayerNorm::gain) and [`shift`](ch08_transformer::LayerNorm::shift) of `around.norm`, and [`EPS`].
///
/// `x` is `n × d_model`, and so is what the part returns, and the result.
///
/// # Errors
/// If the part fails, or the widths do not fit.
pub fn residual<F: NdFloat>(
    around: &Residual<F>,
    x: &ArrayRef2<F>,
    part: impl FnOnce(&ArrayRef2<F>) -> Result<Array2<F>>,
) -> Result<Array2<F>> {
    todo!("ch08::residual")
}

/// One layer of an encoder: your `self_attention`, then your `feed_forward`, each with your `residual`
/// around it.
///
/// `x` is `n × d_model`, and so is the result. The mask stretches to `(1, heads, n, n)`.
///
/// # Errors
/// If the widths or the mask do not fit.
pub fn encoder_layer<F: NdFloat>(
    layer: &EncoderLayer<F>,
    x: &ArrayRef2<F>,
    mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch08::encoder_layer")
}

/// One layer of a decoder: your `self_attention`, your `cross_attention` to the memory, then your
/// `feed_forward`, each with your `residual` around it.
///
/// `x` is `m × d_model`, and so is the result; `memory` is `n × d_model`. The masks stretch to
/// `(1, heads, m, m)` and `(1, heads, m, n)`.
///
/// # Errors
/// If the widths or the masks do not fit.
pub fn decoder_layer<F: NdFloat>(
    layer: &DecoderLayer<F>,
    x: &ArrayRef2<F>,
    memory: &ArrayRef2<F>,
    mask: &Mask,
    source_mask: &Mask,
) -> Result<Array2<F>> {
    todo!("ch08::decoder_layer")
}

/// A small GPT: what a decoder without cross-attention thinks of the next token, after each. Its layers
/// are encoder layers under a causal mask; the LayerNorm at their end, if there is one, has [`EPS`].
///
/// The result is `n × vocabulary` for `n` tokens, none of which is padding.
///
/// # Errors
/// If a token is not in the vocabulary, or the parts do not fit each other.
pub fn next_token_scores<F: NdFloat>(
    embedding: &Embedding<F>,
    layers: &Encoder<F>,
    output: &Projection<F>,
    tokens: &[u32],
) -> Result<Array2<F>> {
    todo!("ch08::next_token_scores")
}

/// By hand: how many numbers an encoder layer learns, all biases included.
pub fn encoder_layer_parameters(d: usize, d_ff: usize) -> usize {
    todo!("ch08::encoder_layer_parameters")
}

/// RMSNorm: γ ⊙ x / √(mean(x²) + ε) for each row.
///
/// `x` is `n × d` and so is the result; `gain` is `d` long.
pub fn rms_norm(
    x: &ArrayRef2<f64>,
    gain: &ArrayRef1<f64>,
    eps: f64,
) -> Array2<f64> {
    todo!("ch08::rms_norm")
}

/// Find the fault: this wants to be the residual in the order `Pre`, x + f(LayerNorm(x)), with a gain
/// of 1 and a shift of 0, and one line of it is wrong.
///
/// # Errors
/// As your `layer_norm`.
pub fn find_the_fault_08(
    x: &ArrayRef2<f64>,
    part: impl Fn(&ArrayRef2<f64>) -> Array2<f64>,
) -> Result<Array2<f64>> {
    let (ones, zeros) = (Array1::ones(x.ncols()), Array1::zeros(x.ncols()));
    let inside = layer_norm(x, &ones, &zeros, EPS)?;
    let shortcut = inside.clone();
    Ok(part(&inside) + shortcut)
}
