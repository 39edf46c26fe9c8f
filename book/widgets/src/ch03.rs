//! Scaled dot-product attention.

use anyhow::Result;
use ch01_alignment::{alignment_scores, first_example};
use ch02_softmax::softmax;
use ch03_scaled::{SEED, random_vector, scale, size, softmax_jacobian};
use figures::number;
use figures::with::scaled_of;
use ndarray::{Array2, Axis, concatenate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::{Control, Kind, Live, State, View, heads, row};

pub(crate) const SCALED: Live = Live {
    chapter: "ch03",
    figure: "scaled",
    hint: "Slide the width up: random entries join the book's four. Without the scale one key \
           soon takes everything and the gradient dies; draw other numbers to see how often.",
    part: "numbers",
    controls,
    draw,
};

/// A draw that saturates early. Most do, some only at a great width.
const FIRST: u64 = SEED + 6;

/// The width is a power of 2, this one at most.
const WIDEST: u32 = 10;

fn controls() -> Result<Vec<Control>> {
    let slider = Kind::Slider {
        min: 2.0,
        max: f64::from(WIDEST),
        step: 1.0,
        runs: false,
    };
    Ok(vec![
        Control::new("width", "width d_k", slider, 2),
        Control::new("seed", "Draw other numbers", Kind::Button, 0),
    ])
}

fn draw(state: &mut State) -> Result<View> {
    let power = state.whole("width")?;
    let seed = state.whole("seed")? as u64;
    let d_k = 1 << power;
    state.show("width", d_k.to_string())?;
    let (query, keys) = widened(d_k, seed)?;
    let scores = alignment_scores(&query, &keys)?;
    let factors = [1.0, scale(d_k)?];
    let both = factors.map(|factor| {
        let scores = (&scores * factor).row(0).to_vec();
        // e = c K q, so ∂a/∂q = J · c K
        let weights = softmax(&ndarray::ArrayView1::from(&scores));
        let gradient = softmax_jacobian(&weights).dot(&keys) * factor;
        (scores, weights.to_vec(), size(&gradient))
    });
    let mut table = vec![heads([
        "the scale",
        "k1",
        "k2",
        "k3",
        "k4",
        "size of ∂a/∂q",
    ])];
    for (name, (scores, weights, gradient)) in ["without", "with"].into_iter().zip(&both) {
        let mut cells = row(format!("scores, {name}"), scores.iter().copied(), 2);
        cells.push(String::new());
        table.push(cells);
        let mut cells = row(format!("weights, {name}"), weights.iter().copied(), 3);
        cells.push(small(*gradient));
        table.push(cells);
    }
    let [without, with] = &both;
    let largest = |weights: &[f64]| number(weights.iter().fold(0.0, |a, &b| a.max(b)), 3);
    let said = format!(
        "At width {d_k} the largest weight is {} without the scale and {} with it; the gradient ∂a/∂q has size {} \
         and {}.",
        largest(&without.1),
        largest(&with.1),
        small(without.2),
        small(with.2)
    );
    Ok(View {
        picture: scaled_of(&without.1, &with.1, d_k)?,
        said,
        table,
        spots: vec![],
    })
}

/// The first example, each vector continued with random entries up to that width: the same ones for a
/// wider one.
fn widened(d_k: usize, seed: u64) -> Result<(Array2<f64>, Array2<f64>)> {
    let (query, keys) = first_example();
    let mut rng = ChaCha8Rng::seed_from_u64(FIRST + seed);
    let mut continued = |rows: Array2<f64>| -> Result<Array2<f64>> {
        let mut wide = vec![];
        for row in rows.rows() {
            let more = random_vector((1 << WIDEST) - row.len(), &mut rng);
            let whole = concatenate![Axis(0), row, more];
            wide.extend_from_slice(&whole.to_vec()[..d_k]);
        }
        Ok(Array2::from_shape_vec((rows.nrows(), d_k), wide)?)
    };
    Ok((continued(query)?, continued(keys)?))
}

/// Three decimals, or powers of ten where those would be zeros.
fn small(x: f64) -> String {
    if x == 0.0 || x >= 0.001 {
        number(x, 3)
    } else {
        let power = x.log10().floor();
        format!(
            "{} · 10^{}",
            number(x / 10f64.powf(power), 1),
            number(power, 0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_example_continues_the_narrower() {
        let (narrow, wide) = (widened(64, 1).unwrap(), widened(256, 1).unwrap());
        assert_eq!(narrow.0, wide.0.slice(ndarray::s![.., ..64]));
        assert_eq!(narrow.1, wide.1.slice(ndarray::s![.., ..64]));
        assert_eq!(widened(4, 9).unwrap(), first_example());
    }

    #[test]
    fn small_numbers_have_powers_of_ten() {
        assert_eq!(small(0.25), "0.250");
        assert_eq!(small(4.2e-7), "4.2 · 10^−7");
        assert_eq!(small(0.0), "0.000");
    }
}
