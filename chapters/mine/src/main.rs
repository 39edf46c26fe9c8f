//! `cargo run -p mine`: how far your own attention has come, and what is next.

use anyhow::{Result, bail, ensure};
use mine::judge::{self, CHAPTERS, Stage, Verdict};
use mine::translator::{self, Mine};
use std::process::ExitCode;

const USAGE: &str = "\
cargo run -p mine                    how far your own attention has come, and what is next
cargo run -p mine -- hint            a hint for what is next, and another one when asked again
cargo run -p mine -- hint softmax    … for this function, or for what is next in a chapter: hint ch03
cargo run -p mine -- translate \"29 novembre 2026\"
                                     the book's date translator, on your attention";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    judge::catch_panics_quietly();
    match arguments[..] {
        [] => show_progress(),
        ["hint"] => hint(""),
        ["hint", which] => hint(which),
        ["translate", ref words @ ..] if !words.is_empty() => {
            translate(&words.join(" "))?
        }
        ["--help" | "-h" | "help"] => println!("{USAGE}"),
        _ => bail!(
            "this program does not know what to do with {arguments:?}\n{USAGE}"
        ),
    }
    Ok(())
}

fn show_progress() {
    let judged: Vec<(Stage, Verdict)> = judge::stages()
        .into_iter()
        .map(|stage| (stage, stage.judge()))
        .collect();
    // What is wrong comes before what is not there yet.
    let is_wrong = |verdict: &Verdict| matches!(verdict, Verdict::Wrong(_));
    let mut open = judged
        .iter()
        .filter(|(_, verdict)| *verdict != Verdict::Passed);
    let next = judged
        .iter()
        .find(|(_, verdict)| is_wrong(verdict))
        .or_else(|| open.next());
    for &(chapter, title) in CHAPTERS {
        let of_chapter =
            || judged.iter().filter(|(stage, _)| stage.chapter == chapter);
        let passed = of_chapter()
            .filter(|(_, verdict)| *verdict == Verdict::Passed)
            .count();
        println!(
            "{chapter}  {title:<20} {passed} of {}",
            of_chapter().count()
        );
        let is_current = next.is_some_and(|(stage, _)| stage.chapter == chapter);
        if is_current || of_chapter().any(|(_, verdict)| is_wrong(verdict)) {
            for (stage, verdict) in of_chapter() {
                let mark = match verdict {
                    Verdict::Passed => '✓',
                    Verdict::Wrong(_) => '✗',
                    _ => '·',
                };
                println!("  {mark} {:<26} {verdict}", stage.name);
            }
        }
    }
    let Some((stage, verdict)) = next else {
        println!("\nEverything passes. This attention is yours.");
        return;
    };
    println!("\nNext: {} in {}", stage.name, stage.file());
    if !matches!(verdict, Verdict::Wrong(_)) {
        println!();
        for line in stage.task().lines() {
            println!("    {line}");
        }
    }
    match verdict {
        Verdict::Wrong(wrong) | Verdict::Unrepaired(wrong) => {
            println!();
            for line in wrong.to_string().lines() {
                println!("    {line}");
            }
        }
        Verdict::Waits(for_what) => {
            println!("It calls {for_what}, which comes first.")
        }
        _ => {}
    }
    println!("\nIf you are stuck: cargo run -p mine -- hint");
    let can_translate = judged.iter().any(|(stage, verdict)| {
        stage.name == "multi_head" && *verdict == Verdict::Passed
    });
    if can_translate {
        println!(
            "To translate:     cargo run -p mine -- translate \"29 novembre 2026\""
        );
    }
}

/// Shows the hints for a stage that have been asked for, and one more.
fn hint(which: &str) {
    let mut stages = judge::stages();
    stages.retain(|stage| {
        which.is_empty()
            || which == stage.chapter
            || which == stage.name
            || which == stage.path()
    });
    if stages.is_empty() {
        println!(
            "there is no function and no chapter “{which}”; chapters are ch01, ch02, …"
        );
        return;
    }
    let by_name = stages
        .iter()
        .all(|stage| stage.name == which || stage.path() == which);
    let open = stages
        .iter()
        .find(|stage| by_name || stage.judge() != Verdict::Passed);
    let Some(stage) = open else {
        println!("Everything passes here, and no hint is needed.");
        return;
    };
    // How often somebody asked is kept beside the program, among what is built.
    let file =
        std::env::current_exe().map(|program| program.with_file_name("mine-hints"));
    let kept = file
        .as_ref()
        .ok()
        .and_then(|file| std::fs::read_to_string(file).ok());
    let kept = kept.unwrap_or_default();
    let asked = 1 + kept.lines().filter(|line| *line == stage.path()).count();
    if let Ok(file) = file
        && asked <= stage.hints.len()
    {
        let _ = std::fs::write(file, format!("{kept}{}\n", stage.path()));
    }
    println!("{}, in {}", stage.name, stage.file());
    for (number, hint) in stage.hints.iter().take(asked).enumerate() {
        println!("\n{}. {hint}", number + 1);
    }
    match stage.hints.len().saturating_sub(asked) {
        0 => {
            println!("\nThat is all. The solution is folded on the chapter's page.")
        }
        left => println!("\n{left} more, if you ask again."),
    }
}

/// What the translator needs to run on the reader's layers.
const LAYERS: [&str; 9] = [
    "ch04::causal",
    "ch06::positions",
    "ch06::self_attention",
    "ch07::cross_attention",
    "ch08::embed",
    "ch08::layer_norm",
    "ch08::feed_forward",
    "ch08::encoder_layer",
    "ch08::decoder_layer",
];

/// Runs the translator on as much as stands, and compares it with the book's.
fn translate(text: &str) -> Result<()> {
    let stages = judge::stages();
    // What is wrong may translate, too, and shows what it is good for.
    let is_written = |path: &str| {
        let stage = stages.iter().find(|stage| stage.path() == path);
        match stage.map(Stage::judge) {
            Some(Verdict::Passed) => true,
            Some(Verdict::Wrong(_)) => {
                println!("your {path} does not pass");
                true
            }
            _ => false,
        }
    };
    for path in ["ch05::project", "ch05::multi_head"] {
        ensure!(
            is_written(path),
            "the translator needs your {path}, which is not written yet; \
             cargo run -p mine says what is next"
        );
    }
    let mine = Mine {
        cross: is_written("ch07::cross_attention"),
        layers: LAYERS.iter().all(|path| is_written(path)),
        greedy: is_written("ch09::greedy"),
    };
    let with_cache = mine.layers && is_written("ch10::cached_attention");
    // From here on a panic is no verdict, and is heard.
    drop(std::panic::take_hook());
    let (model, _) = ch09_training::weights::shipped()?;
    let book = ch09_training::translate::translate(&model, text)?;
    println!(
        "{}",
        if mine.layers {
            "on your layers (chapter 8) and the attention in them"
        } else {
            "on your attention (chapter 5), in the book's layers"
        }
    );
    if mine.greedy {
        println!("written by your greedy decoding (chapter 9)");
    }
    let same = |yours: &str| {
        if yours == book.written {
            "as the book's"
        } else {
            "and the book's is another"
        }
    };
    let yours = translator::translate(&model, text, mine)?;
    println!("\n{}  →  {yours}   {}", book.read, same(&yours));
    if with_cache {
        let cached = translator::translate_with_cache(&model, text, mine)?;
        println!("with your cache  →  {cached}   {}", same(&cached));
    }
    Ok(())
}
