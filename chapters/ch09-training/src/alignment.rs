//! Whether a model looks at the right place.

// ANCHOR: alignment_imports
use crate::dates::Example;
use crate::task::Batch;
use anyhow::{Result, bail, ensure};
use ch08_transformer::{DecoderLayer, Mode, Transformer};
use ndarray::{Array2, ArrayRef2, s};
use rayon::prelude::*;
use std::ops::Range;
// ANCHOR_END: alignment_imports

/// The fields of a date.
// ANCHOR: fields
pub const FIELDS: [&str; 3] = ["year", "month", "day"];

/// Which characters of an ISO date write each field.
pub const WRITTEN: [Range<usize>; 3] = [0..4, 5..7, 8..10];
// ANCHOR_END: fields

/// For each decoder layer and each head the share of cross-attention weight that falls on the right
/// field of the text, for year, month and day: `layers × heads`.
///
/// The share of an example is the mean over the characters that are written for the field.
///
/// # Errors
/// If the examples do not fit the model, a date is not ten characters long, or a field lies outside
/// of its text; or if the layers differ in their heads.
// ANCHOR: alignment
pub fn alignment(
    model: &Transformer<f32>,
    examples: &[Example],
) -> Result<Array2<[f64; 3]>> {
    let heads = |layer: &DecoderLayer<f32>| layer.cross_attention.heads();
    let heads: Vec<usize> = model.decoder.layers.iter().map(heads).collect();
    ensure!(
        heads.windows(2).all(|pair| pair[0] == pair[1]),
        "the layers have {heads:?} heads, which make no table"
    );
    let shape = (heads.len(), heads.first().copied().unwrap_or(0));
    for example in examples {
        check(example)?;
    }
    let sums = examples.par_chunks(50).map(|examples| {
        let batch = Batch::new(examples);
        let (source, input) = (&batch.source, &batch.input);
        let steps = model.apply_in_steps(source, input, &mut Mode::Evaluation)?;
        let mut sums = Array2::from_elem(shape, [0.0; 3]);
        for ((layer, head), shares) in sums.indexed_iter_mut() {
            let attention = &steps.decoder.layers[layer].cross_attention;
            let weights = &attention.part.asked.weights;
            for (b, example) in examples.iter().enumerate() {
                let weights = weights.slice(s![b, head, .., ..]);
                for (f, share) in shares.iter_mut().enumerate() {
                    *share += on_field(&weights, &example.fields[f], f);
                }
            }
        }
        Ok(sums)
    });
    let mut total = Array2::from_elem(shape, [0.0; 3]);
    for sums in sums.collect::<Result<Vec<_>>>()? {
        total.zip_mut_with(&sums, |total, sums| {
            for (total, sum) in total.iter_mut().zip(sums) {
                *total += sum / examples.len() as f64;
            }
        });
    }
    Ok(total)
}

fn check(example: &Example) -> Result<()> {
    let [written, n] =
        [&example.iso, &example.text].map(|text| text.chars().count());
    ensure!(
        written == 10,
        "a date in ISO 8601 has 10 characters, not {written}"
    );
    if let Some(place) = example.fields.iter().flatten().find(|&&j| j >= n) {
        bail!("a field at {place} lies outside of a text of {n} characters");
    }
    Ok(())
}

/// The share of weight on some characters of the text, while a field is written.
fn on_field(weights: &ArrayRef2<f32>, characters: &[usize], field: usize) -> f64 {
    let rows = weights.slice(s![WRITTEN[field].clone(), ..]);
    let sum: f32 = rows
        .rows()
        .into_iter()
        .map(|row| characters.iter().map(|&j| row[j]).sum::<f32>())
        .sum();
    f64::from(sum) / WRITTEN[field].len() as f64
}
// ANCHOR_END: alignment
