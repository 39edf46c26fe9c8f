//! Judges the exercises of chapter 7: `cargo test -p exercises --test ch07`.

use ch04_masks::Mask;
use ch05_multihead::MultiHeadAttention;
use exercises::ch07::*;
use ndarray::{Array2, Array3, Axis, array};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

#[test]
fn exercise_1_shape_by_hand() {
    let (batch, heads, m, n) = shape_by_hand();
    assert_eq!((batch, heads), (4, 8), "a batch of 4, 8 heads");
    assert_eq!(m, 7, "the one who writes asks: m counts letters");
    assert_eq!(n, 200, "the sound answers: n counts slices");
}

#[test]
fn exercise_2_decoder_masks() {
    let source = array![[1, 2, 3, 0], [4, 5, 0, 0]];
    let target = array![[1, 2, 0], [3, 4, 5]];
    let (own, cross) = decoder_masks(source.view(), target.view(), 0)
        .expect("the masks fit each other");
    let own = own
        .fit((2, 1, 3, 3))
        .expect("self-attention has 3 queries and 3 keys");
    let cross = cross
        .fit((2, 1, 3, 4))
        .expect("cross-attention has 3 queries and 4 keys");
    for b in 0..2 {
        for i in 0..3 {
            for j in 0..3 {
                assert_eq!(
                    own[[b, 0, i, j]],
                    j <= i && target[[b, j]] != 0,
                    "self-attention is causal and sees no padding: sentence {b}, {i} and {j}"
                );
            }
            for j in 0..4 {
                assert_eq!(
                    cross[[b, 0, i, j]],
                    source[[b, j]] != 0,
                    "cross-attention sees all of the source but its padding: \
                     sentence {b}, {i} and {j}"
                );
            }
        }
    }
}

#[test]
fn exercise_3_pool() {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let attention = MultiHeadAttention::<f64>::random(4, 2, rng).unwrap();
    let texts = Array3::from_shape_fn((2, 3, 4), |(b, j, c)| {
        ((b * 12 + j * 4 + c) as f64).sin()
    });
    let query = array![1.0, -1.0, 0.5, 0.0];
    let mask = Mask::padding(&[3, 2], 3).unwrap();
    let yours = pool(&attention, query.view(), texts.view(), &mask)
        .expect("the shapes fit");
    assert_eq!(yours.dim(), (2, 4), "batch × d_model");
    for b in 0..2 {
        let alone = texts.index_axis(Axis(0), b).insert_axis(Axis(0));
        let mask = Mask::padding(&[[3, 2][b]], 3).unwrap();
        let expected = attention
            .attend(
                query.view().insert_axis(Axis(0)).insert_axis(Axis(0)),
                alone,
                alone,
                &mask,
            )
            .unwrap();
        let difference =
            &yours.row(b) - &expected.output.index_axis(Axis(0), 0).row(0);
        assert!(
            difference.iter().all(|x| x.abs() < 1e-9),
            "the answer for text {b} is not what it gets alone"
        );
        let one = pool(&attention, query.view(), alone, &mask)
            .expect("a batch of one is fine");
        assert_eq!(one.dim(), (1, 4), "a batch of one stays a batch");
    }
    assert!(
        pool(&attention, array![1.0].view(), texts.view(), &mask).is_err(),
        "a query of another width should be an error"
    );
}

#[test]
fn exercise_4_coverage() {
    let weights = array![[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]];
    assert_eq!(
        coverage(weights.view()),
        array![0.75, 1.0, 0.25],
        "add up the columns: one number for each source word"
    );
    assert_eq!(
        coverage(Array2::zeros((0, 3)).view()).len(),
        3,
        "even if nothing was written"
    );
}
