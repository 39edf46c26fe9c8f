//! The `{{#…}}` directives of a page, the book's own and mdBook's.

use crate::problem::known;
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Every directive that a page may use.
pub const KNOWN: [&str; 7] = [
    "figure",
    "include",
    "output",
    "playground",
    "rustdoc_include",
    "title",
    "value",
];

/// One directive as it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// Where it stands, braces included.
    pub range: Range<usize>,
    /// The word after `{{#`.
    pub name: &'a str,
    /// What follows the word, trimmed.
    pub arguments: &'a str,
}

/// The directives of a page in order, and what is wrong with those that are not well formed, each
/// with its byte offset. An escaped `\{{#…}}` is text.
pub fn find(text: &str) -> (Vec<Directive<'_>>, Vec<(usize, String)>) {
    static OPENING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\\\{\{#.*\}\}|\{\{\s*#\s*([A-Za-z0-9_-]*)").expect("the pattern is valid")
    });
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut from = 0;
    while let Some(opening) = OPENING.captures_at(text, from) {
        let whole = opening.get(0).expect("group 0 is the match");
        from = whole.end();
        let Some(name) = opening.get(1) else { continue };
        if !KNOWN.contains(&name.as_str()) {
            problems.push((
                whole.start(),
                format!(
                    "there is no directive {{{{#{}}}}}; {}",
                    name.as_str(),
                    known("directives", KNOWN)
                ),
            ));
            continue;
        }
        match closing(&text[from..], name.as_str()) {
            Some((arguments, length)) => {
                from += length;
                found.push(Directive {
                    range: whole.start()..from,
                    name: name.as_str(),
                    arguments: arguments.trim(),
                });
            }
            None => problems.push((
                whole.start(),
                format!("the directive {{{{#{}}}}} is never closed", name.as_str()),
            )),
        }
    }
    (found, problems)
}

/// What stands before the closing braces, and the length up to behind them. A figure's caption
/// may hold braces of its own, as formulas do, so there it is `"}}` that closes.
fn closing<'a>(rest: &'a str, name: &str) -> Option<(&'a str, usize)> {
    let first = rest.find("}}")?;
    if name == "figure" && rest[..first].contains('"') {
        let quote = rest.find("\"}}")?;
        return Some((&rest[..=quote], quote + 3));
    }
    Some((&rest[..first], first + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_and_arguments(text: &str) -> Vec<(&str, &str)> {
        let (found, problems) = find(text);
        assert_eq!(problems, []);
        found.iter().map(|d| (d.name, d.arguments)).collect()
    }

    #[test]
    fn directives_are_found_in_order() {
        assert_eq!(
            names_and_arguments("{{#include a.rs:x}} and ${{#value ch02 pinned q1 · k2}}$"),
            [("include", "a.rs:x"), ("value", "ch02 pinned q1 · k2")]
        );
    }

    #[test]
    fn a_caption_may_hold_braces() {
        assert_eq!(
            names_and_arguments(r#"{{#figure ch03 spread "Why $\sqrt{d_{k}}$"}} {{#title x}}"#),
            [
                ("figure", r#"ch03 spread "Why $\sqrt{d_{k}}$""#),
                ("title", "x")
            ]
        );
    }

    #[test]
    fn an_escaped_directive_is_text() {
        assert_eq!(names_and_arguments(r"\{{#ouput x}}"), []);
    }

    #[test]
    fn a_misspelled_or_open_directive_is_a_problem() {
        let (found, problems) = find("a {{#ouput x y}} {{#include b");
        assert!(found.is_empty());
        assert_eq!(problems[0].0, 2);
        assert!(problems[0].1.contains("there is no directive {{#ouput}}"));
        assert!(problems[0].1.contains("output, playground"));
        assert!(problems[1].1.contains("never closed"));
    }
}
