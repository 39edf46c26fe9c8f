//! The reader's own crate: every stage passes on its solution and waits on the stub, a stub is its
//! solution with the bodies cut out, and what a reader wrote is not overwritten.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

mod support;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Both kinds of the crate are built into the same file: one after the other, please.
static BUILT: Mutex<()> = Mutex::new(());

/// The chapters that have stages, by the stem of their files.
fn chapters() -> Vec<String> {
    let mut stems: Vec<_> = std::fs::read_dir(file("solutions", ""))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    stems.sort();
    stems
}

fn file(folder: &str, name: &str) -> PathBuf {
    Path::new(ROOT)
        .join("chapters/mine")
        .join(folder)
        .join(name)
}

fn read(folder: &str, chapter: &str) -> String {
    let path = file(folder, &format!("{chapter}.rs"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The solution of a chapter with every `…_body` region replaced by `todo!()`, every repaired line
/// by the fault that stands above it, and without its anchors.
fn cut(chapter: &str, solution: &str) -> String {
    let mut stub = String::new();
    let (mut in_body, mut is_repair) = (false, false);
    for line in solution.lines() {
        let comment = line.trim_start();
        if let Some(fault) = comment.strip_prefix("// instead of: ") {
            let indent = &line[..line.len() - comment.len()];
            stub.push_str(&format!("{indent}{fault}\n"));
            is_repair = true;
        } else if is_repair {
            is_repair = false;
        } else if comment.starts_with("// ANCHOR: ") && comment.ends_with("_body") {
            in_body = true;
            let name = comment["// ANCHOR: ".len()..].trim_end_matches("_body");
            stub.push_str(&format!("    todo!(\"{chapter}::{name}\")\n"));
        } else if comment.starts_with("// ANCHOR_END: ") && comment.ends_with("_body") {
            in_body = false;
        } else if !in_body && !comment.starts_with("// ANCHOR") {
            stub.push_str(line);
            stub.push('\n');
        }
    }
    stub
}

/// What the crate's own test says of each stage: "ok", "FAILED", or why it was passed over.
fn judge(features: &[&str]) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--package", "mine", "--no-fail-fast"])
        .args(features)
        .current_dir(ROOT)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
        .map(|(name, verdict)| (name.to_owned(), verdict.to_owned()))
        .collect();
    assert!(
        !verdicts.is_empty(),
        "no verdicts:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let failed = verdicts.values().any(|verdict| verdict == "FAILED");
    assert_eq!(output.status.success(), !failed, "{text}");
    verdicts
}

/// Whether the reader's program succeeds, what it prints and what it complains of.
fn program(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "mine", "--"])
        .args(arguments)
        .current_dir(ROOT)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn every_stage_passes_on_its_solution() {
    let _one = BUILT.lock();
    let verdicts = judge(&["--features", "solutions"]);
    assert!(verdicts.contains_key("the_translator_writes_as_the_book_does"));
    for (name, verdict) in &verdicts {
        assert_eq!(verdict, "ok", "{name} on the solution");
    }
    for chapter in chapters() {
        let solution = read("solutions", &chapter);
        for function in functions(&solution) {
            let name = format!("{chapter}::{function}");
            assert!(verdicts.contains_key(&name), "nothing judges {name}");
        }
    }
}

/// The functions of a solution that its page shows.
fn functions(solution: &str) -> impl Iterator<Item = &str> {
    let anchors = solution
        .lines()
        .filter_map(|line| line.strip_prefix("// ANCHOR: "));
    anchors.filter(move |name| solution.contains(&format!("pub fn {name}")))
}

/// A reader's own answers are no stubs any more, and nothing is wrong with that.
#[test]
fn stubs_are_the_solutions_cut_and_wait_to_be_written() {
    for chapter in chapters() {
        if read("src", &chapter) != cut(&chapter, &read("solutions", &chapter)) {
            support::skip(
                "stubs_are_the_solutions_cut_and_wait_to_be_written",
                &format!("chapters/mine/src/{chapter}.rs has been changed"),
            );
            return;
        }
    }
    let _one = BUILT.lock();
    for (name, verdict) in judge(&[]) {
        assert!(
            verdict.ends_with("skipped"),
            "{name} is {verdict} on the stub"
        );
    }

    // The program runs on nothing but the reader's functions.
    let (done, _, said) = program(&["translate", "29 novembre 2026"]);
    assert!(!done && said.contains("ch05::project"), "{said}");
    let (done, progress, _) = program(&[]);
    assert!(done && progress.contains("0 of 6"), "{progress}");
    assert!(
        progress.contains("Next: scores in chapters/mine/src/ch01.rs"),
        "{progress}"
    );
    let (done, hint, _) = program(&["hint", "ch02"]);
    assert!(
        done && hint.starts_with("softmax, in") && hint.contains("\n1. "),
        "{hint}"
    );
    let (_, more, _) = program(&["hint", "ch02"]);
    assert!(
        more.starts_with(hint.rsplit_once("\n\n").unwrap().0),
        "{more}"
    );
}

#[test]
fn bodies_and_faults_are_cut() {
    let solution = "/// Adds.\n// ANCHOR: add\npub fn add() {\n    // ANCHOR: add_body\n    1 + 1\n    // ANCHOR_END: add_body\n}\n// ANCHOR_END: add\n    // instead of: let a = b;\n    let a = c;\n    a\n";
    let stub = "/// Adds.\npub fn add() {\n    todo!(\"ch01::add\")\n}\n    let a = b;\n    a\n";
    assert_eq!(cut("ch01", solution), stub);
}

/// Writes a stub where there is none, or where the old one still stands as it was cut from the
/// solution before it changed. Anything else is a reader's.
fn write_stub(path: &Path, stub: &str, untouched: Option<&str>) -> Result<(), String> {
    match std::fs::read_to_string(path) {
        Ok(found) if found == stub => return Ok(()),
        Ok(found) if Some(found.as_str()) == untouched => {}
        Ok(_) => return Err(format!("{} is somebody's own and stays", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    std::fs::write(path, stub).map_err(|error| error.to_string())
}

#[test]
fn what_a_reader_wrote_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ch01.rs");
    let written = || std::fs::read_to_string(&path).unwrap();

    write_stub(&path, "new", Some("old")).unwrap();
    assert_eq!(written(), "new", "a missing stub is written");
    write_stub(&path, "newer", Some("new")).unwrap();
    assert_eq!(written(), "newer", "an untouched stub follows its solution");
    for untouched in [None, Some("newer")] {
        std::fs::write(&path, "my own").unwrap();
        assert!(write_stub(&path, "newest", untouched).is_err());
        assert_eq!(written(), "my own");
    }
    std::fs::write(&path, "newest").unwrap();
    write_stub(&path, "newest", None).unwrap();
    // Bytes that are no text are not a stub either.
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(write_stub(&path, "newest", Some("newer")).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), [0xff, 0xfe]);
}

#[test]
#[ignore = "writes files; for authors who have changed a solution"]
fn write_stubs() {
    let mut refused = vec![];
    for chapter in chapters() {
        let committed = Command::new("git")
            .args([
                "show",
                &format!("HEAD:chapters/mine/solutions/{chapter}.rs"),
            ])
            .current_dir(ROOT)
            .output()
            .ok()
            .filter(|output| output.status.success())
            .and_then(|output| String::from_utf8(output.stdout).ok());
        let untouched = committed.map(|solution| cut(&chapter, &solution));
        let stub = cut(&chapter, &read("solutions", &chapter));
        let path = file("src", &format!("{chapter}.rs"));
        refused.extend(write_stub(&path, &stub, untouched.as_deref()).err());
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
