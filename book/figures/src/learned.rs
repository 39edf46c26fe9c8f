//! Attention that was learned: what chapter 9's model does inside when it reads one date.

use anyhow::{Context, Result};
use ch08_transformer::{Mode, TransformerSteps};
use ch09_training::task::{BEGIN, Vocabulary, padded};
use ch09_training::translate::translate;
use ch09_training::weights::shipped;
use ndarray::{Array2, Array3, Array4, ArrayView2, Axis};

use crate::canvas::{Canvas, Face, Stroke};
use crate::cells::Cells;
use crate::chart::{Plot, Scale};
use crate::picture::Picture;
use crate::style::{Colour, HEAT, number, short};

/// The date that is read in every chapter.
const DATE: &str = "29 Nov 2026";

/// A date, what the model wrote for it, and every step on the way.
struct Reading {
    read: Vec<String>,
    written: Vec<String>,
    steps: TransformerSteps<f32>,
}

fn reading() -> Result<Reading> {
    let (model, _) = shipped()?;
    let written = translate(&model, DATE)?.written;
    let mut tokens = vec![BEGIN];
    tokens.extend(Vocabulary::of_targets().tokens(&written));
    // What is written last is asked for nothing more.
    tokens.pop();
    let source = padded(vec![Vocabulary::of_sources().tokens(DATE)]);
    let target = padded(vec![tokens]);
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(&source, &target, mode)?;
    let characters = |text: &str| text.chars().map(String::from).collect();
    Ok(Reading {
        read: characters(DATE),
        written: characters(&written),
        steps,
    })
}

/// The weights of each head over the only sequence.
fn heads(weights: &Array4<f32>) -> Array3<f64> {
    weights.index_axis(Axis(0), 0).mapv(f64::from)
}

/// One map: a row for each one that asks, a column for each one that is asked.
struct Map {
    title: String,
    rows: Vec<String>,
    columns: Vec<String>,
    weights: Array2<f64>,
}

impl Map {
    fn new(title: String, rows: &[String], columns: &[String], weights: ArrayView2<f64>) -> Self {
        Self {
            title,
            rows: rows.to_vec(),
            columns: columns.to_vec(),
            weights: weights.to_owned(),
        }
    }

    fn draw(&self, canvas: &Canvas, (left, top): (f64, f64), cell: f64) -> Result<()> {
        let cells = Cells {
            at: (left + 16.0, top + 40.0),
            cell: (cell, 14.0),
            shape: self.weights.dim(),
        };
        let title = (left + 16.0, top + 9.0);
        canvas.text(title, &self.title, Face::TEXT)?;
        for ((i, j), weight) in self.weights.indexed_iter() {
            let opacity = (weight * HEAT * 100.0).round() / 100.0;
            // What nobody would see is left out.
            if opacity >= 0.05 {
                let (from, to) = (cells.corner(i, j), cells.corner(i + 1, j + 1));
                canvas.fill(from, to, Colour::Hot, opacity)?;
            }
        }
        cells.frames(canvas)?;
        cells.column_names(canvas, &self.columns)?;
        cells.row_names(canvas, &self.rows)
    }

    /// In words: where each row has its largest weight.
    fn said(&self) -> String {
        let says = self
            .rows
            .iter()
            .zip(self.weights.rows())
            .map(|(name, row)| {
                let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                let best = best.map_or(String::new(), |(j, weight)| {
                    format!("“{}” ({})", self.columns[j], number(*weight, 2))
                });
                format!("“{name}” at {best}")
            });
        format!("{}: {}", self.title, says.collect::<Vec<_>>().join(", "))
    }
}

/// Maps side by side, two in a row if there is more than one.
fn maps(maps: &[Map]) -> Result<Picture> {
    let alt = maps.iter().map(Map::said).collect::<Vec<_>>().join(". ");
    let alt = format!(
        "Learned weights for the date “{DATE}”; for each row, the column with its largest weight. {alt}."
    );
    let in_a_row = maps.len().min(2);
    let room = 360.0 / in_a_row as f64;
    let longest = maps.iter().map(|map| map.columns.len()).max();
    let cell = ((room - 24.0) / longest.context("no maps")? as f64)
        .min(20.0)
        .floor();
    let height = maps.iter().map(|map| 50.0 + 14.0 * map.rows.len() as f64);
    let height = height.fold(0.0, f64::max);
    let rows = maps.len().div_ceil(in_a_row);
    Picture::paint((360, (height * rows as f64) as u32), alt, |canvas| {
        for (place, map) in maps.iter().enumerate() {
            let (row, column) = (place / in_a_row, place % in_a_row);
            map.draw(canvas, (room * column as f64, height * row as f64), cell)?;
        }
        Ok(())
    })
}

fn head_maps(weights: &Array4<f32>, rows: &[String], columns: &[String]) -> Result<Picture> {
    let weights = heads(weights);
    let heads = weights.axis_iter(Axis(0)).enumerate();
    let heads: Vec<_> = heads
        .map(|(h, weights)| Map::new(format!("head {h}"), rows, columns, weights))
        .collect();
    maps(&heads)
}

/// What is written so far, as the decoder's self-attention sees it: the beginning, then what was
/// written.
fn so_far(reading: &Reading) -> Vec<String> {
    let written = reading.written.iter().cloned();
    let mut so_far: Vec<_> = std::iter::once("»".to_owned()).chain(written).collect();
    so_far.pop();
    so_far
}

/// Chapter 4: the decoder's self-attention, which never looks ahead.
pub(crate) fn causal() -> Result<Picture> {
    let reading = reading()?;
    let layer = reading.steps.decoder.layers.first().context("no layers")?;
    let names = so_far(&reading);
    head_maps(&layer.attention.part.asked.weights, &names, &names)
}

/// Chapter 5: the heads of one cross-attention.
pub(crate) fn heads_apart() -> Result<Picture> {
    let reading = reading()?;
    let layer = reading.steps.decoder.layers.last().context("no layers")?;
    let weights = &layer.cross_attention.part.asked.weights;
    head_maps(weights, &reading.written, &reading.read)
}

/// Chapter 6: the encoder reads the date both ways.
pub(crate) fn reads_itself() -> Result<Picture> {
    let reading = reading()?;
    let layer = reading.steps.encoder.layers.first().context("no layers")?;
    let weights = &layer.attention.part.asked.weights;
    head_maps(weights, &reading.read, &reading.read)
}

/// Chapter 7: what is written reads what was read, averaged over the heads.
pub(crate) fn alignment() -> Result<Picture> {
    let reading = reading()?;
    let layer = reading.steps.decoder.layers.last().context("no layers")?;
    let mean = heads(&layer.cross_attention.part.asked.weights);
    let mean = mean.mean_axis(Axis(0)).context("no heads")?;
    let title = "mean of the heads".to_owned();
    maps(&[Map::new(
        title,
        &reading.written,
        &reading.read,
        mean.view(),
    )])
}

/// Chapter 8: the two layers of the decoder, averaged over their heads.
pub(crate) fn layers() -> Result<Picture> {
    let reading = reading()?;
    let layers = reading.steps.decoder.layers.iter().enumerate();
    let layers = layers.map(|(number, layer)| {
        let mean = heads(&layer.cross_attention.part.asked.weights);
        let mean = mean.mean_axis(Axis(0)).context("no heads")?;
        let title = format!("layer {number}");
        Ok(Map::new(
            title,
            &reading.written,
            &reading.read,
            mean.view(),
        ))
    });
    maps(&layers.collect::<Result<Vec<_>>>()?)
}

/// Chapter 10: how much of a head's weight lies within a window, were there one.
pub(crate) fn window() -> Result<Picture> {
    let reading = reading()?;
    let layer = reading.steps.encoder.layers.first().context("no layers")?;
    let weights = heads(&layer.attention.part.asked.weights);
    let n = reading.read.len();
    // The share of the weight no more than `far` places away, over all rows.
    let within = |head: ArrayView2<f64>, far: usize| {
        let near = head
            .indexed_iter()
            .filter(|((i, j), _)| i.abs_diff(*j) <= far);
        near.map(|(_, weight)| weight).sum::<f64>() / n as f64
    };
    let curves: Vec<Vec<(f64, f64)>> = weights
        .axis_iter(Axis(0))
        .map(|head| (0..n).map(|far| (far as f64, within(head, far))).collect())
        .collect();
    let says = curves
        .iter()
        .enumerate()
        .map(|(h, curve)| format!("head {h} {} within 2 places", number(curve[2].1, 2)));
    let alt = format!(
        "The share of each head's learned weight that lies within a distance, for the date “{DATE}”: {}. All reach 1 \
         at the last place.",
        says.collect::<Vec<_>>().join(", ")
    );
    Picture::paint((360, 236), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((0.0, (n - 1) as f64), (38.0, 290.0)),
            y: Scale::linear((0.0, 1.0), (196.0, 28.0)),
        };
        canvas.text((6.0, 10.0), "share of the weight", Face::TEXT)?;
        plot.y_ticks([0.0, 0.25, 0.5, 0.75, 1.0].map(|y| (y, short(y))))?;
        let ticks = (0..n).step_by(2).map(|x| (x as f64, x.to_string()));
        plot.x_axis(ticks, "at most so many places away")?;
        let colours = [Colour::A, Colour::B, Colour::C, Colour::D];
        let dashes = [None, Some((7.0, 3.0)), Some((2.5, 2.5)), Some((9.0, 4.0))];
        for (h, curve) in curves.iter().enumerate() {
            let stroke = Stroke::new(colours[h % 4], 2.2);
            let stroke = match dashes[h % 4] {
                Some((dash, gap)) => stroke.dashed(dash, gap),
                None => stroke,
            };
            plot.curve(curve, stroke)?;
            let y = 60.0 + 20.0 * h as f64;
            canvas.line((296.0, y), (314.0, y), stroke)?;
            let face = Face::TEXT.colour(stroke.colour());
            canvas.text((318.0, y), format!("head {h}"), face)?;
        }
        Ok(())
    })
}
