//! The worked examples of chapter 3, printed: `cargo run -p ch03-scaled`.

use anyhow::Result;
use ch01_alignment::{alignment_scores, first_example, second_example};
use ch02_softmax::{attend, second_example_values, softmax, word_values};
use ch03_scaled::{
    KEYS, PAIRS, QUERIES, SEED, WIDTHS, dot_product_spread, random_vector,
    saturation, scale, scaled_dot_product_attention, scaled_scores, size,
    softmax_jacobian,
};
use ndarray::{Array1, Array2, Axis};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn main() -> Result<()> {
    spread()?;
    saturate()?;
    jacobian()?;
    first()?;
    second()?;
    other_scales()?;
    Ok(())
}

// ANCHOR: spread
fn spread() -> Result<()> {
    println!("# spread: {PAIRS} random dot products at each width");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    println!(" d_k     mean  variance  variance / d_k");
    for d_k in WIDTHS {
        let (mean, variance) = dot_product_spread(d_k, PAIRS, &mut rng)?;
        let ratio = variance / d_k as f64;
        println!("{d_k:4} {mean:8.3} {variance:9.3} {ratio:15.3}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: spread

// ANCHOR: saturate
fn saturate() -> Result<()> {
    println!(
        "# saturation: {KEYS} random keys, and the median of {QUERIES} random queries"
    );
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    println!("       largest weight      size of gradient");
    println!(" d_k  unscaled  scaled    unscaled  scaled");
    for d_k in WIDTHS {
        let [unscaled, scaled] = saturation(d_k, KEYS, QUERIES, &mut rng)?;
        println!(
            "{d_k:4} {:9.3} {:7.3} {:11.4} {:7.4}",
            unscaled.largest_weight,
            scaled.largest_weight,
            unscaled.gradient,
            scaled.gradient
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: saturate

// ANCHOR: jacobian
fn jacobian() -> Result<()> {
    println!("# jacobian: How the weights answer to the scores");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let jacobian = softmax_jacobian(&softmax(&scores.row(0)));
    show("at the scores", &jacobian);
    println!(
        "row sums = {:.3}",
        jacobian.sum_axis(Axis(1)).mapv(f64::abs)
    );
    println!("size = {:.4}", size(&jacobian));
    let tenfold = scores.mapv(|e| 10.0 * e);
    let jacobian = softmax_jacobian(&softmax(&tenfold.row(0)));
    println!("size at ten times the scores = {:.1e}", size(&jacobian));
    println!();
    Ok(())
}

fn show(name: &str, matrix: &Array2<f64>) {
    println!("{name}   {} × {}", matrix.nrows(), matrix.ncols());
    println!("{matrix:6.3}");
}
// ANCHOR_END: jacobian

// ANCHOR: first
fn first() -> Result<()> {
    println!("# first: The first example, without the scale and with it");
    let (queries, keys) = first_example();
    let values = word_values();
    let unscaled = attend(&alignment_scores(&queries, &keys)?, &values)?;
    let scaled = scaled_dot_product_attention(&queries, &keys, &values)?;
    println!("d_k = {}", keys.ncols());
    println!("scale = {}", scale::<f64>(keys.ncols())?);
    println!("scores = {:.2}", alignment_scores(&queries, &keys)?.row(0));
    println!(
        "scaled scores = {:.2}",
        scaled_scores(&queries, &keys)?.row(0)
    );
    println!("weights, unscaled = {:.3}", unscaled.weights.row(0));
    println!("weights, scaled = {:.3}", scaled.weights.row(0));
    println!("r, unscaled = {:.3}", unscaled.output.row(0));
    println!("r, scaled = {:.3}", scaled.output.row(0));
    let mean = values.sum_axis(Axis(0)) / values.nrows() as f64;
    println!("mean of the values = {mean:.3}");
    println!();
    Ok(())
}
// ANCHOR_END: first

// ANCHOR: second
fn second() -> Result<()> {
    println!("# second: Two queries, four keys of width 3, values of width 5");
    let (queries, keys) = second_example();
    let values = second_example_values();
    let attention = scaled_dot_product_attention(&queries, &keys, &values)?;
    show("scaled scores", &scaled_scores(&queries, &keys)?);
    show("weights A", &attention.weights);
    show("output A V", &attention.output);
    println!();
    Ok(())
}
// ANCHOR_END: second

// ANCHOR: other_scales
fn other_scales() -> Result<()> {
    println!("# other-scales: One head of width 64, seen through five divisors");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let (d_k, d_model) = (64, 512);
    let query = random_vector(d_k, &mut rng);
    let scores = Array1::from_shape_simple_fn(16, || {
        query.dot(&random_vector(d_k, &mut rng))
    });
    let root = |width: usize| (width as f64).sqrt();
    for (name, divisor) in [
        ("1", 1.0),
        ("√d_k", root(d_k)),
        ("√d_model", root(d_model)),
        ("d_k", d_k as f64),
        ("√d_k twice", root(d_k) * root(d_k)),
    ] {
        let weights = softmax(&(&scores / divisor));
        let largest = weights.fold(0.0, |a, &b| f64::max(a, b));
        println!("divided by {name:<10}  largest of 16 weights {largest:.3}");
    }
    println!("even share = {:.4}", 1.0 / 16.0);
    Ok(())
}
// ANCHOR_END: other_scales
