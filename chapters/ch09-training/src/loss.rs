//! How wrong a model is: the cross-entropy of the scores it gives to the right tokens.

// ANCHOR: loss_imports
use crate::same_shape;
use anyhow::{Result, ensure};
use ch02_softmax::{largest, log_sum_exp, softmax};
use ch05_multihead::cast;
use ndarray::{Array3, ArrayRef2, ArrayRef3, NdFloat};
// ANCHOR_END: loss_imports

/// How wrong a model is over a batch, and which way to go.
// ANCHOR: loss_type
#[derive(Clone, Debug, PartialEq)]
pub struct Loss<F> {
    /// The mean over all tokens that count, with the natural logarithm.
    pub mean: F,
    /// How many tokens count: all but padding.
    pub tokens: usize,
    /// The gradient of the mean by the scores, `(batch, m, vocabulary)`.
    pub d_logits: Array3<F>,
}
// ANCHOR_END: loss_type

/// The cross-entropy of scores and the tokens that should have had the highest:
/// `−Σ_j q_j log p_j` with `p = softmax(logits)`, averaged over all tokens but padding.
///
/// `q` is 1 at the right token and 0 elsewhere; smoothing by `ε` makes it `1 − ε` at the right one and
/// spreads `ε` evenly over the whole vocabulary. `logits` are `(batch, m, vocabulary)`, `targets` are
/// `batch × m`.
///
/// # Errors
/// If the shapes do not fit, a target is not in the vocabulary, every target is padding, or `ε` is not
/// at least 0 and at most 1.
///
/// Source: Szegedy et al., *Rethinking the Inception Architecture* (2015), section 7.
// ANCHOR: cross_entropy
pub fn cross_entropy<F: NdFloat>(
    logits: &ArrayRef3<F>,
    targets: &ArrayRef2<u32>,
    pad: u32,
    smoothing: f64,
) -> Result<Loss<F>> {
    let (batch, m, vocabulary) = logits.dim();
    same_shape("scores", &[batch, m], "targets", targets.shape())?;
    ensure!(
        (0.0..=1.0).contains(&smoothing),
        "the smoothing must be at least 0 and at most 1, not {smoothing}"
    );
    let tokens = targets.iter().filter(|&&token| token != pad).count();
    ensure!(tokens > 0, "every target is padding, so there is no mean");
    let count = cast::<F>(tokens as f64);
    let spread = cast::<F>(smoothing / vocabulary as f64);
    let hit = cast::<F>(1.0 - smoothing);

    let mut sum = F::zero();
    let mut d_logits = Array3::zeros(logits.dim());
    let rows = logits.rows().into_iter().zip(d_logits.rows_mut());
    for ((logits, mut d_logits), &target) in rows.zip(targets) {
        if target == pad {
            continue;
        }
        let right = target as usize;
        ensure!(
            right < vocabulary,
            "target {target} is not in a vocabulary of {vocabulary}"
        );
        // −Σ q_j log p_j = log Σ exp(z_j) − Σ q_j z_j, with each z_j less the largest:
        // beside large scores a logarithm would be rounded away.
        let largest = largest(&logits);
        let relative = logits.mapv(|z| z - largest);
        let mut expected = F::zero();
        if smoothing < 1.0 {
            expected += hit * relative[right];
        }
        if smoothing > 0.0 {
            expected += relative.fold(F::zero(), |sum, &z| sum + spread * z);
        }
        sum += log_sum_exp(&relative) - expected;
        // ∂/∂z_j = (p_j − q_j) / tokens
        d_logits.assign(&softmax(&logits));
        d_logits -= spread;
        d_logits[right] -= hit;
        d_logits /= count;
    }
    Ok(Loss {
        mean: sum / count,
        tokens,
        d_logits,
    })
}
// ANCHOR_END: cross_entropy
