//! The tester behind `mdbook test`: every Rust block of the book is compiled against the chapters'
//! own libraries, and run.
//!
//! mdBook's own testing passes no libraries, so it is handed nothing that is left to test.

use crate::cargo::{self, Libraries};
use crate::includes;
use crate::literate;
use crate::markdown::{self, CodeBlock};
use crate::preprocessor::display;
use crate::problem::{Problem, Problems, line_at};
use anyhow::{Context, Result};
use mdbook_preprocessor::book::{Book, BookItem, Chapter};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use regex::Regex;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tests every page of a book, and leaves mdBook none.
#[derive(Debug, Default)]
pub struct Blocks;

impl Blocks {
    /// The name that book.toml gives it.
    pub const NAME: &'static str = "blocks";

    /// Whether the tester has anything to do for this renderer of mdBook's.
    pub fn supports(renderer: &str) -> bool {
        renderer == "test"
    }
}

impl Preprocessor for Blocks {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn supports_renderer(&self, renderer: &str) -> Result<bool> {
        Ok(Self::supports(renderer))
    }

    fn run(&self, ctx: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let root = canonical(&ctx.root)?;
        let libraries = cargo::libraries(&root)?;
        let folder = tempfile::tempdir()?;
        let mut pages = Vec::new();
        for item in book.iter() {
            if let BookItem::Chapter(chapter) = item {
                pages.extend(TestPage::of(chapter, &root, &ctx.config.book.src)?);
            }
        }
        // What is listed from a program has to be built as one.
        if pages.iter().any(|page| page.lists_programs) {
            cargo::programs(&root)?;
        }
        let mut problems = Vec::new();
        let mut total = Count::default();
        for (page, tested) in pages
            .iter()
            .zip(test_all(&pages, &libraries, folder.path()))
        {
            let (count, mut found) = tested?;
            if !count.is_empty() {
                eprintln!("{}: {count}", page.name);
            }
            total.add(&count);
            problems.append(&mut found);
        }
        eprintln!("All pages: {total}");
        Problems::none_in(problems)?;
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item {
                chapter.path = None;
                chapter.content.clear();
            }
        });
        Ok(book)
    }
}

/// The path without `.` and links; rustdoc and cargo are to agree on names.
fn canonical(root: &Path) -> Result<std::path::PathBuf> {
    if cfg!(windows) {
        // The canonical form of a path on Windows is one that few programs read.
        return Ok(std::path::absolute(root)?);
    }
    Ok(root.canonicalize()?)
}

/// What became of each page, in order. Rustdoc compiles a page on one core, so several are tested
/// side by side.
fn test_all(
    pages: &[TestPage],
    libraries: &Libraries,
    folder: &Path,
) -> Vec<Result<(Count, Vec<Problem>)>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tested = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(page) = pages.get(index)
        {
            tested.push((index, page.test(libraries, folder)));
        }
        tested
    };
    let mut tested: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        results
            .flat_map(|tested| tested.expect("a test of a page does not panic"))
            .collect()
    });
    tested.sort_by_key(|(index, _)| *index);
    tested.into_iter().map(|(_, result)| result).collect()
}

/// What became of some blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    compile_fail: usize,
    should_panic: usize,
    /// Listings of parts of a crate, which were compiled with it and not by themselves.
    listed: usize,
}

impl Count {
    fn is_empty(&self) -> bool {
        self.passed + self.failed + self.listed == 0
    }

    fn add(&mut self, other: &Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.compile_fail += other.compile_fail;
        self.should_panic += other.should_panic;
        self.listed += other.listed;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = if self.passed == 1 { "block" } else { "blocks" };
        write!(f, "{} {blocks} passed", self.passed)?;
        let kinds: Vec<String> = [
            (self.compile_fail, "compile_fail"),
            (self.should_panic, "should_panic"),
        ]
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, kind)| format!("{number} {kind}"))
        .collect();
        if !kinds.is_empty() {
            write!(f, " ({})", kinds.join(", "))?;
        }
        if self.listed > 0 {
            write!(f, ", {} compiled with their crates", self.listed)?;
        }
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        Ok(())
    }
}

/// The Rust blocks of one page, and where its author wrote them.
struct TestPage {
    /// The file's name.
    name: String,
    /// The file as problems are to name it.
    file: String,
    blocks: Vec<(CodeBlock, Option<usize>)>,
    /// How many other blocks are listings of parts of a crate.
    listed: usize,
    /// Whether one of them belongs to a program.
    lists_programs: bool,
}

impl TestPage {
    fn of(chapter: &Chapter, root: &Path, src: &Path) -> Result<Option<Self>> {
        let Some(source) = &chapter.source_path else {
            return Ok(None);
        };
        let written = fs::read_to_string(root.join(src).join(source))
            .with_context(|| format!("cannot read {}", source.display()))?;
        let (blocks, listings) = locate(&chapter.content, &written, root);
        Ok(Some(TestPage {
            name: display(source),
            file: display(&src.join(source)),
            blocks,
            listed: listings.len(),
            lists_programs: listings.iter().any(|file| file.contains("/src/bin/")),
        }))
    }

    fn test(&self, libraries: &Libraries, folder: &Path) -> Result<(Count, Vec<Problem>)> {
        let mut problems = Vec::new();
        let stem = Path::new(&self.name).file_stem().unwrap_or_default();
        let mut count = Count {
            listed: self.listed,
            ..Count::default()
        };
        if self.blocks.is_empty() {
            if cargo::is_chapter(&stem.to_string_lossy()) {
                let message = "a chapter without a Rust block tests nothing";
                problems.push(Problem::in_file(&self.file, message));
            }
            return Ok((count, problems));
        }
        let (markdown, lines) = self.markdown();
        let page = folder.join(self.name.replace('/', "-"));
        fs::write(&page, markdown)?;
        let mut rustdoc = Command::new(std::env::var_os("RUSTDOC").unwrap_or("rustdoc".into()));
        // A trace of calls says nothing about the block, and hides what does.
        rustdoc.env_remove("RUST_BACKTRACE");
        rustdoc.args(["--test", "--edition=2024"]).arg(&page);
        for (name, file) in &libraries.externs {
            let mut argument = std::ffi::OsString::from(format!("{name}="));
            argument.push(file);
            rustdoc.arg("--extern").arg(argument);
        }
        for dir in &libraries.folders {
            let mut argument = std::ffi::OsString::from("dependency=");
            argument.push(dir);
            rustdoc.arg("-L").arg(argument);
        }
        let output = rustdoc
            .current_dir(folder)
            .output()
            .context("cannot run rustdoc")?;
        let report = String::from_utf8_lossy(&output.stdout);
        for outcome in outcomes(&report) {
            let index = lines
                .iter()
                .rposition(|&line| line <= outcome.line)
                .unwrap_or(0);
            let (block, source_line) = &self.blocks[index];
            count.compile_fail += usize::from(block.words().any(|w| w.starts_with("compile_fail")));
            count.should_panic += usize::from(block.words().any(|w| w == "should_panic"));
            if outcome.passed {
                count.passed += 1;
                continue;
            }
            count.failed += 1;
            let details = details(&report, outcome.line);
            let message = format!("this Rust block fails\n{details}");
            problems.push(match source_line {
                Some(line) => Problem::new(&self.file, *line, message.trim_end()),
                None => Problem::in_file(&self.file, message.trim_end()),
            });
        }
        if count.passed + count.failed != self.blocks.len()
            || count.failed == 0 && !output.status.success()
        {
            let errors = String::from_utf8_lossy(&output.stderr);
            let message = format!(
                "rustdoc tested {} of {} Rust blocks\n{report}{errors}",
                count.passed + count.failed,
                self.blocks.len()
            );
            problems.push(Problem::in_file(&self.file, message.trim_end()));
        }
        Ok((count, problems))
    }

    /// A page with nothing but the blocks, and the line that each of them begins in.
    fn markdown(&self) -> (String, Vec<usize>) {
        let mut text = String::new();
        let mut lines = Vec::new();
        for (block, _) in &self.blocks {
            lines.push(line_at(&text, text.len()));
            let info = block.info.as_deref().unwrap_or("rust");
            text.push_str(&format!("``````{info}\n"));
            for line in block.code.lines().filter(|line| !is_outer(line)) {
                text.push_str(line);
                text.push('\n');
            }
            text.push_str("``````\n\n");
        }
        (text, lines)
    }
}

/// Hidden lines that speak of the file they were included from, and have no place in a block: its
/// documentation and its attributes. They would also keep rustdoc from compiling blocks together.
fn is_outer(line: &str) -> bool {
    line.strip_prefix("# ")
        .map(str::trim_start)
        .is_some_and(|hidden| hidden.starts_with("//!") || hidden.starts_with("#!["))
}

/// The Rust blocks of a page that have to be tested, each with its line in the text the author wrote, and
/// the files of the other ones. The includes change the length of blocks but not their number.
fn locate(
    expanded: &str,
    written: &str,
    root: &Path,
) -> (Vec<(CodeBlock, Option<usize>)>, Vec<String>) {
    let rust = |text: &str| -> Vec<CodeBlock> {
        let mut blocks = markdown::code_blocks(text);
        blocks.retain(|block| block.language() == "rust");
        blocks
    };
    let (blocks, originals) = (rust(expanded), rust(written));
    if blocks.len() != originals.len() {
        return (
            blocks.into_iter().map(|block| (block, None)).collect(),
            vec![],
        );
    }
    let (mut tested, mut listings) = (Vec::new(), Vec::new());
    for (block, original) in blocks.into_iter().zip(originals) {
        match includes::listed_file(&original.code).filter(|file| is_part_of_crate(file, root)) {
            Some(file) => listings.push(file.to_owned()),
            None => tested.push((block, Some(line_at(written, original.range.start)))),
        }
    }
    (tested, listings)
}

/// Whether a file is one of several that make a chapter's crate or the reader's own, which say `crate::`
/// and `mod` and do not compile by themselves. It was compiled when the crate was built, or, if it is a
/// solution, when the solutions were judged.
fn is_part_of_crate(file: &str, root: &Path) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    if let ["chapters", "mine", "solutions", _] = parts[..] {
        return true;
    }
    let ["chapters", chapter, "src", ref rest @ ..] = parts[..] else {
        return false;
    };
    let is_alone = || literate::library_files(root, chapter).is_ok_and(|files| files.len() == 1);
    cargo::is_chapter(chapter)
        && match rest {
            ["main.rs"] => false,
            ["lib.rs"] => !is_alone(),
            _ => true,
        }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    line: usize,
    passed: bool,
}

fn outcomes(report: &str) -> Vec<Outcome> {
    static TEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^test .*\(line (\d+)\).* \.\.\. (\w+)").expect("the pattern is valid")
    });
    TEST.captures_iter(report)
        .filter_map(|test| {
            Some(Outcome {
                line: test[1].parse().ok()?,
                passed: &test[2] == "ok",
            })
        })
        .collect()
}

/// What rustdoc says of a block that failed.
fn details(report: &str, line: usize) -> String {
    let heading = format!("(line {line}) stdout ----");
    report
        .lines()
        .skip_while(|text| !(text.starts_with("---- ") && text.ends_with(&heading)))
        .skip(1)
        .take_while(|text| !text.starts_with("---- ") && *text != "failures:")
        .filter(|text| !text.is_empty())
        .map(|text| format!("    {text}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_the_authors_text() {
        let written = "# A\n\n```rust\n{{#include a.rs}}\n```\n\n```text\nx\n```\n\n```rust,should_panic\n```\n";
        let expanded = written.replace("{{#include a.rs}}", "a\nb\nc");
        let (blocks, listings) = locate(&expanded, written, Path::new(""));
        let lines: Vec<_> = blocks.into_iter().map(|b| b.1).collect();
        assert_eq!(lines, [Some(3), Some(11)]);
        assert!(listings.is_empty());
    }

    #[test]
    fn a_crate_of_several_files_is_compiled_as_one() {
        let root = tempfile::tempdir().unwrap();
        for file in ["ch01-x/src/lib.rs", "ch08-x/src/lib.rs", "ch08-x/src/a.rs"] {
            let file = root.path().join("chapters").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let files = ["ch08-x/src/a.rs", "ch08-x/src/lib.rs", "ch01-x/src/lib.rs"];
        let files = files.map(|file| format!("chapters/{file}"));
        let listing =
            |file: &String| format!("```rust\n{{{{#rustdoc_include ../../{file}:a}}}}\n```\n");
        let written: String = files.iter().map(listing).collect();
        let expanded = "```rust\na\n```\n```rust\nb\n```\n```rust\nc\n```\n";
        let (blocks, listings) = locate(expanded, &written, root.path());
        assert_eq!(listings, files[..2]);
        assert_eq!(blocks[0].0.code, "c\n");
    }

    #[test]
    fn hidden_headers_are_left_out_of_blocks() {
        assert!(is_outer("# //! A crate") && is_outer("# #![allow(x)]"));
        assert!(
            !is_outer("# // a comment") && !is_outer("//! shown") && !is_outer("# #[derive(X)]")
        );
    }

    #[test]
    fn rustdocs_report_is_read() {
        let report = "\nrunning 3 tests\n\
            test /t/p.md - A::B (line 3) ... ok\n\
            test /t/p.md - A::B (line 9) - compile fail ... ok\n\
            test /t/p.md - A::B (line 12) ... FAILED\n\nfailures:\n\n\
            ---- /t/p.md - A::B (line 12) stdout ----\nTest executable failed\n\n  left: 1\n\n\nfailures:\n    x\n";
        let outcomes = outcomes(report);
        assert_eq!(
            outcomes
                .iter()
                .map(|o| (o.line, o.passed))
                .collect::<Vec<_>>(),
            [(3, true), (9, true), (12, false)]
        );
        assert_eq!(
            details(report, 12),
            "    Test executable failed\n      left: 1\n"
        );
    }

    #[test]
    fn counts_are_said_in_words() {
        let count = Count {
            listed: 0,
            passed: 14,
            failed: 0,
            compile_fail: 1,
            should_panic: 1,
        };
        assert_eq!(
            count.to_string(),
            "14 blocks passed (1 compile_fail, 1 should_panic)"
        );
    }
}
