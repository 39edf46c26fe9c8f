//! Every picture of the book.

use anyhow::Result;

/// A picture that a page can ask for by chapter and name.
pub struct Figure {
    /// The chapter's short name, "ch04".
    pub chapter: &'static str,
    /// The figure's name within its chapter.
    pub name: &'static str,
}

/// A drawn figure.
pub struct Picture {
    /// The text alternative.
    pub alt: String,
}

/// All figures.
pub fn all() -> &'static [Figure] {
    &[]
}

impl Figure {
    /// Draws the figure.
    ///
    /// # Errors
    /// If its data cannot be computed.
    pub fn draw(&self) -> Result<Picture> {
        Ok(Picture { alt: String::new() })
    }
}

impl Picture {
    /// The picture as one line of SVG, its ids starting with `id`.
    pub fn to_inline_svg(&self, id: &str) -> String {
        format!("<svg id=\"{id}\"></svg>")
    }
}
