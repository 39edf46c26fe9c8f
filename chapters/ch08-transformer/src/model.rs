//! The whole: an encoder with a decoder, and an encoder by itself.

// ANCHOR: model_imports
use crate::parts::embed;
use crate::{
    Activation, Decoder, DecoderLayer, DecoderSteps, Embedding, EmbeddingSteps,
    Encoder, EncoderLayer, EncoderSteps, FeedForward, LayerNorm, Mode, NormOrder,
    PAD, Residual,
};
use anyhow::{Result, ensure};
use ch05_multihead::{MultiHeadAttention, Projection, check_probability};
use ch06_self_attention::{bidirectional_mask, causal_mask};
use ndarray::{Array2, Array3, ArrayRef2, ArrayRef3, Axis, NdFloat};
use rand::Rng;
// ANCHOR_END: model_imports

/// The sizes of a Transformer, and the choices it leaves open.
// ANCHOR: settings
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many tokens the source may be written with.
    pub source_vocabulary: usize,
    /// How many tokens the target may be written with.
    pub target_vocabulary: usize,
    /// The width of the vectors.
    pub d_model: usize,
    /// The number of heads, which divides the width.
    pub heads: usize,
    /// The width inside the feed-forward networks.
    pub d_ff: usize,
    /// The number of encoder layers.
    pub encoder_layers: usize,
    /// The number of decoder layers.
    pub decoder_layers: usize,
    /// What stands inside the feed-forward networks.
    pub activation: Activation,
    /// Where the LayerNorms stand.
    pub order: NormOrder,
    /// The probability of dropout.
    pub dropout: f64,
}

impl Settings {
    /// A Transformer small enough to look at.
    pub fn small() -> Self {
        Self {
            source_vocabulary: 20,
            target_vocabulary: 16,
            d_model: 8,
            heads: 2,
            d_ff: 32,
            encoder_layers: 2,
            decoder_layers: 2,
            activation: Activation::Relu,
            order: NormOrder::Pre,
            dropout: 0.1,
        }
    }
}
// ANCHOR_END: settings

// ANCHOR: random
impl<F: NdFloat> Transformer<F> {
    /// A Transformer to begin training with.
    ///
    /// # Errors
    /// If a size is 0, the heads do not divide the width, or `dropout` is not at least 0 and
    /// below 1. There may be no layers.
    pub fn random(
        settings: &Settings,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Self> {
        let d = settings.d_model;
        let (source, target) =
            (settings.source_vocabulary, settings.target_vocabulary);
        ensure!(
            source > 0 && target > 0,
            "vocabularies of {source} and {target} must both be above 0"
        );
        Ok(Self {
            source_embedding: Embedding::random(source, d, rng)?,
            target_embedding: Embedding::random(target, d, rng)?,
            encoder: settings.encoder(rng)?,
            decoder: settings.decoder(rng)?,
            output: Projection::random(d, target, rng),
            dropout: settings.dropout,
        })
    }
}

impl Settings {
    /// An encoder of this size, to begin training with.
    ///
    /// # Errors
    /// As [`Transformer::random`].
    pub fn encoder<F: NdFloat>(
        &self,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Encoder<F>> {
        self.check()?;
        let layers = (0..self.encoder_layers).map(|_| {
            Ok(EncoderLayer {
                attention: self.attention(rng)?,
                attention_residual: self.residual()?,
                feed_forward: self.feed_forward(rng),
                feed_forward_residual: self.residual()?,
            })
        });
        Ok(Encoder {
            layers: layers.collect::<Result<_>>()?,
            final_norm: self.final_norm()?,
        })
    }

    /// A decoder of this size, to begin training with.
    ///
    /// # Errors
    /// As [`Transformer::random`].
    pub fn decoder<F: NdFloat>(
        &self,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Decoder<F>> {
        self.check()?;
        let layers = (0..self.decoder_layers).map(|_| {
            Ok(DecoderLayer {
                attention: self.attention(rng)?,
                attention_residual: self.residual()?,
                cross_attention: self.attention(rng)?,
                cross_attention_residual: self.residual()?,
                feed_forward: self.feed_forward(rng),
                feed_forward_residual: self.residual()?,
            })
        });
        Ok(Decoder {
            layers: layers.collect::<Result<_>>()?,
            final_norm: self.final_norm()?,
        })
    }

    /// Refuses what no layer can be made with, even if there is to be no layer.
    fn check(&self) -> Result<()> {
        let (d, heads, inner) = (self.d_model, self.heads, self.d_ff);
        ensure!(
            d > 0 && inner > 0,
            "a width of {d}, and of {inner} inside the feed-forward networks, must both be above 0"
        );
        ensure!(
            heads > 0 && d % heads == 0,
            "a width of {d} cannot be split into {heads} equal heads"
        );
        check_probability(self.dropout)
    }

    fn attention<F: NdFloat>(
        &self,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<MultiHeadAttention<F>> {
        MultiHeadAttention::random(self.d_model, self.heads, rng)?
            .with_dropout(self.dropout)
    }

    fn feed_forward<F: NdFloat>(
        &self,
        rng: &mut (impl Rng + ?Sized),
    ) -> FeedForward<F> {
        let inner = Projection::random(self.d_model, self.d_ff, rng);
        let outer = Projection::random(self.d_ff, self.d_model, rng);
        let activation = self.activation;
        FeedForward {
            inner,
            activation,
            outer,
        }
    }

    fn residual<F: NdFloat>(&self) -> Result<Residual<F>> {
        Residual::new(LayerNorm::fresh(self.d_model)?, self.order)
            .with_dropout(self.dropout)
    }

    /// In pre-norm nothing has normalized the sum that leaves the last layer.
    fn final_norm<F: NdFloat>(&self) -> Result<Option<LayerNorm<F>>> {
        match self.order {
            NormOrder::Pre => LayerNorm::fresh(self.d_model).map(Some),
            NormOrder::Post => Ok(None),
        }
    }
}
// ANCHOR_END: random

/// An encoder and a decoder, with everything that brings tokens in and out.
///
/// Source: Vaswani et al. (2017), figure 1. The three tables of the vocabularies are not shared.
// ANCHOR: transformer
#[derive(Clone, Debug, PartialEq)]
pub struct Transformer<F> {
    /// The vectors of the source's tokens.
    pub source_embedding: Embedding<F>,
    /// The vectors of the target's tokens.
    pub target_embedding: Embedding<F>,
    /// Reads the source.
    pub encoder: Encoder<F>,
    /// Writes the target.
    pub decoder: Decoder<F>,
    /// From a vector to a score for each token, `d_model × target vocabulary`.
    pub output: Projection<F>,
    dropout: f64,
}

impl<F: NdFloat> Transformer<F> {
    /// Reads the source: its tokens, `batch × n` → the memory, `(batch, n, d_model)`.
    ///
    /// # Errors
    /// If a token is not in the vocabulary, or the parts do not fit each other.
    pub fn encode(&self, source: &ArrayRef2<u32>) -> Result<Array3<F>> {
        let mode = &mut Mode::Evaluation;
        let x = embed(&self.source_embedding, source, self.dropout, mode)?.output;
        let mask = bidirectional_mask(source, PAD);
        Ok(self.encoder.apply_in_steps(&x, &mask, mode)?.output)
    }

    /// Scores every possible next token after each token of the target, `batch × m`, for a source
    /// that has been read: → `(batch, m, target vocabulary)`.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), or if source, target and memory are not equally many, or source
    /// and memory not equally long.
    pub fn decode(
        &self,
        target: &ArrayRef2<u32>,
        memory: &ArrayRef3<F>,
        source: &ArrayRef2<u32>,
    ) -> Result<Array3<F>> {
        let mode = &mut Mode::Evaluation;
        Ok(self.decode_in_steps(target, memory, source, mode)?.2)
    }

    fn decode_in_steps(
        &self,
        target: &ArrayRef2<u32>,
        memory: &ArrayRef3<F>,
        source: &ArrayRef2<u32>,
        mode: &mut Mode,
    ) -> Result<(EmbeddingSteps<F>, DecoderSteps<F>, Array3<F>)> {
        let (batch, n, _) = memory.dim();
        ensure!(
            source.dim() == (batch, n),
            "the source is {} × {} but the memory {batch} × {n}",
            source.nrows(),
            source.ncols()
        );
        let embedded = embed(&self.target_embedding, target, self.dropout, mode)?;
        let steps = self.decoder.apply_in_steps(
            &embedded.output,
            memory,
            &causal_mask(target, PAD)?,
            &bidirectional_mask(source, PAD),
            mode,
        )?;
        let logits = self.output.apply(&steps.output)?;
        Ok((embedded, steps, logits))
    }

    /// Reads the source and scores the target's next tokens, with every step kept.
    ///
    /// # Errors
    /// As [`encode`](Self::encode) and [`decode`](Self::decode).
    pub fn apply_in_steps(
        &self,
        source: &ArrayRef2<u32>,
        target: &ArrayRef2<u32>,
        mode: &mut Mode,
    ) -> Result<TransformerSteps<F>> {
        let embedded_source =
            embed(&self.source_embedding, source, self.dropout, mode)?;
        let encoder = self.encoder.apply_in_steps(
            &embedded_source.output,
            &bidirectional_mask(source, PAD),
            mode,
        )?;
        let (embedded_target, decoder, logits) =
            self.decode_in_steps(target, &encoder.output, source, mode)?;
        Ok(TransformerSteps {
            embedded_source,
            encoder,
            embedded_target,
            decoder,
            logits,
        })
    }
}

/// Every step of a [`Transformer`].
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerSteps<F> {
    /// The source's vectors.
    pub embedded_source: EmbeddingSteps<F>,
    /// The encoder's steps, the memory at their end.
    pub encoder: EncoderSteps<F>,
    /// The target's vectors.
    pub embedded_target: EmbeddingSteps<F>,
    /// The decoder's steps.
    pub decoder: DecoderSteps<F>,
    /// The scores of the next token, `(batch, m, target vocabulary)`.
    pub logits: Array3<F>,
}
// ANCHOR_END: transformer

/// An encoder that names the class of a whole text, read off the vector of its first token.
///
/// Source: Devlin et al., *BERT* (2018), section 3, without the layer between that vector and the
/// classes.
// ANCHOR: classifier
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier<F> {
    /// The vectors of the tokens.
    pub embedding: Embedding<F>,
    /// Reads the text.
    pub encoder: Encoder<F>,
    /// From a vector to a score for each class, `d_model × classes`.
    pub classes: Projection<F>,
}

impl<F: NdFloat> Classifier<F> {
    /// A score for each class: tokens, `batch × n` → `batch × classes`.
    ///
    /// # Errors
    /// If there is no first token, a token is not in the vocabulary, or the parts do not fit.
    pub fn apply(&self, tokens: &ArrayRef2<u32>) -> Result<Array2<F>> {
        ensure!(
            tokens.ncols() > 0,
            "a text without tokens has no first vector"
        );
        let mode = &mut Mode::Evaluation;
        let x = embed(&self.embedding, tokens, 0.0, mode)?.output;
        let mask = bidirectional_mask(tokens, PAD);
        let read = self.encoder.apply_in_steps(&x, &mask, mode)?.output;
        let first = read.slice_axis(Axis(1), (0..1).into());
        Ok(self.classes.apply(&first)?.index_axis_move(Axis(1), 0))
    }
}
// ANCHOR_END: classifier
