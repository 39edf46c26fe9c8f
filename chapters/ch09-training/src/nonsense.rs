//! Texts that are no dates, so that a model learns to be unsure of them.

// ANCHOR: nonsense_imports
use crate::dates::{self, Example, Split};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};
// ANCHOR_END: nonsense_imports

/// What is left of a date of the split when something it needs is gone, or a text that never was one.
/// The answer is still the date, and no field is written.
// ANCHOR: nonsense
pub fn nonsense(split: Split, rng: &mut (impl Rng + ?Sized)) -> Example {
    let Example { text, iso, fields } = dates::example(split, rng);
    let mut letters: Vec<char> = text.chars().collect();
    match rng.random_range(0..6) {
        0 | 1 => {
            let field = &fields[rng.random_range(0..3)];
            letters = without(&letters, field);
        }
        2 => letters = without(&letters, &fields[0][..2]),
        3 => letters.shuffle(rng),
        4 => letters = month_first(&iso, rng),
        _ => letters = words(&letters, rng),
    }
    Example {
        text: letters.into_iter().collect(),
        iso,
        fields: Default::default(),
    }
}

fn without(letters: &[char], places: &[usize]) -> Vec<char> {
    let kept = letters.iter().enumerate();
    kept.filter(|(place, _)| !places.contains(place))
        .map(|(_, &letter)| letter)
        .collect()
}

/// Month, day, year in digits, with a day that cannot be a month: 11/29/2026.
fn month_first(iso: &str, rng: &mut (impl Rng + ?Sized)) -> Vec<char> {
    let sign = ["/", "-", "."].choose(rng).copied().unwrap_or("/");
    let (year, month) = (&iso[..4], &iso[5..7]);
    let day = rng.random_range(13..=31);
    format!("{month}{sign}{day}{sign}{year}").chars().collect()
}

/// Every letter another one, and a few letters more; what is no letter stays.
fn words(letters: &[char], rng: &mut (impl Rng + ?Sized)) -> Vec<char> {
    let mut any = || char::from(rng.random_range(b'a'..=b'z'));
    let mut text: Vec<char> = letters
        .iter()
        .map(|&c| if c.is_alphabetic() { any() } else { c })
        .collect();
    text.extend([any(), any(), any()]);
    text
}
// ANCHOR_END: nonsense
