//! The worked examples of chapter 1, printed: `cargo run -p ch01-alignment`.

use anyhow::Result;
use ch01_alignment::{
    SENTENCE, additive_scores, alignment_scores, batched_scores, bilinear_scores,
    cosine_scores, dot_score, first_example, plane_example, second_example,
};
use ndarray::{Array2, Axis, array};

fn main() -> Result<()> {
    plane()?;
    one_score()?;
    four_scores()?;
    matrix()?;
    alternatives()?;
    length()?;
    batch()?;
    entrywise()?;
    swapped()?;
    widths();
    Ok(())
}

// ANCHOR: plane
fn plane() -> Result<()> {
    println!("# plane: One query and four keys in the plane");
    let (queries, keys) = plane_example();
    let q = queries.row(0);
    let cosines = cosine_scores(&queries, &keys)?;
    println!("q = {q}   length {:.2}", q.dot(&q).sqrt());
    for (j, k) in keys.rows().into_iter().enumerate() {
        let (length, angle) = (
            k.dot(&k).sqrt(),
            cosines[[0, j]].clamp(-1.0, 1.0).acos().to_degrees(),
        );
        println!("k{} = {k}   length {length:.2}, angle {angle:.0}°", j + 1);
        println!("q · k{} = {:.2}", j + 1, dot_score(&q, &k)?);
    }
    println!();
    Ok(())
}
// ANCHOR_END: plane

// ANCHOR: one_score
fn one_score() -> Result<()> {
    println!("# one-score: How well does q1 match k2?");
    let (queries, keys) = first_example();
    let (q1, k2) = (queries.row(0), keys.row(1));
    println!("q1 = {q1}   shape ({})", q1.len());
    println!("k2 = {k2}   shape ({})", k2.len());
    println!("entry by entry = {:.2}", &q1 * &k2);
    println!("q1 · k2 = {:.2}   their sum", dot_score(&q1, &k2)?);
    println!();
    Ok(())
}
// ANCHOR_END: one_score

// ANCHOR: four_scores
fn four_scores() -> Result<()> {
    println!("# four-scores: q1 against all four keys");
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    println!("Q  {} × {}", queries.nrows(), queries.ncols());
    println!("K  {} × {}", keys.nrows(), keys.ncols());
    println!("E  {} × {}", scores.nrows(), scores.ncols());
    println!("scores of q1 = {:.2}", scores.row(0));
    for (word, score) in SENTENCE.iter().zip(scores.row(0)) {
        println!("{score:5.2}  {word}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: four_scores

// ANCHOR: matrix
fn matrix() -> Result<()> {
    println!("# matrix: Two queries against four keys");
    let (queries, keys) = second_example();
    show("Q", &queries);
    show("K", &keys);
    show("E = Q Kᵀ", &alignment_scores(&queries, &keys)?);
    println!("q2 · k3 = {:.3}", dot_score(&queries.row(1), &keys.row(2))?);
    println!();
    Ok(())
}

fn show(name: &str, matrix: &Array2<f64>) {
    println!("{name}   {} × {}", matrix.nrows(), matrix.ncols());
    println!("{matrix:6.3}");
}
// ANCHOR_END: matrix

// ANCHOR: alternatives
fn alternatives() -> Result<()> {
    println!("# alternatives: The second example, scored in three other ways");
    let (queries, keys) = second_example();
    show("cosine", &cosine_scores(&queries, &keys)?);

    // W leaves the first entry as it is, doubles the second and ignores the third.
    let weight = array![[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]];
    show("bilinear", &bilinear_scores(&queries, &weight, &keys)?);

    // A hidden layer of width 2.
    let w_query = array![[1.0, 0.0, -1.0], [0.5, 0.5, 0.0]];
    let w_key = array![[-1.0, 0.0, 1.0], [0.0, 0.5, 0.5]];
    let v = array![1.0, -2.0];
    show(
        "additive",
        &additive_scores(&queries, &keys, &w_query, &w_key, &v)?,
    );
    println!();
    Ok(())
}
// ANCHOR_END: alternatives

// ANCHOR: length
fn length() -> Result<()> {
    println!("# length: A long key outscores a better aligned one");
    let (queries, keys) = plane_example();
    let dots = alignment_scores(&queries, &keys)?;
    let cosines = cosine_scores(&queries, &keys)?;
    println!("dot product = {:.2}", dots.row(0));
    println!("cosine = {:.2}", cosines.row(0));
    println!();
    Ok(())
}
// ANCHOR_END: length

// ANCHOR: batch
fn batch() -> Result<()> {
    println!(
        "# batch: Two sequences at once, with the right axes and the wrong ones"
    );
    // batch × n × d_k = 2 × 2 × 2: a size at which no shape check can help.
    let queries = array![[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]];
    let keys = array![[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]];
    let scores = batched_scores(&queries, &keys)?;
    // `t` reverses all three axes: batch and width trade places.
    let reversed = keys.t();
    for b in 0..2 {
        let right = scores.index_axis(Axis(0), b).to_owned();
        let wrong = queries
            .index_axis(Axis(0), b)
            .dot(&reversed.index_axis(Axis(0), b));
        show(&format!("sequence {b}, last two axes swapped"), &right);
        show(&format!("sequence {b}, all axes reversed"), &wrong);
    }
    println!();
    Ok(())
}
// ANCHOR_END: batch

// ANCHOR: entrywise
fn entrywise() -> Result<()> {
    println!("# entrywise: `*` is not the matrix product");
    let (queries, keys) = first_example();
    show("Q * K", &(&queries * &keys));
    show("E = Q Kᵀ", &alignment_scores(&queries, &keys)?);
    println!();
    Ok(())
}
// ANCHOR_END: entrywise

// ANCHOR: swapped
fn swapped() -> Result<()> {
    println!("# swapped: Keys against queries instead of queries against keys");
    let (queries, keys) = second_example();
    show("E = Q Kᵀ", &alignment_scores(&queries, &keys)?);
    show("K Qᵀ", &alignment_scores(&keys, &queries)?);
    println!();
    Ok(())
}
// ANCHOR_END: swapped

// ANCHOR: widths
fn widths() {
    println!("# widths: Queries and keys that do not fit each other");
    let (queries, _) = first_example();
    let (_, keys) = second_example();
    if let Err(error) = alignment_scores(&queries, &keys) {
        println!("error: {error}");
    }
}
// ANCHOR_END: widths
