//! Cross-attention.

use anyhow::Result;
use ch04_masks::Mask;
use ch07_cross_attention::{alignment as largest, cross_attention, plain_head, source, target};
use ndarray::{Axis, s};

use crate::heatmap::{Marks, marked};
use crate::picture::Picture;
use crate::style::short;

/// What each English word of the target looks at in the Chinese source.
pub(crate) fn alignment() -> Result<Picture> {
    let ((words, decoder), (tokens, memory)) = (target(), source());
    let (m, n) = (words.len(), tokens.len());
    let mask = Mask::padding(&[n - 1], n)?;
    let answer = cross_attention(
        &plain_head(),
        &decoder.view().insert_axis(Axis(0)),
        &memory.view().insert_axis(Axis(0)),
        &mask,
    )?;
    let weights = answer.weights.slice(s![0, 0, .., ..]);
    let allowed = mask.fit((1, 1, m, n))?;
    let allowed = allowed.slice(s![0, 0, .., ..]).to_owned();
    let framed: Vec<_> = largest(&weights)
        .into_iter()
        .enumerate()
        .filter_map(|(i, j)| Some((i, j?)))
        .collect();
    let marks = Marks {
        allowed: Some(&allowed),
        framed: &framed,
    };
    let mut picture = marked(weights, &words, &tokens, marks)?;
    let said: Vec<_> = framed
        .iter()
        .map(|&(i, j)| format!("{} at {} ({})", words[i], tokens[j], short(weights[[i, j]])))
        .collect();
    picture.alt = format!(
        "English words as queries in rows, Chinese tokens as keys in columns, [PAD] forbidden. Each word looks \
         most at one token, which is framed: {}.",
        said.join(", ")
    );
    Ok(picture)
}
