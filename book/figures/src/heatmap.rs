//! Numbers in a grid, warm where they are positive and cold where they are negative.

use anyhow::{Result, ensure};
use ndarray::{Array2, ArrayView2};

use crate::canvas::{Canvas, Face, Stroke};
use crate::picture::Picture;
use crate::style::{Colour, HEAT, fit, number, plain, short};

/// The width of the picture, and the most that row labels take of it.
const WIDTH: f64 = 360.0;
const LABELS: f64 = 110.0;
const TEXT: Face = Face::CENTRED;

/// A heat map: one cell for each value, coloured by sign and size, with the number in it if there is
/// room.
///
/// Rows are usually queries and columns keys, as in a matrix of scores or of attention weights. It is
/// made for up to about 12 × 12 cells. Labels may be in any script; long column labels are turned,
/// and very long ones shortened. The text alternative says where the largest and the smallest value
/// stand.
///
/// [`Picture::to_standalone_svg`] gives the text of a file to keep it in.
///
/// # Errors
/// If there are no values, if one of them is not finite, or if there is not one label for each row
/// and each column.
///
/// ```
/// use ndarray::array;
///
/// let weights = array![[1.0, 0.0], [0.25, 0.75]];
/// let picture = figures::heatmap(weights.view(), &["天气", "好"], &["天气", "好"])?;
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// std::fs::write("weights.svg", picture.to_standalone_svg())?;
/// # assert!(std::fs::read_to_string("weights.svg")?.contains("0.25"));
/// # std::env::set_current_dir("/")?;
/// # anyhow::Ok(())
/// ```
pub fn heatmap(
    values: ArrayView2<f64>,
    row_labels: &[&str],
    column_labels: &[&str],
) -> Result<Picture> {
    marked(values, row_labels, column_labels, Marks::default())
}

/// What a figure of the book adds to a heat map.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks<'a> {
    /// Where attention is allowed, if not everywhere: the other cells hold a point for their number.
    pub(crate) allowed: Option<&'a Array2<bool>>,
    /// Cells with a strong outline.
    pub(crate) framed: &'a [(usize, usize)],
}

impl Marks<'_> {
    fn forbidden(&self, place: (usize, usize)) -> bool {
        self.allowed.is_some_and(|allowed| !allowed[place])
    }
}

/// [`heatmap`] with marks, which must fit its shape.
pub(crate) fn marked(
    values: ArrayView2<f64>,
    row_labels: &[&str],
    column_labels: &[&str],
    marks: Marks,
) -> Result<Picture> {
    let (rows, columns) = values.dim();
    ensure!(
        rows > 0 && columns > 0,
        "a heat map of {rows} × {columns} values has no cells"
    );
    ensure!(
        row_labels.len() == rows,
        "there are {rows} rows but {} row labels",
        row_labels.len()
    );
    ensure!(
        column_labels.len() == columns,
        "there are {columns} columns but {} column labels",
        column_labels.len()
    );
    if let Some(((i, j), value)) = values.indexed_iter().find(|(_, x)| !x.is_finite()) {
        anyhow::bail!(
            "the value in row {}, column {} is {value}: only finite ones have a colour",
            i + 1,
            j + 1
        );
    }
    let row_labels: Vec<_> = row_labels.iter().map(|label| fit(label, LABELS)).collect();
    let column_labels: Vec<_> = column_labels
        .iter()
        .map(|label| fit(label, LABELS))
        .collect();
    let alt = describe(values, &row_labels, &column_labels);
    let grid = Grid::new(values, &row_labels, &column_labels, marks);
    Picture::paint((WIDTH as u32, grid.height()), alt, |canvas| {
        grid.draw(canvas)
    })
}

/// Where everything stands.
struct Grid<'a> {
    values: ArrayView2<'a, f64>,
    row_labels: &'a [String],
    column_labels: &'a [String],
    left: f64,
    top: f64,
    cell: (f64, f64),
    turned: bool,
    texts: Option<Vec<String>>,
    marks: Marks<'a>,
}

impl<'a> Grid<'a> {
    fn new(
        values: ArrayView2<'a, f64>,
        row_labels: &'a [String],
        column_labels: &'a [String],
        marks: Marks<'a>,
    ) -> Self {
        let columns = values.ncols() as f64;
        let left = widest(row_labels) + 14.0;
        let width = ((WIDTH - left - 6.0) / columns).min(64.0);
        let label = widest(column_labels);
        let turned = label > width - 2.0;
        Self {
            values,
            row_labels,
            column_labels,
            // A narrow grid stands in the middle.
            left: left + ((WIDTH - 6.0 - left - width * columns) / 2.0).max(0.0),
            top: if turned { label + 12.0 } else { 24.0 },
            cell: (width, width.clamp(24.0, 36.0)),
            turned,
            texts: spelling(values, width - 3.0),
            marks,
        }
    }

    fn height(&self) -> u32 {
        let key = if self.texts.is_none() { 18.0 } else { 0.0 };
        (self.bottom() + key + 6.0).ceil() as u32
    }

    fn bottom(&self) -> f64 {
        self.top + self.cell.1 * self.values.nrows() as f64
    }

    fn draw(&self, canvas: &Canvas) -> Result<()> {
        let (width, height) = self.cell;
        let largest = self.values.fold(0.0, |a: f64, x| a.max(x.abs()));
        for ((i, j), &value) in self.values.indexed_iter() {
            let from = (self.left + width * j as f64, self.top + height * i as f64);
            let to = (from.0 + width, from.1 + height);
            let colour = if value < 0.0 {
                Colour::Cold
            } else {
                Colour::Hot
            };
            if value != 0.0 {
                // Hundredths, so that the last bits of a logarithm or an exponential do not show.
                let opacity = (value.abs() / largest * HEAT * 100.0).round() / 100.0;
                canvas.fill(from, to, colour, opacity)?;
            }
        }
        // Lines through the whole grid: a frame around each cell would make pages heavy.
        let (rows, columns) = self.values.dim();
        let (right, thin) = (
            self.left + width * columns as f64,
            Stroke::new(Colour::Grid, 0.8),
        );
        for y in (0..=rows).map(|i| self.top + height * i as f64) {
            canvas.line((self.left, y), (right, y), thin)?;
        }
        for x in (0..=columns).map(|j| self.left + width * j as f64) {
            canvas.line((x, self.top), (x, self.bottom()), thin)?;
        }
        for (index, ((i, j), &value)) in self.values.indexed_iter().enumerate() {
            let middle = (
                self.left + width * (j as f64 + 0.5),
                self.top + height * (i as f64 + 0.5),
            );
            match &self.texts {
                _ if self.marks.forbidden((i, j)) => {
                    canvas.text(middle, "·", TEXT.muted())?;
                }
                Some(texts) => canvas.text(middle, &texts[index], TEXT)?,
                // The sign shows without the colour, too.
                None if value < 0.0 => canvas.text(middle, "−", TEXT)?,
                None => {}
            }
        }
        for &(i, j) in self.marks.framed {
            let from = (self.left + width * j as f64, self.top + height * i as f64);
            let to = (from.0 + width, from.1 + height);
            canvas.frame(from, to, Stroke::new(Colour::Ink, 2.0))?;
        }
        for (i, label) in self.row_labels.iter().enumerate() {
            let at = (self.left - 7.0, self.top + height * (i as f64 + 0.5));
            canvas.text(at, label, Face::ENDING)?;
        }
        for (j, label) in self.column_labels.iter().enumerate() {
            let x = self.left + width * (j as f64 + 0.5);
            if self.turned {
                canvas.text((x, self.top - 6.0), label, Face::TEXT.turned())?;
            } else {
                canvas.text((x, self.top - 11.0), label, TEXT)?;
            }
        }
        if self.texts.is_none() {
            let key = format!("full colour: ±{}; − marks what is below 0", short(largest));
            canvas.text(
                (WIDTH - 6.0, self.bottom() + 13.0),
                key,
                Face::ENDING.muted(),
            )?;
        }
        Ok(())
    }
}

/// The numbers as short as they must be to fit into cells of that width, if they do at all. Those that
/// three decimals hold are written out, others all with two.
fn spelling(values: ArrayView2<f64>, width: f64) -> Option<Vec<String>> {
    let exact = |x: &f64| ((x * 1e3).round() / 1e3 - x).abs() < 1e-9;
    let spellings: [fn(f64) -> String; 4] = [
        if values.iter().all(exact) {
            short
        } else {
            |x| number(x, 2)
        },
        |x| number(x, 2),
        |x| number(x, 2).replacen("0.", ".", 1),
        |x| number(x, 0),
    ];
    let largest = values.fold(0.0, |a: f64, x| a.max(x.abs()));
    spellings
        .into_iter()
        // Whole numbers would hide the differences between small ones.
        .take(if largest < 100.0 { 3 } else { 4 })
        .map(|spell| values.iter().map(|&x| spell(x)).collect::<Vec<_>>())
        .find(|texts| texts.iter().all(|text| TEXT.width_of(text) <= width))
}

/// Where the largest and the smallest value stand, in words.
fn describe(values: ArrayView2<f64>, row_labels: &[String], column_labels: &[String]) -> String {
    let mut cells: Vec<_> = values.indexed_iter().collect();
    cells.sort_by(|a, b| a.1.total_cmp(b.1));
    let place = |((i, j), value): &((usize, usize), &f64)| {
        format!(
            "{} in row {}, column {}",
            short(**value),
            plain(&row_labels[*i]),
            plain(&column_labels[*j])
        )
    };
    let (rows, columns) = values.dim();
    format!(
        "A grid of {rows} × {columns} numbers. The largest is {}; the smallest is {}.",
        place(&cells[cells.len() - 1]),
        place(&cells[0])
    )
}

fn widest(labels: &[String]) -> f64 {
    labels
        .iter()
        .map(|label| TEXT.width_of(label))
        .fold(0.0, f64::max)
}
