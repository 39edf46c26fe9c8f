//! The Transformer: what stands around attention?
//!
//! Embeddings bring tokens in, residual connections and LayerNorm keep the numbers in range, a
//! feed-forward network works on each position, and a last projection brings tokens out.
//!
//! Sequences of tokens are `batch × n`, sequences of vectors `(batch, n, d_model)`. Every part keeps
//! the steps it takes: they are what a reader looks at, and what learning goes back through.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::Result;
use ch05_multihead::dropout;
use ndarray::{Array3, Axis, NdFloat};
use rand::Rng;
// ANCHOR_END: imports

// ANCHOR: modules
mod layers;
mod learned;
mod model;
mod parts;
mod study;

pub use layers::*;
pub use learned::*;
pub use model::*;
pub use parts::*;
pub use study::*;
// ANCHOR_END: modules

/// The token that fills up short sequences.
// ANCHOR: pad
pub const PAD: u32 = 0;
// ANCHOR_END: pad

/// Whether a model is used or trained: only training drops anything.
// ANCHOR: mode
pub enum Mode<'a> {
    /// In use: nothing is dropped.
    Evaluation,
    /// In training: dropout draws from these random numbers.
    Training(&'a mut dyn Rng),
}

impl Mode<'_> {
    /// What dropout multiplies each entry by: 0, or `1 / (1 − p)`. Nothing if nothing is dropped.
    fn factors<F: NdFloat>(
        &mut self,
        shape: (usize, usize, usize),
        p: f64,
    ) -> Result<Option<Array3<F>>> {
        match self {
            Self::Training(rng) if p != 0.0 => {
                let ones = Array3::ones(shape).insert_axis(Axis(0));
                let factors = dropout(&ones, p, *rng)?;
                Ok(Some(factors.index_axis_move(Axis(0), 0)))
            }
            _ => Ok(None),
        }
    }
}
// ANCHOR_END: mode
