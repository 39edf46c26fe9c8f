//! The program `figures`, run as a reader runs it.
#![cfg(feature = "program")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use figures::{all, find};
use tempfile::tempdir;

fn figures(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_figures"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn told(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    str::from_utf8(&output.stdout).unwrap()
}

fn refused(output: &Output) -> &str {
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn list_has_a_line_for_each_figure() {
    let folder = tempdir().unwrap();
    let output = figures(folder.path(), &["list"]);
    let lines: Vec<_> = told(&output).lines().collect();
    assert_eq!(lines.len(), all().len());
    for (line, figure) in lines.iter().zip(all()) {
        let (id, said) = line.split_once(' ').unwrap();
        assert_eq!(id, figure.id());
        let said = said.trim_start();
        assert!(figure.draw().unwrap().alt.starts_with(said), "{line}");
        assert!(said.ends_with('.') && !said.contains(". "), "{line}");
    }
}

#[test]
fn draw_writes_the_standalone_svg() {
    let folder = tempdir().unwrap();
    let output = figures(
        folder.path(),
        &["draw", "ch06-heatmap", "--out", "attention.svg"],
    );
    let picture = find("ch06", "heatmap").unwrap().draw().unwrap();
    let (width, height) = picture.pixels(1.0);
    assert_eq!(
        told(&output),
        format!("wrote attention.svg, {width} × {height} pixels\n")
    );
    let written = fs::read_to_string(folder.path().join("attention.svg")).unwrap();
    assert_eq!(written, picture.to_standalone_svg());
    assert!(written.contains("天气"));
}

#[test]
fn draw_writes_a_png_of_twice_the_size_or_of_any_other() {
    let folder = tempdir().unwrap();
    let picture = find("ch06", "heatmap").unwrap().draw().unwrap();
    let cases: [(&[&str], f32); 2] = [(&[], 2.0), (&["--scale", "3"], 3.0)];
    for (more, scale) in cases {
        let file = format!("at-{scale}.PNG");
        let mut arguments = vec!["draw", "ch06-heatmap", "--out", &file];
        arguments.extend(more);
        let output = figures(folder.path(), &arguments);
        let (width, height) = picture.pixels(scale);
        assert_eq!(
            told(&output),
            format!("wrote {file}, {width} × {height} pixels\n")
        );
        let written = fs::read(folder.path().join(file)).unwrap();
        assert_eq!(written, picture.to_png(scale).unwrap());
    }
}

#[test]
fn an_existing_file_is_overwritten_only_by_force() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("a.svg");
    fs::write(&file, "mine".repeat(100_000)).unwrap();
    let draw = ["draw", "ch04-causal", "--out", "a.svg"];
    let output = figures(folder.path(), &draw);
    assert_eq!(
        refused(&output),
        "error: a.svg exists; --force overwrites it\n"
    );
    assert!(fs::read_to_string(&file).unwrap().starts_with("mine"));

    let forced = [&draw[..], &["--force"]].concat();
    told(&figures(folder.path(), &forced));
    let picture = find("ch04", "causal").unwrap().draw().unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        picture.to_standalone_svg()
    );

    fs::remove_file(&file).unwrap();
    told(&figures(folder.path(), &forced));
    assert!(file.exists());
}

#[test]
fn what_cannot_be_drawn_is_refused_with_the_reason_and_writes_nothing() {
    let folder = tempdir().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["ch06-heatmpa", "--out", "a.svg"],
            "there is no figure ch06-heatmpa; the known ones are ch01-angle, ",
        ),
        (
            &["ch06-heatmap", "--out", "a.pdf"],
            "a.pdf ends neither in .svg nor in .png",
        ),
        (
            &["ch06-heatmap", "--out", "svg"],
            "svg ends neither in .svg nor in .png",
        ),
        (
            &["ch06-heatmap", "--out", "a.svg", "--scale", "2"],
            "--scale is for .png",
        ),
        (
            &["ch06-heatmap", "--out", "a.png", "--scale", "0"],
            "between 0.25 and 16, not 0",
        ),
        (
            &["ch06-heatmap", "--out", "a.png", "--scale", "NaN"],
            "between 0.25 and 16, not NaN",
        ),
        (
            &["ch06-heatmap", "--out", "none/a.svg"],
            "none/a.svg cannot be written",
        ),
        (&["ch06-heatmap"], "--out <OUT>"),
    ];
    for (arguments, reason) in cases {
        let output = figures(folder.path(), &[&["draw"], arguments].concat());
        let error = refused(&output);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_name_is_answered_with_every_known_one() {
    let folder = tempdir().unwrap();
    let output = figures(folder.path(), &["draw", "heatmap", "--out", "a.svg"]);
    let error = refused(&output);
    for figure in all() {
        assert!(error.contains(&figure.id()), "{error}");
    }
}
