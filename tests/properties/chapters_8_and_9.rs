//! What must hold for the Transformer, and for how it is trained.

use super::{array, assert_near, assert_same, assert_within, check, number, poison, tokens};
use ch02_softmax::softmax;
use ch03_scaled::softmax_jacobian;
use ch08_transformer::*;
use ch09_training::dates::{self, Language, Split};
use ch09_training::loss::cross_entropy;
use ch09_training::optimizer::{Adam, clip};
use ch09_training::task::{UNKNOWN, Vocabulary};
use ch09_training::{backward, nonsense, trainer::blank};
use ndarray::{Array1, Array2, Array3, Axis, concatenate, s};
use proptest::collection::vec;
use proptest::prelude::*;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Sequences of vectors, and a LayerNorm for them.
fn normed() -> impl Strategy<Value = (Array3<f64>, LayerNorm<f64>)> {
    (0..3_usize, 0..4_usize, 1..7_usize).prop_flat_map(|(batch, n, width)| {
        let norm = (array(width), array(width), 1e-6..1.0_f64);
        let norm = norm.prop_map(|(gain, shift, eps)| LayerNorm::new(gain, shift, eps).unwrap());
        (array((batch, n, width)), norm)
    })
}

#[test]
fn layer_norm_standardizes() {
    check(normed(), |(x, norm)| {
        let (standardized, sigmas) = norm.standardized(&x).unwrap();
        let plain = LayerNorm::<f64>::fresh(x.dim().2).unwrap();
        let plain = plain.standardized(&x).unwrap().0;
        let rows = standardized.rows().into_iter().zip(x.rows());
        for ((found, x), &sigma) in rows.zip(&sigmas) {
            let d = x.len() as f64;
            let mean = x.sum() / d;
            let variance = x.mapv(|x| (x - mean).powi(2)).sum() / d;
            assert!((found.sum() / d).abs() < 1e-9);
            // Variance 1, but for ε.
            let expected = variance / (sigma * sigma);
            assert!((found.dot(&found) / d - expected).abs() < 1e-9);
            assert!(sigma * sigma > variance);
        }
        for (found, x) in plain.rows().into_iter().zip(x.rows()) {
            let d = x.len() as f64;
            let variance = x.mapv(|y| (y - x.sum() / d).powi(2)).sum() / d;
            if variance > 0.1 {
                assert!((found.dot(&found) / d - 1.0).abs() < 1e-3);
            }
        }
        let expected = standardized * norm.gain() + norm.shift();
        assert_same(&norm.apply(&x).unwrap(), &expected);
    });
}

#[test]
fn layer_norm_does_not_notice_a_shift() {
    check((normed(), number()), |((x, norm), shift)| {
        let moved = norm.apply(&(&x + shift)).unwrap();
        assert_within(1e-8, &moved, &norm.apply(&x).unwrap());
    });
}

#[test]
fn a_shortcut_passes_what_the_part_adds() {
    let inputs = (normed(), any::<bool>(), any::<u64>());
    check(inputs, |((x, norm), is_pre, seed)| {
        let width = x.dim().2;
        let network = FeedForward {
            inner: ch05_multihead::Projection::random(width, 5, &mut rng(seed)),
            activation: Activation::Gelu,
            outer: ch05_multihead::Projection::random(5, width, &mut rng(seed ^ 1)),
        };
        let order = if is_pre {
            NormOrder::Pre
        } else {
            NormOrder::Post
        };
        let residual = Residual::new(norm.clone(), order);
        let mode = &mut Mode::Evaluation;
        let steps = residual.around(&x, mode, |x, _| network.apply_in_steps(x));
        let found = steps.unwrap().output;
        let expected = if is_pre {
            let inside = norm.apply(&x).unwrap();
            &x + &network.apply(&inside).unwrap()
        } else {
            let sum = &x + &network.apply(&x).unwrap();
            norm.apply(&sum).unwrap()
        };
        assert_near(&found, &expected);
    });
}

fn settings(is_pre: bool) -> Settings {
    Settings {
        source_vocabulary: 3,
        target_vocabulary: 3,
        d_model: 4,
        heads: 2,
        d_ff: 6,
        encoder_layers: 1,
        decoder_layers: 2,
        order: if is_pre {
            NormOrder::Pre
        } else {
            NormOrder::Post
        },
        ..Settings::small()
    }
}

fn model() -> impl Strategy<Value = Transformer<f64>> {
    (any::<bool>(), any::<u64>())
        .prop_map(|(is_pre, seed)| Transformer::random(&settings(is_pre), &mut rng(seed)).unwrap())
}

fn logits(model: &Transformer<f64>, source: &Array2<u32>, target: &Array2<u32>) -> Array3<f64> {
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(source, target, mode);
    steps.unwrap().logits
}

fn two_sides() -> impl Strategy<Value = (Array2<u32>, Array2<u32>)> {
    (1..3_usize, 0..5_usize, 1..6_usize).prop_flat_map(|(batch, n, m)| {
        let tokens = |n: usize| {
            vec(0..3_u32, batch * n)
                .prop_map(move |tokens| Array2::from_shape_vec((batch, n), tokens).unwrap())
        };
        (tokens(n), tokens(m))
    })
}

#[test]
fn future_tokens_do_not_change_earlier_logits() {
    let inputs = (model(), two_sides(), any::<prop::sample::Index>());
    check(inputs, |(model, (source, target), place)| {
        let before = logits(&model, &source, &target);
        let place = place.index(target.ncols());
        let mut changed = target;
        changed
            .slice_mut(s![.., place..])
            .mapv_inplace(|token| (token + 1) % 3);
        let after = logits(&model, &source, &changed);
        let earlier = s![.., ..place, ..];
        assert_within(1e-12, &after.slice(earlier), &before.slice(earlier));
    });
}

/// With more padding behind every sequence.
fn longer(tokens: &Array2<u32>, more: usize) -> Array2<u32> {
    let padding = Array2::from_elem((tokens.nrows(), more), PAD);
    concatenate![Axis(1), tokens.view(), padding]
}

#[test]
fn appended_padding_changes_nothing() {
    let inputs = (model(), two_sides(), 1..4_usize);
    check(inputs, |(model, (source, target), more)| {
        let padded = longer(&source, more);
        let (memory, of_padded) = (
            model.encode(&source).unwrap(),
            model.encode(&padded).unwrap(),
        );
        let n = source.ncols();
        assert_within(1e-9, &of_padded.slice(s![.., ..n, ..]), &memory);
        let scores = logits(&model, &source, &target);
        assert_within(1e-9, &logits(&model, &padded, &target), &scores);
        let m = target.ncols();
        let of_longer = logits(&model, &source, &longer(&target, more));
        assert_within(1e-9, &of_longer.slice(s![.., ..m, ..]), &scores);

        let classifier = Classifier {
            embedding: model.target_embedding.clone(),
            encoder: model.encoder.clone(),
            classes: model.output.clone(),
        };
        let classes = classifier.apply(&target).unwrap();
        let of_longer = classifier.apply(&longer(&target, more)).unwrap();
        assert_within(1e-9, &of_longer, &classes);
    });
}

#[test]
fn an_embedding_gives_rows_times_the_root_of_the_width() {
    let table = (1..6_usize).prop_flat_map(|width| array((3, width)));
    check((table, tokens()), |(table, tokens)| {
        let embedding = Embedding::new(table.clone()).unwrap();
        let x = embedding.apply(&tokens).unwrap();
        let root = (table.ncols() as f64).sqrt();
        for ((b, i), &token) in tokens.indexed_iter() {
            let expected = table.row(token as usize).mapv(|x| x * root);
            assert_near(&x.slice(s![b, i, ..]), &expected);
        }
    });
}

#[test]
fn cross_entropy_is_not_negative_and_its_gradient_sums_to_0() {
    let scores = tokens().prop_flat_map(|targets| {
        let (batch, m) = targets.dim();
        (array((batch, m, 3)), Just(targets))
    });
    let inputs = (scores, 0.0..=1.0_f64, poison());
    check(inputs, |((mut logits, targets), smoothing, poison)| {
        let loss = cross_entropy(&logits, &targets, PAD, smoothing);
        let counted = targets.iter().filter(|&&token| token != PAD).count();
        assert_eq!(loss.is_ok(), counted > 0);
        let Ok(loss) = loss else { return };
        assert!(loss.mean >= 0.0 && loss.tokens == counted);
        for (d, &target) in loss.d_logits.rows().into_iter().zip(&targets) {
            assert!(d.sum().abs() < 1e-12);
            assert!(target != PAD || d.iter().all(|&d| d == 0.0));
        }
        // Padding is not counted, whatever stands there.
        for (mut logits, &target) in logits.rows_mut().into_iter().zip(&targets) {
            if target == PAD {
                logits.fill(poison);
            }
        }
        let again = cross_entropy(&logits, &targets, PAD, smoothing);
        assert_eq!(again.unwrap(), loss);
    });
}

/// All learned numbers, one after the other.
fn numbers(learned: &impl Learned<f64>) -> Array1<f64> {
    let tables = learned.tables();
    tables.iter().flat_map(|(_, t)| t.iter().copied()).collect()
}

fn filled_norm(width: usize) -> impl Strategy<Value = LayerNorm<f64>> {
    (array(width), array(width)).prop_map(|(gain, shift)| LayerNorm::new(gain, shift, 1.0).unwrap())
}

#[test]
fn clipping_keeps_the_direction() {
    check((filled_norm(4), 0.01..9.0_f64), |(gradient, most)| {
        let mut clipped = gradient.clone();
        let length = clip(&mut clipped, most).unwrap();
        let (before, after) = (numbers(&gradient), numbers(&clipped));
        assert!((length - before.dot(&before).sqrt()).abs() < 1e-12);
        let factor = if length > most { most / length } else { 1.0 };
        assert_near(&after, &(before * factor));
        assert!(after.dot(&after).sqrt() <= most.max(length.min(most)) + 1e-12);
    });
}

/// Adam moves as far for a gradient as for a hundred times that gradient.
#[test]
fn adam_does_not_notice_the_size_of_the_gradients() {
    let gradients = vec(filled_norm(3), 1..5);
    check((gradients, 0.1..100.0_f64), |(gradients, factor)| {
        let moved = |factor: f64| {
            let mut model = LayerNorm::<f64>::fresh(3).unwrap();
            let mut adam = Adam::new(&model, [0.9, 0.98], 1e-300).unwrap();
            for gradient in &gradients {
                let mut gradient = gradient.clone();
                for mut table in gradient.numbers_mut() {
                    table *= factor;
                }
                adam.step(&mut model, &gradient, 0.1).unwrap();
            }
            numbers(&model)
        };
        assert_within(1e-9, &moved(factor), &moved(1.0));
    });
}

#[test]
fn the_first_step_of_adam_is_as_long_as_the_rate() {
    check((filled_norm(3), 0.001..1.0_f64), |(gradient, rate)| {
        let mut model = blank(&gradient);
        let mut adam = Adam::new(&model, [0.9, 0.98], 1e-300).unwrap();
        adam.step(&mut model, &gradient, rate).unwrap();
        let expected = numbers(&gradient).mapv(|g| if g == 0.0 { 0.0 } else { -rate * g.signum() });
        assert_near(&numbers(&model), &expected);
    });
}

#[test]
fn softmax_backwards_is_the_product_with_the_jacobian() {
    let rows = (0..7_usize).prop_flat_map(|n| (array(n), array(n)));
    check(rows, |(scores, d_weights)| {
        let weights = softmax(&scores);
        let found = backward::softmax(&weights, &d_weights).unwrap();
        let expected = softmax_jacobian(&weights).t().dot(&d_weights);
        assert_near(&found, &expected);
        assert!(found.sum().abs() < 1e-12);
    });
}

fn split() -> impl Strategy<Value = Split> {
    prop_oneof![
        Just(Split::Training),
        Just(Split::Validation),
        Just(Split::HeldOut)
    ]
}

#[test]
fn every_character_that_is_written_has_a_token() {
    check((split(), any::<u64>()), |(split, seed)| {
        let rng = &mut rng(seed);
        let vocabulary = Vocabulary::of_sources();
        for language in Language::ALL {
            let day = dates::random_date(split, rng);
            assert_eq!(dates::split_of(day), split);
            let written = dates::write(day, language, rng);
            let tokens = vocabulary.tokens(&written.text);
            assert!(!tokens.contains(&UNKNOWN), "{written:?}");
            let back = tokens
                .iter()
                .map(|&token| vocabulary.character(token).unwrap());
            assert_eq!(back.collect::<String>(), written.text);
        }
        let text = nonsense::nonsense(split, rng).text;
        assert_eq!(vocabulary.tokens(&text).len(), text.chars().count());
    });
}

#[test]
fn fields_lie_in_the_text_and_apart() {
    check((split(), any::<u64>()), |(split, seed)| {
        let example = dates::example(split, &mut rng(seed));
        let text: Vec<char> = example.text.chars().collect();
        let mut places = example.fields.concat();
        assert!(
            example
                .fields
                .iter()
                .all(|field| !field.is_empty() && field.is_sorted())
        );
        assert!(places.iter().all(|&place| text[place].is_alphanumeric()));
        places.sort_unstable();
        assert!(
            places.windows(2).all(|pair| pair[0] < pair[1]),
            "{example:?}"
        );
    });
}
