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
// ANCHOR: cross_entropy
pub fn cross_entropy<F: NdFloat>(
    logits: &ArrayRef2<F>,
    targets: &[u32],
    pad: u32,
) -> Result<F> {
    // ANCHOR: cross_entropy_body
    ensure!(
        logits.nrows() == targets.len(),
        "{} rows of scores, {} targets",
        logits.nrows(),
        targets.len()
    );
    let (mut sum, mut count) = (F::zero(), F::zero());
    for (row, &target) in logits.rows().into_iter().zip(targets) {
        if target == pad {
            continue;
        }
        let logs = log_softmax(&row);
        let log = logs.get(target as usize);
        sum -= *log.with_context(|| format!("there is no token {target}"))?;
        count += F::one();
    }
    ensure!(count > F::zero(), "every target is padding");
    Ok(sum / count)
    // ANCHOR_END: cross_entropy_body
}
// ANCHOR_END: cross_entropy

/// Back through scaled dot-product attention: from the gradient by its output to the gradients by
/// queries, keys and values, in this order.
///
/// `queries` are `m × d_k`, `keys` are `n × d_k`, `values` are `n × d_v`, `d_output` is `m × d_v`, and
/// each gradient has the shape of what it belongs to.
///
/// # Errors
/// If the shapes do not fit each other.
// ANCHOR: attention_backward
pub fn attention_backward<F: NdFloat>(
    queries: &ArrayRef2<F>,
    keys: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
    d_output: &ArrayRef2<F>,
) -> Result<[Array2<F>; 3]> {
    // ANCHOR: attention_backward_body
    let weights = attention_weights(&scaled_scores(queries, keys)?);
    ensure!(
        values.nrows() == keys.nrows()
            && d_output.dim() == (queries.nrows(), values.ncols()),
        "values of {:?} and a gradient of {:?} do not fit {:?} weights",
        values.dim(),
        d_output.dim(),
        weights.dim()
    );
    // O = A V, so d_V = Aᵀ d_O and d_A = d_O Vᵀ.
    let d_values = weights.t().dot(d_output);
    let d_weights = d_output.dot(&values.t());
    let mut d_scores = Array2::zeros(weights.dim());
    for (i, mut row) in d_scores.rows_mut().into_iter().enumerate() {
        let (a, g) = (weights.row(i), d_weights.row(i));
        row.assign(&gradient_through_softmax(&a, &g));
    }
    // E = Q Kᵀ / √d_k
    let root = F::from(queries.ncols())
        .expect("a width is a number")
        .sqrt();
    let d_scores = d_scores / root;
    Ok([d_scores.dot(keys), d_scores.t().dot(queries), d_values])
    // ANCHOR_END: attention_backward_body
}
// ANCHOR_END: attention_backward

/// Greedy decoding: from `begin` on, always the token with the highest score, until that is `end` or
/// `longest` tokens have been written. Neither `begin` nor `end` is part of the answer; of equal
/// scores the first counts.
///
/// `next` is given all tokens so far, `begin` in front, and returns a score for each token of the
/// vocabulary. The translator writes with this.
///
/// # Errors
/// If `next` fails, or the vocabulary is empty.
// ANCHOR: greedy
pub fn greedy<F: NdFloat>(
    mut next: impl FnMut(&[u32]) -> Result<Array1<F>>,
    begin: u32,
    end: u32,
    longest: usize,
) -> Result<Vec<u32>> {
    // ANCHOR: greedy_body
    let mut tokens = vec![begin];
    while tokens.len() <= longest {
        let scores = next(&tokens)?;
        ensure!(!scores.is_empty(), "there is no token to choose");
        let best = (1..scores.len()).fold(0, |best, token| {
            if scores[token] > scores[best] {
                token
            } else {
                best
            }
        });
        if best as u32 == end {
            break;
        }
        tokens.push(best as u32);
    }
    Ok(tokens.split_off(1))
    // ANCHOR_END: greedy_body
}
// ANCHOR_END: greedy

/// By hand: the gradient by two equal scores, when the loss is the first of two weights.
// ANCHOR: gradient_by_hand
pub fn gradient_by_hand() -> [f64; 2] {
    // ANCHOR: gradient_by_hand_body
    // a = [0.5, 0.5], d_a = [1, 0]: the mean Σ a_l d_a_l is 0.5.
    [0.5 * (1.0 - 0.5), 0.5 * (0.0 - 0.5)]
    // ANCHOR_END: gradient_by_hand_body
}
// ANCHOR_END: gradient_by_hand

/// The learning rate of the paper of 2017, equation 3, at a step counted from 1.
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

/// Find the fault: this wants to be Adam's running mean of the gradients, corrected for its start at
/// 0, and one line of it is wrong.
// ANCHOR: find_the_fault_09
pub fn find_the_fault_09(gradients: &[f64], beta: f64) -> f64 {
    let mut mean = 0.0;
    for gradient in gradients {
        mean = beta * mean + (1.0 - beta) * gradient;
    }
    // instead of: let correction = 1.0 - beta;
    let correction = 1.0 - beta.powi(gradients.len() as i32);
    mean / correction
}
// ANCHOR_END: find_the_fault_09
