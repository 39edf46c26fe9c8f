//! What chapter 6 claims about order, positions and cost.

use ch04_masks::{Mask, PAD, example_tokens};
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::*;
use ndarray::{Array3, Array4, Axis, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn attention() -> MultiHeadAttention<f64> {
    MultiHeadAttention::random(8, 2, &mut ChaCha8Rng::seed_from_u64(1)).unwrap()
}

fn wavy(n: usize, width: usize) -> Array3<f64> {
    Array3::from_shape_fn((1, n, width), |(_, i, c)| {
        (0.4 + 1.3 * i as f64 + 2.1 * c as f64).sin()
    })
}

fn largest(x: Array3<f64>) -> f64 {
    x.fold(0.0, |largest, x| f64::max(largest, x.abs()))
}

#[test]
fn permuted_words_give_permuted_answers_until_positions_are_added() {
    let (x, order) = (wavy(5, 8), [3, 0, 4, 1, 2]);
    let ask = |x: Array3<f64>| {
        self_attention(&attention(), &x, &Mask::everything())
            .unwrap()
            .output
    };
    let places = sinusoidal_positions::<f64>(5, 8);
    let difference =
        ask(x.clone()).select(Axis(1), &order) - ask(x.select(Axis(1), &order));
    assert!(largest(difference) < 1e-14);
    let difference = ask(&x + &places).select(Axis(1), &order)
        - ask(x.select(Axis(1), &order) + &places);
    assert!(largest(difference) > 0.1);
}

#[test]
fn earlier_answers_are_bit_equal_when_the_future_changes() {
    let (x, causal) = (wavy(5, 8), Mask::causal(5, 5));
    let before = self_attention(&attention(), &x, &causal).unwrap().output;
    for last in 1..5 {
        let mut changed = x.clone();
        changed.slice_mut(s![.., last.., ..]).fill(f64::NAN);
        let after = self_attention(&attention(), &changed, &causal)
            .unwrap()
            .output;
        assert_eq!(
            after.slice(s![.., ..last, ..]),
            before.slice(s![.., ..last, ..])
        );
        assert!(after.slice(s![.., last.., ..]).iter().all(|x| x.is_nan()));
    }
}

#[test]
fn masks_hide_padding_and_the_future() {
    let tokens = example_tokens();
    let both_ways = bidirectional_mask(&tokens, PAD);
    let back = causal_mask(&tokens, PAD).unwrap();
    let (both_ways, back) = (
        both_ways.fit((2, 1, 5, 5)).unwrap(),
        back.fit((2, 1, 5, 5)).unwrap(),
    );
    for ((b, _, i, j), &seen) in both_ways.indexed_iter() {
        assert_eq!(seen, tokens[[b, j]] != PAD);
        assert_eq!(back[[b, 0, i, j]], seen && j <= i);
    }
}

#[test]
fn the_sentence_looks_where_the_page_says() {
    let (tokens, x) = sentence();
    let x = x.insert_axis(Axis(0));
    let weights = self_attention(&wants_meet_offers(), &x, &Mask::everything())
        .unwrap()
        .weights;
    let best = |token: &str| {
        let i = tokens.iter().position(|&t| t == token).unwrap();
        let row = weights.slice(s![0, 0, i, ..]);
        tokens[(0..6).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()]
    };
    assert_eq!(
        (best("很"), best("好"), best("今天")),
        ("好", "天气", "天气")
    );
}

#[test]
fn pairs_of_columns_share_a_frequency() {
    let positions = sinusoidal_positions::<f64>(50, 8);
    for p in 0..50 {
        for i in 0..4 {
            let (sin, cos) = (positions[[p, 2 * i]], positions[[p, 2 * i + 1]]);
            assert!((sin * sin + cos * cos - 1.0).abs() < 1e-14);
            let angle = p as f64 / 10_000_f64.powf(2.0 * i as f64 / 8.0);
            assert!(
                (sin - angle.sin()).abs() < 1e-12
                    && (cos - angle.cos()).abs() < 1e-12
            );
        }
    }
    // An odd width ends with a sine; none and nowhere are empty.
    let odd = sinusoidal_positions::<f64>(3, 5);
    assert!((odd[[1, 4]] - 10_000_f64.powf(-0.8).sin()).abs() < 1e-15);
    assert_eq!(sinusoidal_positions::<f32>(0, 4).dim(), (0, 4));
    assert_eq!(sinusoidal_positions::<f32>(4, 0).dim(), (4, 0));
}

#[test]
fn rotated_scores_depend_on_the_distance_alone() {
    let (query, key) = (wavy(1, 6), wavy(1, 6) * 0.5 + 0.25);
    let turn =
        |x: &Array3<f64>, p| rotate(&x.clone().insert_axis(Axis(0)), &[p]).unwrap();
    let score = |p, r| (&turn(&query, p) * &turn(&key, r)).sum();
    for distance in 0..6 {
        let expected = score(distance, 0);
        for first in [1, 7, 100, 4000] {
            assert!((score(first + distance, first) - expected).abs() < 1e-10);
        }
    }
    assert!(
        (score(0, 3) - score(3, 0)).abs() > 1e-3,
        "before is not after"
    );
    // Each pair by its own angle, counter-clockwise: (1, 0) becomes (cos, sin).
    let turned = rotate(&array![[[[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]]]], &[3]).unwrap();
    let angles = [0, 2, 4].map(|two_i| 3.0 / 10_000_f64.powf(two_i as f64 / 6.0));
    let expected = [
        angles[0].cos(),
        angles[0].sin(),
        angles[1].cos(),
        angles[1].sin(),
        -angles[2].sin(),
        angles[2].cos(),
    ];
    for (found, expected) in turned.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{turned}");
    }
    // Position 0 turns nothing, and no position changes a length.
    assert_eq!(turn(&query, 0), query.clone().insert_axis(Axis(0)));
    let length = |x: &Array4<f64>| (x * x).sum();
    assert!((length(&turn(&query, 9)) - length(&turn(&query, 0))).abs() < 1e-13);
}

#[test]
fn rotation_takes_every_head_and_refuses_what_does_not_fit() {
    let x = Array4::from_shape_fn((2, 3, 4, 6), |(b, h, j, c)| {
        ((b * 7 + h * 5 + j * 3 + c) as f64).cos()
    });
    let turned = rotate(&x, &[5, 0, 9, 2]).unwrap();
    for b in 0..2 {
        for h in 0..3 {
            let alone = x.slice(s![b..=b, h..=h, .., ..]);
            assert_eq!(
                turned.slice(s![b..=b, h..=h, .., ..]),
                rotate(&alone, &[5, 0, 9, 2]).unwrap()
            );
        }
    }
    assert_eq!(
        rotate(&x, &[0, 1]).unwrap_err().to_string(),
        "there are 4 vectors but 2 positions"
    );
    assert_eq!(
        rotate(&Array4::<f32>::zeros((1, 1, 1, 3)), &[0])
            .unwrap_err()
            .to_string(),
        "a width of 3 cannot be rotated in pairs"
    );
    assert_eq!(
        rotate(&Array4::<f32>::zeros((1, 1, 0, 0)), &[])
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn positions_count_real_tokens() {
    let tokens = array![[0, 0, 7, 8], [5, 6, 7, 8], [5, 0, 6, 0], [0, 0, 0, 0]];
    assert_eq!(
        token_positions(&tokens, 0),
        array![[0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 1, 0], [0, 0, 0, 0]]
    );
}

/// The formulas against loops that count.
#[test]
fn costs_are_what_loops_count() {
    let (n, d, width) = (6, 5, 3);
    let mut attention = 0_u128;
    let mut recurrence = 0_u128;
    let mut convolution = 0_u128;
    for _ in 0..n {
        for _ in 0..n {
            attention += 2 * d; // a score, and a share of a value
        }
        recurrence += 2 * d * d; // what comes in, and what is carried
        for _ in 0..width {
            convolution += d * d;
        }
    }
    assert_eq!(Cost::of_self_attention(6, 5).multiplications, attention);
    assert_eq!(Cost::of_recurrence(6, 5).multiplications, recurrence);
    assert_eq!(
        Cost::of_convolution(6, 5, 3).unwrap().multiplications,
        convolution
    );
    let rest = |cost: Cost| (cost.sequential, cost.path);
    assert_eq!(rest(Cost::of_self_attention(6, 5)), (1, 1));
    assert_eq!(rest(Cost::of_recurrence(6, 5)), (6, 5));
    assert_eq!(rest(Cost::of_convolution(6, 5, 3).unwrap()), (1, 5));
    assert_eq!(Cost::of_convolution(9, 1, 5).unwrap().path, 4);
    assert_eq!(Cost::of_convolution(10, 1, 5).unwrap().path, 5);
    for n in [0, 1] {
        assert_eq!(Cost::of_self_attention(n, 5).path, 0);
        assert_eq!(Cost::of_recurrence(n, 5).path, 0);
    }
    for width in [0, 1, 2, 4] {
        assert!(Cost::of_convolution(5, 5, width).is_err());
    }
    // The largest sizes do not overflow.
    let (max, huge) = (u32::MAX, u128::from(u32::MAX));
    for (cost, expected) in [
        (Cost::of_self_attention(max, max), 2 * huge.pow(3)),
        (Cost::of_recurrence(max, max), 2 * huge.pow(3)),
        (Cost::of_convolution(max, max, max).unwrap(), huge.pow(4)),
    ] {
        assert_eq!(cost.multiplications, expected);
    }
}

#[test]
fn an_attention_of_the_wrong_width_is_an_error() {
    let error = self_attention(&attention(), &wavy(3, 6), &Mask::everything());
    assert_eq!(
        error.unwrap_err().to_string(),
        "vectors are 6 wide but the projection takes 8"
    );
}
