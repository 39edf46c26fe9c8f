//! The trained translator of dates.

use anyhow::{Context, Result, anyhow};
use ch08_transformer::Transformer;
use ch09_training::translate::{Translation, translate};
use ch09_training::weights;
use figures::number;
use figures::with::{Read, dates_of};
use std::sync::{Mutex, OnceLock};

use crate::{Control, Kind, Live, State, View, heads};

pub(crate) const LANGUAGES: Live = Live {
    chapter: "ch09",
    figure: "languages",
    hint: "Write a date as you would, in any of the languages, and let the model write: each row shows what it \
           looks at for one character.",
    asks_model: true,
    controls,
    draw,
};

const TEXTS: [&str; 3] = ["first", "second", "third"];

/// The most characters that a map has room for.
const LONGEST: usize = 32;

static MODEL: OnceLock<Transformer<f32>> = OnceLock::new();

/// Keeps the model that some bytes hold.
pub(crate) fn keep(bytes: &[u8]) -> Result<()> {
    let (model, _) = weights::load(bytes)?;
    // Those that came first stay; they are the same.
    let _ = MODEL.set(model);
    Ok(())
}

/// The model that was kept. A page hands it over, everybody else has it from the book.
fn model() -> Result<&'static Transformer<f32>> {
    #[cfg(not(target_arch = "wasm32"))]
    if MODEL.get().is_none() {
        let _ = MODEL.set(weights::shipped()?.0);
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
            "not sure"
        };
        let probability = number(translation.probability(), 3);
        table.push(vec![
            text.clone(),
            translation.written.clone(),
            probability,
            sure.to_owned(),
        ]);
        let mut read = Read::of(&translation, &text)?;
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
