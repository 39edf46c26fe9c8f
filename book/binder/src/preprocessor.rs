//! The binder as one of mdBook's preprocessors.

use crate::cargo;
use crate::live::{self, Life};
use crate::page::{Page, Press, Purpose};
use crate::problem::{Problem, Problems};
use anyhow::{Result, anyhow};
use mdbook_preprocessor::book::{Book, BookItem};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext, parse_input};
use serde_json::Value;
use std::cell::RefCell;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// Makes every page of a book, and keeps going when one has problems.
pub struct Binder {
    found: Option<Rc<RefCell<Vec<Problem>>>>,
    life: Life,
    kept: Option<PathBuf>,
}

impl Binder {
    /// The name that book.toml gives it.
    pub const NAME: &'static str = "binder";

    /// A binder that fails if there are problems, for an mdBook to which nobody adds files. Live figures
    /// have what they need in their pages, if it can be compiled here.
    pub fn strict(root: &Path) -> Self {
        let life = if cargo::can_build_wasm(root) {
            Life::Inside
        } else {
            Life::None
        };
        Binder {
            found: None,
            life,
            kept: None,
        }
    }

    /// A binder that adds problems to a list and succeeds, so that later steps can find theirs. It keeps
    /// figures in a folder if one is named.
    pub fn collecting(found: Rc<RefCell<Vec<Problem>>>, life: Life, kept: Option<&Path>) -> Self {
        Binder {
            found: Some(found),
            life,
            kept: kept.map(Path::to_owned),
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
        // Only a page has scripts.
        let life = match ctx.renderer.as_str() {
            "html" => self.life,
            _ => Life::None,
        };
        let press = Press::new(&ctx.root, life != Life::None, self.kept.as_deref())?;
        let src = ctx.root.join(&ctx.config.book.src);
        let mut problems = Vec::new();
        let mut contents = match ctx.renderer.as_str() {
            "html" => contents(&book),
            _ => String::new(),
        };
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
            match live::tags(&ctx.root, &content, &up, life) {
                Ok(scripts) if scripts.is_empty() => {}
                Ok(scripts) => content += &format!("\n\n{scripts}\n"),
                Err(error) => problems.push(Problem::in_file(page.file, format!("{error:#}"))),
            }
            // The first page, and with it the whole book on paper, begins with what there is.
            chapter.content = std::mem::take(&mut contents) + &content;
        });
        match &self.found {
            Some(found) => found.borrow_mut().append(&mut problems),
            None => Problems::none_in(problems)?,
        }
        Ok(book)
    }
}

/// What mdBook hands to a preprocessor.
///
/// # Errors
/// If it cannot be read, and above all if it is from another mdBook than the book is made for.
pub fn read(mut input: impl Read) -> Result<(PreprocessorContext, Book)> {
    let mut handed = Vec::new();
    input.read_to_end(&mut handed)?;
    parse_input(&*handed).map_err(|error| {
        let handed: Value = serde_json::from_slice(&handed).unwrap_or_default();
        match handed[0]["mdbook_version"].as_str() {
            Some(version) if !version.starts_with("0.5.") => {
                anyhow!("mdbook 0.5 is needed, and this is {version}")
            }
            _ => error.context("cannot read what mdbook hands over"),
        }
    })
}

/// A list of the pages, for paper, where there is no bar at the side.
fn contents(book: &Book) -> String {
    let mut list = String::from("<nav class=\"on-paper\" aria-label=\"Contents\">\n\n");
    for item in book.iter() {
        match item {
            BookItem::Chapter(chapter) => {
                let Some(path) = &chapter.path else {
                    continue;
                };
                let number = match &chapter.number {
                    Some(number) => format!("{number} "),
                    None => String::new(),
                };
                list += &format!("- [{number}{}]({})\n", chapter.name, display(path));
            }
            BookItem::PartTitle(title) => list += &format!("- {title}\n"),
            BookItem::Separator => {}
        }
    }
    list + "\n</nav>\n\n"
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
    use mdbook_preprocessor::book::{Chapter, SectionNumber};

    #[test]
    fn other_renderers_get_the_text_as_it_is() {
        assert!(Binder::supports("html") && Binder::supports("test"));
        assert!(!Binder::supports("markdown"));
    }

    #[test]
    fn an_mdbook_of_another_age_is_told_which_one_is_needed() {
        let handed = |version: &str, items: &str| {
            format!(
                r#"[{{"root": "/b", "config": {{"book": {{"title": "x"}}}}, "renderer": "html",
                "mdbook_version": "{version}"}}, {{"{items}": [{{"Chapter": {{"name": "a",
                "content": "", "number": null, "sub_items": [], "path": "a.md",
                "source_path": "a.md", "parent_names": []}}}}], "__non_exhaustive": null}}]"#
            )
        };
        let error = |handed: &str| format!("{:#}", read(handed.as_bytes()).err().unwrap());
        assert_eq!(
            error(&handed("0.4.52", "sections")),
            "mdbook 0.5 is needed, and this is 0.4.52"
        );
        assert!(error(&handed("0.5.4", "sections")).contains("items"));
        assert!(error("").starts_with("cannot read what mdbook hands over"));
        assert!(read(handed("0.5.4", "items").as_bytes()).is_ok());
    }

    #[test]
    fn the_contents_name_parts_and_pages() {
        let mut book = Book::new();
        let page = |name: &str, path: &str| Chapter::new(name, String::new(), path, vec![]);
        book.push_item(page("Preface", "preface.md"));
        book.push_item(BookItem::PartTitle("Sequences".to_owned()));
        let mut masks = page("Masks", "ch04.md");
        masks.number = Some(SectionNumber::new([4]));
        book.push_item(masks);
        assert_eq!(
            contents(&book),
            "<nav class=\"on-paper\" aria-label=\"Contents\">\n\n- [Preface](preface.md)\n- Sequences\n\
             - [4. Masks](ch04.md)\n\n</nav>\n\n"
        );
    }

    #[test]
    fn paths_are_shown_with_forward_slashes() {
        assert_eq!(
            display(&Path::new(".").join("book").join("src")),
            "book/src"
        );
    }
}
