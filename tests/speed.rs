//! The measurements as the pages show them.
//!
//! Nothing here measures: the scripts in `tests/fixtures/speed/` did, and wrote the files.

use ch09_training::trainer::Plan;
use std::fmt::Write;

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
