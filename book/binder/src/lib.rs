//! The binder: it makes the pages of *Attention, Line by Line* and checks them.
//!
//! It is a preprocessor of mdBook, run within the program `book` or by a plain `mdbook`, and the
//! checks that the book's tests are made of.

pub mod again;
pub mod bind;
pub mod blocks;
pub mod breaks;
pub mod cargo;
pub mod diagrams;
pub mod directives;
pub mod han;
pub mod includes;
pub mod links;
pub mod literate;
pub mod live;
pub mod markdown;
pub mod math;
pub mod outputs;
pub mod page;
pub mod pictures;
pub mod preprocessor;
pub mod problem;
pub mod serve;
pub mod warnings;

pub use problem::{Problem, Problems};
