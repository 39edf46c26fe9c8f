//! Each fault that a book can have is told with its file and line, and none leaves anything behind.

use binder::{Problems, bind};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const BOOK: &str = r#"
[book]
title = "A small book"
src = "book/src"
[build]
build-dir = "target/book"
create-missing = false
[preprocessor.binder]
command = "book preprocess binder"
before = ["links"]
[output.html]
additional-css = ["book/theme/book.css"]
"#;

const PAGE: &str = "# One

See [two](two.md#there) and $E = QK^\\top$.

```text
{{#output ch01-x dots}}
```

```rust
{{#rustdoc_include ../../chapters/ch01-x/src/lib.rs:a}}
```

```dot \"From $a$ to b\"
digraph { a -> b }
```

The score is $q = {{#value ch01-x dots q1 · k2}}$.
";

/// A small book, all of it right.
fn book() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("book.toml", BOOK),
        ("book/src/SUMMARY.md", "- [One](one.md)\n- [Two](two.md)\n"),
        ("book/src/one.md", PAGE),
        ("book/src/two.md", "# Two\n\n## There\n\n[back](one.md)\n"),
        ("book/theme/book.css", "figure { margin: 0 }\n"),
        (
            "chapters/ch01-x/src/lib.rs",
            "// ANCHOR: a\npub fn a() {}\n// ANCHOR_END: a\n",
        ),
        (
            "tests/snapshots/programs__ch01_x.snap.txt",
            "# dots: Scores\nq1 · k2 = 2.40\n",
        ),
    ] {
        write(root.path(), file, text);
    }
    root
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn problems(root: &Path) -> Vec<String> {
    let error = bind::bind(root).expect_err("the book has a fault");
    match error.downcast_ref::<Problems>() {
        Some(problems) => problems.list().iter().map(ToString::to_string).collect(),
        None => panic!("not a list of problems: {error:#}"),
    }
}

/// Every file below a folder with its content.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                contents.insert(name, fs::read(path).unwrap());
            }
        }
    }
    contents
}

/// Adds a line 19 to the first page, and says what is then wrong with the book.
#[track_caller]
fn assert_fault(line: &str, expected: &[&str]) {
    let root = book();
    assert_eq!(PAGE.lines().count(), 17);
    write(root.path(), "book/src/one.md", &format!("{PAGE}\n{line}\n"));
    let found = problems(root.path());
    let [problem] = &found[..] else {
        panic!("not one problem: {found:#?}");
    };
    assert!(problem.starts_with("book/src/one.md:19: "), "{problem}");
    for part in expected {
        assert!(problem.contains(part), "`{part}` is not in: {problem}");
    }
    assert!(!root.path().join("target/book").exists());
}

#[test]
fn a_formula_that_does_not_parse() {
    assert_fault(
        r"A formula $\frax{1}{2}$ here.",
        &[r"\frax", "does not parse"],
    );
    assert_fault(r"$$ \begin{pmatrix} a \end{matrix} $$", &["does not parse"]);
}

#[test]
fn a_dollar_sign_without_the_other() {
    assert_fault("Half a formula $$ x", &["$$ opens or closes no formula"]);
    assert_fault("Half a formula $x", &["$ opens or closes no formula"]);
}

#[test]
fn a_figure_that_is_not_there() {
    assert_fault(
        r#"{{#figure ch99 nothing "A caption"}}"#,
        &["no figures for `ch99`", "known chapters: "],
    );
    assert_fault("{{#figure ch99}}", &["write {{#figure chapter name"]);
}

#[test]
fn an_output_that_is_not_there() {
    assert_fault(
        "{{#output ch02-y dots}}",
        &["`ch02-y`", "known chapters: ch01-x"],
    );
    assert_fault(
        "{{#output ch01-x dits}}",
        &["`dits`", "known sections: dots"],
    );
    assert_fault(
        "It is $x = {{#value ch01-x dots q9}}$.",
        &["`q9`", "known labels: q1 · k2"],
    );
}

#[test]
fn an_include_that_is_not_there() {
    assert_fault(
        "{{#include ../../chapters/ch01-x/src/lib.rs:b}}",
        &["no anchor `b`", "known anchors: a"],
    );
    assert_fault("{{#include no.rs}}", &["cannot include `no.rs`"]);
    assert_fault(
        "{{#include ../../chapters/ch01-x/src/lib.rs:2:9}}",
        &["3 lines"],
    );
}

#[test]
fn a_directive_that_does_not_exist() {
    assert_fault(
        "{{#ouput ch01-x dots}}",
        &["{{#ouput}}", "known directives: figure, include"],
    );
}

#[test]
fn a_link_that_leads_nowhere() {
    assert_fault("[x](three.md)", &["leads nowhere"]);
    assert_fault("[x](two.md#here)", &["two.html has no #here"]);
    assert_fault("[x](#here)", &["has no #here"]);
    assert_fault("[x](../../README.md)", &["out of the book"]);
}

#[test]
fn something_fetched_from_outside() {
    assert_fault("![x](https://example.org/x.png)", &["fetched from outside"]);
    assert_fault("[x](http://example.org)", &["not https"]);
}

#[test]
fn code_that_is_not_tested() {
    assert_fault("```rust,ignore\n```", &["never ignored"]);
    assert_fault("```\nlet x;\n```", &["says the language"]);
}

#[test]
fn a_diagram_without_a_caption() {
    assert_fault("```dot\ndigraph { a }\n```", &["has a caption"]);
}

#[test]
fn html_that_is_not_balanced() {
    let root = book();
    write(
        root.path(),
        "book/src/two.md",
        "# Two\n\n## There\n\na <b>b\n",
    );
    let found = problems(root.path());
    assert!(found[0].contains("unclosed HTML tag `<b>`"), "{found:?}");
}

#[test]
fn all_problems_are_told_at_once() {
    let root = book();
    write(
        root.path(),
        "book/src/one.md",
        &format!("{PAGE}\n$\\frax$\n\n[x](no.md)\n"),
    );
    write(
        root.path(),
        "book/src/two.md",
        "# Two\n\n## There\n\n{{#ouput}}\n",
    );
    let places: Vec<String> = problems(root.path())
        .iter()
        .map(|problem| problem.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "book/src/one.md:19",
            "book/src/one.md:21",
            "book/src/two.md:5"
        ]
    );
}

#[test]
fn a_book_with_problems_leaves_the_last_one_as_it_was() {
    let root = book();
    let target = bind::bind(root.path()).unwrap();
    let before = contents(&target);
    write(root.path(), "book/src/two.md", "# Two\n\n$$\n");
    assert!(!problems(root.path()).is_empty());
    assert_eq!(contents(&target), before);
    let beside: Vec<_> = fs::read_dir(root.path().join("target")).unwrap().collect();
    assert_eq!(beside.len(), 1, "something else is left behind: {beside:?}");
}

#[test]
fn a_book_is_bound_to_the_same_bytes_each_time() {
    let root = book();
    let first = contents(&bind::bind(root.path()).unwrap());
    let second = contents(&bind::bind(root.path()).unwrap());
    assert_eq!(first, second);
    let page = String::from_utf8(first[Path::new("one.html")].clone()).unwrap();
    for part in [
        "<math",
        "<figcaption>",
        "q1 · k2 = 2.40",
        "pub fn a()",
        "2.40</mn>",
    ] {
        assert!(page.contains(part), "`{part}` is not on the page");
    }
}

#[test]
fn this_book_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if let Err(error) = bind::bind_into(root, &folder.path().join("book")) {
        panic!("{error:#}");
    }
}

#[test]
fn every_rust_block_of_this_book_passes() {
    if let Err(error) = bind::test(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        panic!("{error:#}");
    }
}
