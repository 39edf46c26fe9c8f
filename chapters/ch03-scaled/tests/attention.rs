//! What chapter 3 claims about the scale.

use ch01_alignment::{alignment_scores, first_example, second_example};
use ch02_softmax::{
    attend, attention_weights, first_example_values, second_example_values,
    softmax, softmax_with_temperature,
};
use ch03_scaled::*;
use ndarray::{Array1, Array2, ArrayView1, Axis, Slice, array};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn assert_near(left: ArrayView1<f64>, right: ArrayView1<f64>, tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (a, b) in left.iter().zip(right) {
        assert!((a - b).abs() <= tolerance, "{left} ≠ {right}");
    }
}

#[test]
fn the_first_example_scaled() {
    let (queries, keys) = first_example();
    let values = first_example_values();
    let attention = scaled_dot_product_attention(&queries, &keys, &values).unwrap();
    assert_near(
        attention.weights.row(0),
        array![0.183, 0.507, 0.128, 0.183].view(),
        5e-4,
    );
}

#[test]
fn the_scale_is_the_root_of_the_width_applied_once() {
    assert_eq!(scale::<f64>(64).unwrap(), 0.125);
    assert_eq!(scale::<f32>(4).unwrap(), 0.5);
    let (queries, keys) = second_example();
    let scaled = scaled_scores(&queries, &keys).unwrap();
    let unscaled = alignment_scores(&queries, &keys).unwrap();
    for (s, u) in scaled.iter().zip(&unscaled) {
        assert!((s * 3f64.sqrt() - u).abs() < 1e-15);
    }
    // Split over queries and keys it is the fourth root of the width on each.
    let root = 3f64.powf(-0.25);
    let split = alignment_scores(&(&queries * root), &(&keys * root)).unwrap();
    for (s, p) in scaled.iter().zip(&split) {
        assert!((s - p).abs() < 1e-14);
    }
}

/// Two heads of width 2 in a model of width 4: each is scaled by its own width. Expected values
/// computed apart, in double precision.
#[test]
fn each_head_is_scaled_by_its_own_width() {
    let queries = array![[1.25, -0.25, 0.25, -1.5], [-0.25, 0.0, 0.5, -0.75]];
    let keys = array![
        [0.0, 0.0, 0.25, 1.5],
        [-0.75, 0.75, 1.75, 0.5],
        [1.75, 2.0, 1.0, 0.75],
    ];
    let values = array![
        [-2.0, 0.25, 0.75, 0.0],
        [1.25, 1.5, -0.25, 1.0],
        [1.75, 0.0, 0.75, 1.25],
    ];
    let expected = array![
        [
            0.9128590422875932,
            0.19520195012196284,
            0.23384840506032553,
            0.9496102850747012
        ],
        [
            0.2474436969373838,
            0.6825004193334306,
            0.25447429138989447,
            0.9116629959655211
        ],
    ];
    for head in 0..2 {
        let columns = Slice::from(2 * head..2 * head + 2);
        let attention = scaled_dot_product_attention(
            &queries.slice_axis(Axis(1), columns),
            &keys.slice_axis(Axis(1), columns),
            &values.slice_axis(Axis(1), columns),
        )
        .unwrap();
        for i in 0..2 {
            assert_near(
                attention.output.row(i),
                expected.slice_axis(Axis(1), columns).row(i),
                1e-14,
            );
        }
    }
}

/// Expected values computed apart, in double precision.
#[test]
fn the_scale_is_not_applied_twice() {
    let queries = array![[1.25, 0.0, 1.25, -0.75], [-2.0, -1.0, 2.0, 2.0]];
    let keys = array![[-1.25, 1.75, -0.5, 0.0], [1.5, 0.75, 1.25, 0.75]];
    let weights = attention_weights(&scaled_scores(&queries, &keys).unwrap());
    assert_near(
        weights.row(0),
        array![0.07369626970604842, 0.9263037302939515].view(),
        1e-15,
    );
    assert_near(
        weights.row(1),
        array![0.4378234991142019, 0.5621765008857981].view(),
        1e-15,
    );
}

#[test]
fn the_scale_is_a_temperature() {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let attention =
        scaled_dot_product_attention(&queries, &keys, &first_example_values())
            .unwrap();
    let tempered = softmax_with_temperature(&scores.row(0), 2.0).unwrap();
    assert_near(attention.weights.row(0), tempered.view(), 1e-15);
}

#[test]
fn the_variance_of_a_dot_product_is_its_width() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for d_k in [1, 8, 64] {
        let (mean, variance) = dot_product_spread(d_k, 20_000, &mut rng).unwrap();
        let width = d_k as f64;
        assert!(mean.abs() < 0.05 * width.sqrt(), "mean {mean} at {d_k}");
        assert!(
            (variance / width - 1.0).abs() < 0.08,
            "variance {variance} at {d_k}"
        );
    }
}

#[test]
fn without_the_scale_the_gradient_depends_on_the_width() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let [narrow, narrow_scaled] = saturation(1, 16, 101, &mut rng).unwrap();
    assert_eq!(narrow, narrow_scaled, "√1 = 1");
    let [unscaled, scaled] = saturation(16, 16, 101, &mut rng).unwrap();
    assert!(unscaled.gradient > 2.0 * scaled.gradient);
    let [unscaled, scaled] = saturation(1024, 16, 101, &mut rng).unwrap();
    assert!(unscaled.largest_weight > 0.99 && unscaled.gradient < 0.02);
    assert!(scaled.largest_weight < 0.4 && (0.2..0.4).contains(&scaled.gradient));
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let draw = |seed| random_vector(5, &mut ChaCha8Rng::seed_from_u64(seed));
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

/// Central differences of the softmax against its Jacobian.
#[test]
fn the_jacobian_is_the_derivative() {
    let scores = array![0.36, 2.4, -0.36, 0.36];
    let jacobian = softmax_jacobian(&softmax(&scores));
    let h = 1e-5;
    for j in 0..4 {
        let shifted = |by: f64| {
            let mut moved: Array1<f64> = scores.clone();
            moved[j] += by;
            softmax(&moved)
        };
        let difference = (shifted(h) - shifted(-h)) / (2.0 * h);
        assert_near(jacobian.column(j), difference.view(), 1e-10);
    }
    assert_near(
        jacobian.sum_axis(Axis(1)).view(),
        Array1::zeros(4).view(),
        1e-15,
    );
}

#[test]
fn scaled_attention_is_attend_on_scaled_scores() {
    let (queries, keys) = second_example();
    let values = second_example_values();
    let whole = scaled_dot_product_attention(&queries, &keys, &values).unwrap();
    let scores = scaled_scores(&queries, &keys).unwrap();
    assert_eq!(whole, attend(&scores, &values).unwrap());
    assert_eq!((whole.weights.dim(), whole.output.dim()), ((2, 4), (2, 5)));
}

#[test]
fn large_scores_stay_finite_in_single_precision() {
    let queries = Array2::from_elem((2, 64), 1e2_f32);
    let keys = Array2::from_shape_fn((3, 64), |(j, _)| [1e2, -1e2, 0.0][j]);
    let attention =
        scaled_dot_product_attention(&queries, &keys, &Array2::eye(3)).unwrap();
    assert_eq!(attention.output.row(0), array![1.0, 0.0, 0.0]);
}

#[test]
fn no_keys_give_zeros() {
    let attention = scaled_dot_product_attention(
        &array![[0.25, 0.25], [-0.75, 1.5]],
        &Array2::zeros((0, 2)),
        &Array2::zeros((0, 2)),
    )
    .unwrap();
    assert_eq!(attention.output, Array2::<f64>::zeros((2, 2)));
}

#[test]
fn errors_name_the_numbers() {
    let ones = |m, n| Array2::<f64>::ones((m, n));
    let message = |q: (usize, usize), k: (usize, usize), v: (usize, usize)| {
        scaled_dot_product_attention(
            &ones(q.0, q.1),
            &ones(k.0, k.1),
            &ones(v.0, v.1),
        )
        .unwrap_err()
        .to_string()
    };
    assert_eq!(
        message((2, 3), (4, 5), (4, 2)),
        "queries are 3 wide but keys are 5 wide"
    );
    assert_eq!(
        message((2, 3), (4, 3), (5, 2)),
        "there are 4 keys but 5 values"
    );
    assert_eq!(
        message((2, 0), (4, 0), (4, 2)),
        "queries and keys are 0 wide, so 1/√d_k has no value"
    );
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    assert_eq!(
        dot_product_spread(4, 0, rng).unwrap_err().to_string(),
        "0 samples have no mean"
    );
    assert_eq!(
        saturation(4, 0, 5, rng).unwrap_err().to_string(),
        "nothing to measure with 0 keys and 5 samples"
    );
}

#[test]
fn the_spread_is_that_of_its_own_draws() {
    let seeded = || ChaCha8Rng::seed_from_u64(3);
    let (mean, variance) = dot_product_spread(3, 4, &mut seeded()).unwrap();
    let rng = &mut seeded();
    let dots = [(); 4].map(|()| random_vector(3, rng).dot(&random_vector(3, rng)));
    let expected = dots.iter().sum::<f64>() / 4.0;
    assert!((mean - expected).abs() < 1e-14);
    let squares = dots.map(|dot| (dot - expected) * (dot - expected));
    assert!((variance - squares.iter().sum::<f64>() / 4.0).abs() < 1e-13);
}

/// The median of two is their mean.
#[test]
fn saturation_halves_an_even_number_of_samples() {
    let seeded = || ChaCha8Rng::seed_from_u64(4);
    let both = saturation(8, 5, 2, &mut seeded()).unwrap();
    let rng = &mut seeded();
    let (first, second) = (
        saturation(8, 5, 1, rng).unwrap(),
        saturation(8, 5, 1, rng).unwrap(),
    );
    for i in 0..2 {
        let mean = (first[i].gradient + second[i].gradient) / 2.0;
        assert!((both[i].gradient - mean).abs() < 1e-15);
        let mean = (first[i].largest_weight + second[i].largest_weight) / 2.0;
        assert!((both[i].largest_weight - mean).abs() < 1e-15);
    }
    assert_eq!(
        saturation(4, 3, 0, rng).unwrap_err().to_string(),
        "nothing to measure with 3 keys and 0 samples"
    );
}
