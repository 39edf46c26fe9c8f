//! What chapter 1 claims about its scores.

use ch01_alignment::*;
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis, Slice, array};

fn assert_close(left: &Array2<f64>, right: &Array2<f64>) {
    assert_eq!(left.dim(), right.dim());
    for (a, b) in left.iter().zip(right) {
        assert!(
            (a - b).abs() <= 1e-12 * b.abs().max(1.0),
            "{left} ≠ {right}"
        );
    }
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn the_first_example_scores_as_printed() {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    assert_close(&scores, &array![[0.36, 2.40, -0.36, 0.36]]);
}

#[test]
fn every_entry_is_the_dot_product_of_its_row_and_column() {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    assert_eq!(scores.dim(), (2, 4));
    for ((i, j), &score) in scores.indexed_iter() {
        let mut sum = 0.0;
        for l in 0..queries.ncols() {
            sum += queries[[i, l]] * keys[[j, l]];
        }
        assert!((score - sum).abs() < 1e-12);
        assert_eq!(score, dot_score(&queries.row(i), &keys.row(j)).unwrap());
    }
}

#[test]
fn dot_score_is_length_times_length_times_cosine() {
    let (queries, keys) = plane_example();
    let cosines = cosine_scores(&queries, &keys).unwrap();
    let q = queries.row(0);
    for (j, k) in keys.rows().into_iter().enumerate() {
        let lengths = q.dot(&q).sqrt() * k.dot(&k).sqrt();
        let score = dot_score(&q, &k).unwrap();
        assert!((score - lengths * cosines[[0, j]]).abs() < 1e-12);
    }
    assert_close(
        &cosines.select(Axis(1), &[0, 1, 2]),
        &array![[0.96, 0.8, 0.0]],
    );
}

#[test]
fn cosine_ignores_length_and_survives_extreme_ones() {
    let (queries, keys) = second_example();
    let plain = cosine_scores(&queries, &keys).unwrap();
    for factor in [1e-300, 1e-3, 1e150, 1e300] {
        let stretched = cosine_scores(&(&queries * factor), &keys).unwrap();
        assert_close(&stretched, &plain);
    }
    let zero = Array2::zeros((1, 3));
    assert_eq!(
        cosine_scores(&zero, &keys).unwrap(),
        Array2::<f64>::zeros((1, 4))
    );
    let nan = array![[f64::NAN, 0.0, 0.0]];
    assert!(
        cosine_scores(&nan, &keys)
            .unwrap()
            .iter()
            .all(|x| x.is_nan())
    );
}

#[test]
fn bilinear_with_the_identity_is_the_dot_product() {
    let (queries, keys) = second_example();
    let identity = Array2::eye(3);
    assert_close(
        &bilinear_scores(&queries, &identity, &keys).unwrap(),
        &alignment_scores(&queries, &keys).unwrap(),
    );
}

#[test]
fn bilinear_joins_vectors_of_different_widths() {
    let queries = array![[1.0, 2.0]];
    let keys = array![[3.0, 4.0, 5.0]];
    let weight = array![[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]];
    // qᵀ W = (1, −2, 2), so the score is 3 − 8 + 10.
    assert_eq!(
        bilinear_scores(&queries, &weight, &keys).unwrap(),
        array![[5.0]]
    );
}

/// Expected values computed apart, in double precision.
#[test]
fn additive_scores_agree_with_an_independent_calculation() {
    let states = array![[-1.75, 1.25], [0.5, 0.25], [1.25, -1.0]];
    let scores = additive_scores(
        &array![[0.5, -1.0]],
        &states,
        &array![[0.5, -0.25], [-0.75, 1.0]],
        &array![[-1.0, 1.0], [0.75, -1.0]],
        &array![1.0, -0.75],
    )
    .unwrap();
    let expected =
        array![[1.747607920839071, 0.8811313923718438, -1.3237480187987298]];
    assert_close(&scores, &expected);
}

#[test]
fn a_batch_scores_each_entry_on_its_own() {
    let queries = Array3::from_shape_fn((3, 2, 4), |(b, i, l)| {
        (b * 7 + i * 3 + l) as f64 % 5.0
    });
    let keys = Array3::from_shape_fn((3, 5, 4), |(b, j, l)| {
        (b * 11 + j * 2 + l) as f64 % 3.0
    });
    let scores = batched_scores(&queries, &keys).unwrap();
    assert_eq!(scores.dim(), (3, 2, 5));
    for b in 0..3 {
        let alone = alignment_scores(
            &queries.index_axis(Axis(0), b),
            &keys.index_axis(Axis(0), b),
        )
        .unwrap();
        assert_eq!(scores.index_axis(Axis(0), b), alone);
    }
}

#[test]
fn layout_does_not_matter() {
    let (queries, keys) = second_example();
    let expected = alignment_scores(&queries, &keys).unwrap();
    let columns_first = queries.t().to_owned();
    assert_close(
        &alignment_scores(&columns_first.t(), &keys).unwrap(),
        &expected,
    );
    let spread = Array2::from_shape_fn((4, 6), |(i, j)| keys[[i, j / 2]]);
    let every_other: ArrayView2<f64> =
        spread.slice_axis(Axis(1), Slice::new(0, None, 2));
    assert_close(
        &alignment_scores(&queries, &every_other).unwrap(),
        &expected,
    );
}

#[test]
fn single_precision_stays_near_double() {
    let (queries, keys) = second_example();
    let single = |matrix: &Array2<f64>| matrix.mapv(|x| x as f32);
    let scores = alignment_scores(&single(&queries), &single(&keys)).unwrap();
    assert_close(
        &scores.mapv(f64::from),
        &alignment_scores(&queries, &keys).unwrap(),
    );
}

#[test]
fn empty_inputs_have_defined_results() {
    let none = Array2::<f64>::zeros((0, 3));
    let some = Array2::<f64>::ones((2, 3));
    assert_eq!(alignment_scores(&none, &some).unwrap().dim(), (0, 2));
    assert_eq!(alignment_scores(&some, &none).unwrap().dim(), (2, 0));
    assert_eq!(cosine_scores(&none, &some).unwrap().dim(), (0, 2));
    let flat = Array2::<f64>::zeros((2, 0));
    assert_eq!(
        alignment_scores(&flat, &flat).unwrap(),
        Array2::zeros((2, 2))
    );
    assert_eq!(
        dot_score(&Array1::<f64>::zeros(0), &Array1::zeros(0)).unwrap(),
        0.0
    );
    let no_batch = Array3::<f64>::zeros((0, 2, 3));
    assert_eq!(
        batched_scores(&no_batch, &no_batch).unwrap().dim(),
        (0, 2, 2)
    );
}

#[test]
fn errors_name_the_shapes() {
    let (a, b) = (Array2::<f64>::ones((2, 3)), Array2::<f64>::ones((5, 4)));
    assert_eq!(
        message(alignment_scores(&a, &b)),
        "queries are 3 wide but keys are 4 wide"
    );
    assert_eq!(
        message(cosine_scores(&a, &b)),
        "queries are 3 wide but keys are 4 wide"
    );
    assert_eq!(
        message(dot_score(&a.row(0), &b.row(0))),
        "the query is 3 wide but the key is 4 wide"
    );
    assert_eq!(
        message(bilinear_scores(&a, &Array2::ones((4, 3)), &b)),
        "queries are 3 wide and keys are 4 wide, but the weight between them is 4 × 3"
    );
    let v = Array1::ones(2);
    let fits = Array2::ones((2, 3));
    assert_eq!(
        message(additive_scores(&a, &b, &fits, &Array2::ones((3, 4)), &v)),
        "the hidden layer is 2 wide after w_query, 3 after w_key and 2 in v"
    );
    assert_eq!(
        message(additive_scores(
            &a,
            &b,
            &Array2::ones((2, 5)),
            &Array2::ones((2, 4)),
            &v
        )),
        "queries are 3 wide but w_query takes 5"
    );
    assert_eq!(
        message(additive_scores(&a, &b, &fits, &Array2::ones((2, 6)), &v)),
        "keys are 4 wide but w_key takes 6"
    );
    assert_eq!(
        message(batched_scores(
            &a.broadcast((2, 2, 3)).unwrap(),
            &a.broadcast((3, 2, 3)).unwrap()
        )),
        "queries come in a batch of 2 but keys in a batch of 3"
    );
    assert_eq!(
        message(batched_scores(
            &Array3::<f64>::zeros((0, 2, 3)),
            &Array3::zeros((0, 2, 4))
        )),
        "queries are 3 wide but keys are 4 wide"
    );
}

#[test]
fn nan_and_infinity_are_not_hidden() {
    let queries = array![[f64::NAN, 1.0], [f64::INFINITY, 1.0]];
    let keys = array![[0.0, 1.0], [1.0, 1.0]];
    let scores = alignment_scores(&queries, &keys).unwrap();
    assert!(scores.row(0).iter().all(|x| x.is_nan()));
    // ∞ · 0 is undefined, ∞ · 1 is not.
    assert!(scores[[1, 0]].is_nan());
    assert_eq!(scores[[1, 1]], f64::INFINITY);
}

#[test]
fn cosine_of_a_vector_without_a_positive_entry() {
    let keys = array![[-3.0, -4.0], [-1e300, 1e-3], [1e-3, -1e300]];
    assert_close(
        &cosine_scores(&array![[-0.0, -2.0]], &keys).unwrap(),
        &array![[0.8, 0.0, 1.0]],
    );
}

#[test]
fn a_square_bilinear_weight_is_neither_ignored_nor_transposed() {
    let (queries, keys) = (array![[1.0, 2.0]], array![[3.0, 5.0]]);
    let weight = array![[0.0, 1.0], [0.0, 0.0]];
    // qᵀ W k is q_1 k_2 here; transposed it would be q_2 k_1 = 6.
    assert_eq!(
        bilinear_scores(&queries, &weight, &keys).unwrap(),
        array![[5.0]]
    );
}

#[test]
fn bilinear_checks_both_sides_of_the_weight() {
    let ones = |m, n| Array2::<f64>::ones((m, n));
    for weight in [(3, 5), (2, 4)] {
        assert_eq!(
            message(bilinear_scores(
                &ones(2, 3),
                &ones(weight.0, weight.1),
                &ones(5, 4)
            )),
            format!(
                "queries are 3 wide and keys are 4 wide, but the weight between them is {} × {}",
                weight.0, weight.1
            )
        );
    }
}

#[test]
fn additive_scores_every_query_and_checks_w_query() {
    let (queries, keys) = second_example();
    let (w_query, w_key) = (
        array![[1.0, 0.0, -1.0], [0.5, 0.5, 0.0]],
        array![[-1.0, 0.0, 1.0], [0.0, 0.5, 0.5]],
    );
    let v = array![1.0, -2.0];
    let scores = |queries: ArrayView2<f64>| {
        additive_scores(&queries, &keys, &w_query, &w_key, &v).unwrap()
    };
    let both = scores(queries.view());
    for i in 0..2 {
        let alone = scores(queries.slice_axis(Axis(0), Slice::from(i..i + 1)));
        assert_close(
            &both.slice_axis(Axis(0), Slice::from(i..i + 1)).to_owned(),
            &alone,
        );
    }
    assert_ne!(both.row(0), both.row(1));
    assert_eq!(
        message(additive_scores(
            &queries,
            &keys,
            &Array2::ones((3, 3)),
            &w_key,
            &v
        )),
        "the hidden layer is 3 wide after w_query, 2 after w_key and 2 in v"
    );
}
