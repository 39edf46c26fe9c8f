//! The worked examples of chapter 4, printed: `cargo run -p ch04-masks`.

use anyhow::Result;
use ch01_alignment::{SENTENCE, first_example, second_example};
use ch02_softmax::{
    TRANSLATION, attention_weights, second_example_values, word_values,
};
use ch03_scaled::scaled_scores;
use ch04_masks::{Mask, PAD, example_tokens, masked_attention, masked_softmax};
use ndarray::{Array1, Array2, Array4, Axis, array};

fn main() -> Result<()> {
    padding()?;
    interpreter()?;
    causal()?;
    both()?;
    alignment();
    window()?;
    empty_row()?;
    leak()?;
    additive();
    polarity()?;
    finite_fill()?;
    after_softmax()?;
    renormalise()?;
    two_added();
    wrong_axis()?;
    padded_query()?;
    too_long();
    Ok(())
}

fn show(name: &str, matrix: &Array2<f64>) {
    println!("{name}   {} × {}", matrix.nrows(), matrix.ncols());
    println!("{matrix:6.3}");
}

// ANCHOR: padding
fn padding() -> Result<()> {
    println!("# padding: Two sentences, filled up to five places");
    let tokens = example_tokens();
    let mask = Mask::padding_of_tokens(&tokens, PAD);
    println!("tokens\n{tokens}");
    println!("mask   {mask:?}\n{mask}");
    assert_eq!(mask, Mask::padding(&[3, 2], 5)?);

    // The same five scores for the first word of both sentences.
    let scores = Array4::from_shape_fn((2, 1, 1, 5), |(_, _, _, j)| j as f64 / 2.0);
    let weights = masked_softmax(&scores, &mask)?;
    println!("scores = {:.1}", row(&scores, 0));
    println!("weights of sentence 0 = {:.3}", row(&weights, 0));
    println!("weights of sentence 1 = {:.3}", row(&weights, 1));
    println!();
    Ok(())
}

/// The first query's row of a sequence with a single head.
fn row(array: &Array4<f64>, sequence: usize) -> Array1<f64> {
    let head = array.index_axis(Axis(0), sequence);
    head.index_axis(Axis(0), 0).row(0).to_owned()
}
// ANCHOR_END: padding

// ANCHOR: interpreter
fn interpreter() -> Result<()> {
    println!(
        "# interpreter: The same question, asked after each word that is heard"
    );
    let (query, keys) = first_example();
    let queries = Array2::from_shape_fn((4, 4), |(_, c)| query[[0, c]]);
    let heard = Mask::causal(4, 4);
    let attention = masked_attention(&queries, &keys, &word_values(), &heard)?;
    for (i, word) in SENTENCE.iter().enumerate() {
        let (weights, r) = (attention.weights.row(i), attention.output.row(i));
        let said: Vec<_> = TRANSLATION.iter().zip(r).collect();
        let (most, share) = said.iter().fold(("", 0.0), |most, (word, x)| {
            if **x > most.1 { (**word, **x) } else { most }
        });
        println!("{weights:.3}  {most} {share:.3}, after {word}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: interpreter

// ANCHOR: causal
fn causal() -> Result<()> {
    println!("# causal: Four words, none of which sees the next");
    let (_, x) = first_example();
    let values = word_values();
    let mask = Mask::causal(4, 4);
    println!("mask   {mask:?}\n{mask}");
    let seen = masked_attention(&x, &x, &values, &mask)?;
    show("weights", &seen.weights);

    // Change everything about the last position.
    let (mut changed, mut other_values) = (x.clone(), values.clone());
    changed.row_mut(3).fill(9.0);
    other_values.row_mut(3).fill(-9.0);
    let after = masked_attention(&changed, &changed, &other_values, &mask)?;
    for i in 0..4 {
        let same = seen.output.row(i) == after.output.row(i);
        println!("answer {i} the same after position 3 has changed: {same}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: causal

// ANCHOR: both
fn both() -> Result<()> {
    println!("# both: Causal and padding together");
    let padding = Mask::padding_of_tokens(&example_tokens(), PAD);
    let causal = Mask::causal(5, 5);
    let both = (&causal & &padding)?;
    println!("causal {causal:?} & padding {padding:?} = {both:?}");
    println!("{both}");
    println!();
    Ok(())
}
// ANCHOR_END: both

// ANCHOR: alignment
fn alignment() {
    println!("# alignment: Two new queries after three that are remembered");
    let bottom_right = Mask::causal(2, 5);
    println!("bottom-right, as here\n{bottom_right}");
    let top_left = Mask::from_fn((1, 1, 2, 5), |_, _, i, j| j <= i);
    println!("top-left, as PyTorch's is_causal\n{top_left}");
    println!(
        "the first query at position 3: the same as bottom-right: {}",
        Mask::causal_from(3, 2, 5) == bottom_right
    );
    println!("four queries, two keys\n{}", Mask::causal(4, 2));
    let triangle = Mask::causal(5, 5);
    let cut = Mask::from_fn((1, 1, 2, 5), |_, _, i, j| triangle.allows(0, 0, i, j));
    println!("the first two rows of a 5 × 5 triangle\n{cut}");
    println!();
}
// ANCHOR_END: alignment

// ANCHOR: window
fn window() -> Result<()> {
    println!("# window: The last three positions, the query's own among them");
    println!("{}", Mask::window(6, 6, 3)?);
    println!();
    Ok(())
}
// ANCHOR_END: window

// ANCHOR: empty_row
fn empty_row() -> Result<()> {
    println!("# empty-row: A query that may attend to nothing");
    let (queries, keys) = second_example();
    let values = second_example_values();
    let mask = Mask::from_fn((1, 1, 2, 4), |_, _, i, j| i == 0 && j != 1);
    let attention = masked_attention(&queries, &keys, &values, &mask)?;
    println!("mask\n{mask}");
    show("weights", &attention.weights);
    show("output", &attention.output);
    println!();
    Ok(())
}
// ANCHOR_END: empty_row

// ANCHOR: leak
fn leak() -> Result<()> {
    println!("# leak: What stands behind the mask does not matter");
    let (queries, keys) = second_example();
    let mask = Mask::padding(&[3], 4)?;
    for filling in [0.0, 1e30, f64::INFINITY, f64::NAN] {
        let (mut keys, mut values) = (keys.clone(), second_example_values());
        keys.row_mut(3).fill(filling);
        values.row_mut(3).fill(filling);
        let attention = masked_attention(&queries, &keys, &values, &mask)?;
        let output = attention.output.row(0);
        println!("filled with {:<5} → {output:.3}", format!("{filling:e}"));
    }
    println!();
    Ok(())
}
// ANCHOR_END: leak

// ANCHOR: additive
fn additive() {
    println!("# additive: The same mask, to be added to scores");
    println!("{:4}", Mask::causal(3, 3).to_additive::<f64>());
    println!();
}
// ANCHOR_END: additive

// ANCHOR: polarity
fn polarity() -> Result<()> {
    println!("# polarity: true taken for \"block\"");
    let (_, x) = first_example();
    let values = word_values();
    let right = Mask::causal(4, 4);
    let flipped = Mask::from_fn((1, 1, 4, 4), |_, _, i, j| j > i);
    for (name, mask) in [("right", right), ("flipped", flipped)] {
        let attention = masked_attention(&x, &x, &values, &mask)?;
        show(name, &attention.weights);
    }
    println!();
    Ok(())
}
// ANCHOR_END: polarity

// ANCHOR: finite_fill
fn finite_fill() -> Result<()> {
    println!("# finite-fill: A large negative number instead of −∞, in f32");
    let fill_with = |fill: f32, scores: [f32; 3], allowed: [bool; 3]| {
        let filled = Array2::from_shape_fn((1, 3), |(_, j)| {
            if allowed[j] { scores[j] } else { fill }
        });
        attention_weights(&filled).row(0).to_owned()
    };
    for (case, scores, allowed) in [
        ("last forbidden", [2.0, 1.0, 3.0], [true, true, false]),
        ("all forbidden", [2.0, 1.0, 3.0], [false, false, false]),
        ("low scores", [-2e4, -3e4, 3.0], [true, true, false]),
    ] {
        println!("{case}: scores {scores:?}");
        for fill in [f32::NEG_INFINITY, -1e9, -1e4, -1e-9] {
            let weights = fill_with(fill, scores, allowed);
            println!("    {:>5} → {weights:.3}", format!("{fill:e}"));
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: finite_fill

// ANCHOR: after_softmax
fn after_softmax() -> Result<()> {
    println!("# after-softmax: The mask laid on the weights instead of the scores");
    let (queries, keys) = second_example();
    let scores = scaled_scores(&queries, &keys)?;
    let mask = Mask::padding(&[3], 4)?;
    let allowed = array![1.0, 1.0, 1.0, 0.0];
    let late = attention_weights(&scores) * &allowed;
    println!(
        "laid on the weights = {:.3}   sum {:.3}",
        late.row(0),
        late.row(0).sum()
    );

    // The forbidden key still takes part in the sum below the fraction.
    let mut louder = scores.clone();
    louder[[0, 3]] += 3.0;
    let late = attention_weights(&louder) * &allowed;
    println!("after the forbidden score has grown = {:.3}", late.row(0));

    let scores = scores.insert_axis(Axis(0)).insert_axis(Axis(0));
    println!(
        "−∞ before = {:.3}",
        row(&masked_softmax(&scores, &mask)?, 0)
    );
    println!();
    Ok(())
}
// ANCHOR_END: after_softmax

// ANCHOR: renormalise
fn renormalise() -> Result<()> {
    println!("# renormalise: Dividing by the new sum afterwards");
    let mask = Mask::padding(&[2], 3)?;
    for scores in [array![[1.0, 2.0, 3.0]], array![[1.0, 2.0, 900.0]]] {
        let late = attention_weights(&scores) * array![1.0, 1.0, 0.0];
        let renormalised = &late / late.sum();
        println!("scores {}", scores.row(0));
        println!("    renormalised after = {:.3}", renormalised.row(0));
        let scores = scores.insert_axis(Axis(0)).insert_axis(Axis(0));
        println!(
            "    −∞ before          = {:.3}",
            row(&masked_softmax(&scores, &mask)?, 0)
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: renormalise

// ANCHOR: two_added
fn two_added() {
    println!("# two-added: Two masks of the smallest f32, added");
    let lowest = f32::MIN;
    println!("one mask = {lowest:e}");
    println!("two masks added = {}", lowest + lowest);
    println!(
        "a whole row of them = {}",
        ch02_softmax::naive_softmax(&array![lowest + lowest, lowest + lowest])
    );
    println!();
}
// ANCHOR_END: two_added

// ANCHOR: wrong_axis
fn wrong_axis() -> Result<()> {
    println!("# wrong-axis: A padding mask read as (m, n)");
    // Two sentences of two tokens; the second has one token of padding.
    let real = array![[true, true], [true, false]];
    let right = Mask::from_fn((2, 1, 1, 2), |b, _, _, j| real[[b, j]]);
    let wrong = Mask::from_fn((1, 1, 2, 2), |_, _, i, j| real[[i, j]]);
    for (name, mask) in [("(batch, 1, 1, n)", right), ("(1, 1, m, n)", wrong)] {
        println!("{name}, stretched to 2 × 1 × 2 × 2");
        let stretched = mask.fit((2, 1, 2, 2))?;
        let stretched =
            Mask::from_fn((2, 1, 2, 2), |b, h, i, j| stretched[[b, h, i, j]]);
        println!("{stretched}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: wrong_axis

// ANCHOR: padded_query
fn padded_query() -> Result<()> {
    println!("# padded-query: A padding mask hides keys, not queries");
    let (_, x) = first_example();
    let values = word_values();
    let mask = Mask::padding(&[2], 4)?;
    let attention = masked_attention(&x, &x, &values, &mask)?;
    show("weights, positions 2 and 3 are padding", &attention.weights);
    show("output", &attention.output);
    println!();
    Ok(())
}
// ANCHOR_END: padded_query

// ANCHOR: too_long
fn too_long() {
    println!("# errors: Masks that do not fit");
    let padding = Mask::padding(&[3, 2], 5);
    for result in [
        Mask::padding(&[3, 7], 5),
        Mask::window(4, 4, 0),
        padding.and_then(|padding| &padding & &Mask::causal(4, 4)),
    ] {
        if let Err(error) = result {
            println!("error: {error}");
        }
    }
    if let Err(error) = Mask::causal(4, 4).fit((2, 1, 4, 5)) {
        println!("error: {error}");
    }
}
// ANCHOR_END: too_long
