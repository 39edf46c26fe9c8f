//! The Transformer.

use anyhow::Result;
use ch04_masks::Mask;
use ch08_transformer::{
    Activation, Mode, NormOrder, Settings, collapse as likeness, growth as sizes, random_vectors,
};
use ndarray::{ArrayView1, Axis, s, stack};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::canvas::{Face, Mark, Stroke};
use crate::chart::{Plot, Scale};
use crate::heatmap::heatmap;
use crate::picture::Picture;
use crate::style::{Colour, number, short};

const DEPTH: usize = 12;
const LAYERS: usize = 24;

/// A measurement after each layer, counted from 0.
fn by_layer(values: &[f64]) -> Vec<(f64, f64)> {
    let places = (0..).map(f64::from);
    places.zip(values.iter().copied()).collect()
}

fn layer_ticks(step: usize, last: usize) -> impl Iterator<Item = (f64, String)> {
    (0..=last)
        .step_by(step)
        .map(|layer| (layer as f64, layer.to_string()))
}

/// How alike the vectors of a sequence become, with the shortcut and without.
pub(crate) fn collapse() -> Result<Picture> {
    let run = |shortcut| {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        likeness([8, 32, 4, DEPTH], shortcut, &mut rng)
    };
    let (without, with) = (run(false)?, run(true)?);
    let alt = format!(
        "The mean cosine between 8 vectors, over {DEPTH} layers of random attention. Without the shortcut it goes \
         from {} to {} in three layers; with it, it is {} after three and {} after {DEPTH}.",
        number(without[0], 2),
        number(without[3], 3),
        number(with[3], 2),
        number(with[DEPTH], 2)
    );
    Picture::paint((360, 230), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((-0.3, DEPTH as f64 + 0.3), (42.0, 348.0)),
            y: Scale::linear((0.0, 1.0), (188.0, 32.0)),
        };
        canvas.text((6.0, 10.0), "mean cosine between two vectors", Face::TEXT)?;
        plot.y_ticks([0.0, 0.5, 1.0].map(|y| (y, short(y))))?;
        plot.x_axis(layer_ticks(3, DEPTH), "layer")?;
        let (without, with) = (by_layer(&without), by_layer(&with));
        plot.curve(&without, Stroke::new(Colour::B, 2.2).dashed(6.0, 3.0))?;
        plot.curve(&with, Stroke::new(Colour::A, 2.2))?;
        plot.marks(&without, Mark::Disc, Colour::B)?;
        plot.marks(&with, Mark::Square, Colour::A)?;
        let (x, y) = plot.at(1.7, 0.8);
        let face = Face::TEXT.bold();
        canvas.text((x + 8.0, y), "without the shortcut", face.colour(Colour::B))?;
        let (x, y) = plot.at(7.0, 0.42);
        canvas.text((x, y), "with the shortcut", face.colour(Colour::A))
    })
}

/// ReLU and GELU.
pub(crate) fn activations() -> Result<Picture> {
    let curve = |activation: Activation| -> Vec<(f64, f64)> {
        (-60..=60)
            .map(|i| f64::from(i) / 20.0)
            .map(|x| (x, activation.apply(x)))
            .collect()
    };
    let lowest =
        curve(Activation::Gelu).into_iter().fold(
            (0.0, 0.0),
            |low: (f64, f64), at| if at.1 < low.1 { at } else { low },
        );
    let alt = format!(
        "ReLU is 0 left of 0 and the number itself right of it, with a corner at 0. GELU has no corner: it dips \
         to {} at {} and nears the same two lines on either side.",
        number(lowest.1, 2),
        number(lowest.0, 2)
    );
    Picture::paint((360, 230), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((-3.0, 3.0), (42.0, 348.0)),
            y: Scale::linear((-0.5, 3.0), (188.0, 20.0)),
        };
        plot.y_ticks([0.0, 1.0, 2.0, 3.0].map(|y| (y, short(y))))?;
        plot.x_axis(
            [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0].map(|x| (x, number(x, 0))),
            "x",
        )?;
        plot.curve(
            &curve(Activation::Relu),
            Stroke::new(Colour::B, 2.2).dashed(6.0, 3.0),
        )?;
        plot.curve(&curve(Activation::Gelu), Stroke::new(Colour::A, 2.2))?;
        let (x, y) = plot.at(1.55, 2.1);
        canvas.text((x - 6.0, y), "ReLU", Face::ENDING.bold().colour(Colour::B))?;
        let (x, y) = plot.at(1.6, 1.05);
        canvas.text((x + 8.0, y), "GELU", Face::TEXT.bold().colour(Colour::A))
    })
}

/// How large the numbers become in a deep encoder, pre-norm and post-norm.
pub(crate) fn growth() -> Result<Picture> {
    let run = |order| {
        let settings = Settings {
            d_model: 32,
            heads: 4,
            d_ff: 128,
            encoder_layers: LAYERS,
            order,
            ..Settings::small()
        };
        sizes(&settings, 8, &mut ChaCha8Rng::seed_from_u64(24))
    };
    let (pre, post) = (run(NormOrder::Pre)?, run(NormOrder::Post)?);
    let alt = format!(
        "The root mean square of the numbers over {LAYERS} layers of a random encoder: in pre-norm it grows from \
         {} to {}, in post-norm it stays at {}.",
        number(pre[0], 2),
        number(pre[LAYERS], 1),
        number(post[LAYERS], 2)
    );
    Picture::paint((360, 230), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((-0.5, LAYERS as f64 + 0.5), (42.0, 348.0)),
            y: Scale::linear((0.0, 7.0), (188.0, 32.0)),
        };
        canvas.text((6.0, 10.0), "root mean square of the numbers", Face::TEXT)?;
        plot.y_ticks([0.0, 2.0, 4.0, 6.0].map(|y| (y, short(y))))?;
        plot.x_axis(layer_ticks(6, LAYERS), "layer")?;
        let (pre, post) = (by_layer(&pre), by_layer(&post));
        plot.curve(&post, Stroke::new(Colour::B, 2.2).dashed(6.0, 3.0))?;
        plot.curve(&pre, Stroke::new(Colour::A, 2.2))?;
        let (x, y) = plot.at(12.0, 4.6);
        canvas.text(
            (x - 8.0, y),
            "pre-norm",
            Face::ENDING.bold().colour(Colour::A),
        )?;
        let (x, y) = plot.at(16.0, 1.0);
        canvas.text(
            (x, y - 12.0),
            "post-norm",
            Face::CENTRED.bold().colour(Colour::B),
        )
    })
}

/// One token on its way through an encoder layer.
pub(crate) fn way() -> Result<Picture> {
    let mut encoder = Settings::small().encoder::<f64>(&mut ChaCha8Rng::seed_from_u64(1))?;
    let layer = encoder.layers.remove(0);
    let x = random_vectors(3, 8, &mut ChaCha8Rng::seed_from_u64(2));
    let mask = Mask::everything();
    let steps = layer.apply_in_steps(&x, &mask, &mut Mode::Evaluation)?;
    let (attention, network) = (&steps.attention, &steps.feed_forward);
    let rows = [
        ("x", &x),
        ("LayerNorm", &attention.inside),
        ("attention", &attention.part.asked.output),
        ("+ x", &attention.output),
        ("LayerNorm", &network.inside),
        ("feed-forward", &network.part.output),
        ("+ what came in", &network.output),
    ];
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let first: Vec<ArrayView1<f64>> = rows.iter().map(|(_, x)| x.slice(s![0, 0, ..])).collect();
    let columns: Vec<String> = (0..8).map(|c| c.to_string()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    heatmap(stack(Axis(0), &first)?.view(), &names, &columns)
}
