//! Chapter 9: where do the weights come from?

use crate::ch02::{attention_weights, log_softmax};
use crate::ch03::{gradient_through_softmax, scaled_scores};
use anyhow::{Context, Result, ensure};
use ndarray::{Array1, Array2, ArrayRef2, NdFloat};

/// The cross-entropy: the mean of −log p of the right tokens, where p is the softmax of a row of scores.
/// Padding does not count.
///
/// `logits` are `m × vocabulary`, and there are `m` targets.
///
/// # Errors
/// If there is not one target for each row, a target is not in the vocabulary, or all are padding.
pub fn cross_entropy<F: NdFloat>(
    logits: &ArrayRef2<F>,
    targets: &[u32],
    pad: u32,
) -> Result<F> {
    todo!("ch09::cross_entropy")
}

/// Back through scaled dot-product attention: from the gradient by its output to the gradients by
/// queries, keys and values, in this order.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, `d_output` is `m × d_v`, and
/// each gradient has the shape of what it belongs to.
///
/// # Errors
/// If the shapes do not fit each other.
pub fn attention_backward<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    d_output: &ArrayRef2<F>,
) -> Result<[Array2<F>; 3]> {
    todo!("ch09::attention_backward")
}

/// Greedy decoding: from `begin` on, always the token with the highest score, until that is `end` or
/// `longest` tokens have been written. Neither `begin` nor `end` is part of the answer; of equal
/// scores the first counts.
///
/// `next` is given all tokens so far, `begin` in front, and returns a score for each token of the
/// vocabulary. The translator writes with this.
///
/// # Errors
/// If `next` fails, or the vocabulary is empty.
pub fn greedy<F: NdFloat>(
    mut next: impl FnMut(&[u32]) -> Result<Array1<F>>,
    begin: u32,
    end: u32,
    longest: usize,
) -> Result<Vec<u32>> {
    todo!("ch09::greedy")
}

/// By hand: the gradient by two equal scores, when the loss is the first of two weights.
pub fn gradient_by_hand() -> [f64; 2] {
    todo!("ch09::gradient_by_hand")
}

/// The learning rate of the paper of 2017, equation 3, at a step counted from 1.
pub fn rate_of_the_paper(step: u64, d_model: usize, warm_up: u64) -> f64 {
    todo!("ch09::rate_of_the_paper")
}

/// Find the fault: this wants to be Adam's running mean of the gradients, corrected for its start at
/// 0, and one line of it is wrong.
pub fn find_the_fault_09(gradients: &[f64], beta: f64) -> f64 {
    let mut mean = 0.0;
    for gradient in gradients {
        mean = beta * mean + (1.0 - beta) * gradient;
    }
    let correction = 1.0 - beta;
    mean / correction
}
