//! The trained translator of dates.

use anyhow::{Context, Result, anyhow, ensure};
use ch08_transformer::{Learned, Transformer};
use ch09_training::trainer::Plan;
use ch09_training::translate::{Translation, translate};
use ch09_training::weights::shipped;
use figures::number;
use figures::with::{Read, dates_of};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::{Mutex, OnceLock};

use crate::{Control, Kind, Live, State, View, heads};

pub(crate) const LANGUAGES: Live = Live {
    chapter: "ch09",
    figure: "languages",
    hint: "Write a date as you would, in any of the languages, and let the model write: each row shows what it \
           looks at for one character.",
    part: "dates",
    controls,
    draw,
};

const TEXTS: [&str; 3] = ["first", "second", "third"];

/// The most characters that a map has room for.
const LONGEST: usize = 32;

static MODEL: OnceLock<Transformer<f32>> = OnceLock::new();

/// The trained weights as a page gets them: the numbers of all tables, one after the other, each in four
/// bytes. Reading the file that they come in would take more code than all the figures.
///
/// # Errors
/// None, if the file is the one that came with the book.
pub fn packed_weights() -> Result<Vec<u8>> {
    let (model, _) = shipped()?;
    let tables = model.tables().into_iter();
    let numbers = tables.flat_map(|(_, table)| table.iter().copied().collect::<Vec<f32>>());
    Ok(numbers.flat_map(f32::to_le_bytes).collect())
}

/// The model of these weights.
fn unpacked(bytes: &[u8]) -> Result<Transformer<f32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut model = Transformer::random(&Plan::default().settings(), &mut rng)?;
    let mut numbers = bytes.chunks_exact(4).map(|bytes| {
        let four = [bytes[0], bytes[1], bytes[2], bytes[3]];
        f32::from_le_bytes(four)
    });
    let wanted = model.parameters();
    ensure!(
        bytes.len() == 4 * wanted,
        "the model has {wanted} numbers, but its weights are {} bytes",
        bytes.len()
    );
    for (_, mut table) in model.tables_mut() {
        for x in &mut table {
            *x = numbers.next().context("the weights end too early")?;
        }
    }
    Ok(model)
}

/// Keeps the model of these weights.
pub(crate) fn keep(bytes: &[u8]) -> Result<()> {
    // What came first stays; it is the same.
    let _ = MODEL.set(unpacked(bytes)?);
    Ok(())
}

/// The model that was kept. A page hands it over, everybody else has it from the book.
fn model() -> Result<&'static Transformer<f32>> {
    #[cfg(not(target_arch = "wasm32"))]
    if MODEL.get().is_none() {
        let _ = MODEL.set(shipped()?.0);
    }
    MODEL
        .get()
        .context("The trained weights have not arrived yet.")
}

fn controls() -> Result<Vec<Control>> {
    let dates = ["29 novembre 2026", "Nov 29, 2026", "2026年11月29日"];
    let ordinals = ["first date", "second date", "third date"];
    let texts = TEXTS.into_iter().zip(ordinals).zip(dates);
    let mut controls: Vec<_> = texts
        .map(|((name, label), date)| {
            Control::new(name, label, Kind::Text { longest: LONGEST }, date)
        })
        .collect();
    let slider = Kind::Slider {
        min: 0.0,
        max: 10.0,
        step: 1.0,
        runs: true,
    };
    controls.push(Control::new("written", "characters written", slider, 10));
    Ok(controls)
}

fn draw(state: &mut State) -> Result<View> {
    let written = state.whole("written")?;
    state.show("written", written.to_string())?;
    let (mut reads, mut said) = (vec![], vec![]);
    let mut table = vec![heads(["text", "answer", "probability", "the model is"])];
    for name in TEXTS {
        let text = state.text(name)?.to_owned();
        let translation = remembered(&text).with_context(|| format!("the {name} date"))?;
        let sure = if translation.is_sure() {
            "sure"
        } else {
            "unsure"
        };
        let probability = number(translation.probability(), 3);
        table.push(vec![
            text.clone(),
            translation.written.clone(),
            probability,
            sure.to_owned(),
        ]);
        let mut read = Read::of(&translation, &translation.read)?;
        read.written = read.written.chars().take(written).collect();
        said.push(format!("{text}: {} ({sure})", read.written));
        reads.push(read);
    }
    Ok(View {
        picture: dates_of(&reads)?,
        said: format!("{}.", said.join("; ")),
        table,
        spots: vec![],
    })
}

/// What the model makes of a text. The last few are remembered, so that only what changed is read anew.
fn remembered(text: &str) -> Result<Translation> {
    static LAST: Mutex<Vec<(String, Translation)>> = Mutex::new(Vec::new());
    let mut last = LAST.lock().map_err(|_| anyhow!("a translation failed"))?;
    if let Some((_, translation)) = last.iter().find(|(known, _)| known == text) {
        return Ok(translation.clone());
    }
    let translation = translate(model()?, text)?;
    if last.len() >= 8 {
        last.remove(0);
    }
    last.push((text.to_owned(), translation.clone()));
    Ok(translation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_weights_are_the_books() {
        let packed = packed_weights().unwrap();
        assert_eq!(unpacked(&packed).unwrap(), shipped().unwrap().0);
        let error = unpacked(&packed[4..]).unwrap_err().to_string();
        assert!(error.contains("numbers"), "{error}");
    }
}
