//! Judges the exercises of chapter 5: `cargo test -p exercises --test ch05`.

use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use exercises::ch05::*;
use ndarray::{Array2, Array3, Array4, Axis, array};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

#[test]
fn exercise_1_parameters_by_hand() {
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let expected = MultiHeadAttention::<f64>::random(12, 3, rng)
        .unwrap()
        .parameters();
    let yours = parameters_by_hand();
    assert_eq!(
        yours, expected,
        "four projections, each with a weight of 12 × 12 and a bias of 12"
    );
}

#[test]
fn exercise_2_columns_of_head() {
    let columns = |width, heads, head| {
        columns_of_head(width, heads, head).expect("the heads divide the width")
    };
    assert_eq!(columns(12, 3, 0), 0..4, "head 0 has the first columns");
    assert_eq!(
        columns(12, 3, 2),
        8..12,
        "the last head has the last columns"
    );
    assert_eq!(columns(5, 1, 0), 0..5, "a single head has them all");
    assert!(
        columns_of_head(12, 5, 0).is_err(),
        "5 heads do not divide 12"
    );
    assert!(
        columns_of_head(12, 3, 3).is_err(),
        "heads are counted from 0"
    );
    assert!(
        columns_of_head(12, 0, 0).is_err(),
        "0 heads have no columns"
    );
}

#[test]
fn exercise_3_head_by_head() {
    let x = Array2::from_shape_fn((3, 4), |(i, c)| ((i * 4 + c) as f64).sin());
    let weight = |k: usize, width| {
        Array2::from_shape_fn((4, width), |(i, j)| {
            ((k * 31 + i * 7 + j) as f64).cos()
        })
    };
    let (q, k, v) = (weight(1, 4), weight(2, 4), weight(3, 6));
    let o = Array2::from_shape_fn((6, 4), |(i, j)| ((i * 5 + j) as f64).sin());
    let whole = MultiHeadAttention::new(
        2,
        q.clone().into(),
        k.clone().into(),
        v.clone().into(),
        o.clone().into(),
    )
    .unwrap();
    let batch: Array3<f64> = x.clone().insert_axis(Axis(0));
    let expected = whole
        .attend(
            batch.view(),
            batch.view(),
            batch.view(),
            &Mask::everything(),
        )
        .unwrap()
        .output
        .index_axis_move(Axis(0), 0);
    let yours = head_by_head(x.view(), 2, q.view(), k.view(), v.view(), o.view())
        .expect("the shapes fit, so this should not fail");
    assert_eq!(yours.dim(), expected.dim(), "the output is n × d_model");
    assert!(
        yours
            .iter()
            .zip(&expected)
            .all(|(a, b)| (a - b).abs() < 1e-9),
        "the answer should be that of `attend`:\n{expected:.3}\nnot\n{yours:.3}"
    );
    for (heads, why) in [
        (0, "without heads there is no attention"),
        (3, "3 heads do not divide 4 columns of queries"),
        (4, "4 heads do not divide 6 columns of values"),
    ] {
        let yours =
            head_by_head(x.view(), heads, q.view(), k.view(), v.view(), o.view());
        assert!(yours.is_err(), "{why}: that should be an error");
    }
}

#[test]
fn exercise_4_without_head() {
    // Two sequences, three heads of two columns, and an output that mixes them all.
    let answers = Array4::from_shape_fn((2, 3, 2, 2), |(b, h, i, c)| {
        ((b * 12 + h * 4 + i * 2 + c) as f64 * 0.7).sin()
    });
    let weight =
        Array2::from_shape_fn((6, 5), |(i, j)| ((i * 5 + j) as f64 * 0.3).cos());
    let bias = array![0.5, -0.5, 1.0, 0.0, 2.0];
    let output = Projection::new(weight.clone(), Some(bias.clone())).unwrap();
    for silent in 0..3 {
        let yours = without_head(answers.view(), silent, &output)
            .expect("there is such a head, so this should not fail");
        let expected = Array3::from_shape_fn((2, 2, 5), |(b, i, column)| {
            let heads = (0..3).filter(|&h| h != silent);
            let parts = heads.flat_map(|h| [(h, 0), (h, 1)]);
            bias[column]
                + parts
                    .map(|(h, c)| {
                        answers[[b, h, i, c]] * weight[[2 * h + c, column]]
                    })
                    .sum::<f64>()
        });
        assert_eq!(yours.dim(), expected.dim(), "batch × m × d_model");
        assert!(
            yours
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-9),
            "head {silent} should add nothing, the others and the bias should stay:\n\
             {expected:.3}\nnot\n{yours:.3}"
        );
    }
    assert!(
        without_head(answers.view(), 3, &output).is_err(),
        "of three heads none has the number 3"
    );
}
