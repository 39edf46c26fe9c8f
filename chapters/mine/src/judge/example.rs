//! An example that a stage is tried with, and what is wrong with the answer.

use ndarray::{Array, ArrayRef, Dimension};
use std::cell::RefCell;
use std::fmt::{self, Display};

/// Right, or the first example that is not.
pub type Check = Result<(), Wrong>;

/// A failing example: what was given and what came back, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    lines: Vec<(String, String)>,
    complaint: String,
}

impl Wrong {
    pub(super) fn new(lines: Vec<(String, String)>, complaint: String) -> Self {
        Self { lines, complaint }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .lines
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in &self.lines {
            for (number, line) in value.lines().enumerate() {
                let name = if number == 0 { name } else { "" };
                writeln!(f, "{name:width$}  {line}")?;
            }
        }
        write!(f, "{}", self.complaint)
    }
}

thread_local! {
    static LAST: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
}

/// What the example of this thread was given that was tried last.
pub(super) fn last() -> Vec<(String, String)> {
    LAST.take()
}

/// What a stage is given, as it is told to the reader.
#[derive(Clone, Default)]
pub(super) struct Example {
    lines: Vec<(String, String)>,
}

/// The largest difference allowed, relative to numbers larger than 1.
const TOLERANCE: f64 = 1e-9;

/// The same for what PyTorch computed in 32 bits.
pub(super) const OF_PEERS: f64 = 1e-5;

impl Example {
    pub(super) fn new() -> Self {
        Self::default().kept()
    }

    /// In words: "for a batch of one".
    pub(super) fn of(name: &str, value: impl Display) -> Self {
        Self::new().and(name, value)
    }

    pub(super) fn and(mut self, name: &str, value: impl Display) -> Self {
        self.lines.push((name.to_owned(), value.to_string()));
        self.kept()
    }

    /// An array among what is given.
    pub(super) fn array<D: Dimension>(
        self,
        name: &str,
        array: &ArrayRef<f64, D>,
    ) -> Self {
        self.and(name, show(array))
    }

    fn kept(self) -> Self {
        LAST.set(self.lines.clone());
        self
    }

    fn returned(self, answer: impl Display) -> Self {
        self.and("your answer", answer)
    }

    pub(super) fn wrong(self, complaint: impl Display) -> Wrong {
        Wrong::new(self.lines, complaint.to_string())
    }

    /// The answer, if there is one.
    pub(super) fn answer<T>(&self, answer: anyhow::Result<T>) -> Result<T, Wrong> {
        answer.map_err(|error| {
            let said = self.clone().and("your error", format!("{error:#}"));
            said.wrong("but everything fits, so this should not fail")
        })
    }

    /// What has to be refused must be an error.
    pub(super) fn refused<T>(self, answer: anyhow::Result<T>) -> Check {
        match answer {
            Err(_) => Ok(()),
            Ok(_) => {
                Err(self.wrong("should be an error, and you return an answer"))
            }
        }
    }

    /// Something must hold of the answer.
    pub(super) fn holds(
        self,
        answer: impl Display,
        right: bool,
        complaint: impl Display,
    ) -> Check {
        if right {
            Ok(())
        } else {
            Err(self.returned(answer).wrong(complaint))
        }
    }

    /// The answer must have this shape.
    pub(super) fn shape<D: Dimension>(
        &self,
        yours: &ArrayRef<f64, D>,
        shape: &[usize],
    ) -> Check {
        let complaint =
            format!("its shape is {:?} and should be {shape:?}", yours.shape());
        self.clone()
            .holds(show(yours), yours.shape() == shape, complaint)
    }

    /// The answer must be the book's.
    pub(super) fn same<D: Dimension>(
        self,
        yours: &ArrayRef<f64, D>,
        book: &ArrayRef<f64, D>,
    ) -> Check {
        self.within(yours, book, "the book's", TOLERANCE)
    }

    /// The answer must be that of somebody else, up to a tolerance.
    pub(super) fn within<D: Dimension>(
        self,
        yours: &ArrayRef<f64, D>,
        theirs: &ArrayRef<f64, D>,
        whose: &str,
        tolerance: f64,
    ) -> Check {
        self.shape(yours, theirs.shape())?;
        let near = |a: f64, b: f64| {
            a == b
                || a.is_nan() && b.is_nan()
                || (a - b).abs() <= tolerance * b.abs().max(1.0)
        };
        let places: Vec<_> = yours
            .indexed_iter()
            .zip(theirs)
            .filter(|((_, a), b)| !near(**a, **b))
            .map(|((place, a), _)| (place, *a))
            .collect();
        let Some((place, number)) = places.first() else {
            return Ok(());
        };
        let complaint = format!(
            "differs from {whose} in {} of {} places, first at {}, where you have {number:.4}",
            places.len(),
            yours.len(),
            Place(place)
        );
        Err(self.returned(show(yours)).wrong(complaint))
    }

    /// Every row of the answer must have this sum.
    pub(super) fn sums(
        self,
        weights: &ArrayRef<f64, ndarray::Ix2>,
        sum: f64,
    ) -> Check {
        for (i, row) in weights.rows().into_iter().enumerate() {
            let found = row.sum();
            if (found - sum).abs() > TOLERANCE {
                let complaint = format!(
                    "row {i}, counted from 0, sums to {found:.4}, not {sum}"
                );
                return Err(self.returned(show(weights)).wrong(complaint));
            }
        }
        Ok(())
    }
}

/// A place in an array: [0, 2].
struct Place<P>(P);

impl<P: fmt::Debug> Display for Place<&P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        write!(f, "[{}]", text.trim_matches(|c: char| !c.is_ascii_digit()))
    }
}

/// The numbers to four places, or only how many they are.
pub(super) fn show<D: Dimension>(array: &ArrayRef<f64, D>) -> String {
    if array.len() > 48 {
        let sizes: Vec<_> = array.shape().iter().map(usize::to_string).collect();
        return format!("{} numbers", sizes.join(" × "));
    }
    let rounded = array.mapv(|x| {
        if x.is_finite() {
            (x * 1e4).round() / 1e4 + 0.0
        } else {
            x
        }
    });
    format!("{rounded}")
}

/// Numbers without a pattern, the same on every machine: the sines of far-apart angles.
pub(super) fn wavy<Sh, D>(shape: Sh, step: f64) -> Array<f64, D>
where
    D: Dimension,
    Sh: ndarray::ShapeBuilder<Dim = D>,
{
    let mut angle = 0.3;
    Array::from_shape_simple_fn(shape, || {
        angle += step;
        (2.0 * f64::sin(angle) * 1e3).round() / 1e3
    })
}
