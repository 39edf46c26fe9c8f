//! Online softmax: attention over keys that come a block at a time.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch02_softmax::largest;
use ndarray::{
    Array1, Array2, Array3, Array4, ArrayRef1, ArrayRef2, NdFloat, Zip, array,
    aview1, s,
};
// ANCHOR_END: imports

/// What one query remembers of the keys it has seen: the largest score, and relative to it the sum
/// of the exponentials and the sum of the values they weigh.
///
/// Source: Milakov, Gimelshein, *Online Normalizer Calculation for Softmax* (2018), algorithm 3.
// ANCHOR: online
#[derive(Clone, Debug, PartialEq)]
pub struct Online<F> {
    largest: F,
    sum: F,
    mixed: Array1<F>,
}

impl<F: NdFloat> Online<F> {
    /// Before the first key. Values are `d_v` wide.
    pub fn new(d_v: usize) -> Self {
        Self {
            largest: F::neg_infinity(),
            sum: F::zero(),
            mixed: Array1::zeros(d_v),
        }
    }

    /// The next block of scores and values, `n` and `n × d_v`. A score of −∞ is a
    /// key that may not be seen: its value does not matter.
    ///
    /// # Errors
    /// If there is not one score for each value, or the values have another width.
    pub fn see(
        &mut self,
        scores: &ArrayRef1<F>,
        values: &ArrayRef2<F>,
    ) -> Result<()> {
        ensure!(
            scores.len() == values.nrows(),
            "there are {} scores but {} values",
            scores.len(),
            values.nrows()
        );
        ensure!(
            values.ncols() == self.mixed.len(),
            "values are {} wide but the ones before were {}",
            values.ncols(),
            self.mixed.len()
        );
        // max' = max(max, e_1, …, e_n); a NaN stays.
        let largest = largest(&aview1(&[self.largest, largest(scores)]));
        if largest == F::neg_infinity() {
            return Ok(());
        }
        // What was summed relative to max, relative to max': times exp(max − max') ≤ 1.
        let factor = (self.largest - largest).exp();
        self.sum *= factor;
        self.mixed *= factor;
        for (&e, value) in scores.iter().zip(values.rows()) {
            if e != F::neg_infinity() {
                let exponential = (e - largest).exp();
                self.sum += exponential;
                self.mixed.scaled_add(exponential, &value);
            }
        }
        self.largest = largest;
        Ok(())
    }

    /// The answer, and the log-sum-exp of all scores. Without a key that may be
    /// seen they are zeros and −∞.
    pub fn answer(&self) -> (Array1<F>, F) {
        if self.largest == F::neg_infinity() {
            return (self.mixed.clone(), self.largest);
        }
        // Σ exp(e_j − max) v_j / Σ exp(e_j − max), and max + log Σ exp(e_j − max)
        (&self.mixed / self.sum, self.largest + self.sum.ln())
    }
}
// ANCHOR_END: online

/// The answers of queries that saw only a part of the keys, and how much those keys weighed.
// ANCHOR: partial
#[derive(Clone, Debug, PartialEq)]
pub struct Partial<F> {
    /// The answers as if there were no other keys, `(batch, heads, m, d_v)`; zeros
    /// where no key might be seen.
    pub output: Array4<F>,
    /// The largest score, `(batch, heads, m)`; −∞ where no key might be seen.
    pub largest: Array3<F>,
    /// `Σ exp(e_j − largest)`, `(batch, heads, m)`; 0 where no key might be seen.
    pub sum: Array3<F>,
}

impl<F: NdFloat> Partial<F> {
    /// The answers to queries that have seen nothing yet; merging them with others
    /// changes nothing.
    pub fn empty((batch, heads, m, d_v): (usize, usize, usize, usize)) -> Self {
        Self {
            output: Array4::zeros((batch, heads, m, d_v)),
            largest: Array3::from_elem((batch, heads, m), F::neg_infinity()),
            sum: Array3::zeros((batch, heads, m)),
        }
    }

    /// The log-sum-exp of the scores, `(batch, heads, m)`; −∞ where no key might be
    /// seen. To be looked at: beside a large score the logarithm of the sum is rounded
    /// away, so [`merge`] keeps the two apart.
    pub fn log_sum_exp(&self) -> Array3<F> {
        Zip::from(&self.largest)
            .and(&self.sum)
            .map_collect(|&largest, &sum| largest + sum.ln())
    }
}
// ANCHOR_END: partial

/// The answers that the same queries would have got from both parts of the keys at once.
///
/// # Errors
/// If the two are not for equally many queries, heads and sequences, or not equally wide.
///
/// Source: Dao et al., *FlashAttention* (2022), section 3.1, for blocks; Juravsky et al.,
/// *Hydragen* (2024), section 3.1, in this form.
// ANCHOR: merge
pub fn merge<F: NdFloat>(
    left: &Partial<F>,
    right: &Partial<F>,
) -> Result<Partial<F>> {
    for part in [left, right] {
        let (batch, heads, m, _) = part.output.dim();
        let queries = (batch, heads, m);
        ensure!(
            part.largest.dim() == queries && part.sum.dim() == queries,
            "outputs are for {batch} × {heads} × {m} queries but largest scores for {:?} and sums for {:?}",
            part.largest.dim(),
            part.sum.dim()
        );
    }
    ensure!(
        left.output.dim() == right.output.dim(),
        "outputs of {:?} and {:?} cannot be merged",
        left.output.dim(),
        right.output.dim()
    );
    let mut merged = left.clone();
    for (place, max) in merged.largest.indexed_iter_mut() {
        let both = [left.largest[place], right.largest[place]];
        *max = largest(&aview1(&both));
        // Each sum relative to max': times exp(max − max') ≤ 1. A part that has seen
        // nothing has none.
        let sums = [left, right].map(|part| match part.largest[place] {
            own if own == F::neg_infinity() => None,
            own => Some(part.sum[place] * (own - *max).exp()),
        });
        let [ours, theirs] = sums.map(|sum| sum.unwrap_or(F::zero()));
        merged.sum[place] = ours + theirs;
        // Each part's share is its sum by the sum of both. Nothing comes from a part
        // that has seen nothing, not even 0 · NaN.
        let share = sums.map(|sum| sum.map(|sum| sum / (ours + theirs)));
        let weigh = |part: usize, r: F| share[part].map_or(F::zero(), |a| a * r);
        let (b, h, i) = place;
        let mut output = merged.output.slice_mut(s![b, h, i, ..]);
        output.zip_mut_with(&right.output.slice(s![b, h, i, ..]), |r, &s| {
            *r = weigh(0, *r) + weigh(1, s);
        });
    }
    Ok(merged)
}
// ANCHOR_END: merge

/// The scores and values of this chapter's example: one query and four keys, of which the
/// third is louder than those before it.
// ANCHOR: rising_example
pub fn rising_example() -> (Array1<f64>, Array2<f64>) {
    (
        array![0.5, -1.0, 3.0, 2.5],
        array![[-2.0, 1.5], [2.0, 0.5], [-1.5, -1.5], [-2.0, -0.75]],
    )
}
// ANCHOR_END: rising_example
