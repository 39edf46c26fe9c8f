//! What chapter 5 claims about heads.

use ch03_scaled::scaled_dot_product_attention;
use ch04_masks::Mask;
use ch05_multihead::*;
use ndarray::{Array1, Array2, Array3, Array4, Axis, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn wavy(batch: usize, n: usize, width: usize) -> Array3<f64> {
    Array3::from_shape_fn((batch, n, width), |(b, i, c)| {
        (0.4 + 0.7 * b as f64 + 1.3 * i as f64 + 2.1 * c as f64).sin()
    })
}

fn assert_near(left: &Array3<f64>, right: &Array3<f64>) {
    assert_eq!(left.dim(), right.dim());
    assert!(
        (left - right).iter().all(|x| x.abs() < 1e-12),
        "{left} ≠ {right}"
    );
}

#[test]
fn a_projection_is_a_product_and_a_bias() {
    let weight = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let x = wavy(2, 3, 2);
    let plain = Projection::from(weight.clone());
    let biased =
        Projection::new(weight.clone(), Some(array![0.1, 0.2, 0.3])).unwrap();
    let (y, z) = (plain.apply(&x).unwrap(), biased.apply(&x).unwrap());
    assert_eq!(y.dim(), (2, 3, 3));
    for b in 0..2 {
        assert_eq!(
            y.index_axis(Axis(0), b),
            x.index_axis(Axis(0), b).dot(&weight)
        );
    }
    assert_near(
        &(&z - &y),
        &Array3::from_shape_fn((2, 3, 3), |(_, _, c)| 0.1 * (c + 1) as f64),
    );
    assert_eq!((plain.parameters(), biased.parameters()), (6, 9));
    assert_eq!(
        plain.apply(&wavy(1, 1, 5)).unwrap_err().to_string(),
        "vectors are 5 wide but the projection takes 2"
    );
    assert_eq!(
        Projection::new(weight, Some(Array1::zeros(2)))
            .unwrap_err()
            .to_string(),
        "the bias is 2 wide but the weight gives 3"
    );
}

#[test]
fn random_weights_lie_within_their_bound() {
    let projection = Projection::<f64>::random(10, 14, &mut rng(1));
    let bound = 0.5;
    assert!(projection.weight().iter().all(|w| w.abs() <= bound));
    let variance = projection.weight().mapv(|w| w * w).sum() / 140.0;
    assert!((variance - bound * bound / 3.0).abs() < 0.02, "{variance}");
    let mean = projection.weight().sum() / 140.0;
    assert!(mean.abs() < 0.1, "as many below 0 as above: {mean}");
    assert!(projection.bias().unwrap().iter().all(|&b| b == 0.0));
    assert_eq!(projection, Projection::random(10, 14, &mut rng(1)));
    assert_eq!(Projection::<f64>::random(0, 0, &mut rng(1)).parameters(), 0);
    // Four projections, and no two of them alike.
    let attention = MultiHeadAttention::<f64>::random(4, 2, &mut rng(1)).unwrap();
    let projections = attention.projections();
    for i in 0..4 {
        for j in 0..i {
            assert_ne!(projections[i], projections[j]);
        }
    }
}

#[test]
fn split_takes_columns_and_merge_puts_them_back() {
    let x = wavy(2, 5, 12);
    for heads in [1, 2, 3, 4, 12] {
        let split = split_heads(&x, heads).unwrap();
        let d = 12 / heads;
        assert_eq!(split.dim(), (2, heads, 5, d));
        for h in 0..heads {
            assert_eq!(
                split.slice(s![.., h, .., ..]),
                x.slice(s![.., .., h * d..(h + 1) * d])
            );
        }
        assert_eq!(merge_heads(&split), x);
    }
    // Any layout will do.
    let turned = x
        .clone()
        .permuted_axes([2, 1, 0])
        .as_standard_layout()
        .into_owned();
    assert_eq!(
        split_heads(&turned.view().permuted_axes([2, 1, 0]), 3).unwrap(),
        split_heads(&x, 3).unwrap()
    );
    assert_eq!(
        split_heads(&x, 5).unwrap_err().to_string(),
        "a width of 12 cannot be split into 5 equal heads"
    );
    assert_eq!(
        split_heads(&x, 0).unwrap_err().to_string(),
        "a width of 12 cannot be split among 0 heads"
    );
    assert_eq!(split_heads(&wavy(0, 3, 4), 2).unwrap().dim(), (0, 2, 3, 2));
    assert_eq!(
        merge_heads(&Array4::<f64>::zeros((2, 0, 3, 4))).dim(),
        (2, 3, 0)
    );
}

/// concat(head_1, …, head_h) W^O, with the matrices of each head cut out by hand.
#[test]
fn multi_head_is_its_formula() {
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng(2)).unwrap();
    let (x, y) = (wavy(1, 3, 8), wavy(1, 5, 8));
    let answer = attention.attend(&x, &y, &y, &Mask::everything()).unwrap();
    let [w_q, w_k, w_v, w_o] = attention.projections().map(Projection::weight);
    let (x, y) = (x.index_axis_move(Axis(0), 0), y.index_axis_move(Axis(0), 0));
    let mut joined = Array2::zeros((3, 8));
    for h in 0..2 {
        let own = |x: &Array2<f64>, w: &Array2<f64>| {
            x.dot(&w.slice(s![.., 4 * h..4 * h + 4]))
        };
        let (q, k, v) = (own(&x, w_q), own(&y, w_k), own(&y, w_v));
        let head = scaled_dot_product_attention(&q, &k, &v).unwrap();
        joined
            .slice_mut(s![.., 4 * h..4 * h + 4])
            .assign(&head.output);
        let weights = answer.weights.slice(s![0, h, .., ..]).to_owned();
        assert!((weights - &head.weights).iter().all(|x| x.abs() < 1e-12));
    }
    assert_near(&answer.output, &joined.dot(w_o).insert_axis(Axis(0)));
}

#[test]
fn one_head_is_attention_between_projections() {
    let attention = MultiHeadAttention::<f64>::random(6, 1, &mut rng(3)).unwrap();
    let x = wavy(1, 4, 6);
    let answer = attention.attend(&x, &x, &x, &Mask::everything()).unwrap();
    let [q, k, v, o] = attention.projections();
    let project =
        |p: &Projection<f64>| p.apply(&x).unwrap().index_axis_move(Axis(0), 0);
    let inner = scaled_dot_product_attention(&project(q), &project(k), &project(v))
        .unwrap();
    assert_near(
        &answer.output,
        &o.apply(&inner.output.insert_axis(Axis(0))).unwrap(),
    );
}

#[test]
fn sequences_of_a_batch_do_not_meet() {
    let attention = MultiHeadAttention::<f64>::random(8, 4, &mut rng(4)).unwrap();
    let x = wavy(3, 4, 8);
    let mask = Mask::padding(&[4, 2, 3], 4).unwrap();
    let whole = attention.attend(&x, &x, &x, &mask).unwrap();
    for (b, length) in [4, 2, 3].into_iter().enumerate() {
        let alone = x.slice(s![b..=b, .., ..]);
        let mask = Mask::padding(&[length], 4).unwrap();
        let answer = attention.attend(&alone, &alone, &alone, &mask).unwrap();
        assert_eq!(whole.output.slice(s![b..=b, .., ..]), answer.output);
    }
}

#[test]
fn widths_may_differ_and_must_fit() {
    let projection = |width_in, width_out| {
        Projection::<f64>::random(width_in, width_out, &mut rng(5))
    };
    let attention = MultiHeadAttention::new(
        2,
        projection(6, 8),
        projection(5, 8),
        projection(3, 14),
        projection(14, 6),
    )
    .unwrap();
    let ask = |q: Array3<f64>, k: Array3<f64>, v: Array3<f64>| {
        attention.attend(&q, &k, &v, &Mask::everything())
    };
    let answer = ask(wavy(2, 3, 6), wavy(2, 7, 5), wavy(2, 7, 3)).unwrap();
    assert_eq!(answer.output.dim(), (2, 3, 6));
    assert_eq!(answer.weights.dim(), (2, 2, 3, 7));
    assert_eq!(answer.average_weights().dim(), (2, 3, 7));
    for (q, k, v, expected) in [
        (
            (2, 3, 5),
            (2, 7, 5),
            (2, 7, 3),
            "vectors are 5 wide but the projection takes 6",
        ),
        (
            (2, 3, 6),
            (2, 7, 6),
            (2, 7, 3),
            "vectors are 6 wide but the projection takes 5",
        ),
        (
            (2, 3, 6),
            (2, 7, 5),
            (2, 6, 3),
            "there are 2 × 7 keys but 2 × 6 values",
        ),
        (
            (2, 3, 6),
            (1, 7, 5),
            (1, 7, 3),
            "queries are 2 × 2 (batch × heads) but keys are 1 × 2",
        ),
    ] {
        let zeros = Array3::<f64>::zeros;
        assert_eq!(
            ask(zeros(q), zeros(k), zeros(v)).unwrap_err().to_string(),
            expected
        );
    }
    for (heads, q, k, v, o, expected) in [
        (0, 4, 4, 4, 4, "attention needs at least one head, not 0"),
        (
            2,
            0,
            0,
            4,
            4,
            "queries and keys are projected to 0, so 1/√d_k has no value",
        ),
        (
            3,
            4,
            4,
            6,
            6,
            "keys are projected to 4, which 3 heads do not divide",
        ),
        (
            2,
            4,
            4,
            5,
            5,
            "values are projected to 5, which 2 heads do not divide",
        ),
        (2, 4, 6, 4, 4, "queries are projected to 4 but keys to 6"),
        (
            2,
            4,
            4,
            6,
            4,
            "values are projected to 6 but the output takes 4",
        ),
    ] {
        let error = MultiHeadAttention::new(
            heads,
            projection(4, q),
            projection(4, k),
            projection(4, v),
            projection(o, 4),
        );
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

#[test]
fn dropout_drops_rescales_and_is_seeded() {
    let ones = Array4::<f64>::ones((2, 3, 40, 50));
    let dropped = dropout(&ones, 0.25, &mut rng(6)).unwrap();
    let kept = dropped.iter().filter(|&&a| a != 0.0).count() as f64 / 12_000.0;
    assert!((kept - 0.75).abs() < 0.02, "{kept}");
    assert!(
        dropped
            .iter()
            .all(|&a| a == 0.0 || (a - 4.0 / 3.0).abs() < 1e-15)
    );
    assert!((dropped.sum() / 12_000.0 - 1.0).abs() < 0.03);
    // Each weight is drawn for itself: no row is kept or dropped as a whole.
    for row in dropped.rows() {
        assert!(row.iter().any(|&a| a == 0.0) && row.iter().any(|&a| a != 0.0));
    }
    // A seed drops the same weights however they lie in memory.
    let turned = Array4::<f64>::ones((2, 3, 50, 40));
    let turned = turned.view().permuted_axes([0, 1, 3, 2]);
    assert_eq!(dropped, dropout(&turned, 0.25, &mut rng(6)).unwrap());
    assert_eq!(dropped, dropout(&ones, 0.25, &mut rng(6)).unwrap());
    assert_ne!(dropped, dropout(&ones, 0.25, &mut rng(7)).unwrap());
    assert_eq!(dropout(&ones, 0.0, &mut rng(6)).unwrap(), ones);
    for p in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
        let message = format!(
            "the probability of dropout must be at least 0 and below 1, not {p}"
        );
        assert_eq!(
            dropout(&ones, p, &mut rng(6)).unwrap_err().to_string(),
            message
        );
        let attention =
            MultiHeadAttention::<f64>::random(4, 2, &mut rng(0)).unwrap();
        assert_eq!(attention.with_dropout(p).unwrap_err().to_string(), message);
    }
}

#[test]
fn dropout_falls_on_the_weights_in_training_only() {
    let same = || Projection::from(Array2::eye(2));
    let plain = MultiHeadAttention::new(1, same(), same(), same(), same()).unwrap();
    let attention = plain.clone().with_dropout(0.5).unwrap();
    let x = wavy(1, 4, 2);
    let memory = attention.remember(&x, &x).unwrap();
    let mask = Mask::everything();
    let used = attention.ask(&x, &memory, &mask).unwrap();
    assert_eq!(used, plain.ask(&x, &memory, &mask).unwrap());
    assert_eq!(used, attention.attend(&x, &x, &x, &mask).unwrap());
    let trained = attention
        .ask_in_training(&x, &memory, &mask, &mut rng(8))
        .unwrap();
    assert_eq!(trained.weights, used.weights);
    let dropped = dropout(&used.weights, 0.5, &mut rng(8)).unwrap();
    let dropped: Array2<f64> = dropped.slice(s![0, 0, .., ..]).to_owned();
    let expected = dropped.dot(&x.index_axis(Axis(0), 0));
    assert_near(&trained.output, &expected.insert_axis(Axis(0)));
}

#[test]
fn in_use_dropout_changes_nothing() {
    let plain = MultiHeadAttention::<f64>::random(8, 2, &mut rng(11)).unwrap();
    let dropping = plain.clone().with_dropout(0.5).unwrap();
    let (x, mask) = (wavy(2, 4, 8), Mask::everything());
    let ask = |attention: &MultiHeadAttention<f64>| {
        let memory = attention.remember(&x, &x).unwrap();
        attention.ask(&x, &memory, &mask).unwrap()
    };
    assert_eq!(ask(&dropping), ask(&plain));
}

#[test]
fn average_weights_are_the_mean_over_the_heads() {
    let attention = MultiHeadAttention::<f64>::random(6, 3, &mut rng(12)).unwrap();
    let x = wavy(2, 4, 6);
    let answer = attention.attend(&x, &x, &x, &Mask::everything()).unwrap();
    let weights = &answer.weights;
    let mean = Array3::from_shape_fn((2, 4, 4), |(b, i, j)| {
        (weights[[b, 0, i, j]] + weights[[b, 1, i, j]] + weights[[b, 2, i, j]])
            / 3.0
    });
    assert_near(&answer.average_weights(), &mean);
}

#[test]
fn heads_do_not_change_the_number_of_parameters() {
    for heads in [1, 2, 4, 8] {
        let attention =
            MultiHeadAttention::<f32>::random(16, heads, &mut rng(9)).unwrap();
        assert_eq!(attention.parameters(), 4 * (16 * 16 + 16));
        assert_eq!(attention.heads(), heads);
    }
}

#[test]
fn two_heads_do_what_one_cannot() {
    let ask = |attention: &MultiHeadAttention<f64>, giver, receiver| {
        let x = giver_and_receiver(giver, receiver);
        let answer = attention.attend(&x, &x, &x, &Mask::everything()).unwrap();
        answer.output.slice(s![0, 0, ..]).to_owned()
    };
    let two = two_heads();
    assert!(
        (ask(&two, 0.2, 0.9) - array![0.2, 0.9])
            .iter()
            .all(|x| x.abs() < 1e-9)
    );
    // Whatever a single head mixes into its two columns, they stay in one proportion.
    let one = one_head();
    assert_eq!(ask(&one, 1.0, 0.0), ask(&one, 0.0, 1.0));
    assert_eq!(one.parameters(), two.parameters());
}

#[test]
fn empty_batches_and_sequences() {
    let attention = MultiHeadAttention::<f64>::random(4, 2, &mut rng(10)).unwrap();
    for (batch, m, n) in [(0, 3, 3), (2, 0, 3), (2, 3, 0)] {
        let (x, y) = (wavy(batch, m, 4), wavy(batch, n, 4));
        let answer = attention.attend(&x, &y, &y, &Mask::everything()).unwrap();
        assert_eq!(answer.output.dim(), (batch, m, 4));
        assert!(answer.output.iter().all(|&x| x == 0.0), "biases are 0 here");
    }
}
