//! Drawing with plotters, in units of a picture and tenths of them.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::style::{Colour, ems};

/// A point of the picture: to the right and down from the upper left corner.
pub(crate) type Point = (f64, f64);

/// The sheet a figure draws on.
pub(crate) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// A line's colour, width and dashes.
#[derive(Clone, Copy)]
pub(crate) struct Stroke {
    colour: Colour,
    width: f64,
    dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(crate) fn new(colour: Colour, width: f64) -> Self {
        Self {
            colour,
            width,
            dash: None,
        }
    }

    pub(crate) fn colour(self) -> Colour {
        self.colour
    }

    pub(crate) fn dashed(self, dash: f64, gap: f64) -> Self {
        Self {
            dash: Some((dash, gap)),
            ..self
        }
    }
}

/// How a text is set: its size, colour, weight, and where its anchor lies.
#[derive(Clone, Copy)]
pub(crate) struct Face {
    size: f64,
    colour: Colour,
    bold: bool,
    turned: bool,
    h: HPos,
    v: VPos,
}

impl Face {
    /// Text of 12 units that begins at its point and is centred on it vertically.
    pub(crate) const TEXT: Self = Self {
        size: 12.0,
        colour: Colour::Ink,
        bold: false,
        turned: false,
        h: HPos::Left,
        v: VPos::Center,
    };
    /// The same, centred on its point in both directions.
    pub(crate) const CENTRED: Self = Self {
        h: HPos::Center,
        ..Self::TEXT
    };
    /// The same, ending at its point.
    pub(crate) const ENDING: Self = Self {
        h: HPos::Right,
        ..Self::TEXT
    };

    pub(crate) fn size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn colour(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    pub(crate) fn muted(self) -> Self {
        self.colour(Colour::Muted)
    }

    pub(crate) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Reading upwards.
    pub(crate) fn turned(self) -> Self {
        Self {
            turned: true,
            ..self
        }
    }

    /// About how wide this text will be.
    pub(crate) fn width_of(self, text: &str) -> f64 {
        ems(text) * self.size
    }
}

/// The form of a point on a curve.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Disc,
    Square,
    Triangle,
}

impl Canvas<'_> {
    /// The SVG that plotters makes of a drawing, all lengths in tenths.
    pub(crate) fn paint(
        (width, height): (u32, u32),
        draw: impl FnOnce(&Canvas) -> Result<()>,
    ) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (width * 10, height * 10)).into_drawing_area();
        let canvas = Canvas { area };
        draw(&canvas)?;
        canvas.area.present()?;
        drop(canvas);
        Ok(svg)
    }

    pub(crate) fn path(&self, points: &[Point], stroke: Stroke) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&p| tenths(p)).collect();
        let style = stroke
            .colour
            .sentinel()
            .stroke_width((stroke.width * 10.0) as u32);
        match stroke.dash {
            None => self.area.draw(&PathElement::new(points, style))?,
            Some((dash, gap)) => self.area.draw(&DashedPathElement::new(
                points.iter().copied(),
                (dash * 10.0) as i32,
                (gap * 10.0) as i32,
                style,
            ))?,
        }
        Ok(())
    }

    pub(crate) fn line(&self, from: Point, to: Point, stroke: Stroke) -> Result<()> {
        self.path(&[from, to], stroke)
    }

    /// A line with a head at its end.
    pub(crate) fn arrow(&self, from: Point, to: Point, stroke: Stroke) -> Result<()> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let head = (4.5 + 1.8 * stroke.width).min(length);
        let (ux, uy) = (dx / length, dy / length);
        let back = |along: f64, aside: f64| {
            (
                to.0 - ux * along - uy * aside,
                to.1 - uy * along + ux * aside,
            )
        };
        self.line(from, back(head * 0.8, 0.0), stroke)?;
        let half = head * 0.42;
        self.polygon(
            &[to, back(head, half), back(head, -half)],
            stroke.colour,
            1.0,
        )
    }

    pub(crate) fn polygon(&self, corners: &[Point], colour: Colour, opacity: f64) -> Result<()> {
        let corners: Vec<_> = corners.iter().map(|&p| tenths(p)).collect();
        self.area
            .draw(&Polygon::new(corners, colour.sentinel().mix(opacity)))?;
        Ok(())
    }

    /// A filled rectangle between two opposite corners.
    pub(crate) fn fill(&self, from: Point, to: Point, colour: Colour, opacity: f64) -> Result<()> {
        let (from, to) = (tenths(from), tenths(to));
        let corners = [
            (from.0.min(to.0), from.1.min(to.1)),
            (from.0.max(to.0), from.1.max(to.1)),
        ];
        self.area.draw(&Rectangle::new(
            corners,
            colour.sentinel().mix(opacity).filled(),
        ))?;
        Ok(())
    }

    /// The outline of a rectangle.
    pub(crate) fn frame(&self, from: Point, to: Point, stroke: Stroke) -> Result<()> {
        let (a, b) = (from, to);
        // Half the side again, so that the last corner is as sharp as the others.
        let start = ((a.0 + b.0) / 2.0, a.1);
        self.path(&[start, (b.0, a.1), b, (a.0, b.1), a, start], stroke)
    }

    pub(crate) fn mark(&self, at: Point, mark: Mark, colour: Colour) -> Result<()> {
        match mark {
            Mark::Disc => {
                self.area
                    .draw(&Circle::new(tenths(at), 32, colour.sentinel().filled()))?;
            }
            Mark::Square => {
                self.fill(
                    (at.0 - 2.9, at.1 - 2.9),
                    (at.0 + 2.9, at.1 + 2.9),
                    colour,
                    1.0,
                )?;
            }
            Mark::Triangle => {
                let (x, y) = at;
                let corners = [(x, y - 4.2), (x + 4.2, y + 3.2), (x - 4.2, y + 3.2)];
                self.polygon(&corners, colour, 1.0)?;
            }
        }
        Ok(())
    }

    pub(crate) fn text(&self, at: Point, text: impl Into<String>, face: Face) -> Result<()> {
        let colour = face.colour.sentinel();
        let weight = if face.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // The backend divides the size by 1.24 again.
        let font = ("sans-serif", face.size * 12.4, weight).into_font();
        let mut style = TextStyle::from(font)
            .color(&colour)
            .pos(Pos::new(face.h, face.v));
        if face.turned {
            style = style.transform(FontTransform::Rotate270);
        }
        self.area.draw(&Text::new(text.into(), tenths(at), style))?;
        Ok(())
    }
}

fn tenths((x, y): Point) -> (i32, i32) {
    ((x * 10.0).round() as i32, (y * 10.0).round() as i32)
}
