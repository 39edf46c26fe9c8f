//! One operator, one answer: every way to compute attention agrees with every other on the numbers
//! that are hard to compute with.

use super::check;
use ch04_masks::{Mask, batched_attention};
use ch10_efficient::{
    KeyValueCache, OnnxAttention, OnnxInputs, OnnxMask, Visible, fast_attention, ring_attention,
    spread_attention, tiled_attention,
};
use ndarray::{Array4, ArrayView4, NdFloat, s};
use proptest::collection::vec;
use proptest::prelude::*;

/// Every answer but that of the fast path, which is of one float type.
fn answers<F: NdFloat + Default>(
    [q, k, v]: [ArrayView4<F>; 3],
    mask: &Mask,
) -> Vec<(String, Array4<F>)> {
    let (batch, heads, m, d_k) = q.dim();
    let (n, d_v) = (k.dim().2, v.dim().3);
    let visible = Visible::everything().and(mask);
    let mut answers = Vec::new();
    let whole = batched_attention(&q, &k, &v, mask).unwrap();
    answers.push(("chapter 4".to_owned(), whole.output));
    for parts in [1, 2, 3, n + 1] {
        for (name, answer) in [
            ("tiles", tiled_attention(&q, &k, &v, &visible, parts)),
            ("workers", spread_attention(&q, &k, &v, &visible, parts)),
            ("a ring", ring_attention(&q, &k, &v, &visible, parts)),
        ] {
            answers.push((format!("{name} of {parts}"), answer.unwrap()));
        }
    }
    let mut cache = KeyValueCache::new(batch, heads, n, (d_k, d_v));
    for j in 0..n {
        let place = s![.., .., j..j + 1, ..];
        cache.extend(&k.slice(place), &v.slice(place)).unwrap();
    }
    let cached = cache.ask(&q, mask).unwrap().output;
    answers.push(("a cache".to_owned(), cached));
    let shape = (batch, heads, m, n);
    let allowed = mask.fit(shape).unwrap().to_owned().into_dyn();
    let inputs = OnnxInputs {
        queries: q.into_dyn(),
        keys: k.into_dyn(),
        values: v.into_dyn(),
        mask: Some(OnnxMask::Allowed(allowed.view())),
        past: None,
        lengths: None,
    };
    let onnx = OnnxAttention::default().attend(&inputs).unwrap().output;
    answers.push(("ONNX".to_owned(), onnx.into_dimensionality().unwrap()));
    answers
}

fn every_answer([q, k, v]: [&Array4<f32>; 3], mask: &Mask) -> Vec<(String, Array4<f32>)> {
    let inputs = [q, k, v].map(|x| x.view());
    let mut answers = answers(inputs, mask);
    let [q, k, v] = inputs;
    let visible = Visible::everything().and(mask);
    let fast = fast_attention(&q, &k, &v, &visible).unwrap();
    answers.push(("the fast path".to_owned(), fast));
    answers
}

fn agree(found: f64, right: f64) -> bool {
    let near = (found - right).abs() <= 1e-5 * right.abs().max(1.0);
    found == right || found.is_nan() && right.is_nan() || near
}

/// One head, whose vectors are the same number `width` times.
fn even(numbers: &[f32], width: usize) -> Array4<f32> {
    Array4::from_shape_fn((1, 1, numbers.len(), width), |(.., j, _)| numbers[j])
}

#[track_caller]
fn all_answer(width: usize, [q, k, v]: [&[f32]; 3], mask: &Mask, right: f32) {
    let (q, k, v) = (even(q, width), even(k, width), even(v, 1));
    for (name, answer) in every_answer([&q, &k, &v], mask) {
        for &r in &answer {
            assert!(agree(r.into(), right.into()), "{name}: {r} is not {right}");
        }
    }
    let double = |x: &Array4<f32>| x.mapv(f64::from);
    let (q, k, v) = (double(&q), double(&k), double(&v));
    for (name, answer) in answers([q.view(), k.view(), v.view()], mask) {
        for &r in &answer {
            assert!(agree(r, right.into()), "{name} in f64: {r} is not {right}");
        }
    }
}

#[test]
fn large_equal_scores_share_evenly_by_every_way() {
    let all = Mask::everything();
    for size in [1e4, 1e10, 3e18] {
        for sign in [1.0, -1.0] {
            let keys = [sign * size; 4];
            all_answer(1, [&[1.0], &keys, &[1.0, 2.0, 3.0, 4.0]], &all, 2.5);
            all_answer(3, [&[2.0], &keys, &[1.0, 2.0, 3.0, 4.0]], &all, 2.5);
        }
    }
}

#[test]
fn large_equal_scores_of_double_precision_share_evenly_by_every_way() {
    let k = Array4::from_elem((1, 1, 4, 1), 1e16);
    let v = Array4::from_shape_fn((1, 1, 4, 1), |(.., j, _)| j as f64);
    let q = Array4::ones((1, 1, 1, 1));
    for (name, answer) in answers([q.view(), k.view(), v.view()], &Mask::everything()) {
        assert_eq!(answer[[0, 0, 0, 0]], 1.5, "{name}");
    }
}

#[test]
fn a_product_too_large_before_its_scale_is_none_by_any_way() {
    let all = Mask::everything();
    // 64 · 4e18 · 2e18 is above the largest float, an eighth of it is not.
    all_answer(64, [&[4e18], &[2e18, 1e18], &[1.0, 2.0]], &all, 1.0);
    all_answer(64, [&[4e18], &[-2e18, -1e18], &[1.0, 2.0]], &all, 2.0);
    all_answer(1, [&[3e38], &[0.0; 3], &[1.0, 3.0, 5.0]], &all, 3.0);
    all_answer(2, [&[-3e38], &[0.0; 3], &[1.0, 3.0, 5.0]], &all, 3.0);
    all_answer(1, [&[3e38], &[1.0, 0.5], &[1.0, 3.0]], &all, 1.0);
}

#[test]
fn a_score_of_minus_infinity_hides_its_key_by_every_way() {
    let all = Mask::everything();
    let hidden = f32::NEG_INFINITY;
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e38] {
        let values = [value, 2.0, 3.0];
        all_answer(1, [&[1.0], &[hidden, 0.0, 0.0], &values], &all, 2.5);
        // Nothing but −∞ is nothing seen.
        all_answer(1, [&[1.0], &[hidden; 3], &values], &all, 0.0);
        let first = Mask::padding(&[1], 3).unwrap();
        all_answer(1, [&[1.0], &[hidden, 0.0, 0.0], &values], &first, 0.0);
    }
}

#[test]
fn what_is_not_a_number_stays_none_by_any_way() {
    let all = Mask::everything();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for key in [nan, inf] {
        all_answer(1, [&[1.0], &[0.0, key, 1.0], &[1.0; 3]], &all, nan);
        let first = Mask::padding(&[1], 3).unwrap();
        all_answer(1, [&[1.0], &[0.0, key, 1.0], &[1.0; 3]], &first, 1.0);
    }
    all_answer(1, [&[1.0], &[0.0; 3], &[1.0, nan, 2.0]], &all, nan);
    all_answer(1, [&[1.0], &[0.0; 3], &[1.0, inf, 2.0]], &all, inf);
    all_answer(1, [&[nan], &[0.0; 3], &[1.0; 3]], &all, nan);
}

/// A few sizes far apart, so that scores are equal or nothing beside each other.
fn hard() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => prop::sample::select(vec![0.0, 1.0, -1.0, 2.5]),
        2 => prop::sample::select(vec![1e10, -1e10, 3e18, -3e18]),
        1 => prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
    ]
}

#[test]
fn every_way_agrees_on_hard_numbers() {
    let problem = (0..6_usize, 1..4_usize).prop_flat_map(|(n, m)| {
        (
            vec(hard(), m),
            vec(hard(), n),
            vec(hard(), n),
            vec(any::<bool>(), m * n),
        )
    });
    check(problem, |(q, k, v, allowed)| {
        let (m, n) = (q.len(), k.len());
        let mask = Mask::from_fn((1, 1, m, n), |_, _, i, j| allowed[i * n + j]);
        let answers = every_answer([&even(&q, 1), &even(&k, 1), &even(&v, 1)], &mask);
        let (_, right) = &answers[0];
        for (name, answer) in &answers[1..] {
            for (&found, &right) in answer.iter().zip(right) {
                assert!(
                    agree(found.into(), right.into()),
                    "{name}: {found} is not {right}, of {q:?} {k:?} {v:?} {allowed:?}"
                );
            }
        }
    });
}
