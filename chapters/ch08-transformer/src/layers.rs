//! Layers of an encoder and of a decoder, and stacks of them.

// ANCHOR: layers_imports
use crate::{
    FeedForward, FeedForwardSteps, LayerNorm, Mode, Residual, ResidualSteps, Steps,
};
use anyhow::{Context, Result};
use ch04_masks::Mask;
use ch05_multihead::{Memory, MultiHeadAttention, MultiHeadSteps};
use ndarray::{Array3, ArrayRef3, NdFloat};
// ANCHOR_END: layers_imports

/// Every step of attention from one sequence to another, or to itself.
// ANCHOR: attention_steps
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSteps<F> {
    /// The keys and values of the source, projected.
    pub source: Memory<F>,
    /// From the queries to the output.
    pub asked: MultiHeadSteps<F>,
}

impl<F> Steps<F> for AttentionSteps<F> {
    fn output(&self) -> &Array3<F> {
        &self.asked.output
    }
}

/// Attention from some queries to a source, with every step kept: `(batch, m, d_model)` and
/// `(batch, n, d_model)`. The mask stretches to `(batch, heads, m, n)`.
///
/// # Errors
/// If the widths or the mask do not fit.
pub fn attend<F: NdFloat>(
    attention: &MultiHeadAttention<F>,
    queries: &ArrayRef3<F>,
    source: &ArrayRef3<F>,
    mask: &Mask,
    mode: &mut Mode,
) -> Result<AttentionSteps<F>> {
    let source = attention.remember(source, source)?;
    let asked = match mode {
        Mode::Evaluation => attention.ask_in_steps(queries, &source, mask)?,
        Mode::Training(rng) => {
            attention.ask_in_training(queries, &source, mask, *rng)?
        }
    };
    Ok(AttentionSteps { source, asked })
}
// ANCHOR_END: attention_steps

/// One layer of an encoder: self-attention, then a feed-forward network, each with its residual.
///
/// Source: Vaswani et al. (2017), section 3.1, "Encoder".
// ANCHOR: encoder_layer
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderLayer<F> {
    /// Self-attention.
    pub attention: MultiHeadAttention<F>,
    /// Around the attention.
    pub attention_residual: Residual<F>,
    /// The network at each position.
    pub feed_forward: FeedForward<F>,
    /// Around the network.
    pub feed_forward_residual: Residual<F>,
}

impl<F: NdFloat> EncoderLayer<F> {
    /// The layer in use: `(batch, n, d_model)` → the same shape. The mask stretches to
    /// `(batch, heads, n, n)`.
    ///
    /// # Errors
    /// If the widths or the mask do not fit.
    pub fn apply(&self, x: &ArrayRef3<F>, mask: &Mask) -> Result<Array3<F>> {
        let steps = self.apply_in_steps(x, mask, &mut Mode::Evaluation)?;
        Ok(steps.feed_forward.output)
    }

    /// The layer, with every step kept.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_in_steps(
        &self,
        x: &ArrayRef3<F>,
        mask: &Mask,
        mode: &mut Mode,
    ) -> Result<EncoderLayerSteps<F>> {
        let attention = self
            .attention_residual
            .around(x, mode, |x, mode| attend(&self.attention, x, x, mask, mode))?;
        let feed_forward = self.feed_forward_residual.around(
            &attention.output,
            mode,
            |x, _| self.feed_forward.apply_in_steps(x),
        )?;
        Ok(EncoderLayerSteps {
            attention,
            feed_forward,
        })
    }
}

/// Every step of an [`EncoderLayer`]; the feed-forward network's output is the layer's.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderLayerSteps<F> {
    /// Self-attention and what is around it.
    pub attention: ResidualSteps<F, AttentionSteps<F>>,
    /// The network and what is around it.
    pub feed_forward: ResidualSteps<F, FeedForwardSteps<F>>,
}
// ANCHOR_END: encoder_layer

/// One layer of a decoder: causal self-attention, cross-attention to the encoder's output, then a
/// feed-forward network, each with its residual.
///
/// Source: Vaswani et al. (2017), section 3.1, "Decoder".
// ANCHOR: decoder_layer
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderLayer<F> {
    /// Self-attention.
    pub attention: MultiHeadAttention<F>,
    /// Around the self-attention.
    pub attention_residual: Residual<F>,
    /// Cross-attention.
    pub cross_attention: MultiHeadAttention<F>,
    /// Around the cross-attention.
    pub cross_attention_residual: Residual<F>,
    /// The network at each position.
    pub feed_forward: FeedForward<F>,
    /// Around the network.
    pub feed_forward_residual: Residual<F>,
}

impl<F: NdFloat> DecoderLayer<F> {
    /// The layer in use: `(batch, m, d_model)` → the same shape. The memory is
    /// `(batch, n, d_model)`; the masks stretch to `(batch, heads, m, m)` and
    /// `(batch, heads, m, n)`.
    ///
    /// # Errors
    /// If the widths or the masks do not fit.
    pub fn apply(
        &self,
        x: &ArrayRef3<F>,
        memory: &ArrayRef3<F>,
        mask: &Mask,
        source_mask: &Mask,
    ) -> Result<Array3<F>> {
        let mode = &mut Mode::Evaluation;
        let steps = self.apply_in_steps(x, memory, mask, source_mask, mode)?;
        Ok(steps.feed_forward.output)
    }

    /// The layer, with every step kept.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_in_steps(
        &self,
        x: &ArrayRef3<F>,
        memory: &ArrayRef3<F>,
        mask: &Mask,
        source_mask: &Mask,
        mode: &mut Mode,
    ) -> Result<DecoderLayerSteps<F>> {
        let attention = self
            .attention_residual
            .around(x, mode, |x, mode| attend(&self.attention, x, x, mask, mode))?;
        let cross_attention = self.cross_attention_residual.around(
            &attention.output,
            mode,
            |x, mode| attend(&self.cross_attention, x, memory, source_mask, mode),
        )?;
        let feed_forward = self.feed_forward_residual.around(
            &cross_attention.output,
            mode,
            |x, _| self.feed_forward.apply_in_steps(x),
        )?;
        Ok(DecoderLayerSteps {
            attention,
            cross_attention,
            feed_forward,
        })
    }
}

/// Every step of a [`DecoderLayer`]; the feed-forward network's output is the layer's.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderLayerSteps<F> {
    /// Self-attention and what is around it.
    pub attention: ResidualSteps<F, AttentionSteps<F>>,
    /// Cross-attention and what is around it.
    pub cross_attention: ResidualSteps<F, AttentionSteps<F>>,
    /// The network and what is around it.
    pub feed_forward: ResidualSteps<F, FeedForwardSteps<F>>,
}
// ANCHOR_END: decoder_layer

/// Encoder layers, one on the other, and the LayerNorm that pre-norm needs at the end.
// ANCHOR: encoder
#[derive(Clone, Debug, PartialEq)]
pub struct Encoder<F> {
    /// The layers, the first one first.
    pub layers: Vec<EncoderLayer<F>>,
    /// The LayerNorm behind the last layer, if there is one.
    pub final_norm: Option<LayerNorm<F>>,
}

impl<F: NdFloat> Encoder<F> {
    /// All layers: `(batch, n, d_model)` → the same shape. The mask stretches to
    /// `(batch, heads, n, n)`.
    ///
    /// # Errors
    /// As [`EncoderLayer::apply`]; the number of the layer is named.
    pub fn apply_in_steps(
        &self,
        x: &ArrayRef3<F>,
        mask: &Mask,
        mode: &mut Mode,
    ) -> Result<EncoderSteps<F>> {
        let mut x = x.to_owned();
        let mut layers = vec![];
        for (number, layer) in self.layers.iter().enumerate() {
            let steps = layer
                .apply_in_steps(&x, mask, mode)
                .with_context(|| format!("encoder layer {number}"))?;
            x.clone_from(&steps.feed_forward.output);
            layers.push(steps);
        }
        let output = finish(&self.final_norm, &x)?;
        let before_norm = x;
        Ok(EncoderSteps {
            layers,
            before_norm,
            output,
        })
    }
}

fn finish<F: NdFloat>(
    norm: &Option<LayerNorm<F>>,
    x: &ArrayRef3<F>,
) -> Result<Array3<F>> {
    match norm {
        Some(norm) => norm.apply(x),
        None => Ok(x.to_owned()),
    }
}

/// Every step of an [`Encoder`].
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderSteps<F> {
    /// The layers' steps.
    pub layers: Vec<EncoderLayerSteps<F>>,
    /// What the last layer returned.
    pub before_norm: Array3<F>,
    /// What comes out, `(batch, n, d_model)`: the memory of a decoder.
    pub output: Array3<F>,
}
// ANCHOR_END: encoder

/// Decoder layers, one on the other, and the LayerNorm that pre-norm needs at the end.
// ANCHOR: decoder
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder<F> {
    /// The layers, the first one first.
    pub layers: Vec<DecoderLayer<F>>,
    /// The LayerNorm behind the last layer, if there is one.
    pub final_norm: Option<LayerNorm<F>>,
}

impl<F: NdFloat> Decoder<F> {
    /// All layers: `(batch, m, d_model)` → the same shape, every layer reading the same memory,
    /// `(batch, n, d_model)`. The masks stretch to `(batch, heads, m, m)` and `(batch, heads, m, n)`.
    ///
    /// # Errors
    /// As [`DecoderLayer::apply`]; the number of the layer is named.
    pub fn apply_in_steps(
        &self,
        x: &ArrayRef3<F>,
        memory: &ArrayRef3<F>,
        mask: &Mask,
        source_mask: &Mask,
        mode: &mut Mode,
    ) -> Result<DecoderSteps<F>> {
        let mut x = x.to_owned();
        let mut layers = vec![];
        for (number, layer) in self.layers.iter().enumerate() {
            let steps = layer
                .apply_in_steps(&x, memory, mask, source_mask, mode)
                .with_context(|| format!("decoder layer {number}"))?;
            x.clone_from(&steps.feed_forward.output);
            layers.push(steps);
        }
        let output = finish(&self.final_norm, &x)?;
        let before_norm = x;
        Ok(DecoderSteps {
            layers,
            before_norm,
            output,
        })
    }
}

/// Every step of a [`Decoder`].
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSteps<F> {
    /// The layers' steps.
    pub layers: Vec<DecoderLayerSteps<F>>,
    /// What the last layer returned.
    pub before_norm: Array3<F>,
    /// What comes out, `(batch, m, d_model)`.
    pub output: Array3<F>,
}
// ANCHOR_END: decoder
