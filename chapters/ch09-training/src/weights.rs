//! Trained weights as bytes, with the record of how they were made, in the safetensors format.

// ANCHOR: weights_imports
use crate::task::Vocabulary;
use crate::trainer::{Plan, Progress, Trainer};
use anyhow::{Context, Result, ensure};
use ch08_transformer::{Learned, Transformer};
use ndarray::{ArrayD, ArrayViewD};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use safetensors::{SafeTensors, tensor::TensorView};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;
// ANCHOR_END: weights_imports

/// How some weights were made.
// ANCHOR: record
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The command that made them.
    pub made_by: String,
    /// The characters that they read, in the order of their tokens.
    pub characters: String,
    /// What the training followed.
    pub plan: Plan,
    /// How many steps were taken.
    pub steps: u64,
    /// The losses since the last look.
    pub losses: Vec<f32>,
    /// How it went.
    pub history: Vec<Progress>,
}

/// The weights that come with the book, and how they were made.
///
/// # Errors
/// None, if the file is the one that came with the book.
pub fn shipped() -> Result<(Transformer<f32>, Record)> {
    load(include_bytes!("../weights/dates.safetensors"))
}
// ANCHOR_END: record

/// A model as bytes: its tables under their names.
///
/// # Errors
/// If the format cannot hold them, or a number in the record is not finite.
// ANCHOR: save
pub fn save(model: &Transformer<f32>, record: &Record) -> Result<Vec<u8>> {
    pack(model.tables(), record)
}

/// The key under which the record stands. There is only this one, so that the same weights always
/// are the same bytes.
const RECORD: &str = "record";

fn pack(
    tables: Vec<(String, ArrayViewD<f32>)>,
    record: &Record,
) -> Result<Vec<u8>> {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tables
        .into_iter()
        .map(|(name, table)| {
            let bytes = table.iter().flat_map(|x| x.to_le_bytes()).collect();
            (name, table.shape().to_vec(), bytes)
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| {
            let view =
                TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes)?;
            Ok((name, view))
        })
        .collect::<Result<Vec<_>>>()?;
    let record = serde_json::to_string(record)?;
    // JSON has no word for what is not finite, and nobody could read it back.
    serde_json::from_str::<Record>(&record)
        .context("a number in the record is not finite")?;
    let about = HashMap::from([(RECORD.to_owned(), record)]);
    Ok(safetensors::serialize(views, Some(about))?)
}
// ANCHOR_END: save

/// The model that some bytes hold, and how it was made.
///
/// # Errors
/// If the bytes are not weights of this task, or a number among them is not finite.
// ANCHOR: load
pub fn load(bytes: &[u8]) -> Result<(Transformer<f32>, Record)> {
    let (tables, record) = unpack(bytes)?;
    let model = fill(&tables, "", &record)?;
    nothing_else(&tables, model.tables().len())?;
    Ok((model, record))
}

fn unpack(bytes: &[u8]) -> Result<(SafeTensors<'_>, Record)> {
    let (header, about) = SafeTensors::read_metadata(bytes)
        .context("these are no weights in the safetensors format")?;
    // Eight bytes tell the length of the header; it is JSON.
    let header = bytes.get(8..8 + header).context("the header is cut off")?;
    serde_json::from_slice::<NothingTwice>(header)
        .context("the header of the weights is ambiguous")?;
    let record = about.metadata().as_ref().and_then(|map| map.get(RECORD));
    let record = record.context("the weights do not say how they were made")?;
    let record: Record = serde_json::from_str(record)
        .context("the record of the weights cannot be read")?;
    let ours: String = Vocabulary::of_sources().characters().iter().collect();
    ensure!(
        record.characters == ours,
        "the weights were made for other characters than the dates are written with now"
    );
    record.plan.check()?;
    // Before there is room for a model, the bytes must be enough to fill it.
    let (numbers, held) = (record.plan.least_parameters(), bytes.len() / 4);
    ensure!(
        numbers <= held as u64,
        "the record speaks of more than {numbers} numbers, but the weights have {held} at most"
    );
    Ok((SafeTensors::deserialize(bytes)?, record))
}

/// A model of the recorded sizes, with the tables whose names begin so.
fn fill(
    tables: &SafeTensors,
    prefix: &str,
    record: &Record,
) -> Result<Transformer<f32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut model = Transformer::random(&record.plan.settings(), &mut rng)?;
    for (name, mut table) in model.tables_mut() {
        let read = read(tables, &format!("{prefix}{name}"))?;
        ensure!(
            read.shape() == table.shape(),
            "{name} is {:?} but the model takes {:?}",
            read.shape(),
            table.shape()
        );
        table.assign(&read);
    }
    Ok(model)
}

/// Refuses tables that nobody asked for.
fn nothing_else(tables: &SafeTensors, read: usize) -> Result<()> {
    ensure!(
        tables.len() == read,
        "there are {} tables but the model takes {read}",
        tables.len()
    );
    Ok(())
}

fn read(tables: &SafeTensors, name: &str) -> Result<ArrayD<f32>> {
    let view = tables
        .tensor(name)
        .with_context(|| format!("the weights lack {name}"))?;
    ensure!(
        view.dtype() == safetensors::Dtype::F32,
        "{name} is not made of 32-bit floats"
    );
    let numbers: Vec<f32> = view
        .data()
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    ensure!(
        numbers.iter().all(|x| x.is_finite()),
        "a number in {name} is not finite"
    );
    Ok(ArrayD::from_shape_vec(view.shape(), numbers)?)
}

/// JSON in which no object has a name twice. A reader that does not mind takes one of the two, and
/// nobody can say which.
struct NothingTwice;

impl<'de> Deserialize<'de> for NothingTwice {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for NothingTwice {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if names.contains(&name) {
                let twice = format!("{name} stands there twice");
                return Err(A::Error::custom(twice));
            }
            names.insert(name);
            map.next_value::<Self>()?;
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
// ANCHOR_END: load

/// A training as bytes, to go on from: the model, the best model so far, and what Adam remembers.
///
/// # Errors
/// If the format cannot hold them.
// ANCHOR: pause
pub fn pause(trainer: &Trainer, made_by: &str) -> Result<Vec<u8>> {
    let mut tables = vec![];
    let named = |prefix: &str, name: String| format!("{prefix}{name}");
    for (prefix, model) in [(NOW, &trainer.model), (BEST, &trainer.best)] {
        let part = model.tables().into_iter();
        tables.extend(part.map(|(name, table)| (named(prefix, name), table)));
    }
    let adam = &trainer.adam;
    for (prefix, moments) in [(MEAN, &adam.means), (SQUARE, &adam.squares)] {
        let part = trainer.model.tables().into_iter().zip(moments);
        tables.extend(part.map(|((name, _), m)| (named(prefix, name), m.view())));
    }
    pack(tables, &trainer.record(made_by))
}

const NOW: &str = "now.";
const BEST: &str = "best.";
const MEAN: &str = "mean.";
const SQUARE: &str = "square.";

/// The training that some bytes hold.
///
/// # Errors
/// If the bytes are not from [`pause`].
pub fn resume(bytes: &[u8]) -> Result<Trainer> {
    let (tables, record) = unpack(bytes)?;
    let mut trainer = Trainer::new(record.plan.clone())?;
    trainer.model = fill(&tables, NOW, &record)?;
    trainer.best = fill(&tables, BEST, &record)?;
    let names = trainer.model.tables().into_iter().map(|(name, _)| name);
    let adam = &mut trainer.adam;
    let moments = adam.means.iter_mut().zip(&mut adam.squares);
    for (name, (mean, square)) in names.zip(moments) {
        for (prefix, moment) in [(MEAN, mean), (SQUARE, &mut *square)] {
            let read = read(&tables, &format!("{prefix}{name}"))?;
            ensure!(
                read.shape() == moment.shape(),
                "{prefix}{name} is {:?} but the model takes {:?}",
                read.shape(),
                moment.shape()
            );
            *moment = read;
        }
        ensure!(
            square.iter().all(|&square| square >= 0.0),
            "{SQUARE}{name} has a square below 0"
        );
    }
    nothing_else(&tables, 4 * adam.means.len())?;
    adam.steps = record.steps;
    trainer.losses = record.losses;
    trainer.history = record.history;
    Ok(trainer)
}
// ANCHOR_END: pause
