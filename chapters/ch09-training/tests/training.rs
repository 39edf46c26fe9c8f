//! What chapter 9 claims about a training: it is the same on every run, it learns, and nothing is
//! learned from nothing.

use ch02_softmax::softmax;
use ch05_multihead::Projection;
use ch08_transformer::{Activation, LayerNorm, Learned, Mode, PAD, Transformer};
use ch09_training::backward::{layer_norm, slope};
use ch09_training::dates::{Example, Split};
use ch09_training::loss::cross_entropy;
use ch09_training::optimizer::{Adam, Schedule};
use ch09_training::task::{BEGIN, Batch, END, Vocabulary, examples};
use ch09_training::trainer::*;
use ndarray::{Array1, Array2, Array3, array, s};
use rand::RngExt as _;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rayon::ThreadPoolBuilder;

/// A plan for a model so small that a step takes no time, with dropout and smoothing.
fn plan() -> Plan {
    Plan {
        batch: 10,
        nonsense: 3,
        parts: 3,
        schedule: Schedule {
            peak: 2e-3,
            warm_up: 4,
            steps: 40,
        },
        smoothing: 0.1,
        dropout: 0.1,
        d_model: 16,
        heads: 2,
        d_ff: 24,
        encoder_layers: 1,
        decoder_layers: 1,
        ..Plan::default()
    }
}

/// The same without anything random but the examples.
fn plain() -> Plan {
    Plan {
        smoothing: 0.0,
        dropout: 0.0,
        ..plan()
    }
}

fn trainer(plan: Plan) -> Trainer {
    Trainer::new(plan).unwrap()
}

fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(run)
}

fn losses(plan: Plan, steps: usize) -> (Vec<u32>, Trainer) {
    let mut trainer = trainer(plan);
    let losses = (0..steps).map(|_| trainer.step().unwrap().to_bits());
    (losses.collect(), trainer)
}

/// All numbers of a model, one after the other.
fn numbers(model: &Transformer<f32>) -> Vec<f32> {
    let tables = model.tables();
    tables.iter().flat_map(|(_, t)| t.iter().copied()).collect()
}

#[track_caller]
fn assert_near(left: &Transformer<f32>, right: &Transformer<f32>) {
    let (left, right) = (numbers(left), numbers(right));
    assert_eq!(left.len(), right.len());
    for (a, b) in left.iter().zip(&right) {
        assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    }
}

#[test]
fn a_seed_gives_the_same_losses_on_any_number_of_threads() {
    let alone = on_threads(1, || losses(plan(), 8));
    assert_eq!(alone.0.iter().filter(|&&x| x == alone.0[0]).count(), 1);
    for threads in [1, 2, 4] {
        let again = on_threads(threads, || losses(plan(), 8));
        assert_eq!(again.0, alone.0, "{threads} threads");
        assert!(again.1 == alone.1, "{threads} threads");
    }
    let other = Plan { seed: 1, ..plan() };
    assert_ne!(losses(other, 2).0, alone.0[..2]);
}

#[test]
fn looking_does_not_change_what_follows() {
    let (mut looked_at, mut left_alone) = (trainer(plan()), trainer(plan()));
    let dates = examples(Split::Validation, 20);
    for _ in 0..4 {
        looked_at.step().unwrap();
        looked_at.look(&dates).unwrap();
        left_alone.step().unwrap();
    }
    assert!(looked_at.model == left_alone.model);
}

#[test]
fn dropout_is_of_this_step_and_part() {
    let batch = Batch::new(&examples(Split::Training, 4));
    let mut trainer = trainer(plan());
    let twice = trainer.gradient(&[batch.clone(), batch.clone()]).unwrap();
    let once = trainer.gradient(std::slice::from_ref(&batch)).unwrap();
    assert_ne!(once.0, twice.0, "both parts drop the same");
    assert!(once == trainer.gradient(std::slice::from_ref(&batch)).unwrap());
    trainer.adam.steps += 1;
    assert_ne!(once.0, trainer.gradient(&[batch]).unwrap().0);
}

#[test]
fn examples_are_cut_into_parts_of_like_length() {
    let dates = examples(Split::Training, 10);
    for (parts, sizes) in [
        (0, vec![10]),
        (1, vec![10]),
        (3, vec![4, 4, 2]),
        (7, vec![2; 5]),
        (10, vec![1; 10]),
        (1_000, vec![1; 10]),
        (usize::MAX, vec![1; 10]),
    ] {
        let mut trainer = trainer(plan());
        trainer.plan.parts = parts;
        let batches = trainer.batches(dates.clone());
        let rows: Vec<usize> = batches.iter().map(|b| b.source.nrows()).collect();
        assert_eq!(rows, sizes, "{parts} parts");
        let lengths: Vec<usize> =
            batches.iter().map(|b| b.source.ncols()).collect();
        assert!(lengths.is_sorted(), "{parts} parts of {lengths:?}");
        assert!(batches.iter().all(|batch| batch.is_dates));
        assert!(trainer.batches(vec![]).is_empty());
        trainer.step().unwrap();
    }
}

#[test]
fn the_number_of_parts_does_not_change_the_gradient() {
    let dates = examples(Split::Training, 10);
    let mut trainer = trainer(plain());
    trainer.plan.parts = 1;
    let whole = trainer.gradient(&trainer.batches(dates.clone())).unwrap();
    for parts in [0, 2, 3, 7, 10, 99] {
        trainer.plan.parts = parts;
        let cut = trainer.gradient(&trainer.batches(dates.clone())).unwrap();
        assert!((cut.0 - whole.0).abs() < 1e-5, "{parts} parts");
        assert_near(&cut.1, &whole.1);
    }
}

/// A part of few dates must not weigh as much as one of many.
#[test]
fn parts_weigh_by_their_tokens() {
    let dates = examples(Split::Training, 6);
    let trainer = trainer(plain());
    let whole = trainer.gradient(&[Batch::new(&dates)]).unwrap();
    let parts = [Batch::new(&dates[..1]), Batch::new(&dates[1..])];
    let cut = trainer.gradient(&parts).unwrap();
    assert!((cut.0 - whole.0).abs() < 1e-5);
    assert_near(&cut.1, &whole.1);
}

#[test]
fn nothing_has_no_gradient() {
    let trainer = trainer(plan());
    let (loss, gradient) = trainer.gradient(&[]).unwrap();
    assert_eq!(loss, 0.0);
    assert_eq!(gradient, blank(&trainer.model));
    assert!(numbers(&gradient).iter().all(|&g| g == 0.0));

    let error = trainer.gradient(&[Batch::new(&[])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "every target is padding, so there is no mean"
    );
    let some = Batch::new(&examples(Split::Training, 2));
    assert!(trainer.gradient(&[some, Batch::new(&[])]).is_err());
}

fn example(text: &str, iso: &str) -> Example {
    Example {
        text: text.into(),
        iso: iso.into(),
        fields: Default::default(),
    }
}

#[test]
fn strange_examples_are_learned_or_refused() {
    let trainer = trainer(plan());
    let gradient = |examples: &[Example]| trainer.gradient(&[Batch::new(examples)]);
    for text in ["", "안녕", "🎂", &"9".repeat(200)] {
        let (loss, gradient) = gradient(&[example(text, "2026-11-29")]).unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{text:?}");
        assert!(numbers(&gradient).iter().all(|g| g.is_finite()), "{text:?}");
    }
    for iso in ["", "-002026-11-29", "2026", "no date"] {
        let answer = gradient(&[example("29.11.2026", iso)]);
        assert!(answer.unwrap().0.is_finite(), "{iso:?}");
    }
    let mut batch = Batch::new(&examples(Split::Training, 2));
    batch.source[[0, 0]] = u32::MAX;
    let error = trainer.gradient(&[batch]).unwrap_err().to_string();
    assert!(error.contains(&u32::MAX.to_string()), "{error}");
    let mut batch = Batch::new(&examples(Split::Training, 2));
    batch.target = batch.target.slice(s![.., ..-1]).to_owned();
    let error = trainer.gradient(&[batch]).unwrap_err().to_string();
    assert!(error.contains("[2, 10]"), "{error}");
}

#[test]
fn no_examples_are_no_share() {
    let mut trainer = trainer(plan());
    assert_eq!(exact(&trainer.model, &[]).unwrap(), 0.0);
    let look = trainer.look(&[]).unwrap();
    assert_eq!((look.step, look.loss, look.exact), (0, 0.0, 0.0));
}

/// The first sanity check of every training.
#[test]
fn a_batch_is_learned_by_heart() {
    let dates = examples(Split::Training, 8);
    let batches = [Batch::new(&dates)];
    let plan = Plan {
        d_model: 32,
        d_ff: 64,
        ..plain()
    };
    let mut trainer = trainer(plan);
    let (before, _) = trainer.gradient(&batches).unwrap();
    assert!(before > 2.0, "{before}");
    assert_eq!(exact(&trainer.model, &dates).unwrap(), 0.0);
    for _ in 0..150 {
        let (_, gradient) = trainer.gradient(&batches).unwrap();
        let Trainer { adam, model, .. } = &mut trainer;
        adam.step(model, &gradient, 5e-3).unwrap();
    }
    let (after, _) = trainer.gradient(&batches).unwrap();
    assert!(after < 0.05, "{after}");
    assert_eq!(exact(&trainer.model, &dates).unwrap(), 1.0);
    // By heart only.
    let others = examples(Split::Validation, 40);
    assert!(exact(&trainer.model, &others).unwrap() < 0.5);
}

/// Only training drops anything: a date that is known by heart is right although the model has dropout.
#[test]
fn nothing_is_dropped_while_it_is_judged() {
    let dates = examples(Split::Training, 4);
    let plan = Plan {
        d_model: 32,
        d_ff: 64,
        dropout: 0.3,
        ..plain()
    };
    let mut trainer = trainer(plan);
    for _ in 0..300 {
        let (_, gradient) = trainer.gradient(&[Batch::new(&dates)]).unwrap();
        let Trainer { adam, model, .. } = &mut trainer;
        adam.step(model, &gradient, 5e-3).unwrap();
    }
    assert_eq!(exact(&trainer.model, &dates).unwrap(), 1.0);
}

/// The decoder is given what stands before each character that it should answer, never that one.
#[test]
fn the_target_is_the_input_one_place_on() {
    let batch = Batch::new(&examples(Split::Training, 5));
    let end = batch.input.ncols() - 1;
    assert_eq!(batch.input.dim(), (5, 11));
    assert!(batch.input.column(0).iter().all(|&token| token == BEGIN));
    assert!(batch.target.column(end).iter().all(|&token| token == END));
    assert_eq!(
        batch.input.slice(s![.., 1..]),
        batch.target.slice(s![.., ..end])
    );
}

#[test]
fn padding_is_not_counted_in_the_loss() {
    let logits = array![[[0.0, 1.0, 3.0], [5.0, 2.0, 1.0], [1.0, 1.0, 0.0]]];
    let of = |targets: Array2<u32>| {
        let m = targets.ncols();
        cross_entropy(&logits.slice(s![.., ..m, ..]), &targets, PAD, 0.1).unwrap()
    };
    let (short, padded) = (of(array![[2]]), of(array![[2, PAD, PAD]]));
    assert_eq!((padded.mean, padded.tokens), (short.mean, 1));
    assert_eq!(padded.d_logits.slice(s![.., ..1, ..]), short.d_logits);
    assert!(
        padded
            .d_logits
            .slice(s![.., 1.., ..])
            .iter()
            .all(|&d| d == 0.0)
    );
}

/// The gradient by the scores is `(p − q) / tokens`, and with `q` uniform its sum is what the bias of
/// the last projection gets.
#[test]
fn nonsense_has_uniform_targets() {
    let trainer = trainer(plain());
    let texts = examples(Split::Training, 5);
    let batch = Batch::of_nonsense(&texts);
    assert!(!batch.is_dates);
    let (_, gradient) = trainer.gradient(std::slice::from_ref(&batch)).unwrap();

    let (source, input) = (batch.source.view(), batch.input.view());
    let mode = &mut Mode::Evaluation;
    let steps = trainer.model.apply_in_steps(&source, &input, mode).unwrap();
    let vocabulary = Vocabulary::of_targets().len();
    let mut expected = Array1::<f32>::zeros(vocabulary);
    for logits in steps.logits.rows() {
        let difference = softmax(&logits) - 1.0 / vocabulary as f32;
        expected += &(difference / batch.target.len() as f32);
    }
    let bias = gradient.output.bias().unwrap();
    assert!(expected.iter().any(|x| x.abs() > 1e-2), "{expected}");
    assert!(
        (bias - &expected).iter().all(|x| x.abs() < 1e-6),
        "{bias} is not {expected}"
    );
}

#[test]
fn nonsense_does_not_enter_the_shown_loss() {
    let trainer = trainer(plain());
    let dates = Batch::new(&examples(Split::Training, 4));
    let nonsense = Batch::of_nonsense(&examples(Split::Validation, 9));
    let (loss, of_dates) = trainer.gradient(std::slice::from_ref(&dates)).unwrap();
    for batches in [
        [dates.clone(), nonsense.clone()],
        [nonsense.clone(), dates.clone()],
    ] {
        let (with_nonsense, gradient) = trainer.gradient(&batches).unwrap();
        assert!((with_nonsense - loss).abs() < 1e-5);
        // But it is learned from.
        assert_ne!(numbers(&gradient), numbers(&of_dates));
    }
    assert_eq!(trainer.gradient(&[nonsense]).unwrap().0, 0.0);
}

#[test]
fn the_best_model_is_the_one_that_got_most_right() {
    let dates = examples(Split::Training, 6);
    let mut trainer = trainer(plain());
    let first = trainer.model.clone();
    trainer.step().unwrap();
    // None is right yet, and a later model is as good as an earlier one.
    trainer.look(&dates).unwrap();
    assert!(trainer.best == trainer.model && trainer.best != first);
    let best = trainer.model.clone();
    trainer.history.last_mut().unwrap().exact = 0.5;
    trainer.step().unwrap();
    let look = trainer.look(&dates).unwrap();
    assert_eq!((look.step, look.exact), (2, 0.0));
    assert!(trainer.best == best && trainer.model != best);
}

#[test]
fn a_look_tells_the_mean_loss_since_the_last_one() {
    let mut trainer = trainer(plan());
    let dates = examples(Split::Validation, 3);
    for _ in 0..2 {
        let losses: Vec<f32> = (0..3).map(|_| trainer.step().unwrap()).collect();
        assert_eq!(trainer.losses, losses);
        let look = trainer.look(&dates).unwrap();
        assert!((look.loss - losses.iter().sum::<f32>() / 3.0).abs() < 1e-6);
        assert!(trainer.losses.is_empty());
    }
    let record = trainer.record("this test");
    assert_eq!(record.made_by, "this test");
    assert_eq!((record.steps, record.history.len()), (6, 2));
    assert_eq!((record.plan, record.history), (plan(), trainer.history));
}

/// `exact` judges all characters at once, a translation writes one after the other.
#[test]
fn exact_is_what_writing_gives() {
    let (model, _) = ch09_training::weights::shipped().unwrap();
    let mut dates = examples(Split::HeldOut, 60);
    // Some of them wrong.
    for example in dates.iter_mut().step_by(3) {
        example.iso.replace_range(9..10, "x");
    }
    dates[1].iso.replace_range(0..1, "3");
    let written = |example: &&Example| {
        let text = example.text.as_str();
        let answer = ch09_training::translate::translate(&model, text).unwrap();
        answer.written == example.iso
    };
    let right = dates.iter().filter(written).count();
    assert!((20..40).contains(&right), "{right}");
    let share = exact(&model, &dates).unwrap();
    assert_eq!(share, right as f64 / dates.len() as f64);
}

/// However far a training has come, the next step is a step.
#[test]
fn endless_trainings_do_not_panic() {
    let mut trainer = trainer(plan());
    trainer.adam.steps = u64::MAX;
    trainer.plan.parts = usize::MAX;
    trainer.plan.seed = u64::MAX;
    trainer.step().unwrap();
    assert_eq!(trainer.adam.steps, u64::MAX);
    trainer.plan.nonsense = 0;
    trainer.step().unwrap();
    trainer.plan.batch = 0;
    assert_eq!(trainer.step().unwrap(), 0.0);
}

#[test]
fn a_number_out_of_range_ends_a_training_and_leaves_it_as_it_was() {
    let mut trainer = trainer(plan());
    trainer.step().unwrap();
    let mut gain = trainer.model.tables_mut();
    let table = &mut gain.last_mut().unwrap().1;
    table.fill(f32::NAN);
    let before = trainer.adam.clone();
    let error = trainer.step().unwrap_err().to_string();
    assert!(error.contains("NaN"), "{error}");
    assert!(trainer.adam == before);
}

#[test]
fn plans_that_lead_nowhere_are_refused() {
    type Spoil = fn(&mut Plan);
    let bad: [(&str, Spoil); 16] = [
        ("batch of 0", |p| p.batch = 0),
        ("number of parts of 0", |p| p.parts = 0),
        ("width of 0", |p| p.d_model = 0),
        ("heads of 0", |p| p.heads = 0),
        ("inner width of 0", |p| p.d_ff = 0),
        ("encoder layers of 0", |p| p.encoder_layers = 0),
        ("decoder layers of 65", |p| p.decoder_layers = 65),
        ("100000 texts", |p| p.nonsense = 100_000),
        ("rate of NaN", |p| p.schedule.peak = f64::NAN),
        ("rate of -1", |p| p.schedule.peak = -1.0),
        ("shortened to 0", |p| p.longest_gradient = 0.0),
        ("shortened to inf", |p| p.longest_gradient = f64::INFINITY),
        ("not 2", |p| p.smoothing = 2.0),
        ("not NaN", |p| p.smoothing = f64::NAN),
        ("1", |p| p.dropout = 1.0),
        ("16 cannot be split into 3", |p| p.heads = 3),
    ];
    for (message, spoil) in bad {
        let mut plan = plan();
        spoil(&mut plan);
        let error = Trainer::new(plan).unwrap_err().to_string();
        assert!(error.contains(message), "{error}: no {message}");
    }
    let mut plan = plan();
    (plan.d_model, plan.d_ff, plan.encoder_layers) = (4_096, 16_384, 64);
    let error = Trainer::new(plan).unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn the_learning_rate_rises_in_a_line_and_falls_along_a_cosine() {
    let schedule = Schedule {
        peak: 2.0,
        warm_up: 4,
        steps: 12,
    };
    for (step, rate) in
        [(0, 0.0), (1, 0.5), (4, 2.0), (8, 1.0), (12, 0.0), (99, 0.0)]
    {
        let found = schedule.rate(step);
        assert!((found - rate).abs() < 1e-12, "{found} at step {step}");
    }
    for warm_up in [0, 5, u64::MAX] {
        for steps in [0, 5, u64::MAX] {
            let peak = 2.0;
            let schedule = Schedule {
                peak,
                warm_up,
                steps,
            };
            for step in [0, 1, 5, u64::MAX - 1, u64::MAX] {
                assert!((0.0..=peak).contains(&schedule.rate(step)));
            }
        }
    }
}

/// At its first step Adam moves every number by the rate, whatever the size of the gradient: only
/// with the bias corrected.
#[test]
fn the_first_step_of_adam_is_as_long_as_the_rate() {
    let trainer = trainer(plain());
    let before = trainer.model.clone();
    for size in [1e-4, 1.0, 1e4] {
        let mut gradient = blank(&before);
        for (_, mut table) in gradient.tables_mut() {
            table.fill(size);
        }
        let mut model = before.clone();
        let mut adam = Adam::new(&model, [0.9, 0.98], 1e-9).unwrap();
        adam.step(&mut model, &gradient, 0.25).unwrap();
        for (now, before) in numbers(&model).iter().zip(numbers(&before)) {
            assert!((before - now - 0.25).abs() < 1e-4, "{before} to {now}");
        }
    }
}

/// No step of Adam is longer than its doc comment says, and some come as near as one likes: those
/// whose gradients grow by β₂/β₁, whether they follow a rest or not.
#[test]
fn adam_takes_no_step_beyond_its_bound() {
    for [beta_1, beta_2] in [[0.9, 0.98], [0.9, 0.999], [0.5, 0.9], [0.0, 0.999]] {
        let bound = (1.0 - beta_1)
            / f64::sqrt((1.0 - beta_2) * (1.0 - beta_1 * beta_1 / beta_2));
        let rate = 0.01;
        // The longest step in learning rates, under these gradients.
        let longest = |gradients: &mut dyn Iterator<Item = f64>| {
            let still: Projection<f64> = array![[0.0]].into();
            let mut adam = Adam::new(&still, [beta_1, beta_2], 1e-12).unwrap();
            let mut longest = 0.0_f64;
            for gradient in gradients {
                // Always from 0, so that nothing of a step is rounded away.
                let mut model = still.clone();
                adam.step(&mut model, &array![[gradient]].into(), rate)
                    .unwrap();
                longest = longest.max(model.weight()[[0, 0]].abs() / rate);
            }
            assert!(
                longest <= bound * (1.0 + 1e-9),
                "{longest} is beyond {bound}"
            );
            longest
        };
        let worst = if beta_1 > 0.0 { beta_2 / beta_1 } else { 1e6 };
        let rest = || std::iter::repeat_n(0.0, 20_000);
        let growing = |by: f64, most: i32| (-most..=0).map(move |t| by.powi(t));
        let reached = longest(&mut rest().chain(growing(worst, 100)));
        assert!(reached > 0.999 * bound, "{reached} is not near {bound}");
        for by in [1.0, 1.01, 0.99 * worst, 1.01 * worst, 2.0, 10.0] {
            longest(&mut growing(by, 100));
            longest(&mut rest().chain(growing(by, 100)));
        }
        // Climb from gradients drawn at random, changing one at a time, after a short rest or none.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        for rest in [0, 1, 30] {
            let mut gradients: Vec<f64> =
                (0..30).map(|_| rng.random_range(-1.0..=1.0)).collect();
            let mut best = 0.0;
            for _ in 0..300 {
                let place = rng.random_range(0..gradients.len());
                let before = gradients[place];
                gradients[place] = rng.random_range(-2.0..=2.0) * before + 1e-3;
                let zeros = std::iter::repeat_n(0.0, rest);
                let found = longest(&mut zeros.chain(gradients.iter().copied()));
                if found >= best {
                    best = found;
                } else {
                    gradients[place] = before;
                }
            }
        }
    }
}

/// What cannot be squared would stay in Adam's means for ever.
#[test]
fn adam_refuses_what_it_could_not_forget() {
    let trainer = trainer(plain());
    let before = trainer.model.clone();
    let fresh = Adam::new(&before, [0.9, 0.98], 1e-9).unwrap();
    for bad in [f32::NAN, f32::INFINITY, 1e30, -1e20] {
        let mut gradient = blank(&before);
        // Only the last number of the last table.
        let mut tables = gradient.tables_mut();
        let (_, table) = tables.last_mut().unwrap();
        *table.iter_mut().last().unwrap() = bad;
        drop(tables);
        let (mut model, mut adam) = (before.clone(), fresh.clone());
        let error = adam.step(&mut model, &gradient, 0.1).unwrap_err();
        assert!(error.to_string().contains("has left its range"), "{error}");
        assert!(
            model == before && adam == fresh,
            "something has moved at {bad}"
        );
    }
}

#[test]
fn the_cross_entropy_of_large_scores() {
    let loss = |logits: [f32; 2], smoothing| {
        let logits = Array3::from_shape_vec((1, 1, 2), logits.to_vec()).unwrap();
        let loss = cross_entropy(&logits, &array![[1]], PAD, smoothing);
        loss.unwrap().mean
    };
    for size in [1.0, 1e4, 1e6, 1e8, 1e30, f32::MAX] {
        for z in [size, -size] {
            for smoothing in [0.0, 0.1, 1.0] {
                let found = loss([z, z], smoothing);
                let right = std::f32::consts::LN_2;
                assert!(
                    (found - right).abs() < 1e-6,
                    "{found} at {z}, {smoothing}"
                );
            }
        }
    }
    // Scores 1 apart, wherever they are.
    assert!((loss([4096.0, 4095.0], 0.0) - loss([1.0, 0.0], 0.0)).abs() < 1e-6);
    let none = f32::NEG_INFINITY;
    for smoothing in [0.0, 0.1, 1.0] {
        assert_eq!(loss([0.0, none], smoothing), f32::INFINITY);
    }
    assert_eq!(loss([none, 0.0], 0.0), 0.0);
}

#[test]
fn slopes_of_gelu_at_the_ends_of_the_range() {
    for (x, right) in [
        (f32::INFINITY, 1.0),
        (1e20, 1.0),
        (-1e20, 0.0),
        (f32::NEG_INFINITY, 0.0),
    ] {
        assert_eq!(slope(Activation::Gelu, x), right, "at {x}");
    }
    assert!(slope(Activation::Gelu, f32::NAN).is_nan());
}

#[test]
fn the_gradient_of_layer_norm_far_out_is_finite() {
    let norm = LayerNorm::<f32>::fresh(4).unwrap();
    let mut gradient = norm.clone();
    let x = array![[[1e30_f32, 2e30, 3e30, 4e30]]];
    let d_y = array![[[1e10, -2e10, 0.5e10, 3e10]]];
    let d_x = layer_norm(&norm, &x, &d_y, &mut gradient).unwrap();
    // As at an ordinary size, divided by how much larger this one is.
    let near = array![[[1.0, 2.0, 3.0, 4.0]]];
    let right = layer_norm(&norm, &near, &d_y, &mut gradient.clone()).unwrap();
    for (&found, &right) in d_x.iter().zip(&right) {
        let right = right * 1e-30;
        assert!(
            (found - right).abs() <= 1e-4 * right.abs().max(1e-21),
            "{found}, not {right}"
        );
        assert!(found != 0.0);
    }
}
