//! Training: one step after another.

// ANCHOR: trainer_imports
use crate::dates::{self, Example, Split};
use crate::task::{Batch, Vocabulary};
use crate::{layers, loss::cross_entropy, optimizer};
use anyhow::Result;
use ch05_multihead::cast;
use ch08_transformer::{
    Activation, Learned, Mode, NormOrder, PAD, Settings, Transformer,
};
use ndarray::NdFloat;
use optimizer::{Adam, Schedule};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rayon::prelude::*;
// ANCHOR_END: trainer_imports

/// A model whose numbers are all 0: a place for gradients.
// ANCHOR: blank
pub fn blank<F: NdFloat, L: Learned<F> + Clone>(model: &L) -> L {
    let mut gradient = model.clone();
    for (_, mut table) in gradient.tables_mut() {
        table.fill(F::zero());
    }
    gradient
}
// ANCHOR_END: blank

/// Everything that decides how a training goes.
// ANCHOR: plan
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where all random numbers begin.
    pub seed: u64,
    /// How many examples a step sees.
    pub batch: usize,
    /// Into how many parts they are cut, to be worked on side by side.
    pub shards: usize,
    /// The learning rate over the steps.
    pub schedule: Schedule,
    /// How long a gradient may be.
    pub longest_gradient: f64,
    /// How much of the truth is spread over all tokens.
    pub smoothing: f64,
    /// The sizes of the model.
    pub settings: Settings,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 2017,
            batch: 64,
            shards: 4,
            schedule: Schedule {
                peak: 2e-3,
                warm_up: 200,
                steps: 8_000,
            },
            longest_gradient: 1.0,
            smoothing: 0.0,
            settings: Settings {
                source_vocabulary: Vocabulary::of_sources().len(),
                target_vocabulary: Vocabulary::of_targets().len(),
                d_model: 64,
                heads: 4,
                d_ff: 128,
                encoder_layers: 1,
                decoder_layers: 2,
                activation: Activation::Relu,
                order: NormOrder::Pre,
                dropout: 0.0,
            },
        }
    }
}
// ANCHOR_END: plan

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
}

impl Trainer {
    /// A training that begins.
    ///
    /// # Errors
    /// As [`Transformer::random`].
    pub fn new(plan: Plan) -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        let model = Transformer::random(&plan.settings, &mut rng)?;
        let adam = Adam::new(&model, [0.9, 0.98], 1e-9)?;
        Ok(Self { plan, model, adam })
    }

    /// One step: examples, their loss, the gradient, better numbers. Returns the loss.
    ///
    /// The examples depend on the seed and the number of the step, and on nothing else.
    ///
    /// # Errors
    /// If a number has left its range.
    pub fn step(&mut self) -> Result<f32> {
        let step = self.adam.steps + 1;
        let mut rng = ChaCha8Rng::seed_from_u64(self.plan.seed);
        rng.set_stream(step);
        let mut examples: Vec<Example> = (0..self.plan.batch)
            .map(|_| dates::example(Split::Training, &mut rng))
            .collect();
        // Texts of like length together, so that little is filled up.
        examples.sort_by_key(|example| example.text.chars().count());
        let size = examples.len().div_ceil(self.plan.shards).max(1);
        let batches: Vec<Batch> = examples.chunks(size).map(Batch::new).collect();
        let (loss, mut gradient) = self.gradient(&batches, step)?;
        optimizer::clip(&mut gradient, self.plan.longest_gradient)?;
        self.adam.step(
            &mut self.model,
            &gradient,
            self.plan.schedule.rate(step),
        )?;
        Ok(loss)
    }

    /// The loss of some batches together, and its gradient. Each batch is worked on by a thread;
    /// they are added up in their order, so that every run gives the same.
    pub fn gradient(
        &self,
        batches: &[Batch],
        step: u64,
    ) -> Result<(f32, Transformer<f32>)> {
        let parts = batches.par_iter().enumerate().map(|(number, batch)| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.plan.seed ^ number as u64);
            rng.set_stream(step);
            let [source, input] = [batch.source.view(), batch.input.view()];
            let mode = &mut Mode::Training(&mut rng);
            let steps = self.model.apply_in_steps(source, input, mode)?;
            let loss = cross_entropy(
                steps.logits.view(),
                batch.target.view(),
                PAD,
                self.plan.smoothing,
            )?;
            let mut gradient = blank(&self.model);
            let d_logits = loss.d_logits.view();
            layers::transformer(
                &self.model,
                [source, input],
                &steps,
                d_logits,
                &mut gradient,
            )?;
            Ok((loss.mean, loss.tokens, gradient))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let tokens: usize = parts.iter().map(|(_, tokens, _)| tokens).sum();
        let mut sum = 0.0;
        let mut total = blank(&self.model);
        for (loss, part, gradient) in parts {
            // The mean of all is the mean of the parts, each by its share of the tokens.
            let share: f32 = cast(part as f64 / tokens as f64);
            sum += share * loss;
            let tables = total.tables_mut().into_iter().zip(gradient.tables());
            for ((_, mut total), (_, part)) in tables {
                total.scaled_add(share, &part);
            }
        }
        Ok((sum, total))
    }
}
// ANCHOR_END: trainer

/// The share of examples which a model gets right from their first character to their last.
// ANCHOR: exact
pub fn exact(model: &Transformer<f32>, examples: &[Example]) -> Result<f64> {
    let mut sorted = examples.to_vec();
    sorted.sort_by_key(|example| example.text.chars().count());
    let right = sorted.par_chunks(50).map(|examples| {
        let batch = Batch::new(examples);
        let (source, input) = (batch.source.view(), batch.input.view());
        let steps = model.apply_in_steps(source, input, &mut Mode::Evaluation)?;
        let rows = steps.logits.outer_iter().zip(batch.target.outer_iter());
        Ok(rows
            .filter(|(logits, target)| {
                let best = logits.rows().into_iter().map(|row| {
                    let best =
                        row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                    best.map_or(PAD, |(token, _)| token as u32)
                });
                best.eq(target.iter().copied())
            })
            .count())
    });
    let right: usize = right.collect::<Result<Vec<_>>>()?.iter().sum();
    Ok(right as f64 / examples.len().max(1) as f64)
}
// ANCHOR_END: exact
