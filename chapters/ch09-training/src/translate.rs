//! A trained model at work: it writes one character at a time, each after those it has written.

// ANCHOR: translate_imports
use crate::task::{BEGIN, END, Vocabulary, padded};
use anyhow::{Result, ensure};
use ch02_softmax::softmax;
use ch08_transformer::{Mode, Transformer};
use jiff::civil::Date;
use ndarray::{Array3, Axis, s};
// ANCHOR_END: translate_imports

/// What a model wrote for a text, and how it came to it.
// ANCHOR: translation
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The characters that were written.
    pub written: String,
    /// The probability which the model gave to each of them, and to the end.
    pub probabilities: Vec<f64>,
    /// For each decoder layer the cross-attention weights, `(heads, m, n)`: row `i` is what the model
    /// looked at when it wrote character `i`, the last row is the end.
    pub looked_at: Vec<Array3<f32>>,
}

/// The longest text that is translated, in characters.
pub const LONGEST: usize = 200;

/// How probable an answer must be for the model to be sure of it.
pub const SURE: f64 = 0.9;

impl Translation {
    /// The probability of the whole answer: the product of its characters'.
    pub fn probability(&self) -> f64 {
        self.probabilities.iter().product()
    }

    /// Whether the answer is probable, and is a day of the calendar.
    pub fn is_sure(&self) -> bool {
        let is_date =
            self.written.len() == 10 && self.written.parse::<Date>().is_ok();
        is_date && self.probability() >= SURE
    }
}
// ANCHOR_END: translation

/// Translates a date, always taking the most probable character.
///
/// # Errors
/// If the text is empty or longer than [`LONGEST`], or the model does not know the tokens of the
/// task.
// ANCHOR: translate
pub fn translate(model: &Transformer<f32>, text: &str) -> Result<Translation> {
    let (sources, targets) = (Vocabulary::of_sources(), Vocabulary::of_targets());
    let n = text.chars().count();
    ensure!(n > 0, "there is nothing to translate");
    ensure!(
        n <= LONGEST,
        "a text of {n} characters is no date; {LONGEST} is the most that is read"
    );
    let source = padded(vec![sources.tokens(text)]);
    let memory = model.encode(source.view())?;
    let mut tokens = vec![BEGIN];
    let mut written = String::new();
    let mut probabilities = vec![];
    // A date has ten characters, and then there is the end.
    while probabilities.len() < 11 {
        let target = padded(vec![tokens.clone()]);
        let logits = model.decode(target.view(), memory.view(), source.view())?;
        let shares = softmax(logits.slice(s![0, -1, ..]));
        // The most probable token that can be written or ends the text.
        let choices = shares.iter().enumerate().skip(END as usize);
        let best = choices.max_by(|a, b| a.1.total_cmp(b.1));
        let Some((token, &share)) = best else { break };
        probabilities.push(f64::from(share));
        match targets.character(token as u32) {
            Some(character) => written.push(character),
            None => break,
        }
        tokens.push(token as u32);
    }
    tokens.truncate(probabilities.len());

    // The same once more, for what was looked at on the way.
    let target = padded(vec![tokens]);
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(source.view(), target.view(), mode)?;
    let layers = steps.decoder.layers.into_iter();
    let looked_at = layers
        .map(|layer| layer.cross_attention.part.asked.weights)
        .map(|weights| weights.index_axis_move(Axis(0), 0));
    Ok(Translation {
        written,
        probabilities,
        looked_at: looked_at.collect(),
    })
}
// ANCHOR_END: translate
