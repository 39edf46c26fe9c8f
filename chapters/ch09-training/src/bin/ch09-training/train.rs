//! Training, as its user sees it: progress, interruption, files.

use anyhow::{Context, Result, bail, ensure};
use ch08_transformer::Learned;
use ch09_training::alignment::{FIELDS, alignment};
use ch09_training::dates::Split;
use ch09_training::task::examples;
use ch09_training::trainer::{Plan, Trainer, exact};
use ch09_training::weights;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the user asked for.
pub(crate) struct Wishes {
    pub(crate) weights: PathBuf,
    pub(crate) force: bool,
    pub(crate) resume: bool,
    pub(crate) steps: Option<u64>,
    pub(crate) seed: Option<u64>,
}

/// How many steps lie between two looks, and how many dates are looked at.
const STEPS_BETWEEN_LOOKS: u64 = 250;
const DATES_TO_LOOK_AT: usize = 1_000;
/// How many dates judge the end.
const HELD_OUT: usize = 2_000;
/// Where weights go if nobody says where.
pub(crate) const USUAL: &str = "dates.safetensors";
const TRAINING: &str = ".training";
const PROGRAM: &str = "cargo run --release -p ch09-training";

pub(crate) fn train(wishes: Wishes) -> Result<()> {
    let files = Files::new(&wishes)?;
    let mut trainer = if wishes.resume {
        files.resume()?
    } else {
        let mut plan = Plan::default();
        plan.schedule.steps = wishes.steps.unwrap_or(plan.schedule.steps);
        plan.seed = wishes.seed.unwrap_or(plan.seed);
        Trainer::new(plan)?
    };
    let made_by = command(&trainer.plan);
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    ctrlc::set_handler(move || {
        // The second time the user means it.
        if stop.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })?;
    println!("{made_by}");
    println!("{} parameters", trainer.model.parameters());

    let validation = examples(Split::Validation, DATES_TO_LOOK_AT);
    let steps = trainer.plan.schedule.steps;
    let bar = bar(&trainer);
    while trainer.adam.steps < steps && !stopped.load(Ordering::SeqCst) {
        trainer.step()?;
        bar.inc(1);
        let done = trainer.adam.steps;
        if done.is_multiple_of(STEPS_BETWEEN_LOOKS) || done == steps {
            let look = trainer.look(&validation)?;
            let line = format!(
                "step {:>6}   loss {:.4}   right {:>5.1} %",
                look.step,
                look.loss,
                100.0 * look.exact
            );
            bar.suspend(|| println!("{line}"));
            files.keep(&trainer, &made_by)?;
        }
    }
    bar.finish_and_clear();
    files.keep(&trainer, &made_by)?;
    if trainer.adam.steps < steps {
        println!(
            "stopped at step {}; to go on: {}",
            trainer.adam.steps,
            files.go_on()
        );
        return Ok(());
    }
    files.finish()?;
    judge(&trainer)?;
    println!("weights: {}", files.weights.display());
    Ok(())
}

/// What the best model makes of dates it has never seen.
fn judge(trainer: &Trainer) -> Result<()> {
    let held_out = examples(Split::HeldOut, HELD_OUT);
    let right = exact(&trainer.best, &held_out)?;
    println!("held out: {:.2} % of {HELD_OUT} dates right", 100.0 * right);
    let heads = alignment(&trainer.best, &held_out)?;
    for (f, field) in FIELDS.iter().enumerate() {
        let shares = heads.indexed_iter().map(|(at, shares)| (at, shares[f]));
        let best = shares.max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some(((layer, head), share)) = best {
            println!(
                "{field:<5} {:.1} % of the weight on it, in head {head} of layer {layer}",
                100.0 * share
            );
        }
    }
    Ok(())
}

/// The command that gives the same training, as far as the plan differs from the usual one.
fn command(plan: &Plan) -> String {
    let usual = Plan::default();
    let mut command = PROGRAM.to_owned();
    let mut options = vec![];
    if plan.schedule.steps != usual.schedule.steps {
        options.push(format!("--steps {}", plan.schedule.steps));
    }
    if plan.seed != usual.seed {
        options.push(format!("--seed {}", plan.seed));
    }
    if !options.is_empty() {
        command.push_str(" -- ");
        command.push_str(&options.join(" "));
    }
    command
}

fn bar(trainer: &Trainer) -> ProgressBar {
    let style = "{bar:32} {pos}/{len} steps, {per_sec}, {eta} left";
    let style =
        ProgressStyle::with_template(style).expect("the template is well formed");
    let bar = ProgressBar::new(trainer.plan.schedule.steps).with_style(style);
    bar.set_position(trainer.adam.steps);
    bar.reset_eta();
    bar
}

/// The weights, and beside them the training while it is not finished.
struct Files {
    weights: PathBuf,
    training: PathBuf,
}

impl Files {
    /// Refuses what would overwrite something.
    fn new(wishes: &Wishes) -> Result<Self> {
        let weights = wishes.weights.clone();
        // Behind the whole name, so that run.v1 and run.v2 do not share one.
        let training = beside(&weights, TRAINING);
        let ending = weights.extension().and_then(|ending| ending.to_str());
        ensure!(
            weights.file_name().is_some()
                && ![Some("training"), Some("new")].contains(&ending),
            "{} cannot be the name of weights",
            weights.display()
        );
        // Better now than after the first look.
        if let Some(folder) = weights.parent().filter(|folder| *folder != "") {
            ensure!(folder.is_dir(), "there is no folder {}", folder.display());
        }
        if !wishes.resume && !wishes.force {
            for file in [&weights, &training] {
                ensure!(
                    !file.try_exists()?,
                    "{} is there already: name another file with --weights, overwrite it with --force, or go on with \
                     a training that was stopped with --resume",
                    file.display()
                );
            }
        }
        Ok(Self { weights, training })
    }

    fn resume(&self) -> Result<Trainer> {
        let bytes = match std::fs::read(&self.training) {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "there is no stopped training: {} does not exist",
                self.training.display()
            ),
            bytes => bytes.with_context(|| self.training.display().to_string())?,
        };
        weights::resume(&bytes).with_context(|| self.training.display().to_string())
    }

    /// Writes the best weights, and all that is needed to go on.
    fn keep(&self, trainer: &Trainer, made_by: &str) -> Result<()> {
        let record = trainer.record(made_by);
        replace(&self.weights, &weights::save(&trainer.best, &record)?)?;
        replace(&self.training, &weights::pause(trainer, made_by)?)
    }

    /// The command that goes on with the training.
    fn go_on(&self) -> String {
        let mut command = format!("{PROGRAM} -- --resume");
        if self.weights != Path::new(USUAL) {
            command.push_str(&format!(" --weights \"{}\"", self.weights.display()));
        }
        command
    }

    /// Nothing is left to go on with.
    fn finish(&self) -> Result<()> {
        std::fs::remove_file(&self.training)
            .with_context(|| self.training.display().to_string())
    }
}

/// The file beside another whose name is the other's with this ending behind it.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Writes a file at once: whoever reads it finds the old bytes or the new ones, never a part.
fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let new = beside(file, ".new");
    std::fs::write(&new, bytes)
        .and_then(|()| std::fs::rename(&new, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
