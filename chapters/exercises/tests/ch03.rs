//! Judges the exercises of chapter 3: `cargo test -p exercises --test ch03`.

use ch01_alignment::second_example;
use ch02_softmax::{second_example_values, softmax};
use ch03_scaled::{scaled_dot_product_attention, softmax_jacobian};
use exercises::ch03::*;
use ndarray::{Array2, array};

#[test]
fn exercise_1_weights_by_hand() {
    let scores = array![4.0 * 3f64.ln(), 0.0] / 16f64.sqrt();
    for (yours, expected) in weights_by_hand().iter().zip(&softmax(scores.view())) {
        assert!(
            (yours - expected).abs() < 1e-9,
            "{yours} is not right: divide the scores by √16, then take the softmax"
        );
    }
}

#[test]
fn exercise_2_scale_for() {
    for (d_k, query, key) in [
        (64, 1.0, 1.0),
        (16, 4.0, 1.0),
        (16, 1.0, 4.0),
        (3, 0.5, 2.5),
    ] {
        let yours = scale_for(d_k, query, key);
        assert!(
            yours > 0.0,
            "a scale is above 0: yours, {yours}, would turn the best key into the worst"
        );
        let variance = yours * yours * d_k as f64 * query * key;
        assert!(
            (variance - 1.0).abs() < 1e-9,
            "with d_k = {d_k} and variances {query} and {key} your scale {yours} \
             leaves the score a variance of {variance}, not 1"
        );
    }
}

#[test]
fn exercise_3_attention_with_scaled_queries() {
    let (queries, keys) = second_example();
    let values = second_example_values();
    let yours =
        attention_with_scaled_queries(queries.view(), keys.view(), values.view())
            .expect("the shapes fit, so this should not fail");
    let expected =
        scaled_dot_product_attention(queries.view(), keys.view(), values.view())
            .unwrap();
    for (name, a, b) in [
        ("weights", &yours.weights, &expected.weights),
        ("output", &yours.output, &expected.output),
    ] {
        assert_eq!(a.dim(), b.dim(), "the shape of the {name}");
        assert!(
            a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-9),
            "the {name} should not change:\n{b}\nnot\n{a}"
        );
    }
    assert!(
        attention_with_scaled_queries(
            queries.view(),
            Array2::ones((4, 2)).view(),
            values.view()
        )
        .is_err(),
        "queries and keys of different widths should be an error"
    );
}

#[test]
fn exercise_4_gradient_through_softmax() {
    let weights = softmax(array![0.36, 2.4, -0.36, 0.36].view());
    let g = array![1.0, -0.5, 2.0, 0.25];
    let yours = gradient_through_softmax(weights.view(), g.view());
    let expected = g.dot(&softmax_jacobian(weights.view()));
    assert_eq!(yours.len(), 4, "one derivative for each score");
    assert!(
        yours
            .iter()
            .zip(&expected)
            .all(|(a, b)| (a - b).abs() < 1e-9),
        "expected {expected}, not {yours}: every entry is a_j (g_j − g · a)"
    );
}
