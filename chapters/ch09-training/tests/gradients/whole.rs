//! The layers of an encoder and of a decoder, and the whole Transformer.

use super::*;
use ch04_masks::Mask;
use ch08_transformer::{
    Activation, DecoderLayer, DecoderLayerSteps, EncoderLayer, EncoderLayerSteps,
    NormOrder, PAD, Settings, Transformer, TransformerSteps,
};
use ch09_training::{layers, loss::cross_entropy};
use ndarray::{Array2, Array3, array};

/// Both places of the LayerNorm, both activations, and dropout or none.
fn cases() -> Vec<(Settings, Option<u64>)> {
    use {Activation::*, NormOrder::*};
    [
        (Pre, Relu, None, 1),
        (Post, Gelu, None, 1),
        (Pre, Gelu, Some(1), 2),
        (Post, Relu, Some(2), 2),
    ]
    .map(|(order, activation, seed, layers)| {
        let settings = Settings {
            source_vocabulary: 6,
            target_vocabulary: 5,
            d_model: 4,
            heads: 2,
            d_ff: 5,
            encoder_layers: layers,
            decoder_layers: layers,
            activation,
            order,
            dropout: 0.2,
        };
        (settings, seed)
    })
    .into()
}

fn name(settings: &Settings, seed: Option<u64>) -> String {
    let dropout = if seed.is_some() { ", dropout" } else { "" };
    format!("{:?}, {:?}{dropout}", settings.order, settings.activation)
}

#[test]
fn an_encoder_layer() {
    for (settings, seed) in cases() {
        let mut encoder = settings.encoder(&mut rng(3)).unwrap();
        let layer = stirred(encoder.layers.remove(0), 4);
        let (x, d_output) = (random((2, 3, 4), 5), random((2, 3, 4), 6));
        let mask = Mask::padding(&[3, 2], 3).unwrap();
        let forward = |layer: &EncoderLayer<f64>,
                       x: &Array3<f64>|
         -> EncoderLayerSteps<f64> {
            in_mode(seed, |mode| layer.apply_in_steps(x, &mask, mode)).unwrap()
        };
        let steps = forward(&layer, &x);
        let mut gradient = beginning(&layer);
        let d_x =
            layers::encoder_layer(&layer, &steps, &mask, &d_output, &mut gradient)
                .unwrap();
        let loss = |layer: &EncoderLayer<f64>, x: &Array3<f64>| {
            weighed(&forward(layer, x).feed_forward.output, &d_output)
        };
        let what = format!("encoder layer, {}", name(&settings, seed));
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| loss(&layer, x));
        assert_learned(&what, &gradient, &layer, |layer| loss(layer, &x));
    }
}

#[test]
fn a_decoder_layer() {
    for (settings, seed) in cases() {
        let mut decoder = settings.decoder(&mut rng(7)).unwrap();
        let layer = stirred(decoder.layers.remove(0), 8);
        let (x, memory) = (random((2, 3, 4), 9), random((2, 5, 4), 10));
        let d_output = random((2, 3, 4), 11);
        let causal = &Mask::causal(3, 3) & &Mask::padding(&[2, 3], 3).unwrap();
        let (causal, source) =
            (causal.unwrap(), Mask::padding(&[5, 3], 5).unwrap());
        let forward = |layer: &DecoderLayer<f64>,
                       x: &Array3<f64>,
                       memory: &Array3<f64>|
         -> DecoderLayerSteps<f64> {
            in_mode(seed, |mode| {
                let (x, memory) = (x.view(), memory.view());
                layer.apply_in_steps(&x, &memory, &causal, &source, mode)
            })
            .unwrap()
        };
        let steps = forward(&layer, &x, &memory);
        let mut gradient = beginning(&layer);
        let mut d_memory = Array3::from_elem(memory.dim(), BEGIN);
        let d_x = layers::decoder_layer(
            &layer,
            &steps,
            (&memory, &mut d_memory),
            [&causal, &source],
            &d_output,
            &mut gradient,
        )
        .unwrap();
        let loss = |layer: &_, x: &_, memory: &_| {
            weighed(&forward(layer, x, memory).feed_forward.output, &d_output)
        };
        let what = format!("decoder layer, {}", name(&settings, seed));
        assert_slopes(&format!("{what}, x"), &d_x, &x, |x| {
            loss(&layer, x, &memory)
        });
        let d_memory = d_memory - BEGIN;
        assert_slopes(&format!("{what}, memory"), &d_memory, &memory, |memory| {
            loss(&layer, &x, memory)
        });
        assert_learned(&what, &gradient, &layer, |layer| loss(layer, &x, &memory));
    }
}

/// Source, target as it is read, and target as it should be written.
fn tokens() -> [Array2<u32>; 3] {
    [
        array![[3, 5, 1, 4], [2, 3, PAD, PAD]],
        array![[1, 3, 3], [1, 2, PAD]],
        array![[3, 3, 2], [2, 4, PAD]],
    ]
}

#[test]
fn the_whole_transformer() {
    let [source, target, expected] = tokens();
    for (settings, seed) in cases() {
        let model = Transformer::random(&settings, &mut rng(12)).unwrap();
        let model = stirred(model, 13);
        let forward = |model: &Transformer<f64>| -> TransformerSteps<f64> {
            in_mode(seed, |mode| model.apply_in_steps(&source, &target, mode))
                .unwrap()
        };
        let loss = |steps: &TransformerSteps<f64>| {
            cross_entropy(&steps.logits, &expected, PAD, 0.1).unwrap()
        };
        let steps = forward(&model);
        assert_eq!(steps.embedded_source.factors.is_some(), seed.is_some());
        let mut gradient = beginning(&model);
        layers::transformer(
            &model,
            [&source, &target],
            &steps,
            &loss(&steps).d_logits,
            &mut gradient,
        )
        .unwrap();
        let what = format!("transformer, {}", name(&settings, seed));
        assert_learned(&what, &gradient, &model, |model| {
            loss(&forward(model)).mean
        });
        // Nobody reads the padding, so its vectors learn nothing.
        let pad = PAD as usize;
        for embedding in [&gradient.source_embedding, &gradient.target_embedding] {
            assert!(embedding.table().row(pad).iter().all(|&g| g == BEGIN));
        }
    }
}

/// A model and a gradient that do not belong together.
#[test]
fn layers_must_be_as_many_as_gradients() {
    let [source, target, _] = tokens();
    let (settings, _) = cases().remove(0);
    let model: Transformer<f64> =
        Transformer::random(&settings, &mut rng(14)).unwrap();
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(&source, &target, mode).unwrap();
    let back = |gradient: &mut Transformer<f64>| {
        let tokens = [&*source, &*target];
        layers::transformer(&model, tokens, &steps, &steps.logits, gradient)
    };
    assert!(back(&mut model.clone()).is_ok());
    let mut fewer = model.clone();
    fewer.decoder.layers.pop();
    assert_eq!(
        back(&mut fewer).unwrap_err().to_string(),
        "layers of [1, 1] and gradient of [1, 0] must have the same shape"
    );
    let mut bare = model.clone();
    bare.encoder.final_norm = None;
    assert!(back(&mut bare).is_err());
}
