//! Self-attention and positions.

use anyhow::{Context, Result, ensure};
use ch01_alignment::{dot_score, first_example};
use ch04_masks::Mask;
use ch06_self_attention::{
    Cost, rotate, self_attention, sentence, sinusoidal_positions, wants_meet_offers,
};
use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};

use crate::canvas::{Face, Mark, Stroke};
use crate::chart::{Plot, Scale};
use crate::heatmap::{Marks, marked};
use crate::picture::Picture;
use crate::style::{Colour, HEAT, number, short, sup};

/// The weights of the book's sentence behind a mask, and where that mask allows any.
fn weights(mask: &Mask) -> Result<(Array2<f64>, Array2<bool>)> {
    let (tokens, x) = sentence();
    let n = tokens.len();
    let answer = self_attention(&wants_meet_offers(), &x.view().insert_axis(Axis(0)), mask)?;
    let weights = answer.weights.slice(s![0, 0, .., ..]).to_owned();
    let allowed = mask.fit((1, 1, n, n))?.slice(s![0, 0, .., ..]).to_owned();
    Ok((weights, allowed))
}

/// The sentence's weights as a grid, described by `said` and by the largest weights it has.
fn map(mask: &Mask, said: &str) -> Result<Picture> {
    let (tokens, _) = sentence();
    let (weights, allowed) = weights(mask)?;
    map_of(&tokens, weights.view(), &allowed, said)
}

/// What each token attends to, described by `said` and by the largest weight of each row.
///
/// # Errors
/// If there are no tokens, weights and mask are not `n × n`, or a weight is not finite.
pub fn map_of(
    tokens: &[&str],
    weights: ArrayView2<f64>,
    allowed: &Array2<bool>,
    said: &str,
) -> Result<Picture> {
    ensure!(
        allowed.dim() == weights.dim(),
        "weights are {:?} but the mask is {:?}",
        weights.dim(),
        allowed.dim()
    );
    let marks = Marks {
        allowed: Some(allowed),
        ..Marks::default()
    };
    let mut picture = marked(weights, tokens, tokens, marks)?;
    let largest: Vec<_> = tokens
        .iter()
        .zip(weights.rows())
        .map(|(token, row)| {
            let largest = row.fold(0.0, |a: f64, &b| a.max(b));
            let ties: Vec<_> = tokens
                .iter()
                .zip(row)
                .filter(|(_, weight)| largest - **weight < 1e-12)
                .map(|(token, _)| *token)
                .collect();
            format!("{token} gives {} {}", ties.join(" and "), short(largest))
        })
        .collect();
    picture.alt = format!(
        "{said} Queries are rows, keys are columns. The largest weight of each row: {}.",
        largest.join(", ")
    );
    Ok(picture)
}

/// What each token of the sentence looks at.
pub(crate) fn heatmap() -> Result<Picture> {
    let (tokens, _) = sentence();
    let said = format!(
        "How much each token of {} attends to each.",
        tokens.join(" ")
    );
    map(&Mask::everything(), &said)
}

/// The same without the future.
pub(crate) fn causal() -> Result<Picture> {
    let (tokens, _) = sentence();
    let n = tokens.len();
    let said = format!(
        "How much each token of {} attends to itself and to those before it; the rest is forbidden.",
        tokens.join(" ")
    );
    map(&Mask::causal(n, n), &said)
}

/// The sinusoidal encodings: positions across, columns down.
pub(crate) fn positions() -> Result<Picture> {
    let (length, width) = (32, 16);
    let encodings: Array2<f64> = sinusoidal_positions(length, width);
    let turns = |column: usize| {
        let signs = encodings.column(column);
        let changes = signs.iter().zip(signs.iter().skip(1));
        changes.filter(|(a, b)| (**a < 0.0) != (**b < 0.0)).count()
    };
    let alt = format!(
        "Sinusoidal encodings of positions 0 to {} in {width} columns, two to a frequency. The sign \
         changes {} times in column 0 and {} times in column 2; the last two columns hardly change, as from \
         {} to {} in column {}.",
        length - 1,
        turns(0),
        turns(2),
        number(encodings[[0, width - 2]], 2),
        number(encodings[[length - 1, width - 2]], 2),
        width - 2
    );
    Picture::paint((360, 344), alt, |canvas| {
        let (left, top, cell) = (34.0, 28.0, (10.0, 16.0));
        canvas.text((6.0, 11.0), "column", Face::TEXT)?;
        let corner = |position: usize, column: usize| {
            (
                left + cell.0 * position as f64,
                top + cell.1 * column as f64,
            )
        };
        for (column, values) in encodings.columns().into_iter().enumerate() {
            // Neighbours of one colour become one rectangle, so that no seam shows between them.
            let shades: Vec<_> = values.iter().map(|&value| shade(value)).collect();
            let mut position = 0;
            for run in shades.chunk_by(|a, b| a == b) {
                let (colour, opacity) = run[0];
                let (from, to) = (
                    corner(position, column),
                    corner(position + run.len(), column + 1),
                );
                if opacity > 0.0 {
                    canvas.fill(from, to, colour, opacity)?;
                }
                position += run.len();
            }
            for (position, _) in values.iter().enumerate().filter(|(_, x)| **x < 0.0) {
                let (x, y) = corner(position, column);
                let (x, y) = (x + cell.0 / 2.0, y + cell.1 / 2.0);
                canvas.line((x - 2.0, y), (x + 2.0, y), Stroke::new(Colour::Ink, 0.8))?;
            }
        }
        let (right, bottom) = corner(length, width);
        for pair in 0..=width / 2 {
            let y = top + 2.0 * cell.1 * pair as f64;
            canvas.line((left, y), (right, y), Stroke::new(Colour::Grid, 0.8))?;
        }
        for column in 0..width {
            let y = top + cell.1 * (column as f64 + 0.5);
            canvas.text((left - 6.0, y), column.to_string(), Face::ENDING.size(11.0))?;
        }
        canvas.frame((left, top), (right, bottom), Stroke::new(Colour::Line, 1.0))?;
        for position in (0..length).step_by(5) {
            let x = left + cell.0 * (position as f64 + 0.5);
            let label = position.to_string();
            canvas.text((x, bottom + 11.0), label, Face::CENTRED.size(11.0))?;
        }
        let middle = (left + right) / 2.0;
        canvas.text((middle, bottom + 28.0), "position p", Face::CENTRED)?;
        let key = "warm: up to 1; cold, with a dash: down to −1";
        canvas.text((middle, bottom + 48.0), key, Face::CENTRED.muted())
    })
}

/// The colour of a number from −1 to 1 and its opacity, in hundredths.
fn shade(value: f64) -> (Colour, f64) {
    let colour = if value < 0.0 {
        Colour::Cold
    } else {
        Colour::Hot
    };
    (colour, (value.abs() * HEAT * 100.0).round() / 100.0)
}

/// The score of a query and a key, both turned by their positions.
fn turned_score(
    (query, query_at): (ArrayView1<f64>, usize),
    (key, key_at): (ArrayView1<f64>, usize),
) -> Result<f64> {
    let turn = |x: ArrayView1<f64>, at| {
        let four = x.to_shape((1, 1, 1, x.len()))?;
        anyhow::Ok(rotate(&four, &[at])?.into_flat())
    };
    dot_score(&turn(query, query_at)?, &turn(key, key_at)?)
}

/// Scores under rotary positions, against the distance of query and key.
pub(crate) fn rope() -> Result<Picture> {
    let (queries, keys) = first_example();
    let (query, key) = (queries.row(0), keys.row(1));
    let farthest = 24;
    let curve = |first: usize| -> Result<Vec<(f64, f64)>> {
        (0..=farthest)
            .map(|distance| {
                let score = turned_score((query, first + distance), (key, first))?;
                Ok((distance as f64, score))
            })
            .collect()
    };
    let starts = [0, 10, 50];
    let curves = starts.map(curve).into_iter().collect::<Result<Vec<_>>>()?;
    let apart = curves
        .iter()
        .flat_map(|curve| curve.iter().zip(&curves[0]))
        .map(|(a, b)| (a.1 - b.1).abs())
        .fold(0.0, f64::max);
    let decimals = 9;
    ensure!(
        apart < 0.5 * 10f64.powi(-decimals),
        "the curves lie {apart} apart, but are drawn as one"
    );
    let alt = format!(
        "The score of a turned query and a turned key against the distance between them, from 0 to {farthest}, \
         with the key at position {}, {} and {}. It begins at {} and swings, and the three curves coincide \
         to {} decimals.",
        starts[0],
        starts[1],
        starts[2],
        number(curves[0][0].1, 2),
        decimals
    );
    Picture::paint((360, 256), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((0.0, farthest as f64), (38.0, 348.0)),
            y: Scale::linear((0.0, 3.0), (186.0, 30.0)),
        };
        canvas.text((6.0, 11.0), "score of the turned pair", Face::TEXT)?;
        plot.y_ticks([0.0, 1.0, 2.0, 3.0].map(|y| (y, number(y, 0))))?;
        plot.x_axis(
            (0..=farthest).step_by(4).map(|x| (x as f64, x.to_string())),
            "position of the query minus position of the key",
        )?;
        plot.curve(&curves[0], Stroke::new(Colour::Line, 1.2))?;
        let marks = [
            (Mark::Disc, Colour::A),
            (Mark::Square, Colour::B),
            (Mark::Triangle, Colour::C),
        ];
        for (k, (mark, colour)) in marks.into_iter().enumerate() {
            // Taking turns, so that no mark hides another.
            let points: Vec<_> = curves[k].iter().skip(k).step_by(3).copied().collect();
            plot.marks(&points, mark, colour)?;
            let x = 20.0 + 116.0 * k as f64;
            canvas.mark((x, 240.0), mark, colour)?;
            let name = format!("key at {}", starts[k]);
            canvas.text((x + 9.0, 240.0), name, Face::TEXT.bold().colour(colour))?;
        }
        Ok(())
    })
}

/// Multiplications against the length, for attention, recurrence and convolution.
pub(crate) fn cost() -> Result<Picture> {
    let (d, kernel) = (512, 3);
    let lengths: Vec<u32> = (4..=13).map(|power| 1 << power).collect();
    let (first, last) = (lengths[0], lengths[lengths.len() - 1]);
    let attention = |n| Cost::of_self_attention(n, d).multiplications as f64;
    let recurrence = |n| Cost::of_recurrence(n, d).multiplications as f64;
    let convolution = |n| anyhow::Ok(Cost::of_convolution(n, d, kernel)?.multiplications as f64);
    let curve = |cost: &dyn Fn(u32) -> Result<f64>| -> Result<Vec<(f64, f64)>> {
        lengths.iter().map(|&n| Ok((n as f64, cost(n)?))).collect()
    };
    let crossing = (first..=last)
        .find(|&n| attention(n) >= recurrence(n))
        .context("the costs of attention and recurrence never meet")?;
    let times = |n| short(attention(n) / recurrence(n));
    let alt = format!(
        "Multiplications of one layer of width {d} against the length n, on logarithmic axes. Self-attention \
         grows twice as steeply as a recurrence and a convolution over {kernel} neighbours: it costs {} of the \
         recurrence at n = {first}, as much at n = {crossing}, and {} times as much at n = {last}.",
        times(first),
        times(last)
    );
    Picture::paint((360, 290), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::log((first as f64, last as f64), (42.0, 342.0)),
            y: Scale::log((1e5, 1e11), (246.0, 30.0)),
        };
        canvas.text((6.0, 11.0), "multiplications", Face::TEXT)?;
        plot.y_ticks((5..=11).map(|power| (10f64.powi(power), sup("10", power))))?;
        let ticks = lengths.iter().step_by(3);
        plot.x_axis(
            ticks.map(|&n| (n as f64, n.to_string())),
            &format!("length n, width d = {d}"),
        )?;
        let (x, y) = plot.at(crossing as f64, recurrence(crossing));
        let dashes = Stroke::new(Colour::Line, 1.0).dashed(3.0, 3.0);
        canvas.line((x, 246.0), (x, y), dashes)?;
        let curves = [
            (curve(&|n| Ok(attention(n)))?, Stroke::new(Colour::A, 2.4)),
            (
                curve(&|n| Ok(recurrence(n)))?,
                Stroke::new(Colour::B, 2.2).dashed(7.0, 3.0),
            ),
            (
                curve(&convolution)?,
                Stroke::new(Colour::C, 2.2).dashed(2.5, 2.5),
            ),
        ];
        for (points, stroke) in &curves {
            plot.curve(points, *stroke)?;
        }
        plot.marks(
            &[(crossing as f64, recurrence(crossing))],
            Mark::Disc,
            Colour::A,
        )?;
        let at = (x + 7.0, 232.0);
        canvas.text(at, format!("n = d = {crossing}"), Face::TEXT.muted())?;
        // Between two grid lines each.
        let beside = |n: f64, power: i32| plot.at(n, 10f64.powf(f64::from(power) + 0.5));
        let [square_n, square_d] = [sup("n", 2), sup("d", 2)];
        let names = [
            (
                beside(2600.0, 10),
                Face::ENDING,
                format!("self-attention, 2 {square_n} d"),
            ),
            (
                beside(1000.0, 8),
                Face::TEXT,
                format!("recurrence, 2 n {square_d}"),
            ),
            (
                beside(190.0, 8),
                Face::ENDING,
                format!("convolution, {kernel} n {square_d}"),
            ),
        ];
        for ((at, face, name), (_, stroke)) in names.into_iter().zip(&curves) {
            canvas.text(at, name, face.bold().colour(stroke.colour()))?;
        }
        Ok(())
    })
}
