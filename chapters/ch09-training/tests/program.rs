//! The program of chapter 9 as its user meets it.

#![cfg(feature = "program")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ch09-training"));
    command.current_dir(folder).args(arguments);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    program(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it prints, if it succeeds.
#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Its message, if it fails: no panic and no trace.
#[track_caller]
fn complaint(output: &Output) -> String {
    let message = text(&output.stderr);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    assert!(output.status.code().is_some_and(|code| code != 101));
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn translation(arguments: &[&str]) -> String {
    printed(&run(&folder("translation"), arguments))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// Few steps, and what they leave behind. Done once for all tests that look at it.
fn trained() -> &'static (PathBuf, String) {
    static TRAINED: std::sync::OnceLock<(PathBuf, String)> =
        std::sync::OnceLock::new();
    TRAINED.get_or_init(|| {
        let folder = folder("trained");
        let output = run(&folder, &["--steps", STEPS]);
        (folder, printed(&output))
    })
}

/// So many that a training can be interrupted on the way.
const STEPS: &str = "40";

#[test]
fn a_date_is_answered_and_a_map_is_drawn() {
    let printed = translation(&["29 novembre 2026"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "2026-11-29");
    assert!(lines[1].starts_with("sure: "), "{printed}");
    assert_eq!(lines[2..4], ["", "   29 novembre 2026"]);
    let written: String = lines[4..].iter().map(|line| &line[..1]).collect();
    assert_eq!(written, "2026-11-29");
    // Each row has shades under the text, and no more of them than there are characters.
    for line in &lines[4..] {
        let shades = line.chars().skip(3);
        assert!(shades.clone().all(|c| " ░▒▓█".contains(c)), "{line}");
        assert!(shades.count() <= "29 novembre 2026".len(), "{line}");
    }
    let shades = |c: &char| "░▒▓█".contains(*c);
    assert!(printed.chars().filter(shades).count() >= 10, "{printed}");
}

#[test]
fn words_of_a_date_need_no_quotation_marks() {
    let one = translation(&["29 novembre 2026"]);
    assert_eq!(translation(&["29", "novembre", "2026"]), one);
}

/// A character that is two columns wide has two columns of shade.
#[test]
fn wide_characters_keep_the_columns() {
    let printed = translation(&["2026年11月29日"]);
    let rows = printed.lines().skip(4);
    let widths: Vec<usize> = rows.map(|row| row.chars().count()).collect();
    assert_eq!(widths.len(), 10);
    assert!(widths.iter().all(|&width| width <= 3 + 14), "{widths:?}");
    assert!(widths.iter().any(|&width| width > 3 + 11), "{widths:?}");
}

#[test]
fn what_is_no_date_is_marked() {
    for text in [
        "hello, world",
        "안녕하세요",
        "🎂",
        "\u{202e}29\u{202c}",
        "\t",
    ] {
        let arguments = [text, "x"];
        let printed = translation(&arguments);
        let second = printed.lines().nth(1).unwrap();
        assert!(second.starts_with("unsure: "), "{printed}");
    }
    // What would move the cursor does not reach the terminal.
    let printed = translation(&["29\u{1b}[2J.11.2026\u{7}"]);
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let folder = folder("refused");
    let refused = |arguments: &[&str]| complaint(&run(&folder, arguments));
    for nothing in [&["".to_string()], &["   ".to_string()]] {
        let message = refused(&[nothing[0].as_str()]);
        assert!(message.contains("nothing to translate"), "{message}");
    }
    let message = refused(&[&"9".repeat(201)]);
    assert!(message.contains("201"), "{message}");
    let message = refused(&["29.11.2026", "--weights", "missing.safetensors"]);
    assert!(message.contains("missing.safetensors"), "{message}");
    fs::write(folder.join("text.safetensors"), "hello, world").unwrap();
    let message = refused(&["29.11.2026", "--weights", "text.safetensors"]);
    assert!(message.contains("text.safetensors"), "{message}");
    assert!(message.contains("safetensors format"), "{message}");
    let message = refused(&["29.11.2026", "--weights", "."]);
    assert!(message.contains("cannot read ."), "{message}");
    assert_eq!(names(&folder), ["text.safetensors"]);
}

#[test]
fn bad_arguments_are_refused() {
    let folder = folder("arguments");
    for (arguments, expected) in [
        (&["--steps", "0"][..], "0 is not in 1..=10000000"),
        (&["--steps", "-1"], "-1"),
        (&["--steps", "many"], "many"),
        (&["--steps", "99999999999"], "99999999999"),
        (&["--seed", "-1"], "-1"),
        (&["--seed", "1.5"], "1.5"),
        (&["--resume", "--force"], "--force"),
        (&["--resume", "--steps", "5"], "--steps"),
        (&["--resume", "--seed", "5"], "--seed"),
        (&["--force", "29.11.2026"], "--force"),
        (&["--steps", "5", "29.11.2026"], "--steps"),
        (&["--examples", "29.11.2026"], "--examples"),
        (&["--weights"], "--weights"),
        (&["--weights", "", "--steps", "1"], "a value is required"),
        (&["--weights", "..", "--steps", "1"], "cannot be the name"),
        (
            &["--weights", "a.training", "--steps", "1"],
            "cannot be the name",
        ),
        (
            &["--weights", "no/such/x", "--steps", "1"],
            "no folder no/such",
        ),
        (&["--resume"], "there is no stopped training"),
        (&["--resume", "--weights", "mine"], "mine.training"),
        (&["--resume", "--weights", "run.v2"], "run.v2.training"),
    ] {
        let message = complaint(&run(&folder, arguments));
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
    let help = printed(&run(&folder, &["--help"]));
    assert!(
        help.contains("cargo run --release -p ch09-training"),
        "{help}"
    );
}

#[test]
fn a_training_says_what_it_does_and_leaves_weights_alone() {
    let (folder, printed) = trained();
    let lines: Vec<&str> = printed.lines().collect();
    let command = "cargo run --release -p ch09-training -- --steps 40";
    assert_eq!(lines[0], command);
    assert!(lines[1].ends_with(" parameters"), "{printed}");
    assert!(lines[2].starts_with("step     40   loss "), "{printed}");
    assert!(lines[3].starts_with("held out: "), "{printed}");
    for (line, field) in lines[4..7].iter().zip(["year", "month", "day"]) {
        assert!(
            line.starts_with(field) && line.contains("head"),
            "{printed}"
        );
    }
    assert_eq!(lines[7..], ["weights: dates.safetensors"]);
    assert_eq!(names(folder), ["dates.safetensors"]);
    let bytes = fs::read(folder.join("dates.safetensors")).unwrap();
    let (_, record) = ch09_training::weights::load(&bytes).unwrap();
    assert_eq!(record.made_by, command);
    // And it can be used: too few steps to be sure of anything.
    let weights = folder.join("dates.safetensors");
    let weights = weights.to_str().unwrap();
    let answer = translation(&["--weights", weights, "29 novembre 2026"]);
    assert!(
        answer.lines().nth(1).unwrap().starts_with("unsure"),
        "{answer}"
    );
}

#[test]
fn what_is_there_is_never_overwritten() {
    let folder = folder("overwrite");
    for name in ["mine.safetensors", "mine.safetensors.training"] {
        fs::write(folder.join(name), "mine").unwrap();
        let arguments = ["--steps", "1", "--weights", "mine.safetensors"];
        let message = complaint(&run(&folder, &arguments));
        assert!(message.contains(name), "{message}");
        for way in ["--weights", "--force", "--resume"] {
            assert!(message.contains(way), "{message}");
        }
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "mine");
        assert_eq!(names(&folder), [name]);
        fs::remove_file(folder.join(name)).unwrap();
    }
    // What was stopped and is damaged is not lost either.
    fs::write(folder.join("mine.safetensors.training"), "mine").unwrap();
    let arguments = ["--resume", "--weights", "mine.safetensors"];
    let message = complaint(&run(&folder, &arguments));
    assert!(message.contains("mine.safetensors.training"), "{message}");
    assert_eq!(names(&folder), ["mine.safetensors.training"]);
    // With --force it is.
    fs::write(folder.join("mine.safetensors"), "mine").unwrap();
    let arguments = ["--steps", "1", "--force", "--weights", "mine.safetensors"];
    printed(&run(&folder, &arguments));
    assert_eq!(names(&folder), ["mine.safetensors"]);
    let bytes = fs::read(folder.join("mine.safetensors")).unwrap();
    ch09_training::weights::load(&bytes).unwrap();
}

/// Names that differ only behind a dot are different trainings.
#[test]
fn a_training_is_named_for_its_weights_whole_name() {
    let folder = folder("named");
    fs::write(folder.join("run.training"), "of run").unwrap();
    fs::write(folder.join("run.v1.training"), "of run.v1").unwrap();
    let arguments = ["--resume", "--weights", "run.v2"];
    let message = complaint(&run(&folder, &arguments));
    assert!(
        message.contains("there is no stopped training"),
        "{message}"
    );
    printed(&run(&folder, &["--steps", "1", "--weights", "run.v2"]));
    assert_eq!(
        names(&folder),
        ["run.training", "run.v1.training", "run.v2"]
    );
}

#[cfg(unix)]
mod interrupted {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::thread::sleep;
    use std::time::Duration;

    /// Starts a training, waits until it trains, and types Ctrl-C; what it prints from there on.
    fn interrupt(folder: &Path, arguments: &[&str]) -> (String, Output) {
        let mut child = program(folder, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("parameters\n") {
            line.clear();
            assert!(printed.read_line(&mut line).unwrap() > 0, "it ended early");
        }
        sleep(Duration::from_millis(150));
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut printed, &mut rest).unwrap();
        (rest, child.wait_with_output().unwrap())
    }

    #[test]
    fn a_stopped_training_goes_on_to_the_same_weights() {
        let folder = folder("resumed");
        let (rest, output) = interrupt(&folder, &["--steps", STEPS]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stopped = rest.lines().last().unwrap_or_default();
        assert!(stopped.starts_with("stopped at step "), "{rest}");
        let go_on = "cargo run --release -p ch09-training -- --resume";
        assert!(stopped.ends_with(go_on), "{rest}");
        assert_eq!(
            names(&folder),
            ["dates.safetensors", "dates.safetensors.training"]
        );
        // A new training would lose it.
        let message = complaint(&run(&folder, &["--steps", "1"]));
        assert!(message.contains("--resume"), "{message}");

        let resumed = printed(&run(&folder, &["--resume"]));
        let (other, whole) = trained();
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(str::to_owned).collect()
        };
        assert_eq!(lines(&resumed), lines(whole));
        assert_eq!(names(&folder), ["dates.safetensors"]);
        let [resumed, whole] = [&folder, other]
            .map(|folder| fs::read(folder.join("dates.safetensors")).unwrap());
        assert!(resumed == whole, "other weights");
    }

    /// The command that it names is the one that goes on, wherever the weights are.
    #[test]
    fn the_way_on_names_the_weights() {
        let folder = folder("named");
        let arguments = ["--steps", "5000", "--weights", "my dates.safetensors"];
        let (rest, _) = interrupt(&folder, &arguments);
        assert!(
            rest.ends_with("--resume --weights \"my dates.safetensors\"\n"),
            "{rest}"
        );
        let names = names(&folder);
        assert_eq!(
            names,
            ["my dates.safetensors", "my dates.safetensors.training"]
        );
    }
}
