//! The worked examples of chapter 5, printed: `cargo run -p ch05-multihead`.

use anyhow::Result;
use ch01_alignment::{SENTENCE, alignment_scores, first_example};
use ch02_softmax::word_values;
use ch03_scaled::scaled_dot_product_attention;
use ch04_masks::{Mask, batched_scaled_scores, masked_softmax, masked_sum};
use ch05_multihead::{
    MultiHeadAttention, Projection, dropout, giver_and_receiver, merge_heads,
    one_head, split_heads, two_heads,
};
use ndarray::{Array1, Array2, Array3, Array4, Axis, Slice, array, concatenate};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn main() -> Result<()> {
    one_by_one()?;
    split()?;
    shapes()?;
    roles()?;
    widths()?;
    drop()?;
    average()?;
    parameters()?;
    indivisible();
    biased()?;
    Ok(())
}

// ANCHOR: one_by_one
fn one_by_one() -> Result<()> {
    println!("# one-by-one: The first question, asked by two heads of width 2");
    let ((query, keys), values) = (first_example(), word_values());
    // W_h^O: both heads hand on what they found, at half its size.
    let w_o = Array2::eye(6) / 2.0;
    let mut together = Array2::zeros((1, 6));
    let mut added = Array2::zeros((1, 4));
    for h in 0..2 {
        let columns = Slice::from(2 * h..2 * (h + 1));
        let q = query.slice_axis(Axis(1), columns);
        let k = keys.slice_axis(Axis(1), columns);
        let head = scaled_dot_product_attention(&q, &k, &values)?;
        let (scores, weights) = (alignment_scores(&q, &k)?, head.weights.row(0));
        let best = (0..4).max_by(|&i, &j| weights[i].total_cmp(&weights[j]));
        println!("head {h}: scores {:.2}", scores.row(0));
        println!("        weights {weights:.3}");
        println!(
            "        looks at {}",
            best.map_or("nothing", |j| SENTENCE[j])
        );
        added += &scores;
        together += &head.output.dot(&w_o);
    }
    println!("scores of both heads, added = {:.2}", added.row(0));
    println!("r of both heads = {:.3}", together.row(0));

    // The same in one go: the matrices of both heads stand side by side.
    let (eye, both) = (Array2::eye(4), Array2::eye(6));
    let attention = MultiHeadAttention::new(
        2,
        eye.clone().into(),
        eye.into(),
        concatenate![Axis(1), both, both].into(),
        concatenate![Axis(0), w_o, w_o].into(),
    )?;
    let batch = |x: Array2<f64>| x.insert_axis(Axis(0));
    let answer = attention.attend(
        &batch(query),
        &batch(keys),
        &batch(values),
        &Mask::everything(),
    )?;
    let difference = &answer.output.index_axis(Axis(0), 0) - &together;
    let same = difference.iter().all(|x: &f64| x.abs() < 1e-12);
    println!("in one go, the same: {same}");
    println!();
    Ok(())
}
// ANCHOR_END: one_by_one

// ANCHOR: split
fn split() -> Result<()> {
    println!("# split: Three tokens of width 4, cut into two heads of width 2");
    let x = Array3::from_shape_vec((1, 3, 4), (1..=12).map(f64::from).collect())?;
    println!("x   (1, 3, 4)\n{:2}", x.index_axis(Axis(0), 0));
    let heads = split_heads(&x, 2)?;
    println!("split   {:?}", heads.dim());
    println!(
        "head 0\n{:2}",
        heads.index_axis(Axis(0), 0).index_axis(Axis(0), 0)
    );
    println!(
        "head 1\n{:2}",
        heads.index_axis(Axis(0), 0).index_axis(Axis(0), 1)
    );
    println!("merged again, the same: {}", merge_heads(&heads) == x);

    // The same numbers in the same order, without exchanging the axes.
    let reshaped = x.to_shape((1, 2, 3, 2))?;
    println!(
        "reshape alone, head 0\n{:2}",
        reshaped.index_axis(Axis(0), 0).index_axis(Axis(0), 0)
    );
    println!();
    Ok(())
}
// ANCHOR_END: split

// ANCHOR: shapes
fn shapes() -> Result<()> {
    println!("# shapes: Every step of multi-head attention");
    let (batch, m, n, d_model, heads) = (2, 3, 5, 8, 4);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let attention = MultiHeadAttention::<f64>::random(d_model, heads, &mut rng)?;
    let [query, key, value, output] = attention.projections();
    let queries =
        Array3::from_shape_fn((batch, m, d_model), |(b, i, c)| wave(b, i, c));
    let source =
        Array3::from_shape_fn((batch, n, d_model), |(b, j, c)| wave(b + 7, j, c));
    let mask = Mask::padding(&[5, 3], n)?;

    println!(
        "queries             {:?}   (batch, m, d_model)",
        queries.dim()
    );
    println!(
        "keys and values     {:?}   (batch, n, d_model)",
        source.dim()
    );
    let q = query.apply(&queries)?;
    println!("Q W^Q               {:?}   (batch, m, h · d_k)", q.dim());
    let q = split_heads(&q, heads)?;
    println!("split               {:?}   (batch, h, m, d_k)", q.dim());
    let k = split_heads(&key.apply(&source)?, heads)?;
    let v = split_heads(&value.apply(&source)?, heads)?;
    println!("K and V, split      {:?}   (batch, h, n, d_k)", k.dim());
    let scores = batched_scaled_scores(&q, &k)?;
    println!("scaled scores       {:?}   (batch, h, m, n)", scores.dim());
    println!("mask                {mask:?}   stretched to that");
    let weights = masked_softmax(&scores, &mask)?;
    println!("weights             {:?}   (batch, h, m, n)", weights.dim());
    let answers = masked_sum(&weights, &v, &mask)?;
    println!(
        "weighted sums       {:?}   (batch, h, m, d_v)",
        answers.dim()
    );
    let merged = merge_heads(&answers);
    println!(
        "heads merged        {:?}   (batch, m, h · d_v)",
        merged.dim()
    );
    let step_by_step = output.apply(&merged)?;
    println!(
        "times W^O           {:?}   (batch, m, d_model)",
        step_by_step.dim()
    );

    let in_one = attention.attend(&queries, &source, &source, &mask)?;
    println!("`attend` gives the same: {}", in_one.output == step_by_step);
    println!();
    Ok(())
}

/// Some number that is another one everywhere.
fn wave(b: usize, i: usize, c: usize) -> f64 {
    (1.0 + b as f64 * 0.7 + i as f64 * 1.3 + c as f64 * 2.1).sin()
}
// ANCHOR_END: shapes

// ANCHOR: roles
fn roles() -> Result<()> {
    println!("# roles: Who gives and who receives?");
    for (giver, receiver) in [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)] {
        let x = giver_and_receiver(giver, receiver);
        let ask = |attention: MultiHeadAttention<f64>| {
            attention.attend(&x, &x, &x, &Mask::everything())
        };
        let answer =
            |output: Array3<f64>| output.index_axis(Axis(0), 0).row(0).to_owned();
        println!("giver {giver}, receiver {receiver}");
        println!("    one head  {:.2}", answer(ask(one_head())?.output));
        println!("    two heads {:.2}", answer(ask(two_heads())?.output));
    }
    println!();
    Ok(())
}
// ANCHOR_END: roles

// ANCHOR: widths
fn widths() -> Result<()> {
    println!("# widths: Keys and values with widths of their own");
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let attention = MultiHeadAttention::<f64>::new(
        2,
        Projection::random(6, 2 * 4, &mut rng), // queries: d_model 6, d_k 4
        Projection::random(5, 2 * 4, &mut rng), // keys: 5 wide, d_k 4
        Projection::random(3, 2 * 7, &mut rng), // values: 3 wide, d_v 7
        Projection::random(2 * 7, 6, &mut rng), // W^O: (h · d_v) × d_model
    )?;
    let ones = |n, width| Array3::ones((1, n, width));
    let answer = attention.attend(
        &ones(2, 6),
        &ones(9, 5),
        &ones(9, 3),
        &Mask::everything(),
    )?;
    println!("output  {:?}", answer.output.dim());
    println!("weights {:?}", answer.weights.dim());
    println!();
    Ok(())
}
// ANCHOR_END: widths

// ANCHOR: drop
fn drop() -> Result<()> {
    println!(
        "# dropout: Each weight dropped with probability 0.5, the others doubled"
    );
    let weights = Array4::from_elem((1, 1, 2, 8), 0.125);
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    println!("before\n{weights:.3}");
    println!("after\n{:.3}", dropout(&weights, 0.5, &mut rng)?);

    let many = Array4::from_elem((1, 1, 1, 100_000), 1.0);
    for p in [0.0, 0.1, 0.5, 0.9] {
        let dropped = dropout(&many, p, &mut rng)?;
        println!(
            "p = {p}: the mean of 100,000 weights of 1 is {:.2}",
            dropped.sum() / 1e5
        );
    }
    if let Err(error) = dropout(&weights, 1.0, &mut rng) {
        println!("error: {error}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: drop

// ANCHOR: average
fn average() -> Result<()> {
    println!("# average: What each head sees, and what the average says");
    let x = giver_and_receiver(1.0, 0.0);
    let answer = two_heads().attend(&x, &x, &x, &Mask::everything())?;
    for h in 0..2 {
        let head = answer
            .weights
            .index_axis(Axis(0), 0)
            .index_axis_move(Axis(0), h);
        println!("head {h}, the asker = {:.3}", head.row(0));
    }
    let average = answer.average_weights();
    println!(
        "average of both = {:.3}",
        average.index_axis(Axis(0), 0).row(0)
    );
    println!();
    Ok(())
}
// ANCHOR_END: average

// ANCHOR: parameters
fn parameters() -> Result<()> {
    println!("# parameters: How many numbers are learned");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    println!("d_model  heads  d_k   parameters");
    for (d_model, heads) in [(64, 1), (64, 4), (64, 8), (512, 8)] {
        let attention =
            MultiHeadAttention::<f32>::random(d_model, heads, &mut rng)?;
        let learned = attention.parameters();
        println!("{d_model:7} {heads:6} {:4} {learned:12}", d_model / heads);
    }
    println!();
    Ok(())
}
// ANCHOR_END: parameters

// ANCHOR: indivisible
fn indivisible() {
    println!("# errors: Shapes that cannot be");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for heads in [3, 0] {
        if let Err(error) = MultiHeadAttention::<f64>::random(4, heads, &mut rng) {
            println!("error: {error}");
        }
    }
    let mut projection = |width| Projection::<f64>::random(4, width, &mut rng);
    for [q, k, v, o] in [[4, 6, 4, 4], [4, 4, 6, 4]] {
        let output = Projection::from(Array2::zeros((o, 4)));
        let (q, k, v) = (projection(q), projection(k), projection(v));
        if let Err(error) = MultiHeadAttention::new(2, q, k, v, output) {
            println!("error: {error}");
        }
    }
    println!();
}
// ANCHOR_END: indivisible

// ANCHOR: biased
fn biased() -> Result<()> {
    println!("# bias: A projection with a bias, and without");
    let weight = array![[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]];
    let x = array![[[3.0, 4.0]]];
    let with = Projection::new(weight.clone(), Some(Array1::from_elem(3, 0.5)))?;
    let without = Projection::from(weight);
    println!(
        "x W     = {}",
        without.apply(&x)?.index_axis(Axis(0), 0).row(0)
    );
    println!(
        "x W + b = {}",
        with.apply(&x)?.index_axis(Axis(0), 0).row(0)
    );
    Ok(())
}
// ANCHOR_END: biased
