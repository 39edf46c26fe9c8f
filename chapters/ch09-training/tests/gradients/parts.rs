//! The parts that are not attention, and the loss.

use super::*;
use anyhow::Result;
use ch05_multihead::Projection;
use ch08_transformer::{
    Activation, Embedding, FeedForward, LayerNorm, NormOrder, Residual,
    ResidualSteps, Steps,
};
use ch09_training::{backward, layers, loss::cross_entropy};
use ndarray::{Array3, ArrayRef3, array, s};

const ACTIVATIONS: [Activation; 2] = [Activation::Relu, Activation::Gelu];

#[test]
fn a_layer_norm() {
    for (eps, spread) in [(1e-5, 1.0), (1e-12, 5.0), (0.5, 0.3)] {
        let norm = LayerNorm::new(random(5, 1), random(5, 2), eps).unwrap();
        let (x, d_y) = (random((2, 3, 5), 3) * spread, random((2, 3, 5), 4));
        let mut gradient = beginning(&norm);
        let d_x = backward::layer_norm(&norm, &x, &d_y, &mut gradient).unwrap();
        let loss = |norm: &LayerNorm<f64>, x: &Array3<f64>| {
            weighed(&norm.apply(x).unwrap(), &d_y)
        };
        let what = format!("LayerNorm, ε = {eps}");
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&norm, x));
        assert_learned(&what, &gradient, &norm, |norm| loss(norm, &x));
        // Its output does not notice a shift of its input.
        assert!(
            d_x.sum_axis(ndarray::Axis(2))
                .iter()
                .all(|sum| sum.abs() < 1e-12)
        );
    }
}

#[test]
fn the_slopes_of_activations() {
    for activation in ACTIVATIONS {
        let x = array![-8.0, -3.0, -1.0, -0.3, -1e-3, 1e-3, 0.2, 0.75, 2.0, 6.0];
        let slopes = x.mapv(|x| backward::slope(activation, x));
        assert_slopes(&format!("{activation:?}"), &slopes, &x, |x| {
            x.mapv(|x| activation.apply(x)).sum()
        });
    }
    assert_eq!(backward::slope(Activation::Relu, 0.0), 0.0);
    assert_eq!(backward::slope(Activation::Relu, -0.0), 0.0);
    assert_eq!(backward::slope(Activation::Gelu, 0.0), 0.5);
}

#[test]
fn a_feed_forward_network() {
    for activation in ACTIVATIONS {
        let network = FeedForward {
            inner: Projection::new(random((4, 7), 5), Some(random(7, 6))).unwrap(),
            activation,
            outer: Projection::new(random((7, 3), 7), Some(random(3, 8))).unwrap(),
        };
        let (x, d_output) = (random((2, 3, 4), 9), random((2, 3, 3), 10));
        let steps = network.apply_in_steps(&x).unwrap();
        assert!(steps.inner.iter().any(|&x| x < 0.0));
        let mut gradient = beginning(&network);
        let d_x =
            backward::feed_forward(&network, &x, &steps, &d_output, &mut gradient)
                .unwrap();
        let loss = |network: &FeedForward<f64>, x: &Array3<f64>| {
            weighed(&network.apply(x).unwrap(), &d_output)
        };
        let what = format!("feed-forward network, {activation:?}");
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&network, x));
        assert_learned(&what, &gradient, &network, |network| loss(network, &x));
    }
}

#[test]
fn an_embedding() {
    let embedding = Embedding::new(random((5, 3), 11)).unwrap();
    // Token 2 stands three times, token 4 nowhere.
    let tokens = array![[2, 0, 2, 1], [3, 2, 0, 1]];
    let d_x = random((2, 4, 3), 12);
    let mut gradient = beginning(&embedding);
    backward::embedding(&embedding, &tokens, &d_x, &mut gradient).unwrap();
    assert_learned("embedding", &gradient, &embedding, |embedding| {
        weighed(&embedding.apply(&tokens).unwrap(), &d_x)
    });
    let of_2 = &d_x.slice(s![0, 0, ..])
        + &d_x.slice(s![0, 2, ..])
        + d_x.slice(s![1, 1, ..]);
    let expected = of_2 * 3_f64.sqrt() + BEGIN;
    let found = gradient.table().row(2).to_owned();
    assert!((found - expected).iter().all(|x| x.abs() < 1e-15));
    assert!(gradient.table().row(4).iter().all(|&g| g == BEGIN));
}

/// A part that multiplies each number by itself, and by a factor for its place.
#[derive(Debug)]
struct Squares {
    factors: Array3<f64>,
    output: Array3<f64>,
}

impl Steps<f64> for Squares {
    fn output(&self) -> &Array3<f64> {
        &self.output
    }
}

fn squares(x: &ArrayRef3<f64>) -> Squares {
    let factors = random(x.dim(), 13);
    let output = x * x * &factors;
    Squares { factors, output }
}

#[test]
fn a_residual() {
    for (order, p, seed) in [
        (NormOrder::Pre, 0.0, None),
        (NormOrder::Post, 0.0, None),
        (NormOrder::Pre, 0.4, Some(14)),
        (NormOrder::Post, 0.4, Some(15)),
        (NormOrder::Pre, 0.4, None),
    ] {
        let norm = LayerNorm::new(random(5, 16), random(5, 17), 1e-5).unwrap();
        let residual = Residual::new(norm, order).with_dropout(p).unwrap();
        let (x, d_output) = (random((2, 3, 5), 18), random((2, 3, 5), 19));
        let forward = |residual: &Residual<f64>, x: &Array3<f64>| {
            let steps: Result<ResidualSteps<f64, Squares>> =
                in_mode(seed, |mode| {
                    residual.around(x, mode, |x, _| Ok(squares(x)))
                });
            steps.unwrap()
        };
        let steps = forward(&residual, &x);
        assert_eq!(steps.factors.is_some(), seed.is_some());
        let mut gradient = beginning(&residual);
        let d_x =
            layers::residual(&residual, &steps, &d_output, &mut gradient, |d_y| {
                Ok(&steps.inside * &steps.part.factors * 2.0 * d_y)
            })
            .unwrap();
        let loss = |residual: &Residual<f64>, x: &Array3<f64>| {
            weighed(&forward(residual, x).output, &d_output)
        };
        let what = format!("residual, {order:?}, dropout {seed:?}");
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&residual, x));
        assert_learned(&what, &gradient, &residual, |residual| loss(residual, &x));
    }
}

#[test]
fn the_cross_entropy() {
    const PAD: u32 = 0;
    let targets = array![[3, 1, PAD], [2, PAD, PAD]];
    let logits = random((2, 3, 5), 20) * 3.0;
    for smoothing in [0.0, 0.1, 0.7, 1.0] {
        let loss = cross_entropy(&logits, &targets, PAD, smoothing);
        let loss = loss.unwrap();
        assert_eq!(loss.tokens, 3);
        assert_slopes(
            &format!("cross-entropy, smoothing {smoothing}"),
            &loss.d_logits,
            &logits,
            |logits| {
                cross_entropy(logits, &targets, PAD, smoothing)
                    .unwrap()
                    .mean
            },
        );
        for (d_logits, &target) in loss.d_logits.rows().into_iter().zip(&targets) {
            // Padding has no part in it, and a shift of all scores changes nothing.
            assert!(target != PAD || d_logits.iter().all(|&d| d == 0.0));
            assert!(d_logits.sum().abs() < 1e-15);
        }
        // Whatever stands at the padding.
        let mut poisoned = logits.clone();
        poisoned.slice_mut(s![1, 1.., ..]).fill(f64::NAN);
        let same = cross_entropy(&poisoned, &targets, PAD, smoothing);
        assert_eq!(same.unwrap(), loss);
    }
}
