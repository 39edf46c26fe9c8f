//! The Transformer and its training on arbitrary input, and the two doors for what strangers write: a
//! text to translate, and weights from a file.

use super::{Input, Sizes, all_moderate, fitting, moderate, whole};
use ch05_multihead::Projection;
use ch08_transformer::*;
use ch09_training::loss::cross_entropy;
use ch09_training::reading::as_read;
use ch09_training::trainer::{Plan, Trainer, exact};
use ch09_training::translate::{LONGEST, translate};
use ch09_training::{backward, dates, weights};
use ndarray::{Array1, Array2, Array3, Array4, NdFloat};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};
use std::sync::LazyLock;

pub(crate) fn every_function(input: &Input) {
    parts::<f64>(input);
    parts::<f32>(input);
    models::<f64>(input);
    models::<f32>(input);
    backwards::<f64>(input);
    backwards::<f32>(input);
    texts(input);
    files(input);
}

fn parts<F: NdFloat>(input: &Input) {
    let Sizes {
        batch, rows: n, d, ..
    } = input.queries;
    let (width, other) = (input.keys.d, input.other);
    let x: Array3<F> = input.array(0, (batch, n, d));
    let fine = all_moderate(&x);
    let eps = F::from(input.factor).unwrap();
    let (gain, shift): (Array1<F>, Array1<F>) = (input.array(1, width), input.array(2, other));
    let fits = width == other && width > 0 && eps.is_finite() && eps > F::zero();
    fitting("LayerNorm::new", LayerNorm::new(gain, shift, eps), fits);
    let norm = LayerNorm::<F>::fresh(width);
    if let Some(norm) = fitting("LayerNorm::fresh", norm, width > 0) {
        let answer = norm.apply(&x);
        if let Some(answer) = fitting("LayerNorm::apply", answer, d == width) {
            whole("LayerNorm::apply", &answer, (batch, n, d), fine);
        }
    }
    let network = FeedForward {
        inner: Projection::<F>::from(input.array(1, (width, other))),
        activation: [Activation::Relu, Activation::Gelu][n % 2],
        outer: Projection::from(input.array(2, (input.values.d, width))),
    };
    let answer = network.apply(&x);
    let fits = d == width && other == input.values.d;
    if let Some(answer) = fitting("FeedForward::apply", answer, fits) {
        let fine = moderate(input.numbers.iter().copied());
        whole("FeedForward::apply", &answer, (batch, n, d), fine);
    }
    let tokens = tokens(input, (batch, n));
    let known = tokens.iter().all(|&token| (token as usize) < other);
    let table: Array2<F> = input.array(3, (other, d));
    let fine = all_moderate(&table);
    if let Some(embedding) = fitting("Embedding::new", Embedding::new(table), d > 0) {
        let answer = embedding.apply(&tokens);
        if let Some(answer) = fitting("Embedding::apply", answer, known) {
            whole("Embedding::apply", &answer, (batch, n, d), fine);
        }
    }
    let logits: Array3<F> = input.array(4, (batch, n, other));
    let real = tokens.iter().any(|&token| token != PAD);
    let known = tokens
        .iter()
        .all(|&token| token == PAD || (token as usize) < other);
    let loss = cross_entropy(&logits, &tokens, PAD, input.factor);
    let fits = real && known && (0.0..=1.0).contains(&input.factor);
    if let Some(loss) = fitting("cross_entropy", loss, fits) {
        whole(
            "cross_entropy",
            &loss.d_logits,
            logits.dim(),
            all_moderate(&logits),
        );
    }
}

fn tokens(input: &Input, shape: (usize, usize)) -> Array2<u32> {
    let mut bits = input.allowed.iter().cycle();
    Array2::from_shape_simple_fn(shape, || {
        let [a, b] = [(); 2].map(|()| u32::from(*bits.next().unwrap()));
        2 * a + b
    })
}

/// A model of arbitrary sizes, where they make one.
fn models<F: NdFloat>(input: &Input) {
    let (queries, keys) = (input.queries, input.keys);
    let settings = Settings {
        source_vocabulary: input.other,
        target_vocabulary: input.values.d,
        d_model: queries.d,
        heads: queries.heads,
        d_ff: keys.d,
        encoder_layers: keys.heads.min(2),
        decoder_layers: input.values.heads.min(2),
        activation: Activation::Relu,
        order: [NormOrder::Pre, NormOrder::Post][keys.rows % 2],
        dropout: input.factor,
    };
    let fits = [
        input.other,
        input.values.d,
        queries.d,
        queries.heads,
        keys.d,
    ]
    .iter()
    .all(|&x| x > 0)
        && queries.d.is_multiple_of(queries.heads)
        && (0.0..1.0).contains(&input.factor);
    let rng = &mut input.rng();
    let model = Transformer::<F>::random(&settings, rng);
    let Some(model) = fitting("Transformer::random", model, fits) else {
        return;
    };
    let (batch, n, m) = (queries.batch, keys.rows, queries.rows);
    let (source, target) = (tokens(input, (batch, n)), tokens(input, (keys.batch, m)));
    let known = |tokens: &Array2<u32>, size: usize| tokens.iter().all(|&t| (t as usize) < size);
    let fits = known(&source, input.other)
        && known(&target, input.values.d)
        && (batch == keys.batch || model.decoder.layers.is_empty());
    for mode in [&mut Mode::Evaluation, &mut Mode::Training(rng)] {
        let steps = model.apply_in_steps(&source, &target, mode);
        if let Some(steps) = fitting("Transformer::apply_in_steps", steps, fits) {
            let shape = (keys.batch, m, input.values.d);
            whole("Transformer::apply_in_steps", &steps.logits, shape, true);
        }
    }
}

fn backwards<F: NdFloat>(input: &Input) {
    let (
        Sizes {
            batch,
            heads,
            rows: m,
            d,
        },
        keys,
        values,
    ) = (input.queries, input.keys, input.values);
    let (n, mask) = (keys.rows, input.mask());
    let shape = (batch, heads, m, n);
    let weights: Array4<F> = input.array(0, shape);
    let q: Array4<F> = input.array(1, (batch, heads, m, d));
    let k: Array4<F> = input.array(2, (keys.batch, keys.heads, n, keys.d));
    let v: Array4<F> = input.array(3, (values.batch, values.heads, values.rows, input.other));
    let d_output: Array4<F> = input.array(4, (batch, heads, m, input.other));
    let mask_fits = mask.fit(shape).is_ok();
    let fine = moderate(input.numbers.iter().copied());
    let answer = backward::masked_softmax(&weights, &weights, &weights, &mask);
    if let Some(answer) = fitting("backward::masked_softmax", answer, mask_fits) {
        whole("backward::masked_softmax", &answer, shape, fine);
    }
    let answer = backward::weighted_sum(&weights, &v, &mask, &d_output);
    let fits = mask_fits && (batch, heads, n) == (values.batch, values.heads, values.rows);
    if let Some((d_a, d_v)) = fitting("backward::weighted_sum", answer, fits) {
        whole("backward::weighted_sum", &d_a, shape, fine);
        whole("backward::weighted_sum", &d_v, v.dim(), fine);
    }
    let answer = backward::scaled_scores(&q, &k, &mask, &weights);
    let fits = mask_fits && d > 0 && (batch, heads, d) == (keys.batch, keys.heads, keys.d);
    if let Some((d_q, d_k)) = fitting("backward::scaled_scores", answer, fits) {
        whole("backward::scaled_scores", &d_q, q.dim(), fine);
        whole("backward::scaled_scores", &d_k, k.dim(), fine);
    }
}

fn small() -> &'static Trainer {
    static SMALL: LazyLock<Trainer> = LazyLock::new(|| {
        let plan = Plan {
            d_model: 4,
            heads: 2,
            d_ff: 6,
            encoder_layers: 1,
            decoder_layers: 1,
            ..Plan::default()
        };
        Trainer::new(plan).unwrap()
    });
    &SMALL
}

fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    rng.next_u32() as usize % n
}

/// Characters of dates and any others, up to a few too many.
fn text(rng: &mut ChaCha8Rng) -> String {
    static ALPHABET: LazyLock<Vec<char>> = LazyLock::new(dates::alphabet);
    let longest = [12, 40, LONGEST + 5][below(rng, 3)];
    let length = below(rng, longest);
    (0..length)
        .map(|_| match below(rng, 4) {
            0 => char::from_u32(rng.next_u32() % 0x11_0000).unwrap_or('\u{202e}'),
            _ => ALPHABET[below(rng, ALPHABET.len())],
        })
        .collect()
}

fn texts(input: &Input) {
    let text = text(&mut input.rng());
    let n = as_read(&text).chars().count();
    let answer = translate(&small().model, &text);
    let answer = fitting("translate", answer, (1..=LONGEST).contains(&n));
    let Some(answer) = answer else { return };
    assert!(answer.probabilities.len() <= 11);
    assert!((0.0..=1.0).contains(&answer.probability()));
    for looked_at in &answer.looked_at {
        assert_eq!(looked_at.dim(), (2, answer.probabilities.len(), n));
    }
    let example = dates::Example {
        text,
        iso: answer.written,
        fields: Default::default(),
    };
    assert!((0.0..=1.0).contains(&exact(&small().model, &[example]).unwrap()));
}

/// Any bytes, and the right ones with some of them changed, cut off or repeated.
fn files(input: &Input) {
    static SOUND: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
        let trainer = small();
        [
            weights::save(&trainer.model, &trainer.record("a test")).unwrap(),
            weights::pause(trainer, "a test").unwrap(),
        ]
    });
    let rng = &mut input.rng();
    let mut bytes = match below(rng, 5) {
        0 => {
            let length = below(rng, 200);
            (0..length).map(|_| rng.next_u32() as u8).collect()
        }
        choice => SOUND[choice % 2].clone(),
    };
    for _ in 0..below(rng, 4) {
        if bytes.is_empty() {
            break;
        }
        let end = [16, 600, bytes.len()][below(rng, 3)].min(bytes.len());
        let place = below(rng, end);
        match below(rng, 8) {
            0 => bytes.truncate(place),
            1 => bytes.extend_from_within(place..),
            _ => bytes[place] = [rng.next_u32() as u8, b'0', b'9', b'"', b'}'][below(rng, 5)],
        }
    }
    // An answer or an error; what is read can be written, and gives itself.
    if let Ok((model, record)) = weights::load(&bytes) {
        let again = weights::load(&weights::save(&model, &record).unwrap()).unwrap();
        assert!(again == (model, record));
    }
    if let Ok(trainer) = weights::resume(&bytes) {
        let again = weights::resume(&weights::pause(&trainer, "a test").unwrap());
        assert!(again.unwrap() == trainer);
    }
}
