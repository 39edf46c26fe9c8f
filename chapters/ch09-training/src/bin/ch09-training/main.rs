//! Chapter 9 as a program: it trains a translator of dates, uses it, and prints the worked examples.

mod examples;
mod look;
mod train;

use anyhow::{Context, Result, ensure};
use ch09_training::{translate::translate, weights};
use clap::Parser;
use std::path::PathBuf;

/// Trains a translator of dates, or translates a date.
///
/// Without a date it trains, from random numbers, and writes the best weights to a file. With one, it
/// translates the date by the weights that came with the book, or by yours, and shows what the model
/// looked at.
#[derive(Parser)]
#[command(bin_name = "cargo run --release -p ch09-training --")]
struct Arguments {
    /// The date to translate, as people write it, such as "29 novembre 2026".
    date: Vec<String>,

    /// Where trained weights go; with a date, where they come from.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    /// Overwrite weights that are there.
    #[arg(long, conflicts_with_all = ["date", "resume"])]
    force: bool,

    /// Go on with a training that was stopped.
    #[arg(long, conflicts_with_all = ["date", "steps", "seed"])]
    resume: bool,

    /// How many steps to train.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000), conflicts_with = "date")]
    steps: Option<u64>,

    /// Where the random numbers begin.
    #[arg(long, conflicts_with = "date")]
    seed: Option<u64>,

    /// Print the worked examples of the chapter.
    #[arg(long, conflicts_with_all = ["date", "weights", "force", "resume", "steps", "seed"])]
    examples: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.examples {
        return examples::print();
    }
    if arguments.date.is_empty() {
        return train::train(train::Wishes {
            weights: arguments.weights.unwrap_or(train::USUAL.into()),
            force: arguments.force,
            resume: arguments.resume,
            steps: arguments.steps,
            seed: arguments.seed,
        });
    }
    let (model, _) = match &arguments.weights {
        None => weights::shipped()?,
        Some(file) => {
            let bytes = std::fs::read(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            weights::load(&bytes).with_context(|| file.display().to_string())?
        }
    };
    let text = arguments.date.join(" ");
    ensure!(!text.trim().is_empty(), "there is nothing to translate");
    look::show(&translate(&model, &text)?);
    Ok(())
}
