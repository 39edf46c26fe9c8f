//! The book's trained date translator, run on the reader's own functions.
//!
//! Nothing here falls back on the book's attention: where the reader's does not exist, it panics, and
//! where it is wrong, so is the translation.

use crate::ch05::multi_head;
use crate::{ch07, ch08, ch09, ch10};
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ch08_transformer::{
    DecoderLayer, EncoderLayer, LayerNorm, Mode, Residual, Steps, Transformer,
};
use ch09_training::reading::as_read;
use ch09_training::task::{BEGIN, END, Vocabulary};
use ndarray::{Array1, Array2, Array3, ArrayRef2, Axis, s};

/// How much of the translator is the reader's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mine {
    /// The cross-attention (chapter 7); otherwise the attention of several heads is called directly.
    pub cross: bool,
    /// The embedding, the layers and what they are made of (chapter 8); otherwise only the attention
    /// in them.
    pub layers: bool,
    /// The greedy decoding (chapter 9).
    pub greedy: bool,
}

/// As much as the book writes: a date has ten characters, and then there should be the end.
const LONGEST: usize = 11;

/// Translates a date: what was read, and what was written.
///
/// # Errors
/// If there is nothing to translate, or a function fails.
pub fn translate(
    model: &Transformer<f32>,
    text: &str,
    mine: Mine,
) -> Result<String> {
    let source = tokens(text)?;
    let memory = encode(model, &source, mine)?;
    let next = |tokens: &[u32]| last(&decode(model, tokens, &memory, mine)?);
    write(next, mine.greedy)
}

/// The same, with the reader's cache of chapter 10 in the decoder: only the newest token goes through
/// the layers. The layers must be the reader's.
///
/// # Errors
/// As [`translate`].
pub fn translate_with_cache(
    model: &Transformer<f32>,
    text: &str,
    mine: Mine,
) -> Result<String> {
    let source = tokens(text)?;
    let memory = encode(model, &source, mine)?;
    let layers = &model.decoder.layers;
    let mut caches: Vec<_> = layers
        .iter()
        .map(|layer| ch10::Cache::new(&layer.attention))
        .collect();
    let next = |tokens: &[u32]| {
        let first = tokens.len() - 1;
        let mut x = ch08::embed(&model.target_embedding, &tokens[first..], first)?;
        for (layer, cache) in layers.iter().zip(&mut caches) {
            x = ch08::residual(&layer.attention_residual, &x, |x| {
                ch10::cached_attention(cache, &layer.attention, x)
            })?;
            x = ch08::residual(&layer.cross_attention_residual, &x, |x| {
                ch07::cross_attention(
                    &layer.cross_attention,
                    x,
                    &memory,
                    &Mask::everything(),
                )
            })?;
            x = ch08::residual(&layer.feed_forward_residual, &x, |x| {
                ch08::feed_forward(&layer.feed_forward, x)
            })?;
        }
        last(&scores(model, x, true)?)
    };
    write(next, mine.greedy)
}

fn tokens(text: &str) -> Result<Vec<u32>> {
    let read = as_read(text);
    let (n, most) = (read.chars().count(), ch09_training::translate::LONGEST);
    ensure!(n > 0, "there is nothing to translate");
    ensure!(
        n <= most,
        "a text of {n} characters is no date; {most} is the most that is read"
    );
    Ok(Vocabulary::of_sources().tokens(&read))
}

/// Reads the source, which has no padding.
fn encode(
    model: &Transformer<f32>,
    source: &[u32],
    mine: Mine,
) -> Result<Array2<f32>> {
    let (embedding, everything) = (&model.source_embedding, Mask::everything());
    let layers = &model.encoder.layers;
    let final_norm = &model.encoder.final_norm;
    if mine.layers {
        let mut x = ch08::embed(embedding, source, 0)?;
        for layer in layers {
            x = ch08::encoder_layer(layer, &x, &everything)?;
        }
        return normalized(final_norm, x, true);
    }
    let mut x = embedded(embedding, source)?;
    for layer in layers {
        x = encoder_layer(layer, x, &everything)?;
    }
    normalized(final_norm, x, false)
}

/// Scores the next token after each of those that have been written.
fn decode(
    model: &Transformer<f32>,
    tokens: &[u32],
    memory: &Array2<f32>,
    mine: Mine,
) -> Result<Array2<f32>> {
    let (m, everything) = (tokens.len(), Mask::everything());
    let layers = &model.decoder.layers;
    let embedding = &model.target_embedding;
    let x = if mine.layers {
        let mask = crate::ch04::causal(m, m);
        let mut x = ch08::embed(embedding, tokens, 0)?;
        for layer in layers {
            x = ch08::decoder_layer(layer, &x, memory, &mask, &everything)?;
        }
        x
    } else {
        let mask = Mask::causal(m, m);
        let mut x = embedded(embedding, tokens)?;
        for layer in layers {
            x = decoder_layer(layer, x, memory, &mask, mine.cross)?;
        }
        x
    };
    scores(model, x, mine.layers)
}

/// From the last layer to a score for each token.
fn scores(
    model: &Transformer<f32>,
    x: Array2<f32>,
    mine: bool,
) -> Result<Array2<f32>> {
    let x = normalized(&model.decoder.final_norm, x, mine)?;
    crate::ch05::project(&x, &model.output)
}

fn last(scores: &Array2<f32>) -> Result<Array1<f32>> {
    let mut last = scores.row(scores.nrows() - 1).to_owned();
    // What cannot be written is not chosen either.
    last.slice_mut(s![..END as usize]).fill(f32::NEG_INFINITY);
    Ok(last)
}

fn write(
    mut next: impl FnMut(&[u32]) -> Result<Array1<f32>>,
    mine: bool,
) -> Result<String> {
    let tokens = if mine {
        ch09::greedy(next, BEGIN, END, LONGEST)?
    } else {
        let mut tokens = vec![BEGIN];
        while tokens.len() <= LONGEST {
            let scores = next(&tokens)?;
            let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            match best {
                Some((token, _)) if token as u32 != END => {
                    tokens.push(token as u32)
                }
                _ => break,
            }
        }
        tokens.split_off(1)
    };
    let targets = Vocabulary::of_targets();
    Ok(tokens
        .into_iter()
        .filter_map(|token| targets.character(token))
        .collect())
}

// The book's parts, with the reader's attention in them.

/// What the reader's attention returned, as a step of the book's residual.
struct Answer(Array3<f32>);

impl Steps<f32> for Answer {
    fn output(&self) -> &Array3<f32> {
        &self.0
    }
}

/// The book's residual around a part that works on one sequence.
fn around(
    residual: &Residual<f32>,
    x: Array2<f32>,
    part: impl FnOnce(&ArrayRef2<f32>) -> Result<Array2<f32>>,
) -> Result<Array2<f32>> {
    let x = x.insert_axis(Axis(0));
    let steps = residual.around(&x, &mut Mode::Evaluation, |x, _| {
        let answer = part(&x.index_axis(Axis(0), 0))?;
        Ok(Answer(answer.insert_axis(Axis(0))))
    })?;
    Ok(steps.output.index_axis_move(Axis(0), 0))
}

fn embedded(
    embedding: &ch08_transformer::Embedding<f32>,
    tokens: &[u32],
) -> Result<Array2<f32>> {
    let tokens = Array1::from(tokens.to_vec()).insert_axis(Axis(0));
    let x = embedding.apply(&tokens)?.index_axis_move(Axis(0), 0);
    let positions =
        ch06_self_attention::sinusoidal_positions::<f32>(x.nrows(), x.ncols());
    Ok(x + positions)
}

fn normalized(
    norm: &Option<LayerNorm<f32>>,
    x: Array2<f32>,
    mine: bool,
) -> Result<Array2<f32>> {
    match norm {
        None => Ok(x),
        Some(norm) if mine => {
            ch08::layer_norm(&x, norm.gain(), norm.shift(), ch08::EPS)
        }
        Some(norm) => {
            let x = norm.apply(&x.insert_axis(Axis(0)))?;
            Ok(x.index_axis_move(Axis(0), 0))
        }
    }
}

fn feed_forward(
    network: &ch08_transformer::FeedForward<f32>,
    x: &ArrayRef2<f32>,
) -> Result<Array2<f32>> {
    let x = network.apply(&x.view().insert_axis(Axis(0)))?;
    Ok(x.index_axis_move(Axis(0), 0))
}

fn encoder_layer(
    layer: &EncoderLayer<f32>,
    x: Array2<f32>,
    mask: &Mask,
) -> Result<Array2<f32>> {
    let x = around(&layer.attention_residual, x, |x| {
        multi_head(&layer.attention, x, x, x, mask)
    })?;
    around(&layer.feed_forward_residual, x, |x| {
        feed_forward(&layer.feed_forward, x)
    })
}

fn decoder_layer(
    layer: &DecoderLayer<f32>,
    x: Array2<f32>,
    memory: &Array2<f32>,
    mask: &Mask,
    cross: bool,
) -> Result<Array2<f32>> {
    let x = around(&layer.attention_residual, x, |x| {
        multi_head(&layer.attention, x, x, x, mask)
    })?;
    let x = around(&layer.cross_attention_residual, x, |x| {
        let (numbers, everything) = (&layer.cross_attention, Mask::everything());
        if cross {
            ch07::cross_attention(numbers, x, memory, &everything)
        } else {
            multi_head(numbers, x, memory, memory, &everything)
        }
    })?;
    around(&layer.feed_forward_residual, x, |x| {
        feed_forward(&layer.feed_forward, x)
    })
}
