//! Axes, curves and bars.

use anyhow::Result;

use crate::canvas::{Canvas, Face, Mark, Point, Stroke};
use crate::style::{Colour, number};

/// From the numbers of an axis to places on the sheet.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    domain: (f64, f64),
    range: (f64, f64),
    log: bool,
}

impl Scale {
    pub(crate) fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self {
            domain,
            range,
            log: false,
        }
    }

    pub(crate) fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self {
            domain,
            range,
            log: true,
        }
    }

    pub(crate) fn at(&self, x: f64) -> f64 {
        let [x, from, to] =
            [x, self.domain.0, self.domain.1].map(|x| if self.log { x.log10() } else { x });
        self.range.0 + (x - from) / (to - from) * (self.range.1 - self.range.0)
    }
}

/// A field between two axes.
pub(crate) struct Plot<'a, 'svg> {
    pub(crate) canvas: &'a Canvas<'svg>,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Plot<'_, '_> {
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        (self.x.at(x), self.y.at(y))
    }

    /// A grid line and a number for each of these.
    pub(crate) fn y_ticks(&self, ticks: impl IntoIterator<Item = (f64, String)>) -> Result<()> {
        let (left, right) = self.x.range;
        for (value, label) in ticks {
            let y = self.y.at(value);
            self.canvas
                .line((left, y), (right, y), Stroke::new(Colour::Grid, 0.8))?;
            self.canvas
                .text((left - 5.0, y), label, Face::ENDING.size(11.0).muted())?;
        }
        Ok(())
    }

    /// The axis itself, with a stroke and a number for each of these, and what they mean.
    pub(crate) fn x_axis(
        &self,
        ticks: impl IntoIterator<Item = (f64, String)>,
        title: &str,
    ) -> Result<()> {
        let ((left, right), (bottom, _)) = (self.x.range, self.y.range);
        let stroke = Stroke::new(Colour::Line, 1.0);
        self.canvas.line((left, bottom), (right, bottom), stroke)?;
        for (value, label) in ticks {
            let x = self.x.at(value);
            self.canvas.line((x, bottom), (x, bottom + 4.0), stroke)?;
            self.canvas
                .text((x, bottom + 12.0), label, Face::CENTRED.size(11.0).muted())?;
        }
        self.canvas
            .text(((left + right) / 2.0, bottom + 29.0), title, Face::CENTRED)
    }

    pub(crate) fn curve(&self, points: &[(f64, f64)], stroke: Stroke) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
        self.canvas.path(&points, stroke)
    }

    pub(crate) fn marks(&self, points: &[(f64, f64)], mark: Mark, colour: Colour) -> Result<()> {
        points
            .iter()
            .try_for_each(|&(x, y)| self.canvas.mark(self.at(x, y), mark, colour))
    }
}

/// One run of bars: a value for each name.
pub(crate) struct Series<'a> {
    pub(crate) values: &'a [f64],
    pub(crate) colour: Colour,
    /// Hollow bars tell a second series from the first without their colour.
    pub(crate) hollow: bool,
}

/// Bars side by side, each with its value, over the names they belong to.
pub(crate) struct Bars<'a> {
    pub(crate) names: &'a [String],
    pub(crate) series: &'a [Series<'a>],
    pub(crate) decimals: usize,
    pub(crate) x: (f64, f64),
    pub(crate) y: Scale,
    /// Where the names stand.
    pub(crate) names_at: f64,
}

impl Bars<'_> {
    pub(crate) fn draw(&self, canvas: &Canvas) -> Result<()> {
        let step = (self.x.1 - self.x.0) / self.names.len() as f64;
        let (width, gap) = match self.series.len() {
            1 => (40.0, 0.0),
            n => ((step - 6.0) / n as f64 - 3.0, 3.0),
        };
        let zero = self.y.at(0.0);
        for (i, name) in self.names.iter().enumerate() {
            let middle = self.x.0 + step * (i as f64 + 0.5);
            let group = self.series.len() as f64 * (width + gap) - gap;
            for (j, series) in self.series.iter().enumerate() {
                let left = middle - group / 2.0 + j as f64 * (width + gap);
                let value = series.values[i];
                // What is not finite has a name and no bar.
                let end = if value.is_finite() {
                    self.y.at(value)
                } else {
                    zero
                };
                let (from, to) = ((left, zero), (left + width, end));
                if series.hollow {
                    canvas.fill(from, to, series.colour, 0.15)?;
                    canvas.frame(from, to, Stroke::new(series.colour, 1.4))?;
                } else {
                    canvas.fill(from, to, series.colour, 1.0)?;
                }
                let beyond = if value < 0.0 { 9.0 } else { -8.0 };
                canvas.text(
                    (left + width / 2.0, end + beyond),
                    number(value, self.decimals),
                    Face::CENTRED,
                )?;
            }
            canvas.text((middle, self.names_at), name, Face::CENTRED)?;
        }
        canvas.line(
            (self.x.0, zero),
            (self.x.1, zero),
            Stroke::new(Colour::Line, 1.0),
        )
    }
}
