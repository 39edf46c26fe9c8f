//! Every picture of the book, drawn with plotters from the chapters' own results.
//!
//! A [`Figure`] is known by its chapter and its name. Drawing one gives a [`Picture`], which turns
//! into SVG for a page (colours follow the page's theme) or for a file (colours fixed),
//! or, with the feature `png`, into a PNG file. No number in a picture is typed where a chapter's
//! function could compute it, and the same picture comes out on every machine.
//!
//! The program of the same name, `cargo run -p figures`, lists the pictures and keeps them as files.

mod canvas;
mod cells;
mod ch01;
mod ch02;
mod ch03;
mod ch04;
mod ch05;
mod ch06;
mod ch07;
mod ch08;
mod ch09;
mod ch10;
mod chart;
mod heatmap;
mod learned;
mod picture;
#[cfg(feature = "png")]
mod png;
mod style;

use anyhow::{Context, Result, anyhow};

pub use heatmap::heatmap;
pub use picture::{Cell, Picture, escape};
pub use style::{HEAT, PALETTE, number, plain, short};

/// The figures whose numbers a reader may change: the same pictures, drawn from numbers that are
/// handed in.
pub mod with {
    pub use crate::ch01::{PLANE, angle_of};
    pub use crate::ch02::{mixture_of, weights_of};
    pub use crate::ch03::scaled_of;
    pub use crate::ch04::causal_of;
    pub use crate::ch05::{LOOKS, Picked, hand_made, heads_of};
    pub use crate::ch06::map_of;
    pub use crate::ch09::{Read, dates_of};
    pub use crate::ch10::{Seen, online_of, read_in_tiles};
}

/// A picture that the book knows by name.
#[derive(Debug)]
pub struct Figure {
    /// The chapter it belongs to, as in `ch01`.
    pub chapter: &'static str,
    /// Its name, unique within the chapter.
    pub name: &'static str,
    draw: fn() -> Result<Picture>,
}

impl Figure {
    const fn new(chapter: &'static str, name: &'static str, draw: fn() -> Result<Picture>) -> Self {
        Self {
            chapter,
            name,
            draw,
        }
    }

    /// Chapter and name in one, as in `ch06-heatmap`.
    pub fn id(&self) -> String {
        format!("{}-{}", self.chapter, self.name)
    }

    /// Draws the picture.
    ///
    /// # Errors
    /// If the chapter's code does not compute what the picture shows.
    pub fn draw(&self) -> Result<Picture> {
        (self.draw)().with_context(|| format!("figure {} {}", self.chapter, self.name))
    }
}

/// All figures, in the order of the book.
pub fn all() -> &'static [Figure] {
    const FIGURES: &[Figure] = &[
        Figure::new("ch01", "angle", ch01::angle),
        Figure::new("ch01", "product", ch01::product),
        Figure::new("ch01", "scores", ch01::scores),
        Figure::new("ch01", "grid", ch01::grid),
        Figure::new("ch02", "weights", ch02::weights),
        Figure::new("ch02", "temperature", ch02::temperature),
        Figure::new("ch02", "mixture", ch02::mixture),
        Figure::new("ch02", "overflow", ch02::overflow),
        Figure::new("ch03", "spread", ch03::spread),
        Figure::new("ch03", "saturation", ch03::saturation),
        Figure::new("ch03", "scaled", ch03::scaled),
        Figure::new("ch04", "padding", ch04::padding),
        Figure::new("ch04", "causal", ch04::causal),
        Figure::new("ch04", "both", ch04::both),
        Figure::new("ch04", "alignment", ch04::alignment),
        Figure::new("ch04", "window", ch04::window),
        Figure::new("ch04", "fill", ch04::fill),
        Figure::new("ch04", "learned", learned::causal),
        Figure::new("ch05", "split", ch05::split),
        Figure::new("ch05", "heads", ch05::heads),
        Figure::new("ch05", "roles", ch05::roles),
        Figure::new("ch05", "learned", learned::heads_apart),
        Figure::new("ch06", "heatmap", ch06::heatmap),
        Figure::new("ch06", "causal", ch06::causal),
        Figure::new("ch06", "positions", ch06::positions),
        Figure::new("ch06", "rope", ch06::rope),
        Figure::new("ch06", "cost", ch06::cost),
        Figure::new("ch06", "learned", learned::reads_itself),
        Figure::new("ch07", "alignment", ch07::alignment),
        Figure::new("ch07", "learned", learned::alignment),
        Figure::new("ch08", "collapse", ch08::collapse),
        Figure::new("ch08", "way", ch08::way),
        Figure::new("ch08", "activations", ch08::activations),
        Figure::new("ch08", "growth", ch08::growth),
        Figure::new("ch08", "learned", learned::layers),
        Figure::new("ch09", "schedule", ch09::schedule),
        Figure::new("ch09", "loss", ch09::loss),
        Figure::new("ch09", "languages", ch09::languages),
        Figure::new("ch09", "before", ch09::before),
        Figure::new("ch09", "warm-up", ch09::warm_up),
        Figure::new("ch10", "cost", ch10::cost),
        Figure::new("ch10", "groups", ch10::groups),
        Figure::new("ch10", "online", ch10::online),
        Figure::new("ch10", "tiles", ch10::tiles),
        Figure::new("ch10", "lanes", ch10::lanes),
        Figure::new("ch10", "ring", ch10::ring),
        Figure::new("ch10", "learned", learned::window),
    ];
    FIGURES
}

/// The figure of that chapter and name.
///
/// # Errors
/// If there is none; the message lists the known ones.
pub fn find(chapter: &str, name: &str) -> Result<&'static Figure> {
    all()
        .iter()
        .find(|figure| (figure.chapter, figure.name) == (chapter, name))
        .ok_or_else(|| {
            let known: Vec<_> = all()
                .iter()
                .map(|figure| format!("{} {}", figure.chapter, figure.name))
                .collect();
            anyhow!(
                "there is no figure {chapter} {name}; the known ones are {}",
                known.join(", ")
            )
        })
}
