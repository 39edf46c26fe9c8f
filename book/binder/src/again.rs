//! Whether the book that is bound is still the one that would be bound now.

use crate::cargo;
use crate::live;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the book is made of, besides the files in its root folder.
const FOLDERS: [&str; 4] = [".cargo", "book", "chapters", "tests"];

/// What the live figures are made of, besides those.
const LIVE: [&str; 5] = [
    ".cargo",
    "book/figures",
    "book/widgets",
    "chapters",
    "tests/fixtures",
];

/// The beginnings of the names of variables that make another book of the same files.
const VARIABLES: [&str; 5] = [
    "MDBOOK_",
    "CARGO_PROFILE_",
    "CARGO_BUILD_",
    "CARGO_TARGET_",
    "RUSTC",
];

/// All that a bound book was made of, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of the book at `root`, bound by this program with the compiler that is here.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn of(root: &Path) -> Result<Self> {
        Self::of_folders(root, &FOLDERS)
    }

    fn of_folders(root: &Path, folders: &[&str]) -> Result<Self> {
        let tools = [
            cargo::compiler(root),
            cargo::can_build_wasm(root).to_string(),
        ];
        let variables = std::env::vars_os()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                VARIABLES.iter().any(|start| name.starts_with(start))
            })
            .collect();
        Self::made(root, folders, &program()?, &tools, variables)
    }

    fn made(
        root: &Path,
        folders: &[&str],
        program: &str,
        tools: &[String],
        mut variables: Vec<(OsString, OsString)>,
    ) -> Result<Self> {
        let mut sources = vec![];
        for entry in
            fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))?
        {
            let path = entry?.path();
            if path.is_file() {
                sources.push(path);
            }
        }
        for folder in folders.iter().map(|folder| root.join(folder)) {
            if folder.is_dir() {
                list(&folder, &mut sources)?;
            }
        }
        variables.sort();
        let mut sum = Sum(DefaultHasher::new());
        sum.files(root, sources)?;
        sum.part(program.as_bytes());
        for tool in tools {
            sum.part(tool.as_bytes());
        }
        for (name, value) in variables {
            sum.part(name.as_encoded_bytes());
            sum.part(value.as_encoded_bytes());
        }
        Ok(Key(sum.end()))
    }

    /// The key of what the live figures in the book at `root` are compiled from.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn of_live_figures(root: &Path) -> Result<Self> {
        Self::of_folders(root, &LIVE)
    }

    /// The key of this program.
    ///
    /// # Errors
    /// If the program cannot be read.
    pub fn of_program() -> Result<Self> {
        Ok(Key(program()?))
    }

    /// What was kept in `file` under this key, if it is whole.
    pub fn find(&self, file: &Path) -> Option<String> {
        let kept = fs::read_to_string(file).ok()?;
        let (said, content) = kept.split_once('\n')?;
        (said == self.over(content)).then(|| content.to_owned())
    }

    /// Keeps something in `file` under this key. Where nothing can be kept it will be made again.
    pub fn put(&self, file: &Path, content: &str) {
        if let Some(folder) = file.parent() {
            let _ = fs::create_dir_all(folder);
        }
        let _ = live::keep(
            file,
            format!("{}\n{content}", self.over(content)).as_bytes(),
        );
    }

    fn over(&self, content: &str) -> String {
        let mut sum = Sum(DefaultHasher::new());
        sum.part(self.0.as_bytes());
        sum.part(content.as_bytes());
        sum.end()
    }

    /// Whether the book in `target` was made of just this, and is as it was then.
    pub fn opens(&self, target: &Path) -> bool {
        let said = fs::read_to_string(file(target)).ok();
        said.is_some() && said == self.said(target).ok()
    }

    /// Says of the book in `target` that it was made of this.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn keep(&self, target: &Path) -> Result<()> {
        live::keep(&file(target), self.said(target)?.as_bytes())
    }

    fn said(&self, target: &Path) -> Result<String> {
        let mut bound = vec![];
        list(target, &mut bound)?;
        let mut sum = Sum(DefaultHasher::new());
        sum.files(target, bound)?;
        Ok(format!("made of {}\nbound as {}\n", self.0, sum.end()))
    }
}

/// The sum over this program.
fn program() -> Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let file = std::env::current_exe().context("this program does not know its file")?;
    let sum = sum_of(&file)?;
    Ok(KNOWN.get_or_init(|| sum).clone())
}

fn sum_of(file: &Path) -> Result<String> {
    let mut sum = Sum(DefaultHasher::new());
    sum.files(Path::new(""), vec![file.to_owned()])?;
    Ok(sum.end())
}

/// Where it is said what a book was made of: beside it.
fn file(target: &Path) -> PathBuf {
    target.with_extension("key")
}

/// Adds the files below a folder, but for what is built there. Links to folders are not followed.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            // By this mark one knows a folder whose content can be built again.
            if !path.join("CACHEDIR.TAG").exists() {
                list(&path, files)?;
            }
        } else if !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

/// A sum over parts, each of which ends where it ends.
struct Sum(DefaultHasher);

impl Sum {
    fn part(&mut self, bytes: &[u8]) {
        self.0.write_usize(bytes.len());
        self.0.write(bytes);
    }

    fn files(&mut self, root: &Path, mut files: Vec<PathBuf>) -> Result<()> {
        files.sort();
        for file in files {
            let name = file.strip_prefix(root).unwrap_or(&file);
            self.part(name.as_os_str().as_encoded_bytes());
            let content =
                fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            self.part(&content);
        }
        Ok(())
    }

    fn end(&self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn write(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn each_kind_of_source_changes_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let (root, program) = (folder.path().join("root"), folder.path().join("program"));
        let key = |tools: &[&str], variables: &[(&str, &str)]| {
            let tools: Vec<_> = tools.iter().map(|&tool| tool.to_owned()).collect();
            let variables = variables
                .iter()
                .map(|(a, b)| (a.into(), b.into()))
                .collect();
            Key::made(
                &root,
                &FOLDERS,
                &sum_of(&program).unwrap(),
                &tools,
                variables,
            )
            .unwrap()
            .0
        };
        let sources = [
            "book.toml",
            "Cargo.toml",
            "Cargo.lock",
            "rust-toolchain.toml",
            "book/src/one.md",
            "book/src/SUMMARY.md",
            "book/theme/book.css",
            "book/figures/src/ch01.rs",
            "book/widgets/live.js",
            "chapters/ch01-x/src/lib.rs",
            "chapters/ch01-x/weights/w.safetensors",
            "tests/snapshots/programs__ch01_x.snap.txt",
            "tests/fixtures/speed/attention.csv",
        ];
        for source in sources {
            write(&root.join(source), "one");
        }
        write(&program, "one");
        let first = key(&["rustc 1"], &[("MDBOOK_A", "b")]);
        let again = || key(&["rustc 1"], &[("MDBOOK_A", "b")]);
        assert_eq!(again(), first);
        let mut keys = BTreeSet::from([first.clone()]);
        let files = sources.map(|source| root.join(source));
        for file in files.iter().chain([&program]) {
            // As long as before, and at the same time: only the content tells.
            let time = fs::metadata(file).unwrap().modified().unwrap();
            write(file, "two");
            fs::File::options()
                .write(true)
                .open(file)
                .unwrap()
                .set_modified(time)
                .unwrap();
            assert!(keys.insert(again()), "{} is left out", file.display());
            if *file != program {
                fs::remove_file(file).unwrap();
                assert!(keys.insert(again()), "{} is left out", file.display());
            }
            write(file, "one");
            assert_eq!(again(), first);
        }
        write(&root.join("book/src/new.md"), "");
        assert!(keys.insert(again()), "a new page is left out");
        fs::remove_file(root.join("book/src/new.md")).unwrap();
        assert!(keys.insert(key(&["rustc 2"], &[("MDBOOK_A", "b")])));
        assert!(keys.insert(key(&["rustc 1"], &[("MDBOOK_A", "c")])));
        // What is built is made of the rest.
        write(&root.join("target/debug/book"), "");
        write(&root.join("chapters/target/x"), "");
        write(&root.join("chapters/target/CACHEDIR.TAG"), "");
        assert_eq!(again(), first);
    }

    #[test]
    fn what_is_kept_is_found_under_its_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept/a");
        let (key, other) = (Key("1".to_owned()), Key("2".to_owned()));
        assert_eq!(key.find(&file), None);
        key.put(&file, "one\ntwo\n");
        assert_eq!(key.find(&file).as_deref(), Some("one\ntwo\n"));
        assert_eq!(other.find(&file), None);
        let damaged = fs::read_to_string(&file).unwrap().replace("two", "three");
        fs::write(&file, damaged).unwrap();
        assert_eq!(key.find(&file), None);
    }

    #[test]
    fn the_key_opens_the_very_book_that_was_bound() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("book");
        let (key, other) = (Key("1".to_owned()), Key("2".to_owned()));
        assert!(!key.opens(&target));
        write(&target.join("a.html"), "a");
        write(&target.join("live/b.js"), "b");
        assert!(!key.opens(&target));
        key.keep(&target).unwrap();
        assert!(key.opens(&target) && !other.opens(&target));
        write(&target.join("live/b.js"), "c");
        assert!(!key.opens(&target), "a damaged file");
        fs::remove_file(target.join("live/b.js")).unwrap();
        assert!(!key.opens(&target), "a removed file");
        write(&target.join("live/b.js"), "b");
        assert!(key.opens(&target));
        write(&target.join("c.html"), "");
        assert!(!key.opens(&target), "a file too many");
    }
}
