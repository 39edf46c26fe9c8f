//! Why training begins slowly: pre-norm and post-norm, with warm-up and without.

// ANCHOR: study_imports
use crate::optimizer::{Adam, Schedule};
use crate::trainer::blank;
use crate::{layers, loss::cross_entropy};
use anyhow::Result;
use ch08_transformer::{Learned, Mode, NormOrder, PAD, Settings, Transformer};
use ndarray::{Array2, NdFloat};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
// ANCHOR_END: study_imports

/// Eight sentences, what the decoder is given, and what it should answer. They mean nothing and can
/// only be learned by heart.
// ANCHOR: by_heart
fn by_heart() -> [Array2<u32>; 3] {
    let token =
        |vocabulary: usize| move |x: usize| (1 + x % (vocabulary - 1)) as u32;
    let (source, target) = (token(20), token(16));
    [
        Array2::from_shape_fn((8, 10), |(b, i)| source(7 * b + 3 * i)),
        Array2::from_shape_fn((8, 8), |(b, i)| target(5 * b + 4 * i)),
        Array2::from_shape_fn((8, 8), |(b, i)| target(5 * b + 4 * (i + 1))),
    ]
}

/// A Transformer of so many layers on either side, and its loss on these sentences with the gradient.
fn deep<F: NdFloat>(order: NormOrder, depth: usize) -> Result<Transformer<F>> {
    let settings = Settings {
        d_model: 32,
        heads: 4,
        d_ff: 128,
        encoder_layers: depth,
        decoder_layers: depth,
        order,
        dropout: 0.0,
        ..Settings::small()
    };
    Transformer::random(&settings, &mut ChaCha8Rng::seed_from_u64(1))
}

fn loss_and_gradient<F: NdFloat>(
    model: &Transformer<F>,
) -> Result<(F, Transformer<F>)> {
    let [source, input, target] = by_heart();
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(&source, &input, mode)?;
    let loss = cross_entropy(&steps.logits, &target, PAD, 0.0)?;
    let mut gradient = blank(model);
    let d_logits = &loss.d_logits;
    layers::transformer(model, [&source, &input], &steps, d_logits, &mut gradient)?;
    Ok((loss.mean, gradient))
}
// ANCHOR_END: by_heart

/// How long the gradient is in the feed-forward network of each decoder layer, before the first step.
///
/// # Errors
/// None in fact: the sizes fit each other.
// ANCHOR: by_layer
pub fn gradient_by_layer(order: NormOrder, depth: usize) -> Result<Vec<f64>> {
    let (_, gradient) = loss_and_gradient(&deep::<f64>(order, depth)?)?;
    let length = |network: &dyn Learned<f64>| {
        let tables = network.tables();
        let squares = tables.iter().map(|(_, table)| table.mapv(|x| x * x).sum());
        squares.sum::<f64>().sqrt()
    };
    let layers = gradient.decoder.layers.iter();
    Ok(layers.map(|layer| length(&layer.feed_forward)).collect())
}
// ANCHOR_END: by_layer

/// The loss at each step of a training of a deep Transformer, whose learning rate rises to 0.003 in
/// so many steps.
///
/// # Errors
/// None in fact: the sizes fit each other.
// ANCHOR: course
pub fn course(
    order: NormOrder,
    depth: usize,
    warm_up: u64,
    steps: u64,
) -> Result<Vec<f32>> {
    let mut model = deep(order, depth)?;
    let mut adam = Adam::new(&model, [0.9, 0.98], 1e-9)?;
    let schedule = Schedule {
        peak: 3e-3,
        warm_up,
        steps: steps.saturating_mul(2),
    };
    (1..=steps)
        .map(|step| {
            let (loss, gradient) = loss_and_gradient(&model)?;
            adam.step(&mut model, &gradient, schedule.rate(step))?;
            Ok(loss)
        })
        .collect()
}
// ANCHOR_END: course
