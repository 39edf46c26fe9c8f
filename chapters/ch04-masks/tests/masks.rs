//! What chapter 4 claims about masks.

use ch01_alignment::{first_example, second_example};
use ch02_softmax::{Attention, first_example_values, second_example_values};
use ch03_scaled::scaled_dot_product_attention;
use ch04_masks::*;
use ndarray::{Array2, Array4, array, s};

fn rows(mask: &Mask) -> String {
    mask.to_string().replace(' ', "")
}

fn ramp(shape: Shape) -> Array4<f64> {
    let mut x = 0.0;
    Array4::from_shape_simple_fn(shape, || {
        x += 1.7;
        f64::sin(x)
    })
}

fn attend(
    q: &Array2<f64>,
    k: &Array2<f64>,
    v: &Array2<f64>,
    mask: &Mask,
) -> Attention<f64> {
    masked_attention(q, k, v, mask).unwrap()
}

#[test]
fn padding_from_tokens_and_from_lengths() {
    let mask = Mask::padding_of_tokens(&example_tokens(), PAD);
    assert_eq!(rows(&mask), "111··\n11···");
    assert_eq!(mask, Mask::padding(&[3, 2], 5).unwrap());
    assert_eq!(
        rows(&Mask::padding(&[2, 4, 0], 4).unwrap()),
        "11··\n1111\n····"
    );
    // Padding on the left, or a hole, is hidden wherever it stands.
    let tokens = array![[0, 7, 0, 8]];
    assert_eq!(rows(&Mask::padding_of_tokens(&tokens, 0)), "·1·1");
    assert_eq!(
        Mask::padding(&[3, 7], 5).unwrap_err().to_string(),
        "sequence 1 is 7 long but there are only 5 keys"
    );
}

#[test]
fn causal_is_aligned_at_the_bottom_right() {
    assert_eq!(rows(&Mask::causal(3, 3)), "1··\n11·\n111");
    assert_eq!(rows(&Mask::causal(2, 4)), "111·\n1111");
    assert_eq!(rows(&Mask::causal(1, 4)), "1111");
    assert_eq!(rows(&Mask::causal(4, 2)), "··\n··\n1·\n11");
    assert_eq!(Mask::causal_from(2, 2, 4), Mask::causal(2, 4));
    assert_eq!(rows(&Mask::causal_from(0, 2, 4)), "1···\n11··");
    assert_eq!(rows(&Mask::causal_from(usize::MAX, 2, 2)), "11\n11");
}

#[test]
fn a_window_counts_the_query_itself() {
    let window = |m, n, width| rows(&Mask::window(m, n, width).unwrap());
    assert_eq!(window(4, 4, 1), "1···\n·1··\n··1·\n···1");
    assert_eq!(window(4, 4, 2), "1···\n11··\n·11·\n··11");
    assert_eq!(window(2, 4, 2), "·11·\n··11");
    assert_eq!(window(3, 2, 2), "··\n1·\n11");
    assert_eq!(Mask::window(4, 4, 9).unwrap(), Mask::causal(4, 4));
    assert!(Mask::window(4, 4, 0).is_err());
}

#[test]
fn and_needs_both_and_stretches() {
    let both = (&Mask::causal(3, 3) & &Mask::padding(&[3, 1], 3).unwrap()).unwrap();
    assert_eq!(rows(&both), "1··\n11·\n111\n\n1··\n1··\n1··");
    assert_eq!(format!("{both:?}"), "2 × 1 × 3 × 3");
    assert_eq!((&both & &Mask::everything()).unwrap(), both);
    assert_eq!(
        (&Mask::causal(3, 3) & &Mask::causal(2, 3))
            .unwrap_err()
            .to_string(),
        "masks of 1 × 1 × 3 × 3 and 1 × 1 × 2 × 3 do not fit each other"
    );
    let none = Mask::from_fn((0, 1, 1, 3), |_, _, _, _| true);
    assert_eq!(
        format!("{:?}", (&none & &Mask::causal(3, 3)).unwrap()),
        "0 × 1 × 3 × 3"
    );
}

#[test]
fn a_mask_can_be_asked_place_by_place() {
    let mask = Mask::padding(&[3, 1], 3).unwrap();
    assert!(mask.allows(0, 5, 9, 2) && mask.allows(1, 0, 0, 0));
    assert!(
        !mask.allows(1, 0, 0, 1)
            && !mask.allows(0, 0, 0, 3)
            && !mask.allows(2, 0, 0, 0)
    );
}

#[test]
fn a_mask_that_does_not_fit_says_both_shapes() {
    assert_eq!(
        Mask::causal(4, 4)
            .fit((2, 1, 4, 5))
            .unwrap_err()
            .to_string(),
        "a mask of 1 × 1 × 4 × 4 does not fit scores of 2 × 1 × 4 × 5"
    );
    let (x, mask) = (ramp((2, 1, 3, 4)), Mask::padding(&[1, 1, 1], 3).unwrap());
    assert_eq!(
        batched_attention(&x, &x, &x, &mask)
            .unwrap_err()
            .to_string(),
        "a mask of 3 × 1 × 1 × 3 does not fit scores of 2 × 1 × 3 × 3"
    );
}

#[test]
fn additive_is_zero_and_minus_infinity() {
    let additive = Mask::causal(2, 2).to_additive::<f32>();
    assert_eq!(
        additive.flatten().to_vec(),
        [0.0, f32::NEG_INFINITY, 0.0, 0.0]
    );
    // Added to finite scores it gives the same weights.
    let (scores, mask) = (ramp((1, 1, 3, 3)), Mask::causal(3, 3));
    let added = &scores + &mask.to_additive::<f64>();
    assert_eq!(
        masked_softmax(&scores, &mask).unwrap(),
        masked_softmax(&added, &Mask::everything()).unwrap()
    );
}

#[test]
fn without_a_mask_it_is_chapter_3() {
    let (queries, keys) = second_example();
    let values = second_example_values();
    assert_eq!(
        attend(&queries, &keys, &values, &Mask::everything()),
        scaled_dot_product_attention(&queries, &keys, &values).unwrap()
    );
}

#[test]
fn forbidden_keys_might_as_well_not_be_there() {
    let (queries, keys) = second_example();
    let values = second_example_values();
    let masked = attend(&queries, &keys, &values, &Mask::padding(&[3], 4).unwrap());
    let without = scaled_dot_product_attention(
        &queries,
        &keys.slice(s![..3, ..]),
        &values.slice(s![..3, ..]),
    )
    .unwrap();
    assert!(
        (&masked.output - &without.output)
            .iter()
            .all(|x| x.abs() < 1e-15)
    );
    assert!(masked.weights.column(3).iter().all(|&a| a == 0.0));
}

#[test]
fn nothing_leaks_through_a_forbidden_key() {
    let (queries, keys) = second_example();
    // Query 0 may see keys 0 and 1, query 1 may see keys 1, 2 and 3.
    let mask = Mask::from_fn(
        (1, 1, 2, 4),
        |_, _, i, j| if i == 0 { j < 2 } else { j > 0 },
    );
    let before = attend(&queries, &keys, &second_example_values(), &mask);
    for filling in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
        let (mut keys, mut values) = (keys.clone(), second_example_values());
        keys.row_mut(0).fill(filling);
        values.row_mut(0).fill(filling);
        let after = attend(&queries, &keys, &values, &mask);
        assert_eq!(
            after.output.row(1),
            before.output.row(1),
            "key 0 is hidden from query 1"
        );
        // What is allowed to be seen is not hidden.
        if filling.is_nan() {
            assert!(after.output.row(0).iter().all(|x| x.is_nan()));
        }
    }
    // An infinite value of an allowed key arrives, with its sign.
    let mut values = second_example_values();
    values[[1, 2]] = f64::NEG_INFINITY;
    let after = attend(&queries, &keys, &values, &mask);
    for i in 0..2 {
        assert_eq!(after.output[[i, 2]], f64::NEG_INFINITY);
        assert!((after.output[[i, 1]] - before.output[[i, 1]]).abs() < 1e-15);
    }
}

/// Against a loop over the allowed keys alone: signs, weights of 0, and infinities that meet.
#[test]
fn what_is_not_finite_is_summed_over_the_allowed_keys_alone() {
    let wild = [
        1.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -2.0,
        1e300,
        0.0,
    ];
    let mask =
        Mask::from_fn((2, 2, 3, 5), |b, h, i, j| (b + 2 * h + i + j) % 3 != 0);
    let allowed = mask.fit((2, 2, 3, 5)).unwrap();
    let weights = Array4::from_shape_fn((2, 2, 3, 5), |(b, h, i, j)| {
        if allowed[[b, h, i, j]] {
            [0.25, 0.0, 0.5, -1.0][(b + h + 2 * i + 3 * j) % 4]
        } else {
            0.0
        }
    });
    for shift in 0..7 {
        let values = Array4::from_shape_fn((2, 2, 5, 4), |(b, h, j, c)| {
            wild[(3 * b + 5 * h + 2 * j + 4 * c * j + shift) % 7]
        });
        let found = masked_sum(&weights, &values, &mask).unwrap();
        for ((b, h, i, c), &found) in found.indexed_iter() {
            let expected: f64 = (0..5)
                .filter(|&j| allowed[[b, h, i, j]])
                .map(|j| weights[[b, h, i, j]] * values[[b, h, j, c]])
                .sum();
            assert!(
                found == expected || found.is_nan() && expected.is_nan(),
                "{found} is not {expected}"
            );
        }
    }
}

#[test]
fn infinite_scores_count_where_they_are_allowed() {
    let scores = array![[[[f64::INFINITY, 1.0, f64::NEG_INFINITY, 1.0]]]];
    let hidden = Mask::from_fn((1, 1, 1, 4), |_, _, _, j| j > 0);
    assert_eq!(
        masked_softmax(&scores, &hidden).unwrap(),
        array![[[[0.0, 0.5, 0.0, 0.5]]]]
    );
    let seen = masked_softmax(&scores, &Mask::everything()).unwrap();
    assert!(seen.iter().all(|a| a.is_nan()));
}

#[test]
fn an_empty_row_is_zero_and_alone() {
    let (queries, keys) = second_example();
    for filling in [0.0, f64::NAN] {
        let mut queries = queries.clone();
        queries.row_mut(1).fill(filling);
        let mask = Mask::from_fn((1, 1, 2, 4), |_, _, i, _| i == 0);
        let attention = attend(&queries, &keys, &second_example_values(), &mask);
        assert!(attention.weights.row(1).iter().all(|&a| a == 0.0));
        assert!(attention.output.row(1).iter().all(|&x| x == 0.0));
        assert!((attention.weights.row(0).sum() - 1.0).abs() < 1e-15);
    }
}

#[test]
fn nan_among_the_allowed_is_not_hidden() {
    let scores = array![[[[1.0, f64::NAN, 2.0], [1.0, 3.0, f64::NAN]]]];
    let weights =
        masked_softmax(&scores, &Mask::padding(&[2], 3).unwrap()).unwrap();
    assert!(weights.slice(s![0, 0, 0, ..]).iter().all(|a| a.is_nan()));
    assert!((weights.slice(s![0, 0, 1, ..]).sum() - 1.0).abs() < 1e-15);
}

#[test]
fn earlier_rows_do_not_move_when_the_future_does() {
    let (_, x) = first_example();
    let (values, causal) = (first_example_values(), Mask::causal(4, 4));
    let before = attend(&x, &x, &values, &causal);
    for last in 1..4 {
        let (mut x, mut values) = (x.clone(), values.clone());
        x.row_mut(last).fill(-3.0);
        values.row_mut(last).fill(f64::NAN);
        let after = attend(&x, &x, &values, &causal);
        for i in 0..last {
            assert_eq!(after.output.row(i), before.output.row(i));
        }
        assert!(after.output.row(last).iter().all(|x| x.is_nan()));
    }
}

#[test]
fn every_head_of_every_sequence_is_attention_by_itself() {
    let (q, k, v) = (ramp((2, 3, 4, 5)), ramp((2, 3, 6, 5)), ramp((2, 3, 6, 2)));
    let mask =
        Mask::from_fn((2, 3, 4, 6), |b, h, i, j| (b + 2 * h + i * j) % 4 != 1);
    let whole = batched_attention(&q, &k, &v, &mask).unwrap();
    assert_eq!(whole.output.dim(), (2, 3, 4, 2));
    assert_eq!(whole.weights.dim(), (2, 3, 4, 6));
    for b in 0..2 {
        for h in 0..3 {
            let part = |x: &Array4<f64>| -> Array2<f64> {
                x.slice(s![b, h, .., ..]).to_owned()
            };
            let own = Mask::from_fn((1, 1, 4, 6), |_, _, i, j| {
                (b + 2 * h + i * j) % 4 != 1
            });
            let one = attend(&part(&q), &part(&k), &part(&v), &own);
            assert_eq!(part(&whole.output), one.output);
            assert_eq!(part(&whole.weights), one.weights);
        }
    }
}

#[test]
fn layout_does_not_matter() {
    let (queries, keys) = second_example();
    let (values, mask) = (second_example_values(), Mask::causal(2, 4));
    let expected = attend(&queries, &keys, &values, &mask);
    let turned = |x: &Array2<f64>| x.t().as_standard_layout().into_owned();
    let (q, k, v) = (turned(&queries), turned(&keys), turned(&values));
    let found = masked_attention(&q.t(), &k.t(), &v.t(), &mask).unwrap();
    assert!(
        (&found.output - &expected.output)
            .iter()
            .all(|x| x.abs() < 1e-14)
    );
}

#[test]
fn empty_batches_and_sequences_have_empty_answers() {
    for (b, h, m, n) in [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)] {
        let attention = batched_attention(
            &Array4::<f64>::zeros((b, h, m, 5)),
            &Array4::zeros((b, h, n, 5)),
            &Array4::zeros((b, h, n, 6)),
            &Mask::causal(m, n),
        )
        .unwrap();
        assert_eq!(attention.output, Array4::<f64>::zeros((b, h, m, 6)));
        assert_eq!(attention.weights.dim(), (b, h, m, n));
    }
}

#[test]
fn errors_name_the_shapes() {
    let zeros = Array4::<f64>::zeros;
    let all = Mask::everything();
    for (q, k, v, expected) in [
        (
            (2, 4, 3, 5),
            (2, 3, 3, 5),
            (2, 3, 3, 5),
            "queries are 2 × 4 (batch × heads) but keys are 2 × 3",
        ),
        (
            (2, 4, 3, 5),
            (2, 4, 3, 6),
            (2, 4, 3, 5),
            "queries are 5 wide but keys are 6 wide",
        ),
        (
            (1, 1, 3, 5),
            (1, 1, 4, 5),
            (1, 1, 6, 5),
            "each query has 4 weights but there are 6 values",
        ),
        (
            (1, 1, 3, 5),
            (1, 1, 4, 5),
            (3, 1, 4, 5),
            "weights are 1 × 1 (batch × heads) but values are 3 × 1",
        ),
        (
            (1, 1, 3, 0),
            (1, 1, 4, 0),
            (1, 1, 4, 5),
            "queries and keys are 0 wide, so 1/√d_k has no value",
        ),
    ] {
        let error = batched_attention(&zeros(q), &zeros(k), &zeros(v), &all);
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

/// Without a head nothing is computed, but what does not fit still does not fit.
#[test]
fn empty_batches_do_not_hide_errors() {
    for (batch, heads) in [(0, 2), (2, 0)] {
        let zeros = |n, width| Array4::<f64>::zeros((batch, heads, n, width));
        let scores = |d_k, key_width| {
            batched_scaled_scores(&zeros(3, d_k), &zeros(4, key_width))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(scores(5, 6), "queries are 5 wide but keys are 6 wide");
        assert_eq!(
            scores(0, 0),
            "queries and keys are 0 wide, so 1/√d_k has no value"
        );
        assert_eq!(
            masked_sum(&zeros(3, 4), &zeros(6, 5), &Mask::everything())
                .unwrap_err()
                .to_string(),
            "each query has 4 weights but there are 6 values"
        );
    }
}

/// Nothing of an infinity is no number; some of it is infinite.
#[test]
fn an_allowed_infinity_is_multiplied_by_its_weight() {
    let values = array![[[[f64::INFINITY], [2.0]]]];
    let first_of = |weights: Array4<f64>| {
        let sum = masked_sum(&weights, &values, &Mask::everything()).unwrap();
        sum[[0, 0, 0, 0]]
    };
    assert!(first_of(array![[[[0.0, 1.0]]]]).is_nan());
    assert_eq!(first_of(array![[[[0.5, 0.5]]]]), f64::INFINITY);
}
