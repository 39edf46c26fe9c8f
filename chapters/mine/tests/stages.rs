//! Judges every stage. What is not written yet is passed over by name; what is written must be right.

use mine::judge::{self, Verdict};
use std::process::ExitCode;

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| filters.iter().any(|argument| argument == flag);
    let names: Vec<_> = filters
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut stages = judge::stages();
    stages.retain(|stage| {
        names.is_empty() || names.iter().any(|name| stage.path().contains(*name))
    });
    if has("--ignored") {
        stages.clear();
    }
    if has("--list") {
        for stage in &stages {
            println!("{}: test", stage.path());
        }
        return ExitCode::SUCCESS;
    }

    judge::catch_panics_quietly();
    let (mut passed, mut open, mut failures) = (0, 0, vec![]);
    println!("\njudging {} stages", stages.len());
    for stage in stages {
        let path = stage.path();
        let became = match stage.judge() {
            Verdict::Passed => {
                passed += 1;
                "ok".to_owned()
            }
            Verdict::Wrong(wrong) => {
                failures.push(format!("{path}, in {}\n{wrong}", stage.file()));
                "FAILED".to_owned()
            }
            other => {
                open += 1;
                format!("{other}, skipped")
            }
        };
        println!("test {path} ... {became}");
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    println!(
        "\n{} passed; {} failed; {open} not written yet",
        passed,
        failures.len()
    );
    ExitCode::from(u8::from(!failures.is_empty()))
}
