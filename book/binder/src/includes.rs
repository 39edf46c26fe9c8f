//! mdBook's includes, checked before mdBook fills them in: it would only warn, or include nothing.

use crate::problem::known;
use regex::Regex;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Which part of a file is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// What stands between the comments `ANCHOR: name` and `ANCHOR_END: name`.
    Anchor(String),
    /// These lines, counted from 0; the end may lie behind the last line.
    Lines(Range<usize>),
}

/// The file and the part that an include names, in mdBook's notation `path:anchor`,
/// `path:first:last`, `path:line`.
pub fn parse(argument: &str) -> (PathBuf, Part) {
    let (path, part) = match argument.split_once(':') {
        None => (argument, Part::Whole),
        Some((path, part)) => (path, parse_part(part)),
    };
    (PathBuf::from(path), part)
}

fn parse_part(part: &str) -> Part {
    let mut bounds = part.splitn(3, ':');
    let first = bounds.next().unwrap_or("");
    let last = bounds.next().map(|last| last.parse::<usize>().ok());
    let start = match first.parse::<usize>() {
        Ok(line) => line.saturating_sub(1),
        Err(_) if first.is_empty() => 0,
        Err(_) => return Part::Anchor(first.to_owned()),
    };
    match last {
        None if first.is_empty() => Part::Whole,
        None => Part::Lines(start..start + 1),
        Some(None) => Part::Lines(start..usize::MAX),
        Some(Some(end)) => Part::Lines(start..end),
    }
}

/// The file that a block of code is a listing of: the one that its only line includes, from the
/// root of the book.
pub fn listed_file(code: &str) -> Option<&str> {
    static INCLUDE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^\{\{#(?:rustdoc_)?include (?:\.\./)*([^:}]+)(?::[^}]*)?\}\}\n?$")
            .expect("the pattern is valid")
    });
    Some(INCLUDE.captures(code)?.get(1)?.as_str())
}

/// The names of the anchors that a text opens, in order.
pub fn anchors(text: &str) -> Vec<&str> {
    static OPENING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"ANCHOR:\s*([\w-]+)").expect("the pattern is valid"));
    let mut names: Vec<&str> = Vec::new();
    for opening in OPENING.captures_iter(text) {
        let name = opening
            .get(1)
            .expect("the group always takes part")
            .as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Checks that the file of an include exists and has the part that is asked for.
///
/// # Errors
/// With a message for the author.
pub fn check(argument: &str, dir: &Path) -> Result<(), String> {
    let (path, part) = parse(argument);
    let text = std::fs::read_to_string(dir.join(&path))
        .map_err(|error| format!("cannot include `{}`: {error}", path.display()))?;
    match part {
        Part::Whole => Ok(()),
        Part::Lines(range) => {
            let lines = text.lines().count();
            let end = if range.end == usize::MAX {
                lines
            } else {
                range.end
            };
            if range.start < end && end <= lines {
                Ok(())
            } else {
                Err(format!(
                    "`{}` has {lines} lines, not {}",
                    path.display(),
                    argument.split_once(':').map_or("", |(_, lines)| lines)
                ))
            }
        }
        Part::Anchor(name) => {
            let names = anchors(&text);
            if !names.contains(&name.as_str()) {
                return Err(format!(
                    "`{}` has no anchor `{name}`; {}",
                    path.display(),
                    known("anchors", names)
                ));
            }
            let closed = text.lines().any(|line| {
                line.split_once("ANCHOR_END:")
                    .is_some_and(|(_, end)| end.trim() == name)
            });
            if closed {
                Ok(())
            } else {
                Err(format!(
                    "the anchor `{name}` of `{}` has no end",
                    path.display()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_mdbook_reads_them() {
        let part = |argument| parse(argument).1;
        assert_eq!(part("a.rs"), Part::Whole);
        assert_eq!(part("a.rs:x"), Part::Anchor("x".to_owned()));
        assert_eq!(part("a.rs:3"), Part::Lines(2..3));
        assert_eq!(part("a.rs:3:5"), Part::Lines(2..5));
        assert_eq!(part("a.rs:3:"), Part::Lines(2..usize::MAX));
        assert_eq!(part("a.rs::5"), Part::Lines(0..5));
    }

    #[test]
    fn a_listing_is_one_include_and_nothing_else() {
        assert_eq!(
            listed_file("{{#rustdoc_include ../../chapters/a/src/lib.rs:b}}\n"),
            Some("chapters/a/src/lib.rs")
        );
        assert_eq!(listed_file("{{#include a.rs}}"), Some("a.rs"));
        assert_eq!(listed_file("use x;\n{{#include a.rs}}\n"), None);
    }

    #[test]
    fn what_cannot_be_included_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let text = "// ANCHOR: a\nx\n// ANCHOR_END: a\n// ANCHOR: open\n";
        std::fs::write(dir.path().join("f.rs"), text).unwrap();
        let check = |argument| check(argument, dir.path());
        assert_eq!(check("f.rs"), Ok(()));
        assert_eq!(check("f.rs:a"), Ok(()));
        assert_eq!(check("f.rs:2:4"), Ok(()));
        assert!(check("f.rs:2:9").unwrap_err().contains("4 lines"));
        assert!(check("g.rs:a").unwrap_err().contains("cannot include"));
        let message = check("f.rs:b").unwrap_err();
        assert!(message.contains("known anchors: a, open"), "{message}");
        assert!(check("f.rs:open").unwrap_err().contains("has no end"));
    }
}
