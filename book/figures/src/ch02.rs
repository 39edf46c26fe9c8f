//! Softmax weights and the weighted sum.

use anyhow::{Context, Result, ensure};
use ch01_alignment::{SENTENCE, alignment_scores, first_example};
use ch02_softmax::{
    Attention, TRANSLATION, attend, naive_softmax, softmax, softmax_with_temperature, word_values,
};
use ndarray::{Array1, ArrayView2, Axis, array};

use crate::canvas::{Face, Mark, Stroke};
use crate::chart::{Bars, Plot, Scale, Series};
use crate::picture::Picture;
use crate::style::{Colour, number, numbered, sub, sup};

/// The scores of the first example's only query.
fn first_scores() -> Result<Array1<f64>> {
    let (queries, keys) = first_example();
    Ok(alignment_scores(&queries, &keys)?.row(0).to_owned())
}

fn list(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
    let values: Vec<_> = values.into_iter().map(|x| number(x, decimals)).collect();
    values.join(", ")
}

/// The first example's scores, and the weights the softmax makes of them.
pub(crate) fn weights() -> Result<Picture> {
    let scores = first_scores()?;
    weights_of(&scores.to_vec(), &softmax(&scores).to_vec())
}

/// Scores above, and below them the weights that were made of them.
///
/// # Errors
/// If there is not one weight for each score, or a score is not finite.
pub fn weights_of(scores: &[f64], weights: &[f64]) -> Result<Picture> {
    ensure!(
        scores.len() == weights.len(),
        "there are {} scores but {} weights",
        scores.len(),
        weights.len()
    );
    ensure!(
        scores.iter().all(|e| e.is_finite()),
        "a score is not finite: {scores:?}"
    );
    let sum: f64 = weights.iter().sum();
    let range = |values: &[f64], (low, high): (f64, f64)| {
        let smallest = values.iter().fold(low, |a, &x| a.min(1.2 * x));
        let largest = values.iter().fold(high, |a, &x| a.max(1.04 * x));
        (smallest, largest)
    };
    let alt = format!(
        "Above, the scores {}; below, the weights the softmax makes of them: {}, together {}.",
        list(scores.iter().copied(), 2),
        list(weights.iter().copied(), 3),
        number(sum, 3)
    );
    Picture::paint((360, 342), alt, |canvas| {
        let names = numbered("k", scores.len());
        canvas.text(
            (14.0, 13.0),
            format!("scores {}", sub("e", "j")),
            Face::TEXT.bold(),
        )?;
        Bars {
            names: &names,
            series: &[Series {
                values: scores,
                colour: Colour::A,
                hollow: false,
            }],
            decimals: 2,
            x: (14.0, 346.0),
            y: Scale::linear(range(scores, (-0.5, 2.5)), (142.0, 30.0)),
            names_at: 166.0,
        }
        .draw(canvas)?;
        canvas.text(
            (14.0, 192.0),
            format!("weights {}", sub("a", "j")),
            Face::TEXT.bold(),
        )?;
        let sum = format!("sum {}", number(sum, 3));
        canvas.text((346.0, 192.0), sum, Face::ENDING.muted())?;
        Bars {
            names: &names,
            series: &[Series {
                values: weights,
                colour: Colour::B,
                hollow: false,
            }],
            decimals: 3,
            x: (14.0, 346.0),
            y: Scale::linear(range(weights, (0.0, 0.8)), (313.0, 217.0)),
            names_at: 328.0,
        }
        .draw(canvas)
    })
}

/// The weights against the temperature.
pub(crate) fn temperature() -> Result<Picture> {
    let scores = first_scores()?;
    ensure!(
        (scores[0] - scores[3]).abs() < 1e-12,
        "k1 and k4 no longer tie, but share one curve"
    );
    let at = |tau: f64| softmax_with_temperature(&scores, tau);
    let (cold, one, hot) = (at(0.1)?, at(1.0)?, at(10.0)?);
    let alt = format!(
        "The four weights against the temperature τ. At 0.1 they are {}, at 1 {}, at 10 {}: the lower \
         the temperature, the more k2 takes, the higher, the more even they are. k1 and k4 tie.",
        list(cold.to_vec(), 3),
        list(one.to_vec(), 3),
        list(hot.to_vec(), 3)
    );
    let taus: Vec<f64> = (0..=80)
        .map(|i| 10f64.powf(f64::from(i) / 40.0 - 1.0))
        .collect();
    let rows: Vec<Array1<f64>> = taus.iter().map(|&tau| at(tau)).collect::<Result<_>>()?;
    Picture::paint((360, 262), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::log((0.1, 10.0), (38.0, 256.0)),
            y: Scale::linear((0.0, 1.0), (220.0, 28.0)),
        };
        canvas.text((6.0, 10.0), format!("weight {}", sub("a", "j")), Face::TEXT)?;
        plot.y_ticks([0.0, 0.25, 0.5, 0.75, 1.0].map(|y| (y, format!("{y}"))))?;
        let ticks = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
        plot.x_axis(ticks.map(|x| (x, format!("{x}"))), "temperature τ")?;
        let dashes = Stroke::new(Colour::Line, 1.0).dashed(3.0, 3.0);
        canvas.line(plot.at(1.0, 0.0), plot.at(1.0, 1.0), dashes)?;
        let (x, y) = plot.at(1.0, 1.0);
        canvas.text((x, y - 9.0), "τ = 1", Face::CENTRED.muted())?;

        let tie = format!("{} = {} (tie)", sub("k", 1), sub("k", 4));
        let curves = [
            (1, sub("k", 2), Stroke::new(Colour::A, 2.4)),
            (0, tie, Stroke::new(Colour::B, 2.2).dashed(7.0, 3.0)),
            (2, sub("k", 3), Stroke::new(Colour::C, 2.2).dashed(2.5, 2.5)),
        ];
        let middle = plot.y.at(hot[0]);
        for (place, (j, name, stroke)) in curves.into_iter().enumerate() {
            let points: Vec<_> = taus
                .iter()
                .zip(&rows)
                .map(|(&tau, row)| (tau, row[j]))
                .collect();
            plot.curve(&points, stroke)?;
            plot.marks(&[(1.0, one[j])], Mark::Disc, stroke.colour())?;
            // The ends lie too close together for three lines of text.
            let label = middle + 17.0 * (place as f64 - 1.0);
            let (right, end) = plot.at(10.0, hot[j]);
            canvas.line(
                (right + 2.0, end),
                (right + 14.0, label),
                Stroke::new(Colour::Grid, 1.0),
            )?;
            canvas.text(
                (right + 17.0, label),
                name,
                Face::TEXT.bold().colour(stroke.colour()),
            )?;
        }
        let (x, y) = plot.at(1.0, one[1]);
        canvas.text((x + 8.0, y - 6.0), number(one[1], 3), Face::TEXT)
    })
}

/// The answer as a stack of what the words contribute.
pub(crate) fn mixture() -> Result<Picture> {
    let values = word_values();
    let scores = first_scores()?;
    let attention = attend(&scores.view().insert_axis(Axis(0)), &values)?;
    mixture_of(&attention, values.view())
}

/// One query's answer as a stack of what each word of the sentence contributes to each word of the
/// translation.
///
/// # Errors
/// If there is not one value for each word of the sentence with an entry for each of the translation, or
/// a weight is not a share of 1.
pub fn mixture_of(attention: &Attention<f64>, values: ArrayView2<f64>) -> Result<Picture> {
    let (n, d_v) = (SENTENCE.len(), TRANSLATION.len());
    ensure!(
        values.dim() == (n, d_v) && attention.weights.dim() == (1, n),
        "{n} values of {d_v} entries are drawn, not {:?} with weights of {:?}",
        values.dim(),
        attention.weights.dim()
    );
    let (weights, totals) = (attention.weights.row(0), attention.output.row(0));
    ensure!(
        weights.iter().all(|a| (0.0..=1.0).contains(a)),
        "weights {:?} are no shares",
        weights.to_vec()
    );
    let said = |names: &[&str], numbers: Vec<f64>| {
        let said: Vec<_> = names.iter().zip(numbers).collect();
        let said: Vec<_> = said
            .iter()
            .map(|(name, x)| format!("{name} {}", number(*x, 3)))
            .collect();
        said.join(", ")
    };
    let alt = format!(
        "The answer r as six stacked bars, one for each word of the translation: {}. The four words of the \
         sentence enter with their weights: {}.",
        said(&TRANSLATION, totals.to_vec()),
        said(&SENTENCE, weights.to_vec())
    );
    let highest = totals.fold(0.8, |a: f64, &r| a.max(r));
    Picture::paint((360, 288), alt, |canvas| {
        let y = Scale::linear((0.0, highest), (258.0, 68.0));
        let (width, step) = (44.0, 58.0);
        let left = |column: usize| 12.0 + step * column as f64;
        let [r, sum, alpha, v] = [sub("r", "c"), sub("Σ", "j"), sub("a", "j"), sub("v", "jc")];
        let title = format!("{r} = {sum} {alpha} {v}");
        canvas.text((14.0, 12.0), title, Face::TEXT)?;
        let colours = [Colour::B, Colour::A, Colour::C, Colour::D];
        for (column, (word, &total)) in TRANSLATION.iter().zip(totals).enumerate() {
            let mut below = 0.0;
            for (j, colour) in colours.into_iter().enumerate() {
                let above = below + weights[j] * values[[j, column]];
                if above == below {
                    continue;
                }
                // A sliver of paper keeps neighbours apart.
                let (bottom, top) = (y.at(below), y.at(above) + 1.2);
                let (left, right) = (left(column), left(column) + width);
                canvas.fill((left, bottom), (right, top.min(bottom)), colour, 1.0)?;
                below = above;
            }
            let middle = left(column) + width / 2.0;
            canvas.text((middle, y.at(total) - 9.0), number(total, 3), Face::CENTRED)?;
            canvas.text((middle, 272.0), *word, Face::CENTRED)?;
        }
        let at = 36.0;
        for (j, colour) in colours.into_iter().enumerate() {
            let x = 12.0 + 86.0 * j as f64;
            canvas.fill((x, at - 5.0), (x + 10.0, at + 5.0), colour, 1.0)?;
            let name = format!("{} {}", number(weights[j], 3), SENTENCE[j]);
            canvas.text((x + 15.0, at), name, Face::TEXT)?;
        }
        canvas.line(
            (4.0, y.at(0.0)),
            (left(d_v) - 8.0, y.at(0.0)),
            Stroke::new(Colour::Line, 1.0),
        )
    })
}

/// Where the exponential of a score leaves the range of f32, and the shifted one that never does.
pub(crate) fn overflow() -> Result<Picture> {
    let fails = (1..=200)
        .find(|&score| {
            naive_softmax(&array![score as f32, 0.0])
                .iter()
                .any(|a| a.is_nan())
        })
        .context("the naive softmax never fails in f32")?;
    let fails = f64::from(fails);
    let largest = 100.0;
    let limit = f64::from(f32::MAX);
    let mantissa = limit / 10f64.powf(limit.log10().floor());
    let power = limit.log10().floor();
    let alt = format!(
        "The exponential of a score passes the largest f32, {} · 10^{power}, just below {fails}: from \
         there on the naive softmax returns NaN. The exponential of the score minus the largest score, here \
         {largest}, ends at 1.",
        number(mantissa, 1)
    );
    Picture::paint((360, 292), alt, |canvas| {
        let (low, high) = (-46.0, 46.0);
        let plot = Plot {
            canvas,
            x: Scale::linear((0.0, largest), (44.0, 348.0)),
            y: Scale::linear((low, high), (250.0, 26.0)),
        };
        canvas.text(
            (6.0, 10.0),
            "exponential, on a logarithmic axis",
            Face::TEXT,
        )?;
        // The exponents of ten are drawn on a linear axis: f64 holds them all, f32 does not.
        let decades = |e: f64| e.exp().log10();
        let top = limit.log10();
        canvas.fill(plot.at(0.0, high), plot.at(largest, top), Colour::Soft, 1.0)?;
        plot.y_ticks([-40.0, -20.0, 0.0, 20.0].map(|y| {
            let label = if y == 0.0 {
                "1".to_owned()
            } else {
                sup("10", number(y, 0))
            };
            (y, label)
        }))?;
        plot.x_axis(
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0].map(|x| (x, format!("{x}"))),
            "score",
        )?;
        canvas.line(
            plot.at(0.0, top),
            plot.at(largest, top),
            Stroke::new(Colour::B, 1.6),
        )?;
        let name = format!(
            "largest f32: {} · {}",
            number(mantissa, 1),
            sup("10", power)
        );
        let (x, y) = plot.at(1.0, top);
        canvas.text((x, y + 10.0), name, Face::TEXT.colour(Colour::B))?;
        canvas.text(
            (x + 2.0, y - 10.0),
            "beyond: inf, and the weights NaN",
            Face::TEXT.muted(),
        )?;

        let (inside, outside) = (
            [(0.0, decades(0.0)), (fails, decades(fails))],
            [(fails, decades(fails)), (largest, decades(largest))],
        );
        plot.curve(&inside, Stroke::new(Colour::A, 2.4))?;
        plot.curve(&outside, Stroke::new(Colour::A, 2.0).dashed(3.0, 3.0))?;
        let down = [(0.0, decades(-largest)), (largest, decades(0.0))];
        plot.curve(&down, Stroke::new(Colour::C, 2.4))?;
        let drop = Stroke::new(Colour::Line, 1.0).dashed(3.0, 3.0);
        canvas.line(plot.at(fails, decades(fails)), plot.at(fails, low), drop)?;
        plot.marks(&[(fails, decades(fails))], Mark::Disc, Colour::B)?;
        plot.marks(&[(largest, 0.0)], Mark::Disc, Colour::C)?;
        let (x, _) = plot.at(fails, 0.0);
        canvas.text(
            (x - 4.0, 238.0),
            format!("fails from {fails} on"),
            Face::ENDING,
        )?;

        let (x, y) = plot.at(48.0, decades(48.0));
        canvas.text(
            (x - 6.0, y - 6.0),
            "exp(score)",
            Face::ENDING.bold().colour(Colour::A),
        )?;
        let (x, y) = plot.at(45.0, decades(45.0 - largest));
        canvas.text(
            (x + 8.0, y + 8.0),
            format!("exp(score − {largest})"),
            Face::TEXT.bold().colour(Colour::C),
        )
    })
}
