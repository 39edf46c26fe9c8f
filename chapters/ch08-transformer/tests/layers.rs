//! What chapter 8 claims about the layers of an encoder and of a decoder.

use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use ch08_transformer::*;
use ndarray::{Array, Array1, Array2, Array3, Dimension, array, s};
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

fn settings(order: NormOrder) -> Settings {
    Settings {
        source_vocabulary: 7,
        target_vocabulary: 6,
        d_model: 4,
        heads: 2,
        d_ff: 5,
        encoder_layers: 2,
        decoder_layers: 2,
        activation: Activation::Gelu,
        order,
        dropout: 0.3,
    }
}

/// LayerNorm that makes (−1, 1) of any two numbers that rise.
fn around(order: NormOrder) -> Residual<f64> {
    let norm = LayerNorm::new(Array1::ones(2), Array1::zeros(2), 1e-300).unwrap();
    Residual::new(norm, order)
}

/// Attention that reads nothing and always answers the same.
fn always(answer: Array1<f64>) -> MultiHeadAttention<f64> {
    let nothing = || Projection::from(Array2::zeros((2, 2)));
    let output = Projection::new(Array2::zeros((2, 2)), Some(answer)).unwrap();
    MultiHeadAttention::new(1, nothing(), nothing(), nothing(), output).unwrap()
}

/// `max(0, x)`, the second column times 3.
fn network() -> FeedForward<f64> {
    FeedForward {
        inner: Array2::eye(2).into(),
        activation: Activation::Relu,
        outer: array![[1.0, 0.0], [0.0, 3.0]].into(),
    }
}

#[test]
fn an_encoder_layer_by_hand() {
    let layer = |order| EncoderLayer {
        attention: always(array![0.0, 2.0]),
        attention_residual: around(order),
        feed_forward: network(),
        feed_forward_residual: around(order),
    };
    let x = array![[[1.0, 3.0]]];
    let apply = |order| layer(order).apply(&x, &Mask::everything()).unwrap();
    // (1, 3) + (0, 2) = (1, 5), and to it the network's answer to (−1, 1), which is (0, 3).
    assert_eq!(apply(NormOrder::Pre), array![[[1.0, 8.0]]]);
    // (1, 5) → (−1, 1), to it (0, 3), which is (−1, 4) → (−1, 1).
    assert_eq!(apply(NormOrder::Post), array![[[-1.0, 1.0]]]);
    let steps = layer(NormOrder::Post)
        .apply_in_steps(&x, &Mask::everything(), &mut Mode::Evaluation)
        .unwrap();
    assert_eq!(steps.attention.before_norm, array![[[1.0, 5.0]]]);
    assert_eq!(steps.attention.output, array![[[-1.0, 1.0]]]);
    assert_eq!(steps.feed_forward.before_norm, array![[[-1.0, 4.0]]]);
}

#[test]
fn a_decoder_layer_by_hand() {
    let layer = |order| DecoderLayer {
        attention: always(array![0.0, 2.0]),
        attention_residual: around(order),
        cross_attention: always(array![5.0, 0.0]),
        cross_attention_residual: around(order),
        feed_forward: network(),
        feed_forward_residual: around(order),
    };
    let (x, memory) = (array![[[1.0, 3.0]]], wavy(1, 4, 2));
    let everything = Mask::everything();
    let steps = |order| {
        layer(order)
            .apply_in_steps(
                &x,
                &memory,
                &everything,
                &everything,
                &mut Mode::Evaluation,
            )
            .unwrap()
    };
    // (1, 5), then (6, 5), and to it the network's answer to (1, −1), which is (1, 0).
    let pre = steps(NormOrder::Pre);
    assert_eq!(pre.attention.output, array![[[1.0, 5.0]]]);
    assert_eq!(pre.cross_attention.output, array![[[6.0, 5.0]]]);
    assert_eq!(pre.feed_forward.output, array![[[7.0, 5.0]]]);
    // (1, 5) → (−1, 1); (4, 1) → (1, −1); to it (1, 0), which is (2, −1) → (1, −1).
    let post = steps(NormOrder::Post);
    assert_eq!(post.attention.output, array![[[-1.0, 1.0]]]);
    assert_eq!(post.cross_attention.output, array![[[1.0, -1.0]]]);
    assert_eq!(post.feed_forward.before_norm, array![[[2.0, -1.0]]]);
    assert_eq!(post.feed_forward.output, array![[[1.0, -1.0]]]);
}

#[test]
fn an_encoder_layer_is_its_parts() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let encoder = settings(order).encoder::<f64>(&mut rng(1)).unwrap();
        let layer = &encoder.layers[0];
        let (x, mask) = (wavy(2, 3, 4), Mask::padding(&[3, 2], 3).unwrap());
        let norm = &layer.attention_residual.norm;
        let attend = |x: &Array3<f64>| {
            let answer = layer.attention.attend(x, x, x, &mask);
            answer.unwrap().output
        };
        let think = |x: &Array3<f64>| layer.feed_forward.apply(x).unwrap();
        let normed = |x: &Array3<f64>| norm.apply(x).unwrap();
        // Both LayerNorms are fresh, and so the same.
        let expected = match order {
            NormOrder::Pre => {
                let x = &x + &attend(&normed(&x));
                &x + &think(&normed(&x))
            }
            NormOrder::Post => {
                let x = normed(&(&x + &attend(&x)));
                normed(&(&x + &think(&x)))
            }
        };
        assert_near(&layer.apply(&x, &mask).unwrap(), &expected);
    }
}

#[test]
fn a_decoder_layer_reads_itself_then_the_memory() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let decoder = settings(order).decoder::<f64>(&mut rng(2)).unwrap();
        let layer = &decoder.layers[0];
        let (x, memory) = (wavy(2, 3, 4), wavy(2, 5, 4) * 0.7);
        let (causal, source) =
            (Mask::causal(3, 3), Mask::padding(&[5, 2], 5).unwrap());
        let steps = layer
            .apply_in_steps(&x, &memory, &causal, &source, &mut Mode::Evaluation)
            .unwrap();
        let own = steps.attention.inside.view();
        let itself = layer.attention.attend(&own, &own, &own, &causal).unwrap();
        assert_eq!(steps.attention.part.asked.output, itself.output);
        assert_eq!(steps.attention.part.asked.weights, itself.weights);
        // The memory is read as it is: its LayerNorm is the encoder's affair.
        let (q, m) = (steps.cross_attention.inside.view(), memory.view());
        let other = layer.cross_attention.attend(&q, &m, &m, &source).unwrap();
        assert_eq!(steps.cross_attention.part.asked.output, other.output);
        assert_eq!(steps.cross_attention.part.asked.weights, other.weights);
        let output = layer.apply(&x, &memory, &causal, &source);
        assert_eq!(steps.feed_forward.output, output.unwrap());
    }
}

#[test]
fn layers_stand_one_on_the_other() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let encoder = settings(order).encoder::<f64>(&mut rng(3)).unwrap();
        let (x, mask) = (wavy(1, 3, 4), Mask::everything());
        let steps = encoder
            .apply_in_steps(&x, &mask, &mut Mode::Evaluation)
            .unwrap();
        let first = encoder.layers[0].apply(&x, &mask).unwrap();
        let second = encoder.layers[1].apply(&first, &mask).unwrap();
        assert_eq!(steps.layers[0].feed_forward.output, first);
        assert_eq!(steps.before_norm, second);
        let output = match &encoder.final_norm {
            Some(norm) => norm.apply(&second).unwrap(),
            None => second,
        };
        assert_eq!(steps.output, output);

        let decoder = settings(order).decoder::<f64>(&mut rng(4)).unwrap();
        let mode = &mut Mode::Evaluation;
        let memory = steps.output.view();
        let steps = decoder
            .apply_in_steps(&x, &memory, &mask, &mask, mode)
            .unwrap();
        let mut y = x.clone();
        for layer in &decoder.layers {
            y = layer.apply(&y, &memory, &mask, &mask).unwrap();
        }
        assert_eq!(steps.before_norm, y);
        assert_eq!(decoder.final_norm.is_some(), order == NormOrder::Pre);
        assert_eq!(steps.output == y, order == NormOrder::Post);
    }
}

#[test]
fn without_layers_nothing_happens() {
    let encoder = Encoder::<f64> {
        layers: vec![],
        final_norm: None,
    };
    let x = wavy(2, 3, 4);
    let steps = encoder
        .apply_in_steps(&x, &Mask::everything(), &mut Mode::Evaluation)
        .unwrap();
    assert_eq!((&steps.before_norm, &steps.output), (&x, &x));
    assert!(steps.layers.is_empty());
}

#[test]
fn the_future_never_reaches_a_decoder_layer() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let decoder = settings(order).decoder::<f64>(&mut rng(5)).unwrap();
        let memory = wavy(1, 3, 4);
        let apply = |x: &Array3<f64>| {
            let (causal, all) = (Mask::causal(4, 4), Mask::everything());
            let mode = &mut Mode::Evaluation;
            let (x, memory) = (x.view(), memory.view());
            decoder
                .apply_in_steps(&x, &memory, &causal, &all, mode)
                .unwrap()
                .output
        };
        let x = wavy(1, 4, 4);
        let y = apply(&x);
        for i in 0..4 {
            let mut changed = x.clone();
            changed.slice_mut(s![0, i, ..]).fill(9.0);
            let changed = apply(&changed);
            let (before, after) = (s![.., ..i, ..], s![.., i.., ..]);
            assert_eq!(changed.slice(before), y.slice(before));
            assert_ne!(changed.slice(after), y.slice(after));
        }
    }
}

#[test]
fn layers_drop_in_training_alone() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let settings = settings(order);
        let still = Settings {
            dropout: 0.0,
            ..settings.clone()
        };
        let encoder = settings.encoder::<f64>(&mut rng(6)).unwrap();
        let undropped = still.encoder::<f64>(&mut rng(6)).unwrap();
        let (x, mask) = (wavy(2, 3, 4), Mask::everything());
        let apply = |encoder: &Encoder<f64>, mode: &mut Mode| {
            encoder.apply_in_steps(&x, &mask, mode).unwrap()
        };
        let used = apply(&encoder, &mut Mode::Evaluation);
        let expected = apply(&undropped, &mut Mode::Evaluation);
        assert_eq!(used.output, expected.output);
        let trained = apply(&undropped, &mut Mode::Training(&mut rng(7)));
        assert_eq!(trained, expected);
        let dropped = apply(&encoder, &mut Mode::Training(&mut rng(7)));
        assert_ne!(dropped.output, expected.output);
        // Weights, and what each part adds.
        let layer = &dropped.layers[0];
        assert_ne!(
            layer.attention.part.asked.kept,
            layer.attention.part.asked.weights
        );
        assert!(layer.attention.factors.is_some());
        assert!(layer.feed_forward.factors.is_some());
        assert_ne!(layer.attention.factors, layer.feed_forward.factors);
    }
}

#[test]
fn errors_name_shapes_and_the_layer() {
    let mut encoder = settings(NormOrder::Pre)
        .encoder::<f64>(&mut rng(8))
        .unwrap();
    let mode = &mut Mode::Evaluation;
    let everything = Mask::everything();
    let error = encoder
        .apply_in_steps(&wavy(1, 2, 3), &everything, mode)
        .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "encoder layer 0: vectors are 3 wide but the LayerNorm takes 4"
    );
    encoder.layers[1].feed_forward.outer = Array2::zeros((5, 6)).into();
    let error = encoder
        .apply_in_steps(&wavy(1, 2, 4), &everything, mode)
        .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "encoder layer 1: vectors of (1, 2, 4) cannot be added to what became of them, \
         (1, 2, 6)"
    );
    let error = encoder.layers[0]
        .apply(&wavy(1, 2, 4), &Mask::causal(3, 3))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a mask of 1 × 1 × 3 × 3 does not fit scores of 1 × 2 × 2 × 2"
    );

    let decoder = settings(NormOrder::Post)
        .decoder::<f64>(&mut rng(9))
        .unwrap();
    let (x, memory) = (wavy(1, 2, 4), wavy(1, 3, 5));
    let error = decoder
        .apply_in_steps(&x, &memory, &everything, &everything, mode)
        .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "decoder layer 0: vectors are 5 wide but the projection takes 4"
    );
    let memory = wavy(1, 3, 4);
    let error = decoder.layers[1]
        .apply(&x, &memory, &everything, &Mask::causal(2, 2))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a mask of 1 × 1 × 2 × 2 does not fit scores of 1 × 2 × 2 × 3"
    );
}
