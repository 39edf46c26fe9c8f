//! Whether the book keeps its promises: all of the code is shown, and nothing that a program could
//! have printed is typed by hand.

use crate::includes::{self, Part};
use crate::problem::{Problem, line_at};
use crate::{cargo, directives, markdown};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the pages, from the book's root.
const PAGES: &str = "book/src";

/// The lines of the chapters' code that their pages do not show. Blank lines, documentation and
/// anchors need not be shown.
///
/// # Errors
/// If a file cannot be read.
pub fn uncovered(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for chapter in cargo::chapters(root)? {
        let page = format!("{PAGES}/{chapter}.md");
        let text = fs::read_to_string(root.join(&page));
        for file in library_files(root, &chapter)? {
            let Ok(text) = &text else {
                problems.push(Problem::in_file(&page, format!("nothing shows {file}")));
                continue;
            };
            let code = read(root, &file)?;
            let shown = shown_lines(text, &root.join(PAGES), &root.join(&file), &code)?;
            for (index, line) in code.lines().enumerate() {
                if must_be_shown(line) && !shown.contains(&index) {
                    let message = format!("{page} does not show: {}", line.trim());
                    problems.push(Problem::new(&file, index + 1, message));
                }
            }
        }
    }
    Ok(problems)
}

/// The files of a chapter's library: all of its `src` but the program, in alphabetical order.
///
/// # Errors
/// If the folder cannot be read.
pub fn library_files(root: &Path, chapter: &str) -> Result<Vec<String>> {
    let folder = format!("chapters/{chapter}/src");
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(&folder)).with_context(|| folder.clone())? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".rs") && name != "main.rs" {
            files.push(format!("{folder}/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a line is code, or a comment that speaks of the next lines of code.
fn must_be_shown(line: &str) -> bool {
    let line = line.trim();
    let is_silent = ["///", "//!", "// ANCHOR:", "// ANCHOR_END:"]
        .iter()
        .any(|beginning| line.starts_with(beginning));
    !line.is_empty() && !is_silent
}

/// The lines of `file`, counted from 0, that a page shows.
fn shown_lines(page: &str, dir: &Path, file: &Path, code: &str) -> Result<BTreeSet<usize>> {
    let file = file.canonicalize()?;
    let mut shown = BTreeSet::new();
    for directive in directives::find(page).0 {
        if !matches!(directive.name, "include" | "rustdoc_include") {
            continue;
        }
        let (path, part) = includes::parse(directive.arguments);
        if dir.join(path).canonicalize().is_ok_and(|path| path == file) {
            let all_of_that_name = directive.name == "rustdoc_include";
            shown.extend(part_lines(&part, code, all_of_that_name));
        }
    }
    Ok(shown)
}

/// The lines of a part of a file. mdBook's `include` shows the first region of a name and
/// `rustdoc_include` all of them.
fn part_lines(part: &Part, code: &str, all_of_that_name: bool) -> Vec<usize> {
    let lines = code.lines().enumerate();
    match part {
        Part::Whole => lines.map(|(index, _)| index).collect(),
        Part::Lines(range) => lines
            .map(|(index, _)| index)
            .filter(|index| range.contains(index))
            .collect(),
        Part::Anchor(name) => {
            let (mut within, mut regions) = (false, 0);
            let mut shown = Vec::new();
            for (index, line) in lines {
                let named = |mark: &str| {
                    line.split_once(mark)
                        .is_some_and(|(_, anchor)| anchor.trim() == name)
                };
                if named("ANCHOR:") {
                    within = all_of_that_name || regions == 0;
                    regions += 1;
                } else if named("ANCHOR_END:") {
                    within = false;
                } else if within {
                    shown.push(index);
                }
            }
            shown
        }
    }
}

/// A block of plain text whose content was typed and not printed by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextBlock {
    /// The page, relative to the book's root.
    pub file: String,
    /// The line its first fence is on.
    pub line: usize,
    /// The first line of its content.
    pub first_line: String,
}

/// The ` ```text ` blocks of all pages that hold anything but includes and outputs.
///
/// # Errors
/// If a page cannot be read.
pub fn typed_text_blocks(root: &Path) -> Result<Vec<TextBlock>> {
    let mut typed = Vec::new();
    for (file, text) in pages(root)? {
        for block in markdown::code_blocks(&text) {
            let included = |line: &str| {
                let line = line.trim();
                line.is_empty()
                    || ["{{#output ", "{{#include "]
                        .iter()
                        .any(|opening| line.starts_with(opening) && line.ends_with("}}"))
            };
            if block.language() == "text" && !block.code.lines().all(included) {
                typed.push(TextBlock {
                    file: file.clone(),
                    line: line_at(&text, block.range.start),
                    first_line: block.code.lines().next().unwrap_or("").to_owned(),
                });
            }
        }
    }
    Ok(typed)
}

/// The Rust blocks of all pages that rustdoc would leave out.
///
/// # Errors
/// If a page cannot be read.
pub fn ignored_blocks(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (file, text) in pages(root)? {
        for block in markdown::code_blocks(&text) {
            if block.is_ignored_rust() {
                let line = line_at(&text, block.range.start);
                problems.push(Problem::new(&file, line, "this Rust block is ignored"));
            }
        }
    }
    Ok(problems)
}

/// The pages of the book, by their files relative to its root.
///
/// # Errors
/// If a page cannot be read.
pub fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from(PAGES)];
    while let Some(folder) = folders.pop() {
        let dir = root.join(&folder);
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            // A link may lead back to a folder that it lies in.
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md")
                && !root.join(&path).is_dir()
            {
                let file = crate::preprocessor::display(&path);
                let text = read(root, &file)?;
                pages.push((file, text));
            }
        }
    }
    pages.sort();
    Ok(pages)
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "//! Docs\n\n// ANCHOR: a\n/// Doc\nfn a() {}\n// ANCHOR_END: a\n\n// why\nfn b() {}\n";

    fn book(page: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("chapters/ch01-x/src/lib.rs", CODE),
            ("chapters/ch01-x/Cargo.toml", ""),
            ("book/src/ch01-x.md", page),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn lines_that_are_not_shown_are_told() {
        let path = "../../chapters/ch01-x/src/lib.rs";
        let root = book(&format!("{{{{#rustdoc_include {path}:a}}}}\n"));
        let problems = uncovered(root.path()).unwrap();
        assert_eq!(
            problems.iter().map(|p| p.line.unwrap()).collect::<Vec<_>>(),
            [8, 9]
        );
        assert!(problems[1].message.ends_with("does not show: fn b() {}"));
        let root = book(&format!(
            "{{{{#include {path}:a}}}}\n{{{{#include {path}:8:}}}}\n"
        ));
        assert_eq!(uncovered(root.path()).unwrap(), []);
        let root = book(&format!("\\{{{{#include {path}}}}}\n"));
        assert_eq!(uncovered(root.path()).unwrap().len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_links_to_itself_is_seen_once() {
        let root = book("");
        let folder = root.path().join(PAGES);
        std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
        assert_eq!(pages(root.path()).unwrap().len(), 1);
    }

    #[test]
    fn typed_text_is_told_from_included_text() {
        let root = book(
            "```text\n{{#output ch01-x a}}\n\n{{#include x.txt}}\n```\n\n```text\ntyped\n```\n",
        );
        let typed = typed_text_blocks(root.path()).unwrap();
        assert_eq!(typed.len(), 1);
        assert_eq!((typed[0].line, typed[0].first_line.as_str()), (7, "typed"));
    }

    #[test]
    fn ignored_blocks_are_told() {
        let root = book("```rust\n```\n\n```rust,ignore\n```\n");
        let ignored = ignored_blocks(root.path()).unwrap();
        assert_eq!(ignored[0].line, Some(4));
        assert_eq!(ignored.len(), 1);
    }
}
