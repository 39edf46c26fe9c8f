//! Scaled dot-product attention.

use anyhow::{Result, ensure};
use ch01_alignment::{alignment_scores, first_example};
use ch02_softmax::attention_weights;
use ch03_scaled::{
    KEYS, PAIRS, QUERIES, SEED, Saturation, WIDTHS, dot_product_spread, saturation as measure,
    scale, scaled_scores,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::canvas::{Face, Mark, Stroke};
use crate::chart::{Bars, Plot, Scale, Series};
use crate::picture::Picture;
use crate::style::{Colour, number, numbered, short, sub};

fn width_ticks() -> impl Iterator<Item = (f64, String)> {
    WIDTHS.into_iter().map(|d_k| (d_k as f64, d_k.to_string()))
}

/// The variance of random dot products against their width, without the scale and with it.
pub(crate) fn spread() -> Result<Picture> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut unscaled = Vec::new();
    let mut scaled = Vec::new();
    for d_k in WIDTHS {
        let (_, variance) = dot_product_spread(d_k, PAIRS, &mut rng)?;
        unscaled.push((d_k as f64, variance));
        // Scaled scores are the same draws times a constant, whose square scales their variance.
        scaled.push((d_k as f64, variance * scale::<f64>(d_k)?.powi(2)));
    }
    let last = WIDTHS.len() - 1;
    let alt = format!(
        "The variance of q · k, measured over {PAIRS} random pairs, grows with the width d_k: from {} at \
         {} to {} at {}, along the line variance = d_k. Divided by the root of d_k, the variance stays \
         near 1: {} at the end.",
        number(unscaled[0].1, 2),
        WIDTHS[0],
        number(unscaled[last].1, 0),
        WIDTHS[last],
        number(scaled[last].1, 2)
    );
    Picture::paint((360, 268), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::log((0.8, 1300.0), (42.0, 348.0)),
            y: Scale::log((0.3, 2000.0), (226.0, 28.0)),
        };
        canvas.text((6.0, 10.0), "variance of the score", Face::TEXT)?;
        plot.y_ticks([1.0, 10.0, 100.0, 1000.0].map(|y| (y, short(y))))?;
        plot.x_axis(width_ticks(), &format!("width {}", sub("d", "k")))?;
        let line = Stroke::new(Colour::Line, 1.0).dashed(4.0, 3.0);
        plot.curve(&[(1.0, 1.0), (1024.0, 1024.0)], line)?;
        plot.curve(&[(1.0, 1.0), (1024.0, 1.0)], line)?;
        plot.marks(&unscaled, Mark::Disc, Colour::B)?;
        plot.marks(&scaled, Mark::Square, Colour::A)?;
        let (x, y) = plot.at(64.0, 64.0);
        let d_k = sub("d", "k");
        canvas.text(
            (x - 10.0, y - 16.0),
            "q · k",
            Face::ENDING.bold().colour(Colour::B),
        )?;
        canvas.text(
            (x + 12.0, y + 12.0),
            format!("variance = {d_k}"),
            Face::TEXT.muted(),
        )?;
        let (x, y) = plot.at(64.0, 1.0);
        let face = Face::CENTRED.bold().colour(Colour::A);
        canvas.text((x, y - 14.0), format!("q · k / √{d_k}"), face)?;
        canvas.text((x, y + 14.0), "variance = 1", Face::CENTRED.muted())
    })
}

/// How the softmax saturates as the width grows, and what the scale does about it.
pub(crate) fn saturation() -> Result<Picture> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let measured: Vec<[Saturation; 2]> = WIDTHS
        .into_iter()
        .map(|d_k| measure(d_k, KEYS, QUERIES, &mut rng))
        .collect::<Result<_>>()?;
    let curve = |value: fn(&[Saturation; 2]) -> f64| -> Vec<(f64, f64)> {
        WIDTHS
            .iter()
            .map(|&d_k| d_k as f64)
            .zip(measured.iter().map(value))
            .collect()
    };
    let (first, last) = (measured[0], measured[WIDTHS.len() - 1]);
    let alt = format!(
        "A softmax over {KEYS} random keys, without the scale and with it, against the width. From width \
         {} to {} the median largest weight goes from {} to {} without the scale and to {} with it. The \
         median size of the gradient by the query goes from {} to {} without the scale, by way of {} at \
         width {}, and to {} with it.",
        WIDTHS[0],
        WIDTHS[WIDTHS.len() - 1],
        number(first[0].largest_weight, 2),
        number(last[0].largest_weight, 2),
        number(last[1].largest_weight, 2),
        number(first[0].gradient, 2),
        number(last[0].gradient, 4),
        number(measured[2][0].gradient, 2),
        WIDTHS[2],
        number(last[1].gradient, 2)
    );
    Picture::paint((360, 384), alt, |canvas| {
        let x = || Scale::log((0.8, 1300.0), (42.0, 348.0));
        let weights = Plot {
            canvas,
            x: x(),
            y: Scale::linear((0.0, 1.0), (138.0, 30.0)),
        };
        canvas.text((6.0, 10.0), "median largest weight", Face::TEXT)?;
        weights.y_ticks([0.0, 0.5, 1.0].map(|y| (y, short(y))))?;
        compare(
            &weights,
            curve(|m| m[0].largest_weight),
            curve(|m| m[1].largest_weight),
            [(-4.0, 15.0), (0.0, 15.0)],
        )?;
        let gradients = Plot {
            canvas,
            x: x(),
            y: Scale::log((2e-4, 3.0), (340.0, 222.0)),
        };
        canvas.text(
            (6.0, 204.0),
            "median size of the gradient ∂a/∂q",
            Face::TEXT,
        )?;
        gradients.y_ticks([0.001, 0.01, 0.1, 1.0].map(|y| (y, short(y))))?;
        compare(
            &gradients,
            curve(|m| m[0].gradient),
            curve(|m| m[1].gradient),
            [(-62.0, 6.0), (0.0, -13.0)],
        )
    })
}

/// A measurement without the scale and with it, against the width, named at width 256.
fn compare(
    plot: &Plot,
    unscaled: Vec<(f64, f64)>,
    scaled: Vec<(f64, f64)>,
    asides: [(f64, f64); 2],
) -> Result<()> {
    plot.x_axis(width_ticks(), &format!("width {}", sub("d", "k")))?;
    plot.curve(&unscaled, Stroke::new(Colour::B, 2.2).dashed(6.0, 3.0))?;
    plot.curve(&scaled, Stroke::new(Colour::A, 2.2))?;
    plot.marks(&unscaled, Mark::Disc, Colour::B)?;
    plot.marks(&scaled, Mark::Square, Colour::A)?;
    let names = [
        "without the scale".to_owned(),
        format!("with 1/√{}", sub("d", "k")),
    ];
    for ((points, colour), (name, aside)) in [(unscaled, Colour::B), (scaled, Colour::A)]
        .into_iter()
        .zip(names.into_iter().zip(asides))
    {
        let (x, y) = plot.at(points[4].0, points[4].1);
        let place = (x + aside.0, y + aside.1);
        plot.canvas
            .text(place, name, Face::CENTRED.bold().colour(colour))?;
    }
    Ok(())
}

/// The first example's weights without the scale and with it.
pub(crate) fn scaled() -> Result<Picture> {
    let (queries, keys) = first_example();
    let unscaled = attention_weights(&alignment_scores(&queries, &keys)?);
    let scaled = attention_weights(&scaled_scores(&queries, &keys)?);
    scaled_of(
        &unscaled.row(0).to_vec(),
        &scaled.row(0).to_vec(),
        keys.ncols(),
    )
}

/// The weights of one query for keys of that width, without the scale and with it.
///
/// # Errors
/// If the width is 0, or the numbers of weights differ.
pub fn scaled_of(unscaled: &[f64], scaled: &[f64], d_k: usize) -> Result<Picture> {
    ensure!(
        unscaled.len() == scaled.len(),
        "there are {} weights without the scale but {} with it",
        unscaled.len(),
        scaled.len()
    );
    let factor: f64 = scale(d_k)?;
    let list = |weights: &[f64]| {
        let weights: Vec<_> = weights.iter().map(|&a| number(a, 3)).collect();
        weights.join(", ")
    };
    let both = || unscaled.iter().chain(scaled);
    let highest = both().fold(0.8, |a: f64, &x| a.max(1.04 * x));
    let alt = format!(
        "The weights for k1 to k{}, each {d_k} wide, without the scale: {}; scores divided by √{d_k}: {}.",
        scaled.len(),
        list(unscaled),
        list(scaled)
    );
    Picture::paint((360, 232), alt, |canvas| {
        let (a, b) = (Colour::A, Colour::B);
        canvas.fill((15.0, 8.0), (25.0, 18.0), b, 0.15)?;
        canvas.frame((15.0, 8.0), (25.0, 18.0), Stroke::new(b, 1.4))?;
        canvas.text((31.0, 13.0), "without the scale", Face::TEXT.colour(b))?;
        canvas.fill((158.0, 8.0), (168.0, 18.0), a, 1.0)?;
        let name = format!("scores times 1/√{} = {}", sub("d", "k"), short(factor));
        canvas.text((174.0, 13.0), name, Face::TEXT.colour(a))?;
        Bars {
            names: &numbered("k", scaled.len()),
            series: &[
                Series {
                    values: unscaled,
                    colour: b,
                    hollow: true,
                },
                Series {
                    values: scaled,
                    colour: a,
                    hollow: false,
                },
            ],
            decimals: 3,
            x: (10.0, 350.0),
            y: Scale::linear((0.0, highest), (202.0, 48.0)),
            names_at: 218.0,
        }
        .draw(canvas)
    })
}
