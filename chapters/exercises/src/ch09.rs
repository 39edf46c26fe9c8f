//! Exercises of chapter 9, training.

use anyhow::{Result, ensure};
use ndarray::{Array3, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the gradient by two equal scores, when the loss is the first of two weights.
pub fn gradient_by_hand() -> [f64; 2] {
    todo!("complete gradient_by_hand")
}

/// Exercise 2: back through RMSNorm, `y = γ ⊙ x / √(mean(x²) + ε)`.
///
/// `x` and `d_y` are `(batch, n, d)`, and so is the result, `d_x`; `gain` is `d` long.
pub fn rms_norm_backward(
    x: ArrayView3<f64>,
    gain: ArrayView1<f64>,
    eps: f64,
    d_y: ArrayView3<f64>,
) -> Array3<f64> {
    todo!("complete rms_norm_backward")
}

/// Exercise 3: the learning rate of the paper of 2017, equation 3, at a step counted from 1.
pub fn rate_of_the_paper(step: u64, d_model: usize, warm_up: u64) -> f64 {
    todo!("complete rate_of_the_paper")
}

/// Exercise 4: the share of tokens that have the highest score, padding left out.
///
/// `logits` are `(batch, m, vocabulary)`, `targets` are `batch × m`. A batch of nothing but padding
/// is an error.
pub fn token_accuracy(
    logits: ArrayView3<f64>,
    targets: ArrayView2<u32>,
    pad: u32,
) -> Result<f64> {
    todo!("complete token_accuracy")
}
