//! Matrices and masks as cells.

use anyhow::Result;
use ndarray::ArrayView2;

use crate::canvas::{Canvas, Face, Point, Stroke};
use crate::picture::Cell;
use crate::style::{Colour, HEAT, short};

/// A grid of cells with its upper left corner at `at`.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) at: Point,
    /// The width and the height of one cell.
    pub(crate) cell: (f64, f64),
    /// Rows and columns.
    pub(crate) shape: (usize, usize),
}

impl Cells {
    pub(crate) fn corner(&self, i: usize, j: usize) -> Point {
        (
            self.at.0 + self.cell.0 * j as f64,
            self.at.1 + self.cell.1 * i as f64,
        )
    }

    pub(crate) fn middle(&self, i: usize, j: usize) -> Point {
        let (x, y) = self.corner(i, j);
        (x + self.cell.0 / 2.0, y + self.cell.1 / 2.0)
    }

    /// The middle of the whole grid from left to right.
    pub(crate) fn centre(&self) -> f64 {
        (self.at.0 + self.corner(0, self.shape.1).0) / 2.0
    }

    /// Every cell, as a reader may point at it.
    pub(crate) fn pointed(&self, grid: usize) -> impl Iterator<Item = Cell> + use<> {
        let cells = *self;
        cells.places().map(move |(row, column)| Cell {
            grid,
            row,
            column,
            at: cells.corner(row, column),
            size: cells.cell,
        })
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rows, columns) = self.shape;
        (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
    }

    /// Thin lines between the cells and a stronger one around all of them.
    pub(crate) fn frames(&self, canvas: &Canvas) -> Result<()> {
        let (rows, columns) = self.shape;
        let thin = Stroke::new(Colour::Grid, 0.8);
        for i in 1..rows {
            canvas.line(self.corner(i, 0), self.corner(i, columns), thin)?;
        }
        for j in 1..columns {
            canvas.line(self.corner(0, j), self.corner(rows, j), thin)?;
        }
        let to = self.corner(rows, columns);
        canvas.frame(self.at, to, Stroke::new(Colour::Line, 1.0))
    }

    /// A number in each cell.
    pub(crate) fn numbers(&self, canvas: &Canvas, values: ArrayView2<f64>) -> Result<()> {
        self.frames(canvas)?;
        for (i, j) in self.places() {
            canvas.text(self.middle(i, j), short(values[[i, j]]), Face::CENTRED)?;
        }
        Ok(())
    }

    /// A filled cell with a 1 where attention is allowed, an empty one with a point where it is not.
    pub(crate) fn mask(
        &self,
        canvas: &Canvas,
        allowed: ArrayView2<bool>,
        colour: Colour,
    ) -> Result<()> {
        for (i, j) in self.places() {
            let middle = self.middle(i, j);
            if allowed[[i, j]] {
                canvas.fill(self.corner(i, j), self.corner(i + 1, j + 1), colour, 0.25)?;
                canvas.text(middle, "1", Face::CENTRED.bold())?;
            } else {
                canvas.text(middle, "·", Face::CENTRED.muted())?;
            }
        }
        self.frames(canvas)
    }

    /// A weight in each cell, the warmer the larger it is, up to 1.
    pub(crate) fn weights(&self, canvas: &Canvas, weights: ArrayView2<f64>) -> Result<()> {
        for (i, j) in self.places() {
            let weight = weights[[i, j]];
            let opacity = (weight.min(1.0) * HEAT * 100.0).round() / 100.0;
            if opacity > 0.0 {
                let (from, to) = (self.corner(i, j), self.corner(i + 1, j + 1));
                canvas.fill(from, to, Colour::Hot, opacity)?;
            }
            canvas.text(self.middle(i, j), format!("{weight:.2}"), Face::CENTRED)?;
        }
        self.frames(canvas)
    }

    /// A block of cells set off by a tint and a strong outline.
    pub(crate) fn tint(
        &self,
        canvas: &Canvas,
        at: (usize, usize),
        size: (usize, usize),
        colour: Colour,
    ) -> Result<()> {
        let to = self.corner(at.0 + size.0, at.1 + size.1);
        canvas.fill(self.corner(at.0, at.1), to, colour, 0.14)?;
        self.outline(canvas, at, size, colour)
    }

    /// A strong outline around a block of cells.
    pub(crate) fn outline(
        &self,
        canvas: &Canvas,
        at: (usize, usize),
        size: (usize, usize),
        colour: Colour,
    ) -> Result<()> {
        let to = self.corner(at.0 + size.0, at.1 + size.1);
        canvas.frame(self.corner(at.0, at.1), to, Stroke::new(colour, 2.2))
    }

    /// A name before each row.
    pub(crate) fn row_names(&self, canvas: &Canvas, names: &[impl AsRef<str>]) -> Result<()> {
        for (i, name) in names.iter().enumerate() {
            let y = self.middle(i, 0).1;
            canvas.text((self.at.0 - 6.0, y), name.as_ref(), Face::ENDING)?;
        }
        Ok(())
    }

    /// A name above each column.
    pub(crate) fn column_names(&self, canvas: &Canvas, names: &[impl AsRef<str>]) -> Result<()> {
        for (j, name) in names.iter().enumerate() {
            let x = self.middle(0, j).0;
            canvas.text((x, self.at.1 - 10.0), name.as_ref(), Face::CENTRED)?;
        }
        Ok(())
    }
}
