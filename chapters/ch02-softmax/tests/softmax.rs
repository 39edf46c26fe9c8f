//! What chapter 2 claims about softmax, weights and the weighted sum.

use ch01_alignment::{
    additive_scores, alignment_scores, first_example, second_example,
};
use ch02_softmax::*;
use ndarray::{Array1, Array2, ArrayView1, Axis, Slice, array};

const INF: f64 = f64::INFINITY;

fn assert_near(left: ArrayView1<f64>, right: ArrayView1<f64>, tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (a, b) in left.iter().zip(right) {
        assert!((a - b).abs() <= tolerance, "{left} ≠ {right}");
    }
}

#[test]
fn the_pinned_weights_and_answer() {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let attention = attend(&scores, &first_example_values()).unwrap();
    assert_near(
        attention.weights.row(0),
        array![0.098, 0.756, 0.048, 0.098].view(),
        5e-4,
    );
    assert_near(
        attention.output.row(0),
        array![1.977, 2.977, 3.977, 4.977].view(),
        5e-4,
    );
}

/// Expected values computed apart, in double precision.
#[test]
fn large_scores_are_exact() {
    let scores = array![[1000.0, 1001.0, -1000.0], [-1000.0, -1000.5, -1002.0]];
    let weights = attention_weights(&scores);
    let expected = array![
        [0.2689414213699951, 0.7310585786300049, 0.0],
        [0.5740969929676946, 0.3482074278837349, 0.0776955791485706],
    ];
    for i in 0..2 {
        assert_near(weights.row(i), expected.row(i), 1e-15);
        assert!(naive_softmax(&scores.row(i)).iter().any(|a| a.is_nan()));
    }
    let huge = softmax(&array![-f64::MAX, f64::MAX]);
    assert_eq!(huge, array![0.0, 1.0]);
}

#[test]
fn single_precision_fails_at_ninety_only_when_naive() {
    let scores = array![0.0_f32, 90.0];
    assert!(naive_softmax(&scores).iter().any(|a| a.is_nan()));
    assert_eq!(softmax(&scores), array![(-90.0_f32).exp(), 1.0]);
    // Each exponential fits, their sum does not.
    assert_eq!(naive_softmax(&array![88.5_f32, 88.5]), array![0.0, 0.0]);
    assert_eq!(softmax(&array![88.5_f32, 88.5]), array![0.5, 0.5]);
}

#[test]
fn naive_and_stable_agree_where_both_work() {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    for row in scores.rows() {
        assert_near(naive_softmax(&row).view(), softmax(&row).view(), 1e-15);
    }
}

#[test]
fn a_shift_changes_nothing() {
    let scores = array![1.0, 3.0, 2.0];
    for by in [-1e6, -1.0, 0.5, 1e6] {
        assert_near(
            softmax(&(&scores + by)).view(),
            softmax(&scores).view(),
            1e-12,
        );
    }
}

#[test]
fn special_scores_have_defined_weights() {
    assert_eq!(softmax(&Array1::<f64>::zeros(0)).len(), 0);
    assert_eq!(softmax(&array![-3.0]), array![1.0]);
    assert_eq!(softmax(&array![-INF, -INF]), array![0.0, 0.0]);
    assert_near(
        softmax(&array![0.5, -INF, 1.5]).view(),
        array![0.2689414213699951, 0.0, 0.7310585786300049].view(),
        1e-15,
    );
    for scores in [
        array![INF, 0.0],
        array![INF, INF],
        array![INF, -INF],
        array![0.0, f64::NAN],
        array![f64::NAN, 0.0],
        array![-INF, f64::NAN],
        array![f64::NAN, -INF],
        array![INF, f64::NAN],
    ] {
        let weights = softmax(&scores);
        assert!(weights.iter().all(|a| a.is_nan()), "{scores} → {weights}");
        let tempered = softmax_with_temperature(&scores, 2.0).unwrap();
        assert!(tempered.iter().all(|a| a.is_nan()), "{scores} → {tempered}");
    }
}

#[test]
fn log_sum_exp_is_the_logarithm_of_the_denominator() {
    let scores = array![0.36, 2.4, -0.36, 0.36];
    let direct = scores.mapv(f64::exp).sum().ln();
    assert!((log_sum_exp(&scores) - direct).abs() < 1e-15);
    assert_eq!(log_sum_exp(&array![1e4, 1e4]), 1e4 + 2f64.ln());
    assert_eq!(log_sum_exp(&Array1::<f64>::zeros(0)), -INF);
    assert_eq!(log_sum_exp(&array![-INF, -INF]), -INF);
    assert_eq!(log_sum_exp(&array![INF, 1.0]), INF);
    assert!(log_sum_exp(&array![INF, f64::NAN]).is_nan());
    assert!(log_sum_exp(&array![-INF, f64::NAN]).is_nan());
}

#[test]
fn temperature_sharpens_and_flattens() {
    let scores = array![0.36, 2.4, -0.36, 0.36];
    let at = |t| softmax_with_temperature(&scores, t).unwrap();
    assert_eq!(at(1.0), softmax(&scores));
    assert_near(at(2.0).view(), softmax(&(&scores / 2.0)).view(), 1e-15);
    assert_eq!(at(1e-300), array![0.0, 1.0, 0.0, 0.0]);
    assert_near(
        at(1e300).view(),
        array![0.25, 0.25, 0.25, 0.25].view(),
        1e-15,
    );
    assert!(at(0.5)[1] > at(1.0)[1] && at(1.0)[1] > at(2.0)[1]);
    for bad in [0.0, -1.0, INF, f64::NAN] {
        let message = softmax_with_temperature(&scores, bad)
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            format!("the temperature must be a finite number above 0, not {bad}")
        );
    }
}

#[test]
fn every_row_is_normalised_on_its_own() {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let weights = attention_weights(&scores);
    for (i, row) in weights.rows().into_iter().enumerate() {
        assert!(row.iter().all(|&a| a >= 0.0));
        assert!((row.sum() - 1.0).abs() < 1e-15);
        assert_eq!(row, softmax(&scores.row(i)));
    }
    // One infinite score spoils its own row and no other.
    let mut spoiled = scores.clone();
    spoiled[[0, 0]] = INF;
    let rows = attention_weights(&spoiled);
    assert!(rows.row(0).iter().all(|a| a.is_nan()));
    assert_eq!(rows.row(1), weights.row(1));
}

/// With one query the wrong axis has length 1, and every weight would be 1.
#[test]
fn weights_run_over_the_keys() {
    let weights = attention_weights(
        &alignment_scores(
            &array![[1.0, 0.5, -1.0]],
            &array![[0.5, 1.0, 0.25], [2.0, -1.0, 0.5]],
        )
        .unwrap(),
    );
    assert_near(
        weights.row(0),
        array![0.4378234991142019, 0.5621765008857981].view(),
        1e-15,
    );
}

#[test]
fn the_second_example_catches_a_swapped_column() {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let values = second_example_values();
    let right = attend(&scores, &values).unwrap();
    let swapped =
        attend(&scores, &values.select(Axis(1), &[1, 0, 2, 3, 4])).unwrap();
    assert_ne!(right.output, swapped.output);
    for i in 0..2 {
        for c in 0..5 {
            let sum: f64 =
                (0..4).map(|j| right.weights[[i, j]] * values[[j, c]]).sum();
            assert!((right.output[[i, c]] - sum).abs() < 1e-15);
        }
    }
}

/// The weights mix the states themselves, not their projections. Expected values computed apart.
#[test]
fn additive_attention_mixes_the_states() {
    let states = array![[-1.75, 1.25], [0.5, 0.25], [1.25, -1.0]];
    let scores = additive_scores(
        &array![[0.5, -1.0]],
        &states,
        &array![[0.5, -0.25], [-0.75, 1.0]],
        &array![[-1.0, 1.0], [0.75, -1.0]],
        &array![1.0, -0.75],
    )
    .unwrap();
    let attention = attend(&scores, &states).unwrap();
    assert_near(
        attention.weights.row(0),
        array![0.6817615165893223, 0.2866332103831354, 0.03160527302754237].view(),
        1e-14,
    );
    assert_near(
        attention.output.row(0),
        array![-1.0102594575553183, 0.8922549253048944].view(),
        1e-14,
    );
}

#[test]
fn empty_shapes_have_empty_answers() {
    let no_keys =
        attend(&Array2::<f64>::zeros((2, 0)), &Array2::zeros((0, 3))).unwrap();
    assert_eq!(no_keys.output, Array2::<f64>::zeros((2, 3)));
    let no_queries =
        attend(&Array2::<f64>::zeros((0, 4)), &Array2::zeros((4, 3))).unwrap();
    assert_eq!(no_queries.output.dim(), (0, 3));
}

#[test]
fn the_error_names_weights_and_values() {
    let error =
        attend(&Array2::<f64>::zeros((2, 4)), &Array2::zeros((3, 2))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "each query has 4 weights but there are 3 values"
    );
}

#[test]
fn strided_views_give_the_same() {
    let scores = array![[0.1, 9.0, 0.2, 9.0], [0.3, 9.0, 0.4, 9.0]];
    let every_other = scores.slice_axis(Axis(1), Slice::new(0, None, 2));
    let compact = every_other.to_owned();
    assert_eq!(attention_weights(&every_other), attention_weights(&compact));
    let columns_first = compact.t().to_owned();
    assert_eq!(
        attention_weights(&columns_first.t()),
        attention_weights(&compact)
    );
}

#[test]
fn extreme_scores_and_temperatures() {
    let at = |scores: [f64; 2], t| {
        softmax_with_temperature(&ArrayView1::from(&scores), t).unwrap()
    };
    assert_eq!(at([1.0, 2.0], f64::MIN_POSITIVE / 4.0), array![0.0, 1.0]);
    assert_eq!(at([1e200, 1e200], 1e-200), array![0.5, 0.5]);
    assert_eq!(at([-f64::MAX, f64::MAX], 0.5), array![0.0, 1.0]);
    assert_eq!(at([-f64::MAX, -INF], 0.5), array![1.0, 0.0]);
    assert_eq!(at([-INF, -INF], 2.0), array![0.0, 0.0]);
}

#[test]
fn as_many_queries_as_keys() {
    let weights = array![[1.0, 0.0], [0.25, 0.75]];
    assert_eq!(
        weighted_sum(&weights, &array![[4.0], [8.0]]).unwrap(),
        array![[4.0], [7.0]]
    );
    let square = attention_weights(&array![[0.0, 3f64.ln()], [0.0, 0.0]]);
    assert_near(square.row(0), array![0.25, 0.75].view(), 1e-15);
}
