//! Tiled attention in `f32`, as fast as the machine multiplies.
//!
//! The queries of a block lie side by side in the lanes of the processor's vectors, so that each step
//! of the online softmax is one instruction for all of them.

// ANCHOR: imports
use crate::{Sizes, Visible, tiled_attention};
use anyhow::Result;
use ch03_scaled::scale;
use ndarray::{Array4, ArrayRef4, ArrayView2, ArrayView4, Axis};
use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;
use std::borrow::Cow;
use std::f64::consts::LN_2;
use std::ops::Range;
// ANCHOR_END: imports

/// `2^x` in every lane, to within 3 units in the last place; 0 below −126.5.
///
/// A NaN stays NaN. Above 127 the result is not defined: the exponents of a softmax are never above
/// 0.
// ANCHOR: exp2
#[inline(always)]
pub fn exp2<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Below −127 it is 2^−127, and that is rounded to 0 at the end. A NaN is not below.
    let lowest = simd.splat_f32s(-127.0);
    let x = simd.select_f32s(simd.less_than_f32s(x, lowest), lowest, x);
    // x = whole + rest with |rest| ≤ ½: so large a number has no room for a fraction.
    let large = simd.splat_f32s((3 << 22) as f32 + 127.0);
    let shifted = simd.add_f32s(x, large);
    let rest = simd.sub_f32s(x, simd.sub_f32s(shifted, large));
    // 2^rest = Σ (rest · log 2)^i / i!
    let mut power = simd.splat_f32s(SERIES[6]);
    for i in (0..6).rev() {
        power = simd.mul_add_e_f32s(power, rest, simd.splat_f32s(SERIES[i]));
    }
    // 2^whole: the last bits of `shifted` are whole + 127, and belong where a float
    // has its exponent.
    let bits = simd.transmute_u32s_f32s(shifted);
    let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    simd.mul_f32s(power, simd.transmute_f32s_u32s(bits))
}

/// `(log 2)^i / i!`
const SERIES: [f32; 7] = {
    let (mut series, mut term, mut i) = ([1.0; 7], 1.0, 1);
    while i < 7 {
        term *= LN_2 / i as f64;
        series[i] = term as f32;
        i += 1;
    }
    series
};
// ANCHOR_END: exp2

// ANCHOR: products
/// So many keys, or columns of values, are multiplied at once.
const ROWS: usize = 4;

/// `e_rj = Σ_c k_rc q_cj` for some keys `r` and the queries in all lanes `j`.
#[inline(always)]
fn multiply_scores<S: Simd, const V: usize, const R: usize>(
    simd: S,
    keys: &[f32],
    queries: &[[S::f32s; V]],
    scores: &mut [[S::f32s; V]],
) {
    let d_k = queries.len();
    let keys: [&[f32]; R] = std::array::from_fn(|r| &keys[r * d_k..(r + 1) * d_k]);
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for (c, q) in queries.iter().enumerate() {
        for r in 0..R {
            add_product(simd, keys[r][c], q, &mut sums[r]);
        }
    }
    scores[..R].copy_from_slice(&sums);
}

/// `o_cj ← factor_j o_cj + Σ_r v_rc p_rj` for columns `c` of the values from
/// `first` on.
#[inline(always)]
fn multiply_values<S: Simd, const V: usize, const R: usize>(
    simd: S,
    (values, d_v, first): (&[f32], usize, usize),
    weights: &[[S::f32s; V]],
    factor: &[S::f32s; V],
    output: &mut [[S::f32s; V]],
) {
    let columns = first..first + R;
    let mut sums: [[S::f32s; V]; R] = std::array::from_fn(|c| {
        let old = &output[first + c];
        std::array::from_fn(|l| simd.mul_f32s(old[l], factor[l]))
    });
    for (value, p) in values.chunks_exact(d_v).zip(weights) {
        let value = &value[columns.clone()];
        for c in 0..R {
            add_product(simd, value[c], p, &mut sums[c]);
        }
    }
    output[columns].copy_from_slice(&sums);
}

/// `sums_j ← sums_j + x y_j`
#[inline(always)]
fn add_product<S: Simd, const V: usize>(
    simd: S,
    x: f32,
    y: &[S::f32s; V],
    sums: &mut [S::f32s; V],
) {
    let x = simd.splat_f32s(x);
    for l in 0..V {
        sums[l] = simd.mul_add_e_f32s(x, y[l], sums[l]);
    }
}
// ANCHOR_END: products

/// A block of queries, as many as there are lanes in `V` vectors, and what they remember of the
/// keys they have seen: the state of `Online`, once for every lane.
// ANCHOR: block
struct Block<S: Simd, const V: usize> {
    /// `scale · Qᵀ`, a row for each of the `d_k` columns.
    queries: Vec<[S::f32s; V]>,
    /// `Eᵀ`, and then its exponentials, a row for each key at hand.
    scores: Vec<[S::f32s; V]>,
    /// The weighted sums, a row for each of the `d_v` columns.
    mixed: Vec<[S::f32s; V]>,
    /// The largest score so far.
    largest: [S::f32s; V],
    sum: [S::f32s; V],
}

impl<S: Simd, const V: usize> Block<S, V> {
    #[inline(always)]
    fn new(simd: S, sizes: &Sizes) -> Self {
        let zero = [simd.splat_f32s(0.0); V];
        Self {
            queries: vec![zero; sizes.d_k],
            scores: vec![zero; KEYS.min(sizes.n)],
            mixed: vec![zero; sizes.d_v],
            largest: [simd.splat_f32s(f32::NEG_INFINITY); V],
            sum: zero,
        }
    }

    /// Other queries, which have seen nothing.
    #[inline(always)]
    fn begin(&mut self, simd: S, queries: &[f32], scale: f32) {
        let d_k = self.queries.len();
        let lanes = V * S::F32_LANES;
        let turned: &mut [f32] =
            bytemuck::cast_slice_mut(self.queries.as_flattened_mut());
        for (l, query) in queries.chunks_exact(d_k).enumerate() {
            for (c, &q) in query.iter().enumerate() {
                turned[c * lanes + l] = scale * q;
            }
        }
        self.mixed.fill([simd.splat_f32s(0.0); V]);
        self.largest = [simd.splat_f32s(f32::NEG_INFINITY); V];
        self.sum = [simd.splat_f32s(0.0); V];
    }
}
// ANCHOR_END: block

// ANCHOR: see
impl<S: Simd, const V: usize> Block<S, V> {
    /// The scores of some keys, `n × d_k`.
    #[inline(always)]
    fn score(&mut self, simd: S, keys: &[f32]) {
        let d_k = self.queries.len();
        let (queries, scores) = (&self.queries, &mut self.scores);
        let (n, mut j) = (keys.len() / d_k, 0);
        while j + ROWS <= n {
            let keys = &keys[j * d_k..];
            multiply_scores::<S, V, ROWS>(simd, keys, queries, &mut scores[j..]);
            j += ROWS;
        }
        for j in j..n {
            let keys = &keys[j * d_k..];
            multiply_scores::<S, V, 1>(simd, keys, queries, &mut scores[j..]);
        }
    }

    /// The online softmax of `n` scores: they become exponentials, and the result
    /// is what everything older is to be multiplied by.
    #[inline(always)]
    fn exponentiate(&mut self, simd: S, n: usize) -> [S::f32s; V] {
        let mut largest = self.largest;
        for e in &self.scores[..n] {
            for l in 0..V {
                largest[l] = simd.max_f32s(largest[l], e[l]);
            }
        }
        let lowest = simd.splat_f32s(f32::NEG_INFINITY);
        let log2e = simd.splat_f32s(std::f32::consts::LOG2_E);
        let (mut factor, mut shift) = (largest, largest);
        for l in 0..V {
            // −∞ − −∞ is not a number; before the first key anything may be subtracted.
            let is_seen = simd.less_than_f32s(lowest, largest[l]);
            shift[l] = simd.select_f32s(is_seen, largest[l], simd.splat_f32s(0.0));
            let lower = simd.sub_f32s(self.largest[l], shift[l]);
            factor[l] = exp2(simd, simd.mul_f32s(log2e, lower));
        }
        self.largest = largest;
        let mut sum = [simd.splat_f32s(0.0); V];
        for e in &mut self.scores[..n] {
            for l in 0..V {
                // exp(e − max) = 2^(log₂e (e − max))
                let lower = simd.sub_f32s(e[l], shift[l]);
                e[l] = exp2(simd, simd.mul_f32s(log2e, lower));
                sum[l] = simd.add_f32s(sum[l], e[l]);
            }
        }
        for l in 0..V {
            self.sum[l] = simd.mul_add_e_f32s(self.sum[l], factor[l], sum[l]);
        }
        factor
    }

    /// The values of those keys, `n × d_v`, mixed into the rest.
    #[inline(always)]
    fn mix(&mut self, simd: S, values: &[f32], factor: &[S::f32s; V]) {
        let d_v = self.mixed.len();
        let (weights, mixed) = (&self.scores, &mut self.mixed);
        let mut c = 0;
        while c + ROWS <= d_v {
            let values = (values, d_v, c);
            multiply_values::<S, V, ROWS>(simd, values, weights, factor, mixed);
            c += ROWS;
        }
        for c in c..d_v {
            let values = (values, d_v, c);
            multiply_values::<S, V, 1>(simd, values, weights, factor, mixed);
        }
    }

    /// The answers, `m × d_v`; zeros for a query that has seen no key.
    #[inline(always)]
    fn answer(&self, output: &mut [f32]) {
        let (d_v, lanes) = (self.mixed.len(), V * S::F32_LANES);
        let mixed: &[f32] = bytemuck::cast_slice(self.mixed.as_flattened());
        let sums: &[f32] = bytemuck::cast_slice(&self.sum);
        for (l, (row, &sum)) in output.chunks_exact_mut(d_v).zip(sums).enumerate() {
            for (c, r) in row.iter_mut().enumerate() {
                *r = if sum == 0.0 {
                    0.0
                } else {
                    mixed[c * lanes + l] / sum
                };
            }
        }
    }
}
// ANCHOR_END: see

/// Some neighbouring queries of one head, with all of its keys and values.
// ANCHOR: job
struct Job<'a> {
    sizes: Sizes,
    visible: &'a Visible<'a>,
    /// What each mask beside the rule allows this head, `m × n`.
    allowed: Vec<ArrayView2<'a, bool>>,
    /// The first of the queries.
    first: usize,
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    output: &'a mut [f32],
}

/// So many keys are scored before their values are mixed.
const KEYS: usize = 128;

impl Job<'_> {
    /// Block after block of queries, and for each all the keys that it may see.
    #[inline(always)]
    fn run<S: Simd, const V: usize>(mut self, simd: S) {
        let Sizes { m, n, d_k, d_v, .. } = self.sizes;
        // Sizes has seen to it that the width is not 0.
        let scale = scale::<f32>(d_k).unwrap_or(1.0);
        let mut block = Block::<S, V>::new(simd, &self.sizes);
        let output = std::mem::take(&mut self.output);
        let lanes = V * S::F32_LANES;
        for (number, output) in output.chunks_mut(lanes * d_v).enumerate() {
            let first = number * lanes;
            let count = output.len() / d_v;
            let rows = self.first + first..self.first + first + count;
            let queries = &self.queries[first * d_k..(first + count) * d_k];
            block.begin(simd, queries, scale);
            let reach = self.visible.span_of(rows.clone(), m, n);
            for start in reach.clone().step_by(KEYS) {
                let columns = start..(start + KEYS).min(reach.end);
                let keys = &self.keys[start * d_k..columns.end * d_k];
                let values = &self.values[start * d_v..columns.end * d_v];
                block.score(simd, keys);
                let scores = block.scores[..columns.len()].as_flattened_mut();
                let scores = bytemuck::cast_slice_mut(scores);
                self.hide(scores, rows.clone(), columns.clone());
                let factor = block.exponentiate(simd, columns.len());
                block.mix(simd, values, &factor);
            }
            block.answer(output);
        }
    }

    /// −∞ for what may not be seen.
    fn hide(&self, scores: &mut [f32], rows: Range<usize>, columns: Range<usize>) {
        let Sizes { m, n, .. } = self.sizes;
        let first = self.visible.span(rows.start, m, n);
        let last = self.visible.span(rows.end - 1, m, n);
        if columns.start < last.start || first.end < columns.end {
            let spans = rows.clone().map(|i| self.visible.span(i, m, n));
            let spans: Vec<_> = spans.collect();
            forbid(scores, &columns, |j| {
                spans.iter().map(move |s| s.contains(&j))
            });
        }
        for allowed in &self.allowed {
            if allowed.strides()[0] == 0 {
                // A mask about keys alone, such as padding: a row of scores at a time.
                let lanes = scores.len() / columns.len();
                for (scores, j) in
                    scores.chunks_exact_mut(lanes).zip(columns.clone())
                {
                    if !allowed[[rows.start, j]] {
                        scores.fill(f32::NEG_INFINITY);
                    }
                }
            } else {
                let column = |j| rows.clone().map(move |i| allowed[[i, j]]);
                forbid(scores, &columns, column);
            }
        }
    }
}

/// −∞ wherever `allowed` says no, which says it for each key and all queries at hand.
fn forbid<I: Iterator<Item = bool>>(
    scores: &mut [f32],
    columns: &Range<usize>,
    allowed: impl Fn(usize) -> I,
) {
    let lanes = scores.len() / columns.len();
    for (scores, j) in scores.chunks_exact_mut(lanes).zip(columns.clone()) {
        for (e, allowed) in scores.iter_mut().zip(allowed(j)) {
            if !allowed {
                *e = f32::NEG_INFINITY;
            }
        }
    }
}

impl WithSimd for Job<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Sixteen sums have to fit into the registers, beside what is multiplied; and for a
        // few queries a few lanes will do.
        let needed = self.sizes.m.div_ceil(S::F32_LANES);
        match needed {
            1 => self.run::<S, 1>(simd),
            3.. if S::REGISTER_COUNT >= 32 => self.run::<S, 4>(simd),
            _ => self.run::<S, 2>(simd),
        }
    }
}
// ANCHOR_END: job

/// So many queries of a head are one job.
// ANCHOR: settings
const QUERIES: usize = 256;
/// Fewer products than these are made by one thread.
const WORTH_SHARING: usize = 1 << 22;
/// Values from here on are left to [`tiled_attention`], in tiles of so many.
const LARGEST: f32 = 1e30;
/// See [`LARGEST`].
const TILE: usize = 128;

/// The numbers of an array in the order of its axes, copied only if they lie
/// otherwise.
fn flat(x: &ArrayRef4<f32>) -> Cow<'_, [f32]> {
    match x.as_slice() {
        Some(numbers) => Cow::Borrowed(numbers),
        None => Cow::Owned(x.iter().copied().collect()),
    }
}
// ANCHOR_END: settings

/// Attention in `f32`, tiled, its heads and queries in parallel: the result of
/// [`tiled_attention`], up to rounding, sooner.
///
/// The shapes are those of [`tiled_attention`]. It needs no memory beside its inputs and output but
/// some hundred kilobytes for each thread, if the inputs lie in memory in the order of their axes.
///
/// # Errors
/// As [`Sizes::new`].
///
/// Source: Dao, *FlashAttention-2* (2023), section 3, for the order of the loops.
// ANCHOR: fast_attention
pub fn fast_attention(
    queries: &ArrayRef4<f32>,
    keys: &ArrayRef4<f32>,
    values: &ArrayRef4<f32>,
    visible: &Visible,
) -> Result<Array4<f32>> {
    fast_attention_on(Arch::new(), queries, keys, values, visible)
}

/// The same with the instructions of a given processor; `Arch::Scalar` is every
/// processor.
///
/// # Errors
/// As [`fast_attention`].
pub fn fast_attention_on<'a>(
    arch: Arch,
    queries: &ArrayRef4<f32>,
    keys: &ArrayRef4<f32>,
    values: &ArrayRef4<f32>,
    visible: &'a Visible<'a>,
) -> Result<Array4<f32>> {
    let sizes = Sizes::new(queries, keys, values, visible)?;
    let Sizes {
        batch,
        heads,
        group,
        m,
        n,
        d_k,
        d_v,
    } = sizes;
    // 0 · NaN is NaN, and sums of the largest numbers overflow: the slow way knows how.
    if !values.fold(true, |small, v| small & (v.abs() < LARGEST)) {
        return tiled_attention(queries, keys, values, visible, TILE);
    }
    let mut output = Array4::zeros((batch, heads, m, d_v));
    if output.is_empty() || n == 0 {
        return Ok(output);
    }
    let shape = (batch, heads, m, n);
    let masks = visible.masks().iter().map(|mask| mask.fit(shape));
    let masks: Vec<_> = masks.collect::<Result<_>>()?;
    let (queries, keys, values) = (flat(queries), flat(keys), flat(values));
    let mut jobs = Vec::new();
    let answers = output.as_slice_mut().expect("a new array lies in order");
    for (head, answers) in answers.chunks_mut(m * d_v).enumerate() {
        let (queries, kv) = (&queries[head * m * d_k..], head / group * n);
        let of_head = |mask: ArrayView4<'a, bool>| {
            mask.index_axis_move(Axis(0), head / heads)
                .index_axis_move(Axis(0), head % heads)
        };
        for (number, output) in answers.chunks_mut(QUERIES * d_v).enumerate() {
            let first = number * QUERIES;
            jobs.push(Job {
                sizes,
                visible,
                allowed: masks.iter().copied().map(of_head).collect(),
                first,
                queries: &queries[first * d_k..],
                keys: &keys[kv * d_k..(kv + n) * d_k],
                values: &values[kv * d_v..(kv + n) * d_v],
                output,
            });
        }
    }
    // A thread that has to be woken costs more than a few small products.
    let factors = [batch, heads, m, n, d_k.saturating_add(d_v)];
    if factors.into_iter().fold(1, usize::saturating_mul) < WORTH_SHARING {
        jobs.into_iter().for_each(|job| arch.dispatch(job));
    } else {
        jobs.into_par_iter().for_each(|job| arch.dispatch(job));
    }
    Ok(output)
}
// ANCHOR_END: fast_attention
