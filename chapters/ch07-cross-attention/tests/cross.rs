//! What chapter 7 claims about two sequences.

use ch04_masks::Mask;
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::self_attention;
use ch07_cross_attention::*;
use ndarray::{Array2, Array3, Axis, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn attention() -> MultiHeadAttention<f64> {
    MultiHeadAttention::random(8, 2, &mut ChaCha8Rng::seed_from_u64(1)).unwrap()
}

fn wavy(batch: usize, n: usize) -> Array3<f64> {
    Array3::from_shape_fn((batch, n, 8), |(b, i, c)| {
        (0.4 + 0.7 * b as f64 + 1.3 * i as f64 + 2.1 * c as f64 + 0.3 * n as f64)
            .sin()
    })
}

#[test]
fn a_sequence_with_itself_is_self_attention() {
    let (x, mask) = (wavy(2, 4), Mask::padding(&[4, 3], 4).unwrap());
    assert_eq!(
        cross_attention(&attention(), &x, &x, &mask).unwrap(),
        self_attention(&attention(), &x, &mask).unwrap()
    );
}

#[test]
fn targets_do_not_see_each_other() {
    let (decoder, memory) = (wavy(1, 5), wavy(1, 3));
    let mask = Mask::everything();
    let before = cross_attention(&attention(), &decoder, &memory, &mask).unwrap();
    assert_eq!(before.weights.dim(), (1, 2, 5, 3));
    let mut changed = decoder.clone();
    changed.slice_mut(s![.., 2, ..]).fill(f64::NAN);
    let after = cross_attention(&attention(), &changed, &memory, &mask).unwrap();
    for i in [0, 1, 3, 4] {
        assert_eq!(
            before.output.slice(s![0, i, ..]),
            after.output.slice(s![0, i, ..])
        );
    }
}

#[test]
fn padding_of_the_source_does_not_matter_and_its_order_neither() {
    let (decoder, memory) = (wavy(1, 3), wavy(1, 4));
    let mask = Mask::padding(&[3], 4).unwrap();
    let expected = cross_attention(&attention(), &decoder, &memory, &mask).unwrap();
    let mut filled = memory.clone();
    filled.slice_mut(s![.., 3, ..]).fill(f64::NAN);
    let found = cross_attention(&attention(), &decoder, &filled, &mask).unwrap();
    assert_eq!(found, expected);
    let order = [2, 0, 1, 3];
    let shuffled = memory.select(Axis(1), &order);
    let found = cross_attention(&attention(), &decoder, &shuffled, &mask).unwrap();
    let difference = found.output - &expected.output;
    assert!(difference.iter().all(|x| x.abs() < 1e-14));
}

#[test]
fn the_example_is_aligned_as_the_page_says() {
    let ((chinese, memory), (english, decoder)) = (source(), target());
    let batch = |x: Array2<f64>| x.insert_axis(Axis(0));
    let mask = Mask::padding(&[4], 5).unwrap();
    let answer =
        cross_attention(&plain_head(), &batch(decoder), &batch(memory), &mask)
            .unwrap();
    let weights = answer.weights.slice(s![0, 0, .., ..]).to_owned();
    let pairs: Vec<_> = english
        .iter()
        .zip(alignment(&weights))
        .map(|(word, best)| (*word, chinese[best.unwrap()]))
        .collect();
    assert_eq!(
        pairs,
        [
            ("the", "天气"),
            ("weather", "天气"),
            ("is", "很"),
            ("very", "很"),
            ("nice", "好"),
            ("today", "今天")
        ]
    );
    assert!(weights.column(4).iter().all(|&a| a == 0.0));
}

#[test]
fn alignment_takes_the_first_largest_or_nothing() {
    let weights = array![
        [0.2, 0.5, 0.3],
        [0.4, 0.4, 0.2],
        [0.0, 0.0, 0.0],
        [f64::NAN, f64::NAN, f64::NAN]
    ];
    assert_eq!(alignment(&weights), [Some(1), Some(0), None, None]);
    let weights = array![[f64::NAN, 0.5], [0.5, f64::NAN], [-1.0, -2.0]];
    assert_eq!(alignment(&weights), [Some(1), Some(0), None]);
    assert_eq!(alignment(&Array2::<f64>::zeros((2, 0))), [None, None]);
}
