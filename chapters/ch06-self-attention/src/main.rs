//! The worked examples of chapter 6, printed: `cargo run -p ch06-self-attention`.

use anyhow::{Result, ensure};
use ch01_alignment::SENTENCE;
use ch02_softmax::attention_weights;
use ch04_masks::{Mask, PAD};
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::{
    Cost, bidirectional_mask, causal_mask, rotate, self_attention, sentence,
    sinusoidal_positions, token_positions, wants_meet_offers, word_head, words,
};
use ndarray::{Array1, Array2, Array3, Array4, Axis, array, s};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn main() -> Result<()> {
    reads_itself()?;
    heatmap()?;
    future()?;
    permuted()?;
    positions();
    rope()?;
    schemes()?;
    cost()?;
    news();
    unmasked()?;
    one_axis_too_many()?;
    doubled();
    mixed()?;
    left_padded();
    Ok(())
}

// ANCHOR: reads_itself
fn reads_itself() -> Result<()> {
    println!("# words: The four words read themselves");
    let x = words().insert_axis(Axis(0));
    for (name, mask) in [
        ("both ways", Mask::everything()),
        ("only back", Mask::causal(4, 4)),
    ] {
        println!("{name}");
        let answer = self_attention(&word_head(), &x, &mask)?;
        let weights = only_head(answer.weights);
        for (word, row) in SENTENCE.iter().zip(weights.rows()) {
            println!("{row:.3}  {word}");
        }
    }
    println!();
    Ok(())
}

/// The weights of the only head over the only sequence, n × n.
fn only_head(weights: Array4<f64>) -> Array2<f64> {
    weights
        .index_axis_move(Axis(0), 0)
        .index_axis_move(Axis(0), 0)
}
// ANCHOR_END: reads_itself

// ANCHOR: heatmap
fn heatmap() -> Result<()> {
    println!("# sentence: Who looks at whom, both ways and causally");
    let (tokens, x) = sentence();
    let x = x.insert_axis(Axis(0));
    for (name, mask) in [
        ("bidirectional", Mask::everything()),
        ("causal", Mask::causal(6, 6)),
    ] {
        let answer = self_attention(&wants_meet_offers(), &x, &mask)?;
        println!("{name}");
        let weights = only_head(answer.weights);
        for (token, row) in tokens.iter().zip(weights.rows()) {
            println!("{row:.2}  {token}");
        }
    }
    println!("columns: {}", tokens.join(" "));
    println!();
    Ok(())
}
// ANCHOR_END: heatmap

// ANCHOR: future
fn future() -> Result<()> {
    println!("# future: Nothing later changes anything earlier");
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let x = wavy(5, 8);
    let mut changed = x.clone();
    changed.index_axis_mut(Axis(1), 3).fill(1e6);
    let causal = Mask::causal(5, 5);
    let before = self_attention(&attention, &x, &causal)?.output;
    let after = self_attention(&attention, &changed, &causal)?.output;
    for i in 0..5 {
        let same = before.index_axis(Axis(1), i) == after.index_axis(Axis(1), i);
        println!(
            "position {i} bit for bit the same after position 3 has changed: {same}"
        );
    }
    println!();
    Ok(())
}

/// One sequence of n vectors, no two of them alike.
fn wavy(n: usize, d_model: usize) -> Array3<f64> {
    Array3::from_shape_fn((1, n, d_model), |(_, i, c)| {
        (1.0 + 1.3 * i as f64 + 2.1 * c as f64).sin()
    })
}
// ANCHOR_END: future

// ANCHOR: permuted
fn permuted() -> Result<()> {
    println!("# permuted: The words in another order");
    let order = [2, 0, 3, 1];
    let x = words().insert_axis(Axis(0));
    let ask =
        |x: Array3<f64>| self_attention(&word_head(), &x, &Mask::everything());

    let then_permuted = ask(x.clone())?.output.select(Axis(1), &order);
    let first_permuted = ask(x.select(Axis(1), &order))?.output;
    println!(
        "without positions: {}",
        compare(then_permuted, first_permuted)
    );

    // A position belongs to a place, not to a word: it stays where it is.
    let places = sinusoidal_positions::<f64>(4, 10);
    let then_permuted = ask(&x + &places)?.output.select(Axis(1), &order);
    let first_permuted = ask(x.select(Axis(1), &order) + &places)?.output;
    println!("with positions: {}", compare(then_permuted, first_permuted));
    println!();
    Ok(())
}

fn compare(left: Array3<f64>, right: Array3<f64>) -> String {
    let largest = (left - right).fold(0.0, |largest, x| f64::max(largest, x.abs()));
    if largest < 1e-12 {
        "the answers are permuted in the same way, and nothing else changes"
            .to_owned()
    } else {
        format!("the answers differ by up to {largest:.2}")
    }
}
// ANCHOR_END: permuted

// ANCHOR: positions
fn positions() {
    println!("# sinusoidal: Positions 0 to 3");
    println!("width 4\n{:6.3}", sinusoidal_positions::<f64>(4, 4));
    println!("width 5\n{:6.3}", sinusoidal_positions::<f64>(4, 5));
    println!();
}
// ANCHOR_END: positions

// ANCHOR: rope
fn rope() -> Result<()> {
    println!("# rope: The score of a query and a key, three places apart");
    let query = array![1.0, 2.0, -0.5, 0.75];
    let key = array![0.5, -1.0, 1.5, 2.0];
    println!("neither rotated: {:.3}", query.dot(&key));
    for first in [0, 1, 10, 1000] {
        let turned = |vector: &Array1<f64>, position| -> Result<Array1<f64>> {
            let alone = vector.clone().into_shape_with_order((1, 1, 1, 4))?;
            Ok(rotate(&alone, &[position])?.flatten().to_owned())
        };
        let score = turned(&query, first + 3)?.dot(&turned(&key, first)?);
        println!("query at {:4}, key at {first:4}: {score:.3}", first + 3);
    }
    println!();
    Ok(())
}
// ANCHOR_END: rope

// ANCHOR: schemes
fn schemes() -> Result<()> {
    println!("# schemes: What each way to say where does to the weights");
    let mut rng = ChaCha8Rng::seed_from_u64(64);
    let learned =
        Array2::from_shape_simple_fn((64, 4), || rng.random_range(-1.0..1.0));
    let sines = sinusoidal_positions::<f64>(104, 4);
    let largest = |left: &Array2<f64>, right: &Array2<f64>| {
        (left - right).fold(0.0, |most: f64, x| most.max(x.abs()))
    };
    println!("           exchanged   100 places on");
    for scheme in ["none", "sines", "learned", "rotated", "ALiBi"] {
        let tables = [("sines", &sines), ("learned", &learned)];
        let table = tables.into_iter().find(|(name, _)| *name == scheme);
        // The weights of the words in that order, the first of them at that place.
        let weights = |order: [usize; 4], at: usize| -> Result<Array2<f64>> {
            let x = words().select(Axis(0), &order);
            let head = word_head();
            let [asks, offers, ..] = head.projections();
            let (mut q, mut k) = (x.dot(asks.weight()), x.dot(offers.weight()));
            if let Some((_, table)) = table {
                ensure!(at + 4 <= table.nrows(), "there is no such place");
                let places = table.slice(s![at..at + 4, ..]);
                q += &places;
                k += &places;
            } else if scheme == "rotated" {
                let places: Vec<usize> = (at..at + 4).collect();
                let alone =
                    |x: Array2<f64>| x.insert_axis(Axis(0)).insert_axis(Axis(0));
                q = only_head(rotate(&alone(q), &places)?);
                k = only_head(rotate(&alone(k), &places)?);
            }
            let mut scores = q.dot(&k.t()) / 2.0;
            if scheme == "ALiBi" {
                for ((i, j), score) in scores.indexed_iter_mut() {
                    *score -= 0.5 * i.abs_diff(j) as f64;
                }
            }
            Ok(attention_weights(&scores))
        };
        let (order, exchanged) = ([0, 1, 2, 3], [0, 2, 1, 3]);
        let here = weights(order, 0)?;
        let back = weights(exchanged, 0)?.select(Axis(0), &exchanged);
        let moved = largest(&here, &back.select(Axis(1), &exchanged));
        let far = match weights(order, 100) {
            Ok(there) => format!("{:.2}", largest(&here, &there)),
            Err(error) => error.to_string(),
        };
        println!("{scheme:<8} {moved:>11.2}   {far}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: schemes

// ANCHOR: cost
fn cost() -> Result<()> {
    println!("# cost: One layer over n vectors of width 512");
    println!("     n                    multiplications  sequential   path");
    for n in [64, 512, 4096] {
        for (name, cost) in [
            ("self-attention", Cost::of_self_attention(n, 512)),
            ("recurrence", Cost::of_recurrence(n, 512)),
            ("convolution, 3", Cost::of_convolution(n, 512, 3)?),
        ] {
            let Cost {
                multiplications,
                sequential,
                path,
            } = cost;
            println!(
                "{n:6} {name:<14} {multiplications:>20} {sequential:11} {path:6}"
            );
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: cost

// ANCHOR: news
fn news() {
    println!("# news: Steps until the last position hears of the first, measured");
    let recurrence = |x: &Array1<f64>, i: usize| x[i] + x[i.saturating_sub(1)];
    let convolution = |x: &Array1<f64>, i: usize| {
        (i.saturating_sub(1)..(i + 2).min(x.len()))
            .map(|j| x[j])
            .sum()
    };
    let attention = |x: &Array1<f64>, _: usize| x.sum();
    println!("     n  recurrence  convolution  self-attention");
    for n in [4, 16, 64] {
        println!(
            "{n:6} {:11} {:12} {:15}",
            steps(n, recurrence),
            steps(n, convolution),
            steps(n, attention)
        );
    }
    println!();
}

/// Puts a mark on the first of n places and counts the steps until it shows on the last.
fn steps(n: usize, step: impl Fn(&Array1<f64>, usize) -> f64) -> usize {
    let mut x = Array1::zeros(n);
    x[0] = 1.0;
    let mut steps = 0;
    while x[n - 1] == 0.0 {
        x = Array1::from_shape_fn(n, |i| step(&x, i));
        steps += 1;
    }
    steps
}
// ANCHOR_END: news

// ANCHOR: unmasked
fn unmasked() -> Result<()> {
    println!("# unmasked: \"Bidirectional\" without a padding mask");
    let (_, x) = sentence();
    let tokens = array![[1_u32, 2, 3, 4, 5, 6, PAD, PAD]];
    let padded =
        Array3::from_shape_fn(
            (1, 8, 10),
            |(_, i, c)| {
                if i < 6 { x[[i, c]] } else { 0.0 }
            },
        );
    let alone = self_attention(
        &wants_meet_offers(),
        &x.insert_axis(Axis(0)),
        &Mask::everything(),
    )?;
    println!(
        "weights of 好, the sentence alone   {:.2}",
        weights_of_fifth(&alone.weights)
    );
    for (name, mask) in [
        ("without a mask", Mask::everything()),
        ("with the mask", bidirectional_mask(&tokens, PAD)),
    ] {
        let answer = self_attention(&wants_meet_offers(), &padded, &mask)?;
        println!(
            "padded to 8, {name:<14}      {:.2}",
            weights_of_fifth(&answer.weights)
        );
    }
    let causal = causal_mask(&tokens, PAD)?;
    println!("the causal mask of the same tokens is {causal:?}");
    println!();
    Ok(())
}

fn weights_of_fifth(weights: &Array4<f64>) -> Array1<f64> {
    weights
        .index_axis(Axis(0), 0)
        .index_axis(Axis(0), 0)
        .row(4)
        .to_owned()
}
// ANCHOR_END: unmasked

// ANCHOR: one_axis_too_many
fn one_axis_too_many() -> Result<()> {
    println!("# heat-map: From four axes to the two that can be drawn");
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let x = Array3::ones((3, 5, 8));
    let weights = self_attention(&attention, &x, &Mask::everything())?.weights;
    println!("weights                     {:?}", weights.dim());
    println!(
        "of sequence 0               {:?}",
        weights.index_axis(Axis(0), 0).dim()
    );
    let head = weights.index_axis(Axis(0), 0).index_axis_move(Axis(0), 1);
    println!("of sequence 0, of head 1    {:?}", head.dim());
    println!();
    Ok(())
}
// ANCHOR_END: one_axis_too_many

// ANCHOR: doubled
fn doubled() {
    println!("# doubled: The exponent counted twice");
    let wrong = Array2::from_shape_fn((3, 4), |(position, column)| {
        // A loop over the columns 0, 2, … already counts 2i.
        let two_i = column - column % 2;
        let angle = position as f64 / 10_000_f64.powf((2 * two_i) as f64 / 4.0);
        if column % 2 == 0 {
            angle.sin()
        } else {
            angle.cos()
        }
    });
    println!("right\n{:7.4}", sinusoidal_positions::<f64>(3, 4));
    println!("wrong\n{wrong:7.4}");
    println!();
}
// ANCHOR_END: doubled

// ANCHOR: mixed
fn mixed() -> Result<()> {
    println!("# mixed: Angles of neighbouring columns, rotation of halves");
    let (query, key) = (array![1.0, 2.0, -0.5, 0.75], array![0.5, -1.0, 1.5, 2.0]);
    // Columns 0 and 2 form a pair, but each is turned by the angle that it has among neighbours.
    let half = |vector: &Array1<f64>, position: usize| {
        Array1::from_shape_fn(4, |column| {
            let angle =
                position as f64 * 10_000_f64.powf(-((column / 2) as f64) / 2.0);
            let partner = if column < 2 {
                -vector[column + 2]
            } else {
                vector[column - 2]
            };
            vector[column] * angle.cos() + partner * angle.sin()
        })
    };
    for first in [0, 1] {
        let turn = |vector: &Array1<f64>, position| -> Result<Array1<f64>> {
            let alone = vector.clone().into_shape_with_order((1, 1, 1, 4))?;
            Ok(rotate(&alone, &[position])?.flatten().to_owned())
        };
        let right = turn(&query, first + 1)?.dot(&turn(&key, first)?);
        let wrong = half(&query, first + 1).dot(&half(&key, first));
        println!(
            "query at {}, key at {first}: right {right:.3}, mixed {wrong:.3}",
            first + 1
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: mixed

// ANCHOR: left_padded
fn left_padded() {
    println!("# left-padded: Positions count tokens, not places");
    let tokens = array![[PAD, PAD, 7, 8], [5, 6, 7, 8]];
    println!("tokens\n{tokens}");
    println!("positions\n{}", token_positions(&tokens, PAD));
}
// ANCHOR_END: left_padded
