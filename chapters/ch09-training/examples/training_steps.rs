//! Measures what it is asked to on its standard input, a line at a time: `step` gives the seconds of a
//! training step, and `tokens` a batch like those of the steps, for somebody else to train on.
//!
//! `tests/fixtures/speed/training.py` asks.

use anyhow::{Result, bail};
use ch09_training::dates::{self, Split};
use ch09_training::nonsense::nonsense;
use ch09_training::task::Batch;
use ch09_training::trainer::{Plan, Trainer};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::io::{Write, stdin, stdout};
use std::time::Instant;

fn main() -> Result<()> {
    let plan = Plan::default();
    let mut trainer = Trainer::new(plan.clone())?;
    for line in stdin().lines() {
        match line?.as_str() {
            "step" => {
                let start = Instant::now();
                trainer.step()?;
                println!("{}", start.elapsed().as_secs_f64());
            }
            "tokens" => {
                let rng = &mut ChaCha8Rng::seed_from_u64(plan.seed);
                let dates =
                    (0..plan.batch).map(|_| dates::example(Split::Training, rng));
                let mut examples: Vec<_> = dates.collect();
                examples.extend(
                    (0..plan.nonsense).map(|_| nonsense(Split::Training, rng)),
                );
                let batch = Batch::new(&examples);
                let rows = |table: ndarray::Array2<u32>| -> Vec<Vec<u32>> {
                    table.outer_iter().map(|row| row.to_vec()).collect()
                };
                let settings = plan.settings();
                let said = serde_json::json!({
                    "source": rows(batch.source),
                    "input": rows(batch.input),
                    "target": rows(batch.target),
                    "dates": plan.batch,
                    "vocabularies": [settings.source_vocabulary, settings.target_vocabulary],
                    "plan": plan,
                });
                println!("{said}");
            }
            line => bail!("cannot measure {line}"),
        }
        stdout().flush()?;
    }
    Ok(())
}
