//! The stages of attention, and multi-head attention.

use super::*;
use ch02_softmax::softmax;
use ch03_scaled::softmax_jacobian;
use ch04_masks::{Mask, batched_scaled_scores, masked_softmax, masked_sum};
use ch05_multihead::{
    Memory, MultiHeadAttention, MultiHeadSteps, Projection, dropout,
};
use ch09_training::backward;
use ndarray::{Array3, Array4, array, s};

/// Two sequences, two heads, three queries and four keys.
const SHAPE: (usize, usize, usize, usize) = (2, 2, 3, 4);

/// Masks for scores of `SHAPE`, and how much of the weights is dropped.
fn cases() -> Vec<(&'static str, Mask, f64)> {
    let padding = Mask::padding(&[4, 2], 4).unwrap();
    let causal = Mask::causal(3, 4);
    vec![
        ("everything", Mask::everything(), 0.0),
        ("dropout", Mask::everything(), 0.3),
        ("padding", padding.clone(), 0.0),
        ("causal", causal.clone(), 0.3),
        ("padding and causal", (&padding & &causal).unwrap(), 0.3),
        (
            "a mask for each head",
            Mask::from_fn(SHAPE, |b, h, i, j| (b + 2 * h + 3 * i + 5 * j) % 3 > 0),
            0.3,
        ),
        (
            "an empty row",
            Mask::from_fn((2, 1, 3, 4), |b, _, i, j| i != b && j != 3),
            0.3,
        ),
        ("nothing", Mask::padding(&[0, 0], 4).unwrap(), 0.0),
    ]
}

fn allowed(mask: &Mask) -> Array4<bool> {
    mask.fit(SHAPE).unwrap().to_owned()
}

/// Only where the mask allows it, 0 elsewhere.
fn behind(mask: &Mask, mut x: Array4<f64>) -> Array4<f64> {
    x.zip_mut_with(&allowed(mask), |x, &allowed| {
        if !allowed {
            *x = 0.0;
        }
    });
    x
}

#[test]
fn a_row_of_softmax() {
    for n in [1, 2, 5, 12] {
        let (scores, d_weights) = (random(n, 1) * 3.0, random(n, 2));
        let weights = softmax(&scores);
        let d_scores = backward::softmax(&weights, &d_weights).unwrap();
        assert_slopes(
            &format!("softmax of {n}, scores"),
            &d_scores,
            &scores,
            |scores| weighed(&softmax(scores), &d_weights),
        );
        // The same as the Jacobian of chapter 3, times the gradient.
        let jacobian = softmax_jacobian(&weights);
        let product = jacobian.t().dot(&d_weights);
        assert!((product - d_scores).iter().all(|x| x.abs() < 1e-15));
    }
}

#[test]
fn the_masked_softmax() {
    for (name, mask, p) in cases() {
        let (scores, d_kept) = (random(SHAPE, 3) * 3.0, random(SHAPE, 4));
        let forward = |scores: &Array4<f64>| {
            let weights = masked_softmax(scores, &mask).unwrap();
            let kept = dropout(&weights, p, &mut rng(5)).unwrap();
            (weights, kept)
        };
        let (weights, kept) = forward(&scores);
        let d_scores =
            backward::masked_softmax(&weights, &kept, &d_kept, &mask).unwrap();
        assert_slopes(
            &format!("masked softmax, {name}"),
            &d_scores,
            &scores,
            |scores| weighed(&forward(scores).1, &d_kept),
        );
        let allowed = allowed(&mask);
        let forbidden = d_scores.iter().zip(&allowed).filter(|(_, a)| !**a);
        assert!(forbidden.into_iter().all(|(d, _)| *d == 0.0), "{name}");
        // A softmax does not notice a shift, so no row's gradient has one in it.
        let sums = d_scores.sum_axis(ndarray::Axis(3));
        assert!(sums.iter().all(|sum| sum.abs() < 1e-14), "{name}");
    }
}

#[test]
fn the_weighted_sum() {
    for (name, mask, _) in cases() {
        let weights = behind(&mask, random(SHAPE, 6));
        let (values, d_output) = (random((2, 2, 4, 5), 7), random((2, 2, 3, 5), 8));
        let loss = |weights: &Array4<f64>, values: &Array4<f64>| {
            let output = masked_sum(weights, values, &mask).unwrap();
            weighed(&output, &d_output)
        };
        let (d_weights, d_values) =
            backward::weighted_sum(&weights, &values, &mask, &d_output).unwrap();
        assert_slopes(
            &format!("weighted sum, {name}, weights"),
            &d_weights,
            &weights,
            |weights| loss(weights, &values),
        );
        assert_slopes(
            &format!("weighted sum, {name}, values"),
            &d_values,
            &values,
            |values| loss(&weights, values),
        );
    }
}

#[test]
fn the_scaled_scores() {
    for (name, mask, _) in cases() {
        let d_scores = behind(&mask, random(SHAPE, 9));
        let (queries, keys) = (random((2, 2, 3, 5), 10), random((2, 2, 4, 5), 11));
        let loss = |queries: &Array4<f64>, keys: &Array4<f64>| {
            let scores = batched_scaled_scores(queries, keys);
            weighed(&scores.unwrap(), &d_scores)
        };
        let (d_queries, d_keys) =
            backward::scaled_scores(&queries, &keys, &mask, &d_scores).unwrap();
        assert_slopes(
            &format!("scaled scores, {name}, queries"),
            &d_queries,
            &queries,
            |queries| loss(queries, &keys),
        );
        assert_slopes(
            &format!("scaled scores, {name}, keys"),
            &d_keys,
            &keys,
            |keys| loss(&queries, keys),
        );
    }
}

/// The gradients of attention by queries, keys and values, from its weights on.
fn attention_backward(
    [q, k, v]: [&Array4<f64>; 3],
    mask: &Mask,
    d_output: &Array4<f64>,
) -> [Array4<f64>; 3] {
    let scores = batched_scaled_scores(q, k).unwrap();
    let weights = masked_softmax(&scores, mask).unwrap();
    let weights = weights.view();
    let (d_weights, d_v) =
        backward::weighted_sum(&weights, v, mask, d_output).unwrap();
    let d_scores =
        backward::masked_softmax(&weights, &weights, &d_weights, mask).unwrap();
    let (d_q, d_k) = backward::scaled_scores(q, k, mask, &d_scores).unwrap();
    [d_q, d_k, d_v]
}

#[test]
fn what_nobody_sees_does_not_matter() {
    // The last two keys of the second sequence are hidden, and so is everything from its first query.
    let mask = Mask::from_fn(SHAPE, |b, _, i, j| b == 0 || (i > 0 && j < 2));
    let (q, k) = (random((2, 2, 3, 5), 12), random((2, 2, 4, 5), 13));
    let (v, d_output) = (random((2, 2, 4, 3), 14), random((2, 2, 3, 3), 15));
    let expected = attention_backward([&q, &k, &v], &mask, &d_output);
    for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
        let [mut q, mut k, mut v] = [q.clone(), k.clone(), v.clone()];
        let mut d_output = d_output.clone();
        for x in [&mut q, &mut d_output] {
            x.slice_mut(s![1, .., 0, ..]).fill(poison);
        }
        for x in [&mut k, &mut v] {
            x.slice_mut(s![1, .., 2.., ..]).fill(poison);
        }
        let found = attention_backward([&q, &k, &v], &mask, &d_output);
        assert_eq!(found, expected, "{poison}");
        assert!(found.iter().flatten().all(|g| g.is_finite()), "{poison}");
    }
    let [d_q, d_k, d_v] = expected;
    assert!(d_q.slice(s![1, .., 0, ..]).iter().all(|&g| g == 0.0));
    for d in [d_k, d_v] {
        assert!(d.slice(s![1, .., 2.., ..]).iter().all(|&g| g == 0.0));
    }
}

#[test]
fn a_nan_that_is_seen_is_not_hidden() {
    let mut scores = random(SHAPE, 24);
    scores[[0, 1, 2, 0]] = f64::NAN;
    let mask = Mask::padding(&[3, 4], 4).unwrap();
    let weights = masked_softmax(&scores, &mask).unwrap();
    let (weights, d_kept) = (weights.view(), random(SHAPE, 25));
    let d_scores =
        backward::masked_softmax(&weights, &weights, &d_kept, &mask).unwrap();
    // Its row is NaN, but what the mask forbids still has no gradient.
    for ((b, h, i, j), d) in d_scores.indexed_iter() {
        let is_of_row = (b, h, i) == (0, 1, 2);
        assert_eq!(d.is_nan(), is_of_row && j < 3);
        assert!(!(b == 0 && j == 3) || *d == 0.0);
    }
}

#[test]
fn a_row_that_sees_nothing_has_no_gradient() {
    let mask = Mask::from_fn(SHAPE, |_, _, i, _| i != 1);
    let (q, k) = (random((2, 2, 3, 5), 16), random((2, 2, 4, 5), 17));
    let (v, d_output) = (random((2, 2, 4, 3), 18), random((2, 2, 3, 3), 19));
    let [d_q, ..] = attention_backward([&q, &k, &v], &mask, &d_output);
    assert!(d_q.slice(s![.., .., 1, ..]).iter().all(|&g| g == 0.0));
    assert!(d_q.slice(s![.., .., 0, ..]).iter().all(|&g| g != 0.0));
}

#[test]
fn a_projection() {
    let weight = random((3, 4), 20);
    for (name, bias) in [("with a bias", Some(random(4, 21))), ("without", None)] {
        let model = Projection::new(weight.clone(), bias).unwrap();
        let (x, d_y) = (random((2, 5, 3), 22), random((2, 5, 4), 23));
        let mut gradient = beginning(&model);
        let d_x = backward::projection(&model, &x, &d_y, &mut gradient).unwrap();
        let loss = |model: &Projection<f64>, x: &Array3<f64>| {
            weighed(&model.apply(x).unwrap(), &d_y)
        };
        let what = format!("projection {name}");
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&model, x));
        assert_learned(&what, &gradient, &model, |model| loss(model, &x));
    }
}

#[test]
fn a_gradient_must_have_the_bias_of_its_projection() {
    let biased = Projection::new(random((3, 4), 26), Some(random(4, 27))).unwrap();
    let plain = Projection::from(random((3, 4), 28));
    let (x, d_y) = (random((1, 2, 3), 29), random((1, 2, 4), 30));
    for (model, gradient) in [(&biased, &plain), (&plain, &biased)] {
        let mut gradient = gradient.clone();
        let found = backward::projection(model, &x, &d_y, &mut gradient);
        assert_eq!(
            found.unwrap_err().to_string(),
            "of projection and gradient only one has a bias"
        );
    }
}

/// Two heads, whose queries, sources and answers are 5, 6 and 7 wide, with `d_k` 4 and `d_v` 3.
fn two_heads(p: f64, biases: bool, source: usize) -> MultiHeadAttention<f64> {
    let projection = |width_in, width_out, seed| {
        let bias = biases.then(|| random(width_out, seed));
        Projection::new(random((width_in, width_out), seed + 1), bias).unwrap()
    };
    MultiHeadAttention::new(
        2,
        projection(5, 8, 30),
        projection(source, 8, 32),
        projection(source, 6, 34),
        projection(6, 7, 36),
    )
    .and_then(|attention| attention.with_dropout(p))
    .unwrap()
}

/// In training always: a dropout of 0 drops nothing.
fn ask(
    attention: &MultiHeadAttention<f64>,
    queries: &Array3<f64>,
    source: &Array3<f64>,
    mask: &Mask,
) -> (Memory<f64>, MultiHeadSteps<f64>) {
    let memory = attention.remember(source, source).unwrap();
    let steps = attention.ask_in_training(queries, &memory, mask, &mut rng(38));
    (memory, steps.unwrap())
}

#[test]
fn multi_head_attention_to_another_sequence() {
    for (i, (name, mask, p)) in cases().into_iter().enumerate() {
        let attention = two_heads(p, i % 2 == 0, 6);
        let (queries, source) = (random((2, 3, 5), 39), random((2, 4, 6), 40));
        let d_output = random((2, 3, 7), 41);
        let (memory, steps) = ask(&attention, &queries, &source, &mask);
        let mut gradient = beginning(&attention);
        let [d_queries, d_source] = backward::multi_head(
            &attention,
            [&queries, &source],
            &memory,
            &steps,
            &mask,
            &d_output,
            &mut gradient,
        )
        .unwrap();
        let loss = |attention: &_, queries: &_, source: &_| {
            let (_, steps) = ask(attention, queries, source, &mask);
            weighed(&steps.output, &d_output)
        };
        let what = format!("cross-attention, {name}");
        assert_slopes(&format!("{what}, queries"), &d_queries, &queries, |x| {
            loss(&attention, x, &source)
        });
        assert_slopes(&format!("{what}, source"), &d_source, &source, |x| {
            loss(&attention, &queries, x)
        });
        assert_learned(&what, &gradient, &attention, |attention| {
            loss(attention, &queries, &source)
        });
    }
}

#[test]
fn multi_head_attention_to_itself() {
    let padding = Mask::padding(&[3, 1], 3).unwrap();
    let causal = (&padding & &Mask::causal(3, 3)).unwrap();
    for (name, mask, p) in [
        ("everything", Mask::everything(), 0.0),
        ("padding, dropout", padding, 0.3),
        ("padding and causal, dropout", causal, 0.3),
    ] {
        let attention = two_heads(p, true, 5);
        let (x, d_output) = (random((2, 3, 5), 42), random((2, 3, 7), 43));
        let (memory, steps) = ask(&attention, &x, &x, &mask);
        let mut gradient = beginning(&attention);
        let [d_queries, d_source] = backward::multi_head(
            &attention,
            [&x, &x],
            &memory,
            &steps,
            &mask,
            &d_output,
            &mut gradient,
        )
        .unwrap();
        let loss = |attention: &_, x: &_| {
            weighed(&ask(attention, x, x, &mask).1.output, &d_output)
        };
        let what = format!("self-attention, {name}");
        let d_x = d_queries + d_source;
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&attention, x));
        assert_learned(&what, &gradient, &attention, |attention| {
            loss(attention, &x)
        });
    }
}

#[test]
fn hidden_keys_and_values_do_not_reach_the_weights() {
    let mask = Mask::padding(&[4, 2], 4).unwrap();
    let attention = two_heads(0.3, true, 6);
    let (queries, source) = (random((2, 3, 5), 44), random((2, 4, 6), 45));
    let d_output = random((2, 3, 7), 46);
    let gradients = |memory: &Memory<f64>, steps| {
        let mut gradient = beginning(&attention);
        let inputs = backward::multi_head(
            &attention,
            [&queries, &source],
            memory,
            steps,
            &mask,
            &d_output,
            &mut gradient,
        );
        (inputs.unwrap(), gradient)
    };
    let (mut memory, steps) = ask(&attention, &queries, &source, &mask);
    let expected = gradients(&memory, &steps);
    for x in [&mut memory.keys, &mut memory.values] {
        x.slice_mut(s![1, .., 2.., ..]).fill(f64::NAN);
    }
    let steps = attention
        .ask_in_training(&queries, &memory, &mask, &mut rng(38))
        .unwrap();
    assert_eq!(gradients(&memory, &steps), expected);
}

#[test]
fn a_gradient_by_hand() {
    // Weights of 1/4 and 3/4: the mean of (1, 0) is 1/4, and 1/4 · (1 − 1/4) is 3/16.
    let found = backward::softmax(&array![0.25, 0.75], &array![1.0, 0.0]);
    assert_eq!(found.unwrap(), array![0.1875, -0.1875]);
}
