//! The exercises judge: every one of their tests passes on the solutions and fails on the stubs,
//! and a stub is its solution with the bodies cut out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

mod support;

fn exercises() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("chapters/exercises")
}

/// The chapters that have exercises, by the stem of their files.
fn chapters() -> Vec<String> {
    let mut stems: Vec<_> = std::fs::read_dir(exercises().join("solutions"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    stems.sort();
    stems
}

fn read(folder: &str, chapter: &str) -> String {
    let path = exercises().join(folder).join(format!("{chapter}.rs"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The solution with every `…_body` region replaced by `todo!()` and without its anchors.
fn cut(solution: &str) -> String {
    let mut stub = String::new();
    let mut in_body = false;
    for line in solution.lines() {
        let comment = line.trim_start();
        if comment.starts_with("// ANCHOR: ") && comment.ends_with("_body") {
            in_body = true;
            let name = comment["// ANCHOR: ".len()..].trim_end_matches("_body");
            stub.push_str(&format!("    todo!(\"complete {name}\")\n"));
        } else if comment.starts_with("// ANCHOR_END: ") && comment.ends_with("_body") {
            in_body = false;
        } else if !in_body && !comment.starts_with("// ANCHOR") {
            stub.push_str(line);
            stub.push('\n');
        }
    }
    stub
}

/// Runs the exercises' own tests and returns, for each, whether it passed.
fn judge(features: &[&str]) -> BTreeMap<String, bool> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--package", "exercises", "--no-fail-fast"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    for chapter in chapters() {
        command.args(["--test", &chapter]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
        .map(|(name, verdict)| (name.to_owned(), verdict == "ok"))
        .collect();
    assert!(
        !verdicts.is_empty(),
        "no verdicts:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    verdicts
}

#[test]
fn every_exercise_passes_on_its_solution() {
    for (name, passed) in judge(&["--features", "solutions"]) {
        assert!(passed, "{name} is red on the solution");
    }
}

/// A reader's own answers are no stubs any more, and nothing is wrong with that.
#[test]
fn stubs_are_the_solutions_cut_and_judged_red() {
    for chapter in chapters() {
        if read("src", &chapter) != cut(&read("solutions", &chapter)) {
            support::skip(
                "stubs_are_the_solutions_cut_and_judged_red",
                &format!("chapters/exercises/src/{chapter}.rs has been changed"),
            );
            return;
        }
    }
    let verdicts = judge(&[]);
    for (name, passed) in &verdicts {
        assert!(!passed, "{name} is green on the stub");
    }
    assert_eq!(
        verdicts.keys().collect::<Vec<_>>(),
        judge(&["--features", "solutions"])
            .keys()
            .collect::<Vec<_>>()
    );
}

/// Writes the stubs that are missing, and only those: an answer is never overwritten.
#[test]
#[ignore = "writes files; for authors who have changed a solution"]
fn write_missing_stubs() {
    for chapter in chapters() {
        let path = exercises().join("src").join(format!("{chapter}.rs"));
        if !path.exists() {
            std::fs::write(path, cut(&read("solutions", &chapter))).unwrap();
        }
    }
}
