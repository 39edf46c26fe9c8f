//! Exercises of chapter 9, training.

use anyhow::{Result, ensure};
use ndarray::{Array3, ArrayView1, ArrayView2, ArrayView3, Axis};

/// Exercise 1: the gradient by two equal scores, when the loss is the first of two weights.
// ANCHOR: gradient_by_hand
pub fn gradient_by_hand() -> [f64; 2] {
    // ANCHOR: gradient_by_hand_body
    // a = [0.5, 0.5], d_a = [1, 0]: the mean Σ a_l d_a_l is 0.5.
    [0.5 * (1.0 - 0.5), 0.5 * (0.0 - 0.5)]
    // ANCHOR_END: gradient_by_hand_body
}
// ANCHOR_END: gradient_by_hand

/// Exercise 2: back through RMSNorm, `y = γ ⊙ x / √(mean(x²) + ε)`.
///
/// `x` and `d_y` are `(batch, n, d)`, and so is the result, `d_x`; `gain` is `d` long.
// ANCHOR: rms_norm_backward
pub fn rms_norm_backward(
    x: ArrayView3<f64>,
    gain: ArrayView1<f64>,
    eps: f64,
    d_y: ArrayView3<f64>,
) -> Array3<f64> {
    // ANCHOR: rms_norm_backward_body
    let mut d_x = &d_y * &gain;
    for (mut g, x) in d_x.rows_mut().into_iter().zip(x.rows()) {
        let d = x.len() as f64;
        let root = (x.dot(&x) / d + eps).sqrt();
        // With x̂ = x / root: d_x = (g − x̂ mean(g ⊙ x̂)) / root
        let slope = g.dot(&x) / root / d;
        g.zip_mut_with(&x, |g, &x| *g = (*g - x / root * slope) / root);
    }
    d_x
    // ANCHOR_END: rms_norm_backward_body
}
// ANCHOR_END: rms_norm_backward

/// Exercise 3: the learning rate of the paper of 2017, equation 3, at a step counted from 1.
// ANCHOR: rate_of_the_paper
pub fn rate_of_the_paper(step: u64, d_model: usize, warm_up: u64) -> f64 {
    // ANCHOR: rate_of_the_paper_body
    let (step, warm_up) = (step as f64, warm_up as f64);
    let rising = step * warm_up.powf(-1.5);
    let falling = step.powf(-0.5);
    (d_model as f64).powf(-0.5) * rising.min(falling)
    // ANCHOR_END: rate_of_the_paper_body
}
// ANCHOR_END: rate_of_the_paper

/// Exercise 4: the share of tokens that have the highest score, padding left out.
///
/// `logits` are `(batch, m, vocabulary)`, `targets` are `batch × m`. A batch of nothing but padding
/// is an error.
// ANCHOR: token_accuracy
pub fn token_accuracy(
    logits: ArrayView3<f64>,
    targets: ArrayView2<u32>,
    pad: u32,
) -> Result<f64> {
    // ANCHOR: token_accuracy_body
    let (mut right, mut tokens) = (0, 0);
    for (scores, &target) in logits.lanes(Axis(2)).into_iter().zip(targets) {
        if target == pad {
            continue;
        }
        tokens += 1;
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        if best.is_some_and(|(token, _)| token == target as usize) {
            right += 1;
        }
    }
    ensure!(tokens > 0, "every target is padding");
    Ok(f64::from(right) / f64::from(tokens))
    // ANCHOR_END: token_accuracy_body
}
// ANCHOR_END: token_accuracy
