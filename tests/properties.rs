//! What must hold for any numbers of any shape, tried on random ones.
//!
//! `PROPTEST_RNG_SEED` and `PROPTEST_CASES` try others, and more of them.

#[path = "properties/chapters_8_and_9.rs"]
mod chapters_8_and_9;
mod layouts;
#[path = "properties/routes.rs"]
mod routes;

use ch01_alignment::{
    additive_scores, alignment_scores, batched_scores, bilinear_scores, cosine_scores, dot_score,
};
use ch02_softmax::{
    attend, attention_weights, log_sum_exp, naive_softmax, softmax, softmax_with_temperature,
    weighted_sum,
};
use ch03_scaled::{scaled_dot_product_attention, scaled_scores, softmax_jacobian};
use ch04_masks::{
    Mask, Shape, batched_attention, batched_scaled_scores, masked_attention, masked_softmax,
    masked_sum,
};
use ch05_multihead::{
    MultiHeadAnswer, MultiHeadAttention, Projection, dropout, merge_heads, split_heads,
};
use ch06_self_attention::{
    bidirectional_mask, causal_mask, rotate, self_attention, sinusoidal_positions, token_positions,
};
use ch07_cross_attention::{alignment, cross_attention};
use ch10_efficient::{
    KeyValueCache, OnnxAttention, OnnxInputs, OnnxMask, Visible, fast_attention, ring_attention,
    spread_attention, tiled_attention,
};
use layouts::layout;
use ndarray::{
    Array, Array1, Array2, Array3, Array4, ArrayBase, ArrayRef2, Axis, Data, Dimension,
    IntoDimension, RawData, s,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::fmt;

/// Tries a property on 256 inputs, the same ones every time.
#[track_caller]
fn check<S: Strategy>(inputs: S, property: impl Fn(S::Value)) {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(2017);
    }
    let result = TestRunner::new(config).run(&inputs, |input| {
        property(input);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

// Inputs.

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => -3.0..3.0,
        1 => (-8..9_i8).prop_map(|x| f64::from(x) / 4.0),
    ]
}

/// What nobody may notice where it cannot be seen.
fn poison() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(1e300),
        number(),
    ]
}

fn filled<S: IntoDimension>(
    shape: S,
    numbers: impl Strategy<Value = f64>,
) -> impl Strategy<Value = Array<f64, S::Dim>> {
    let shape = shape.into_dimension();
    vec(numbers, shape.size())
        .prop_map(move |numbers| Array::from_shape_vec(shape.clone(), numbers).unwrap())
}

fn array<S: IntoDimension>(shape: S) -> impl Strategy<Value = Array<f64, S::Dim>> {
    filled(shape, number())
}

fn row() -> impl Strategy<Value = Array1<f64>> {
    (0..7_usize).prop_flat_map(array)
}

fn order(n: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..n).collect::<Vec<_>>()).prop_shuffle()
}

/// A mask for scores of this shape, some of its axes of size 1.
fn arbitrary_mask(shape: Shape) -> impl Strategy<Value = Mask> {
    let (batch, heads, m, n) = shape;
    let one_or = |size| prop_oneof![Just(1), Just(size)];
    let size = batch * heads * m * n;
    (
        one_or(batch),
        one_or(heads),
        one_or(m),
        one_or(n),
        vec(prop::bool::weighted(0.6), size.max(1)),
    )
        .prop_map(|(batch, heads, m, n, bits)| {
            Mask::from_fn((batch, heads, m, n), |b, h, i, j| {
                bits[(((b * heads + h) * m + i) * n + j) % bits.len()]
            })
        })
}

fn mask(shape: Shape) -> impl Strategy<Value = Mask> {
    let (batch, _, m, n) = shape;
    prop_oneof![
        1 => Just(Mask::everything()),
        1 => Just(Mask::causal(m, n)),
        1 => (1..4_usize).prop_map(move |width| Mask::window(m, n, width).unwrap()),
        1 => vec(0..=n, batch).prop_map(move |lengths| Mask::padding(&lengths, n).unwrap()),
        4 => arbitrary_mask(shape),
    ]
}

/// Queries, keys and values of several heads of several sequences, and a mask.
#[derive(Clone)]
struct Problem {
    q: Array4<f64>,
    k: Array4<f64>,
    v: Array4<f64>,
    mask: Mask,
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { q, k, v, mask } = self;
        write!(
            f,
            "q = {q:?}\nk = {k:?}\nv = {v:?}\nmask {mask:?} =\n{mask}"
        )
    }
}

impl Problem {
    fn shape(&self) -> Shape {
        let (batch, heads, m, _) = self.q.dim();
        (batch, heads, m, self.k.dim().2)
    }

    fn allowed(&self) -> Array4<bool> {
        self.mask.fit(self.shape()).unwrap().to_owned()
    }

    fn answer(&self) -> Answer {
        let Self { q, k, v, mask } = self;
        let attention = batched_attention(q, k, v, mask).unwrap();
        (attention.output, attention.weights)
    }
}

/// Output and weights.
type Answer = (Array4<f64>, Array4<f64>);

fn problem() -> impl Strategy<Value = Problem> {
    (
        0..3_usize,
        0..3_usize,
        0..7_usize,
        0..7_usize,
        1..7_usize,
        0..7_usize,
    )
        .prop_flat_map(|(batch, heads, m, n, d_k, d_v)| {
            (
                array((batch, heads, m, d_k)),
                array((batch, heads, n, d_k)),
                array((batch, heads, n, d_v)),
                mask((batch, heads, m, n)),
            )
                .prop_map(|(q, k, v, mask)| Problem { q, k, v, mask })
        })
}

/// One head of one sequence, without a mask.
#[derive(Clone, Debug)]
struct Single {
    q: Array2<f64>,
    k: Array2<f64>,
    v: Array2<f64>,
}

fn single() -> impl Strategy<Value = Single> {
    (0..7_usize, 0..7_usize, 1..7_usize, 0..7_usize).prop_flat_map(|(m, n, d_k, d_v)| {
        (array((m, d_k)), array((n, d_k)), array((n, d_v))).prop_map(|(q, k, v)| Single { q, k, v })
    })
}

fn projection(width_in: usize, width_out: usize) -> impl Strategy<Value = Projection<f64>> {
    (
        array((width_in, width_out)),
        prop::option::of(array(width_out)),
    )
        .prop_map(|(weight, bias)| Projection::new(weight, bias).unwrap())
}

#[derive(Clone, Copy, Debug)]
struct Widths {
    heads: usize,
    d_k: usize,
    d_v: usize,
    queries: usize,
    keys: usize,
    values: usize,
    output: usize,
}

fn widths() -> impl Strategy<Value = Widths> {
    (
        1..4_usize,
        1..4_usize,
        0..4_usize,
        0..5_usize,
        0..5_usize,
        0..5_usize,
        0..5_usize,
    )
        .prop_map(|(heads, d_k, d_v, queries, keys, values, output)| Widths {
            heads,
            d_k,
            d_v,
            queries,
            keys,
            values,
            output,
        })
}

fn attention(widths: Widths) -> impl Strategy<Value = MultiHeadAttention<f64>> {
    let Widths {
        heads, d_k, d_v, ..
    } = widths;
    (
        projection(widths.queries, heads * d_k),
        projection(widths.keys, heads * d_k),
        projection(widths.values, heads * d_v),
        projection(heads * d_v, widths.output),
    )
        .prop_map(move |(q, k, v, o)| MultiHeadAttention::new(heads, q, k, v, o).unwrap())
}

/// Multi-head attention and what it is given.
#[derive(Clone)]
struct Layer {
    attention: MultiHeadAttention<f64>,
    q: Array3<f64>,
    k: Array3<f64>,
    v: Array3<f64>,
    mask: Mask,
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { q, k, v, mask, .. }, attention) = (self, &self.attention);
        write!(
            f,
            "{attention:?}\nq = {q:?}\nk = {k:?}\nv = {v:?}\nmask {mask:?} =\n{mask}"
        )
    }
}

impl Layer {
    fn answer(&self) -> MultiHeadAnswer<f64> {
        let Self { q, k, v, mask, .. } = self;
        self.attention.attend(q, k, v, mask).unwrap()
    }
}

fn layer_of(widths: Widths) -> impl Strategy<Value = Layer> {
    (0..3_usize, 0..6_usize, 0..6_usize).prop_flat_map(move |(batch, m, n)| {
        (
            attention(widths),
            array((batch, m, widths.queries)),
            array((batch, n, widths.keys)),
            array((batch, n, widths.values)),
            mask((batch, widths.heads, m, n)),
        )
            .prop_map(|(attention, q, k, v, mask)| Layer {
                attention,
                q,
                k,
                v,
                mask,
            })
    })
}

fn layer() -> impl Strategy<Value = Layer> {
    widths().prop_flat_map(layer_of)
}

/// Multi-head attention that a sequence can ask about itself, and the sequence.
fn sequence() -> impl Strategy<Value = (MultiHeadAttention<f64>, Array3<f64>)> {
    (widths(), 0..3_usize, 0..7_usize, 0..5_usize).prop_flat_map(|(widths, batch, n, d)| {
        let widths = Widths {
            queries: d,
            keys: d,
            values: d,
            ..widths
        };
        (attention(widths), array((batch, n, d)))
    })
}

// Comparisons.

/// Equal up to rounding, relative to the largest number expected.
#[track_caller]
fn assert_within<D: Dimension>(
    tolerance: f64,
    found: &ArrayBase<impl Data<Elem = f64>, D>,
    expected: &ArrayBase<impl Data<Elem = f64>, D>,
) {
    assert_eq!(found.shape(), expected.shape());
    let size = expected.fold(1.0_f64, |size, x| size.max(x.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= tolerance * size,
            "{found}\nis not\n{expected}"
        );
    }
}

#[track_caller]
fn assert_near<D: Dimension>(
    found: &ArrayBase<impl Data<Elem = f64>, D>,
    expected: &ArrayBase<impl Data<Elem = f64>, D>,
) {
    assert_within(1e-12, found, expected);
}

/// Equal to the last bit, NaN included.
#[track_caller]
fn assert_same<D: Dimension>(
    found: &ArrayBase<impl Data<Elem = f64>, D>,
    expected: &ArrayBase<impl Data<Elem = f64>, D>,
) {
    assert_eq!(found.shape(), expected.shape());
    assert!(
        found
            .iter()
            .zip(expected)
            .all(|(a, b)| a.to_bits() == b.to_bits()),
        "{found}\nis not, bit by bit,\n{expected}"
    );
}

#[track_caller]
fn assert_answers_near(found: &Answer, expected: &Answer) {
    assert_near(&found.0, &expected.0);
    assert_near(&found.1, &expected.1);
}

/// Not negative, and together 1, or all 0 where nothing could be chosen.
#[track_caller]
fn assert_shares(weights: &Array2<f64>, mut may_choose: impl FnMut(usize) -> bool) {
    for (i, row) in weights.rows().into_iter().enumerate() {
        assert!(row.iter().all(|&a| a >= 0.0), "{row}");
        let expected = if may_choose(i) { 1.0 } else { 0.0 };
        assert!((row.sum() - expected).abs() < 1e-12, "{row}");
    }
}

fn single_precision<S: Data<Elem = f64>, D: Dimension>(x: &ArrayBase<S, D>) -> Array<f32, D> {
    x.mapv(|x| x as f32)
}

fn double_precision<S: RawData<Elem = f32> + Data, D: Dimension>(
    x: &ArrayBase<S, D>,
) -> Array<f64, D> {
    x.mapv(f64::from)
}

fn same_mask(left: &Mask, right: &Mask, shape: Shape) -> bool {
    left.fit(shape).unwrap() == right.fit(shape).unwrap()
}

// Attention in the plainest words: one number after the other.

fn plain_softmax(scores: &[f64], allowed: &[bool]) -> Vec<f64> {
    let mut largest = f64::NEG_INFINITY;
    for j in 0..scores.len() {
        if allowed[j] && scores[j] > largest {
            largest = scores[j];
        }
    }
    let mut sum = 0.0;
    for j in 0..scores.len() {
        if allowed[j] {
            sum += (scores[j] - largest).exp();
        }
    }
    let mut weights = vec![0.0; scores.len()];
    for j in 0..scores.len() {
        if allowed[j] {
            weights[j] = (scores[j] - largest).exp() / sum;
        }
    }
    weights
}

fn plain_attention(problem: &Problem) -> Answer {
    let Problem { q, k, v, .. } = problem;
    let (batch, heads, m, n) = problem.shape();
    let (d_k, d_v) = (q.dim().3, v.dim().3);
    let allowed = problem.allowed();
    let mut output = Array4::zeros((batch, heads, m, d_v));
    let mut weights = Array4::zeros((batch, heads, m, n));
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..m {
                let mut scores = vec![0.0; n];
                let mut may = vec![false; n];
                for j in 0..n {
                    for c in 0..d_k {
                        scores[j] += q[[b, h, i, c]] * k[[b, h, j, c]];
                    }
                    scores[j] /= (d_k as f64).sqrt();
                    may[j] = allowed[[b, h, i, j]];
                }
                let row = plain_softmax(&scores, &may);
                for j in 0..n {
                    weights[[b, h, i, j]] = row[j];
                    for c in 0..d_v {
                        output[[b, h, i, c]] += row[j] * v[[b, h, j, c]];
                    }
                }
            }
        }
    }
    (output, weights)
}

fn plain_projection(x: &Array3<f64>, projection: &Projection<f64>) -> Array3<f64> {
    let (batch, n, width) = x.dim();
    let weight = projection.weight();
    let mut y = Array3::zeros((batch, n, weight.ncols()));
    for b in 0..batch {
        for i in 0..n {
            for c in 0..weight.ncols() {
                for w in 0..width {
                    y[[b, i, c]] += x[[b, i, w]] * weight[[w, c]];
                }
                if let Some(bias) = projection.bias() {
                    y[[b, i, c]] += bias[c];
                }
            }
        }
    }
    y
}

fn plain_split(x: &Array3<f64>, heads: usize) -> Array4<f64> {
    let (batch, n, width) = x.dim();
    let d = width / heads;
    let mut split = Array4::zeros((batch, heads, n, d));
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..n {
                for c in 0..d {
                    split[[b, h, i, c]] = x[[b, i, h * d + c]];
                }
            }
        }
    }
    split
}

fn plain_multi_head(layer: &Layer) -> (Array3<f64>, Array4<f64>) {
    let heads = layer.attention.heads();
    let [query, key, value, output] = layer.attention.projections();
    let project = |x, projection| plain_split(&plain_projection(x, projection), heads);
    let (answers, weights) = plain_attention(&Problem {
        q: project(&layer.q, query),
        k: project(&layer.k, key),
        v: project(&layer.v, value),
        mask: layer.mask.clone(),
    });
    let (batch, _, m, d_v) = answers.dim();
    let mut joined = Array3::zeros((batch, m, heads * d_v));
    for b in 0..batch {
        for i in 0..m {
            for h in 0..heads {
                for c in 0..d_v {
                    joined[[b, i, h * d_v + c]] = answers[[b, h, i, c]];
                }
            }
        }
    }
    (plain_projection(&joined, output), weights)
}

// Against plain loops.

#[test]
fn attention_is_what_plain_loops_compute() {
    check(problem(), |problem| {
        assert_answers_near(&problem.answer(), &plain_attention(&problem));
    });
}

/// Holds every way of chapter 10 against these answers.
#[track_caller]
fn assert_cheaper_near(problem: &Problem, parts: usize, expected: &Array4<f64>) {
    let visible = Visible::everything().and(&problem.mask);
    let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view());
    for answer in [
        tiled_attention(&q, &k, &v, &visible, parts),
        spread_attention(&q, &k, &v, &visible, parts),
        ring_attention(&q, &k, &v, &visible, parts),
    ] {
        assert_near(&answer.unwrap(), expected);
    }
    let [q, k, v] = [q, k, v].map(|x| single_precision(&x));
    let fast = fast_attention(&q, &k, &v, &visible).unwrap();
    assert_within(1e-5, &double_precision(&fast), expected);
}

#[test]
fn cheaper_attention_is_what_plain_loops_compute() {
    check((problem(), 1..9_usize), |(problem, parts)| {
        let (expected, _) = plain_attention(&problem);
        assert_cheaper_near(&problem, parts, &expected);
    });
}

#[test]
fn the_operator_of_onnx_is_what_plain_loops_compute() {
    check(problem(), |problem| {
        let (expected, _) = plain_attention(&problem);
        let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view().into_dyn());
        let allowed = problem.allowed().into_dyn();
        let added = problem.mask.to_additive::<f64>().into_dyn();
        for mask in [
            OnnxMask::Allowed(allowed.view()),
            OnnxMask::Added(added.view()),
        ] {
            // A mask of one column is not stretched but filled up.
            if added.len_of(Axis(3)) != problem.shape().3 && matches!(mask, OnnxMask::Added(_)) {
                continue;
            }
            let [queries, keys, values] = [&q, &k, &v].map(|x| x.view());
            let inputs = OnnxInputs {
                queries,
                keys,
                values,
                mask: Some(mask),
                past: None,
                lengths: None,
            };
            let answer = OnnxAttention::default().attend(&inputs).unwrap();
            assert_near(&answer.output, &expected.view().into_dyn());
        }
    });
}

#[test]
fn multi_head_attention_is_what_plain_loops_compute() {
    check(layer(), |layer| {
        let (output, weights) = plain_multi_head(&layer);
        let answer = layer.answer();
        assert_near(&answer.output, &output);
        assert_near(&answer.weights, &weights);
    });
}

#[test]
fn scores_are_what_plain_loops_compute() {
    check(single(), |Single { q, k, .. }| {
        let mut dots = Array2::zeros((q.nrows(), k.nrows()));
        let mut cosines = dots.clone();
        for i in 0..q.nrows() {
            for j in 0..k.nrows() {
                let (mut dot, mut qq, mut kk) = (0.0, 0.0, 0.0);
                for c in 0..q.ncols() {
                    dot += q[[i, c]] * k[[j, c]];
                    qq += q[[i, c]] * q[[i, c]];
                    kk += k[[j, c]] * k[[j, c]];
                }
                dots[[i, j]] = dot;
                if qq > 0.0 && kk > 0.0 {
                    cosines[[i, j]] = dot / (f64::sqrt(qq) * f64::sqrt(kk));
                }
                let score = dot_score(&q.row(i), &k.row(j)).unwrap();
                assert!((score - dot).abs() <= 1e-12 * dot.abs().max(1.0));
            }
        }
        assert_near(&alignment_scores(&q, &k).unwrap(), &dots);
        let scaled = scaled_scores(&q, &k).unwrap();
        assert_near(&scaled, &(&dots / (q.ncols() as f64).sqrt()));
        let found = cosine_scores(&q, &k).unwrap();
        assert_near(&found, &cosines);
        assert!(found.iter().all(|x| x.abs() <= 1.0 + 1e-12));
    });
}

#[test]
fn scores_with_weights_are_what_plain_loops_compute() {
    let widths = (0..5_usize, 0..5_usize, 0..5_usize, 0..5_usize, 0..5_usize);
    let inputs = widths.prop_flat_map(|(m, n, d_q, d_k, d_a)| {
        (
            array((m, d_q)),
            array((n, d_k)),
            array((d_q, d_k)),
            array((d_a, d_q)),
            array((d_a, d_k)),
            array(d_a),
        )
    });
    check(inputs, |(q, k, w, w_q, w_k, v)| {
        let mut bilinear = Array2::zeros((q.nrows(), k.nrows()));
        let mut additive = bilinear.clone();
        for i in 0..q.nrows() {
            for j in 0..k.nrows() {
                for c in 0..q.ncols() {
                    for d in 0..k.ncols() {
                        bilinear[[i, j]] += q[[i, c]] * w[[c, d]] * k[[j, d]];
                    }
                }
                for a in 0..v.len() {
                    let mut hidden = 0.0;
                    for c in 0..q.ncols() {
                        hidden += w_q[[a, c]] * q[[i, c]];
                    }
                    for d in 0..k.ncols() {
                        hidden += w_k[[a, d]] * k[[j, d]];
                    }
                    additive[[i, j]] += v[a] * f64::tanh(hidden);
                }
            }
        }
        let found = bilinear_scores(&q, &w, &k).unwrap();
        assert_near(&found, &bilinear);
        let found = additive_scores(&q, &k, &w_q, &w_k, &v).unwrap();
        assert_near(&found, &additive);
    });
}

// Weights.

#[test]
fn rows_of_weights_are_shares() {
    check(problem(), |problem| {
        let (_, weights) = problem.answer();
        let allowed = problem.allowed();
        for ((b, h, i, j), &weight) in weights.indexed_iter() {
            assert!(allowed[[b, h, i, j]] || weight == 0.0);
        }
        let (batch, heads, ..) = problem.shape();
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            assert_shares(&weights.slice(s![b, h, .., ..]).to_owned(), |i| {
                allowed.slice(s![b, h, i, ..]).iter().any(|&may| may)
            });
        }
    });
}

#[test]
fn rows_of_softmax_are_shares() {
    let scores = (0..7_usize, 0..7_usize).prop_flat_map(|shape| {
        let score = prop_oneof![4 => number(), 1 => -1e4..1e4, 2 => Just(f64::NEG_INFINITY)];
        filled(shape, score)
    });
    check(scores, |scores| {
        assert_shares(&attention_weights(&scores), |i| {
            scores.row(i).iter().any(|e| e.is_finite())
        });
    });
}

#[test]
fn softmax_does_not_notice_a_shift() {
    check((row(), -1e3_f64..1e3), |(scores, shift)| {
        let shifted = &scores + shift;
        let weights = softmax(&scores);
        assert_within(1e-11, &softmax(&shifted), &weights);
        assert_near(&naive_softmax(&scores), &weights);
        if !scores.is_empty() {
            let difference = log_sum_exp(&shifted) - log_sum_exp(&scores);
            assert!((difference - shift).abs() < 1e-11);
            let logarithms = weights.mapv(f64::ln) + log_sum_exp(&scores);
            assert_near(&logarithms, &scores);
        }
    });
}

#[test]
fn masked_weights_do_not_notice_a_shift() {
    let inputs = (problem(), -1e3_f64..1e3);
    check(inputs, |(problem, shift)| {
        let scores = batched_scaled_scores(&problem.q, &problem.k).unwrap();
        let weights = |scores: Array4<f64>| masked_softmax(&scores, &problem.mask).unwrap();
        assert_within(1e-11, &weights(&scores + shift), &weights(scores));
    });
}

#[test]
fn temperature_divides_the_scores() {
    check((row(), 0.1_f64..10.0), |(scores, temperature)| {
        let found = softmax_with_temperature(&scores, temperature).unwrap();
        assert_near(&found, &softmax(&(&scores / temperature)));
    });
}

#[test]
fn the_jacobian_is_the_slope_of_the_softmax() {
    check(row(), |scores| {
        let jacobian = softmax_jacobian(&softmax(&scores));
        assert_same(&jacobian, &jacobian.t());
        let step = 1e-6;
        for j in 0..scores.len() {
            let moved = |by: f64| {
                let mut scores = scores.clone();
                scores[j] += by;
                softmax(&scores)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            assert_within(1e-8, &jacobian.column(j), &slope);
        }
    });
}

#[test]
fn an_answer_lies_between_the_values() {
    check(single(), |Single { q, k, v }| {
        let answer = scaled_dot_product_attention(&q, &k, &v).unwrap();
        for (column, values) in answer.output.columns().into_iter().zip(v.columns()) {
            let smallest = values.fold(f64::INFINITY, |a, &b| a.min(b));
            let largest = values.fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            for &x in column.iter().filter(|_| !values.is_empty()) {
                assert!(smallest - 1e-12 <= x && x <= largest + 1e-12);
            }
        }
    });
}

// Order.

#[test]
fn the_order_of_keys_does_not_matter() {
    let inputs = problem().prop_flat_map(|problem| {
        let n = problem.shape().3;
        (Just(problem), order(n))
    });
    check(inputs, |(problem, order)| {
        let allowed = problem.allowed();
        let permuted = Problem {
            q: problem.q.clone(),
            k: problem.k.select(Axis(2), &order),
            v: problem.v.select(Axis(2), &order),
            mask: Mask::from_fn(problem.shape(), |b, h, i, j| allowed[[b, h, i, order[j]]]),
        };
        let (output, weights) = problem.answer();
        let expected = (output, weights.select(Axis(3), &order));
        assert_answers_near(&permuted.answer(), &expected);
    });
}

#[test]
fn the_order_of_queries_is_the_order_of_answers() {
    let inputs = problem().prop_flat_map(|problem| {
        let m = problem.shape().2;
        (Just(problem), order(m))
    });
    check(inputs, |(problem, order)| {
        let allowed = problem.allowed();
        let permuted = Problem {
            q: problem.q.select(Axis(2), &order),
            k: problem.k.clone(),
            v: problem.v.clone(),
            mask: Mask::from_fn(problem.shape(), |b, h, i, j| allowed[[b, h, order[i], j]]),
        };
        let (output, weights) = problem.answer();
        let expected = (
            output.select(Axis(2), &order),
            weights.select(Axis(2), &order),
        );
        assert_answers_near(&permuted.answer(), &expected);
    });
}

#[test]
fn heads_and_sequences_do_not_touch_each_other() {
    check(problem(), |problem| {
        let (output, weights) = problem.answer();
        let allowed = problem.allowed();
        let (batch, heads, m, n) = problem.shape();
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let mask = Mask::from_fn((1, 1, m, n), |_, _, i, j| allowed[[b, h, i, j]]);
            let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.slice(s![b, h, .., ..]));
            let alone = masked_attention(&q, &k, &v, &mask).unwrap();
            assert_same(&output.slice(s![b, h, .., ..]), &alone.output);
            assert_same(&weights.slice(s![b, h, .., ..]), &alone.weights);
        }
    });
}

#[test]
fn self_attention_without_positions_has_no_order() {
    let inputs = sequence().prop_flat_map(|(attention, x)| {
        let n = x.dim().1;
        (Just(attention), Just(x), order(n))
    });
    check(inputs, |(attention, x, order)| {
        let ask = |x: &Array3<f64>| self_attention(&attention, x, &Mask::everything());
        let permuted = ask(&x.select(Axis(1), &order)).unwrap();
        let expected = ask(&x).unwrap().output.select(Axis(1), &order);
        assert_near(&permuted.output, &expected);
    });
}

// What is hidden.

#[test]
fn masked_keys_have_no_influence() {
    let inputs = problem()
        .prop_filter("a key to change", |problem| problem.shape().3 > 0)
        .prop_flat_map(|problem| {
            let (_, _, _, n) = problem.shape();
            (Just(problem), 0..n, poison(), poison())
        });
    check(inputs, |(problem, changed, key, value)| {
        let mut poisoned = problem.clone();
        poisoned.k.slice_mut(s![.., .., changed, ..]).fill(key);
        poisoned.v.slice_mut(s![.., .., changed, ..]).fill(value);
        let (before, after) = (problem.answer(), poisoned.answer());
        for ((b, h, i), _) in before.0.map_axis(Axis(3), |_| ()).indexed_iter() {
            if !problem.allowed()[[b, h, i, changed]] {
                let row = s![b, h, i, ..];
                assert_same(&after.0.slice(row), &before.0.slice(row));
                assert_same(&after.1.slice(row), &before.1.slice(row));
            }
        }
    });
}

#[test]
fn masked_keys_have_no_influence_on_cheaper_attention() {
    let inputs = problem()
        .prop_filter("a key to change", |problem| problem.shape().3 > 0)
        .prop_flat_map(|problem| {
            let (_, _, _, n) = problem.shape();
            (Just(problem), 0..n, poison(), poison(), 1..9_usize)
        });
    check(inputs, |(mut problem, changed, key, value, parts)| {
        let allowed = problem.allowed();
        problem.mask = Mask::from_fn(problem.shape(), |b, h, i, j| {
            j != changed && allowed[[b, h, i, j]]
        });
        let (expected, _) = plain_attention(&problem);
        problem.k.slice_mut(s![.., .., changed, ..]).fill(key);
        problem.v.slice_mut(s![.., .., changed, ..]).fill(value);
        assert_cheaper_near(&problem, parts, &expected);
    });
}

#[test]
fn padding_has_no_influence_on_any_head() {
    let inputs = layer().prop_flat_map(|layer| {
        let (batch, n, _) = layer.k.dim();
        (Just(layer), vec(0..=n, batch), poison(), poison())
    });
    check(inputs, |(mut layer, lengths, key, value)| {
        layer.mask = Mask::padding(&lengths, layer.k.dim().1).unwrap();
        let mut poisoned = layer.clone();
        for (b, &length) in lengths.iter().enumerate() {
            poisoned.k.slice_mut(s![b, length.., ..]).fill(key);
            poisoned.v.slice_mut(s![b, length.., ..]).fill(value);
        }
        let (before, after) = (layer.answer(), poisoned.answer());
        assert_same(&after.output, &before.output);
        assert_same(&after.weights, &before.weights);
    });
}

#[test]
fn a_query_that_sees_nothing_gets_zeros() {
    check(problem(), |mut problem| {
        problem.mask = Mask::from_fn((1, 1, 1, 1), |_, _, _, _| false);
        let (output, weights) = problem.answer();
        assert!(output.iter().chain(&weights).all(|&x| x == 0.0));
    });
}

#[test]
fn the_future_does_not_change_the_past() {
    let inputs = sequence()
        .prop_filter("a position to change", |(_, x)| x.dim().1 > 0)
        .prop_flat_map(|(attention, x)| {
            let n = x.dim().1;
            let masks = prop_oneof![
                Just(Mask::causal(n, n)),
                Just(Mask::window(n, n, 2).unwrap())
            ];
            (Just(attention), Just(x), masks, 0..n, poison())
        });
    check(inputs, |(attention, x, mask, now, poison)| {
        let mut changed = x.clone();
        changed.slice_mut(s![.., now + 1.., ..]).fill(poison);
        let ask = |x: &Array3<f64>| self_attention(&attention, x, &mask).unwrap();
        let (before, after) = (ask(&x), ask(&changed));
        let past = s![.., ..=now, ..];
        assert_same(&after.output.slice(past), &before.output.slice(past));
        let past = s![.., .., ..=now, ..];
        assert_same(&after.weights.slice(past), &before.weights.slice(past));
    });
}

/// What a cache of keys and values relies on.
#[test]
fn the_last_queries_alone_get_the_last_answers() {
    let inputs = sequence().prop_flat_map(|(attention, x)| {
        let n = x.dim().1;
        (Just(attention), Just(x), 0..=n)
    });
    check(inputs, |(attention, x, m)| {
        let n = x.dim().1;
        let whole = self_attention(&attention, &x, &Mask::causal(n, n)).unwrap();
        let last = x.slice(s![.., n - m.., ..]);
        let answer = attention
            .attend(&last, &x, &x, &Mask::causal(m, n))
            .unwrap();
        assert_near(&answer.output, &whole.output.slice(s![.., n - m.., ..]));
        assert_near(
            &answer.weights,
            &whole.weights.slice(s![.., .., n - m.., ..]),
        );
    });
}

#[test]
fn a_cache_gives_the_answers_of_the_full_pass() {
    let inputs = problem().prop_flat_map(|problem| {
        let (_, _, m, n) = problem.shape();
        let queries = if m < n { 0..=m } else { 0..=n };
        (Just(problem), queries, 1..4_usize)
    });
    check(inputs, |(problem, m, chunk)| {
        let Problem { q, k, v, .. } = problem;
        let ((batch, heads, n, d_k), d_v) = (k.dim(), v.dim().3);
        let mut cache = KeyValueCache::new(batch, heads, n, (d_k, d_v));
        for first in (0..n).step_by(chunk) {
            let new = s![.., .., first..n.min(first + chunk), ..];
            cache.extend(&k.slice(new), &v.slice(new)).unwrap();
        }
        let (last, mask) = (q.slice(s![.., .., ..m, ..]), Mask::causal(m, n));
        let found = cache.ask(&last, &mask).unwrap();
        let whole = Problem {
            q: last.to_owned(),
            k,
            v,
            mask,
        };
        assert_answers_near(&(found.output, found.weights), &plain_attention(&whole));
    });
}

#[test]
fn an_additive_mask_gives_the_same_weights() {
    check(problem(), |problem| {
        let scores = batched_scaled_scores(&problem.q, &problem.k).unwrap();
        let added = &scores + &problem.mask.to_additive::<f64>();
        let expected = masked_softmax(&scores, &problem.mask).unwrap();
        let found = masked_softmax(&added, &Mask::everything()).unwrap();
        assert_same(&found, &expected);
    });
}

// One function in the words of another.

#[test]
fn no_mask_is_plain_attention() {
    check(single(), |Single { q, k, v }| {
        let plain = scaled_dot_product_attention(&q, &k, &v).unwrap();
        let masked = masked_attention(&q, &k, &v, &Mask::everything());
        assert_near(&masked.unwrap().output, &plain.output);
        let scores = scaled_scores(&q, &k).unwrap();
        let from_scores = attend(&scores, &v).unwrap();
        assert_same(&from_scores.output, &plain.output);
        assert_same(&attention_weights(&scores), &plain.weights);
        let sum = weighted_sum(&plain.weights, &v).unwrap();
        assert_same(&sum, &plain.output);
    });
}

#[test]
fn one_head_is_plain_attention_between_projections() {
    let layers = widths().prop_flat_map(|widths| layer_of(Widths { heads: 1, ..widths }));
    check(layers, |layer| {
        let answer = layer.answer();
        let [query, key, value, output] = layer.attention.projections();
        let q = query.apply(&layer.q).unwrap();
        let k = key.apply(&layer.k).unwrap();
        let v = value.apply(&layer.v).unwrap();
        let head = |x: &Array3<f64>| x.clone().insert_axis(Axis(1));
        let (plain, weights) = Problem {
            q: head(&q),
            k: head(&k),
            v: head(&v),
            mask: layer.mask.clone(),
        }
        .answer();
        let plain = plain.index_axis_move(Axis(1), 0);
        assert_near(&answer.output, &output.apply(&plain).unwrap());
        assert_near(&answer.weights, &weights);
    });
}

#[test]
fn a_memory_may_be_asked_part_by_part() {
    check(layer(), |layer| {
        let answer = layer.answer();
        let memory = layer.attention.remember(&layer.k, &layer.v).unwrap();
        let asked = layer.attention.ask(&layer.q, &memory, &layer.mask);
        assert_eq!(asked.unwrap(), answer);
        for (i, query) in layer.q.axis_iter(Axis(1)).enumerate() {
            let query = query.insert_axis(Axis(1));
            let (batch, heads, m, n) = answer.weights.dim();
            let allowed = layer.mask.fit((batch, heads, m, n)).unwrap();
            let mask = Mask::from_fn((batch, heads, 1, n), |b, h, _, j| allowed[[b, h, i, j]]);
            let one = layer.attention.ask(&query, &memory, &mask).unwrap();
            assert_near(&one.output, &answer.output.slice(s![.., i..=i, ..]));
        }
    });
}

#[test]
fn cross_attention_with_itself_is_self_attention() {
    let inputs = sequence().prop_flat_map(|(attention, x)| {
        let (batch, n, _) = x.dim();
        let mask = mask((batch, attention.heads(), n, n));
        (Just(attention), Just(x), mask)
    });
    check(inputs, |(attention, x, mask)| {
        let crossed = cross_attention(&attention, &x, &x, &mask).unwrap();
        let itself = self_attention(&attention, &x, &mask).unwrap();
        assert_same(&crossed.output, &itself.output);
        assert_same(&crossed.weights, &itself.weights);
    });
}

#[test]
fn averaged_weights_are_shares() {
    check(layer(), |mut layer| {
        layer.mask = Mask::everything();
        let answer = layer.answer();
        let average = answer.average_weights();
        let (_, heads, _, n) = answer.weights.dim();
        for ((b, i, j), &found) in average.indexed_iter() {
            let expected = answer.weights.slice(s![b, .., i, j]).sum() / heads as f64;
            assert!((found - expected).abs() < 1e-12);
        }
        for matrix in average.outer_iter() {
            assert_shares(&matrix.to_owned(), |_| n > 0);
        }
    });
}

#[test]
fn alignment_is_the_first_of_the_largest() {
    let weights = (0..5_usize, 0..5_usize)
        .prop_flat_map(|shape| filled(shape, (0..4_u8).prop_map(|x| f64::from(x) / 4.0)));
    check(weights, |weights| {
        for (row, found) in weights.rows().into_iter().zip(alignment(&weights)) {
            let largest = row.fold(0.0, |a: f64, &b| a.max(b));
            let first = row.iter().position(|&x| x == largest && x > 0.0);
            assert_eq!(found, first, "{row}");
        }
    });
}

// Dropout.

#[test]
fn dropout_removes_a_weight_or_enlarges_it() {
    let inputs = (problem(), 0.0_f64..1.0, any::<u64>());
    check(inputs, |(problem, p, seed)| {
        let (_, weights) = problem.answer();
        let rng = || ChaCha8Rng::seed_from_u64(seed);
        let dropped = dropout(&weights, p, &mut rng()).unwrap();
        for (&found, &weight) in dropped.iter().zip(&weights) {
            assert!(found == 0.0 || (found * (1.0 - p) - weight).abs() < 1e-12);
        }
        assert_same(&dropout(&weights, 0.0, &mut rng()).unwrap(), &weights);
    });
}

#[test]
fn dropout_is_for_training_alone() {
    let inputs = (layer(), 0.0_f64..1.0, any::<u64>());
    check(inputs, |(layer, p, seed)| {
        let dropping = layer.attention.clone().with_dropout(p).unwrap();
        let (k, v) = (layer.k.view(), layer.v.view());
        let memory = dropping.remember(&k, &v).unwrap();
        let answer = layer.answer();
        assert_eq!(
            dropping.ask(&layer.q, &memory, &layer.mask).unwrap(),
            answer
        );
        let steps = dropping.ask_in_steps(&layer.q, &memory, &layer.mask);
        let steps = steps.unwrap();
        assert_same(&steps.output, &answer.output);
        assert_same(&steps.weights, &answer.weights);
        assert_same(&steps.kept, &answer.weights);
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let without = layer
            .attention
            .ask_in_training(&layer.q, &memory, &layer.mask, rng)
            .unwrap();
        assert_eq!(without, steps);
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let trained = dropping
            .ask_in_training(&layer.q, &memory, &layer.mask, rng)
            .unwrap();
        assert_same(&trained.queries, &steps.queries);
        assert_same(&trained.weights, &answer.weights);
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let kept = dropout(&answer.weights, p, rng).unwrap();
        assert_same(&trained.kept, &kept);
        let answers = masked_sum(&kept, &memory.values, &layer.mask).unwrap();
        assert_same(&trained.merged, &merge_heads(&answers));
        let [.., output] = layer.attention.projections();
        let expected = output.apply(&trained.merged).unwrap();
        assert_same(&trained.output, &expected);
    });
}

#[test]
fn changed_numbers_are_those_of_a_new_projection() {
    check((layer(), -2.0..2.0), |(mut layer, factor)| {
        let heads = layer.attention.heads();
        let [q, k, v, o] = layer.attention.projections().map(|old| {
            let bias = old.bias().map(|bias| bias * factor);
            Projection::new(old.weight() * factor, bias).unwrap()
        });
        let new = MultiHeadAttention::new(heads, q, k, v, o).unwrap();
        for projection in layer.attention.projections_mut() {
            let (mut weight, bias) = projection.numbers_mut();
            weight *= factor;
            if let Some(mut bias) = bias {
                bias *= factor;
            }
        }
        assert_eq!(layer.attention, new);
    });
}

// Precision and size.

#[test]
fn single_precision_stays_near_double() {
    check(layer(), |mut layer| {
        for x in [&mut layer.q, &mut layer.k, &mut layer.v] {
            *x = double_precision(&single_precision(x));
        }
        let single = |x: &Projection<f64>| {
            let bias = x.bias().map(single_precision);
            Projection::new(single_precision(x.weight()), bias).unwrap()
        };
        let double = |x: Projection<f32>| {
            let bias = x.bias().map(double_precision);
            Projection::new(double_precision(x.weight()), bias).unwrap()
        };
        let heads = layer.attention.heads();
        let [q, k, v, o] = layer.attention.projections().map(single);
        let attention = MultiHeadAttention::new(heads, q, k, v, o).unwrap();
        let [q, k, v, o] = attention.projections().map(|x| double(x.clone()));
        layer.attention = MultiHeadAttention::new(heads, q, k, v, o).unwrap();
        let [q, k, v] = [&layer.q, &layer.k, &layer.v].map(single_precision);
        let found = attention.attend(&q, &k, &v, &layer.mask).unwrap();
        // An error in a score, relative to its size, becomes one in the weights.
        let expected = layer.answer();
        assert_within(1e-4, &double_precision(&found.weights), &expected.weights);
        assert_within(5e-4, &double_precision(&found.output), &expected.output);
    });
}

#[test]
fn single_precision_of_small_scores_is_close() {
    check(problem(), |problem| {
        let small = |x: &Array4<f64>| double_precision(&single_precision(&(x / 3.0)));
        let problem = Problem {
            q: small(&problem.q),
            k: small(&problem.k),
            v: small(&problem.v),
            ..problem
        };
        let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(single_precision);
        let found = batched_attention(&q, &k, &v, &problem.mask).unwrap();
        let expected = problem.answer();
        assert_within(2e-6, &double_precision(&found.output), &expected.0);
        assert_within(2e-6, &double_precision(&found.weights), &expected.1);
    });
}

#[test]
fn large_scores_stay_finite() {
    let inputs = (1..7_usize, 1..7_usize, any::<bool>()).prop_flat_map(|(m, n, edge)| {
        let score = if edge {
            prop_oneof![Just(-1e4), Just(1e4)].boxed()
        } else {
            (-1e4..1e4).boxed()
        };
        (filled((m, n), score), array((n, 3)))
    });
    check(inputs, |(scores, values)| {
        let attention = attend(&scores, &values).unwrap();
        assert_shares(&attention.weights, |_| true);
        assert!(attention.output.iter().all(|x| x.is_finite()));
        let weights = attention_weights(&single_precision(&scores));
        assert!(weights.iter().all(|a| a.is_finite()));
        assert!(
            weights
                .rows()
                .into_iter()
                .all(|row| (row.sum() - 1.0).abs() < 1e-5)
        );
        let logarithms = scores.map_axis(Axis(1), |row| log_sum_exp(&row));
        assert!(logarithms.iter().all(|x| x.is_finite()));
    });
}

#[test]
fn large_queries_give_finite_answers() {
    check((problem(), 1e3_f64..1e4), |(mut problem, factor)| {
        problem.q *= factor;
        let (output, weights) = problem.answer();
        assert!(output.iter().chain(&weights).all(|x| x.is_finite()));
        let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(single_precision);
        let single = batched_attention(&q, &k, &v, &problem.mask).unwrap();
        assert!(single.output.iter().all(|x| x.is_finite()));
    });
}

// Layouts.

#[test]
fn any_layout_of_a_single_head_will_do() {
    let inputs = (single(), layout(), layout(), layout());
    check(inputs, |(Single { q, k, v }, of_q, of_k, of_v)| {
        let (q2, k2, v2) = (of_q.of(&q), of_k.of(&k), of_v.of(&v));
        type Scores = fn(&ArrayRef2<f64>, &ArrayRef2<f64>) -> anyhow::Result<Array2<f64>>;
        let scores: [Scores; 3] = [alignment_scores, cosine_scores, scaled_scores];
        for score in scores {
            let expected = score(&q, &k).unwrap();
            assert_near(&score(&q2, &k2).unwrap(), &expected);
        }
        let expected = scaled_dot_product_attention(&q, &k, &v).unwrap();
        let found = scaled_dot_product_attention(&q2, &k2, &v2).unwrap();
        assert_near(&found.output, &expected.output);
        let expected = attention_weights(&k);
        assert_near(&attention_weights(&k2), &expected);
        assert_eq!(alignment(&k2), alignment(&k));
        for (row, row2) in k.rows().into_iter().zip(k2.rows()) {
            assert_near(&softmax(&row2), &softmax(&row));
            assert_near(&softmax_jacobian(&row2), &softmax_jacobian(&row));
            let warm = |row| softmax_with_temperature(row, 2.0).unwrap();
            assert_near(&warm(&row2), &warm(&row));
            assert!((log_sum_exp(&row2) - log_sum_exp(&row)).abs() < 1e-12);
            let (dot, dot2) = (
                dot_score(&row, &row).unwrap(),
                dot_score(&row2, &row2).unwrap(),
            );
            assert!((dot - dot2).abs() <= 1e-12 * dot.max(1.0));
        }
        let w = k.t();
        let expected = bilinear_scores(&q, &q.t().dot(&q), &k).unwrap();
        let found = bilinear_scores(&q2, &of_v.of(&q.t().dot(&q)), &k2);
        assert_near(&found.unwrap(), &expected);
        let bias = Array1::ones(w.ncols());
        let expected = additive_scores(&q, &k, &w.t(), &w.t(), &bias).unwrap();
        let w2 = of_v.of(&k);
        let found = additive_scores(&q2, &k2, &w2, &w2, &bias);
        assert_near(&found.unwrap(), &expected);
    });
}

#[test]
fn any_layout_of_many_heads_will_do() {
    let inputs = (problem(), layout(), layout(), layout());
    check(inputs, |(problem, of_q, of_k, of_v)| {
        let other = Problem {
            q: of_q.of(&problem.q),
            k: of_k.of(&problem.k),
            v: of_v.of(&problem.v),
            mask: problem.mask.clone(),
        };
        let expected = problem.answer();
        assert_answers_near(&other.answer(), &expected);
        let weights = of_k.of(&expected.1);
        let sum = masked_sum(&weights, &other.v, &problem.mask).unwrap();
        assert_near(&sum, &expected.0);
        assert_same(&merge_heads(&other.v), &merge_heads(&problem.v));
        let shares = masked_softmax(&weights, &problem.mask).unwrap();
        let expected = masked_softmax(&expected.1, &problem.mask).unwrap();
        assert_near(&shares, &expected);
        let positions: Vec<usize> = (0..problem.v.dim().2).collect();
        if problem.v.dim().3 % 2 == 0 {
            let expected = rotate(&problem.v, &positions).unwrap();
            assert_same(&rotate(&other.v, &positions).unwrap(), &expected);
        }
    });
}

#[test]
fn any_layout_of_sequences_will_do() {
    let inputs = (layer(), layout(), layout(), layout());
    check(inputs, |(layer, of_q, of_k, of_v)| {
        let other = Layer {
            q: of_q.of(&layer.q),
            k: of_k.of(&layer.k),
            v: of_v.of(&layer.v),
            ..layer.clone()
        };
        assert_near(&other.answer().output, &layer.answer().output);
        for heads in 1..4 {
            if layer.q.dim().2 % heads == 0 {
                let expected = split_heads(&layer.q, heads).unwrap();
                assert_same(&split_heads(&other.q, heads).unwrap(), &expected);
            }
        }
        let expected = batched_scores(&layer.k, &layer.k).unwrap();
        let found = batched_scores(&other.k, &of_v.of(&layer.k));
        assert_near(&found.unwrap(), &expected);
    });
}

#[test]
fn arrays_broadcast_along_an_axis_will_do() {
    let inputs = (0..3_usize, 0..3_usize, 0..5_usize, 1..5_usize, 0..4_usize).prop_flat_map(
        |(batch, heads, n, d, axis)| {
            let mut flat = [batch, heads, n, d];
            flat[axis] = 1;
            (array(flat), Just((batch, heads, n, d)))
        },
    );
    check(inputs, |(base, shape)| {
        let view = base.broadcast(shape).unwrap();
        let owned = view.as_standard_layout().into_owned();
        let mask = Mask::causal(shape.2, shape.2);
        let expected = batched_attention(&owned, &owned, &owned, &mask).unwrap();
        let found = batched_attention(&view, &view, &view, &mask).unwrap();
        assert_near(&found.output, &expected.output);
        assert_near(&found.weights, &expected.weights);
        assert_same(&merge_heads(&view), &merge_heads(&owned));
        if shape.0 > 0 {
            let (view, owned) = (view.index_axis(Axis(0), 0), owned.index_axis(Axis(0), 0));
            assert_same(
                &split_heads(&view, 1).unwrap(),
                &split_heads(&owned, 1).unwrap(),
            );
            let expected = batched_scores(&owned, &owned).unwrap();
            assert_near(&batched_scores(&view, &view).unwrap(), &expected);
        }
    });
}

// Heads.

#[test]
fn merging_heads_undoes_splitting() {
    let inputs = (0..3_usize, 0..6_usize, 1..5_usize, 0..5_usize)
        .prop_flat_map(|(batch, n, heads, d)| (array((batch, n, heads * d)), Just(heads)));
    check(inputs, |(x, heads)| {
        let split = split_heads(&x, heads).unwrap();
        assert_same(&split, &plain_split(&x, heads));
        assert_same(&merge_heads(&split), &x);
        let again = merge_heads(&split);
        assert_same(&split_heads(&again, heads).unwrap(), &split);
    });
}

// Positions.

/// One query and one key, of an even width.
fn pair() -> impl Strategy<Value = (Array4<f64>, Array4<f64>)> {
    (0..4_usize).prop_flat_map(|half| (array((1, 1, 1, 2 * half)), array((1, 1, 1, 2 * half))))
}

fn turned(x: &Array4<f64>, position: usize) -> Array4<f64> {
    rotate(x, &[position]).unwrap()
}

#[test]
fn rotated_scores_depend_on_the_distance_alone() {
    let inputs = (pair(), 0..50_usize, 0..50_usize, 0..500_usize);
    check(inputs, |((q, k), at, from, shift)| {
        let score = |at, from| (&turned(&q, at) * &turned(&k, from)).sum();
        let found = score(at + shift, from + shift);
        assert!((found - score(at, from)).abs() < 1e-10);
    });
}

#[test]
fn rotating_keeps_lengths_and_adds_up() {
    let inputs = (pair(), 0..500_usize, 0..500_usize);
    check(inputs, |((x, _), first, second)| {
        let square = |x: &Array4<f64>| (x * x).sum();
        assert!((square(&turned(&x, first)) - square(&x)).abs() < 1e-11);
        assert_same(&turned(&x, 0), &x.mapv(|x| x + 0.0));
        let twice = turned(&turned(&x, first), second);
        assert_within(1e-11, &twice, &turned(&x, first + second));
    });
}

#[test]
fn sinusoidal_positions_are_sines_and_cosines() {
    check((0..20_usize, 0..8_usize), |(length, width)| {
        let positions = sinusoidal_positions::<f64>(length, width);
        assert_eq!(positions.dim(), (length, width));
        for ((p, column), &found) in positions.indexed_iter() {
            let pair = (column - column % 2) as f64;
            let angle = p as f64 / f64::powf(10_000.0, pair / width as f64);
            let expected = [angle.sin(), angle.cos()][column % 2];
            assert!((found - expected).abs() < 1e-12);
        }
    });
}

fn tokens() -> impl Strategy<Value = Array2<u32>> {
    (0..4_usize, 0..7_usize).prop_flat_map(|(batch, n)| {
        vec(0..3_u32, batch * n)
            .prop_map(move |tokens| Array2::from_shape_vec((batch, n), tokens).unwrap())
    })
}

#[test]
fn positions_count_the_real_tokens_before() {
    check(tokens(), |tokens| {
        let positions = token_positions(&tokens, 0);
        for ((b, j), &found) in positions.indexed_iter() {
            let before = tokens.slice(s![b, ..j]).iter().filter(|&&t| t != 0).count();
            let expected = if tokens[[b, j]] == 0 { 0 } else { before };
            assert_eq!(found, expected);
        }
        let turned = tokens.t().as_standard_layout().into_owned();
        assert_eq!(token_positions(&turned.t(), 0), positions);
    });
}

// Masks.

#[test]
fn masks_of_tokens_hide_the_pad() {
    check(tokens(), |tokens| {
        let (batch, n) = tokens.dim();
        let shape = (batch, 1, n, n);
        let both_ways = bidirectional_mask(&tokens, 0);
        let causal = causal_mask(&tokens, 0).unwrap();
        let real = |b, j| tokens[[b, j]] != 0;
        let expected = Mask::from_fn(shape, |b, _, _, j| real(b, j));
        assert!(same_mask(&both_ways, &expected, shape));
        let expected = Mask::from_fn(shape, |b, _, i, j| j <= i && real(b, j));
        assert!(same_mask(&causal, &expected, shape));
    });
}

#[test]
fn lengths_and_tokens_give_the_same_padding() {
    let lengths = (0..6_usize).prop_flat_map(|n| (vec(0..=n, 0..4_usize), Just(n)));
    check(lengths, |(lengths, n)| {
        let tokens = Array2::from_shape_fn((lengths.len(), n), |(b, j)| u32::from(j < lengths[b]));
        let padding = Mask::padding(&lengths, n).unwrap();
        assert_eq!(padding, Mask::padding_of_tokens(&tokens, 0));
    });
}

fn shape() -> impl Strategy<Value = Shape> {
    (0..3_usize, 0..3_usize, 0..6_usize, 0..6_usize)
}

/// A mask that shows its rows when a property fails.
#[derive(Clone)]
struct Shown(Mask);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} =\n{}", self.0, self.0)
    }
}

#[test]
fn masks_combine_in_any_order() {
    let inputs = shape().prop_flat_map(|shape| {
        let mask = || arbitrary_mask(shape).prop_map(Shown);
        (Just(shape), mask(), mask(), mask())
    });
    check(inputs, |(shape, Shown(a), Shown(b), Shown(c))| {
        let and = |x: &Mask, y: &Mask| (x & y).unwrap();
        assert_eq!(and(&a, &b), and(&b, &a));
        assert_eq!(and(&and(&a, &b), &c), and(&a, &and(&b, &c)));
        assert_eq!(and(&a, &a), a);
        assert_eq!(and(&a, &Mask::everything()), a);
        let (x, y) = (a.fit(shape).unwrap(), b.fit(shape).unwrap());
        let expected = Mask::from_fn(shape, |b, h, i, j| x[[b, h, i, j]] && y[[b, h, i, j]]);
        assert!(same_mask(&and(&a, &b), &expected, shape));
    });
}

#[test]
fn a_mask_turned_over_lets_the_keys_see() {
    check(problem(), |problem| {
        let (batch, heads, m, n) = problem.shape();
        let turned = problem.mask.transposed();
        let (there, back) = (problem.allowed(), turned.fit((batch, heads, n, m)).unwrap());
        assert_eq!(there, back.permuted_axes([0, 1, 3, 2]));
        assert_eq!(turned.transposed(), problem.mask);
    });
}

#[test]
fn masks_that_do_not_fit_are_refused() {
    let sizes = || prop::array::uniform4(0..4_usize);
    check((sizes(), sizes()), |(a, b)| {
        let mask = |[batch, heads, m, n]: [usize; 4]| {
            Mask::from_fn((batch, heads, m, n), |_, _, _, _| true)
        };
        let fits = a.iter().zip(&b).all(|(&a, &b)| a == b || a == 1 || b == 1);
        assert_eq!((&mask(a) & &mask(b)).is_ok(), fits);
        let stretches = a.iter().zip(&b).all(|(&a, &b)| a == b || a == 1);
        let [batch, heads, m, n] = b;
        assert_eq!(mask(a).fit((batch, heads, m, n)).is_ok(), stretches);
    });
}

#[test]
fn causal_masks_are_aligned_at_the_end() {
    check((0..7_usize, 0..7_usize, 1..8_usize), |(m, n, width)| {
        let shape = (1, 1, m, n);
        let causal = Mask::causal(m, n);
        let allowed = causal.fit(shape).unwrap();
        if m > 0 {
            assert!(allowed.slice(s![0, 0, m - 1, ..]).iter().all(|&may| may));
        }
        for ((_, _, i, j), &may) in allowed.indexed_iter() {
            let behind = i as i64 + n as i64 - m as i64 - j as i64;
            assert_eq!(may, behind >= 0);
        }
        if n >= m {
            assert_eq!(causal, Mask::causal_from(n - m, m, n));
        }
        let window = Mask::window(m, n, width).unwrap();
        assert_eq!((&window & &causal).unwrap(), window);
        let wider = Mask::window(m, n, width + 1).unwrap();
        assert_eq!((&window & &wider).unwrap(), window);
        assert_eq!(Mask::window(m, n, m + n + 1).unwrap(), causal);
        for row in window.fit(shape).unwrap().rows() {
            assert!(row.iter().filter(|&&may| may).count() <= width);
        }
    });
}

#[test]
fn a_mask_shows_what_it_allows() {
    let inputs = shape().prop_flat_map(|shape| arbitrary_mask(shape).prop_map(Shown));
    check(inputs, |Shown(mask)| {
        let additive = mask.to_additive::<f64>();
        assert!(additive.iter().all(|&x| x == 0.0 || x == f64::NEG_INFINITY));
        let allowed = additive.iter().filter(|&&x| x == 0.0).count();
        let shown = mask.to_string();
        assert_eq!(shown.matches('1').count(), allowed);
        assert_eq!(shown.matches('·').count(), additive.len() - allowed);
    });
}
