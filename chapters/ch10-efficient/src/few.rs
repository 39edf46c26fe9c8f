//! A few queries: not enough to lie side by side, so the numbers of each lie side by side instead.

// ANCHOR: imports
use crate::Sizes;
use crate::fast::{KEYS, Seen, exp2};
use ch03_scaled::scale;
use ndarray::ArrayView1;
use pulp::{Simd, bytemuck};
use std::f32::consts::LOG2_E;
// ANCHOR_END: imports

/// Some queries and what they remember: the state of `Online`, once for each. Neighbouring columns
/// share a vector; the last one of a row is filled up with zeros.
// ANCHOR: few
pub(crate) struct Few<S: Simd> {
    /// `scale · Q`, row after row.
    queries: Vec<S::f32s>,
    /// `KEYS` scores for each query, and then their exponentials.
    scores: Vec<S::f32s>,
    /// The weighted sums, row after row.
    mixed: Vec<S::f32s>,
    largest: Vec<f32>,
    sum: Vec<f32>,
    /// What is older is to be multiplied by this.
    factor: Vec<f32>,
    d_k: usize,
    d_v: usize,
}

impl<S: Simd> Few<S> {
    #[inline(always)]
    pub(crate) fn new<'a>(
        simd: S,
        queries: impl Iterator<Item = ArrayView1<'a, f32>>,
        &Sizes { d_k, d_v, .. }: &Sizes,
    ) -> Self {
        let (scale, width) =
            (scale(d_k).unwrap_or(1.0), d_k.div_ceil(S::F32_LANES));
        let mut rows = vec![];
        for query in queries {
            let start = rows.len();
            rows.resize(start + width * S::F32_LANES, 0.0);
            for (place, &q) in rows[start..].iter_mut().zip(query) {
                *place = scale * q;
            }
        }
        let (queries, _) = S::as_simd_f32s(&rows);
        let m = queries.len() / width;
        let zero = simd.splat_f32s(0.0);
        Self {
            queries: queries.to_vec(),
            scores: vec![zero; m * (KEYS / S::F32_LANES)],
            mixed: vec![zero; m * d_v.div_ceil(S::F32_LANES)],
            largest: vec![f32::NEG_INFINITY; m],
            sum: vec![0.0; m],
            factor: vec![0.0; m],
            d_k,
            d_v,
        }
    }

    /// `KEYS` scores for each query.
    #[inline(always)]
    pub(crate) fn scores(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.scores)
    }
}
// ANCHOR_END: few

// ANCHOR: products
impl<S: Simd> Few<S> {
    /// `e_rj = Σ_c q_rc k_jc` for `R` queries and `J` keys. The lanes add up different columns, and
    /// are added in the end.
    #[inline(always)]
    fn multiply_scores<const R: usize, const J: usize>(
        &mut self,
        simd: S,
        keys: &[f32],
        (row, key): (usize, usize),
    ) {
        let d_k = self.d_k;
        let width = self.queries.len() / self.sum.len();
        let queries: [&[S::f32s]; R] =
            std::array::from_fn(|r| &self.queries[(row + r) * width..][..width]);
        let keys: [_; J] = std::array::from_fn(|j| {
            S::as_simd_f32s(&keys[(key + j) * d_k..][..d_k])
        });
        let mut sums = [[simd.splat_f32s(0.0); J]; R];
        let mut add = |c: usize, k: [S::f32s; J]| {
            for r in 0..R {
                for j in 0..J {
                    sums[r][j] =
                        simd.mul_add_e_f32s(queries[r][c], k[j], sums[r][j]);
                }
            }
        };
        for c in 0..d_k / S::F32_LANES {
            add(c, std::array::from_fn(|j| keys[j].0[c]));
        }
        if !d_k.is_multiple_of(S::F32_LANES) {
            let rest = |j: usize| simd.partial_load_f32s(keys[j].1);
            add(width - 1, std::array::from_fn(rest));
        }
        let scores = self.scores();
        for r in 0..R {
            for j in 0..J {
                scores[(row + r) * KEYS + key + j] =
                    simd.reduce_sum_f32s(sums[r][j]);
            }
        }
    }

    /// `o_rc ← factor_r o_rc + Σ_j p_rj v_jc` for `R` queries and the columns in `C` vectors.
    #[inline(always)]
    fn multiply_values<const R: usize, const C: usize>(
        &mut self,
        simd: S,
        values: &[f32],
        (row, vector): (usize, usize),
    ) {
        let (d_v, width) = (self.d_v, self.mixed.len() / self.sum.len());
        let mut sums: [[S::f32s; C]; R] = std::array::from_fn(|r| {
            let factor = simd.splat_f32s(self.factor[row + r]);
            let old = &self.mixed[(row + r) * width + vector..][..C];
            std::array::from_fn(|c| simd.mul_f32s(factor, old[c]))
        });
        let weights: &[f32] = bytemuck::cast_slice(&self.scores);
        let weights: [&[f32]; R] =
            std::array::from_fn(|r| &weights[(row + r) * KEYS..][..KEYS]);
        let (first, last) = (vector * S::F32_LANES, (vector + C) * S::F32_LANES);
        for (j, value) in values.chunks_exact(d_v).take(KEYS).enumerate() {
            let (whole, rest) = S::as_simd_f32s(&value[first..last.min(d_v)]);
            let v: [S::f32s; C] = std::array::from_fn(|c| match whole.get(c) {
                Some(&v) => v,
                None => simd.partial_load_f32s(rest),
            });
            for r in 0..R {
                let p = simd.splat_f32s(weights[r][j]);
                for c in 0..C {
                    sums[r][c] = simd.mul_add_e_f32s(p, v[c], sums[r][c]);
                }
            }
        }
        for r in 0..R {
            let new = &mut self.mixed[(row + r) * width + vector..][..C];
            new.copy_from_slice(&sums[r]);
        }
    }
}
// ANCHOR_END: products

// ANCHOR: see
impl<S: Simd> Few<S> {
    /// The scores of some keys, `n × d_k`; −∞ where there are no more.
    #[inline(always)]
    pub(crate) fn score(&mut self, simd: S, keys: &[f32]) {
        self.scores().fill(f32::NEG_INFINITY);
        let (m, n, mut row) = (self.sum.len(), keys.len() / self.d_k, 0);
        while row + 4 <= m {
            (0..n / 2).for_each(|j| {
                self.multiply_scores::<4, 2>(simd, keys, (row, 2 * j))
            });
            (n / 2 * 2..n)
                .for_each(|j| self.multiply_scores::<4, 1>(simd, keys, (row, j)));
            row += 4;
        }
        for row in row..m {
            (0..n / 8).for_each(|j| {
                self.multiply_scores::<1, 8>(simd, keys, (row, 8 * j))
            });
            (n / 8 * 8..n)
                .for_each(|j| self.multiply_scores::<1, 1>(simd, keys, (row, j)));
        }
    }

    /// The online softmax of those scores, and the values `n × d_v` mixed into the rest.
    #[inline(always)]
    pub(crate) fn mix(&mut self, simd: S, values: &[f32]) {
        let m = self.sum.len();
        for (row, scores) in self
            .scores
            .chunks_exact_mut(KEYS / S::F32_LANES)
            .enumerate()
        {
            let old = self.largest[row];
            let high = scores
                .iter()
                .fold(simd.splat_f32s(old), |high, &e| simd.max_f32s(high, e));
            let largest = simd.reduce_max_f32s(high);
            // −∞ − −∞ is not a number; before the first key anything may be subtracted.
            let shift = if f32::NEG_INFINITY < largest {
                largest
            } else {
                0.0
            };
            let (log2e, shifts) = (simd.splat_f32s(LOG2_E), simd.splat_f32s(shift));
            let mut sum = simd.splat_f32s(0.0);
            for e in scores {
                *e = exp2(simd, simd.mul_f32s(log2e, simd.sub_f32s(*e, shifts)));
                sum = simd.add_f32s(sum, *e);
            }
            self.factor[row] = (old - shift).exp();
            self.sum[row] =
                self.sum[row] * self.factor[row] + simd.reduce_sum_f32s(sum);
            self.largest[row] = largest;
        }
        let (width, mut row) = (self.mixed.len() / m, 0);
        while row + 4 <= m {
            (0..width / 2).for_each(|c| {
                self.multiply_values::<4, 2>(simd, values, (row, 2 * c))
            });
            (width / 2 * 2..width)
                .for_each(|c| self.multiply_values::<4, 1>(simd, values, (row, c)));
            row += 4;
        }
        for row in row..m {
            (0..width / 4).for_each(|c| {
                self.multiply_values::<1, 4>(simd, values, (row, 4 * c))
            });
            (width / 4 * 4..width)
                .for_each(|c| self.multiply_values::<1, 1>(simd, values, (row, c)));
        }
    }

    /// What these queries have seen; zeros and −∞ if it was no key.
    #[inline(always)]
    pub(crate) fn answer(&self, seen: Seen) {
        seen.largest.copy_from_slice(&self.largest);
        seen.sum.copy_from_slice(&self.sum);
        let width = self.mixed.len() / self.sum.len() * S::F32_LANES;
        let mixed: &[f32] = bytemuck::cast_slice(&self.mixed);
        for (row, &sum) in
            self.sum.iter().enumerate().filter(|(_, sum)| **sum != 0.0)
        {
            let output = &mut seen.output[row * self.d_v..][..self.d_v];
            for (r, mixed) in output.iter_mut().zip(&mixed[row * width..]) {
                *r = mixed / sum;
            }
        }
    }
}
// ANCHOR_END: see
