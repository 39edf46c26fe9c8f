//! The plain `mdbook` program, with nothing but the book.toml, does what `book` does.

use regex::Regex;
use std::path::Path;
use std::process::Command;

mod support;

/// A program to run in the book's folder, or nothing if `mdbook` is not there and need not be.
fn mdbook(test: &str) -> Option<Command> {
    let mut mdbook = Command::new("mdbook");
    mdbook.current_dir(env!("CARGO_MANIFEST_DIR"));
    if Command::new("mdbook").arg("--version").output().is_ok() {
        return Some(mdbook);
    }
    support::skip(test, "the mdbook program is not installed");
    None
}

fn assert_success(mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{command:?} fails\n{}{errors}",
        String::from_utf8_lossy(&output.stdout)
    );
    errors
}

#[test]
fn mdbook_builds_the_same_book() {
    let Some(mut mdbook) = mdbook("mdbook_builds_the_same_book") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
    mdbook.arg("build").arg("--dest-dir").arg(&theirs);
    assert_success(mdbook);
    binder::bind::bind_into(Path::new(env!("CARGO_MANIFEST_DIR")), &ours).unwrap();
    // The program cannot add files to the book, so there the live figures' scripts stand in the pages.
    let script = Regex::new("(?s)<script.*?</script>").unwrap();
    let main = |dir: &Path| {
        let page = std::fs::read_to_string(dir.join("print.html")).unwrap();
        let page = script.replace_all(&page, "");
        let main = page
            .split("<main>")
            .nth(1)
            .expect("the page has a main part");
        main.lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (theirs, ours) = (main(&theirs), main(&ours));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs, ours);
    }
    assert_eq!(theirs.len(), ours.len());
}

#[test]
fn mdbook_tests_every_block() {
    let Some(mut mdbook) = mdbook("mdbook_tests_every_block") else {
        return;
    };
    mdbook.arg("test");
    let report = assert_success(mdbook);
    assert!(report.contains("blocks passed"), "{report}");
    println!("{report}");
}
