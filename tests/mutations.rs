//! How each mistake would be caught: mutations of the chapters' code, one at a time in a
//! copy, and the chapters' own tests must notice every one.

use anyhow::{Context, Result, ensure};
use binder::cargo;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod support;

/// How many tests a row of the table names.
const NAMED: usize = 3;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table(text: &str) -> toml::Table {
    toml::from_str(text).unwrap()
}

/// A mistake, as a change to one place of one file.
struct Mutation {
    name: String,
    mistake: String,
    file: String,
    find: String,
    replace: String,
    page: String,
}

impl Mutation {
    fn all() -> Vec<Self> {
        let list = table(include_str!("mutations.toml"));
        let list = list["mutation"].as_array().unwrap();
        list.iter().map(Self::from_toml).collect()
    }

    fn from_toml(value: &toml::Value) -> Self {
        let text = |key: &str| {
            let text = value.get(key).and_then(toml::Value::as_str);
            text.unwrap_or_else(|| panic!("a mutation without {key}: {value}"))
                .to_owned()
        };
        Self {
            name: text("name"),
            mistake: text("mistake"),
            file: text("file"),
            find: text("find"),
            replace: text("replace"),
            page: text("page"),
        }
    }

    /// The file below a root with this mistake in it.
    fn apply(&self, root: &Path) -> Result<String> {
        let text = fs::read_to_string(root.join(&self.file))?.replace("\r\n", "\n");
        let places = text.matches(&self.find).count();
        ensure!(
            places == 1,
            "the mutation “{}” no longer applies: its text stands {places} times in {}",
            self.name,
            self.file
        );
        let mutated = text.replace(&self.find, &self.replace);
        ensure!(mutated != text, "“{}” changes nothing", self.name);
        Ok(mutated)
    }

    /// The chapter whose code it changes.
    fn chapter(&self) -> &str {
        self.file.split('/').nth(1).unwrap()
    }

    /// The beginning of the table's row: everything that is known without a run.
    fn row(&self) -> String {
        format!("| [{}]({})<br>{} |", self.name, self.page, self.mistake)
    }
}

/// A copy of the chapters, as a workspace of their own.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Always at the same place, so that what is built for one mutation serves the next.
    fn new() -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutations");
        let copy = Self {
            root: folder.join("copy"),
            target: folder.join("target"),
        };
        if copy.root.exists() {
            fs::remove_dir_all(&copy.root)?;
        }
        for chapter in cargo::chapters(root())? {
            let chapter = Path::new("chapters").join(chapter);
            copy_folder(&root().join(&chapter), &copy.root.join(&chapter))?;
        }
        fs::write(copy.root.join("Cargo.toml"), manifest()?)?;
        fs::copy(root().join("Cargo.lock"), copy.root.join("Cargo.lock"))?;
        Ok(copy)
    }

    /// Builds the tests of a chapter. What does not compile is an error, and no catch.
    fn build(&self, chapter: &str) -> Result<Vec<Program>> {
        let output = cargo::command(&self.root)
            .args(["test", "--package", chapter, "--lib", "--test", "*"])
            .args(["--no-run", "--offline", "--message-format", "json"])
            .arg("--target-dir")
            .arg(&self.target)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "it does not compile:\n{errors}");
        let messages = String::from_utf8(output.stdout)?;
        let mut programs: Vec<_> = messages.lines().filter_map(Program::of_message).collect();
        programs.sort();
        Ok(programs)
    }

    /// Builds the tests of a chapter and of those after it, and runs them: those that go red, until
    /// there are more than are named.
    fn red_from(&self, first: &str) -> Result<Vec<String>> {
        let mut red = Vec::new();
        for chapter in cargo::chapters(root())? {
            // No earlier chapter uses a later one.
            if *chapter < *first {
                continue;
            }
            for program in self.build(&chapter)? {
                red.extend(program.red()?);
                if red.len() > NAMED {
                    return Ok(red);
                }
            }
        }
        Ok(red)
    }

    fn red_with(&self, mutation: &Mutation) -> Result<Vec<String>> {
        let file = self.root.join(&mutation.file);
        let sound = fs::read_to_string(&file)?;
        fs::write(&file, mutation.apply(&self.root)?)?;
        let red = self.red_from(mutation.chapter());
        fs::write(&file, sound)?;
        red.with_context(|| format!("with the mutation “{}”", mutation.name))
    }
}

/// The workspace's manifest without its own package.
fn manifest() -> Result<String> {
    let mut manifest = table(&fs::read_to_string(root().join("Cargo.toml"))?);
    manifest.retain(|key, _| key == "workspace" || key == "profile");
    let members = vec![toml::Value::from("chapters/ch*")];
    manifest["workspace"]["members"] = members.into();
    Ok(manifest.to_string())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            // Written, not copied: its time must be now, or cargo takes it for what it built last.
            fs::write(to, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// The tests of one file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    folder: PathBuf,
    path: PathBuf,
}

impl Program {
    fn of_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let manifest = Path::new(message["manifest_path"].as_str()?);
        Some(Self {
            folder: manifest.parent()?.to_owned(),
            path: message["executable"].as_str()?.into(),
        })
    }

    fn red(&self) -> Result<Vec<String>> {
        let output = Command::new(&self.path)
            .current_dir(&self.folder)
            .output()?;
        let red = failed(&output);
        ensure!(
            output.status.success() == red.is_empty(),
            "{} ends with {}, but {} of its tests failed",
            self.path.display(),
            output.status,
            red.len()
        );
        Ok(red)
    }
}

fn failed(output: &Output) -> Vec<String> {
    let report = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<_> = report
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(str::to_owned)
        .collect();
    // They run side by side, and end in any order.
    names.sort();
    names
}

/// The names of the first few tests, as words.
fn named(red: &[String]) -> String {
    let mut names: Vec<_> = red
        .iter()
        .take(NAMED)
        .map(|name| name.rsplit("::").next().unwrap().replace('_', " "))
        .collect();
    if red.len() > NAMED {
        names.push("and others".to_owned());
    }
    names.join("; ")
}

fn is_asked_for() -> bool {
    ["BOOK_REQUIRE_TOOLS", "BOOK_MUTATIONS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

#[test]
fn every_mutation_turns_a_test_red() {
    if !is_asked_for() {
        let why = "it takes minutes; set BOOK_MUTATIONS=1 to run it";
        support::skip("every_mutation_turns_a_test_red", why);
        return;
    }
    let copy = Copy::new().unwrap();
    let red = copy.red_from("").unwrap();
    assert!(red.is_empty(), "red without any mutation: {red:?}");
    let mut page = String::from("| mistake | what goes red |\n|---|---|\n");
    let mut unnoticed = Vec::new();
    for mutation in Mutation::all() {
        let red = copy.red_with(&mutation).unwrap();
        writeln!(page, "{} {} |", mutation.row(), named(&red)).unwrap();
        if red.is_empty() {
            unnoticed.push(mutation.name);
        }
    }
    assert!(unnoticed.is_empty(), "nothing goes red: {unnoticed:?}");
    insta::assert_binary_snapshot!("table.md", page.into_bytes());
}

#[test]
fn every_mutation_still_applies() {
    let mutations = Mutation::all();
    assert_eq!(mutations.len(), 27);
    for mutation in mutations {
        mutation.apply(root()).unwrap();
    }
}

/// The page cannot fall behind the list, even where the mutations are not run. Where they are, the
/// whole table is compared.
#[test]
fn the_table_is_of_these_mutations() {
    if is_asked_for() {
        return;
    }
    let file = root().join("tests/snapshots/mutations__table.snap.md");
    let table = fs::read_to_string(file).unwrap().replace("\r\n", "\n");
    let rows: Vec<_> = table.lines().skip(2).collect();
    let mutations = Mutation::all();
    assert_eq!(rows.len(), mutations.len());
    for (row, mutation) in rows.iter().zip(&mutations) {
        assert!(
            row.starts_with(&mutation.row()),
            "not the row of “{}”; BOOK_MUTATIONS=1 INSTA_UPDATE=always writes the table anew: {row}",
            mutation.name
        );
    }
}
