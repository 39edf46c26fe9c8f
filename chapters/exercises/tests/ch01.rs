//! Judges the exercises of chapter 1: `cargo test -p exercises --test ch01`.

use ch01_alignment::{
    cosine_scores, dot_score, first_example, plane_example, second_example,
};
use exercises::ch01::*;
use ndarray::{Array2, array};

#[test]
fn exercise_1_score_by_hand() {
    let (queries, keys) = first_example();
    let expected = dot_score(queries.row(0), keys.row(3)).unwrap();
    let yours = score_by_hand();
    assert!(
        (yours - expected).abs() < 1e-9,
        "q1 · k4 is not {yours}: multiply entry by entry, then add the four products"
    );
}

#[test]
fn exercise_2_key_at_a_right_angle() {
    let (queries, _) = first_example();
    let key = key_at_a_right_angle();
    assert!(
        key.iter().any(|&x| x != 0.0),
        "the key must not be all zeros"
    );
    let cosines = cosine_scores(queries.view(), array![key].view()).unwrap();
    assert!(
        cosines[[0, 0]].abs() < 1e-9,
        "the cosine between q1 and this key is {}, and at a right angle it is 0",
        cosines[[0, 0]]
    );
}

#[test]
fn exercise_3_best_key() {
    let best = |(queries, keys): (Array2<f64>, Array2<f64>)| {
        best_key(queries.view(), keys.view())
            .expect("the widths fit, so this should not fail")
    };
    assert_eq!(
        best(first_example()),
        [1],
        "q1 of the first example likes k2 best, whose index is 1"
    );
    assert_eq!(
        best(second_example()),
        [3, 2],
        "in the second example q1 likes k4 best, index 3, and q2 likes k3 best, index 2"
    );
    assert_eq!(
        best(plane_example()),
        [1],
        "the dot product likes the long key best, k2 with index 1"
    );
    let tied = Array2::ones((3, 2));
    assert_eq!(
        best((tied.clone(), tied)),
        [0, 0, 0],
        "if keys tie, take the first"
    );
    let negative = (
        Array2::ones((1, 2)),
        -Array2::from_shape_fn((3, 2), |(j, _)| 3.0 - j as f64),
    );
    assert_eq!(best(negative), [2], "scores may all be negative");
    assert!(
        best_key(Array2::ones((1, 2)).view(), Array2::ones((0, 2)).view()).is_err(),
        "without keys there is no best one: that should be an error"
    );
    assert!(
        best_key(Array2::ones((1, 2)).view(), Array2::ones((1, 3)).view()).is_err(),
        "queries and keys of different widths should be an error"
    );
}

#[test]
fn exercise_4_distance_scores() {
    let (queries, keys) = second_example();
    let yours = distance_scores(queries.view(), keys.view())
        .expect("the widths fit, so this should not fail");
    assert_eq!(
        yours.dim(),
        (2, 4),
        "a row for each query, a column for each key"
    );
    for ((i, j), &score) in yours.indexed_iter() {
        let difference = &queries.row(i) - &keys.row(j);
        let expected = -difference.dot(&difference);
        assert!(
            (score - expected).abs() < 1e-9,
            "q{} and k{} should score {expected}, not {score}",
            i + 1,
            j + 1
        );
    }
    assert!(
        distance_scores(Array2::ones((1, 3)).view(), Array2::ones((1, 1)).view())
            .is_err(),
        "queries and keys of different widths should be an error"
    );
}
