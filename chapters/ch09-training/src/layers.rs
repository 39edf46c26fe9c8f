//! The way back through the layers of a Transformer and through the whole of it.
//!
//! Every function is given what the way forward kept, and adds to a thing of the same type that
//! holds gradients.

// ANCHOR: layers_imports
use crate::{backward, same_shape};
use anyhow::{Result, bail};
use ch04_masks::Mask;
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::{bidirectional_mask, causal_mask};
use ch08_transformer::{
    AttentionSteps, DecoderLayer, DecoderLayerSteps, EncoderLayer,
    EncoderLayerSteps, FeedForward, FeedForwardSteps, LayerNorm, NormOrder, PAD,
    Residual, ResidualSteps, Transformer, TransformerSteps,
};
use ndarray::{Array3, ArrayRef2, ArrayRef3, NdFloat};
// ANCHOR_END: layers_imports

/// Back through what stands around a part: the shortcut, LayerNorm and dropout.
///
/// `d_output` is `(batch, n, d_model)`, and so is the result; `part` goes back through the part.
///
/// # Errors
/// If the part fails, or the shapes do not fit each other.
// ANCHOR: residual
pub fn residual<F: NdFloat, S>(
    residual: &Residual<F>,
    steps: &ResidualSteps<F, S>,
    d_output: &ArrayRef3<F>,
    gradient: &mut Residual<F>,
    part: impl FnOnce(&ArrayRef3<F>) -> Result<Array3<F>>,
) -> Result<Array3<F>> {
    let mut through_norm = |d_y: &ArrayRef3<F>| {
        let x = &steps.before_norm;
        backward::layer_norm(&residual.norm, x, d_y, &mut gradient.norm)
    };
    let d_sum = match residual.order {
        NormOrder::Pre => d_output.to_owned(),
        NormOrder::Post => through_norm(d_output)?,
    };
    let d_inside = part(&dropped(&d_sum, &steps.factors)?)?;
    let d_inside = match residual.order {
        NormOrder::Pre => through_norm(&d_inside)?,
        NormOrder::Post => d_inside,
    };
    // x went two ways: past the part, and into it.
    same_shape("gradient", d_sum.shape(), "part's", d_inside.shape())?;
    Ok(d_sum + d_inside)
}

/// Back through dropout: what was dropped gets no gradient.
fn dropped<F: NdFloat>(
    d_x: &ArrayRef3<F>,
    factors: &Option<Array3<F>>,
) -> Result<Array3<F>> {
    let Some(factors) = factors else {
        return Ok(d_x.to_owned());
    };
    same_shape("gradient", d_x.shape(), "dropout's", factors.shape())?;
    Ok(d_x.to_owned() * factors)
}
// ANCHOR_END: residual

/// Back through a feed-forward network and what stands around it.
// ANCHOR: around_network
fn around_network<F: NdFloat>(
    (outside, network): (&Residual<F>, &FeedForward<F>),
    steps: &ResidualSteps<F, FeedForwardSteps<F>>,
    d_output: &ArrayRef3<F>,
    (d_outside, d_network): (&mut Residual<F>, &mut FeedForward<F>),
) -> Result<Array3<F>> {
    residual(outside, steps, d_output, d_outside, |d_output| {
        let x = &steps.inside;
        backward::feed_forward(network, x, &steps.part, d_output, d_network)
    })
}
// ANCHOR_END: around_network

/// Back through self-attention and what stands around it.
// ANCHOR: around_self_attention
fn around_self_attention<F: NdFloat>(
    (outside, attention): (&Residual<F>, &MultiHeadAttention<F>),
    steps: &ResidualSteps<F, AttentionSteps<F>>,
    mask: &Mask,
    d_output: &ArrayRef3<F>,
    (d_outside, d_attention): (&mut Residual<F>, &mut MultiHeadAttention<F>),
) -> Result<Array3<F>> {
    residual(outside, steps, d_output, d_outside, |d_output| {
        let x = &steps.inside;
        let [d_queries, d_source] = backward::multi_head(
            attention,
            [x, x],
            &steps.part.source,
            &steps.part.asked,
            mask,
            d_output,
            d_attention,
        )?;
        // x asks and answers, so it is moved from both sides.
        Ok(d_queries + d_source)
    })
}
// ANCHOR_END: around_self_attention

/// Back through cross-attention and what stands around it. The gradient by the memory is added to
/// `d_memory`.
// ANCHOR: around_cross_attention
fn around_cross_attention<F: NdFloat>(
    (outside, attention): (&Residual<F>, &MultiHeadAttention<F>),
    steps: &ResidualSteps<F, AttentionSteps<F>>,
    (memory, d_memory): (&ArrayRef3<F>, &mut Array3<F>),
    mask: &Mask,
    d_output: &ArrayRef3<F>,
    (d_outside, d_attention): (&mut Residual<F>, &mut MultiHeadAttention<F>),
) -> Result<Array3<F>> {
    residual(outside, steps, d_output, d_outside, |d_output| {
        let [d_queries, d_source] = backward::multi_head(
            attention,
            [&steps.inside, memory],
            &steps.part.source,
            &steps.part.asked,
            mask,
            d_output,
            d_attention,
        )?;
        same_shape("memory", d_memory.shape(), "gradient", d_source.shape())?;
        *d_memory += &d_source;
        Ok(d_queries)
    })
}
// ANCHOR_END: around_cross_attention

/// Back through an encoder layer: `(batch, n, d_model)` → the same shape.
///
/// # Errors
/// If the shapes or the mask do not fit each other.
// ANCHOR: encoder_layer
pub fn encoder_layer<F: NdFloat>(
    layer: &EncoderLayer<F>,
    steps: &EncoderLayerSteps<F>,
    mask: &Mask,
    d_output: &ArrayRef3<F>,
    gradient: &mut EncoderLayer<F>,
) -> Result<Array3<F>> {
    let d_attended = around_network(
        (&layer.feed_forward_residual, &layer.feed_forward),
        &steps.feed_forward,
        d_output,
        (
            &mut gradient.feed_forward_residual,
            &mut gradient.feed_forward,
        ),
    )?;
    around_self_attention(
        (&layer.attention_residual, &layer.attention),
        &steps.attention,
        mask,
        &d_attended,
        (&mut gradient.attention_residual, &mut gradient.attention),
    )
}
// ANCHOR_END: encoder_layer

/// Back through a decoder layer: the gradient by what it was given, `(batch, m, d_model)`. The gradient
/// by the memory is added to `d_memory`, `(batch, n, d_model)`.
///
/// # Errors
/// If the shapes or the masks do not fit each other.
// ANCHOR: decoder_layer
pub fn decoder_layer<F: NdFloat>(
    layer: &DecoderLayer<F>,
    steps: &DecoderLayerSteps<F>,
    (memory, d_memory): (&ArrayRef3<F>, &mut Array3<F>),
    [mask, source_mask]: [&Mask; 2],
    d_output: &ArrayRef3<F>,
    gradient: &mut DecoderLayer<F>,
) -> Result<Array3<F>> {
    let d_asked = around_network(
        (&layer.feed_forward_residual, &layer.feed_forward),
        &steps.feed_forward,
        d_output,
        (
            &mut gradient.feed_forward_residual,
            &mut gradient.feed_forward,
        ),
    )?;
    let d_attended = around_cross_attention(
        (&layer.cross_attention_residual, &layer.cross_attention),
        &steps.cross_attention,
        (memory, d_memory),
        source_mask,
        &d_asked,
        (
            &mut gradient.cross_attention_residual,
            &mut gradient.cross_attention,
        ),
    )?;
    around_self_attention(
        (&layer.attention_residual, &layer.attention),
        &steps.attention,
        mask,
        &d_attended,
        (&mut gradient.attention_residual, &mut gradient.attention),
    )
}
// ANCHOR_END: decoder_layer

/// Back through the whole Transformer, from the gradient by its scores, `(batch, m, vocabulary)`. The
/// gradients by all that is learned are added to `gradient`.
///
/// `source` and `target` are the tokens it was given, `steps` what became of them.
///
/// # Errors
/// If the steps, the gradients and the model do not fit each other.
// ANCHOR: transformer
pub fn transformer<F: NdFloat>(
    model: &Transformer<F>,
    [source, target]: [&ArrayRef2<u32>; 2],
    steps: &TransformerSteps<F>,
    d_logits: &ArrayRef3<F>,
    gradient: &mut Transformer<F>,
) -> Result<()> {
    let layers = |model: &Transformer<F>| {
        [model.encoder.layers.len(), model.decoder.layers.len()]
    };
    let taken = [steps.encoder.layers.len(), steps.decoder.layers.len()];
    same_shape("layers", &layers(model), "steps", &taken)?;
    same_shape("layers", &layers(model), "gradient", &layers(gradient))?;
    let source_mask = bidirectional_mask(source, PAD);
    let causal = causal_mask(target, PAD)?;

    // The decoder, from its end to its beginning, collects what the memory did to the loss.
    let memory = &steps.encoder.output;
    let mut d_memory = Array3::zeros(memory.dim());
    let decoded = &steps.decoder.output;
    let d_decoded = backward::projection(
        &model.output,
        decoded,
        d_logits,
        &mut gradient.output,
    )?;
    let mut d_x = finish(
        &model.decoder.final_norm,
        &steps.decoder.before_norm,
        d_decoded,
        &mut gradient.decoder.final_norm,
    )?;
    let layers = model.decoder.layers.iter().zip(&steps.decoder.layers);
    for ((layer, steps), gradient) in layers.zip(&mut gradient.decoder.layers).rev()
    {
        d_x = decoder_layer(
            layer,
            steps,
            (memory, &mut d_memory),
            [&causal, &source_mask],
            &d_x,
            gradient,
        )?;
    }
    let d_x = dropped(&d_x, &steps.embedded_target.factors)?;
    backward::embedding(
        &model.target_embedding,
        target,
        &d_x,
        &mut gradient.target_embedding,
    )?;

    // The encoder, from the memory to its beginning.
    let mut d_x = finish(
        &model.encoder.final_norm,
        &steps.encoder.before_norm,
        d_memory,
        &mut gradient.encoder.final_norm,
    )?;
    let layers = model.encoder.layers.iter().zip(&steps.encoder.layers);
    for ((layer, steps), gradient) in layers.zip(&mut gradient.encoder.layers).rev()
    {
        d_x = encoder_layer(layer, steps, &source_mask, &d_x, gradient)?;
    }
    let d_x = dropped(&d_x, &steps.embedded_source.factors)?;
    backward::embedding(
        &model.source_embedding,
        source,
        &d_x,
        &mut gradient.source_embedding,
    )
}

/// Back through the LayerNorm behind the last layer, if there is one.
fn finish<F: NdFloat>(
    norm: &Option<LayerNorm<F>>,
    x: &ArrayRef3<F>,
    d_y: Array3<F>,
    gradient: &mut Option<LayerNorm<F>>,
) -> Result<Array3<F>> {
    match (norm, gradient) {
        (None, None) => Ok(d_y),
        (Some(norm), Some(gradient)) => {
            backward::layer_norm(norm, x, &d_y, gradient)
        }
        _ => bail!(
            "of model and gradient only one has a LayerNorm behind its layers"
        ),
    }
}
// ANCHOR_END: transformer
