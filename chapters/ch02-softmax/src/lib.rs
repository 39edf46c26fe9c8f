//! Softmax weights and the weighted sum: how much of each value?
//!
//! The scores of one query become weights: none negative, together 1. The weights then mix the
//! values into the answer. `m` is the number of queries, `n` of keys and values, `d_v` the width of
//! a value.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, NdFloat, array};
// ANCHOR_END: imports

/// The softmax as its formula reads: `a_j = exp(e_j) / Σ_l exp(e_l)`. For reading, not for use.
///
/// `scores` and the result are `n` long. Past about 709 in `f64` and 88 in `f32` an exponential
/// overflows and its weight is NaN; a little below, the sum can overflow and every weight is 0; and
/// if all exponentials vanish, all weights are NaN. [`softmax`] is the one to call.
// ANCHOR: naive_softmax
pub fn naive_softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    let exponentials = scores.mapv(|e| e.exp());
    let sum = exponentials.sum();
    exponentials / sum
}
// ANCHOR_END: naive_softmax

/// The softmax: the same weights as [`naive_softmax`], right to rounding for scores of any size.
///
/// `scores` and the result are `n` long; the weights are ≥ 0 and sum to 1 up to rounding,
/// except that
///
/// - no scores give no weights;
/// - scores that are all −∞ give weights that are all 0: there is nothing to choose from;
/// - a NaN or a +∞ among the scores makes every weight NaN: no share of an infinity is defined.
///
/// Source: the shift by the maximum is in Goodfellow, Bengio, Courville, *Deep Learning* (2016),
/// section 4.1.
// ANCHOR: softmax
pub fn softmax<F: NdFloat>(scores: &ArrayRef1<F>) -> Array1<F> {
    let largest = largest(scores);
    if largest == F::neg_infinity() {
        return Array1::zeros(scores.len());
    }
    // a_j = exp(e_j − max) / Σ_l exp(e_l − max): no exponent is above 0, one is 0.
    naive_softmax(&scores.mapv(|e| e - largest))
}

/// The largest score, −∞ if there is none, NaN if one of them is.
pub fn largest<F: NdFloat>(scores: &ArrayRef1<F>) -> F {
    scores.fold(F::neg_infinity(), |largest, &e| {
        if largest.is_nan() || e <= largest {
            largest
        } else {
            e
        }
    })
}
// ANCHOR_END: softmax

/// The logarithm of the softmax's denominator: `log Σ_l exp(e_l)`, without overflow.
///
/// It is at least the largest score and at most `log n` above it, and beside a very large score that
/// much is rounded away; who needs it keeps [`largest`] and the sum apart. No scores, or only −∞, give −∞;
/// a +∞ gives +∞; a NaN gives NaN.
// ANCHOR: log_sum_exp
pub fn log_sum_exp<F: NdFloat>(scores: &ArrayRef1<F>) -> F {
    let largest = largest(scores);
    if !largest.is_finite() {
        return largest;
    }
    // log Σ exp(e_l) = max + log Σ exp(e_l − max)
    largest + scores.mapv(|e| (e - largest).exp()).sum().ln()
}
// ANCHOR_END: log_sum_exp

/// The softmax of `e / τ`: a temperature `τ` below 1 sharpens the weights, one above 1
/// evens them out.
///
/// `scores` and the result are `n` long; the special cases are those of [`softmax`]. Finite scores
/// may lie as far apart as the largest float.
///
/// # Errors
/// If the temperature is not a finite number above 0.
///
/// Source: Hinton, Vinyals, Dean, *Distilling the Knowledge in a Neural Network* (2015), equation 1.
// ANCHOR: softmax_with_temperature
pub fn softmax_with_temperature<F: NdFloat>(
    scores: &ArrayRef1<F>,
    temperature: F,
) -> Result<Array1<F>> {
    ensure!(
        temperature.is_finite() && temperature > F::zero(),
        "the temperature must be a finite number above 0, not {temperature}"
    );
    let largest = largest(scores);
    if !largest.is_finite() {
        return Ok(softmax(scores));
    }
    // Shift before dividing, for e / τ could overflow.
    Ok(softmax(&scores.mapv(|e| (e - largest) / temperature)))
}
// ANCHOR_END: softmax_with_temperature

/// The weights of every query: the softmax of each row, over the keys.
///
/// `scores` and the result are `m × n`; each row is a [`softmax`] of its own.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), equation 1.
// ANCHOR: attention_weights
pub fn attention_weights<F: NdFloat>(scores: &ArrayRef2<F>) -> Array2<F> {
    let mut weights = scores.to_owned();
    for mut row in weights.rows_mut() {
        let weights_of_row = softmax(&row);
        row.assign(&weights_of_row);
    }
    weights
}
// ANCHOR_END: attention_weights

/// The weighted sums `A V`: row `i` is `Σ_j A[i, j] v_j`.
///
/// `weights` are `m × n`, `values` are `n × d_v`, the result is `m × d_v`. A value of weight 0 still
/// counts if it is infinite or NaN: 0 · ∞ is NaN.
///
/// # Errors
/// If there is not one weight for each value.
// ANCHOR: weighted_sum
pub fn weighted_sum<F: NdFloat>(
    weights: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Array2<F>> {
    ensure!(
        weights.ncols() == values.nrows(),
        "each query has {} weights but there are {} values",
        weights.ncols(),
        values.nrows()
    );
    // A V:  (m × n) · (n × d_v)  →  m × d_v
    Ok(weights.dot(values))
}
// ANCHOR_END: weighted_sum

/// What attention returns: the answer to every query, and the weights that made it.
// ANCHOR: attention_type
#[derive(Clone, Debug, PartialEq)]
pub struct Attention<F> {
    /// The weighted sums `A V`, `m × d_v`.
    pub output: Array2<F>,
    /// The attention weights `A`, `m × n`.
    pub weights: Array2<F>,
}
// ANCHOR_END: attention_type

/// From scores to answers: weights by softmax, then the weighted sums of the values.
///
/// `scores` are `m × n`, `values` are `n × d_v`. Any of the scores of chapter 1 will do.
///
/// # Errors
/// If there is not one score for each value.
// ANCHOR: attend
pub fn attend<F: NdFloat>(
    scores: &ArrayRef2<F>,
    values: &ArrayRef2<F>,
) -> Result<Attention<F>> {
    let weights = attention_weights(scores);
    let output = weighted_sum(&weights, values)?;
    Ok(Attention { output, weights })
}
// ANCHOR_END: attend

/// The words of the translation, a column of [`word_values`] for each.
// ANCHOR: word_values
pub const TRANSLATION: [&str; 6] =
    ["today", "the", "weather", "is", "very", "nice"];

/// What each word of `ch01_alignment::SENTENCE` hands over (4 × 6): how strongly it speaks for each word of
/// [`TRANSLATION`]. Queries and keys are `ch01_alignment::first_example`.
pub fn word_values() -> Array2<f64> {
    array![
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.5, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.5, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.5, 0.0, 1.0],
    ]
}
// ANCHOR_END: word_values

/// The values that the numbers of the first example had in the book they are from, `v1` … `v4` (4 × 4);
/// queries and keys are `ch01_alignment::first_example`.
///
/// Source: Vasilev, *Python Deep Learning*, 3rd edition (2023), chapter 7.
// ANCHOR: first_example_values
pub fn first_example_values() -> Array2<f64> {
    array![
        [4.0, 5.0, 6.0, 7.0],
        [1.0, 2.0, 3.0, 4.0],
        [5.0, 6.0, 7.0, 8.0],
        [6.0, 7.0, 8.0, 9.0],
    ]
}
// ANCHOR_END: first_example_values

/// The values of the book's second example (4 × 5), whose columns have nothing to do with each
/// other; queries and keys are `ch01_alignment::second_example`.
// ANCHOR: second_example_values
pub fn second_example_values() -> Array2<f64> {
    array![
        [1.0, -2.0, 0.0, 0.5, 3.0],
        [0.5, 3.0, -1.0, 2.0, 0.0],
        [-4.0, 0.25, 2.0, -0.5, 1.0],
        [2.5, 1.0, 0.5, -3.0, -1.5],
    ]
}
// ANCHOR_END: second_example_values
