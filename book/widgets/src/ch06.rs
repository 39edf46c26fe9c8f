//! Self-attention and positions.

use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ch06_self_attention::{self_attention, sentence, sinusoidal_positions, wants_meet_offers};
use figures::with::map_of;
use ndarray::{Array1, Array2, Axis, s};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::{Control, Kind, Live, State, View, heads, row};

pub(crate) const HEATMAP: Live = Live {
    chapter: "ch06",
    figure: "heatmap",
    hint: "Shuffle the words: each keeps its weights, only the rows and columns move, until you add positions. \
           Or write a sentence of your own; a word that the book does not know gets made-up numbers.",
    part: "numbers",
    controls,
    draw,
};

/// The most words that a grid has room for.
const MOST: usize = 10;

fn controls() -> Result<Vec<Control>> {
    let (tokens, _) = sentence();
    let words = Kind::Text { longest: 120 };
    Ok(vec![
        Control::new(
            "words",
            "words, with spaces between them",
            words,
            tokens.join(" "),
        ),
        Control::new("causal", "causal: nobody sees later words", Kind::Check, ""),
        Control::new("positions", "add positions", Kind::Check, ""),
        Control::new("shuffle", "Shuffle the words", Kind::Button, 0),
        Control::new("shuffled", "shuffled", Kind::Hidden, 0),
    ])
}

fn draw(state: &mut State) -> Result<View> {
    let shuffles = state.whole("shuffle")?;
    let mut words: Vec<String> = state
        .text("words")?
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let n = words.len();
    ensure!(
        (1..=MOST).contains(&n),
        "There is room for one to {MOST} words, not {n}."
    );
    let all_alike = words.iter().all(|word| *word == words[0]);
    state.rest("shuffle", all_alike)?;
    // Each press of the button moves the words once.
    if shuffles != state.whole("shuffled")? {
        let before = words.clone();
        let mut rng = ChaCha8Rng::seed_from_u64(shuffles as u64);
        for _ in 0..20 {
            for i in (1..n).rev() {
                words.swap(i, rng.random_range(0..=i));
            }
            if words != before {
                break;
            }
        }
        state.set("words", words.join(" "))?;
        state.set("shuffled", shuffles)?;
    }
    let mut x = Array2::zeros((0, sentence().1.ncols()));
    for word in &words {
        x.push_row(vector(word).view())?;
    }
    if state.is_on("positions")? {
        x += &sinusoidal_positions::<f64>(n, x.ncols());
    }
    let causal = state.is_on("causal")?;
    let mask = if causal {
        Mask::causal(n, n)
    } else {
        Mask::everything()
    };
    let answer = self_attention(&wants_meet_offers(), &x.view().insert_axis(Axis(0)), &mask)?;
    let weights = answer.weights.slice(s![0, 0, .., ..]);
    let allowed = mask.fit((1, 1, n, n))?.slice(s![0, 0, .., ..]).to_owned();
    let tokens: Vec<&str> = words.iter().map(String::as_str).collect();
    let what = if causal {
        "attends to itself and to those before it; the rest is forbidden."
    } else {
        "attends to each."
    };
    let introduction = format!("How much each token of {} {what}", tokens.join(" "));
    let picture = map_of(&tokens, weights, &allowed, &introduction)?;
    let mut table = vec![heads(
        ["from / to"].into_iter().chain(tokens.iter().copied()),
    )];
    let mut most = vec![];
    for (word, weights) in tokens.iter().zip(weights.rows()) {
        table.push(row(*word, weights.to_vec(), 2));
        let best = weights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        if let Some((j, weight)) = best {
            most.push(format!(
                "{word} → {} {}",
                tokens[j],
                figures::number(*weight, 2)
            ));
        }
    }
    Ok(View {
        picture,
        said: format!("Each word looks most at: {}.", most.join(", ")),
        table,
        spots: vec![],
    })
}

/// What the book's sentence says of a word; of other words something made up from their letters, so that
/// the same word always is the same vector.
fn vector(word: &str) -> Array1<f64> {
    let (tokens, x) = sentence();
    if let Some(place) = tokens.iter().position(|token| *token == word) {
        return x.row(place).to_owned();
    }
    let seed = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let half = x.ncols() / 2;
    let mut made_up = Array1::zeros(x.ncols());
    // One thing that it offers, and two that it wants.
    made_up[rng.random_range(0..half)] = 1.0;
    for _ in 0..2 {
        made_up[half + rng.random_range(0..half)] = f64::from(rng.random_range(1..=4_u8));
    }
    made_up
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_always_the_same_vector() {
        let (tokens, x) = sentence();
        assert_eq!(vector(tokens[2]), x.row(2));
        assert_eq!(vector("weather"), vector("weather"));
        assert_ne!(vector("weather"), vector("Weather"));
        let offers = vector("γλῶσσα").slice(s![..5]).sum();
        assert_eq!(offers, 1.0);
    }
}
