//! The live figures: a picture of the book, drawn anew from a reader's numbers.
//!
//! A [`Live`] figure belongs to a picture of the crate `figures`. It names its [`Control`]s, and from
//! their values it makes a [`View`]: the picture, drawn by that crate's own function from what the
//! chapters' functions return, the numbers as text, and a sentence that says what changed. At the
//! controls' defaults the picture is the one that stands on the page without a script.
//!
//! Everything here is ordinary Rust that a test can call. The crate's examples, compiled to WebAssembly,
//! are what a page loads; they do no more than call [`page`].

mod ch01;
mod ch02;
mod ch03;
mod ch04;
mod ch05;
mod ch06;
mod ch09;
mod ch10;
mod html;
pub mod page;
mod state;

use anyhow::{Context, Result};
use figures::Picture;

pub use ch09::packed_weights;
pub use html::html;
pub use state::{Control, Kind, State};

/// A figure whose numbers a reader may change.
pub struct Live {
    /// The chapter of its picture, as in `ch04`.
    pub chapter: &'static str,
    /// The name of its picture.
    pub figure: &'static str,
    /// What to try, in one sentence.
    pub hint: &'static str,
    /// What a page loads for it: the name of an example of this crate.
    pub part: &'static str,
    controls: fn() -> Result<Vec<Control>>,
    draw: fn(&mut State) -> Result<View>,
}

/// What a figure shows for some values of its controls.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The picture.
    pub picture: Picture,
    /// What there is to notice, in a sentence or two.
    pub said: String,
    /// The numbers: a row of headings, then rows that begin with their own heading.
    pub table: Vec<Vec<String>>,
    /// The places of the picture that can be pressed, pointed at or dragged.
    pub spots: Vec<Spot>,
}

/// What a place of the picture is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Pressing it changes something; it is on or off.
    Press(bool),
    /// Pointing at it is enough.
    Point,
    /// It is dragged: the control gets its new place, as `x y` in the picture's units.
    Drag,
}

/// A place of the picture that does something.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// What it is for.
    pub used: Use,
    /// Its upper left corner.
    pub at: (f64, f64),
    /// Its width and its height.
    pub size: (f64, f64),
    /// Where it stands among the others: grid, row and column.
    pub place: (usize, usize, usize),
    /// What it is, in words.
    pub label: String,
    /// The controls that it sets, and to what.
    pub sets: Vec<(&'static str, String)>,
}

impl Live {
    /// Its controls, in the order in which their values are given.
    ///
    /// # Errors
    /// If the chapter's code does not compute what they begin with.
    pub fn controls(&self) -> Result<Vec<Control>> {
        (self.controls)()
    }

    /// What it shows at the defaults of its controls.
    ///
    /// # Errors
    /// If the chapter's code does not compute what the picture shows.
    pub fn at_rest(&self) -> Result<(State, View)> {
        let controls = self.controls()?;
        let values = controls.iter().map(|control| control.default.clone());
        self.draw(values.collect())
    }

    /// What it shows for a value of each control, and the values as they are then: the figure may
    /// change one to fit the others.
    ///
    /// # Errors
    /// With a message for the reader, if a value makes no sense.
    pub fn draw(&self, values: Vec<String>) -> Result<(State, View)> {
        let mut state = State::new(self.controls()?, values)?;
        let view = (self.draw)(&mut state)?;
        Ok((state, view))
    }
}

/// Those that a page draws from a few numbers.
pub static NUMBERS: [Live; 8] = [
    ch01::ANGLE,
    ch02::WEIGHTS,
    ch02::MIXTURE,
    ch03::SCALED,
    ch04::CAUSAL,
    ch05::HEADS,
    ch06::HEATMAP,
    ch10::ONLINE,
];

/// Those that ask the trained model.
pub static DATES: [Live; 1] = [ch09::LANGUAGES];

/// All live figures.
pub fn all() -> impl Iterator<Item = &'static Live> {
    NUMBERS.iter().chain(&DATES)
}

/// The live figure of that chapter and name.
///
/// # Errors
/// If there is none; the message lists the known ones.
pub fn find(chapter: &str, figure: &str) -> Result<&'static Live> {
    let found = all().find(|live| (live.chapter, live.figure) == (chapter, figure));
    found.with_context(|| {
        let known: Vec<_> = all()
            .map(|live| format!("{} {}", live.chapter, live.figure))
            .collect();
        format!(
            "there is no live figure {chapter} {figure}; the known ones are {}",
            known.join(", ")
        )
    })
}

/// Numbers in a row, as they are read out.
fn list(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
    let values: Vec<_> = values
        .into_iter()
        .map(|x| figures::number(x, decimals))
        .collect();
    values.join(", ")
}

/// A row of a table: its heading and its numbers.
fn row(
    name: impl Into<String>,
    values: impl IntoIterator<Item = f64>,
    decimals: usize,
) -> Vec<String> {
    let values = values.into_iter().map(|x| figures::number(x, decimals));
    std::iter::once(name.into()).chain(values).collect()
}

/// The headings of a table, from a list of words.
fn heads<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}
