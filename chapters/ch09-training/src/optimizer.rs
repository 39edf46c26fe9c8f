//! From a gradient to better numbers: Adam, the learning rate, and a limit to every step.

// ANCHOR: optimizer_imports
use crate::same_shape;
use anyhow::{Result, ensure};
use ch05_multihead::cast;
use ch08_transformer::Learned;
use ndarray::{ArrayD, NdFloat, Zip};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
// ANCHOR_END: optimizer_imports

/// Adam: each number moves by the mean of its recent gradients over the root of the mean of
/// their squares.
///
/// Source: Kingma, Ba, *Adam: A Method for Stochastic Optimization* (2014), algorithm 1.
// ANCHOR: adam
#[derive(Clone, Debug, PartialEq)]
pub struct Adam<F> {
    /// How much of the mean gradient `m` stays at each step.
    pub beta_1: f64,
    /// How much of the mean square `v` stays at each step.
    pub beta_2: f64,
    /// What keeps the quotient finite.
    pub eps: f64,
    /// How many steps have been taken.
    pub steps: u64,
    /// The mean gradients `m`, a table for each of the model's.
    pub means: Vec<ArrayD<F>>,
    /// The mean squares `v`, a table for each of the model's.
    pub squares: Vec<ArrayD<F>>,
}

impl<F: NdFloat> Adam<F> {
    /// For a model whose training begins.
    ///
    /// # Errors
    /// If a `β` is not at least 0 and below 1, or `ε`, rounded to `F`, is not a finite number above 0.
    pub fn new(
        model: &impl Learned<F>,
        [beta_1, beta_2]: [f64; 2],
        eps: f64,
    ) -> Result<Self> {
        for beta in [beta_1, beta_2] {
            ensure!(
                (0.0..1.0).contains(&beta),
                "a β of Adam must be at least 0 and below 1, not {beta}"
            );
        }
        let rounded = cast::<F>(eps);
        ensure!(
            rounded.is_finite() && rounded > F::zero(),
            "ε must be a finite number above 0, not {rounded}"
        );
        let zeros: Vec<_> = model
            .tables()
            .iter()
            .map(|(_, table)| ArrayD::zeros(table.raw_dim()))
            .collect();
        Ok(Self {
            beta_1,
            beta_2,
            eps,
            steps: 0,
            means: zeros.clone(),
            squares: zeros,
        })
    }

    /// Moves every number of the model by about `rate` where its gradients stay alike.
    ///
    /// If `β₁² < β₂`, no step is longer than `rate · (1 − β₁) / √((1 − β₂)(1 − β₁²/β₂))`, whatever the
    /// gradients are, in the numbers of mathematics; `F` rounds. Gradients that grow by `β₂/β₁` at
    /// every step come as near to it as one likes.
    ///
    /// # Errors
    /// If model and gradient differ in their tables, or from the model this was made for, the rate
    /// is not finite, or a gradient is not finite or too large to be squared: it would stay in
    /// the means for ever. Then nothing has changed.
    pub fn step<L: Learned<F>>(
        &mut self,
        model: &mut L,
        gradient: &L,
        rate: f64,
    ) -> Result<()> {
        let gradients = gradient.tables();
        let tables = model.tables();
        let counts = [tables.len(), gradients.len()];
        let own = [self.means.len(), self.squares.len()];
        same_shape("model and gradient", &counts, "Adam's tables", &own)?;
        for ((name, table), (_, gradient)) in tables.iter().zip(&gradients) {
            same_shape(name, table.shape(), "gradient", gradient.shape())?;
            let lost = gradient.iter().find(|&&g| !(g * g).is_finite());
            ensure!(
                lost.is_none(),
                "the square of a gradient of {name}, {}, has left its range",
                lost.unwrap_or(&F::nan())
            );
        }
        for ((name, table), m) in tables.iter().zip(&self.means) {
            same_shape(name, table.shape(), "Adam's table", m.shape())?;
        }
        for ((name, table), v) in tables.iter().zip(&self.squares) {
            same_shape(name, table.shape(), "Adam's table", v.shape())?;
        }
        drop(tables);

        let steps = self.steps.saturating_add(1);
        let [b1, b2, eps] = [self.beta_1, self.beta_2, self.eps].map(cast::<F>);
        let one = F::one();
        // m and v begin at 0 and are too small by these factors.
        let correct = |beta: f64| 1.0 - beta.powf(steps as f64);
        let corrected = cast::<F>(rate / correct(self.beta_1));
        ensure!(
            corrected.is_finite(),
            "no step can be taken at a rate of {rate}"
        );
        self.steps = steps;
        let root = cast::<F>(correct(self.beta_2).sqrt());
        let moments = self.means.iter_mut().zip(&mut self.squares);
        let tables = model.tables_mut().into_iter().zip(gradients);
        for (((_, mut table), (_, gradient)), (m, v)) in tables.zip(moments) {
            Zip::from(&mut table).and(&gradient).and(m).and(v).for_each(
                |x, &g, m, v| {
                    *m = b1 * *m + (one - b1) * g;
                    *v = b2 * *v + (one - b2) * g * g;
                    // x ← x − rate · m̂ / (√v̂ + ε)
                    *x -= corrected * *m / (v.sqrt() / root + eps);
                },
            );
        }
        Ok(())
    }
}
// ANCHOR_END: adam

/// The learning rate over a training: from 0 up to the peak in a straight line, then down to 0 along
/// half a cosine.
///
/// Source: the descent is that of Loshchilov, Hutter, *SGDR* (2016), equation 5, without restarts.
// ANCHOR: schedule
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// How many steps the rate rises.
    pub warm_up: u64,
    /// How many steps there are.
    pub steps: u64,
}

impl Schedule {
    /// The rate at a step, counted from 1.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * step as f64 / self.warm_up as f64;
        }
        let descent = self.steps.saturating_sub(self.warm_up).max(1) as f64;
        let done = ((step - self.warm_up) as f64 / descent).min(1.0);
        self.peak * (1.0 + (PI * done).cos()) / 2.0
    }
}
// ANCHOR_END: schedule

/// Shortens the gradient to the length `longest`, if it is longer; returns the length it had.
///
/// The length is the root of the sum of the squares of all its numbers.
///
/// # Errors
/// If `longest` is not above 0, or the length is not finite: then nothing is changed.
///
/// Source: Pascanu, Mikolov, Bengio, *On the Difficulty of Training Recurrent Neural Networks*
/// (2013), algorithm 1.
// ANCHOR: clip
pub fn clip<F: NdFloat>(
    gradient: &mut impl Learned<F>,
    longest: f64,
) -> Result<f64> {
    ensure!(longest > 0.0, "a gradient cannot be shortened to {longest}");
    let squares = gradient.tables().into_iter().map(|(_, table)| {
        table
            .iter()
            .map(|g| g.to_f64().unwrap_or(f64::NAN).powi(2))
            .sum::<f64>()
    });
    let length = squares.sum::<f64>().sqrt();
    ensure!(
        length.is_finite(),
        "the gradient is {length} long: a number in the model or the batch has left its range"
    );
    if length > longest {
        let factor = cast::<F>(longest / length);
        for (_, mut table) in gradient.tables_mut() {
            table *= factor;
        }
    }
    Ok(length)
}
// ANCHOR_END: clip
