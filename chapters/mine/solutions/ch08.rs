//! Exercises of chapter 8, the Transformer.

use anyhow::Result;
use ch05_multihead::Projection;
use ch06_self_attention::{causal_mask, sinusoidal_positions};
use ch08_transformer::{Embedding, Encoder, Mode, PAD};
use ndarray::{Array3, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: how many numbers an encoder layer learns, all biases included.
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

/// Exercise 2: RMSNorm, `γ ⊙ x / √(mean(x²) + ε)` for each vector.
///
/// `x` is `(batch, n, d)` and so is the result; `gain` is `d` long.
// ANCHOR: rms_norm
pub fn rms_norm(
    x: ArrayView3<f64>,
    gain: ArrayView1<f64>,
    eps: f64,
) -> Array3<f64> {
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

/// Exercise 3: an encoder that runs the layers of `first`, then those of `second`.
// ANCHOR: stacked
pub fn stacked(first: Encoder<f64>, second: Encoder<f64>) -> Encoder<f64> {
    // ANCHOR: stacked_body
    // A final LayerNorm stands behind the last layer, so the first one's is gone.
    let mut layers = first.layers;
    layers.extend(second.layers);
    Encoder {
        layers,
        final_norm: second.final_norm,
    }
    // ANCHOR_END: stacked_body
}
// ANCHOR_END: stacked

/// Exercise 4: what a decoder without cross-attention thinks of the next token, after each.
///
/// `tokens` are `batch × n`, the result is `(batch, n, vocabulary)`. The positions are those of
/// chapter 6.
// ANCHOR: next_token_scores
pub fn next_token_scores(
    embedding: &Embedding<f64>,
    layers: &Encoder<f64>,
    output: &Projection<f64>,
    tokens: ArrayView2<u32>,
) -> Result<Array3<f64>> {
    // ANCHOR: next_token_scores_body
    let x = embedding.apply(tokens)?;
    let (n, d_model) = (x.len_of(Axis(1)), x.len_of(Axis(2)));
    let x = x + sinusoidal_positions::<f64>(n, d_model);
    let mask = causal_mask(tokens, PAD)?;
    let mode = &mut Mode::Evaluation;
    let steps = layers.apply_in_steps(x.view(), &mask, mode)?;
    output.apply(steps.output.view())
    // ANCHOR_END: next_token_scores_body
}
// ANCHOR_END: next_token_scores
