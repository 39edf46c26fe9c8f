//! Every public function on arbitrary shapes, layouts and numbers: none panics, what does not fit is
//! refused, what fits has the documented shape, and no NaN appears that nothing calls for.
//!
//! It runs for a second, or for `BOOK_FUZZ_SECONDS`; `BOOK_FUZZ_SEED` repeats a run that failed.

#[path = "fuzz/chapters_8_and_9.rs"]
mod chapters_8_and_9;
mod layouts;

use anyhow::Result;
use ch01_alignment::*;
use ch02_softmax::*;
use ch03_scaled::*;
use ch04_masks::*;
use ch05_multihead::*;
use ch06_self_attention::*;
use ch07_cross_attention::*;
use ch10_efficient::{
    KeyValueCache, Online, OnnxAttention, OnnxInputs, OnnxMask, Partial, ScoreOutput, Visible,
    fast_attention, grouped_attention, merge, ring_attention, spread_attention, tiled_attention,
};
use layouts::{Layout, layout};
use ndarray::{
    Array, Array1, Array2, Array3, Array4, ArrayBase, Data, Dimension, IntoDimension, NdFloat,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The sizes of one side: the queries', or the keys' and values'.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    heads: usize,
    rows: usize,
    d: usize,
}

/// All that the calls are made from. An array repeats the numbers, beginning at a place of its own.
#[derive(Clone, Debug)]
struct Input {
    queries: Sizes,
    keys: Sizes,
    values: Sizes,
    /// How many columns a head's answer has, and a place for any other size.
    other: usize,
    mask: [usize; 4],
    allowed: Vec<bool>,
    numbers: Vec<f64>,
    layouts: [Layout; 3],
    /// A seed, and a probability or a temperature.
    seed: u64,
    factor: f64,
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..5_usize, 1 => 5..8_usize]
}

/// These sizes as a rule, but now and then others.
fn mostly(sizes: Sizes) -> impl Strategy<Value = Sizes> {
    let either = |usual| prop_oneof![12 => Just(usual), 1 => extent()];
    (
        either(sizes.batch),
        either(sizes.heads),
        extent(),
        either(sizes.d),
    )
        .prop_map(|(batch, heads, rows, d)| Sizes {
            batch,
            heads,
            rows,
            d,
        })
}

fn sizes() -> impl Strategy<Value = [Sizes; 3]> {
    (extent(), extent(), extent(), extent()).prop_flat_map(|(batch, heads, rows, d)| {
        let queries = Sizes {
            batch,
            heads,
            rows,
            d,
        };
        mostly(queries).prop_flat_map(move |keys| {
            mostly(keys).prop_flat_map(move |values| {
                let rows = prop_oneof![12 => Just(keys.rows), 1 => extent()];
                rows.prop_map(move |rows| [queries, keys, Sizes { rows, ..values }])
            })
        })
    })
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(1e4),
        Just(-1e4),
        -3.0..3.0,
        -3.0..3.0,
        -1e4..1e4,
    ]
}

/// Numbers of a moderate size, or also the worst.
fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let worst = prop_oneof![
        4 => number(),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => any::<f64>(),
    ];
    prop_oneof![2 => vec(number(), 1..40), 1 => vec(worst, 1..40)]
}

fn mask_shape([queries, keys, _]: [Sizes; 3]) -> impl Strategy<Value = [usize; 4]> {
    let axis =
        |size_of_scores: usize| prop_oneof![6 => Just(size_of_scores), 6 => Just(1), 1 => extent()];
    [
        axis(queries.batch),
        axis(queries.heads),
        axis(queries.rows),
        axis(keys.rows),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    let factor = prop_oneof![0.0..1.0, any::<f64>()];
    let rest = (
        extent(),
        vec(prop::bool::weighted(0.7), 1..40),
        numbers(),
        [layout(), layout(), layout()],
        any::<u64>(),
        factor,
    );
    let sizes = sizes().prop_flat_map(|sizes| (Just(sizes), mask_shape(sizes)));
    (sizes, rest).prop_map(|((sizes, mask), rest)| {
        let [queries, keys, values] = sizes;
        let (other, allowed, numbers, layouts, seed, factor) = rest;
        Input {
            queries,
            keys,
            values,
            other,
            mask,
            allowed,
            numbers,
            layouts,
            seed,
            factor,
        }
    })
}

impl Input {
    /// An array of this shape whose numbers begin at a place of its own.
    fn array<F: NdFloat, S: IntoDimension>(&self, place: usize, shape: S) -> Array<F, S::Dim> {
        let mut numbers = self
            .numbers
            .iter()
            .cycle()
            .skip(5 * place % self.numbers.len());
        let x = Array::from_shape_simple_fn(shape.into_dimension(), || {
            F::from(*numbers.next().unwrap()).unwrap()
        });
        self.layouts[place % 3].of(&x)
    }

    fn mask(&self) -> Mask {
        let [batch, heads, m, n] = self.mask;
        Mask::from_fn((batch, heads, m, n), |b, h, i, j| {
            let place = ((b * heads + h) * m + i) * n + j;
            self.allowed[place % self.allowed.len()]
        })
    }

    fn rng(&self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed)
    }
}

// What is expected of an answer.

/// Whether these numbers are so small that no sum of their products overflows.
fn moderate<F: NdFloat>(numbers: impl IntoIterator<Item = F>) -> bool {
    let limit = F::from(1e5).unwrap();
    numbers.into_iter().all(|x| x.abs() <= limit)
}

fn all_moderate<F: NdFloat, D: Dimension>(x: &Array<F, D>) -> bool {
    moderate(x.iter().copied())
}

#[track_caller]
fn no_nan<'a, F: NdFloat>(name: &str, moderate: bool, answer: impl IntoIterator<Item = &'a F>) {
    if moderate {
        assert!(answer.into_iter().all(|x| !x.is_nan()), "{name} gives NaN");
    }
}

/// The answer has this shape, and no NaN if the numbers it was made from are moderate.
#[track_caller]
fn whole<F: NdFloat, D: Dimension>(
    name: &str,
    answer: &ArrayBase<impl Data<Elem = F>, D>,
    shape: impl IntoDimension<Dim = D>,
    moderate: bool,
) {
    assert_eq!(answer.raw_dim(), shape.into_dimension(), "{name}");
    no_nan(name, moderate, answer);
}

/// The answer, if the input fits; an error that says so, if it does not.
#[track_caller]
fn fitting<T>(name: &str, answer: Result<T>, fits: bool) -> Option<T> {
    match answer {
        Ok(answer) => {
            assert!(fits, "{name} answers what does not fit");
            Some(answer)
        }
        Err(error) => {
            assert!(!fits, "{name} refuses what fits: {error}");
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

// The calls.

fn scores<F: NdFloat>(input: &Input) {
    let Sizes { rows: m, d, .. } = input.queries;
    let (n, k_d) = (input.keys.rows, input.keys.d);
    let (q, k) = (input.array(0, (m, d)), input.array(1, (n, k_d)));
    let (q_row, k_row): (Array1<F>, Array1<F>) = (input.array(0, d), input.array(1, k_d));
    fitting("dot_score", dot_score(&q_row, &k_row), d == k_d);
    let (q, k): (Array2<F>, Array2<F>) = (q, k);
    let fine = all_moderate(&q) && all_moderate(&k);
    let scores = alignment_scores(&q, &k);
    if let Some(scores) = fitting("alignment_scores", scores, d == k_d) {
        whole("alignment_scores", &scores, (m, n), fine);
    }
    let scores = cosine_scores(&q, &k);
    if let Some(scores) = fitting("cosine_scores", scores, d == k_d) {
        whole("cosine_scores", &scores, (m, n), fine);
    }
    let scores = scaled_scores(&q, &k);
    if let Some(scores) = fitting("scaled_scores", scores, d == k_d && d > 0) {
        whole("scaled_scores", &scores, (m, n), fine);
    }
    batches::<F>(input);
    learned_scores(input, &q, &k, fine);
}

fn batches<F: NdFloat>(input: &Input) -> Option<Array3<F>> {
    let (Sizes { batch, rows, d, .. }, keys) = (input.queries, input.keys);
    let q: Array3<F> = input.array(0, (batch, rows, d));
    let k = input.array(1, (keys.batch, keys.rows, keys.d));
    let fits = (batch, d) == (keys.batch, keys.d);
    let scores = fitting("batched_scores", batched_scores(&q, &k), fits)?;
    let fine = all_moderate(&q) && all_moderate(&k);
    whole("batched_scores", &scores, (batch, rows, keys.rows), fine);
    Some(scores)
}

fn learned_scores<F: NdFloat>(input: &Input, q: &Array2<F>, k: &Array2<F>, fine: bool) {
    let (m, d, n, other) = (q.nrows(), q.ncols(), k.nrows(), input.other);
    let w: Array2<F> = input.array(2, (d, input.values.d));
    let scores = bilinear_scores(q, &w, k);
    if let Some(scores) = fitting("bilinear_scores", scores, k.ncols() == input.values.d) {
        whole("bilinear_scores", &scores, (m, n), fine && all_moderate(&w));
    }
    let w_query: Array2<F> = input.array(2, (other, d));
    let w_key: Array2<F> = input.array(3, (other, input.values.d));
    let v: Array1<F> = input.array(4, other);
    let fine = fine && all_moderate(&w_query) && all_moderate(&w_key) && all_moderate(&v);
    let scores = additive_scores(q, k, &w_query, &w_key, &v);
    if let Some(scores) = fitting("additive_scores", scores, k.ncols() == input.values.d) {
        whole("additive_scores", &scores, (m, n), fine);
    }
}

fn softmaxes<F: NdFloat>(input: &Input) {
    let n = input.keys.rows;
    let row: Array1<F> = input.array(0, n);
    let fine = all_moderate(&row);
    assert_eq!(naive_softmax(&row).len(), n);
    let weights = softmax(&row);
    whole("softmax", &weights, n, fine);
    assert!(!fine || weights.iter().all(|&a| a >= F::zero()));
    no_nan("log_sum_exp", fine, [&log_sum_exp(&row)]);
    let temperature = F::from(input.factor).unwrap();
    let answer = softmax_with_temperature(&row, temperature);
    let fits = temperature.is_finite() && temperature > F::zero();
    if let Some(weights) = fitting("softmax_with_temperature", answer, fits) {
        whole("softmax_with_temperature", &weights, n, fine);
    }
    whole("softmax_jacobian", &softmax_jacobian(&row), (n, n), fine);
    fitting("scale", scale::<F>(n), n > 0);
}

fn sums<F: NdFloat>(input: &Input) {
    let (m, n, values) = (input.queries.rows, input.keys.rows, input.values);
    let scores: Array2<F> = input.array(0, (m, n));
    let v: Array2<F> = input.array(1, (values.rows, input.other));
    let fine = all_moderate(&scores) && all_moderate(&v);
    let weights = attention_weights(&scores);
    whole("attention_weights", &weights, (m, n), all_moderate(&scores));
    let sum = weighted_sum(&scores, &v);
    if let Some(sum) = fitting("weighted_sum", sum, n == values.rows) {
        whole("weighted_sum", &sum, (m, input.other), fine);
    }
    let attention = attend(&scores, &v);
    if let Some(attention) = fitting("attend", attention, n == values.rows) {
        whole("attend", &attention.output, (m, input.other), fine);
        whole("attend", &attention.weights, (m, n), fine);
    }
    let alignment = alignment(&scores);
    assert_eq!(alignment.len(), m);
    assert!(alignment.into_iter().flatten().all(|j| j < n));
}

fn single_heads<F: NdFloat>(input: &Input) {
    let (Sizes { rows: m, d, .. }, keys, values) = (input.queries, input.keys, input.values);
    let (n, other) = (keys.rows, input.other);
    let q: Array2<F> = input.array(0, (m, d));
    let k: Array2<F> = input.array(1, (n, keys.d));
    let v: Array2<F> = input.array(2, (values.rows, other));
    let fine = all_moderate(&q) && all_moderate(&k) && all_moderate(&v);
    let fits = d == keys.d && d > 0 && n == values.rows;
    let attention = scaled_dot_product_attention(&q, &k, &v);
    if let Some(attention) = fitting("scaled_dot_product_attention", attention, fits) {
        let name = "scaled_dot_product_attention";
        whole(name, &attention.output, (m, other), fine);
        whole(name, &attention.weights, (m, n), fine);
    }
    let mask = input.mask();
    let fits = fits && mask.fit((1, 1, m, n)).is_ok();
    let attention = masked_attention(&q, &k, &v, &mask);
    if let Some(attention) = fitting("masked_attention", attention, fits) {
        whole("masked_attention", &attention.output, (m, other), fine);
        whole("masked_attention", &attention.weights, (m, n), fine);
    }
}

/// Whether what a query may see is moderate: key or value `j` of head `h` of sequence `b`.
fn seen_moderate<F: NdFloat>(x: &Array4<F>, mask: &Mask, shape: Shape) -> bool {
    let allowed = mask.fit(shape).unwrap();
    let seen = |b, h, j| (0..shape.2).any(|i| allowed[[b, h, i, j]]);
    moderate(
        x.indexed_iter()
            .filter(|&((b, h, j, _), _)| seen(b, h, j))
            .map(|(_, &x)| x),
    )
}

/// The same, but NaN where no query may see it.
fn poisoned<F: NdFloat>(mut x: Array4<F>, mask: &Mask, shape: Shape) -> Array4<F> {
    let allowed = mask.fit(shape).unwrap();
    for ((b, h, j, _), x) in x.indexed_iter_mut() {
        if (0..shape.2).all(|i| !allowed[[b, h, i, j]]) {
            *x = F::nan();
        }
    }
    x
}

fn many_heads<F: NdFloat>(input: &Input) {
    let (
        Sizes {
            batch,
            heads,
            rows: m,
            d,
        },
        keys,
        values,
    ) = (input.queries, input.keys, input.values);
    let (n, other, mask) = (keys.rows, input.other, input.mask());
    let q: Array4<F> = input.array(0, (batch, heads, m, d));
    let k: Array4<F> = input.array(1, (keys.batch, keys.heads, n, keys.d));
    let v: Array4<F> = input.array(2, (values.batch, values.heads, values.rows, other));
    let weights: Array4<F> = input.array(3, (batch, heads, m, n));
    let shape = (batch, heads, m, n);
    let mask_fits = mask.fit(shape).is_ok();
    let values_fit = (batch, heads, n) == (values.batch, values.heads, values.rows);
    let scores_fit = (batch, heads, d) == (keys.batch, keys.heads, keys.d) && d > 0;
    let fine = all_moderate(&weights);
    let answer = masked_softmax(&weights, &mask);
    if let Some(answer) = fitting("masked_softmax", answer, mask_fits) {
        whole("masked_softmax", &answer, shape, fine);
    }
    let answer = masked_sum(&weights, &v, &mask);
    if let Some(answer) = fitting("masked_sum", answer, mask_fits && values_fit) {
        let fine = fine && seen_moderate(&v, &mask, shape);
        whole("masked_sum", &answer, (batch, heads, m, other), fine);
    }
    let answer = batched_scaled_scores(&q, &k);
    if let Some(answer) = fitting("batched_scaled_scores", answer, scores_fit) {
        let fine = all_moderate(&q) && all_moderate(&k);
        whole("batched_scaled_scores", &answer, shape, fine);
    }
    let fits = mask_fits && scores_fit && values_fit;
    // Keys or values of other sizes are not there to be poisoned.
    let (k, v) = if mask_fits && scores_fit && values_fit {
        (poisoned(k, &mask, shape), poisoned(v, &mask, shape))
    } else {
        (k, v)
    };
    let answer = batched_attention(&q, &k, &v, &mask);
    if let Some(answer) = fitting("batched_attention", answer, fits) {
        let seen = |x| seen_moderate(x, &mask, shape);
        let fine = all_moderate(&q) && seen(&k) && seen(&v);
        let output = (batch, heads, m, other);
        whole("batched_attention", &answer.output, output, fine);
        whole("batched_attention", &answer.weights, shape, fine);
    }
    heads_apart(input, &weights);
}

fn heads_apart<F: NdFloat>(input: &Input, weights: &Array4<F>) {
    let (batch, heads, m, n) = weights.dim();
    let merged = merge_heads(weights);
    whole(
        "merge_heads",
        &merged,
        (batch, m, heads * n),
        all_moderate(weights),
    );
    let split = split_heads(&merged, input.other);
    let fits = input.other > 0 && (heads * n).is_multiple_of(input.other);
    if let Some(split) = fitting("split_heads", split, fits) {
        let width = heads * n / input.other;
        assert_eq!(split.dim(), (batch, input.other, m, width));
    }
    let p = input.factor;
    fitting(
        "check_probability",
        check_probability(p),
        (0.0..1.0).contains(&p),
    );
    let dropped = dropout(weights, p, &mut input.rng());
    if let Some(dropped) = fitting("dropout", dropped, (0.0..1.0).contains(&p)) {
        whole("dropout", &dropped, weights.dim(), all_moderate(weights));
    }
    let positions: Vec<usize> = (0..input.values.rows).map(|j| j << (j * 7)).collect();
    let turned = rotate(weights, &positions);
    if let Some(turned) = fitting("rotate", turned, n % 2 == 0 && m == positions.len()) {
        whole("rotate", &turned, weights.dim(), all_moderate(weights));
    }
    let answer = MultiHeadAnswer {
        output: merged,
        weights: weights.clone(),
    };
    let average = answer.average_weights();
    whole(
        "average_weights",
        &average,
        (batch, m, n),
        all_moderate(weights),
    );
}

/// Four projections and what they are given, the widths of all taken from the input.
fn multi_head<F: NdFloat>(input: &Input) {
    let (
        Sizes {
            batch,
            heads,
            rows: m,
            d,
        },
        keys,
        values,
    ) = (input.queries, input.keys, input.values);
    let projection = |place, width_in, width_out| {
        let bias = (input.seed.is_multiple_of(2)).then(|| input.array(place + 1, width_out));
        Projection::<F>::new(input.array(place, (width_in, width_out)), bias).unwrap()
    };
    let d_v = heads * input.other;
    let attention = MultiHeadAttention::new(
        heads,
        projection(0, d, heads * d),
        projection(1, keys.d, heads * keys.d),
        projection(2, input.other, d_v),
        projection(3, d_v, d),
    );
    let fits = heads > 0 && d == keys.d && d > 0;
    let Some(attention) = fitting("MultiHeadAttention::new", attention, fits) else {
        return;
    };
    let q: Array3<F> = input.array(4, (batch, m, d));
    let k: Array3<F> = input.array(5, (keys.batch, keys.rows, keys.d));
    let v: Array3<F> = input.array(6, (values.batch, values.rows, input.other));
    let moderate_all = moderate(input.numbers.iter().copied());
    let memory = attention.remember(&k, &v);
    let fits = (keys.batch, keys.rows) == (values.batch, values.rows);
    let Some(memory) = fitting("remember", memory, fits) else {
        assert!(attention.attend(&q, &k, &v, &Mask::everything()).is_err());
        return;
    };
    let mask = input.mask();
    let shape = (batch, heads, m, keys.rows);
    let fits = batch == keys.batch && d > 0 && mask.fit(shape).is_ok();
    let p = input.factor;
    let training = fitting(
        "with_dropout",
        attention.clone().with_dropout(p),
        (0.0..1.0).contains(&p),
    );
    let rng = &mut input.rng();
    let answers = [
        attention.ask(&q, &memory, &mask),
        attention.attend(&q, &k, &v, &mask),
    ];
    for answer in answers {
        if let Some(answer) = fitting("multi-head attention", answer, fits) {
            whole(
                "multi-head attention",
                &answer.output,
                (batch, m, d),
                moderate_all,
            );
            whole("multi-head attention", &answer.weights, shape, moderate_all);
        }
    }
    let steps = [
        Some(attention.ask_in_steps(&q, &memory, &mask)),
        training.map(|training| training.ask_in_training(&q, &memory, &mask, rng)),
    ];
    for steps in steps.into_iter().flatten() {
        if let Some(steps) = fitting("multi-head steps", steps, fits) {
            let name = "multi-head steps";
            whole(name, &steps.queries, (batch, heads, m, d), moderate_all);
            whole(name, &steps.weights, shape, moderate_all);
            whole(name, &steps.kept, shape, moderate_all);
            whole(name, &steps.merged, (batch, m, d_v), moderate_all);
            whole(name, &steps.output, (batch, m, d), moderate_all);
        }
    }
    numbers_of_projections(&mut attention.clone());
    sequences(input, &attention, &q, &k);
}

/// The numbers to be changed are those that are read.
fn numbers_of_projections<F: NdFloat>(attention: &mut MultiHeadAttention<F>) {
    let parameters = attention.parameters();
    let mut changed = 0;
    for projection in attention.projections_mut() {
        let (mut weight, bias) = projection.numbers_mut();
        changed += weight.len();
        weight.fill(F::one());
        if let Some(mut bias) = bias {
            changed += bias.len();
            bias.fill(F::one());
        }
        assert!(projection.weight().iter().all(|&w| w == F::one()));
    }
    assert_eq!(changed, parameters);
}

/// One sequence asks itself, and another.
fn sequences<F: NdFloat>(
    input: &Input,
    attention: &MultiHeadAttention<F>,
    q: &Array3<F>,
    k: &Array3<F>,
) {
    let ((batch, m, d), (key_batch, n, _), heads) = (q.dim(), k.dim(), attention.heads());
    let mask = input.mask();
    let usable = d > 0;
    let fits = usable && d == input.other && mask.fit((batch, heads, m, m)).is_ok();
    let answer = self_attention(attention, q, &mask);
    if let Some(answer) = fitting("self_attention", answer, fits) {
        assert_eq!(answer.output.dim(), (batch, m, d));
    }
    let fits =
        usable && (d, batch) == (input.other, key_batch) && mask.fit((batch, heads, m, n)).is_ok();
    let answer = cross_attention(attention, q, k, &mask);
    if let Some(answer) = fitting("cross_attention", answer, fits) {
        assert_eq!(answer.weights.dim(), (batch, heads, m, n));
    }
}

/// Queries, keys and values with several heads of queries to each head of keys and values.
fn grouped_heads<F: NdFloat>(input: &Input) -> [Array4<F>; 3] {
    let (queries, keys, values) = (input.queries, input.keys, input.values);
    let heads = queries.heads * (1 + (input.seed % 3) as usize);
    [
        input.array(0, (queries.batch, heads, queries.rows, queries.d)),
        input.array(1, (keys.batch, keys.heads, keys.rows, keys.d)),
        input.array(2, (values.batch, values.heads, values.rows, input.other)),
    ]
}

/// Whether those fit each other, and the scores they make.
fn groups_fit<F: NdFloat>([q, k, v]: &[Array4<F>; 3]) -> (bool, Shape) {
    let ((batch, heads, m, d), (key_batch, kv_heads, n, key_d)) = (q.dim(), k.dim());
    let (value_batch, value_heads, value_n, _) = v.dim();
    let fits = (batch, d) == (key_batch, key_d)
        && (value_batch, value_heads, value_n) == (key_batch, kv_heads, n)
        && heads.is_multiple_of(kv_heads);
    (fits, (batch, heads, m, n))
}

/// Chapter 10's ways to chapter 4's answers.
fn cheaper_ways<F: NdFloat>(input: &Input) {
    let inputs = grouped_heads::<F>(input);
    let fine = inputs.iter().all(all_moderate);
    let (fits, shape) = groups_fit(&inputs);
    let [q, k, v] = inputs.each_ref().map(|x| x.view());
    let (mask, parts) = (input.mask(), input.other);
    let fits = fits && q.dim().3 > 0 && mask.fit(shape).is_ok();
    let answer = (q.dim().0, q.dim().1, q.dim().2, v.dim().3);
    let far = usize::try_from(input.seed | 1).unwrap_or(usize::MAX);
    let rules = [
        Visible::everything(),
        Visible::causal(),
        Visible::window(1 + parts).unwrap(),
        Visible::window(far).unwrap(),
    ];
    // One of them: workers are threads, and threads take their time.
    let visible = rules[(input.seed % 4) as usize].clone().and(&mask);
    for (name, found) in [
        ("tiled", tiled_attention(&q, &k, &v, &visible, parts)),
        (
            "tiled",
            tiled_attention(&q, &k, &v, &visible, parts.saturating_mul(far)),
        ),
        ("spread", spread_attention(&q, &k, &v, &visible, parts)),
        ("ring", ring_attention(&q, &k, &v, &visible, parts)),
    ] {
        if let Some(found) = fitting(name, found, fits && parts > 0) {
            whole(name, &found, answer, fine);
        }
    }
    let grouped = grouped_attention(&q, &k, &v, &mask);
    if let Some(found) = fitting("grouped_attention", grouped, fits) {
        whole("grouped_attention", &found.output, answer, fine);
    }
    parts_and_caches(input, &inputs);
    operator(input, &inputs);
}

fn fast(input: &Input) {
    let inputs = grouped_heads::<f32>(input);
    let fine = inputs.iter().all(all_moderate);
    let (fits, shape) = groups_fit(&inputs);
    let [q, k, v] = inputs.each_ref().map(|x| x.view());
    let mask = input.mask();
    let fits = fits && q.dim().3 > 0 && mask.fit(shape).is_ok();
    let answer = (q.dim().0, q.dim().1, q.dim().2, v.dim().3);
    for rule in [
        Visible::everything(),
        Visible::causal(),
        Visible::window(1 + input.other).unwrap(),
    ] {
        let found = fast_attention(&q, &k, &v, &rule.and(&mask));
        if let Some(found) = fitting("fast_attention", found, fits) {
            whole("fast_attention", &found, answer, fine);
        }
    }
}

fn parts_and_caches<F: NdFloat>(input: &Input, [q, k, v]: &[Array4<F>; 3]) {
    let part = |output: &Array4<F>, place| Partial {
        output: output.clone(),
        largest: input.array(place, (input.queries.batch, q.dim().1, input.queries.rows)),
        sum: Array3::ones((input.queries.batch, q.dim().1, input.queries.rows)),
    };
    let merged = merge(&part(q, 3), &part(k, 4));
    if let Some(merged) = fitting("merge", merged, q.dim() == k.dim()) {
        let moderate = moderate(input.numbers.iter().copied());
        whole("merge", &merged.output, q.dim(), moderate);
    }
    let mut online = Online::new(input.other);
    let scores: Array1<F> = input.array(3, input.keys.rows);
    let values: Array2<F> = input.array(4, (input.values.rows, input.other));
    let fits = input.keys.rows == input.values.rows;
    for _ in 0..2 {
        fitting("see", online.see(&scores, &values), fits);
    }
    let fine = all_moderate(&scores) && all_moderate(&values);
    whole("Online::answer", &online.answer().0, input.other, fine);
    let (batch, heads, n, d) = k.dim();
    let capacity = input.queries.rows;
    let mut cache = KeyValueCache::new(batch, heads, capacity, (d, input.other));
    let fits = v.dim() == (batch, heads, n, input.other);
    let mut room = capacity;
    for _ in 0..2 {
        let extended = cache.extend(k, v);
        if fitting("extend", extended, fits && n <= room).is_some() {
            room -= n;
        }
        assert_eq!(cache.length(), capacity - room);
    }
}

/// The operator of ONNX with any of its attributes.
fn operator<F: NdFloat>(input: &Input, inputs: &[Array4<F>; 3]) {
    let choose = |place: u32, of: u64| input.seed.rotate_left(7 * place) % of;
    let (fits, (batch, heads, m, n)) = groups_fit(inputs);
    let [q, k, v] = inputs;
    let factor = F::from(input.factor).unwrap();
    let usable = factor.is_finite() && factor >= F::zero();
    let scale = (choose(0, 2) == 0).then_some(factor);
    let softcap = if choose(1, 2) == 0 { factor } else { F::zero() };
    let near = (choose(2, 3) > 0).then_some(input.other);
    let past = (choose(3, 3) == 0).then(|| {
        let (batch, heads, _, d) = k.dim();
        let (value_batch, value_heads, ..) = v.dim();
        let keys: Array4<F> = input.array(3, (batch, heads, input.other, d));
        let other = (value_batch, value_heads, input.other, input.other);
        (keys, input.array::<F, _>(4, other))
    });
    let n = n + past.as_ref().map_or(0, |_| input.other);
    let lengths = (choose(4, 3) == 0).then(|| vec![input.other; batch]);
    let [b, h, i, j] = input.mask;
    let allowed = input
        .mask()
        .fit((b, h, i, j))
        .unwrap()
        .to_owned()
        .into_dyn();
    let has_mask = choose(5, 2) == 0;
    let operator = OnnxAttention {
        scale,
        softcap,
        is_causal: choose(6, 2) == 0,
        window: (near, (choose(7, 3) > 0).then_some(0)),
        heads: None,
        score_output: ScoreOutput::Weights,
    };
    let [queries, keys, values] = [q, k, v].map(|x| x.view().into_dyn());
    let answer = operator.attend(&OnnxInputs {
        queries,
        keys,
        values,
        mask: has_mask.then(|| OnnxMask::Allowed(allowed.view())),
        past: past.as_ref().map(|(k, v)| (k.view(), v.view())),
        lengths: lengths.as_deref(),
    });
    let one_or = |ours: usize, theirs| ours == 1 || ours == theirs;
    let fits = fits
        && (usable || scale.is_none() && softcap == F::zero())
        && q.dim().3 > 0
        && lengths.is_none_or(|_| past.is_none() && input.other <= n)
        && (!has_mask
            || one_or(b, batch) && one_or(h, heads) && one_or(i, m) && (j <= n || j == 1));
    if let Some(answer) = fitting("OnnxAttention::attend", answer, fits) {
        let fine = all_moderate(q) && all_moderate(k) && all_moderate(v);
        let fine = fine && past.is_none_or(|(k, v)| all_moderate(&k) && all_moderate(&v));
        let fine = fine && factor <= F::one();
        let output = [batch, heads, m, v.dim().3];
        whole(
            "attend",
            &answer.output,
            &output[..],
            fine && softcap == F::zero(),
        );
        assert_eq!(answer.scores.dim(), (batch, heads, m, n));
        assert_eq!(answer.keys.dim().2, n);
    }
}

fn masks(input: &Input) {
    let (Sizes { batch, rows: m, .. }, n) = (input.queries, input.keys.rows);
    let first = usize::try_from(input.seed).unwrap_or(usize::MAX);
    let mask = input.mask();
    let [b, h, i, j] = input.mask;
    assert_eq!(format!("{mask:?}"), format!("{b} × {h} × {i} × {j}"));
    assert!(mask.to_string().lines().count() <= 2 * b * h * i);
    assert_eq!(mask.to_additive::<f32>().dim(), (b, h, i, j));
    let turned = mask.transposed();
    assert!(turned.fit((b, h, j, i)).is_ok());
    assert_eq!(turned.transposed(), mask);
    assert_eq!((&mask & &Mask::everything()).unwrap(), mask);
    let causal = Mask::causal(m, n);
    let axis = |ours: usize, theirs| ours == theirs || ours == 1 || theirs == 1;
    let both = fitting("bitand", &mask & &causal, axis(i, m) && axis(j, n));
    if let Some(both) = both {
        let longer = |ours: usize, theirs| if ours == 1 { theirs } else { ours };
        assert!(both.fit((b, h, longer(i, m), longer(j, n))).is_ok());
    }
    let from = Mask::causal_from(first, m, n);
    assert!(from.fit((1, 1, m, n)).is_ok());
    fitting("window", Mask::window(m, n, input.other), input.other > 0);
    fitting("window", Mask::window(m, n, first), first > 0);
    let lengths = [input.other, n, 0];
    fitting("padding", Mask::padding(&lengths, n), input.other <= n);
    let mut bits = input.allowed.iter().cycle();
    let tokens = Array2::from_shape_simple_fn((batch, n), || u32::from(*bits.next().unwrap()));
    let pad = u32::try_from(input.other).unwrap();
    assert_eq!(token_positions(&tokens, pad).dim(), (batch, n));
    let both_ways = Mask::padding_of_tokens(&tokens, pad);
    assert_eq!(bidirectional_mask(&tokens, pad), both_ways);
    let causal = causal_mask(&tokens, pad).unwrap();
    assert!(causal.fit((batch, 1, n, n)).is_ok());
}

/// What takes only sizes, or numbers of one kind.
fn others(input: &Input) {
    let (Sizes { rows, d, .. }, other) = (input.queries, input.other);
    let rng = &mut input.rng();
    let positions = sinusoidal_positions::<f64>(rows, d);
    whole("sinusoidal_positions", &positions, (rows, d), true);
    assert_eq!(random_vector(d, rng).len(), d);
    fitting(
        "dot_product_spread",
        dot_product_spread(d, rows, rng),
        rows > 0,
    );
    let fits = d > 0 && rows > 0 && other > 0;
    fitting("saturation", saturation(d, rows, other, rng), fits);
    let table: Array2<f64> = input.array(0, (rows, d));
    no_nan("size", all_moderate(&table), [&size(&table)]);
    let random = MultiHeadAttention::<f32>::random(d, other, rng);
    let fits = d > 0 && other > 0 && d.is_multiple_of(other);
    if let Some(random) = fitting("random", random, fits) {
        assert_eq!(random.parameters(), 4 * (d * d + d));
    }
    let projection = Projection::<f64>::new(table, Some(random_vector(other, rng)));
    if let Some(projection) = fitting("Projection::new", projection, d == other) {
        assert_eq!(projection.parameters(), rows * d + d);
        let x: Array3<f64> = input.array(1, (rows, other, input.keys.d));
        fitting("apply", projection.apply(&x), input.keys.d == rows);
    }
    costs(input.seed);
}

fn costs(seed: u64) {
    let (n, d) = ((seed >> 32) as u32, seed as u32);
    assert!(Cost::of_self_attention(n, d).path <= 1);
    assert_eq!(Cost::of_recurrence(n, d).sequential, u128::from(n));
    for width in [n % 8, d] {
        let fits = width >= 3 && !width.is_multiple_of(2);
        fitting("of_convolution", Cost::of_convolution(n, d, width), fits);
    }
}

fn in_precision<F: NdFloat>(input: &Input) {
    scores::<F>(input);
    softmaxes::<F>(input);
    sums::<F>(input);
    single_heads::<F>(input);
    many_heads::<F>(input);
    multi_head::<F>(input);
    cheaper_ways::<F>(input);
}

fn every_function(input: &Input) {
    in_precision::<f64>(input);
    in_precision::<f32>(input);
    fast(input);
    masks(input);
    others(input);
    chapters_8_and_9::every_function(input);
}

// The run.

const ROUND: u32 = 100;

/// One round of inputs; what fails is made as small as can be.
fn round(seed: u64) -> Result<(), String> {
    let config = ProptestConfig {
        cases: ROUND,
        max_shrink_iters: 20_000,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&input(), |input| {
        every_function(&input);
        Ok(())
    });
    result.map_err(|failure| failure.to_string())
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {value}")))
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() * 1_000
}

#[test]
fn arbitrary_input_never_panics() {
    let seconds = variable("BOOK_FUZZ_SECONDS");
    let first =
        variable("BOOK_FUZZ_SEED").unwrap_or_else(|| seconds.map_or(2017, |_| seed_of_now()));
    let length = Duration::from_secs(seconds.unwrap_or(1));
    println!("fuzz: seed {first}, {} s", length.as_secs());
    let start = Instant::now();
    let mut rounds = 0;
    let failed = loop {
        let seed = first.wrapping_add(rounds);
        if let Err(failure) = round(seed) {
            break Some((seed, failure));
        }
        rounds += 1;
        if start.elapsed() >= length {
            break None;
        }
    };
    if let Some((seed, failure)) = failed {
        panic!("{failure}\nrepeat it with BOOK_FUZZ_SEED={seed}");
    }
    let inputs = rounds * u64::from(ROUND);
    println!("fuzz: {inputs} inputs to every function, nothing found (seed {first})");
}
