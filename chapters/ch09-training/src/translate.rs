//! A trained model at work: it writes one character at a time, each after those it has written.

// ANCHOR: translate_imports
use crate::reading::{as_read, is_one_date};
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
    /// The text as the model read it, see [`as_read`].
    pub read: String,
    /// The characters that were written.
    pub written: String,
    /// The probability which the model gave to each of them, and to the end.
    pub probabilities: Vec<f64>,
    /// For each decoder layer the cross-attention weights, `(heads, m, n)`: row `i` is what the model
    /// looked at when it wrote character `i`, the last row is the end; column `j` is character `j` of
    /// `read`.
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

    /// Whether the answer is a day of the calendar.
    pub fn is_day(&self) -> bool {
        let written = self.written.as_bytes();
        let number = |from: usize, to: usize| {
            let digits = written.get(from..to)?;
            digits.iter().try_fold(0, |number: i16, digit| {
                let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
                Some(10 * number + i16::from(digit))
            })
        };
        let dashes =
            written.len() == 10 && written[4] == b'-' && written[7] == b'-';
        let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
        dashes
            && year
                .zip(month.zip(day))
                .is_some_and(|(year, (month, day))| {
                    Date::new(year, month as i8, day as i8).is_ok()
                })
    }

    /// Whether the model was sure and can be: the answer is probable and a day of the calendar, and
    /// the text is one date and nothing else.
    pub fn is_sure(&self) -> bool {
        self.probability() >= SURE && self.is_day() && is_one_date(&self.read)
    }
}
// ANCHOR_END: translation

/// Translates a date, always taking the most probable character.
///
/// # Errors
/// If the text has nothing to read or is longer than [`LONGEST`], or the model does not know the tokens of the
/// task.
// ANCHOR: translate
pub fn translate(model: &Transformer<f32>, text: &str) -> Result<Translation> {
    let (sources, targets) = (Vocabulary::of_sources(), Vocabulary::of_targets());
    let read = as_read(text);
    let n = read.chars().count();
    ensure!(n > 0, "there is nothing to translate");
    ensure!(
        n <= LONGEST,
        "a text of {n} characters is no date; {LONGEST} is the most that is read"
    );
    let source = padded(vec![sources.tokens(&read)]);
    let memory = model.encode(&source)?;
    let mut tokens = vec![BEGIN];
    let mut written = String::new();
    let mut probabilities = vec![];
    // A date has ten characters, and then there is the end.
    while probabilities.len() < 11 {
        let target = padded(vec![tokens.clone()]);
        let logits = model.decode(&target, &memory, &source)?;
        let shares = softmax(&logits.slice(s![0, -1, ..]));
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
    let steps = model.apply_in_steps(&source, &target, mode)?;
    let layers = steps.decoder.layers.into_iter();
    let looked_at = layers
        .map(|layer| layer.cross_attention.part.asked.weights)
        .map(|weights| weights.index_axis_move(Axis(0), 0));
    Ok(Translation {
        read,
        written,
        probabilities,
        looked_at: looked_at.collect(),
    })
}
// ANCHOR_END: translate
