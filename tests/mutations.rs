//! How each mistake would be caught: mutations of the chapters' code, and the chapters' own tests
//! must notice every one. All of them are built once, into a copy in which every mutated function
//! has its body twice, sound and with the mistake. An environment variable chooses when a test
//! runs. Each test runs once without a mistake and notes which functions it asks; with a mistake
//! only those run that ask the mutated one, since the others would do the same again.

use anyhow::{Context, Result, ensure};
use binder::cargo;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

mod support;

/// How many tests a row of the table names.
const NAMED: usize = 3;

/// How many mutations are tried side by side. Many tests use several processors themselves.
const SIDE_BY_SIDE: usize = 2;

/// Says which mutation is wanted. Every mutated file of the copy ends with its reader.
const SWITCH: &str = "BOOK_MUTANT";

/// Names the file into which a test writes which mutations it asks for, each on a line.
const ASKED: &str = "BOOK_MUTANTS_ASKED";

const READER: &str = r#"
fn mutant(name: &str) -> bool {
    use std::io::Write;
    if let Some(asked) = std::env::var_os("BOOK_MUTANTS_ASKED") {
        let asked = std::fs::File::options().append(true).create(true).open(asked);
        asked.unwrap().write_all(format!("{name}\n").as_bytes()).unwrap();
    }
    std::env::var("BOOK_MUTANT").is_ok_and(|wanted| wanted == name)
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
        let branch = format!(
            "if {{
                static IS_ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
                *IS_ON.get_or_init(|| mutant({:?}))
            }} {{\n{mutated}}} else ",
            mutation.name
        );
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

/// The tests that go red with a mutation, until there are more than are named.
fn red_with(mutation: &Mutation, tests: &[Test<'_>]) -> Result<Vec<String>> {
    let asking = tests
        .iter()
        .filter(|test| test.asks.contains(&mutation.name));
    let asking: Vec<_> = asking.collect();
    let mut red = Vec::new();
    for of_one in asking.chunk_by(|a, b| std::ptr::eq(a.program, b.program)) {
        // The first few mostly tell. The others run at once, so that they share what they prepare.
        let (first, others) = of_one.split_at(of_one.len().min(NAMED + 1));
        for some in [first, others] {
            if red.len() > NAMED || some.is_empty() {
                break;
            }
            let names: Vec<_> = some.iter().map(|test| &test.name[..]).collect();
            let more = some[0]
                .program
                .red(&names, &[(SWITCH, mutation.name.as_ref())]);
            red.extend(more.with_context(|| format!("with the mutation “{}”", mutation.name))?);
        }
    }
    Ok(red)
}

/// Does the same to each of these, to a few side by side. What is made of each stays in order.
fn each<'a, T: Sync, R: Send>(items: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let indices = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let indices = indices.take_while(|&index| index < items.len());
        indices.map(|index| (index, work(&items[index]))).collect()
    };
    let mut made: Vec<(usize, R)> = thread::scope(|scope| {
        let workers = [(); SIDE_BY_SIDE].map(|()| scope.spawn(worker));
        let made = workers.map(|worker| worker.join().unwrap());
        made.into_iter().flat_map(|some: Vec<_>| some).collect()
    });
    made.sort_by_key(|&(index, _)| index);
    made.into_iter().map(|(_, made)| made).collect()
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

    /// Runs each test alone and without a mutation. It has to pass, and what it asks is noted.
    fn tests(&self) -> Result<Vec<Test<'_>>> {
        let list = Command::new(&self.path)
            .args(["--list", "--format", "terse"])
            .output()?;
        let list = String::from_utf8(list.stdout)?;
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        let asked = self.path.with_extension("asked");
        names
            .into_iter()
            .map(|name| {
                let _ = fs::remove_file(&asked);
                let red = self.red(&[&name], &[(ASKED, asked.as_ref())])?;
                ensure!(red.is_empty(), "red without any mutation: {red:?}");
                let asks = fs::read_to_string(&asked).unwrap_or_default();
                let asks = asks.lines().map(str::to_owned).collect();
                Ok(Test {
                    program: self,
                    name,
                    asks,
                })
            })
            .collect()
    }

    /// Which of these tests fail when these variables are set.
    fn red(&self, tests: &[&str], variables: &[(&str, &OsStr)]) -> Result<Vec<String>> {
        let _alone = self.runs.lock().unwrap();
        let output = Command::new(&self.path)
            .current_dir(&self.folder)
            .arg("--exact")
            .args(tests)
            .envs(variables.iter().copied())
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

/// A test, and which mutations it asks for.
struct Test<'a> {
    program: &'a Program,
    name: String,
    asks: BTreeSet<String>,
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
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let programs = Copy::new(&mutations).unwrap().build().unwrap();
    say("all of them are built");
    let tests = each(&programs, |program| {
        let tests = program.tests().unwrap();
        say(&format!("{} without mutations", program.path.display()));
        tests
    });
    let tests: Vec<_> = tests.into_iter().flatten().collect();
    let red = each(&mutations, |mutation| {
        let red = red_with(mutation, &tests).unwrap();
        say(&mutation.name);
        red
    });
    let mut page = String::from("| mistake | what goes red |\n|---|---|\n");
    let mut unnoticed = Vec::new();
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
