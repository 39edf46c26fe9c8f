//! The task as numbers: characters become tokens, examples become batches.

// ANCHOR: task_imports
use crate::dates::{self, Example, Split};
use crate::reading::as_read;
use ch08_transformer::PAD;
use ndarray::Array2;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::sync::LazyLock;
// ANCHOR_END: task_imports

/// The characters that a sequence may be written with, and a token for each. Token 0 fills up
/// short sequences ([`PAD`]); the tokens 1 and 2 have meanings of their own.
// ANCHOR: vocabulary
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    characters: Vec<char>,
}

/// In a source: a character that the vocabulary does not know.
pub const UNKNOWN: u32 = 1;
/// In a target: what stands before the first character.
pub const BEGIN: u32 = 1;
/// In a target: what stands behind the last character.
pub const END: u32 = 2;
/// The first token that is a character.
const FIRST: u32 = 3;

impl Vocabulary {
    /// The characters that dates are written with.
    pub fn of_sources() -> &'static Self {
        static SOURCES: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary {
            characters: dates::alphabet(),
        });
        &SOURCES
    }

    /// The characters of ISO 8601.
    pub fn of_targets() -> &'static Self {
        static TARGETS: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary {
            characters: "-0123456789".chars().collect(),
        });
        &TARGETS
    }

    /// The characters, in the order of their tokens.
    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.characters.len() + FIRST as usize
    }

    /// Whether there is no token: never, for the first three are always there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A token for each character of a text; [`UNKNOWN`] for those that have none. The text is
    /// taken as it is read, see [`as_read`].
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        as_read(text)
            .chars()
            .map(|character| {
                let place = self.characters.iter().position(|&c| c == character);
                place.map_or(UNKNOWN, |place| place as u32 + FIRST)
            })
            .collect()
    }

    /// The character of a token, if it is one.
    pub fn character(&self, token: u32) -> Option<char> {
        let place = token.checked_sub(FIRST)?;
        self.characters.get(place as usize).copied()
    }
}
// ANCHOR_END: vocabulary

/// Examples side by side, as a model is trained on them. A row is an example.
// ANCHOR: batch
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The dates as somebody wrote them, `batch × n`, filled up with [`PAD`].
    pub source: Array2<u32>,
    /// What the decoder is given: [`BEGIN`], then the date in ISO 8601, `batch × 11`.
    pub input: Array2<u32>,
    /// What it should answer: the date in ISO 8601, then [`END`], `batch × 11`.
    pub target: Array2<u32>,
    /// Whether there is a right answer. To a text that is no date every answer is as good as any
    /// other.
    pub is_dates: bool,
}

impl Batch {
    /// From some dates.
    pub fn new(examples: &[Example]) -> Self {
        let (sources, targets) =
            (Vocabulary::of_sources(), Vocabulary::of_targets());
        let texts = examples.iter().map(|e| sources.tokens(&e.text)).collect();
        let isos: Vec<Vec<u32>> =
            examples.iter().map(|e| targets.tokens(&e.iso)).collect();
        let input = isos.iter().map(|iso| [&[BEGIN], &iso[..]].concat());
        let target = isos.iter().map(|iso| [&iso[..], &[END]].concat());
        Self {
            source: padded(texts),
            input: padded(input.collect()),
            target: padded(target.collect()),
            is_dates: true,
        }
    }

    /// From some texts that are no dates.
    pub fn of_nonsense(examples: &[Example]) -> Self {
        let is_dates = false;
        Self {
            is_dates,
            ..Self::new(examples)
        }
    }
}

/// Examples of a split, always the same ones.
pub fn examples(split: Split, count: usize) -> Vec<Example> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    (0..count)
        .map(|_| dates::example(split, &mut rng))
        .collect()
}

/// The rows side by side, as long as the longest.
pub fn padded(rows: Vec<Vec<u32>>) -> Array2<u32> {
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    Array2::from_shape_fn((rows.len(), n), |(b, i)| {
        rows[b].get(i).copied().unwrap_or(PAD)
    })
}
// ANCHOR_END: batch
