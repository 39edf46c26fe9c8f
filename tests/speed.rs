//! The measurements as the pages show them.
//!
//! Nothing here measures: the scripts in `tests/fixtures/speed/` did, and wrote the files.

use ch09_training::trainer::Plan;
use std::fmt::Write;

const ATTENTION: &str = include_str!("fixtures/speed/attention.csv");
const TRAINING: &str = include_str!("fixtures/speed/training.csv");

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn a_training_step_beside_pytorch() {
    let mut table = String::from(
        "| threads | here, ms | PyTorch, ms | times faster | all steps here, minutes |\n|---:|---:|---:|---:|---:|\n",
    );
    let steps = Plan::default().schedule.steps as f64;
    let mut rows = TRAINING.lines().skip(1).peekable();
    assert!(rows.peek().is_some());
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        let [threads, parameters, _, ours, _, theirs, ratio, _] = fields[..] else {
            panic!("{row}");
        };
        // Both trained the same model.
        let (model, _) = ch09_training::weights::shipped().unwrap();
        assert_eq!(
            parameters,
            ch08_transformer::Learned::parameters(&model).to_string()
        );
        // What the page says in words.
        assert!(number(ratio) >= 1.0);
        writeln!(
            table,
            "| {threads} | {:.0} | {:.0} | {:.2} | {:.0} |",
            1e3 * number(ours),
            1e3 * number(theirs),
            number(ratio),
            number(ours) * steps / 60.0
        )
        .unwrap();
    }
    insta::assert_binary_snapshot!("training.md", table.into_bytes());
}

/// The rows of a kind, as fields.
fn rows(kind: &str) -> Vec<Vec<&'static str>> {
    let rows = ATTENTION.lines().map(|line| line.split(',').collect());
    rows.filter(|fields: &Vec<_>| fields[0] == kind).collect()
}

fn milliseconds(seconds: &str) -> String {
    let x = number(seconds) * 1e3;
    let decimals = if x < 1.0 { 3 } else { usize::from(x < 100.0) };
    format!("{x:.decimals$}")
}

fn ratio(fields: &[&str]) -> f64 {
    number(fields[8])
}

#[test]
fn attention_beside_pytorch_and_itself() {
    let mut against = String::from(
        "| queries and keys | mask | threads | here, ms | PyTorch, ms | times faster |\n|---:|---|---:|---:|---:|---:|\n",
    );
    for row in rows("torch") {
        let [_, threads, n, what, ours, _, theirs, _, _] = row[..] else {
            panic!("{row:?}");
        };
        let what = if what == "full" { "none" } else { what };
        let (ours, theirs) = (milliseconds(ours), milliseconds(theirs));
        writeln!(
            against,
            "| {n} | {what} | {threads} | {ours} | {theirs} | {:.2} |",
            ratio(&row)
        )
        .unwrap();
    }
    let mut itself = String::from(
        "| queries and keys | compared | ms | with | ms | times faster |\n|---:|---|---:|---|---:|---:|\n",
    );
    for (kind, slower, faster) in [
        ("small", "chapter 4", "`fast_attention`"),
        (
            "causal",
            "`fast_attention`, no mask",
            "`fast_attention`, causal",
        ),
    ] {
        for row in rows(kind) {
            let (a, b) = (milliseconds(row[4]), milliseconds(row[6]));
            let n = row[2];
            writeln!(
                itself,
                "| {n} | {slower} | {a} | {faster} | {b} | {:.2} |",
                ratio(&row)
            )
            .unwrap();
        }
    }
    let mut translator = String::from(
        "| in one translation | ms | part of it | ms | times longer |\n|---|---:|---|---:|---:|\n",
    );
    for (kind, whole, part) in [
        ("translator", "everything", "chapter 4's attention"),
        (
            "translator attention",
            "chapter 4's attention",
            "the same by `fast_attention`",
        ),
    ] {
        for row in rows(kind) {
            let (a, b) = (milliseconds(row[4]), milliseconds(row[6]));
            writeln!(
                translator,
                "| {whole} | {a} | {part} | {b} | {:.1} |",
                ratio(&row)
            )
            .unwrap();
        }
    }
    insta::assert_binary_snapshot!("translator.md", translator.into_bytes());
    insta::assert_binary_snapshot!("against.md", against.into_bytes());
    insta::assert_binary_snapshot!("itself.md", itself.into_bytes());
}

/// What the page says in words about the tables.
#[test]
fn attention_is_as_fast_as_the_page_says() {
    let against = rows("torch");
    assert_eq!(against.len(), 8);
    assert!(against.iter().all(|row| ratio(row) >= 1.0));
    assert!(rows("causal").iter().all(|row| ratio(row) >= 1.7));
    assert!(rows("small").iter().all(|row| ratio(row) >= 1.0));
    let translator = rows("translator");
    assert!(
        translator
            .iter()
            .all(|row| (3.5..4.5).contains(&ratio(row)))
    );
    let attention = rows("translator attention");
    assert!(attention.iter().all(|row| ratio(row) > 2.0));
    assert_eq!((translator.len(), attention.len()), (1, 1));
    for row in rows("alone fast") {
        let (n, bytes): (u64, u64) = (row[2].parse().unwrap(), row[6].parse().unwrap());
        assert!(bytes <= 4096 * n.max(1024), "{bytes} bytes at {n}");
    }
}
