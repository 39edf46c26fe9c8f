//! The binder as one of mdBook's preprocessors.

use crate::live;
use crate::page::{Page, Press, Purpose};
use crate::problem::{Problem, Problems};
use anyhow::Result;
use mdbook_preprocessor::book::{Book, BookItem};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use std::cell::RefCell;
use std::path::{Component, Path};
use std::rc::Rc;

/// Makes every page of a book, and keeps going when one has problems.
pub struct Binder {
    found: Option<Rc<RefCell<Vec<Problem>>>>,
    live: bool,
}

impl Binder {
    /// The name that book.toml gives it.
    pub const NAME: &'static str = "binder";

    /// A binder that fails if there are problems. Its live figures stand still, because nobody adds
    /// their scripts.
    pub fn strict() -> Self {
        Binder {
            found: None,
            live: false,
        }
    }

    /// A binder that adds problems to a list and succeeds, so that later steps can find theirs. With
    /// `live` the pages ask for the scripts of their live figures.
    pub fn collecting(found: Rc<RefCell<Vec<Problem>>>, live: bool) -> Self {
        Binder {
            found: Some(found),
            live,
        }
    }

    /// Whether the binder has anything to do for this renderer of mdBook's.
    pub fn supports(renderer: &str) -> bool {
        matches!(renderer, "html" | "epub" | "test")
    }
}

impl Preprocessor for Binder {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn supports_renderer(&self, renderer: &str) -> Result<bool> {
        Ok(Self::supports(renderer))
    }

    fn run(&self, ctx: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let purpose = match ctx.renderer.as_str() {
            "test" => Purpose::Testing,
            _ => Purpose::Reading,
        };
        let press = Press::new(&ctx.root, self.live)?;
        let src = ctx.root.join(&ctx.config.book.src);
        let mut problems = Vec::new();
        book.for_each_mut(|item| {
            let BookItem::Chapter(chapter) = item else {
                return;
            };
            let Some(path) = &chapter.source_path else {
                return;
            };
            let page = Page {
                file: &display(&ctx.config.book.src.join(path)),
                dir: &src.join(path.parent().unwrap_or(Path::new(""))),
                text: &chapter.content,
            };
            let mut content = press.page(&page, purpose, &mut problems);
            let up = "../".repeat(path.components().count().saturating_sub(1));
            let scripts = live::tags(&content, &up);
            if !scripts.is_empty() {
                content += &format!("\n\n{scripts}\n");
            }
            chapter.content = content;
        });
        match &self.found {
            Some(found) => found.borrow_mut().append(&mut problems),
            None => Problems::none_in(problems)?,
        }
        Ok(book)
    }
}

/// A path with forward slashes on every system.
pub(crate) fn display(path: &Path) -> String {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_renderers_get_the_text_as_it_is() {
        assert!(Binder::supports("html") && Binder::supports("test"));
        assert!(!Binder::supports("markdown"));
    }

    #[test]
    fn paths_are_shown_with_forward_slashes() {
        assert_eq!(
            display(&Path::new(".").join("book").join("src")),
            "book/src"
        );
    }
}
