//! The measurements of chapter 10 as the page shows them.
//!
//! Nothing here measures: `tests/fixtures/speed/measure.py` did, and wrote the file.

use std::fmt::Write;

const MEASURED: &str = include_str!("fixtures/speed/measured.csv");

/// The rows of a kind, as fields.
fn rows(kind: &str) -> Vec<Vec<&'static str>> {
    let rows = MEASURED.lines().map(|line| line.split(',').collect());
    rows.filter(|fields: &Vec<_>| fields[0] == kind).collect()
}

fn milliseconds(seconds: &str) -> String {
    let x = seconds.parse::<f64>().unwrap() * 1e3;
    let decimals = if x < 1.0 { 3 } else { usize::from(x < 100.0) };
    format!("{x:.decimals$}")
}

fn ratio(fields: &[&str]) -> f64 {
    fields[8].parse().unwrap()
}

#[test]
fn tables_of_the_page() {
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
        "| queries and keys | slower | ms | faster | ms | times faster |\n|---:|---|---:|---|---:|---:|\n",
    );
    for (kind, slower, faster) in [
        ("small", "chapter 4", "tiles"),
        ("causal", "tiles, no mask", "tiles, causal"),
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
    insta::assert_binary_snapshot!("against.md", against.into_bytes());
    insta::assert_binary_snapshot!("itself.md", itself.into_bytes());
}

/// What the page says in words about the tables.
#[test]
fn the_page_keeps_to_what_was_measured() {
    let against = rows("torch");
    assert_eq!(against.len(), 8);
    assert!(against.iter().all(|row| ratio(row) >= 1.0));
    assert!(rows("causal").iter().all(|row| ratio(row) >= 1.7));
    assert!(rows("small").iter().all(|row| ratio(row) >= 1.0));
    for row in rows("alone fast") {
        let (n, bytes): (u64, u64) = (row[2].parse().unwrap(), row[6].parse().unwrap());
        assert!(bytes <= 4096 * n.max(1024), "{bytes} bytes at {n}");
    }
}
