//! Pictures as pixels.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, ensure};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{FontResolver, Options, Tree};

use crate::picture::Picture;

/// The faces of the book: text, bold text, the Chinese characters of its figures, and letters that
/// only formulas have. Whatever the machine has installed does not matter, so every machine gives
/// the same file.
const FACES: [&[u8]; 4] = [
    include_bytes!("../../theme/fonts/book-sans-regular.woff2"),
    include_bytes!("../../theme/fonts/book-sans-bold.woff2"),
    include_bytes!("../../theme/fonts/book-han.woff2"),
    include_bytes!("../../theme/fonts/book-math.woff2"),
];

impl Picture {
    /// The picture as a PNG file, `scale` pixels to a unit: white paper, the light theme's colours,
    /// and the book's own faces.
    ///
    /// # Errors
    /// If the scale is not between 0.25 and 16, or the faces have no glyph for a character. They hold
    /// the Latin and Greek alphabets, mathematical signs and the Chinese characters of the book's
    /// figures; for others there is [`Picture::to_standalone_svg`].
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>> {
        ensure!(
            (0.25..=16.0).contains(&scale),
            "the scale must be between 0.25 and 16, not {scale}"
        );
        let unknown = Mutex::new(BTreeSet::new());
        let find = FontResolver::default_fallback_selector();
        let options = Options {
            fontdb: Arc::new(faces()?),
            font_resolver: FontResolver {
                select_font: FontResolver::default_font_selector(),
                // Asked for each character that the text's own face lacks.
                select_fallback: Box::new(|c, tried, faces| {
                    let face = find(c, tried, faces);
                    if face.is_none() {
                        unknown
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(c);
                    }
                    face
                }),
            },
            ..Options::default()
        };
        let tree = Tree::from_str(&self.to_standalone_svg(), &options)?;
        drop(options);
        let unknown = unknown.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            unknown.is_empty(),
            "the book's faces have no glyph for {}; as SVG the picture takes the viewer's fonts",
            unknown.iter().collect::<String>()
        );

        let (width, height) = self.pixels(scale);
        let mut pixels = Pixmap::new(width, height).context("the picture has no size")?;
        // Whole pixels in both directions, so that the paper ends where the file does.
        let transform = Transform::from_scale(
            width as f32 / tree.size().width(),
            height as f32 / tree.size().height(),
        );
        resvg::render(&tree, transform, &mut pixels.as_mut());
        Ok(pixels.encode_png()?)
    }
}

fn faces() -> Result<Database> {
    let mut faces = Database::new();
    for face in FACES {
        let face = wuff::decompress_woff2(face)
            .map_err(|error| anyhow!("a face of the book cannot be read: {error:?}"))?;
        faces.load_font_data(face);
    }
    // A file names the families that a viewer may have; here all of them are this one.
    faces.set_sans_serif_family("Book Sans");
    Ok(faces)
}
