//! Training: one step after another, and a look at how far it has come.

// ANCHOR: trainer_imports
use crate::dates::{self, Example, Split};
use crate::nonsense::nonsense;
use crate::task::{Batch, Vocabulary};
use crate::{layers, loss::cross_entropy, optimizer};
use anyhow::{Result, ensure};
use ch05_multihead::check_probability;
use ch08_transformer::{
    Activation, Learned, Mode, NormOrder, PAD, Settings, Transformer,
};
use ndarray::{ArrayRef1, NdFloat};
use optimizer::{Adam, Schedule};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
// ANCHOR_END: trainer_imports

/// Everything that decides how a training goes.
// ANCHOR: plan
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where all random numbers begin.
    pub seed: u64,
    /// How many dates a step sees.
    pub batch: usize,
    /// How many texts it sees that are no dates.
    pub nonsense: usize,
    /// Into how many parts the dates are cut, to be worked on side by side.
    pub parts: usize,
    /// The learning rate over the steps.
    pub schedule: Schedule,
    /// How long a gradient may be.
    pub longest_gradient: f64,
    /// How much of the truth is spread over all tokens.
    pub smoothing: f64,
    /// The probability of dropout.
    pub dropout: f64,
    /// The width of the model.
    pub d_model: usize,
    /// Its number of heads.
    pub heads: usize,
    /// The width inside its feed-forward networks.
    pub d_ff: usize,
    /// Its number of encoder layers.
    pub encoder_layers: usize,
    /// Its number of decoder layers.
    pub decoder_layers: usize,
}

impl Default for Plan {
    /// The plan by which the book's weights were made.
    fn default() -> Self {
        Self {
            seed: 2017,
            batch: 64,
            nonsense: 16,
            parts: 5,
            schedule: Schedule {
                peak: 2e-3,
                warm_up: 200,
                steps: 10_000,
            },
            longest_gradient: 1.0,
            smoothing: 0.0,
            dropout: 0.0,
            d_model: 64,
            heads: 4,
            d_ff: 128,
            encoder_layers: 1,
            decoder_layers: 2,
        }
    }
}
// ANCHOR_END: plan

// ANCHOR: plan_settings
impl Plan {
    /// The settings of its model: pre-norm, with ReLU.
    pub fn settings(&self) -> Settings {
        Settings {
            source_vocabulary: Vocabulary::of_sources().len(),
            target_vocabulary: Vocabulary::of_targets().len(),
            d_model: self.d_model,
            heads: self.heads,
            d_ff: self.d_ff,
            encoder_layers: self.encoder_layers,
            decoder_layers: self.decoder_layers,
            activation: Activation::Relu,
            order: NormOrder::Pre,
            dropout: self.dropout,
        }
    }

    /// Whether the plan can be followed on a machine of ordinary size.
    ///
    /// # Errors
    /// If it cannot; the number that is too small or too large is named.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.nonsense <= 65_536,
            "{} texts that are no dates are more than 65536",
            self.nonsense
        );
        for (name, size, most) in [
            ("batch", self.batch, 65_536),
            ("number of parts", self.parts, 65_536),
            ("width", self.d_model, 4_096),
            ("number of heads", self.heads, 4_096),
            ("inner width", self.d_ff, 16_384),
            ("number of encoder layers", self.encoder_layers, 64),
            ("number of decoder layers", self.decoder_layers, 64),
        ] {
            ensure!(
                (1..=most).contains(&size),
                "a {name} of {size} is not between 1 and {most}"
            );
        }
        ensure!(
            self.least_parameters() <= 100_000_000,
            "a model of more than {} numbers is too large",
            self.least_parameters()
        );
        let (peak, longest) = (self.schedule.peak, self.longest_gradient);
        ensure!(
            peak.is_finite() && peak >= 0.0,
            "a learning rate of {peak} leads nowhere"
        );
        ensure!(
            longest.is_finite() && longest > 0.0,
            "a gradient cannot be shortened to {longest}"
        );
        ensure!(
            (0.0..=1.0).contains(&self.smoothing),
            "the smoothing must be at least 0 and at most 1, not {}",
            self.smoothing
        );
        check_probability(self.dropout)
    }

    /// How many numbers the matrices of all layers have together: no model of this plan has fewer.
    pub(crate) fn least_parameters(&self) -> u64 {
        let size = |size: usize| size as u64;
        let square = size(self.d_model) * size(self.d_model);
        let network = 2 * size(self.d_model) * size(self.d_ff);
        size(self.encoder_layers) * (4 * square + network)
            + size(self.decoder_layers) * (8 * square + network)
    }
}
// ANCHOR_END: plan_settings

/// How far a training had come at some step.
// ANCHOR: progress
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How many steps had been taken.
    pub step: u64,
    /// The mean loss of the steps since the last look.
    pub loss: f32,
    /// The share of validation dates that were right from the first to the last character.
    pub exact: f64,
}
// ANCHOR_END: progress

/// A training under way.
// ANCHOR: trainer
#[derive(Clone, Debug, PartialEq)]
pub struct Trainer {
    /// What it follows.
    pub plan: Plan,
    /// The model so far.
    pub model: Transformer<f32>,
    /// What Adam remembers, the number of steps among it.
    pub adam: Adam<f32>,
    /// The losses since the last look.
    pub losses: Vec<f32>,
    /// Every look so far.
    pub history: Vec<Progress>,
    /// The model that did best at any look.
    pub best: Transformer<f32>,
}

impl Trainer {
    /// A training that begins.
    ///
    /// # Errors
    /// If the plan cannot be followed.
    pub fn new(plan: Plan) -> Result<Self> {
        plan.check()?;
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        let model = Transformer::random(&plan.settings(), &mut rng)?;
        Ok(Self {
            adam: Adam::new(&model, [0.9, 0.98], 1e-9)?,
            best: model.clone(),
            losses: vec![],
            history: vec![],
            plan,
            model,
        })
    }
}
// ANCHOR_END: trainer

// ANCHOR: step
impl Trainer {
    /// One step: examples, their loss, the gradient, better numbers. Returns the loss.
    ///
    /// The examples depend on the seed and the number of the step, and on nothing else.
    ///
    /// # Errors
    /// If a number has left its range.
    pub fn step(&mut self) -> Result<f32> {
        let step = self.adam.steps.saturating_add(1);
        let mut rng = ChaCha8Rng::seed_from_u64(self.plan.seed);
        rng.set_stream(step);
        let examples: Vec<Example> = (0..self.plan.batch)
            .map(|_| dates::example(Split::Training, &mut rng))
            .collect();
        let mut batches = self.batches(examples);
        if self.plan.nonsense > 0 {
            let texts: Vec<Example> = (0..self.plan.nonsense)
                .map(|_| nonsense(Split::Training, &mut rng))
                .collect();
            batches.push(Batch::of_nonsense(&texts));
        }
        let (loss, mut gradient) = self.gradient(&batches)?;
        optimizer::clip(&mut gradient, self.plan.longest_gradient)?;
        let rate = self.plan.schedule.rate(step);
        self.adam.step(&mut self.model, &gradient, rate)?;
        self.losses.push(loss);
        Ok(loss)
    }

    /// The examples in parts, texts of like length together, so that little is filled up.
    pub fn batches(&self, mut examples: Vec<Example>) -> Vec<Batch> {
        examples.sort_by_key(|example| example.text.chars().count());
        let size = examples.len().div_ceil(self.plan.parts.max(1)).max(1);
        examples.chunks(size).map(Batch::new).collect()
    }
}
// ANCHOR_END: step

// ANCHOR: gradient
impl Trainer {
    /// The mean loss of some batches together, those that are no dates left out, and the gradient of
    /// all of them by every number of the model.
    ///
    /// The batches are worked on side by side and added up in their order, so that every run gives
    /// the same.
    ///
    /// # Errors
    /// If a batch does not fit the model, or has nothing to learn from.
    pub fn gradient(&self, batches: &[Batch]) -> Result<(f32, Transformer<f32>)> {
        let parts = batches.par_iter().enumerate();
        let parts = parts
            .map(|(number, batch)| self.gradient_of(batch, number as u64))
            .collect::<Result<Vec<_>>>()?;
        let tokens: usize = parts.iter().map(|part| part.tokens).sum();
        let (mut loss, mut of_dates) = (0.0, 0.0);
        let mut gradient = blank(&self.model);
        for (part, batch) in parts.into_iter().zip(batches) {
            // The mean of all is the mean of the parts, each by its share of the tokens.
            let share = part.tokens as f32 / tokens as f32;
            if batch.is_dates {
                loss += share * part.loss;
                of_dates += share;
            }
            let sums = gradient.tables_mut().into_iter();
            for ((_, mut sum), (_, table)) in sums.zip(part.gradient.tables()) {
                sum.scaled_add(share, &table);
            }
        }
        Ok((if of_dates > 0.0 { loss / of_dates } else { 0.0 }, gradient))
    }

    fn gradient_of(&self, batch: &Batch, number: u64) -> Result<Part> {
        // Each part drops by random numbers of its own.
        let mut rng = ChaCha8Rng::seed_from_u64(!self.plan.seed);
        let parts = (self.plan.parts as u64).wrapping_add(1);
        let stream = self.adam.steps.wrapping_mul(parts).wrapping_add(number);
        rng.set_stream(stream);
        let (source, input) = (&batch.source, &batch.input);
        let mode = &mut Mode::Training(&mut rng);
        let steps = self.model.apply_in_steps(source, input, mode)?;
        let smoothing = if batch.is_dates {
            self.plan.smoothing
        } else {
            1.0
        };
        let loss = cross_entropy(&steps.logits, &batch.target, PAD, smoothing)?;

        let mut gradient = blank(&self.model);
        let (model, d_logits) = (&self.model, &loss.d_logits);
        layers::transformer(
            model,
            [source, input],
            &steps,
            d_logits,
            &mut gradient,
        )?;
        Ok(Part {
            loss: loss.mean,
            tokens: loss.tokens,
            gradient,
        })
    }
}

struct Part {
    loss: f32,
    tokens: usize,
    gradient: Transformer<f32>,
}

/// A model of the same shape whose numbers are all 0: a place for gradients.
pub fn blank<F: NdFloat, L: Learned<F> + Clone>(model: &L) -> L {
    let mut gradient = model.clone();
    for (_, mut table) in gradient.tables_mut() {
        table.fill(F::zero());
    }
    gradient
}
// ANCHOR_END: gradient

// ANCHOR: look
impl Trainer {
    /// Looks how many of some examples the model gets right, and keeps the model if it never did
    /// better.
    ///
    /// # Errors
    /// As [`exact`].
    pub fn look(&mut self, examples: &[Example]) -> Result<Progress> {
        let exact = exact(&self.model, examples)?;
        let best = self.history.iter().map(|look| look.exact);
        if exact >= best.fold(0.0, f64::max) {
            self.best = self.model.clone();
        }
        let losses = std::mem::take(&mut self.losses);
        let progress = Progress {
            step: self.adam.steps,
            loss: losses.iter().sum::<f32>() / losses.len().max(1) as f32,
            exact,
        };
        self.history.push(progress);
        Ok(progress)
    }
}
// ANCHOR_END: look

/// The share of examples that a model gets right from the first character to the end.
///
/// All characters are judged at once: a character is written after the right ones before it. If all are
/// right, then the model, writing by itself, would have written the same; if one is wrong, it would
/// have gone wrong there.
///
/// # Errors
/// If the examples do not fit the model.
// ANCHOR: exact
pub fn exact(model: &Transformer<f32>, examples: &[Example]) -> Result<f64> {
    let mut sorted: Vec<&Example> = examples.iter().collect();
    sorted.sort_by_key(|example| example.text.chars().count());
    let right = sorted.par_chunks(50).map(|examples| {
        let examples: Vec<Example> = examples.iter().copied().cloned().collect();
        let batch = Batch::new(&examples);
        let (source, input) = (&batch.source, &batch.input);
        let steps = model.apply_in_steps(source, input, &mut Mode::Evaluation)?;
        let rows = steps.logits.outer_iter().zip(batch.target.outer_iter());
        let right = rows.filter(|(logits, target)| {
            let mut best = logits.rows().into_iter().map(|row| most_probable(&row));
            target.iter().all(|&token| best.next() == Some(token))
        });
        Ok(right.count())
    });
    let right: usize = right.collect::<Result<Vec<_>>>()?.iter().sum();
    Ok(right as f64 / examples.len().max(1) as f64)
}

fn most_probable(scores: &ArrayRef1<f32>) -> u32 {
    let tokens = scores.iter().enumerate();
    tokens
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or(PAD, |(token, _)| token as u32)
}
// ANCHOR_END: exact
