//! Training.

use anyhow::{Context, Result, ensure};
use ch08_transformer::{NormOrder, Transformer};
use ch09_training::alignment::{FIELDS, WRITTEN};
use ch09_training::study::course;
use ch09_training::trainer::{Plan, Progress};
use ch09_training::translate::{Translation, translate};
use ch09_training::weights::shipped;
use ndarray::{Array2, Axis};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::canvas::{Canvas, Face, Stroke};
use crate::cells::Cells;
use crate::chart::{Plot, Scale};
use crate::picture::Picture;
use crate::style::{Colour, HEAT, number, short};

/// The learning rate over the book's training.
pub(crate) fn schedule() -> Result<Picture> {
    let schedule = Plan::default().schedule;
    let rates: Vec<(f64, f64)> = (0..=schedule.steps)
        .step_by(20)
        .map(|step| (step as f64, 1e3 * schedule.rate(step)))
        .collect();
    let alt = format!(
        "The learning rate rises in a straight line to {} in {} steps, and falls along half a cosine to 0 at step {}.",
        schedule.peak, schedule.warm_up, schedule.steps
    );
    Picture::paint((360, 200), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((0.0, schedule.steps as f64), (42.0, 344.0)),
            y: Scale::linear((0.0, 1e3 * schedule.peak), (158.0, 32.0)),
        };
        canvas.text((6.0, 10.0), "learning rate, in thousandths", Face::TEXT)?;
        plot.y_ticks([0.0, 1.0, 2.0].map(|y| (y, short(y))))?;
        plot.x_axis(step_ticks(schedule.steps), "step")?;
        plot.curve(&rates, Stroke::new(Colour::A, 2.2))
    })
}

fn step_ticks(steps: u64) -> impl Iterator<Item = (f64, String)> {
    (0..=steps)
        .step_by((steps as usize / 4).max(1))
        .map(|step| (step as f64, step.to_string()))
}

/// Loss and accuracy over the training that made the book's weights.
pub(crate) fn loss() -> Result<Picture> {
    let (_, record) = shipped()?;
    let history = &record.history;
    let (first, last) = (
        history.first().context("the record has no history")?,
        history.last().context("the record has no history")?,
    );
    let curve = |value: fn(&Progress) -> f64| -> Vec<(f64, f64)> {
        let points = history.iter();
        points.map(|look| (look.step as f64, value(look))).collect()
    };
    let right = |look: &Progress| 100.0 * look.exact;
    let alt = format!(
        "The loss falls from {} at step {} to {} at step {}; the share of validation dates that are right from the \
         first to the last character rises from {} % to {} %.",
        number(f64::from(first.loss), 2),
        first.step,
        number(f64::from(last.loss), 4),
        last.step,
        number(right(first), 0),
        number(right(last), 1)
    );
    let steps = record.plan.schedule.steps;
    Picture::paint((360, 384), alt, |canvas| {
        let x = || Scale::linear((0.0, steps as f64), (48.0, 344.0));
        let losses = Plot {
            canvas,
            x: x(),
            y: Scale::log((1e-4, 3.0), (150.0, 30.0)),
        };
        canvas.text((6.0, 10.0), "loss", Face::TEXT)?;
        losses.y_ticks([1e-4, 1e-3, 1e-2, 0.1, 1.0].map(|y| (y, y.to_string())))?;
        losses.x_axis(step_ticks(steps), "step")?;
        let stroke = Stroke::new(Colour::B, 2.2);
        losses.curve(&curve(|look| f64::from(look.loss.max(1e-4))), stroke)?;
        let shares = Plot {
            canvas,
            x: x(),
            y: Scale::linear((0.0, 100.0), (342.0, 226.0)),
        };
        canvas.text(
            (6.0, 206.0),
            "validation dates that are right, in %",
            Face::TEXT,
        )?;
        shares.y_ticks([0.0, 50.0, 100.0].map(|y| (y, short(y))))?;
        shares.x_axis(step_ticks(steps), "step")?;
        shares.curve(
            &curve(|look| 100.0 * look.exact),
            Stroke::new(Colour::A, 2.2),
        )
    })
}

/// What a model makes of a text.
fn read(model: &Transformer<f32>, text: &str) -> Result<Read> {
    Read::of(&translate(model, text)?, text)
}

/// The height of a map's rows, and what stands above them.
const ROW: f64 = 14.0;
const HEAD: f64 = 26.0;

/// A map in the middle of the picture: a row for each character written, a column for each one read.
fn map(
    canvas: &Canvas,
    top: f64,
    (left, right): (f64, f64),
    (text, written): (&str, &str),
    weights: &Array2<f64>,
) -> Result<()> {
    let columns: Vec<String> = text.chars().map(String::from).collect();
    let rows: Vec<String> = written.chars().map(String::from).collect();
    let width = ((right - left - 16.0) / columns.len() as f64).min(18.0);
    let cells = Cells {
        at: (left + 16.0, top + HEAD),
        cell: (width, ROW),
        shape: (rows.len(), columns.len()),
    };
    for i in 0..rows.len() {
        for j in 0..columns.len() {
            let opacity = (weights[[i, j]] * HEAT * 100.0).round() / 100.0;
            if opacity > 0.0 {
                canvas.fill(
                    cells.corner(i, j),
                    cells.corner(i + 1, j + 1),
                    Colour::Hot,
                    opacity,
                )?;
            }
        }
    }
    cells.frames(canvas)?;
    cells.column_names(canvas, &columns)?;
    cells.row_names(canvas, &rows)
}

/// Cross-attention of one date in three languages.
pub(crate) fn languages() -> Result<Picture> {
    let texts = ["29 novembre 2026", "Nov 29, 2026", "2026年11月29日"];
    let (model, _) = shipped()?;
    let reads = texts.map(|text| read(&model, text));
    dates_of(&reads.into_iter().collect::<Result<Vec<_>>>()?)
}

/// A date that a model has read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it read.
    pub text: String,
    /// The characters that it has written so far.
    pub written: String,
    /// What it looked at, a row for each character that it wrote or will write.
    pub weights: Array2<f64>,
}

impl Read {
    /// What a model made of a text, averaged over the heads of its last layer.
    ///
    /// # Errors
    /// If the model has no decoder layer.
    pub fn of(translation: &Translation, text: &str) -> Result<Self> {
        let last = translation.looked_at.last().context("no decoder layer")?;
        let mean = last.mean_axis(Axis(0)).context("no heads")?;
        Ok(Self {
            text: text.to_owned(),
            written: translation.written.clone(),
            weights: mean.mapv(f64::from),
        })
    }
}

/// Cross-attention of some dates, one below the other.
///
/// # Errors
/// If there are no dates, or a date is empty, too long to be drawn, or has not a weight for each
/// character read and written.
pub fn dates_of(dates: &[Read]) -> Result<Picture> {
    ensure!(!dates.is_empty(), "there are no dates to draw");
    for date in dates {
        let (rows, columns) = (date.written.chars().count(), date.text.chars().count());
        ensure!(
            (1..=32).contains(&columns) && rows <= 11,
            "“{}” has {columns} characters, and 1 to 32 can be drawn",
            date.text.chars().take(40).collect::<String>()
        );
        ensure!(
            date.weights.nrows() >= rows && date.weights.ncols() == columns,
            "{rows} × {columns} characters have weights of {:?}",
            date.weights.dim()
        );
    }
    let says = dates.iter().map(|date| {
        let Read {
            text,
            written,
            weights,
        } = date;
        format!("“{text}” → {written}: {}", focus(text, written, weights))
    });
    let alt = format!(
        "What the model looks at while it writes, a row for each character written, a column for each one read. {}.",
        says.collect::<Vec<_>>().join(". ")
    );
    let height = HEAD + 10.0 * ROW + 16.0;
    let size = (360, (dates.len() as f64 * height) as u32);
    Picture::paint(size, alt, |canvas| {
        for (number, date) in dates.iter().enumerate() {
            let top = number as f64 * height;
            let texts = (date.text.as_str(), date.written.as_str());
            map(canvas, top, (20.0, 350.0), texts, &date.weights)?;
        }
        Ok(())
    })
}

/// Where most of the weight is while each field is written.
fn focus(text: &str, written: &str, weights: &Array2<f64>) -> String {
    let characters: Vec<char> = text.chars().collect();
    let rows = written.chars().count();
    let fields = FIELDS.iter().zip(WRITTEN);
    let fields = fields.filter(|(_, range)| range.end <= rows);
    let says = fields.map(|(field, rows)| {
        let best = rows.map(|i| {
            let row = weights.row(i);
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            best.map_or(' ', |(j, _)| characters[j])
        });
        format!("the {field} from “{}”", best.collect::<String>())
    });
    says.collect::<Vec<_>>().join(", ")
}

/// The same date before training and after it.
pub(crate) fn before() -> Result<Picture> {
    let text = "29 Nov 2026";
    let (trained, record) = shipped()?;
    let mut rng = ChaCha8Rng::seed_from_u64(record.plan.seed);
    let random = Transformer::random(&record.plan.settings(), &mut rng)?;
    let (before, after) = (read(&random, text)?, read(&trained, text)?);
    let largest = |map: &Array2<f64>| map.fold(0.0, |most: f64, &a| most.max(a));
    let alt = format!(
        "Before training the weight is spread over the whole text, the largest is {}; after training it stands on the \
         characters that matter: {}.",
        number(largest(&before.weights), 2),
        focus(text, &after.written, &after.weights)
    );
    let rows = before
        .written
        .chars()
        .count()
        .max(after.written.chars().count());
    let height = HEAD + 26.0 + rows as f64 * ROW + 10.0;
    Picture::paint((360, height as u32), alt, |canvas| {
        for (
            left,
            name,
            Read {
                written, weights, ..
            },
        ) in [
            (4.0, "before training", &before),
            (184.0, "after training", &after),
        ] {
            canvas.text((left + 16.0, 10.0), name, Face::TEXT.bold())?;
            map(canvas, 22.0, (left, left + 172.0), (text, written), weights)?;
        }
        Ok(())
    })
}

/// Pre-norm and post-norm, with warm-up and without.
pub(crate) fn warm_up() -> Result<Picture> {
    const STEPS: u64 = 120;
    let run = |order, warm_up| -> Result<Vec<(f64, f64)>> {
        let losses = course(order, 6, warm_up, STEPS)?;
        let places = (1..).map(f64::from);
        Ok(places.zip(losses.into_iter().map(f64::from)).collect())
    };
    let pre = run(NormOrder::Pre, 1)?;
    let post = run(NormOrder::Post, 1)?;
    let slow = run(NormOrder::Post, 50)?;
    let last = |curve: &[(f64, f64)]| number(curve[curve.len() - 1].1, 2);
    let alt = format!(
        "The loss over {STEPS} steps of three deep Transformers. Pre-norm without warm-up ends at {}, post-norm without \
         warm-up at {}, post-norm with a warm-up of 50 steps at {}.",
        last(&pre),
        last(&post),
        last(&slow)
    );
    Picture::paint((360, 240), alt, |canvas| {
        let plot = Plot {
            canvas,
            x: Scale::linear((0.0, STEPS as f64), (42.0, 344.0)),
            y: Scale::linear((0.0, 4.0), (198.0, 32.0)),
        };
        canvas.text((6.0, 10.0), "loss", Face::TEXT)?;
        plot.y_ticks([0.0, 1.0, 2.0, 3.0, 4.0].map(|y| (y, short(y))))?;
        plot.x_axis(step_ticks(STEPS), "step")?;
        let clipped = |curve: &[(f64, f64)]| -> Vec<(f64, f64)> {
            curve.iter().map(|&(x, y)| (x, y.min(4.0))).collect()
        };
        plot.curve(&clipped(&pre), Stroke::new(Colour::C, 2.2))?;
        plot.curve(
            &clipped(&post),
            Stroke::new(Colour::B, 2.2).dashed(6.0, 3.0),
        )?;
        plot.curve(&clipped(&slow), Stroke::new(Colour::A, 2.2))?;
        let face = Face::ENDING.bold();
        let (x, y) = plot.at(118.0, 2.9);
        canvas.text((x, y), "post-norm, no warm-up", face.colour(Colour::B))?;
        let (x, y) = plot.at(118.0, 0.75);
        canvas.text((x, y), "post-norm, warm-up of 50", face.colour(Colour::A))?;
        let (x, y) = plot.at(118.0, 0.28);
        canvas.text((x, y), "pre-norm, no warm-up", face.colour(Colour::C))
    })
}
