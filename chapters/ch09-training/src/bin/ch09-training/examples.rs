//! The worked examples of chapter 9, printed: `cargo run -p ch09-training -- --examples`.

use crate::look;
use anyhow::Result;
use ch02_softmax::{attention_weights, first_example_values};
use ch03_scaled::softmax_jacobian;
use ch04_masks::{Mask, masked_softmax};
use ch08_transformer::{Learned, Mode, NormOrder, PAD, Settings, Transformer};
use ch09_training::alignment::{FIELDS, alignment};
use ch09_training::check::{Sample, gradient_check};
use ch09_training::dates::Split;
use ch09_training::loss::cross_entropy;
use ch09_training::optimizer::{Adam, Schedule, clip};
use ch09_training::study::{course, gradient_by_layer};
use ch09_training::task::{Batch, Vocabulary, examples};
use ch09_training::trainer::{Plan, Trainer, blank, exact};
use ch09_training::translate::{SURE, translate};
use ch09_training::{backward, layers, weights};
use ndarray::{Array1, Array2, Array4, array};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

pub(crate) fn print() -> Result<()> {
    slope();
    softmax()?;
    empty_row()?;
    how_far();
    checked()?;
    uncertain()?;
    padding()?;
    first_steps()?;
    longest_steps()?;
    rates();
    shortened()?;
    shifted();
    one_batch()?;
    copied()?;
    by_layer()?;
    warm_up()?;
    translations()?;
    looked_at()?;
    held_out()?;
    Ok(())
}

// ANCHOR: slope
fn slope() {
    println!("# slope: A loss, and its slope at three places");
    let loss = |w: f64| (2.0 * w - 6.0).powi(2);
    println!("  w   loss   by hand   measured");
    for w in [1.0, 3.0, 4.0] {
        // (2w − 6)² has the slope 4 (2w − 6).
        let by_hand = 4.0 * (2.0 * w - 6.0);
        let measured = (loss(w + 1e-4) - loss(w - 1e-4)) / 2e-4;
        println!("{w:>3} {:>6} {by_hand:>9} {measured:>10.3}", loss(w));
    }
    println!();
}
// ANCHOR_END: slope

// ANCHOR: how_far
fn how_far() {
    println!("# how-far: How wrong a measured slope is, by the width of the step");
    let loss = |w: f64| w * w * w;
    let (w, slope) = (1.1, 3.0 * 1.1 * 1.1);
    println!("    h   one side   both sides");
    for h in [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10] {
        let one_side = (loss(w + h) - loss(w)) / h;
        let both_sides = (loss(w + h) - loss(w - h)) / (2.0 * h);
        let [one_side, both_sides] =
            [one_side, both_sides].map(|measured| (measured - slope).abs());
        println!("{h:>5.0e} {one_side:>10.0e} {both_sides:>12.0e}");
    }
    println!("the cube root of ε is {:.0e}", f64::EPSILON.cbrt());
    println!();
}
// ANCHOR_END: how_far

// ANCHOR: softmax
fn softmax() -> Result<()> {
    println!("# softmax: Back through the weights of the first example");
    let scores = array![[0.36, 2.40, -0.36, 0.36]];
    let weights = attention_weights(&scores);
    let (weights, values) = (weights.row(0), first_example_values());
    // The loss is the first number of the answer, Σ a_j v_j0, so d_a_j = v_j0.
    let d_weights: Array1<f64> = values.column(0).to_owned();
    let jacobian = softmax_jacobian(&weights);
    println!("weights              {weights:>7.3}");
    println!("d_weights            {:>7.3}", d_weights);
    println!("by the Jacobian      {:>7.3}", jacobian.dot(&d_weights));
    let d_scores = backward::softmax(&weights, &d_weights)?;
    println!("by the short way     {d_scores:>7.3}");
    println!("their sum is zero    {}", d_scores.sum().abs() < 1e-12);
    println!();
    Ok(())
}
// ANCHOR_END: softmax

// ANCHOR: empty_row
fn empty_row() -> Result<()> {
    println!("# empty-row: A query that sees nothing");
    let mask = Mask::from_fn((1, 1, 2, 3), |_, _, i, _| i == 0);
    let scores = Array4::from_shape_fn((1, 1, 2, 3), |(_, _, i, j)| (i + j) as f64);
    let weights = masked_softmax(&scores, &mask)?;
    // Whatever the values hold, the gradient by the weights may be NaN where nothing is seen.
    let mut d_weights = Array4::from_shape_fn((1, 1, 2, 3), |(.., j)| j as f64);
    d_weights[[0, 0, 1, 1]] = f64::NAN;
    let a = weights.view();
    let d_scores = backward::masked_softmax(&a, &a, &d_weights, &mask)?;
    for i in 0..2 {
        println!(
            "query {i}: weights {:.3}, gradient {:.3}",
            weights.slice(ndarray::s![0, 0, i, ..]),
            d_scores.slice(ndarray::s![0, 0, i, ..])
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: empty_row

// ANCHOR: checked
fn checked() -> Result<()> {
    println!("# checked: The gradient of a whole Transformer, measured");
    for order in [NormOrder::Pre, NormOrder::Post] {
        let settings = Settings {
            order,
            ..Settings::small()
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let model = Transformer::<f64>::random(&settings, &mut rng)?;
        let source = array![[5, 9, 3, 7, 4], [8, 3, 6, PAD, PAD]];
        let input = array![[1, 6, 11, 9], [1, 7, 3, PAD]];
        let target = array![[6, 11, 9, 2], [7, 3, 2, PAD]];
        // The same random numbers each time, so that the same entries are dropped.
        let steps = |model: &Transformer<f64>| {
            let mut rng = ChaCha8Rng::seed_from_u64(2);
            let mode = &mut Mode::Training(&mut rng);
            model.apply_in_steps(&source, &input, mode)
        };
        let loss = |model: &Transformer<f64>| {
            let logits = steps(model)?.logits;
            cross_entropy(&logits, &target, PAD, 0.1)
        };
        let mut gradient = blank(&model);
        layers::transformer(
            &model,
            [&source, &input],
            &steps(&model)?,
            &loss(&model)?.d_logits,
            &mut gradient,
        )?;
        let sample = Sample {
            step: 1e-5,
            count: 12,
        };
        let distances = gradient_check(&model, &gradient, sample, |model| {
            Ok(loss(model)?.mean)
        })?;
        let close = distances.iter().filter(|(_, distance)| *distance < 1e-6);
        println!(
            "{order:?}: {} of {} tables agree to a millionth",
            close.count(),
            distances.len()
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: checked

// ANCHOR: uncertain
fn uncertain() -> Result<()> {
    println!("# uncertain: What a loss says");
    let target = array![[2_u32]];
    for (name, logits) in [
        ("sure and right", array![[[0.0, 0.0, 6.0, 0.0]]]),
        ("undecided", array![[[0.0, 0.0, 0.0, 0.0]]]),
        ("sure and wrong", array![[[6.0, 0.0, 0.0, 0.0]]]),
    ] {
        let plain = cross_entropy::<f64>(&logits, &target, PAD, 0.0)?;
        let smooth = cross_entropy(&logits, &target, PAD, 0.1)?;
        println!(
            "{name:<15} loss {:.3}  gradient {:>6.3}  smoothed {:.3}",
            plain.mean,
            plain.d_logits.slice(ndarray::s![0, 0, ..]),
            smooth.mean
        );
    }
    println!("undecided among 4 is log 4 = {:.3}", 4.0_f64.ln());
    println!();
    Ok(())
}
// ANCHOR_END: uncertain

// ANCHOR: padding
fn padding() -> Result<()> {
    println!("# padding: Padding in the loss");
    // Right about the one real token, undecided about three that are padding.
    let mut logits = ndarray::Array3::<f64>::zeros((1, 4, 4));
    logits[[0, 0, 2]] = 6.0;
    let target = array![[2, PAD, PAD, PAD]];
    let right = cross_entropy(&logits, &target, PAD, 0.0)?;
    // No token has the number 99, so nothing is left out.
    let wrong = cross_entropy(&logits, &target, 99, 0.0)?;
    println!(
        "left out: loss {:.3} over {} token",
        right.mean, right.tokens
    );
    println!(
        "counted:  loss {:.3} over {} tokens",
        wrong.mean, wrong.tokens
    );
    let moved =
        |x: &ndarray::Array3<f64>| x.mapv(|x| f64::from(x.abs() > 1e-9)).sum();
    println!(
        "scores that it pulls at: {} and {}",
        moved(&right.d_logits),
        moved(&wrong.d_logits)
    );
    println!();
    Ok(())
}
// ANCHOR_END: padding

// ANCHOR: first_steps
fn first_steps() -> Result<()> {
    println!("# first-steps: One number, two gradients, three steps");
    println!("gradient   step 1     step 2     step 3");
    for size in [0.001, 1000.0] {
        let mut model = number(0.0);
        let mut adam = Adam::new(&model, [0.9, 0.999], 1e-9)?;
        let mut places = vec![];
        for _ in 0..3 {
            adam.step(&mut model, &number(size), 0.01)?;
            places.push(format!("{:>9.4}", model.weight()[[0, 0]]));
        }
        println!("{size:>8}  {}", places.join("  "));
    }
    // Without the correction m = 0.1 g and v = 0.001 g² after the first step.
    let (m, v) = (1.0 - 0.9, 1.0_f64 - 0.999);
    println!(
        "without the correction the first step is {:.4}",
        -0.01 * m / v.sqrt()
    );
    println!();
    Ok(())
}

/// The smallest thing that learns.
fn number(x: f64) -> ch05_multihead::Projection<f64> {
    array![[x]].into()
}
// ANCHOR_END: first_steps

// ANCHOR: longest_steps
fn longest_steps() -> Result<()> {
    println!("# longest-steps: How long the last step is, in learning rates");
    println!(
        "   β₁     β₂   always 1   zeros, then 1   zeros, then growing   bound"
    );
    for [beta_1, beta_2] in [[0.9, 0.98], [0.9, 0.999]] {
        let last = |growth: f64, rest: i32| -> Result<f64> {
            let (mut model, mut before) = (number(0.0), 0.0);
            let mut adam = Adam::new(&model, [beta_1, beta_2], 1e-9)?;
            for t in 1..=10_000 {
                before = model.weight()[[0, 0]];
                let still = t <= 10_000 - rest;
                let gradient = if still { 0.0 } else { growth.powi(t - 10_000) };
                adam.step(&mut model, &number(gradient), 1.0)?;
            }
            Ok(before - model.weight()[[0, 0]])
        };
        let [always, once] = [last(1.0, 10_000)?, last(1.0, 1)?];
        let growing = last(beta_2 / beta_1, 100)?;
        let bound = (1.0 - beta_1)
            / ((1.0 - beta_2) * (1.0 - beta_1 * beta_1 / beta_2)).sqrt();
        println!(
            "{beta_1:>5} {beta_2:>6} {always:>10.2} {once:>15.2} {growing:>21.2} {bound:>7.2}"
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: longest_steps

// ANCHOR: rates
fn rates() {
    println!("# rates: The learning rate over a training");
    let schedule = Plan::default().schedule;
    for step in [1, 100, 200, 2_000, 4_000, 6_000, 8_000, 10_000] {
        println!("step {step:>5}: {:.6}", schedule.rate(step));
    }
    println!();
}
// ANCHOR_END: rates

// ANCHOR: shortened
fn shortened() -> Result<()> {
    println!("# shortened: A gradient that is too long, and one that is not");
    for long in [[6.0, 8.0], [0.3, 0.4]] {
        let weight = Array2::from_shape_vec((1, 2), long.to_vec())?;
        let mut gradient = ch05_multihead::Projection::from(weight);
        let length = clip(&mut gradient, 1.0)?;
        println!("{long:?}, {length} long → {:.2}", gradient.weight().row(0));
    }
    println!();
    Ok(())
}
// ANCHOR_END: shortened

// ANCHOR: shifted
fn shifted() {
    println!("# shifted: What the decoder is given, and what it should answer");
    let some = examples(Split::Training, 3);
    let batch = Batch::new(&some);
    let (sources, targets) = (Vocabulary::of_sources(), Vocabulary::of_targets());
    let text =
        |vocabulary: &Vocabulary, tokens: ndarray::ArrayView1<u32>| -> String {
            let special = ["_", "<", ">"];
            let character = |&token: &u32| match vocabulary.character(token) {
                Some(character) => character.to_string(),
                None => special[token as usize].to_string(),
            };
            tokens.iter().map(character).collect()
        };
    for b in 0..3 {
        println!("source {}", text(sources, batch.source.row(b)));
        println!("given  {}", text(targets, batch.input.row(b)));
        println!("answer {}", text(targets, batch.target.row(b)));
    }
    println!();
}
// ANCHOR_END: shifted

// ANCHOR: one_batch
fn one_batch() -> Result<()> {
    println!("# one-batch: Eight dates, learned by heart");
    let dates = examples(Split::Training, 8);
    let batch = Batch::new(&dates);
    let mut trainer = small_trainer()?;
    let before = exact(&trainer.model, &dates)?;
    learn(&mut trainer, &batch)?;
    let after = exact(&trainer.model, &dates)?;
    println!("right before: {} of 8", (8.0 * before).round());
    println!("right after {STEPS} steps: {} of 8", (8.0 * after).round());
    println!();
    Ok(())
}

const STEPS: u64 = 150;

/// A training small enough to be watched.
fn small_trainer() -> Result<Trainer> {
    Trainer::new(Plan {
        d_model: 32,
        d_ff: 64,
        schedule: Schedule {
            peak: 3e-3,
            warm_up: 20,
            steps: STEPS,
        },
        ..Plan::default()
    })
}

/// The same batch again and again.
fn learn(trainer: &mut Trainer, batch: &Batch) -> Result<()> {
    for step in 1..=STEPS {
        let (_, mut gradient) = trainer.gradient(std::slice::from_ref(batch))?;
        clip(&mut gradient, trainer.plan.longest_gradient)?;
        let rate = trainer.plan.schedule.rate(step);
        trainer.adam.step(&mut trainer.model, &gradient, rate)?;
    }
    Ok(())
}
// ANCHOR_END: one_batch

// ANCHOR: copied
fn copied() -> Result<()> {
    println!("# copied: A target that was not shifted");
    let dates = examples(Split::Training, 8);
    let shifted = Batch::new(&dates);
    // The decoder is given the very tokens that it should answer.
    let unshifted = Batch {
        input: shifted.target.clone(),
        ..shifted.clone()
    };
    for (name, batch) in [("shifted", shifted), ("not shifted", unshifted)] {
        let mut trainer = small_trainer()?;
        learn(&mut trainer, &batch)?;
        let (loss, _) = trainer.gradient(std::slice::from_ref(&batch))?;
        let mut written = 0;
        for date in &dates {
            let translation = translate(&trainer.model, &date.text)?;
            written += usize::from(translation.written == date.iso);
        }
        println!(
            "{name:<11} loss below 0.1: {:<5} right when it writes by itself: {written} of 8",
            loss < 0.1
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: copied

// ANCHOR: by_layer
fn by_layer() -> Result<()> {
    println!(
        "# by-layer: The gradient in each of twelve decoder layers, before the first step"
    );
    let pre = gradient_by_layer(NormOrder::Pre, 12)?;
    let post = gradient_by_layer(NormOrder::Post, 12)?;
    println!("layer  pre-norm  post-norm");
    for layer in [0, 3, 6, 9, 11] {
        println!("{layer:>5}  {:>8.2}  {:>9.2}", pre[layer], post[layer]);
    }
    println!();
    Ok(())
}
// ANCHOR_END: by_layer

// ANCHOR: warm_up
fn warm_up() -> Result<()> {
    println!("# warm-up: Six layers on either side, 120 steps");
    for (order, steps) in [
        (NormOrder::Pre, 1),
        (NormOrder::Post, 1),
        (NormOrder::Post, 50),
    ] {
        let losses = course(order, 6, steps, 120)?;
        let learned = losses.last().is_some_and(|&loss| loss < 0.1);
        println!(
            "{order:?}-norm, warm-up of {steps:>2}: learned by heart: {learned}"
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: warm_up

// ANCHOR: translations
/// Dates that nobody generated, and texts that are no dates.
const TEXTS: [&str; 12] = [
    "29 novembre 2026",
    "Sunday, November 29, 2026",
    "29.11.2026",
    "Sonntag, 29. November 2026",
    "2026年11月29日",
    "二〇二六年十一月二十九日",
    "２０２６年１１月２９日（日）",
    "the 1st of May, 1999",
    "30 février 2026",
    "hello, world",
    "attention is all you need",
    "tomorrow",
];

fn translations() -> Result<()> {
    println!("# translations: What the trained model makes of some texts");
    let (model, _) = weights::shipped()?;
    for text in TEXTS {
        let translation = translate(&model, text)?;
        let sure = if translation.is_sure() {
            "sure"
        } else {
            "unsure"
        };
        println!(
            "{:<10}  {sure:<6}  {:5.1} %  {text}",
            translation.written,
            100.0 * translation.probability()
        );
    }
    println!("sure from = {:.0} %", 100.0 * SURE);
    println!();
    Ok(())
}
// ANCHOR_END: translations

// ANCHOR: looked_at
fn looked_at() -> Result<()> {
    println!("# looked-at: Where it looks while it writes");
    let (model, _) = weights::shipped()?;
    let text = "Sunday, November 29, 2026";
    for line in look::map(&translate(&model, text)?) {
        println!("{}", line.trim_end());
    }
    println!();
    Ok(())
}
// ANCHOR_END: looked_at

// ANCHOR: held_out
fn held_out() -> Result<()> {
    println!("# held-out: Two thousand dates it has never seen");
    let (model, record) = weights::shipped()?;
    let dates = examples(Split::HeldOut, 2_000);
    println!("made by = {}", record.made_by);
    println!("steps = {}", record.steps);
    println!("parameters = {}", model.parameters());
    let right = exact(&model, &dates)? * dates.len() as f64;
    println!("right = {right:.0} of {}", dates.len());
    println!("share of the weight on the right field:");
    println!(
        "layer  head  {}",
        FIELDS.map(|field| format!("{field:>5}")).join("  ")
    );
    for ((layer, head), shares) in alignment(&model, &dates)?.indexed_iter() {
        let shares = shares.map(|share| format!("{share:>5.2}"));
        println!("{layer:>5}  {head:>4}  {}", shares.join("  "));
    }
    Ok(())
}
// ANCHOR_END: held_out
