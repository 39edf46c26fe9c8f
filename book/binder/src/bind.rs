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
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Binds the book at `root` into the build directory that its book.toml names, and returns that.
///
/// # Errors
/// If anything is wrong with the book; what was bound before then stays as it was.
pub fn bind(root: &Path) -> Result<PathBuf> {
    Ok(bind_and_weigh(root)?.0)
}

/// Binds the book at `root` as [`bind`] does, and says what its pages weigh.
///
/// # Errors
/// As [`bind`].
pub fn bind_and_weigh(root: &Path) -> Result<(PathBuf, Vec<Weight>)> {
    let book = load(root)?;
    let target = root.join(&book.config.build.build_dir);
    let weights = bind_loaded(book, &target)?;
    Ok((target, weights))
}

/// Where [`bind`] puts the book at `root`.
///
/// # Errors
/// If book.toml or SUMMARY.md cannot be read.
pub fn target(root: &Path) -> Result<PathBuf> {
    Ok(root.join(load(root)?.config.build.build_dir))
}

/// Binds the book at `root` into `target`.
///
/// # Errors
/// As [`bind`].
pub fn bind_into(root: &Path, target: &Path) -> Result<()> {
    bind_loaded(load(root)?, target).map(|_| ())
}

/// Binds the book at `root` and throws it away: a check that everything is right with it.
///
/// # Errors
/// As [`bind`].
pub fn check(root: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    render(load(root)?, &dir.path().join("book")).map(|_| ())
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

fn bind_loaded(book: MDBook, target: &Path) -> Result<Vec<Weight>> {
    let parent = target
        .parent()
        .context("a book is not bound into the root folder")?;
    fs::create_dir_all(parent)?;
    // Beside the target, so that renaming is all it takes to put the book there.
    let stage = tempfile::Builder::new()
        .prefix(".book-")
        .tempdir_in(parent)?;
    let fresh = stage.path().join("fresh");
    let weights = render(book, &fresh)?;
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
    Ok(weights)
}

/// Renders into `dir` and checks what came out. All problems of all steps are in the error.
fn render(book: MDBook, dir: &Path) -> Result<Vec<Weight>> {
    let life = if cargo::can_build_wasm(&book.root) {
        Life::Files
    } else {
        Life::None
    };
    render_as(book, dir, life)
}

fn render_as(mut book: MDBook, dir: &Path, life: Life) -> Result<Vec<Weight>> {
    let root = book.root.clone();
    let found = Rc::new(RefCell::new(Vec::new()));
    book.with_preprocessor(Binder::collecting(Rc::clone(&found), life));
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
        match live::finish(&root, dir) {
            Ok(weights) => weights,
            Err(error)
                if life != Life::None && std::env::var_os("BOOK_REQUIRE_TOOLS").is_none() =>
            {
                // A reader's compiler may differ from ours; a book with still figures is a book.
                eprintln!("The figures are bound without controls: {error:#}");
                fs::remove_dir_all(dir)?;
                return render_as(load(&root)?, dir, Life::None);
            }
            Err(error) => return Err(error),
        }
    } else {
        live::give_up(dir)?;
        vec![]
    };
    problems.extend(links::check(dir, &links::Sources::of(&book))?);
    Problems::none_in(problems)?;
    Ok(weights)
}
