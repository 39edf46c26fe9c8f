//! What chapter 10 claims: the same answers, whatever they cost.

use ch04_masks::{Mask, batched_attention, masked_softmax, masked_sum};
use ch10_efficient::*;
use ndarray::{Array3, Array4, ArrayView4, Axis, array, s};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use pulp::{Arch, Simd, WithSimd};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

type Three<F> = (Array4<F>, Array4<F>, Array4<F>);

/// Queries, keys and values of random shapes, with grouped heads or without.
fn inputs() -> impl Strategy<Value = Three<f64>> {
    let sizes = (
        1..3_usize,
        1..3_usize,
        1..4_usize,
        0..9_usize,
        0..9_usize,
        1..7_usize,
        0..6_usize,
    );
    sizes.prop_flat_map(|(batch, kv_heads, group, m, n, d_k, d_v)| {
        (
            numbers((batch, kv_heads * group, m, d_k)),
            numbers((batch, kv_heads, n, d_k)),
            numbers((batch, kv_heads, n, d_v)),
        )
    })
}

fn numbers(
    shape: (usize, usize, usize, usize),
) -> impl Strategy<Value = Array4<f64>> {
    let (a, b, c, d) = shape;
    vec(-3.0..3.0, a * b * c * d)
        .prop_map(move |numbers| Array4::from_shape_vec(shape, numbers).unwrap())
}

/// A rule, and perhaps a mask of bits beside it.
#[derive(Clone, Debug)]
struct Sight {
    rule: usize,
    width: usize,
    bits: Option<Vec<bool>>,
    narrow: [bool; 4],
}

fn sight() -> impl Strategy<Value = Sight> {
    let bits = prop::option::of(vec(prop::bool::weighted(0.6), 1..40));
    (0..3_usize, 1..6_usize, bits, any::<[bool; 4]>()).prop_map(
        |(rule, width, bits, narrow)| Sight {
            rule,
            width,
            bits,
            narrow,
        },
    )
}

impl Sight {
    /// The mask of bits, for scores of this shape.
    fn mask(&self, shape: [usize; 4]) -> Option<Mask> {
        let bits = self.bits.as_ref()?;
        let [b, h, m, n] = [0, 1, 2, 3]
            .map(|axis| if self.narrow[axis] { 1 } else { shape[axis] });
        Some(Mask::from_fn((b, h, m, n), |b, h, i, j| {
            bits[(b * 7 + h * 5 + i * 3 + j) % bits.len()]
        }))
    }

    fn rule(&self) -> Visible<'static> {
        match self.rule {
            0 => Visible::everything(),
            1 => Visible::causal(),
            _ => Visible::window(self.width).unwrap(),
        }
    }

    /// The same as one mask of chapter 4.
    fn table(&self, shape: [usize; 4]) -> Mask {
        let [.., m, n] = shape;
        let rule = match self.rule {
            0 => Mask::everything(),
            1 => Mask::causal(m, n),
            _ => Mask::window(m, n, self.width).unwrap(),
        };
        match self.mask(shape) {
            None => rule,
            Some(mask) => (&rule & &mask).unwrap(),
        }
    }
}

fn shape(q: &Array4<f64>, k: &Array4<f64>) -> [usize; 4] {
    let (batch, heads, m, _) = q.dim();
    [batch, heads, m, k.len_of(Axis(2))]
}

#[track_caller]
fn assert_near(found: &Array4<f64>, expected: &Array4<f64>, tolerance: f64) {
    assert_eq!(found.dim(), expected.dim());
    for (place, &e) in expected.indexed_iter() {
        let f = found[place];
        assert!(
            (f.is_nan() && e.is_nan()) || (f - e).abs() <= tolerance,
            "{f} instead of {e} at {place:?}"
        );
    }
}

/// What chapter 4 answers.
fn expected((q, k, v): &Three<f64>, mask: &Mask) -> Array4<f64> {
    grouped_attention(q, k, v, mask).unwrap().output
}

fn single(x: &Array4<f64>) -> Array4<f32> {
    x.mapv(|x| x as f32)
}

fn all_ways(
    three: &Three<f64>,
    visible: &Visible,
    tile: usize,
) -> [Array4<f64>; 5] {
    let (q, k, v) = three;
    let (q4, k4, v4) = (single(q), single(k), single(v));
    let fast = |arch| {
        fast_attention_on(arch, &q4, &k4, &v4, visible)
            .unwrap()
            .mapv(f64::from)
    };
    [
        tiled_attention(q, k, v, visible, tile).unwrap(),
        spread_attention(q, k, v, visible, tile).unwrap(),
        ring_attention(q, k, v, visible, tile).unwrap(),
        fast(Arch::new()),
        fast(Arch::Scalar),
    ]
}

/// Chapter 4 in f64 is exact to 1e-12, and the fast way in f32 to 1e-5.
const TOLERANCES: [f64; 5] = [1e-12, 1e-12, 1e-12, 1e-5, 1e-5];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2017),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_way_is_chapter_4(three in inputs(), sight in sight(), tile in 1..11_usize) {
        let shape = shape(&three.0, &three.1);
        let mask = sight.mask(shape);
        let visible = match &mask {
            None => sight.rule(),
            Some(mask) => sight.rule().and(mask),
        };
        let right = expected(&three, &sight.table(shape));
        for (way, tolerance) in all_ways(&three, &visible, tile).iter().zip(TOLERANCES) {
            assert_near(way, &right, tolerance);
        }
    }

    #[test]
    fn what_is_hidden_does_not_matter(
        (q, mut k, mut v) in inputs(),
        poison in prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        tile in 1..11_usize,
    ) {
        let n = k.len_of(Axis(2));
        let hidden = n / 2;
        let mask = Mask::from_fn((1, 1, 1, n), |_, _, _, j| j != hidden);
        let right = expected(&(q.clone(), k.clone(), v.clone()), &mask);
        if n > 0 {
            k.index_axis_mut(Axis(2), hidden).fill(poison);
            v.index_axis_mut(Axis(2), hidden).fill(poison);
        }
        let visible = Visible::everything().and(&mask);
        for (way, tolerance) in all_ways(&(q, k, v), &visible, tile).iter().zip(TOLERANCES) {
            assert_near(way, &right, tolerance);
        }
    }

    #[test]
    fn a_nan_that_is_seen_is_not_hidden(
        (q, mut k, v) in inputs(),
        bad in prop::sample::select(&[f64::NAN, f64::INFINITY]),
    ) {
        let n = k.len_of(Axis(2));
        if n > 0 {
            k.index_axis_mut(Axis(2), n - 1).fill(bad);
        }
        let right = expected(&(q.clone(), k.clone(), v.clone()), &Mask::causal(q.len_of(Axis(2)), n));
        for (way, tolerance) in all_ways(&(q, k, v), &Visible::causal(), 3).iter().zip(TOLERANCES) {
            assert_near(way, &right, tolerance);
        }
    }

    #[test]
    fn merging_is_commutative_and_associative(
        (q, k, v) in inputs(),
        cuts in (0..9_usize, 0..9_usize),
    ) {
        let (heads, n) = (q.len_of(Axis(1)), k.len_of(Axis(2)));
        let (k, v) = (repeat_heads(&k, heads).unwrap(), repeat_heads(&v, heads).unwrap());
        let (a, b) = (cuts.0.min(cuts.1).min(n), cuts.0.max(cuts.1).min(n));
        let part = |from: usize, to: usize| {
            let (k, v) = (k.slice(s![.., .., from..to, ..]), v.slice(s![.., .., from..to, ..]));
            partial_attention(&q, &k, &v, &Mask::everything()).unwrap()
        };
        let [x, y, z] = [part(0, a), part(a, b), part(b, n)];
        let merged = |x: &Partial<f64>, y: &Partial<f64>| merge(x, y).unwrap();
        let left = merged(&merged(&x, &y), &z);
        let right = merged(&x, &merged(&z, &y));
        let whole = part(0, n);
        assert_near(&left.output, &whole.output, 1e-12);
        assert_near(&right.output, &whole.output, 1e-12);
        let sums = |part: &Partial<f64>| part.log_sum_exp().insert_axis(Axis(3));
        for part in [&left, &right] {
            for (&found, &right) in sums(part).iter().zip(&sums(&whole)) {
                assert!(found == right || (found - right).abs() < 1e-12, "{found} is not {right}");
            }
        }
    }

    #[test]
    fn a_cache_filled_in_chunks_is_the_full_pass(
        batch in 1..3_usize,
        group in 1..3_usize,
        chunks in vec(1..4_usize, 1..5),
        pads in vec(0..3_usize, 2),
        seed in 0..1000_u32,
    ) {
        let n: usize = chunks.iter().sum();
        let wave = |heads: usize, d: usize, by: f64| Array4::from_shape_fn((batch, heads, n, d), |(b, h, i, c)| {
            (by * (1.0 + (b * 31 + h * 17 + i * 7 + c * 3) as f64) + f64::from(seed)).sin()
        });
        let (q, k, v) = (wave(2 * group, 4, 0.7), wave(2, 4, 1.3), wave(2, 3, 2.1));
        // Left padding: the first places of a sequence are not real.
        let padding = Mask::from_fn((batch, 1, 1, n), |b, _, _, j| j >= pads[b % 2]);
        let causal = Mask::causal(n, n);
        let whole = grouped_attention(&q, &k, &v, &(&causal & &padding).unwrap()).unwrap();
        let mut cache = KeyValueCache::new(batch, 2, n, (4, 3));
        let mut first = 0;
        for chunk in chunks {
            let new = s![.., .., first..first + chunk, ..];
            cache.extend(&k.slice(new), &v.slice(new)).unwrap();
            first += chunk;
            let real = Mask::from_fn((batch, 1, 1, first), |b, _, _, j| j >= pads[b % 2]);
            let mask = (&Mask::causal(chunk, first) & &real).unwrap();
            let answer = cache.ask(&q.slice(new), &mask).unwrap();
            assert_near(&answer.output, &whole.output.slice(new).to_owned(), 1e-12);
        }
        assert_eq!(cache.length(), n);
    }

    #[test]
    fn online_in_any_blocks_is_the_softmax(
        scores in vec(prop_oneof![4 => -900.0..900.0, 1 => Just(f64::NEG_INFINITY)], 0..9),
        block in 1..9_usize,
    ) {
        let n = scores.len();
        let scores = ndarray::Array1::from(scores);
        let values = ndarray::Array2::from_shape_fn((n, 2), |(j, c)| {
            if scores[j] == f64::NEG_INFINITY { f64::NAN } else { (j * 2 + c) as f64 }
        });
        let mut online = Online::new(2);
        for first in (0..n).step_by(block) {
            let places = first..(first + block).min(n);
            online.see(&scores.slice(s![places.clone()]), &values.slice(s![places, ..])).unwrap();
        }
        let (answer, sum) = online.answer();
        let weights = ch02_softmax::softmax(&scores);
        let right = weights.dot(&values.mapv(|v| if v.is_nan() { 0.0 } else { v }));
        assert!((&answer - &right).iter().all(|x| x.abs() < 1e-9), "{answer} is not {right}");
        let expected = ch02_softmax::log_sum_exp(&scores);
        assert!(sum == expected || (sum - expected).abs() < 1e-9);
    }
}

/// Long enough for several blocks of keys and queries, and for threads.
#[test]
fn the_fast_way_over_many_blocks() {
    let wave = |heads: usize, n: usize, by: f64| {
        Array4::from_shape_fn((2, heads, n, 17), |(b, h, i, c)| {
            3.0 * (by * (1 + b * 3 + h * 5 + i * 7 + c * 11) as f64).sin()
        })
    };
    let (m, n) = (603, 1207);
    let three = (wave(4, m, 0.37), wave(2, n, 0.73), wave(2, n, 1.9));
    let padding = Mask::padding(&[1100, 13], n).unwrap();
    // Of every key some queries may see it and others not, and key blocks as a whole.
    let table = Mask::from_fn((2, 4, m, n), |b, h, i, j| {
        (i * 5 + j * 3 + h + b) % 7 < 4 && !(500..=1100).contains(&j)
    });
    let cases = [
        (Visible::everything(), Mask::everything()),
        (Visible::causal(), Mask::causal(m, n)),
        (
            Visible::window(70).unwrap(),
            Mask::window(m, n, 70).unwrap(),
        ),
        (Visible::everything().and(&table), table.clone()),
        (
            Visible::causal().and(&padding),
            (&Mask::causal(m, n) & &padding).unwrap(),
        ),
    ];
    for (visible, mask) in cases {
        let right = expected(&three, &mask);
        for (way, tolerance) in
            all_ways(&three, &visible, 100).iter().zip(TOLERANCES)
        {
            assert_near(way, &right, tolerance);
        }
    }
}

#[test]
fn large_scores_and_large_values() {
    let q = array![[[[300.0_f32], [-300.0]]]];
    let k = array![[[[300.0_f32], [299.0], [-300.0]]]];
    for size in [1.0, f32::MAX] {
        let v = array![[[[1.0_f32], [-1.0], [0.5]]]] * size;
        let found = fast_attention(&q, &k, &v, &Visible::everything());
        let right = batched_attention(&q, &k, &v, &Mask::everything());
        let difference = (found.unwrap() - right.unwrap().output) / size;
        assert!(difference.iter().all(|x| x.abs() < 1e-5), "{difference}");
    }
}

/// The largest score less itself is 0, however large it is and however it was rounded.
#[test]
fn scores_of_any_size() {
    let (m, n) = (67, 29);
    let k = Array4::from_shape_fn((1, 1, n, 3), |(.., j, c)| {
        (j * 7 % n + c) as f32 / 8.0
    });
    let v = Array4::from_shape_fn((1, 1, n, 1), |(.., j, _)| j as f32);
    for exponent in [3, 6, 9, 12, 20, 30, 36] {
        let q = Array4::from_shape_fn((1, 1, m, 3), |(.., i, _)| {
            (1.0 + i as f32 / 97.0) * 10_f32.powi(exponent)
        });
        let visible = Visible::everything();
        let right = batched_attention(&q, &k, &v, &Mask::everything());
        let right = right.unwrap().output.mapv(f64::from);
        for arch in [Arch::new(), Arch::Scalar] {
            let found = fast_attention_on(arch, &q, &k, &v, &visible);
            assert_near(&found.unwrap().mapv(f64::from), &right, 1e-5);
        }
    }
}

struct Powers<'a>(&'a mut [f32]);

impl WithSimd for Powers<'_> {
    type Output = ();

    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = S::as_mut_simd_f32s(self.0);
        assert!(rest.is_empty(), "whole vectors");
        for x in vectors {
            *x = exp2(simd, *x);
        }
    }
}

#[test]
fn powers_of_two_to_three_units_in_the_last_place() {
    let exponents: Vec<f32> = (0..1 << 16)
        .map(|i| -126.5 + 126.5 * i as f32 / 65535.0)
        .collect();
    for arch in [Arch::new(), Arch::Scalar] {
        let mut found = exponents.clone();
        arch.dispatch(Powers(&mut found));
        for (&x, &y) in exponents.iter().zip(&found) {
            let right = f64::from(x).exp2();
            let units =
                (f64::from(y) - right).abs() / right / f64::from(f32::EPSILON);
            assert!(units < 3.0 || right < 1.2e-38, "2^{x} is {right}, not {y}");
        }
        let mut edges = vec![0.0_f32; 64];
        edges[..4].copy_from_slice(&[f32::NEG_INFINITY, -127.0, -1e30, f32::NAN]);
        arch.dispatch(Powers(&mut edges));
        assert_eq!(&edges[..3], &[0.0; 3]);
        assert!(edges[3].is_nan());
        assert_eq!(edges[4], 1.0);
    }
}

/// One answer of ONNX's operator as its text has it: scores that are scaled and capped, then the keys up
/// to the query's own, then the softmax.
fn onnx_answer(
    (q, k, v): &Three<f64>,
    (b, head, i): (usize, usize, usize),
    (past, softcap, is_causal): (usize, f64, bool),
) -> Vec<f64> {
    let kv = head / (q.dim().1 / k.dim().1);
    let (mut sum, mut mixed) = (0.0, vec![0.0; v.dim().3]);
    for j in 0..k.dim().2 {
        if is_causal && j > i + past {
            continue;
        }
        let products =
            (0..q.dim().3).map(|c| q[[b, head, i, c]] * k[[b, kv, j, c]]);
        let mut e = products.sum::<f64>() / (q.dim().3 as f64).sqrt();
        if softcap > 0.0 {
            e = softcap * (e / softcap).tanh();
        }
        sum += e.exp();
        for (c, mixed) in mixed.iter_mut().enumerate() {
            *mixed += e.exp() * v[[b, kv, j, c]];
        }
    }
    let share = if sum == 0.0 { 0.0 } else { 1.0 / sum };
    mixed.into_iter().map(|x| share * x).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(25),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_operator_is_its_formula(
        (q, k, v) in inputs(),
        past in 0..9_usize,
        softcap in prop_oneof![Just(0.0), 0.5..3.0],
        is_causal: bool,
    ) {
        let past = past.min(k.dim().2);
        let cut = |x: &Array4<f64>| {
            let (old, new) = x.view().split_at(Axis(2), past);
            (copied(old), copied(new))
        };
        let ((old_k, new_k), (old_v, new_v)) = (cut(&k), cut(&v));
        let operator = OnnxAttention {
            softcap,
            is_causal,
            ..OnnxAttention::default()
        };
        let answer = operator.attend(&OnnxInputs {
            queries: q.view().into_dyn(),
            keys: new_k.view().into_dyn(),
            values: new_v.view().into_dyn(),
            mask: None,
            past: Some((old_k.view(), old_v.view())),
            lengths: None,
        });
        let answer = answer.unwrap();
        prop_assert_eq!((&answer.keys, &answer.values), (&k, &v));
        let three = (q, k, v);
        let (batch, heads, m, _) = three.0.dim();
        for place in (0..batch).flat_map(|b| (0..heads * m).map(move |i| (b, i / m, i % m))) {
            let expected = onnx_answer(&three, place, (past, softcap, is_causal));
            let (b, head, i) = place;
            for (c, expected) in expected.into_iter().enumerate() {
                let found = answer.output[[b, head, i, c]];
                prop_assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
            }
        }
    }
}

#[test]
fn groups_are_repeated_in_place() {
    let x = Array4::from_shape_fn((1, 2, 1, 1), |(_, h, ..)| h as f64);
    let heads = repeat_heads(&x, 6).unwrap();
    assert_eq!(
        heads.iter().copied().collect::<Vec<_>>(),
        [0., 0., 0., 1., 1., 1.]
    );
    assert_eq!(repeat_heads(&x, 2).unwrap(), x);
    assert_eq!(
        repeat_heads(&x, 3).unwrap_err().to_string(),
        "3 heads of queries cannot share 2 heads of keys and values evenly"
    );
    assert!(group_size(4, 0).is_err());
    assert_eq!(group_size(0, 0).unwrap(), 1);
}

#[test]
fn counts() {
    let model = Model {
        layers: 2,
        heads: 8,
        kv_heads: 8,
        d_k: 64,
        bytes: 4,
    };
    assert_eq!(model.operations(10, 20), 4 * 8 * 10 * 20 * 64);
    assert_eq!(model.score_bytes(10, 20), 8 * 10 * 20 * 4);
    assert_eq!(model.operand_bytes(10, 20), 4 * 64 * 8 * (2 * 10 + 2 * 20));
    assert_eq!(model.cache_bytes(3), 2 * 2 * 8 * 3 * 64 * 4);
    assert_eq!(model.with_kv_heads(1).cache_bytes(3), 2 * 2 * 3 * 64 * 4);
    // 3 workers, 10 keys: the longest share is 4, and it travels twice.
    assert_eq!(model.ring_bytes(10, 3), 2 * 8 * 4 * 64 * 4 * 2);
    assert_eq!(model.ring_bytes(10, 1), 0);
    assert_eq!(model.ring_bytes(10, 0), 0);
    assert_eq!(model.partial_bytes(5), 8 * 5 * 65 * 4);
    let huge = Model {
        layers: usize::MAX,
        ..model
    };
    assert_eq!(huge.operations(usize::MAX, usize::MAX), u128::MAX);
}

/// The cache holds what was measured by counting its arrays.
#[test]
fn a_cache_is_as_large_as_counted() {
    let (layers, kv_heads, d_k, n) = (1, 3, 5, 7);
    let mut cache = KeyValueCache::<f32>::new(1, kv_heads, n, (d_k, d_k));
    let new = Array4::zeros((1, kv_heads, n, d_k));
    cache.extend(&new, &new).unwrap();
    let bytes = 4 * (cache.keys().len() + cache.values().len());
    let model = Model {
        layers,
        heads: 6,
        kv_heads,
        d_k,
        bytes: 4,
    };
    assert_eq!(model.cache_bytes(n), bytes as u128);
    assert_eq!(
        cache.extend(&new, &new).unwrap_err().to_string(),
        "the cache has room for 7 positions and holds 7, so 7 more do not fit"
    );
}

#[test]
fn a_rule_is_the_mask_of_chapter_4() {
    for (m, n) in [
        (0, 0),
        (1, 4),
        (4, 1),
        (5, 5),
        (3, 7),
        (7, 3),
        (0, 3),
        (3, 0),
    ] {
        let table = |visible: Visible| visible.block((0..m, m), (0..n, n), (1, 1));
        assert_eq!(table(Visible::causal()), Mask::causal(m, n));
        for width in [1, 2, 9, usize::MAX] {
            let window = Visible::window(width).unwrap();
            assert_eq!(table(window), Mask::window(m, n, width).unwrap());
        }
    }
    assert!(Visible::window(0).is_err());
}

#[test]
fn a_block_is_cut_out_of_the_whole() {
    let visible = Visible::window(3).unwrap();
    let (whole, part) = (
        visible.block((0..6, 6), (0..8, 8), (1, 1)),
        visible.block((2..5, 6), (3..7, 8), (1, 1)),
    );
    for i in 0..3 {
        for j in 0..4 {
            assert_eq!(part.allows(0, 0, i, j), whole.allows(0, 0, i + 2, j + 3));
        }
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let x =
        |heads: usize, n: usize, d: usize| Array4::<f32>::zeros((1, heads, n, d));
    let message = |q: &Array4<f32>, k: &Array4<f32>, v: &Array4<f32>| {
        let all = [
            fast_attention(q, k, v, &Visible::causal()),
            tiled_attention(q, k, v, &Visible::causal(), 4),
            spread_attention(q, k, v, &Visible::causal(), 4),
            ring_attention(q, k, v, &Visible::causal(), 4),
        ];
        let all = all.map(|answer| answer.unwrap_err().to_string());
        assert!(all.iter().all(|message| *message == all[0]), "{all:?}");
        all[0].clone()
    };
    assert_eq!(
        message(&x(2, 3, 3), &x(2, 3, 4), &x(2, 3, 4)),
        "queries are 3 wide but keys are 4 wide"
    );
    assert_eq!(
        message(&x(2, 3, 4), &x(2, 3, 4), &x(2, 2, 4)),
        "there are 1 × 2 × 3 keys but 1 × 2 × 2 values"
    );
    assert_eq!(
        message(&x(3, 3, 4), &x(2, 3, 4), &x(2, 3, 4)),
        "3 heads of queries cannot share 2 heads of keys and values evenly"
    );
    let mask = Mask::causal(2, 2);
    let q = x(1, 3, 2);
    let masked = fast_attention(&q, &q, &q, &Visible::everything().and(&mask));
    assert_eq!(
        masked.unwrap_err().to_string(),
        "a mask of 1 × 1 × 2 × 2 does not fit scores of 1 × 1 × 3 × 3"
    );
}

#[test]
fn turned_views_give_the_same() {
    let x = Array4::from_shape_fn((1, 2, 5, 3), |(_, h, i, c)| {
        ((h * 15 + i * 3 + c) as f32).sin()
    });
    let turned = x
        .view()
        .permuted_axes([0, 1, 3, 2])
        .as_standard_layout()
        .into_owned();
    let turned = turned.view().permuted_axes([0, 1, 3, 2]);
    let answer =
        |x: ArrayView4<f32>| fast_attention(&x, &x, &x, &Visible::causal());
    assert_eq!(answer(turned).unwrap(), answer(x.view()).unwrap());
}

#[test]
fn partials_that_do_not_fit() {
    let small = Partial::<f64>::empty((1, 1, 2, 3));
    let large = Partial::<f64>::empty((1, 1, 2, 4));
    assert!(merge(&small, &large).is_err());
    let torn = Partial {
        largest: Array3::zeros((1, 1, 5)),
        ..small.clone()
    };
    assert!(merge(&small, &torn).is_err());
    let torn = Partial {
        sum: Array3::zeros((1, 1, 5)),
        ..small.clone()
    };
    assert!(merge(&torn, &small).is_err());
    assert_eq!(merge(&small, &small).unwrap(), small);
}

/// Some programs answer NaN where a query sees nothing. It weighs nothing either.
#[test]
fn a_part_that_has_seen_nothing_does_not_matter() {
    let part = |output: f64, largest: f64| Partial {
        output: Array4::from_elem((1, 1, 1, 2), output),
        largest: Array3::from_elem((1, 1, 1), largest),
        sum: Array3::from_elem(
            (1, 1, 1),
            if largest.is_finite() { 1.25 } else { 0.0 },
        ),
    };
    let real = part(2.0, 1.5);
    for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let nothing = part(poison, f64::NEG_INFINITY);
        assert_eq!(merge(&nothing, &real).unwrap(), real);
        assert_eq!(merge(&real, &nothing).unwrap(), real);
        let both = merge(&nothing, &nothing).unwrap();
        assert_eq!(both, Partial::empty((1, 1, 1, 2)));
    }
    // A NaN that weighs something is not hidden, however little it is.
    let loud = merge(&part(f64::NAN, -1e4), &real).unwrap();
    assert!(loud.output.iter().all(|r| r.is_nan()));
}

/// Empty views that were cut off something keep its strides, and those fit no new array: ndarray
/// with its debug assertions refuses to copy them.
#[test]
fn empty_views_give_empty_answers() {
    let x = Array4::<f64>::ones((2, 2, 3, 4));
    let everything = Mask::everything();
    for axis in [Axis(0), Axis(1), Axis(2)] {
        for (none, _) in [x.view().split_at(axis, 0), {
            let (whole, none) = x.view().split_at(axis, x.len_of(axis));
            (none, whole)
        }] {
            assert!(none.is_empty());
            let shape = none.dim();
            assert_eq!(masked_softmax(&none, &everything).unwrap().dim(), shape);
            let (weights, (b, h, m, _)) =
                (Array4::<f64>::zeros((shape.0, shape.1, 0, 3)), shape);
            if m > 0 {
                let sums = masked_sum(&weights, &none, &everything).unwrap();
                assert_eq!(sums.dim(), (b, h, 0, 4));
            }
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            for p in [0.0, 0.5] {
                assert_eq!(
                    ch05_multihead::dropout(&none, p, &mut rng).unwrap().dim(),
                    shape
                );
            }
            let answer =
                batched_attention(&none, &none, &none, &everything).unwrap();
            assert_eq!(answer.output.dim(), shape);
            let visible = Visible::everything();
            assert_eq!(
                tiled_attention(&none, &none, &none, &visible, 2)
                    .unwrap()
                    .dim(),
                shape
            );
            assert_eq!(
                spread_attention(&none, &none, &none, &visible, 2)
                    .unwrap()
                    .dim(),
                shape
            );
            assert_eq!(
                ring_attention(&none, &none, &none, &visible, 2)
                    .unwrap()
                    .dim(),
                shape
            );
            let single = x.mapv(|x| x as f32);
            let (single, _) = single.view().split_at(axis, 0);
            assert!(
                fast_attention(&single, &single, &single, &visible)
                    .unwrap()
                    .is_empty()
            );
            let none = none.into_dyn();
            let inputs = OnnxInputs {
                queries: none.view(),
                keys: none.view(),
                values: none.view(),
                mask: None,
                past: None,
                lengths: None,
            };
            assert!(
                OnnxAttention::default()
                    .attend(&inputs)
                    .unwrap()
                    .output
                    .is_empty()
            );
        }
    }
}

/// A copy with strides of its own: those of an empty view can be of something larger.
fn copied(x: ArrayView4<f64>) -> Array4<f64> {
    ndarray::Zip::from(x).map_collect(|&x| x)
}
