//! Judges the exercises of chapter 8: `cargo test -p exercises --test ch08`.

use ch04_masks::Mask;
use ch05_multihead::Projection;
use ch08_transformer::{
    Embedding, Encoder, Learned, Mode, NormOrder, Settings, random_vectors,
};
use exercises::ch08::*;
use ndarray::{Array1, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

#[test]
fn exercise_1_encoder_layer_parameters() {
    for (d_model, heads, d_ff) in [(8, 2, 32), (6, 3, 5), (64, 4, 128)] {
        let settings = Settings {
            d_model,
            heads,
            d_ff,
            ..Settings::small()
        };
        let encoder = settings.encoder::<f64>(&mut rng(1)).unwrap();
        assert_eq!(
            encoder_layer_parameters(d_model, d_ff),
            encoder.layers[0].parameters(),
            "a layer of width {d_model} and inner width {d_ff}"
        );
    }
    let base = encoder_layer_parameters(512, 2048);
    assert!((3_000_000..3_300_000).contains(&base), "the base model's");
}

#[test]
fn exercise_2_rms_norm() {
    let x = array![[[3.0, -4.0], [0.0, 0.0]]];
    let yours = rms_norm(x.view(), Array1::ones(2).view(), 0.0);
    let root = 12.5_f64.sqrt();
    let first = yours.slice(s![0, 0, ..]);
    for (yours, expected) in first.iter().zip([3.0 / root, -4.0 / root]) {
        assert!(
            (yours - expected).abs() < 1e-12,
            "[3, −4] has a mean square of 12.5"
        );
    }
    let yours = rms_norm(x.view(), array![1.0, 2.0].view(), 1e-5);
    assert_eq!(
        yours.slice(s![0, 1, ..]),
        array![0.0, 0.0],
        "ε keeps the zeros from becoming NaN"
    );
    let ratio = yours[[0, 0, 1]] / yours[[0, 0, 0]];
    assert!(
        (ratio + 8.0 / 3.0).abs() < 1e-12,
        "the gain of column 1 is 2"
    );
    let shifted = rms_norm((&x + 1.0).view(), Array1::ones(2).view(), 1e-5);
    assert_ne!(shifted, yours, "no mean is taken away");
}

#[test]
fn exercise_3_stacked() {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let settings = Settings {
            order,
            ..Settings::small()
        };
        let mut first = settings.encoder::<f64>(&mut rng(1)).unwrap();
        let second = settings.encoder::<f64>(&mut rng(2)).unwrap();
        let x = random_vectors(3, 8, &mut rng(3));
        let run = |encoder: &Encoder<f64>, x: ndarray::ArrayView3<f64>| {
            let mode = &mut Mode::Evaluation;
            encoder
                .apply_in_steps(x, &Mask::everything(), mode)
                .unwrap()
                .output
        };
        let yours = stacked(first.clone(), second.clone());
        assert_eq!(yours.layers.len(), 4, "all layers of both");
        first.final_norm = None;
        let expected = run(&second, run(&first, x.view()).view());
        assert_eq!(
            run(&yours, x.view()),
            expected,
            "one LayerNorm, behind the last layer: {order:?}"
        );
    }
}

#[test]
fn exercise_4_next_token_scores() {
    let rng = &mut rng(4);
    let embedding = Embedding::random(12, 8, rng).unwrap();
    let layers = Settings::small().encoder(rng).unwrap();
    let output = Projection::random(8, 12, rng);
    let tokens = array![[1, 5, 9, 3], [1, 7, 0, 0]];
    let scores = |tokens: &ndarray::Array2<u32>| {
        next_token_scores(&embedding, &layers, &output, tokens.view())
            .expect("the parts fit each other")
    };
    let yours = scores(&tokens);
    assert_eq!(
        yours.dim(),
        (2, 4, 12),
        "a score for each token, after each token"
    );
    let mut changed = tokens.clone();
    changed[[0, 2]] = 4;
    let changed = scores(&changed);
    for i in 0..4 {
        let same = yours.slice(s![0, i, ..]) == changed.slice(s![0, i, ..]);
        assert_eq!(same, i < 2, "token 2 changed; scores after token {i}");
    }
    let swapped = scores(&array![[5, 1, 9, 3]]);
    assert_ne!(
        swapped.slice(s![0, 2, ..]),
        yours.slice(s![0, 2, ..]),
        "positions tell 1 5 from 5 1"
    );
}
