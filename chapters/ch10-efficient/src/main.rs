//! The worked examples of chapter 10, printed: `cargo run -p ch10-efficient`.

use anyhow::Result;
use ch01_alignment::second_example;
use ch02_softmax::{log_sum_exp, second_example_values, softmax};
use ch04_masks::{Mask, batched_attention, masked_attention};
use ch10_efficient::*;
use ndarray::{Array1, Array2, Array4, Axis, array, s};

fn main() -> Result<()> {
    count();
    lengths();
    caches();
    decoding()?;
    top_left()?;
    groups()?;
    online()?;
    merging()?;
    tiles()?;
    skipped()?;
    workers()?;
    sent();
    fast()?;
    onnx()?;
    tiled_heads()?;
    wrong_way()?;
    two_empty();
    averaged()?;
    late_cap()?;
    errors();
    Ok(())
}

// ANCHOR: models
/// Sizes as their authors published them; 16-bit numbers.
const MODELS: [(&str, Model); 5] = [
    ("GPT-2 small", model(12, 12, 12, 64)),
    ("Llama 2 7B", model(32, 32, 32, 128)),
    ("Llama 3 8B", model(32, 32, 8, 128)),
    ("Llama 3 70B", model(80, 64, 8, 128)),
    ("Falcon 7B", model(32, 71, 1, 64)),
];

const fn model(layers: usize, heads: usize, kv_heads: usize, d_k: usize) -> Model {
    Model {
        layers,
        heads,
        kv_heads,
        d_k,
        bytes: 2,
    }
}

/// One layer as this chapter measures it: 8 heads of width 64, in f32.
const MEASURED: Model = Model {
    bytes: 4,
    ..model(1, 8, 8, 64)
};
// ANCHOR_END: models

/// Bytes in the largest unit of which there is at least one.
fn size(bytes: u128) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut x, mut unit) = (bytes as f64, 0);
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(x.fract() != 0.0);
    format!("{x:.decimals$} {}", units[unit])
}

/// Numbers that do not repeat themselves, the same on every machine.
fn wavy(shape: (usize, usize, usize, usize), by: f64) -> Array4<f64> {
    Array4::from_shape_fn(shape, |(b, h, i, c)| {
        (by * (1 + 3 * b + 5 * h + 7 * i + 11 * c) as f64).sin()
    })
}

/// The largest difference between two results.
fn difference(a: &Array4<f64>, b: &Array4<f64>) -> f64 {
    (a - b).fold(0.0, |largest: f64, x| largest.max(x.abs()))
}

// ANCHOR: count
fn count() {
    println!(
        "# count: One layer, 8 heads of width 64, in f32, for n queries and n keys"
    );
    println!("      n   operations      operands     scores");
    for n in [16, 128, 1024, 4096, 16384, 131_072] {
        println!(
            "{n:>7}   {:>10.1e}   {:>11}   {:>8}",
            MEASURED.operations(n, n) as f64,
            size(MEASURED.operand_bytes(n, n)),
            size(MEASURED.score_bytes(n, n))
        );
    }
    println!();
}
// ANCHOR_END: count

// ANCHOR: lengths
fn lengths() {
    println!("# lengths: A hundred words written, with and without a cache");
    let words = 100;
    let without: u128 = (1..=words).map(|n| MEASURED.operations(n, n)).sum();
    let with: u128 = (1..=words).map(|n| MEASURED.operations(1, n)).sum();
    println!("every word anew   {without:>13} operations");
    println!("with a cache      {with:>13} operations");
    println!("times fewer       {:>13}", without / with);
    println!();
}
// ANCHOR_END: lengths

// ANCHOR: caches
fn caches() {
    println!("# caches: Keys and values kept, in 16-bit numbers");
    println!(
        "model         layers  heads  kv heads   a token   8192 tokens   as MHA"
    );
    for (name, model) in MODELS {
        println!(
            "{name:<12}  {:>6}  {:>5}  {:>8}   {:>7}   {:>11}   {:>6}",
            model.layers,
            model.heads,
            model.kv_heads,
            size(model.cache_bytes(1)),
            size(model.cache_bytes(8192)),
            size(model.with_kv_heads(model.heads).cache_bytes(8192))
        );
    }
    println!();
}
// ANCHOR_END: caches

// ANCHOR: decoding
fn decoding() -> Result<()> {
    println!("# decoding: Seven positions, in one pass and from a cache");
    let (q, k, v) = (
        wavy((1, 2, 7, 4), 0.7),
        wavy((1, 2, 7, 4), 1.3),
        wavy((1, 2, 7, 3), 2.1),
    );
    // Left padding: the first two positions are not real.
    let real = |n| Mask::from_fn((1, 1, 1, n), |_, _, _, j| j >= 2);
    let mask = (&Mask::causal(7, 7) & &real(7))?;
    let whole = batched_attention(&q, &k, &v, &mask)?;

    let mut cache = KeyValueCache::new(1, 2, 7, (4, 3));
    for places in [0..4, 4..5, 5..7] {
        let new = s![.., .., places.clone(), ..];
        cache.extend(&k.slice(new), &v.slice(new))?;
        let (m, n) = (places.len(), cache.length());
        let mask = (&Mask::causal(m, n) & &real(n))?;
        let answer = cache.ask(&q.slice(new), &mask)?;
        let same = difference(&answer.output, &whole.output.slice(new).to_owned());
        println!(
            "positions {places:?} ask {n} keys, and get the same answers: {}",
            same < 1e-12
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: decoding

// ANCHOR: top_left
fn top_left() -> Result<()> {
    println!("# top-left: The newest of four positions, under two masks");
    let (queries, keys) = second_example();
    let values = second_example_values();
    let newest = queries.slice(s![1.., ..]);
    let (m, n) = (1, keys.nrows());
    for (name, mask) in [
        ("bottom-right", Mask::causal(m, n)),
        ("top-left", Mask::causal_from(0, m, n)),
    ] {
        let answer = masked_attention(&newest, &keys, &values, &mask)?;
        println!("{name:<12}  weights {:.3}", answer.weights.row(0));
    }
    println!();
    Ok(())
}
// ANCHOR_END: top_left

// ANCHOR: groups
fn groups() -> Result<()> {
    println!("# groups: Four heads of queries");
    for kv_heads in [4, 2, 1] {
        let group = group_size(4, kv_heads)?;
        let used: Vec<_> = (0..4).map(|i| i / group).collect();
        println!(
            "{kv_heads} heads of keys and values: used by queries 0 to 3 in turn: {used:?}"
        );
    }
    let (q, k, v) = (
        wavy((1, 4, 3, 4), 0.7),
        wavy((1, 2, 5, 4), 1.3),
        wavy((1, 2, 5, 4), 2.1),
    );
    let mask = Mask::causal(3, 5);
    let grouped = grouped_attention(&q, &k, &v, &mask)?;
    // Multi-head attention whose heads are copies: 0, 0, 1, 1.
    let copied = |x: &Array4<f64>| x.select(Axis(1), &[0, 0, 1, 1]);
    let (k, v) = (copied(&k), copied(&v));
    let full = batched_attention(&q, &k, &v, &mask)?;
    println!(
        "the same as four heads that are copies: {}",
        grouped == full
    );
    println!();
    Ok(())
}
// ANCHOR_END: groups

// ANCHOR: online
fn online() -> Result<()> {
    println!("# online: Four keys, read one after the other");
    let (scores, values) = rising_example();
    let mut online = Online::new(2);
    for j in 0..4 {
        online.see(&scores.slice(s![j..=j]), &values.slice(s![j..=j, ..]))?;
        let (answer, sum) = online.answer();
        println!(
            "score {:>4.1}: answer so far {answer:6.3}, log-sum-exp {sum:.3}",
            scores[j]
        );
    }
    println!(
        "all at once: answer        {:6.3}",
        softmax(&scores).dot(&values)
    );
    println!();
    Ok(())
}
// ANCHOR_END: online

// ANCHOR: merging
fn merging() -> Result<()> {
    println!("# merging: Two keys here, two keys there");
    let (queries, keys) = second_example();
    let four = |x: Array2<f64>| x.insert_axis(Axis(0)).insert_axis(Axis(0));
    let (q, k, v) = (four(queries), four(keys), four(second_example_values()));
    let everything = Mask::everything();
    let part = |from: usize, to: usize| {
        let places = s![.., .., from..to, ..];
        partial_attention(&q, &k.slice(places), &v.slice(places), &everything)
    };
    let (left, right, none) = (part(0, 2)?, part(2, 4)?, part(4, 4)?);
    let merged = merge(&left, &right)?;
    for (name, part) in [
        ("keys 0, 1", &left),
        ("keys 2, 3", &right),
        ("merged", &merged),
        ("all four", &part(0, 4)?),
        ("no keys", &none),
    ] {
        println!(
            "{name:<9}  log-sum-exp {:6.3}   output {:6.3}",
            part.log_sum_exp()[[0, 0, 0]],
            part.output.slice(s![0, 0, 0, ..])
        );
    }
    let shares = softmax(&array![
        left.log_sum_exp()[[0, 0, 0]],
        right.log_sum_exp()[[0, 0, 0]]
    ]);
    println!("shares of the two parts = {shares:.3}");
    println!(
        "merging with no keys changes nothing: {}",
        merge(&merged, &none)? == merged
    );
    println!();
    Ok(())
}
// ANCHOR_END: merging

// ANCHOR: tiles
fn tiles() -> Result<()> {
    println!("# tiles: 60 queries and 70 keys, in tiles of 16 × 16");
    let (q, k, v) = (
        wavy((2, 2, 60, 8), 0.7),
        wavy((2, 2, 70, 8), 1.3),
        wavy((2, 2, 70, 8), 2.1),
    );
    let padding = Mask::padding(&[70, 33], 70)?;
    let both = (&Mask::causal(60, 70) & &padding)?;
    for (name, visible, mask) in [
        ("everything", Visible::everything(), Mask::everything()),
        (
            "padding",
            Visible::everything().and(&padding),
            padding.clone(),
        ),
        ("causal", Visible::causal(), Mask::causal(60, 70)),
        ("both", Visible::causal().and(&padding), both),
        ("window of 9", Visible::window(9)?, Mask::window(60, 70, 9)?),
    ] {
        let whole = batched_attention(&q, &k, &v, &mask)?;
        let tiled = tiled_attention(&q, &k, &v, &visible, 16)?;
        println!(
            "{name:<11}  as chapter 4 to 1e-12: {}",
            difference(&tiled, &whole.output) < 1e-12
        );
    }
    println!(
        "scores kept at a time, in each head: {} instead of {}",
        16 * 16,
        60 * 70
    );
    println!();
    Ok(())
}
// ANCHOR_END: tiles

// ANCHOR: skipped
fn skipped() -> Result<()> {
    println!("# skipped: Tiles of 128 × 128 that are looked at");
    let tile = 128;
    println!("      n   all      causal   window of 1024");
    for n in [1024, 4096, 16384, 131_072] {
        let looked_at = |visible: Visible| -> usize {
            let blocks = (0..n).step_by(tile);
            let spans =
                blocks.map(|first| visible.span_of(first..first + tile, n, n));
            spans.map(|span| span.len().div_ceil(tile)).sum()
        };
        println!(
            "{n:>7}   {:<7}  {:<7}  {}",
            looked_at(Visible::everything()),
            looked_at(Visible::causal()),
            looked_at(Visible::window(1024)?)
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: skipped

// ANCHOR: workers
fn workers() -> Result<()> {
    println!("# workers: The same answers from several threads");
    let (q, k, v) = (
        wavy((1, 2, 50, 8), 0.7),
        wavy((1, 2, 50, 8), 1.3),
        wavy((1, 2, 50, 8), 2.1),
    );
    let mask = Mask::causal(50, 50);
    let whole = batched_attention(&q, &k, &v, &mask)?.output;
    for workers in [1, 2, 3, 7] {
        let causal = Visible::causal();
        let spread = spread_attention(&q, &k, &v, &causal, workers)?;
        let ring = ring_attention(&q, &k, &v, &causal, workers)?;
        println!(
            "{workers} workers, to 1e-12: spread {}, ring {}",
            difference(&spread, &whole) < 1e-12,
            difference(&ring, &whole) < 1e-12
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: workers

// ANCHOR: sent
fn sent() {
    println!("# sent: What each of 8 workers sends in one layer of Llama 3 70B");
    let model = MODELS[3].1;
    println!(
        "a text of 131072 tokens read, in a ring           {}",
        size(model.ring_bytes(131_072, 8))
    );
    println!(
        "the same, by partial results for all its queries  {}",
        size(model.partial_bytes(131_072))
    );
    println!(
        "one more token, in a ring                         {}",
        size(model.ring_bytes(131_072, 8))
    );
    println!(
        "the same, by partial results for its one query    {}",
        size(model.partial_bytes(1))
    );
    println!();
}
// ANCHOR_END: sent

// ANCHOR: fast
fn fast() -> Result<()> {
    println!("# fast: 300 positions, 8 heads of width 64, in f32");
    let single = |x: Array4<f64>| x.mapv(|x| x as f32);
    let (q, k, v) = (
        single(wavy((1, 8, 300, 64), 0.7)),
        single(wavy((1, 8, 300, 64), 1.3)),
        single(wavy((1, 8, 300, 64), 2.1)),
    );
    let mask = Mask::causal(300, 300);
    let whole = batched_attention(&q, &k, &v, &mask)?.output;
    let fast = fast_attention(&q, &k, &v, &Visible::causal())?;
    let largest =
        (&fast - &whole).fold(0.0, |largest: f32, x| largest.max(x.abs()));
    println!("as chapter 4 to 1e-5: {}", largest < 1e-5);
    println!();
    Ok(())
}
// ANCHOR_END: fast

// ANCHOR: onnx
fn onnx() -> Result<()> {
    println!(
        "# onnx: Grouped heads, a past, a causal mask and a softcap in one call"
    );
    let (q, k, v) = (
        wavy((1, 4, 2, 4), 0.7),
        wavy((1, 2, 2, 4), 1.3),
        wavy((1, 2, 2, 3), 2.1),
    );
    let past = (wavy((1, 2, 3, 4), 1.9), wavy((1, 2, 3, 3), 0.4));
    let inputs = OnnxInputs {
        queries: q.view().into_dyn(),
        keys: k.view().into_dyn(),
        values: v.view().into_dyn(),
        mask: None,
        past: Some((past.0.view(), past.1.view())),
        lengths: None,
    };
    for score_output in [
        ScoreOutput::Scaled,
        ScoreOutput::Capped,
        ScoreOutput::Masked,
        ScoreOutput::Weights,
    ] {
        let operator = OnnxAttention {
            softcap: 0.5,
            is_causal: true,
            score_output,
            ..OnnxAttention::default()
        };
        let answer = operator.attend(&inputs)?;
        println!(
            "{:<7}  {:6.3}",
            format!("{score_output:?}"),
            answer.scores.slice(s![0, 0, 0, ..])
        );
        if score_output == ScoreOutput::Weights {
            println!(
                "output {:?}, keys {:?}",
                answer.output.shape(),
                answer.keys.shape()
            );
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: onnx

// ANCHOR: tiled_heads
fn tiled_heads() -> Result<()> {
    println!("# tiled-heads: Heads repeated as a whole instead of one by one");
    let (q, k, v) = (
        wavy((1, 4, 1, 4), 0.7),
        wavy((1, 2, 5, 4), 1.3),
        wavy((1, 2, 5, 1), 2.1),
    );
    let mask = Mask::everything();
    let wrong = |x: &Array4<f64>| x.select(Axis(1), &[0, 1, 0, 1]);
    let (wrong_k, wrong_v) = (wrong(&k), wrong(&v));
    let right = grouped_attention(&q, &k, &v, &mask)?;
    let wrong = batched_attention(&q, &wrong_k, &wrong_v, &mask)?;
    for (name, answer) in [("0, 0, 1, 1", right), ("0, 1, 0, 1", wrong)] {
        println!(
            "{name}  answers of heads 0 to 3: {:6.3}",
            answer.output.slice(s![0, .., 0, 0])
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: tiled_heads

// ANCHOR: wrong_way
fn wrong_way() -> Result<()> {
    println!(
        "# wrong-way: Old sums multiplied by exp(max' − max) instead of exp(max − max')"
    );
    let (scores, values) = rising_example();
    let read = |sign: f64| {
        let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
        let mut mixed = Array1::<f64>::zeros(2);
        for (&e, value) in scores.iter().zip(values.rows()) {
            let new = e.max(largest);
            let factor = if sum == 0.0 {
                0.0
            } else {
                (sign * (largest - new)).exp()
            };
            sum = sum * factor + (e - new).exp();
            mixed = mixed * factor + &value * (e - new).exp();
            largest = new;
        }
        mixed / sum
    };
    println!("right {:7.3}", read(1.0));
    println!("wrong {:7.3}", read(-1.0));
    println!();
    Ok(())
}
// ANCHOR_END: wrong_way

// ANCHOR: two_empty
fn two_empty() {
    println!("# two-empty: Two parts without a key, merged");
    let none = f64::NEG_INFINITY;
    let naive = |a: f64, b: f64| {
        let largest = a.max(b);
        (a - largest).exp() / ((a - largest).exp() + (b - largest).exp())
    };
    println!("share of the first, naive: {}", naive(none, none));
    println!(
        "share of the first, softmax: {}",
        softmax(&array![none, none])[0]
    );
    println!("log-sum-exp: {}", log_sum_exp(&array![none, none]));
    println!();
}
// ANCHOR_END: two_empty

// ANCHOR: averaged
fn averaged() -> Result<()> {
    println!("# averaged: Partial outputs averaged, without their log-sum-exps");
    let (scores, values) = rising_example();
    let half = |from: usize| {
        let places = from..from + 2;
        let weights = softmax(&scores.slice(s![places.clone()]));
        weights.dot(&values.slice(s![places, ..]))
    };
    println!("averaged {:6.3}", (half(0) + half(2)) / 2.0);
    println!("right    {:6.3}", softmax(&scores).dot(&values));
    println!();
    Ok(())
}
// ANCHOR_END: averaged

// ANCHOR: late_cap
fn late_cap() -> Result<()> {
    println!("# late-cap: The softcap before the mask, and after it");
    let scores = array![0.8, -1.1, 4.0];
    let cap = |e: f64| e.tanh();
    let forbid = |mut scores: Array1<f64>| {
        scores[2] = f64::NEG_INFINITY;
        scores
    };
    let before = softmax(&forbid(scores.mapv(cap)));
    let after = softmax(&forbid(scores).mapv(cap));
    println!("cap, then mask: weights {before:.3}");
    println!("mask, then cap: weights {after:.3}");
    println!();
    Ok(())
}
// ANCHOR_END: late_cap

// ANCHOR: errors
fn errors() {
    println!("# errors: Shapes that do not fit");
    let x = wavy((1, 3, 4, 2), 1.0);
    let two = wavy((1, 2, 4, 2), 1.0);
    let mut cache = KeyValueCache::new(1, 3, 5, (2, 2));
    for result in [
        grouped_attention(&x, &two, &two, &Mask::everything()).map(|_| ()),
        tiled_attention(&x, &x, &x, &Visible::everything(), 0).map(|_| ()),
        ring_attention(&x, &x, &x, &Visible::everything(), 0).map(|_| ()),
        cache.extend(&x, &x).and_then(|()| cache.extend(&x, &x)),
    ] {
        if let Err(error) = result {
            println!("error: {error}");
        }
    }
}
// ANCHOR_END: errors
