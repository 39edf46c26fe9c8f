//! What chapter 8 claims about the parts that are not attention.

use anyhow::Result;
use ch05_multihead::Projection;
use ch08_transformer::*;
use ndarray::{Array, Array1, Array2, Array3, Axis, Dimension, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn wavy(batch: usize, n: usize, width: usize) -> Array3<f64> {
    Array3::from_shape_fn((batch, n, width), |(b, i, c)| {
        (0.4 + 0.7 * b as f64 + 1.3 * i as f64 + 2.1 * c as f64).sin()
    })
}

#[track_caller]
fn assert_near<D: Dimension>(left: &Array<f64, D>, right: &Array<f64, D>) {
    assert_eq!(left.shape(), right.shape());
    assert!(
        (left - right).iter().all(|x| x.abs() < 1e-12),
        "{left} ≠ {right}"
    );
}

#[track_caller]
fn assert_refused<T>(answer: Result<T>, expected: &str) {
    let Err(error) = answer else {
        panic!("not refused: {expected}");
    };
    assert_eq!(error.to_string(), expected);
}

// LayerNorm.

#[test]
fn layer_norm_gives_mean_0_and_variance_1() {
    let norm = LayerNorm::new(Array1::ones(6), Array1::zeros(6), f64::MIN_POSITIVE);
    let y = norm.unwrap().apply(&(wavy(2, 3, 6) * 7.0 + 2.0)).unwrap();
    for row in y.rows() {
        assert!((row.sum() / 6.0).abs() < 1e-15);
        assert!((row.dot(&row) / 6.0 - 1.0).abs() < 1e-14);
    }
}

#[test]
fn the_variance_divides_by_the_width_and_eps_stands_in_the_root() {
    let x = array![[[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 2e-3, 2e-3]]];
    for eps in [1e-12, 1e-5, 3.0] {
        let norm = LayerNorm::new(Array1::ones(4), Array1::zeros(4), eps);
        let (standardized, sigmas) = norm.unwrap().standardized(&x).unwrap();
        // Deviations of ±1.5 and ±0.5, the squares' mean 5/4; deviations of ±0.001.
        let expected = array![[(1.25_f64 + eps).sqrt(), (1e-6_f64 + eps).sqrt()]];
        assert!((&sigmas - &expected).iter().all(|x| x.abs() < 1e-15));
        let deviations =
            array![[[-1.5, -0.5, 0.5, 1.5], [-1e-3, -1e-3, 1e-3, 1e-3]]];
        let divided = deviations / sigmas.insert_axis(Axis(2));
        assert_near(&standardized, &divided);
    }
}

#[test]
fn gain_and_shift_belong_to_columns() {
    let (gain, shift) = (array![2.0, -1.0, 0.5], array![0.1, 0.0, -3.0]);
    let plain = LayerNorm::<f64>::fresh(3).unwrap();
    let norm = LayerNorm::new(gain.clone(), shift.clone(), 1e-5).unwrap();
    let x = wavy(2, 4, 3);
    let (plain, y) = (plain.apply(&x).unwrap(), norm.apply(&x).unwrap());
    for c in 0..3 {
        let expected = &plain.slice(s![.., .., c]) * gain[c] + shift[c];
        assert_near(&y.slice(s![.., .., c]).to_owned(), &expected);
    }
    assert_eq!((norm.gain(), norm.shift()), (&gain, &shift));
}

#[test]
fn layer_norm_does_not_notice_a_shift_or_a_stretch() {
    let norm = LayerNorm::new(array![1.0, 2.0, 3.0], array![0.0, 1.0, 0.0], 1e-30);
    let (norm, x) = (norm.unwrap(), wavy(2, 3, 3));
    let y = norm.apply(&x).unwrap();
    assert_near(&norm.apply(&(&x * 8.0 - 3.0)).unwrap(), &y);
    let mirrored = norm.apply(&(-&x)).unwrap();
    assert!((mirrored - y).iter().any(|x| x.abs() > 0.1));
}

#[test]
fn equal_numbers_become_the_shift() {
    let norm = LayerNorm::new(array![2.0, 3.0], array![0.25, -4.0], 1e-5).unwrap();
    for x in [0.0, -7.5, 1e8] {
        let y = norm.apply(&Array3::from_elem((1, 2, 2), x)).unwrap();
        assert_eq!(y, array![[[0.25, -4.0], [0.25, -4.0]]]);
    }
    let one_wide = LayerNorm::new(array![2.0], array![0.5], 1e-5).unwrap();
    assert_eq!(one_wide.apply(&wavy(1, 1, 1)).unwrap(), array![[[0.5]]]);
}

#[test]
fn a_nan_spoils_its_own_vector_alone() {
    let norm = LayerNorm::fresh(3).unwrap();
    let mut x = wavy(2, 2, 3);
    let clean = norm.apply(&x).unwrap();
    x[[1, 0, 2]] = f64::NAN;
    let y = norm.apply(&x).unwrap();
    assert!(y.slice(s![1, 0, ..]).iter().all(|y| y.is_nan()));
    assert_eq!(y.slice(s![0, .., ..]), clean.slice(s![0, .., ..]));
    assert_eq!(y.slice(s![1, 1, ..]), clean.slice(s![1, 1, ..]));
}

#[test]
fn a_fresh_layer_norm_standardizes() {
    let norm = LayerNorm::<f64>::fresh(4).unwrap();
    let same = LayerNorm::new(Array1::ones(4), Array1::zeros(4), 1e-5).unwrap();
    assert_eq!(norm, same);
    let x = wavy(1, 3, 4);
    let (standardized, _) = norm.standardized(&x).unwrap();
    assert_eq!(norm.apply(&x).unwrap(), standardized);
    let single = LayerNorm::<f32>::fresh(4).unwrap();
    let y = single.apply(&x.mapv(|x| x as f32)).unwrap();
    assert!(
        (y.mapv(f64::from) - standardized)
            .iter()
            .all(|x| x.abs() < 1e-6)
    );
}

#[test]
fn layer_norm_refuses_what_does_not_fit() {
    let norm = LayerNorm::<f64>::fresh(4).unwrap();
    assert_refused(
        norm.apply(&wavy(1, 1, 3)),
        "vectors are 3 wide but the LayerNorm takes 4",
    );
    assert_refused(
        norm.standardized(&wavy(0, 2, 5)),
        "vectors are 5 wide but the LayerNorm takes 4",
    );
    assert_refused(
        LayerNorm::new(Array1::<f64>::ones(3), Array1::zeros(2), 1e-5),
        "the gain is 3 wide but the shift is 2",
    );
    assert_refused(
        LayerNorm::<f64>::fresh(0),
        "vectors of width 0 have no mean",
    );
    for eps in [0.0, -1e-5, f64::NAN, f64::INFINITY] {
        assert_refused(
            LayerNorm::new(array![1.0], array![0.0], eps),
            &format!("ε must be a finite number above 0, not {eps}"),
        );
    }
    assert_eq!(norm.apply(&wavy(0, 3, 4)).unwrap().dim(), (0, 3, 4));
    assert_eq!(norm.apply(&wavy(2, 0, 4)).unwrap().dim(), (2, 0, 4));
}

// The feed-forward network.

#[test]
fn activations_at_known_places() {
    for (x, relu) in [(-2.0, 0.0), (-0.0, 0.0), (0.0, 0.0), (3.5, 3.5)] {
        assert_eq!(Activation::Relu.apply(x), relu);
    }
    // Φ from tables of the normal distribution.
    for (x, share) in [
        (0.0, 0.5),
        (1.0, 0.841344746068543),
        (-1.0, 0.158655253931457),
        (1.96, 0.97500210485178),
        (-6.0, 9.86587645037698e-10),
    ] {
        assert!(
            (normal_share_below(x) / share - 1.0_f64).abs() < 1e-13,
            "{x}"
        );
        let gelu = Activation::Gelu.apply(x);
        assert!((gelu - x * share).abs() <= 1e-13 * gelu.abs(), "{x}");
    }
    for activation in [Activation::Relu, Activation::Gelu] {
        assert_eq!(activation.apply(40.0), 40.0);
        assert_eq!(activation.apply(-40.0), 0.0);
        assert!(activation.apply(f64::NAN).is_nan());
        assert_eq!(activation.apply(2.0_f32), activation.apply(2.0_f64) as f32);
    }
    // gelu(x) − gelu(−x) = x
    for x in [0.1_f64, 0.7, 3.0] {
        let [above, below] = [x, -x].map(|x| Activation::Gelu.apply(x));
        assert!((above - below - x).abs() < 1e-15);
        assert!(below < 0.0, "unlike ReLU");
    }
}

fn network(activation: Activation) -> FeedForward<f64> {
    let inner = array![[1.0, -1.0, 0.5], [2.0, 0.0, -1.0]];
    let outer = array![[1.0, 0.0], [0.0, 1.0], [10.0, -10.0]];
    FeedForward {
        inner: Projection::new(inner, Some(array![0.0, 1.0, 0.0])).unwrap(),
        activation,
        outer: Projection::new(outer, Some(array![0.5, -0.5])).unwrap(),
    }
}

#[test]
fn a_feed_forward_network_by_hand() {
    let steps = network(Activation::Relu)
        .apply_in_steps(&array![[[1.0, -1.0]]])
        .unwrap();
    // (1, −1) W_1 + b_1 = (−1, 0, 1.5);  max(0, …) = (0, 0, 1.5);  times W_2, plus b_2.
    assert_eq!(steps.inner, array![[[-1.0, 0.0, 1.5]]]);
    assert_eq!(steps.active, array![[[0.0, 0.0, 1.5]]]);
    assert_eq!(steps.output, array![[[15.5, -15.5]]]);
    let smooth = network(Activation::Gelu)
        .apply_in_steps(&array![[[1.0, -1.0]]])
        .unwrap();
    let expected = steps.inner.mapv(|x| x * normal_share_below(x));
    assert_eq!(smooth.active, expected);
}

#[test]
fn every_position_goes_through_the_network_by_itself() {
    for activation in [Activation::Relu, Activation::Gelu] {
        let network = network(activation);
        let x = wavy(2, 4, 2);
        let y = network.apply(&x).unwrap();
        for b in 0..2 {
            for i in 0..4 {
                let alone = x.slice(s![b..=b, i..=i, ..]);
                let expected = y.slice(s![b..=b, i..=i, ..]);
                assert_near(&network.apply(&alone).unwrap(), &expected.to_owned());
            }
        }
    }
}

#[test]
fn a_network_refuses_what_does_not_fit() {
    let mut network = network(Activation::Relu);
    assert_refused(
        network.apply(&wavy(1, 1, 3)),
        "vectors are 3 wide but the projection takes 2",
    );
    network.outer = Array2::zeros((4, 2)).into();
    assert_refused(
        network.apply(&wavy(1, 1, 2)),
        "vectors are 3 wide but the projection takes 4",
    );
}

// The embedding.

#[test]
fn an_embedding_gives_rows_times_the_root_of_the_width() {
    let table = array![[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.5, 0.25]];
    let embedding = Embedding::new(table.clone()).unwrap();
    let x = embedding.apply(&array![[1, 0], [0, 0]]).unwrap();
    assert_eq!(embedding.scale(), 2.0);
    assert_eq!(x.slice(s![0, 0, ..]), &table.row(1) * 2.0);
    for place in [[0, 1], [1, 0], [1, 1]] {
        assert_eq!(x.slice(s![place[0], place[1], ..]), &table.row(0) * 2.0);
    }
    assert_eq!(embedding.row(1).unwrap(), table.row(1));
    assert_eq!(embedding.table(), &table);
    let none = embedding.apply(&Array2::zeros((0, 3))).unwrap();
    assert_eq!(none.dim(), (0, 3, 4));
}

#[test]
fn a_random_embedding_has_vectors_of_variance_1() {
    let embedding = Embedding::<f64>::random(400, 16, &mut rng(1)).unwrap();
    let tokens = Array2::from_shape_fn((1, 400), |(_, i)| i as u32);
    let x = embedding.apply(&tokens).unwrap();
    let mean = x.sum() / x.len() as f64;
    let variance = x.mapv(|x| x * x).sum() / x.len() as f64;
    assert!(mean.abs() < 0.05, "{mean}");
    assert!((variance - 1.0).abs() < 0.05, "{variance}");
    let again = Embedding::random(400, 16, &mut rng(1)).unwrap();
    assert_eq!(embedding, again);
}

#[test]
fn an_embedding_refuses_unknown_tokens() {
    let embedding = Embedding::new(Array2::<f64>::zeros((5, 2))).unwrap();
    assert_refused(
        embedding.apply(&array![[4, 5]]),
        "token 5 is not in a vocabulary of 5",
    );
    assert_refused(
        embedding.row(u32::MAX),
        "token 4294967295 is not in a vocabulary of 5",
    );
    for empty in [
        Embedding::new(Array2::<f64>::zeros((5, 0))),
        Embedding::random(5, 0, &mut rng(2)),
    ] {
        assert_refused(empty, "the vectors of an embedding are 0 wide");
    }
}

// The residual.

/// A part that answers with what it was made for.
struct Answer(Array3<f64>);

impl Steps<f64> for Answer {
    fn output(&self) -> &Array3<f64> {
        &self.0
    }
}

/// Doubles what it is given.
fn around(
    residual: &Residual<f64>,
    x: &Array3<f64>,
    mode: &mut Mode,
) -> ResidualSteps<f64, Answer> {
    let steps = residual.around(x, mode, |x, _| Ok(Answer(x * 2.0)));
    steps.unwrap()
}

fn plain_norm(width: usize) -> LayerNorm<f64> {
    LayerNorm::new(Array1::ones(width), Array1::zeros(width), 1e-300).unwrap()
}

#[test]
fn the_order_of_the_norm_by_hand() {
    let x = array![[[1.0, 5.0]]];
    // LayerNorm makes (−1, 1) of any two numbers that rise.
    let pre = Residual::new(plain_norm(2), NormOrder::Pre);
    let steps = around(&pre, &x, &mut Mode::Evaluation);
    assert_eq!(steps.inside, array![[[-1.0, 1.0]]]);
    assert_eq!(steps.part.0, array![[[-2.0, 2.0]]]);
    assert_eq!(steps.before_norm, x);
    assert_eq!(steps.output, array![[[-1.0, 7.0]]]);

    let post = Residual::new(plain_norm(2), NormOrder::Post);
    let steps = around(&post, &x, &mut Mode::Evaluation);
    assert_eq!(steps.inside, x);
    assert_eq!(steps.part.0, array![[[2.0, 10.0]]]);
    assert_eq!(steps.before_norm, array![[[3.0, 15.0]]]);
    assert_eq!(steps.output, array![[[-1.0, 1.0]]]);
}

#[test]
fn around_zeros_pre_norm_changes_nothing() {
    let norm = LayerNorm::new(array![3.0, 0.5, -1.0], array![7.0, 0.0, 1.0], 1e-5);
    let norm = norm.unwrap();
    let zeros = |x: &ndarray::ArrayRef3<f64>, _: &mut Mode| {
        Ok(Answer(Array3::zeros(x.dim())))
    };
    let x = wavy(2, 3, 3);
    for mode in [&mut Mode::Evaluation, &mut Mode::Training(&mut rng(3))] {
        let pre = Residual::new(norm.clone(), NormOrder::Pre)
            .with_dropout(0.5)
            .unwrap();
        assert_eq!(pre.around(&x, mode, zeros).unwrap().output, x);
        let post = Residual::new(norm.clone(), NormOrder::Post);
        let output = post.around(&x, mode, zeros).unwrap().output;
        assert_eq!(output, norm.apply(&x).unwrap());
    }
}

#[test]
fn dropout_falls_in_training_on_what_the_part_adds() {
    let p = 0.25;
    let residual = Residual::new(plain_norm(4), NormOrder::Pre);
    let dropping = residual.clone().with_dropout(p).unwrap();
    let x = wavy(3, 5, 4);
    let still = around(&residual, &x, &mut Mode::Evaluation);
    let used = around(&dropping, &x, &mut Mode::Evaluation);
    assert_eq!((&used.output, &used.factors), (&still.output, &None));
    // Without dropout, training is as evaluation and draws no random number.
    let training = around(&residual, &x, &mut Mode::Training(&mut rng(4)));
    assert_eq!(
        (&training.output, &training.factors),
        (&still.output, &None)
    );

    let steps = around(&dropping, &x, &mut Mode::Training(&mut rng(4)));
    let factors = steps.factors.unwrap();
    assert!(factors.iter().all(|&f| f == 0.0 || f == 1.0 / (1.0 - p)));
    assert!(factors.iter().any(|&f| f == 0.0));
    assert_near(&steps.output, &(&steps.part.0 * &factors + &x));
    let again = around(&dropping, &x, &mut Mode::Training(&mut rng(4)));
    assert_eq!(again.output, steps.output);
    let other = around(&dropping, &x, &mut Mode::Training(&mut rng(5)));
    assert_ne!(other.output, steps.output);
}

#[test]
fn dropout_keeps_the_mean() {
    let residual = Residual::new(plain_norm(4), NormOrder::Pre);
    let dropping = residual.clone().with_dropout(0.4).unwrap();
    let x = wavy(1, 2, 4);
    let rng = &mut rng(6);
    let trials = 4000;
    let mut sum = Array3::zeros(x.dim());
    for _ in 0..trials {
        sum += &around(&dropping, &x, &mut Mode::Training(rng)).output;
    }
    let mean = sum / f64::from(trials);
    let expected = around(&residual, &x, &mut Mode::Evaluation).output;
    // Each entry's deviation is below 2 · √(0.4 / 0.6) · 2, and that of the mean 63 times less.
    assert!(
        (&mean - &expected).iter().all(|x| x.abs() < 0.2),
        "{mean} ≠ {expected}"
    );
}

#[test]
fn a_residual_refuses_what_does_not_fit() {
    let residual = Residual::new(plain_norm(3), NormOrder::Post);
    let mode = &mut Mode::Evaluation;
    let wrong =
        residual.around(&wavy(1, 2, 3), mode, |_, _| Ok(Answer(wavy(1, 2, 4))));
    assert_refused(
        wrong,
        "vectors of (1, 2, 3) cannot be added to what became of them, (1, 2, 4)",
    );
    for order in [NormOrder::Pre, NormOrder::Post] {
        let residual = Residual::new(plain_norm(3), order);
        let wrong =
            residual.around(&wavy(1, 2, 5), mode, |x, _| Ok(Answer(x.to_owned())));
        assert_refused(wrong, "vectors are 5 wide but the LayerNorm takes 3");
        let failed =
            residual.around(&wavy(1, 2, 3), mode, |_, _| -> Result<Answer> {
                anyhow::bail!("no answer")
            });
        assert_refused(failed, "no answer");
    }
    for p in [1.0, -0.1, f64::NAN] {
        assert_refused(
            residual.clone().with_dropout(p),
            &format!(
                "the probability of dropout must be at least 0 and below 1, not {p}"
            ),
        );
    }
}

/// The squares of such numbers, or their sum, are above the largest float; the result is not.
#[test]
fn layer_norm_of_numbers_whose_squares_leave_the_range() {
    let norm = LayerNorm::<f32>::fresh(4).unwrap();
    for size in [1.0_f32, 1e19, 1e30, 8e37] {
        for sign in [1.0, -1.0] {
            let x = array![[[1.0, 2.0, 3.0, 4.0]]] * (sign * size);
            let (found, sigmas) = norm.standardized(&x).unwrap();
            let right =
                array![-1.341_640_8_f32, -0.447_213_6, 0.447_213_6, 1.341_640_8]
                    * sign;
            let far = found.iter().zip(&right).any(|(x, y)| (x - y).abs() > 2e-5);
            assert!(!far, "{found} at a size of {size}");
            assert!(sigmas[[0, 0]].is_finite());
        }
    }
    // Infinity has no place among others.
    let x = array![[[f32::INFINITY, 0.0, 1.0, 2.0]]];
    assert!(norm.apply(&x).unwrap().iter().any(|x| x.is_nan()));
}

#[test]
fn gelu_at_the_ends_of_the_range() {
    fn ends<F: ndarray::NdFloat>() {
        let gelu = |x: F| Activation::Gelu.apply(x);
        assert_eq!(gelu(F::infinity()), F::infinity());
        assert_eq!(gelu(F::max_value()), F::max_value());
        assert_eq!(gelu(F::neg_infinity()), F::zero());
        assert_eq!(gelu(F::min_value()), F::zero());
        assert!(gelu(F::nan()).is_nan());
    }
    ends::<f32>();
    ends::<f64>();
}

/// An empty view that was cut off something keeps its strides, and those fit no new array.
#[test]
fn layer_norm_of_an_empty_view() {
    let x = wavy(2, 3, 4);
    for axis in [Axis(0), Axis(1)] {
        let (none, _) = x.view().split_at(axis, 0);
        let norm = LayerNorm::fresh(4).unwrap();
        assert_eq!(norm.apply(&none).unwrap().dim(), none.dim());
    }
}
