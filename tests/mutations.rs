//! How each mistake would be caught: mutations of the chapters' code, and the chapters' own tests
//! must notice every one. All of them are built once, into a copy in which every mutated function
//! has its body twice, sound and with the mistake. An environment variable chooses when a test
//! program runs.

use anyhow::{Context, Result, ensure};
use binder::cargo;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

mod support;

/// How many tests a row of the table names.
const NAMED: usize = 3;

/// How many mutations are tried side by side. Many tests use several processors themselves.
const SIDE_BY_SIDE: usize = 2;

/// Says which mutation is wanted. Every mutated file of the copy ends with its reader.
const SWITCH: &str = "BOOK_MUTANT";

const READER: &str = r#"
fn mutant(name: &str) -> bool {
    static WANTED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    WANTED.get_or_init(|| std::env::var("BOOK_MUTANT").unwrap_or_default()) == name
}
"#;

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

    /// The file below a root, and where in it the one place to change begins.
    fn place(&self, root: &Path) -> Result<(String, usize)> {
        let text = fs::read_to_string(root.join(&self.file))?.replace("\r\n", "\n");
        let places: Vec<_> = text.match_indices(&self.find).map(|(at, _)| at).collect();
        ensure!(
            places.len() == 1,
            "the mutation “{}” no longer applies: its text stands {} times in {}",
            self.name,
            places.len(),
            self.file
        );
        ensure!(self.find != self.replace, "“{}” changes nothing", self.name);
        let at = places[0];
        Ok((text, at))
    }

    /// The body of the function that it changes, as a range of the file.
    fn body(&self, text: &str, at: usize) -> Result<Range<usize>> {
        let end = at + self.find.len();
        let body = bodies(text).rfind(|body| body.start <= at && end <= body.end);
        body.with_context(|| format!("“{}” is not within a function", self.name))
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

/// The bodies of all functions of a file that rustfmt has laid out: the line that opens one and the
/// line that closes it are indented as far as `fn`.
fn bodies(text: &str) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
    let head = Regex::new(r"(?m)^( *)(?:pub(?:\([a-z ]+\))? )?fn ").unwrap();
    let bodies: Vec<_> = head
        .captures_iter(text)
        .filter_map(|head| {
            let (indent, start) = (&head[1], head.get(0)?.start());
            let opens = Regex::new(&format!(r"(?m)^{indent}[^ \n].*\{{\n|^{indent}\{{\n")).unwrap();
            let start = opens.find_at(text, start)?.end();
            let end = start + text[start..].find(&format!("\n{indent}}}\n"))? + 1;
            Some(start..end)
        })
        .collect();
    bodies.into_iter()
}

/// A file with all of its mistakes in it, each behind the switch.
fn switched(root: &Path, mutations: &[&Mutation]) -> Result<String> {
    let mut text = String::new();
    let mut bodies: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for mutation in mutations {
        let (sound, at) = mutation.place(root)?;
        let body = mutation.body(&sound, at)?;
        let mutated = sound[body.clone()].replace(&mutation.find, &mutation.replace);
        let branch = format!("if mutant({:?}) {{\n{mutated}}} else ", mutation.name);
        let (_, branches) = bodies
            .entry(body.start)
            .or_insert((body.end, String::new()));
        branches.push_str(&branch);
        text = sound;
    }
    // From the last to the first, so that no place moves before its turn.
    for (start, (end, branches)) in bodies.into_iter().rev() {
        text.insert_str(end, "}\n");
        text.insert_str(start, &format!("{branches}{{\n"));
    }
    Ok(text + READER)
}

/// A copy of the chapters with every mistake in it, as a workspace of their own.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Always at the same place, so that only what has changed since is built.
    fn new(mutations: &[Mutation]) -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutations");
        let copy = Self {
            root: folder.join("copy"),
            target: folder.join("target"),
        };
        let mut files = BTreeMap::new();
        for chapter in cargo::chapters(root())? {
            for path in files_below(&root().join("chapters").join(chapter))? {
                let bytes = fs::read(&path)?;
                files.insert(path.strip_prefix(root())?.to_owned(), bytes);
            }
        }
        let mut mutated: BTreeMap<&str, Vec<&Mutation>> = BTreeMap::new();
        for mutation in mutations {
            mutated.entry(&mutation.file).or_default().push(mutation);
        }
        for (file, mutations) in mutated {
            files.insert(file.into(), switched(root(), &mutations)?.into());
        }
        files.insert("Cargo.toml".into(), manifest()?.into());
        files.insert("Cargo.lock".into(), fs::read(root().join("Cargo.lock"))?);
        hold(&copy.root, &files)?;
        Ok(copy)
    }

    /// Builds the tests of all chapters. What does not compile is an error, and no catch.
    fn build(&self) -> Result<Vec<Program>> {
        let output = cargo::command(&self.root)
            .args(["test", "--workspace", "--lib", "--test", "*"])
            .args(["--no-run", "--offline", "--message-format", "json"])
            .arg("--target-dir")
            .arg(&self.target)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "it does not compile:\n{errors}");
        let messages = String::from_utf8(output.stdout)?;
        let mut programs: Vec<_> = messages.lines().filter_map(Program::of_message).collect();
        programs.sort_by(|a, b| (&a.folder, &a.path).cmp(&(&b.folder, &b.path)));
        Ok(programs)
    }
}

/// Runs the tests of a mutation's chapter and of those after it: those that go red, until there are
/// more than are named.
fn red_with(mutation: &Mutation, programs: &[Program]) -> Result<Vec<String>> {
    let mut red = Vec::new();
    for program in programs {
        // No earlier chapter uses a later one.
        if program.chapter() < mutation.chapter() {
            continue;
        }
        let more = program.red(&mutation.name);
        red.extend(more.with_context(|| format!("with the mutation “{}”", mutation.name))?);
        if red.len() > NAMED {
            break;
        }
    }
    Ok(red)
}

/// What goes red with each mutation, in their order.
fn red_with_each(mutations: &[Mutation], programs: &[Program]) -> Vec<Vec<String>> {
    let next = Mutex::new(mutations.iter().enumerate());
    let red = Mutex::new(vec![Vec::new(); mutations.len()]);
    let work = || {
        loop {
            let Some((index, mutation)) = next.lock().unwrap().next() else {
                return;
            };
            let started = Instant::now();
            let found = red_with(mutation, programs).unwrap();
            println!(
                "{}: {:.1} s",
                mutation.name,
                started.elapsed().as_secs_f64()
            );
            red.lock().unwrap()[index] = found;
        }
    };
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(work);
        }
    });
    red.into_inner().unwrap()
}

/// The workspace's manifest without its own package.
fn manifest() -> Result<String> {
    let mut manifest = table(&fs::read_to_string(root().join("Cargo.toml"))?);
    manifest.retain(|key, _| key == "workspace" || key == "profile");
    let members = vec![toml::Value::from("chapters/ch*")];
    manifest["workspace"]["members"] = members.into();
    Ok(manifest.to_string())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Makes a folder hold these files and no others. What is the same already keeps its time, by which
/// cargo knows what to build.
fn hold(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    fs::create_dir_all(folder)?;
    for path in files_below(folder)? {
        if !files.contains_key(path.strip_prefix(folder)?) {
            fs::remove_file(path)?;
        }
    }
    for (path, bytes) in files {
        let path = folder.join(path);
        if fs::read(&path).ok().as_ref() != Some(bytes) {
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(path, bytes)?;
        }
    }
    Ok(())
}

/// The tests of one file.
struct Program {
    folder: PathBuf,
    path: PathBuf,
    /// Held while it runs: it may write into a folder that is always the same.
    runs: Mutex<()>,
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
            runs: Mutex::default(),
        })
    }

    fn chapter(&self) -> &str {
        self.folder.file_name().unwrap().to_str().unwrap()
    }

    /// The tests that fail with the mutation of this name; with none if it is empty.
    fn red(&self, mutation: &str) -> Result<Vec<String>> {
        let _alone = self.runs.lock().unwrap();
        let output = Command::new(&self.path)
            .current_dir(&self.folder)
            .env(SWITCH, mutation)
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
    let mutations = Mutation::all();
    let started = Instant::now();
    let programs = Copy::new(&mutations).unwrap().build().unwrap();
    println!("built: {:.1} s", started.elapsed().as_secs_f64());
    for program in &programs {
        let red = program.red("").unwrap();
        assert!(red.is_empty(), "red without any mutation: {red:?}");
    }
    let mut page = String::from("| mistake | what goes red |\n|---|---|\n");
    let mut unnoticed = Vec::new();
    let red = red_with_each(&mutations, &programs);
    for (mutation, red) in mutations.iter().zip(red) {
        writeln!(page, "{} {} |", mutation.row(), named(&red)).unwrap();
        if red.is_empty() {
            unnoticed.push(&mutation.name);
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
        let (text, at) = mutation.place(root()).unwrap();
        mutation.body(&text, at).unwrap();
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
