//! The promises of a literate book: all code is shown, no output is typed by hand, and nothing
//! lies about unused.

use binder::{Problem, cargo, directives, literate, outputs::Outputs, pictures};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The arguments of every directive of one name on a page.
fn arguments<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let (found, _) = directives::find(page);
    found
        .into_iter()
        .filter(|directive| directive.name == name)
        .map(|directive| directive.arguments)
        .collect()
}

fn assert_none(problems: &[Problem]) {
    let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        list.is_empty(),
        "\n{}\n{} problems",
        list.join("\n"),
        list.len()
    );
}

#[test]
fn every_line_of_code_is_shown() {
    assert_none(&literate::uncovered(root()).unwrap());
}

#[test]
fn no_rust_block_is_ignored() {
    assert_none(&literate::ignored_blocks(root()).unwrap());
}

#[test]
fn text_is_typed_only_where_that_is_allowed() {
    let list = "tests/typed-text-blocks.toml";
    let exempt: toml::Table =
        toml::from_str(&fs::read_to_string(root().join(list)).unwrap()).unwrap();
    let exempt: BTreeSet<(String, String)> = exempt
        .get("block")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
        .map(|block| {
            let text = |key: &str| {
                let value = block.get(key).and_then(toml::Value::as_str).unwrap_or("");
                assert!(!value.trim().is_empty(), "{list}: a block without {key}");
                value.to_owned()
            };
            text("reason");
            (text("file"), text("first_line"))
        })
        .collect();
    let typed = literate::typed_text_blocks(root()).unwrap();
    let mut problems: Vec<Problem> = typed
        .iter()
        .filter(|block| !exempt.contains(&(block.file.clone(), block.first_line.clone())))
        .map(|block| {
            let message = format!(
                "typed by hand and not listed in {list}: {}",
                block.first_line
            );
            Problem::new(&block.file, block.line, message)
        })
        .collect();
    for (file, first_line) in &exempt {
        if !typed
            .iter()
            .any(|block| (&block.file, &block.first_line) == (file, first_line))
        {
            let message = format!("{file} has no such block any more: {first_line}");
            problems.push(Problem::in_file(list, message));
        }
    }
    assert_none(&problems);
}

#[test]
fn every_section_that_is_printed_is_shown() {
    let outputs = Outputs::new(root());
    let mut problems = Vec::new();
    for chapter in outputs.chapters() {
        let page = format!("book/src/{chapter}.md");
        let text = fs::read_to_string(root().join(&page)).unwrap_or_default();
        let shown = arguments(&text, "output");
        for section in outputs.sections(&chapter).unwrap() {
            let wanted = format!("{chapter} {}", section.name);
            if !shown.contains(&wanted.as_str()) {
                let message = format!("the page does not show {{{{#output {wanted}}}}}");
                problems.push(Problem::in_file(&page, message));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_figure_is_shown() {
    let pages = literate::pages(root()).unwrap();
    let shown: BTreeSet<(&str, &str)> = pages
        .iter()
        .flat_map(|(_, text)| arguments(text, "figure"))
        .filter_map(|arguments| pictures::parse(arguments).ok())
        .map(|asked| asked.figure)
        .collect();
    let problems: Vec<Problem> = figures::all()
        .iter()
        .filter(|figure| !shown.contains(&(figure.chapter, figure.name)))
        .map(|figure| {
            let message = format!(
                "no page shows the figure {} {}",
                figure.chapter, figure.name
            );
            Problem::in_file("book/figures", message)
        })
        .collect();
    assert_none(&problems);
}

/// A snapshot belongs to a test that names it, or to the program of a chapter.
#[test]
fn every_snapshot_is_referred_to() {
    let chapters = cargo::chapters(root()).unwrap();
    let mut problems = Vec::new();
    for entry in fs::read_dir(root().join("tests/snapshots")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        // Files that insta writes for a person to review, and git does not keep.
        if file.ends_with(".new") || file.contains(".snap.new.") || file.ends_with(".pending-snap")
        {
            continue;
        }
        let name = file.split(".snap").next().unwrap_or("");
        let referred = match name.split_once("__") {
            Some(("programs", chapter)) => chapters.contains(&chapter.replace('_', "-")),
            Some((module, name)) => {
                let test = fs::read_to_string(root().join(format!("tests/{module}.rs")));
                test.is_ok_and(|test| {
                    test.contains(&format!("\"{name}\"")) || test.contains(&format!("\"{name}."))
                })
            }
            None => false,
        };
        if !referred {
            let message = "no test refers to this snapshot".to_owned();
            problems.push(Problem::in_file(format!("tests/snapshots/{file}"), message));
        }
    }
    assert_none(&problems);
}

/// The index of mistakes has an entry for each of them, by its title.
#[test]
fn every_mistake_is_in_the_index() {
    let pages = literate::pages(root()).unwrap();
    let file = "book/src/appendix-mistakes.md";
    let index = fs::read_to_string(root().join(file)).unwrap();
    let mut problems = Vec::new();
    for (page, text) in &pages {
        let section = text
            .split("\n## Where it goes wrong\n")
            .nth(1)
            .unwrap_or("");
        let section = section.split("\n## ").next().unwrap_or("");
        let name = page.rsplit('/').next().unwrap_or(page);
        for title in section.lines().filter_map(|line| line.strip_prefix("### ")) {
            if !index.contains(&format!("[{title}]({name}#")) {
                let message = format!("`{title}` of {name} is not in the index");
                problems.push(Problem::in_file(file, message));
            }
        }
    }
    assert_none(&problems);
}

/// The works that the doc comments of a file name behind `Source:`, each as the surname of its first
/// author and its year, if it has one.
fn works(code: &str) -> Vec<(String, Option<String>)> {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(first) = line.strip_prefix("/// Source: ") else {
            continue;
        };
        let more = lines[i + 1..]
            .iter()
            .map_while(|line| line.strip_prefix("/// "));
        let text = std::iter::once(first).chain(more).collect::<Vec<_>>();
        for work in text.join(" ").split(';') {
            let name = work
                .split(|c: char| !c.is_alphabetic())
                .find(|word| word.starts_with(char::is_uppercase));
            let year = work
                .split(['(', ')'])
                .find(|part| part.len() == 4 && part.chars().all(|c| c.is_ascii_digit()));
            let name = name.unwrap_or_else(|| panic!("a source without a name: {work}"));
            found.push((name.to_owned(), year.map(str::to_owned)));
        }
    }
    found
}

#[test]
fn every_source_is_on_the_page() {
    let mut problems = Vec::new();
    for (chapter, page) in chapters_and_pages() {
        let text = fs::read_to_string(&page).unwrap();
        let section = text.split("\n## Sources\n").nth(1).unwrap_or("");
        let section = section.split("\n## ").next().unwrap();
        let mut count = 0;
        for file in rust_files(&chapter.join("src")) {
            for (name, year) in works(&fs::read_to_string(&file).unwrap()) {
                count += 1;
                let listed = section.lines().any(|line| {
                    line.starts_with("- ")
                        && line.contains(&name)
                        && year.as_ref().is_none_or(|year| line.contains(year))
                });
                if !listed {
                    let year = year.unwrap_or_default();
                    problems.push(format!("{}: {name} {year}", page.display()));
                }
            }
        }
        assert!(count > 0, "{}: no source is named", chapter.display());
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Each chapter's folder and its page.
fn chapters_and_pages() -> Vec<(std::path::PathBuf, std::path::PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("chapters")).unwrap() {
        let chapter = entry.unwrap().path();
        let name = chapter.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("ch") {
            found.push((chapter, root().join(format!("book/src/{name}.md"))));
        }
    }
    assert!(!found.is_empty());
    found
}

/// All files of Rust below a folder.
fn rust_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}
