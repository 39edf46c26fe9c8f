//! The worked examples of chapter 7, printed: `cargo run -p ch07-cross-attention`.

use anyhow::Result;
use ch04_masks::Mask;
use ch05_multihead::MultiHeadAttention;
use ch06_self_attention::self_attention;
use ch07_cross_attention::{
    alignment, cross_attention, plain_head, source, target,
};
use ndarray::{Array2, Array3, Axis};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn main() -> Result<()> {
    translate()?;
    shapes()?;
    special_case()?;
    remembered()?;
    wrong_mask()?;
    unmasked()?;
    swapped()?;
    Ok(())
}

// ANCHOR: translate
fn translate() -> Result<()> {
    println!("# translate: Each English word looks at the Chinese ones");
    let (chinese, memory) = source();
    let (english, decoder) = target();
    let real = Mask::padding(&[4], 5)?;
    let weights = read(&plain_head(), &decoder, &memory, &real)?;
    println!("columns: {}", chinese.join(" "));
    let aligned = alignment(&weights);
    for ((word, row), best) in english.iter().zip(weights.rows()).zip(aligned) {
        let best = best.map_or("nothing", |j| chinese[j]);
        println!("{row:.2}  {word:<8} {best}");
    }
    println!();
    Ok(())
}

/// The weights of the only head for a single pair of sequences, m × n.
fn read(
    attention: &MultiHeadAttention<f64>,
    decoder: &Array2<f64>,
    memory: &Array2<f64>,
    mask: &Mask,
) -> Result<Array2<f64>> {
    let batch = |x: &Array2<f64>| x.clone().insert_axis(Axis(0));
    let answer = cross_attention(attention, &batch(decoder), &batch(memory), mask)?;
    Ok(answer
        .weights
        .index_axis_move(Axis(0), 0)
        .index_axis_move(Axis(0), 0))
}
// ANCHOR_END: translate

// ANCHOR: shapes
fn shapes() -> Result<()> {
    println!("# shapes: Two sequences of different lengths");
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let (decoder, memory) = (wavy(2, 6, 8), wavy(2, 5, 8));
    let source_mask = Mask::padding(&[4, 5], 5)?;
    let answer = cross_attention(&attention, &decoder, &memory, &source_mask)?;
    println!("decoder      {:?}   (batch, m, d_model)", decoder.dim());
    println!("memory       {:?}   (batch, n, d_model)", memory.dim());
    println!("source mask  {source_mask:?}");
    println!(
        "weights      {:?}   (batch, heads, m, n)",
        answer.weights.dim()
    );
    println!(
        "output       {:?}   (batch, m, d_model)",
        answer.output.dim()
    );
    println!();
    Ok(())
}

/// A batch of n vectors each, no two of them alike.
fn wavy(batch: usize, n: usize, d_model: usize) -> Array3<f64> {
    Array3::from_shape_fn((batch, n, d_model), |(b, i, c)| {
        (1.0 + 0.7 * b as f64 + 1.3 * i as f64 + 2.1 * c as f64 + 0.3 * n as f64)
            .sin()
    })
}
// ANCHOR_END: shapes

// ANCHOR: special_case
fn special_case() -> Result<()> {
    println!("# special-case: A sequence that reads itself");
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let x = wavy(1, 4, 8);
    let mask = Mask::everything();
    let crossed = cross_attention(&attention, &x, &x, &mask)?;
    let same = crossed == self_attention(&attention, &x, &mask)?;
    println!("cross-attention of x with x is self-attention of x: {same}");
    println!();
    Ok(())
}
// ANCHOR_END: special_case

// ANCHOR: remembered
fn remembered() -> Result<()> {
    println!("# remembered: The source projected once, asked six times");
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let (decoder, source) = (wavy(1, 6, 8), wavy(1, 5, 8));
    let mask = Mask::everything();
    let all_at_once = cross_attention(&attention, &decoder, &source, &mask)?;

    let memory = attention.remember(&source, &source)?;
    for i in 0..6 {
        let word = decoder.index_axis(Axis(1), i).insert_axis(Axis(1));
        let answer = attention.ask(&word, &memory, &mask)?;
        let expected = all_at_once.output.index_axis(Axis(1), i);
        let difference = &answer.output.index_axis(Axis(1), 0) - &expected;
        let same = difference.iter().all(|x| x.abs() < 1e-12);
        println!("word {i}, asked by itself, gets the same answer: {same}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: remembered

// ANCHOR: wrong_mask
fn wrong_mask() -> Result<()> {
    println!("# wrong-mask: A causal mask between two languages");
    let ((chinese, memory), (english, decoder)) = (source(), target());
    let right = Mask::padding(&[4], 5)?;
    let wrong = Mask::causal_from(0, 6, 5);
    for (name, mask) in [("source mask", right), ("causal mask", wrong)] {
        let aligned = alignment(&read(&plain_head(), &decoder, &memory, &mask)?);
        let pairs: Vec<_> = english
            .iter()
            .zip(aligned)
            .map(|(word, best)| {
                format!("{word} {}", best.map_or("nothing", |j| chinese[j]))
            })
            .collect();
        println!("{name}: {}", pairs.join(", "));
    }
    println!();
    Ok(())
}
// ANCHOR_END: wrong_mask

// ANCHOR: unmasked
fn unmasked() -> Result<()> {
    println!("# unmasked: The source's padding, seen");
    let ((_, memory), (_, decoder)) = (source(), target());
    let seen = read(&plain_head(), &decoder, &memory, &Mask::everything())?;
    let hidden = read(&plain_head(), &decoder, &memory, &Mask::padding(&[4], 5)?)?;
    println!("\"the\", padding seen   {:.2}", seen.row(0));
    println!("\"the\", padding hidden {:.2}", hidden.row(0));
    // A mask as long as the target does not even fit.
    if let Err(error) =
        read(&plain_head(), &decoder, &memory, &Mask::padding(&[6], 6)?)
    {
        println!("error: {error}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: unmasked

// ANCHOR: swapped
fn swapped() -> Result<()> {
    println!("# swapped: The encoder asks the decoder");
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let attention = MultiHeadAttention::<f64>::random(8, 2, &mut rng)?;
    let (decoder, memory) = (wavy(1, 6, 8), wavy(1, 5, 8));
    let mask = Mask::everything();
    let right = cross_attention(&attention, &decoder, &memory, &mask)?;
    let wrong = cross_attention(&attention, &memory, &decoder, &mask)?;
    println!(
        "right: an answer for each of the 6 words to be written, {:?}",
        right.output.dim()
    );
    println!(
        "wrong: an answer for each of the 5 words read,          {:?}",
        wrong.output.dim()
    );
    Ok(())
}
// ANCHOR_END: swapped
