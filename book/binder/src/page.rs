//! One page, from what the author wrote to what mdBook renders.

use crate::math::Math;
use crate::outputs::Outputs;
use crate::pictures::{self, Pictures};
use crate::problem::{Problem, line_at};
use crate::{breaks, diagrams, directives, han, includes, markdown, math};
use anyhow::Result;
use std::ops::Range;
use std::path::Path;

/// What a page is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be read: formulas and pictures are rendered.
    Reading,
    /// To have its code tested: formulas and pictures are only checked.
    Testing,
}

/// A page as the author wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Its file, as problems are to name it.
    pub file: &'a str,
    /// The folder that its includes start from.
    pub dir: &'a Path,
    /// Its text.
    pub text: &'a str,
}

/// What makes the pages: the translators and the things that pages may ask for.
pub struct Press {
    math: Math,
    outputs: Outputs,
    pictures: Pictures,
}

/// A part of the page and what takes its place.
type Edit = (Range<usize>, String);

impl Press {
    /// The press of the book at `root`, with live figures or with still ones in their places, which are
    /// kept in a folder if one is named.
    ///
    /// # Errors
    /// If the book's own LaTeX commands are not well formed.
    pub fn new(root: &Path, live: bool, kept: Option<&Path>) -> Result<Self> {
        Ok(Press {
            math: Math::new()?,
            outputs: Outputs::new(root),
            pictures: Pictures::new(live, kept),
        })
    }

    /// Makes a page. What is wrong with it is added to the problems.
    pub fn page(&self, page: &Page<'_>, purpose: Purpose, problems: &mut Vec<Problem>) -> String {
        // Values first: they stand within formulas, and none of them breaks a line, so that the
        // lines stay those of the file.
        let with_values = self.fill_values(page, problems);
        let page = Page {
            text: &with_values,
            ..*page
        };
        let mut edits = Vec::new();
        let visible = self.directives(&page, purpose, &mut edits, problems);
        self.formulas(&page, &visible, purpose, &mut edits, problems);
        self.code_blocks(&page, &visible, purpose, &mut edits, problems);
        if purpose == Purpose::Reading {
            edits.extend(han::named(&visible));
            edits.extend(breaks::allowed(&visible));
        }
        apply(page.text, edits)
    }

    fn fill_values(&self, page: &Page<'_>, problems: &mut Vec<Problem>) -> String {
        let mut edits = Vec::new();
        for directive in directives::find(page.text).0 {
            if directive.name == "value" {
                let value = self.outputs.value(directive.arguments);
                // A mark in its place keeps the formula around it whole.
                edits.push((
                    directive.range.clone(),
                    value.unwrap_or_else(|message| {
                        problems.push(page.problem(directive.range.start, message));
                        "?".to_owned()
                    }),
                ));
            }
        }
        apply(page.text, edits)
    }

    /// Fills in the directives but for mdBook's own, which are only checked. Returns the page with
    /// its figures blanked out, for their captions are no text of the page.
    fn directives(
        &self,
        page: &Page<'_>,
        purpose: Purpose,
        edits: &mut Vec<Edit>,
        problems: &mut Vec<Problem>,
    ) -> String {
        let (found, faults) = directives::find(page.text);
        problems.extend(page.problems(faults));
        let mut visible = page.text.to_owned();
        for directive in found {
            let range = directive.range.clone();
            let result = match directive.name {
                "include" | "rustdoc_include" | "playground" => {
                    let path = directive.arguments.split_whitespace().next().unwrap_or("");
                    includes::check(path, page.dir).map(|()| None)
                }
                "output" => self.outputs.output(directive.arguments).map(Some),
                "figure" => {
                    visible.replace_range(range.clone(), &blank(&page.text[range.clone()]));
                    self.figure(page, &directive, purpose).map(Some)
                }
                _ => Ok(None),
            };
            match result {
                Ok(None) => {}
                Ok(Some(text)) => edits.push((range, text)),
                Err(message) => problems.push(page.problem(range.start, message)),
            }
        }
        visible
    }

    fn figure(
        &self,
        page: &Page<'_>,
        directive: &directives::Directive<'_>,
        purpose: Purpose,
    ) -> Result<String, String> {
        let (before, after) = (
            &page.text[..directive.range.start],
            &page.text[directive.range.end..],
        );
        let indentation = before.rsplit('\n').next().unwrap_or("");
        let behind = after.split('\n').next().unwrap_or("");
        if !indentation.trim().is_empty() || !behind.trim().is_empty() {
            return Err("a figure stands on a line of its own".to_owned());
        }
        if purpose == Purpose::Testing {
            return self
                .pictures
                .check(directive.arguments)
                .map(|()| String::new());
        }
        // The blank line ends the HTML, whatever follows.
        let html = self.pictures.figure(directive.arguments, &self.math)?;
        Ok(format!("{html}\n"))
    }

    fn formulas(
        &self,
        page: &Page<'_>,
        visible: &str,
        purpose: Purpose,
        edits: &mut Vec<Edit>,
        problems: &mut Vec<Problem>,
    ) {
        let (formulas, faults) = math::find(visible);
        problems.extend(page.problems(faults));
        for formula in formulas {
            match self.math.render(&formula.tex, formula.display) {
                Ok(_) if purpose == Purpose::Testing => {}
                Ok(html) if formula.display => edits.push((formula.range, html)),
                Ok(html) => {
                    let (range, html) = math::keep_with_punctuation(page.text, formula.range, html);
                    edits.push((range, html));
                }
                Err(message) => problems.push(page.problem(formula.range.start, message)),
            }
        }
    }

    fn code_blocks(
        &self,
        page: &Page<'_>,
        visible: &str,
        purpose: Purpose,
        edits: &mut Vec<Edit>,
        problems: &mut Vec<Problem>,
    ) {
        let mut diagrams = 0;
        for block in markdown::code_blocks(visible) {
            let start = block.range.start;
            if block.language().is_empty() {
                problems.push(page.problem(
                    start,
                    "a block of code stands between ``` fences, and the first says the language",
                ));
            } else if block.is_ignored_rust() {
                problems.push(page.problem(
                    start,
                    "a Rust block is never ignored: let it run, or say compile_fail or should_panic",
                ));
            } else if block.language() == "dot" {
                diagrams += 1;
                match self.diagram(page, &block, diagrams) {
                    Ok(html) if purpose == Purpose::Reading => {
                        edits.push((block.range, format!("{html}\n")));
                    }
                    Ok(_) => edits.push((block.range, String::new())),
                    Err((line, message)) => problems.push(Problem::new(
                        page.file,
                        line_at(page.text, start) + line,
                        message,
                    )),
                }
            } else if purpose == Purpose::Reading
                && let Some(file) = includes::listed_file(&block.code)
            {
                // A reader is shown the listing alone; the rest of its file, which rustdoc_include
                // hides in the block, is there for the tests.
                let listing = format!(
                    "```{}\n{}```",
                    block.language(),
                    block.code.replacen("#rustdoc_include", "#include", 1)
                );
                let html = match folded(file, &block) {
                    Some(summary) => format!(
                        "<details class=\"listing\"><summary>{summary} <code>{file}</code></summary>\n\n\
                         {listing}\n\n</details>"
                    ),
                    None => format!("<p class=\"listing\">{file}</p>\n\n{listing}"),
                };
                edits.push((block.range, html));
            }
        }
    }

    /// The diagram of a block, or the line within the block and what is wrong there.
    fn diagram(
        &self,
        page: &Page<'_>,
        block: &markdown::CodeBlock,
        number: usize,
    ) -> Result<String, (usize, String)> {
        let info = block.info.as_deref().unwrap_or("");
        let caption = info
            .trim()
            .strip_prefix("dot")
            .and_then(|rest| rest.trim().strip_prefix('"')?.strip_suffix('"'))
            .filter(|caption| !caption.is_empty())
            .ok_or((0, "a diagram has a caption: ```dot \"Caption\"".to_owned()))?;
        let stem = Path::new(page.file)
            .file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        let id = format!("diagram-{stem}-{number}");
        let picture =
            diagrams::render(&block.code, &id).map_err(|(line, fault)| (line + 1, fault))?;
        pictures::wrap(&id, &picture, caption, &self.math).map_err(|fault| (0, fault))
    }
}

/// What is said of a listing that is folded. Programs print what the page shows below them, and what a
/// file uses can be looked up; an author may fold others, and keep these unfolded, by a word behind the
/// language: `rust,folded` and `rust,shown`.
fn folded(file: &str, block: &markdown::CodeBlock) -> Option<&'static str> {
    let word = |name| block.words().any(|word| word == name);
    let prints = file.ends_with("/src/main.rs") || file.ends_with("/examples.rs");
    if word("shown") {
        None
    } else if prints {
        Some("What prints this")
    } else if block.code.contains("imports}}") {
        Some("What this file uses")
    } else {
        word("folded").then_some("More of this file")
    }
}

impl Page<'_> {
    /// Faults at byte offsets, as problems.
    fn problems(&self, faults: Vec<(usize, String)>) -> impl Iterator<Item = Problem> {
        faults
            .into_iter()
            .map(|(offset, fault)| self.problem(offset, fault))
    }

    fn problem(&self, offset: usize, message: impl Into<String>) -> Problem {
        Problem::new(self.file, line_at(self.text, offset), message)
    }
}

/// The same text with every character blank but for the line breaks.
fn blank(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect()
}

pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut made = String::with_capacity(text.len());
    let mut from = 0;
    for (range, replacement) in edits {
        // Of two edits that overlap the first has taken the place of both.
        if range.start < from {
            continue;
        }
        made.push_str(&text[from..range.start]);
        made.push_str(&replacement);
        from = range.end;
    }
    made.push_str(&text[from..]);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(text: &str, purpose: Purpose) -> (String, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        let snapshots = root.path().join("tests/snapshots");
        std::fs::create_dir_all(&snapshots).unwrap();
        std::fs::write(
            snapshots.join("programs__ch01_x.snap.txt"),
            "# a: A\nline\nq = 0.5\n",
        )
        .unwrap();
        let page = Page {
            file: "p.md",
            dir: root.path(),
            text,
        };
        let mut problems = Vec::new();
        let made = Press::new(root.path(), true, None)
            .unwrap()
            .page(&page, purpose, &mut problems);
        problems.sort();
        (made, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn outputs_values_and_formulas_are_filled_in() {
        let (made, problems) = press(
            "$q={{#value ch01-x a q}}$\n\n```text\n{{#output ch01-x a}}\n```\n",
            Purpose::Reading,
        );
        assert_eq!(problems, [""; 0]);
        assert!(made.contains("<mn>0&#46;5</mn>"), "{made}");
        assert!(made.ends_with("```text\n# a: A\nline\nq = 0.5\n```\n"));
    }

    #[test]
    fn chinese_is_named_and_long_names_in_tables_may_break() {
        let text = "Say 好.\n\n| a |\n|---|\n| `is_causal_or_not` |\n";
        let (made, _) = press(text, Purpose::Reading);
        assert!(
            made.contains("Say <span lang=\"zh-Hans\">好</span>."),
            "{made}"
        );
        assert!(made.contains("causal&#95;<wbr>or"), "{made}");
        assert_eq!(press(text, Purpose::Testing).0, text);
    }

    #[test]
    fn a_listing_says_which_file_it_is_from() {
        let listing = "```rust\n{{#rustdoc_include ../../chapters/a/src/lib.rs:b}}\n```\n";
        let (made, _) = press(listing, Purpose::Reading);
        assert_eq!(
            made,
            "<p class=\"listing\">chapters/a/src/lib.rs</p>\n\n\
             ```rust\n{{#include ../../chapters/a/src/lib.rs:b}}\n```\n"
        );
        assert_eq!(press(listing, Purpose::Testing).0, listing);
    }

    #[test]
    fn printing_code_and_what_the_author_says_is_folded() {
        let made = |info: &str, file: &str| {
            let listing =
                format!("```{info}\n{{{{#rustdoc_include ../../chapters/a/src/{file}}}}}\n```\n");
            let (made, _) = press(&listing, Purpose::Reading);
            assert!(made.contains(&format!(
                "```rust\n{{{{#include ../../chapters/a/src/{file}}}}}\n```"
            )));
            made.split_once("</summary>")
                .map(|(summary, _)| summary.to_owned())
        };
        let summary = |words: &str, file: &str| {
            Some(format!(
                "<details class=\"listing\"><summary>{words} <code>chapters/a/src/{file}</code>"
            ))
        };
        assert_eq!(
            made("rust", "main.rs:b"),
            summary("What prints this", "main.rs")
        );
        assert_eq!(
            made("rust", "lib.rs:b_imports"),
            summary("What this file uses", "lib.rs")
        );
        assert_eq!(
            made("rust,folded", "lib.rs:b"),
            summary("More of this file", "lib.rs")
        );
        assert_eq!(made("rust", "lib.rs:b"), None);
        assert_eq!(made("rust,shown", "main.rs:b"), None);
    }

    #[test]
    fn every_problem_names_its_line() {
        let (_, problems) = press(
            "{{#ouput a}}\n\n$\\frax$\n\n```text\n{{#output ch01-x b}}\n```\n\nend $$\n\n\
             ```rust,ignore\n```\n\n```dot \"C\"\ndigraph {\n a ->\n}\n```\n\n{{#include no.rs}}\n\n\
             a {{#figure ch01 x \"C\"}}\n\n```\nplain\n```\n",
            Purpose::Testing,
        );
        let lines: Vec<&str> = problems
            .iter()
            .map(|problem| problem.split(':').nth(1).unwrap())
            .collect();
        let mut sorted: Vec<usize> = lines.iter().map(|line| line.parse().unwrap()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 3, 6, 9, 11, 17, 20, 22, 24], "{problems:#?}");
    }

    #[test]
    fn a_diagram_becomes_a_figure_and_is_left_out_of_tests() {
        let text = "a\n\n```dot \"The *flow*\"\ndigraph { a -> b }\n```\nb\n";
        let (made, problems) = press(text, Purpose::Reading);
        assert_eq!(problems, [""; 0]);
        assert!(made.contains("<figure id=\"diagram-p-1\""), "{made}");
        assert!(
            made.contains("The <em>flow</em></figcaption></figure>\n\nb"),
            "{made}"
        );
        let (made, _) = press(text, Purpose::Testing);
        assert!(!made.contains("dot"), "{made}");
    }
}
