//! What every chapter's program prints is pinned; the pages show the pinned text.

use binder::{cargo, outputs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

#[test]
fn programs_print_what_is_pinned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = cargo::programs(root).unwrap();
    let names: Vec<&String> = programs.iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        cargo::chapters(root).unwrap().iter().collect::<Vec<_>>()
    );

    let failed: Vec<&str> = programs
        .iter()
        .filter(|(name, program)| catch_unwind(AssertUnwindSafe(|| check(name, program))).is_err())
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(
        failed.is_empty(),
        "these programs print something else: {failed:?}"
    );
}

fn check(name: &str, program: &Path) {
    let mut command = Command::new(program);
    // Without a word, the program of chapter 9 trains.
    if name == "ch09-training" {
        command.arg("--examples");
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} fails: {errors}");
    let printed = String::from_utf8(output.stdout)
        .unwrap()
        .replace("\r\n", "\n");
    assert!(printed.ends_with('\n'), "{name} does not end its last line");
    for (index, line) in printed.lines().enumerate() {
        assert_eq!(
            line,
            line.trim_end(),
            "{name}, line {}: spaces at the end",
            index + 1
        );
    }
    assert!(
        !outputs::sections(&printed).is_empty(),
        "{name} prints no `# name: Title`"
    );
    let snapshot = format!("{}.txt", name.replace('-', "_"));
    insta::assert_binary_snapshot!(&snapshot, printed.into_bytes());
}
