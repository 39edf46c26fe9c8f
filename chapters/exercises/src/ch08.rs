//! Exercises of chapter 8, the Transformer.

use anyhow::Result;
use ch05_multihead::Projection;
use ch06_self_attention::{causal_mask, sinusoidal_positions};
use ch08_transformer::{Embedding, Encoder, Mode, PAD};
use ndarray::{Array3, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: how many numbers an encoder layer learns, all biases included.
pub fn encoder_layer_parameters(d: usize, d_ff: usize) -> usize {
    todo!("complete encoder_layer_parameters")
}

/// Exercise 2: RMSNorm, `γ ⊙ x / √(mean(x²) + ε)` for each vector.
///
/// `x` is `(batch, n, d)` and so is the result; `gain` is `d` long.
pub fn rms_norm(
    x: ArrayView3<f64>,
    gain: ArrayView1<f64>,
    eps: f64,
) -> Array3<f64> {
    todo!("complete rms_norm")
}

/// Exercise 3: an encoder that runs the layers of `first`, then those of `second`.
pub fn stacked(first: Encoder<f64>, second: Encoder<f64>) -> Encoder<f64> {
    todo!("complete stacked")
}

/// Exercise 4: what a decoder without cross-attention thinks of the next token, after each.
///
/// `tokens` are `batch × n`, the result is `(batch, n, vocabulary)`. The positions are those of
/// chapter 6.
pub fn next_token_scores(
    embedding: &Embedding<f64>,
    layers: &Encoder<f64>,
    output: &Projection<f64>,
    tokens: ArrayView2<u32>,
) -> Result<Array3<f64>> {
    todo!("complete next_token_scores")
}
