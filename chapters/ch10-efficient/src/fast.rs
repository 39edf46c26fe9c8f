//! Tiled attention in `f32`, as fast as the machine multiplies.
//!
//! The queries of a block lie side by side in the lanes of the processor's vectors, so that each step
//! of the online softmax is one instruction for all of them.

// ANCHOR: imports
use crate::few::Few;
use crate::{Partial, Sizes, Visible, merge, tiled_partial};
use anyhow::Result;
use ch03_scaled::scale;
use ndarray::{
    Array4, ArrayRef4, ArrayView1, ArrayView2, ArrayView3, ArrayView4, Axis, s,
};
use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;
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
    fn begin<'a>(
        &mut self,
        simd: S,
        queries: impl Iterator<Item = ArrayView1<'a, f32>>,
    ) {
        // The width is not 0.
        let scale = scale::<f32>(self.queries.len()).unwrap_or(1.0);
        let lanes = V * S::F32_LANES;
        let turned: &mut [f32] =
            bytemuck::cast_slice_mut(self.queries.as_flattened_mut());
        for (l, query) in queries.enumerate() {
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

    /// What these queries have seen; zeros and −∞ if it was no key.
    #[inline(always)]
    fn answer(&self, seen: Seen) {
        let (d_v, lanes) = (self.mixed.len(), V * S::F32_LANES);
        let mixed: &[f32] = bytemuck::cast_slice(self.mixed.as_flattened());
        let sums: &[f32] = bytemuck::cast_slice(&self.sum);
        let m = seen.sum.len();
        seen.sum.copy_from_slice(&sums[..m]);
        seen.largest
            .copy_from_slice(&bytemuck::cast_slice(&self.largest)[..m]);
        for (l, row) in seen.output.chunks_exact_mut(d_v.max(1)).enumerate() {
            for (c, r) in row.iter_mut().enumerate() {
                *r = if sums[l] == 0.0 {
                    0.0
                } else {
                    mixed[c * lanes + l] / sums[l]
                };
            }
        }
    }
}
// ANCHOR_END: see

/// The places of a [`Partial`] for some neighbouring queries.
// ANCHOR: task
pub(crate) struct Seen<'a> {
    /// `m × d_v`
    pub output: &'a mut [f32],
    pub largest: &'a mut [f32],
    pub sum: &'a mut [f32],
}

impl<'a> Seen<'a> {
    /// The places of the first `rows` queries, and those of the rest.
    fn split(self, rows: usize, d_v: usize) -> (Self, Self) {
        let output = self.output.split_at_mut(rows * d_v);
        let largest = self.largest.split_at_mut(rows);
        let sum = self.sum.split_at_mut(rows);
        let seen = |(output, largest, sum)| Seen::<'a> {
            output,
            largest,
            sum,
        };
        (
            seen((output.0, largest.0, sum.0)),
            seen((output.1, largest.1, sum.1)),
        )
    }
}

/// Some neighbouring queries of the heads that share one head of keys and values, and
/// some of those.
struct Task<'a> {
    sizes: Sizes,
    visible: &'a Visible<'a>,
    /// What each mask beside the rule allows these heads, `group × m × n`.
    allowed: Vec<ArrayView3<'a, bool>>,
    /// `group × m × d_k`
    queries: ArrayView3<'a, f32>,
    keys: ArrayView2<'a, f32>,
    values: ArrayView2<'a, f32>,
    /// The queries, counted through the heads of the group.
    rows: Range<usize>,
    columns: Range<usize>,
}

/// So many keys are scored before their values are mixed.
pub(crate) const KEYS: usize = 128;

impl<'a> Task<'a> {
    /// These queries, one after the other.
    fn queries(
        &self,
        rows: &Range<usize>,
    ) -> impl Iterator<Item = ArrayView1<'a, f32>> {
        let (m, queries) = (self.sizes.m, self.queries);
        rows.clone()
            .map(move |r| queries.slice_move(s![r / m, r % m, ..]))
    }

    /// The first and the last place in their heads that these queries have.
    fn places(&self, rows: &Range<usize>) -> Range<usize> {
        let (m, last) = (self.sizes.m, rows.end - 1);
        match rows.start / m == last / m {
            true => rows.start % m..last % m + 1,
            false => 0..m,
        }
    }

    /// The keys that at least one of these queries may see, a few at a time.
    fn blocks(&self, rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let Sizes { m, n, .. } = self.sizes;
        let reach = self.visible.span_of(self.places(rows), m, n);
        let end = reach.end.min(self.columns.end);
        let start = reach.start.max(self.columns.start);
        (start..end)
            .step_by(KEYS)
            .map(move |start| start..(start + KEYS).min(end))
    }

    /// −∞ for what may not be seen. From one query to the next it is `by.0` scores, from
    /// one key to the next `by.1`.
    fn hide(
        &self,
        scores: &mut [f32],
        rows: &Range<usize>,
        columns: &Range<usize>,
        by: (usize, usize),
    ) {
        let Sizes { m, n, .. } = self.sizes;
        let mut forbid = |l: usize, j: usize| {
            scores[l * by.0 + (j - columns.start) * by.1] = f32::NEG_INFINITY;
        };
        let places = self.places(rows);
        let first = self.visible.span(places.start, m, n);
        let last = self.visible.span(places.end - 1, m, n);
        if columns.start < last.start || first.end < columns.end {
            for (l, r) in rows.clone().enumerate() {
                let span = self.visible.span(r % m, m, n);
                (columns.start..span.start.min(columns.end))
                    .chain(span.end.max(columns.start)..columns.end)
                    .for_each(|j| forbid(l, j));
            }
        }
        for allowed in &self.allowed {
            if allowed.strides()[..2] == [0, 0] {
                // A mask about keys alone, such as padding.
                for j in columns.clone().filter(|&j| !allowed[[0, 0, j]]) {
                    (0..rows.len()).for_each(|l| forbid(l, j));
                }
            } else {
                for (l, r) in rows.clone().enumerate() {
                    let allowed = allowed.slice(s![r / m, r % m, ..]);
                    let hidden = columns.clone().filter(|&j| !allowed[j]);
                    hidden.for_each(|j| forbid(l, j));
                }
            }
        }
    }
}

/// Some rows in one piece: as they lie, or copied into `room` if they lie apart.
fn piece<'a>(
    x: ArrayView2<'a, f32>,
    rows: &Range<usize>,
    room: &'a mut Vec<f32>,
) -> &'a [f32] {
    let rows = x.slice_move(s![rows.clone(), ..]);
    rows.to_slice().unwrap_or_else(|| {
        room.clear();
        room.extend(rows);
        room
    })
}
// ANCHOR_END: task

/// A task, and where its result goes.
// ANCHOR: job
struct Job<'a> {
    task: Task<'a>,
    seen: Seen<'a>,
}

impl Job<'_> {
    /// Block after block of queries, and for each all the keys that it may see.
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { task, mut seen } = self;
        let mut block = Block::<S, V>::new(simd, &task.sizes);
        let (mut key_room, mut value_room) = (vec![], vec![]);
        let lanes = V * S::F32_LANES;
        for first in task.rows.clone().step_by(lanes) {
            let rows = first..(first + lanes).min(task.rows.end);
            block.begin(simd, task.queries(&rows));
            for columns in task.blocks(&rows) {
                let keys = piece(task.keys, &columns, &mut key_room);
                let values = piece(task.values, &columns, &mut value_room);
                block.score(simd, keys);
                let scores = block.scores[..columns.len()].as_flattened_mut();
                let scores = bytemuck::cast_slice_mut(scores);
                task.hide(scores, &rows, &columns, (1, lanes));
                let factor = block.exponentiate(simd, columns.len());
                block.mix(simd, values, &factor);
            }
            let (now, later) = seen.split(rows.len(), task.sizes.d_v);
            block.answer(now);
            seen = later;
        }
    }

    /// The same for so few queries that they would leave most lanes empty.
    #[inline(always)]
    fn run_few<S: Simd>(self, simd: S) {
        let Self { task, seen } = self;
        let mut few = Few::new(simd, task.queries(&task.rows), &task.sizes);
        let (mut key_room, mut value_room) = (vec![], vec![]);
        for columns in task.blocks(&task.rows) {
            let keys = piece(task.keys, &columns, &mut key_room);
            let values = piece(task.values, &columns, &mut value_room);
            few.score(simd, keys);
            let scores = few.scores();
            task.hide(scores, &task.rows, &columns, (KEYS, 1));
            few.mix(simd, values);
        }
        few.answer(seen);
    }
}

impl WithSimd for Job<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Sixteen sums have to fit into the registers, beside what is multiplied; and for a
        // few queries a few lanes will do.
        let rows = self.task.rows.len();
        match rows.div_ceil(S::F32_LANES) {
            _ if rows <= FEW && S::F32_LANES > 1 => self.run_few(simd),
            1 => self.run::<S, 1>(simd),
            3.. if S::REGISTER_COUNT >= 32 => self.run::<S, 4>(simd),
            _ => self.run::<S, 2>(simd),
        }
    }
}
// ANCHOR_END: job

/// So many queries are one job.
// ANCHOR: settings
const QUERIES: usize = 256;
/// Up to so many queries are too few to lie side by side.
const FEW: usize = 8;
/// From so many queries on, heads have jobs of their own.
const MANY: usize = 64;
/// Fewer products than these are made by one thread.
const WORTH_SHARING: usize = 1 << 19;
/// What is done over with care is done in tiles of so many.
const TILE: usize = 128;
// ANCHOR_END: settings

/// Attention in `f32`, tiled, its heads and queries in parallel: the result of
/// [`tiled_attention`](crate::tiled_attention), up to rounding, sooner.
///
/// The shapes are those of [`tiled_attention`](crate::tiled_attention). It needs no memory beside
/// its inputs and output but some hundred kilobytes for each thread. Keys and values are read where
/// they lie.
///
/// # Errors
/// As [`Sizes::new`].
///
/// Source: Dao, *FlashAttention-2* (2023), section 3, for the order of the loops.
// ANCHOR: fast_attention
pub fn fast_attention(
    queries: ArrayView4<f32>,
    keys: ArrayView4<f32>,
    values: ArrayView4<f32>,
    visible: &Visible,
) -> Result<Array4<f32>> {
    Ok(fast_partial(&queries, &keys, &values, visible)?.output)
}

/// The same with the instructions of a given processor; `Arch::Scalar` is every
/// processor.
///
/// # Errors
/// As [`fast_attention`].
pub fn fast_attention_on(
    arch: Arch,
    queries: ArrayView4<f32>,
    keys: ArrayView4<f32>,
    values: ArrayView4<f32>,
    visible: &Visible,
) -> Result<Array4<f32>> {
    Ok(fast_partial_on(arch, &queries, &keys, &values, visible)?.output)
}

/// The same with the largest score and the sum of each query, to be merged with
/// others or for the way back.
///
/// # Errors
/// As [`fast_attention`].
pub fn fast_partial(
    queries: &ArrayRef4<f32>,
    keys: &ArrayRef4<f32>,
    values: &ArrayRef4<f32>,
    visible: &Visible,
) -> Result<Partial<f32>> {
    fast_partial_on(Arch::new(), queries, keys, values, visible)
}
// ANCHOR_END: fast_attention

/// The same with the instructions of a given processor.
///
/// # Errors
/// As [`fast_attention`].
///
/// Source: Dao, Haziza, Massa, Sizov, *Flash-Decoding for Long-Context Inference* (2023), for the
/// parts of the keys.
// ANCHOR: fast_partial_on
pub fn fast_partial_on(
    arch: Arch,
    queries: &ArrayRef4<f32>,
    keys: &ArrayRef4<f32>,
    values: &ArrayRef4<f32>,
    visible: &Visible,
) -> Result<Partial<f32>> {
    let sizes = Sizes::new(queries.view(), keys.view(), values.view(), visible)?;
    let (batch, heads, group) = (sizes.batch, sizes.heads, sizes.group);
    let Sizes { m, n, d_k, d_v, .. } = sizes;
    let nothing = Partial::empty((batch, heads, m, d_v));
    if nothing.sum.is_empty() || n == 0 {
        return Ok(nothing);
    }
    let allowed = visible.allowed([batch, heads, m, n])?;
    // The queries of each job, counted through the heads of a group.
    let runs = if m < MANY { 1 } else { group };
    let rows = group * m / runs;
    let jobs: Vec<_> = (0..runs)
        .flat_map(|run| {
            let firsts = (0..rows).step_by(QUERIES);
            firsts
                .map(move |r| run * rows + r..run * rows + (r + QUERIES).min(rows))
        })
        .collect();
    // A thread that has to be woken costs more than a few small products.
    let factors = [batch, heads, m, n, d_k.saturating_add(d_v)];
    let products = factors.into_iter().fold(1, usize::saturating_mul);
    let threads = match products < WORTH_SHARING {
        true => 1,
        false => rayon::current_num_threads(),
    };
    // Few jobs are cut further, into parts of the keys, so that no thread is idle.
    let count = jobs.len() * batch * heads / group;
    let parts = match count.is_multiple_of(threads) || count > 4 * threads {
        true => 1,
        false => threads.min(n.div_ceil(KEYS)),
    };
    let mut partials = vec![nothing; parts];
    let mut all = vec![];
    for (part, partial) in partials.iter_mut().enumerate() {
        let (output, largest, sum) = partial.in_order();
        let mut rest = Seen {
            output,
            largest,
            sum,
        };
        for head in (0..batch * heads).step_by(group) {
            let (b, first) = (head / heads, head % heads);
            let shared = s![b, first / group, .., ..];
            for rows in jobs.clone() {
                let (seen, later) = rest.split(rows.len(), d_v);
                rest = later;
                let of_group = s![b, first..first + group, .., ..];
                let allowed = allowed.iter().map(|a| a.slice(of_group));
                let task = Task {
                    sizes,
                    visible,
                    allowed: allowed.collect(),
                    queries: queries.slice(of_group),
                    keys: keys.slice(shared),
                    values: values.slice(shared),
                    rows,
                    columns: n * part / parts..n * (part + 1) / parts,
                };
                all.push(Job { task, seen });
            }
        }
    }
    match threads {
        1 => all.into_iter().for_each(|job| arch.dispatch(job)),
        _ => all.into_par_iter().for_each(|job| arch.dispatch(job)),
    }
    let mut parts = partials.into_iter();
    let first = parts
        .next()
        .unwrap_or(Partial::empty((batch, heads, m, d_v)));
    let partial = parts.try_fold(first, |merged, part| merge(&merged, &part))?;
    with_care(partial, queries, keys, values, visible)
}
// ANCHOR_END: fast_partial_on

/// Does over what is not a finite number: 0 · NaN is NaN, and sums of the largest numbers
/// overflow. The slow way knows how.
// ANCHOR: with_care
fn with_care(
    mut partial: Partial<f32>,
    queries: &ArrayRef4<f32>,
    keys: &ArrayRef4<f32>,
    values: &ArrayRef4<f32>,
    visible: &Visible,
) -> Result<Partial<f32>> {
    let (batch, heads, m, _) = partial.output.dim();
    let (group, n) = (heads / keys.len_of(Axis(1)).max(1), keys.len_of(Axis(2)));
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let kv = s![b..b + 1, h / group..h / group + 1, .., ..];
        let mut i = 0;
        while i < m {
            let is_good = |partial: &Partial<f32>, i: usize| {
                let row = partial.output.slice(s![b, h, i, ..]);
                partial.sum[[b, h, i]].is_finite()
                    && row.fold(0.0, |x, r| x + 0.0 * r) == 0.0
            };
            let start = i;
            while i < m && i - start < TILE && !is_good(&partial, i) {
                i += 1;
            }
            if start < i {
                let rows = s![b..b + 1, h..h + 1, start..i, ..];
                let q = queries.slice(rows);
                let part = visible.part([b, h, start, 0], [batch, heads, m, n]);
                let (k, v) = (keys.slice(kv), values.slice(kv));
                let careful = tiled_partial(&q, &k, &v, &part, TILE)?;
                partial.output.slice_mut(rows).assign(&careful.output);
                let rows = s![b..b + 1, h..h + 1, start..i];
                partial.largest.slice_mut(rows).assign(&careful.largest);
                partial.sum.slice_mut(rows).assign(&careful.sum);
            } else {
                i += 1;
            }
        }
    }
    Ok(partial)
}
// ANCHOR_END: with_care
