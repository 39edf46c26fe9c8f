//! Binding: the whole book as HTML, checked before anybody sees it.

use crate::blocks::Blocks;
use crate::cargo;
use crate::links;
use crate::live::{self, Life, Weight};
use crate::preprocessor::Binder;
use crate::problem::{Problem, Problems};
use crate::warnings;
use anyhow::{Context, Result};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Binds the book at `root` into the build directory that its book.toml names, and returns that.
///
/// # Errors
/// If anything is wrong with the book; what was bound before then stays as it was.
pub fn bind(root: &Path) -> Result<PathBuf> {
    let target = target(root, None)?;
    bind_and_weigh(root, &target)?;
    Ok(target)
}

/// A book that has been bound.
#[derive(Debug)]
pub struct Bound {
    /// What its pages weigh.
    pub weights: Vec<Weight>,
    /// Whether its figures are still though they should have come alive.
    pub stilled: bool,
}

/// Binds the book at `root` into `target`, and says what its pages weigh. Figures and scripts are kept
/// beside it, and are made anew only when what they are made of has changed.
///
/// # Errors
/// As [`bind`].
pub fn bind_and_weigh(root: &Path, target: &Path) -> Result<Bound> {
    let kept = target.with_extension("kept");
    bind_loaded(load(root)?, target, Some(&kept))
}

/// Where the book at `root` is bound: in the build directory that its book.toml names, or, if the reader
/// has named another folder in place of `target`, in that one.
///
/// # Errors
/// If book.toml cannot be read.
pub fn target(root: &Path, instead: Option<&Path>) -> Result<PathBuf> {
    let file = root.join("book.toml");
    let mut config = Config::from_disk(&file)
        .with_context(|| format!("cannot read the book at {}", root.display()))?;
    config.update_from_env()?;
    let build = config.build.build_dir;
    Ok(match (instead, build.strip_prefix("target")) {
        (Some(instead), Ok(inside)) => std::path::absolute(instead)?.join(inside),
        _ => root.join(build),
    })
}

/// Binds the book at `root` into `target`.
///
/// # Errors
/// As [`bind`].
pub fn bind_into(root: &Path, target: &Path) -> Result<()> {
    bind_loaded(load(root)?, target, None).map(|_| ())
}

/// Binds the book at `root` and throws it away: a check that everything is right with it.
///
/// # Errors
/// As [`bind`].
pub fn check(root: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    render(load(root)?, &dir.path().join("book"), None).map(|_| ())
}

/// Compiles and runs every Rust block of the book at `root`, as `mdbook test` does.
///
/// # Errors
/// If a block fails, or anything else is wrong with the book.
pub fn test(root: &Path) -> Result<()> {
    let mut book = load(root)?;
    book.with_preprocessor(Binder::strict(root));
    book.with_preprocessor(Blocks);
    book.test(Vec::new())
}

/// The book at `root`, its preprocessors among them as book.toml orders them.
///
/// # Errors
/// If book.toml or SUMMARY.md cannot be read.
pub fn load(root: &Path) -> Result<MDBook> {
    MDBook::load(root).with_context(|| format!("cannot read the book at {}", root.display()))
}

fn bind_loaded(book: MDBook, target: &Path, kept: Option<&Path>) -> Result<Bound> {
    let parent = target
        .parent()
        .context("a book is not bound into the root folder")?;
    fs::create_dir_all(parent)?;
    // Beside the target, so that renaming is all it takes to put the book there.
    let stage = tempfile::Builder::new()
        .prefix(".book-")
        .tempdir_in(parent)?;
    let fresh = stage.path().join("fresh");
    let bound = render(book, &fresh, kept)?;
    let old = stage.path().join("old");
    if target.exists() {
        fs::rename(target, &old).with_context(|| format!("cannot replace {}", target.display()))?;
    }
    if let Err(error) = fs::rename(&fresh, target) {
        if old.exists() {
            fs::rename(&old, target)?;
        }
        return Err(error).with_context(|| format!("cannot replace {}", target.display()));
    }
    Ok(bound)
}

/// Renders into `dir` and checks what came out. All problems of all steps are in the error.
fn render(book: MDBook, dir: &Path, kept: Option<&Path>) -> Result<Bound> {
    let life = if cargo::can_build_wasm(&book.root) {
        Life::Files
    } else {
        Life::None
    };
    render_as(book, dir, life, kept)
}

fn render_as(mut book: MDBook, dir: &Path, life: Life, kept: Option<&Path>) -> Result<Bound> {
    let root = book.root.clone();
    let found = Rc::new(RefCell::new(Vec::new()));
    book.with_preprocessor(Binder::collecting(Rc::clone(&found), life, kept));
    book.config.build.build_dir = dir.to_owned();
    let (built, warnings) = warnings::collect(|| book.build());
    built?;
    let mut problems = found.take();
    // Of an include that fails mdBook speaks too, and in other words.
    let is_echo = |warning: &Problem| {
        let beginnings = ["Error updating", "Caused By"];
        beginnings
            .iter()
            .any(|beginning| warning.message.starts_with(beginning))
    };
    let said = !problems.is_empty();
    problems.extend(
        warnings
            .into_iter()
            .filter(|warning| !(said && is_echo(warning))),
    );
    // Of a book with problems nobody needs the scripts.
    let weights = if problems.is_empty() {
        match live::finish(&root, dir, kept) {
            Ok(weights) => weights,
            Err(error)
                if life != Life::None && std::env::var_os("BOOK_REQUIRE_TOOLS").is_none() =>
            {
                // A reader's compiler may differ from ours; a book with still figures is a book.
                eprintln!("The figures are bound without controls: {error:#}");
                fs::remove_dir_all(dir)?;
                let still = render_as(load(&root)?, dir, Life::None, kept)?;
                return Ok(Bound {
                    stilled: true,
                    ..still
                });
            }
            Err(error) => return Err(error),
        }
    } else {
        live::give_up(dir)?;
        vec![]
    };
    problems.extend(links::check(dir, &links::Sources::of(&book))?);
    Problems::none_in(problems)?;
    Ok(Bound {
        weights,
        stilled: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_is_bound_below_the_folder_that_takes_the_place_of_target() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let target = |build: &str, instead: Option<&str>| {
            let toml = format!("[book]\ntitle = \"x\"\n[build]\nbuild-dir = \"{build}\"\n");
            fs::write(root.join("book.toml"), toml).unwrap();
            target(root, instead.map(Path::new)).unwrap()
        };
        let elsewhere = root.join("elsewhere");
        assert_eq!(target("target/book", None), root.join("target/book"));
        assert_eq!(
            target("target/book", elsewhere.to_str()),
            elsewhere.join("book")
        );
        assert_eq!(
            target("target/book", Some("a")),
            std::env::current_dir().unwrap().join("a/book")
        );
        assert_eq!(target("out", elsewhere.to_str()), root.join("out"));
    }
}
