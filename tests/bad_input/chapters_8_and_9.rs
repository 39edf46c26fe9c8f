//! The rows of the chapters on the Transformer and on training.

use super::{
    HUGE, INFINITY, NAN, NEG_INFINITY, NOT_FINITE, Table, all, all_nan, all_zero, ones, rng, zeros,
};
use anyhow::{Result, anyhow, bail};
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use ch08_transformer::*;
use ch09_training::dates::{self, Example, Language, Split};
use ch09_training::optimizer::{Adam, Schedule, clip};
use ch09_training::reading::{as_read, is_one_date};
use ch09_training::task::{self, BEGIN, Batch, END, UNKNOWN, Vocabulary, padded};
use ch09_training::trainer::{self, Plan, Trainer, blank};
use ch09_training::translate::{Translation, translate};
use ch09_training::{alignment, backward, check, layers, loss, nonsense, study, weights};
use ndarray::{Array2, Array3, array};

pub(crate) const FILLS: [fn(&mut Table); 9] = [
    chapter_8_parts,
    chapter_8_layers,
    chapter_8_learned,
    chapter_8_models,
    chapter_8_study,
    chapter_9_backward,
    chapter_9_layers,
    chapter_9_loss_and_steps,
    chapter_9_task,
];

// What they are given.

/// An error whose message has its causes.
fn whole<T>(answer: Result<T>) -> Result<T> {
    answer.map_err(|error| anyhow!("{error:#}"))
}

fn settings() -> Settings {
    Settings {
        source_vocabulary: 7,
        target_vocabulary: 6,
        d_model: 4,
        heads: 2,
        d_ff: 6,
        encoder_layers: 1,
        decoder_layers: 1,
        dropout: 0.0,
        ..Settings::small()
    }
}

/// Settings that make no model, and the numbers that their refusal names.
fn bad_settings() -> Vec<(Settings, Vec<&'static str>)> {
    let of = settings;
    vec![
        (Settings { d_model: 0, ..of() }, vec!["0"]),
        (Settings { d_ff: 0, ..of() }, vec!["4", "0"]),
        (Settings { heads: 0, ..of() }, vec!["4", "0"]),
        (Settings { heads: 3, ..of() }, vec!["4", "3"]),
        (Settings { heads: 8, ..of() }, vec!["4", "8"]),
        (
            Settings {
                dropout: 1.0,
                ..of()
            },
            vec!["1"],
        ),
        (
            Settings {
                dropout: -0.5,
                ..of()
            },
            vec!["-0.5"],
        ),
        (
            Settings {
                dropout: NAN,
                ..of()
            },
            vec!["NaN"],
        ),
        (
            Settings {
                dropout: INFINITY,
                ..of()
            },
            vec!["inf"],
        ),
    ]
}

fn model() -> Transformer<f64> {
    Transformer::random(&settings(), &mut rng()).unwrap()
}

fn encoder() -> Encoder<f64> {
    settings().encoder(&mut rng()).unwrap()
}

fn decoder() -> Decoder<f64> {
    settings().decoder(&mut rng()).unwrap()
}

fn attention() -> MultiHeadAttention<f64> {
    MultiHeadAttention::random(4, 2, &mut rng()).unwrap()
}

fn network() -> FeedForward<f64> {
    encoder().layers[0].feed_forward.clone()
}

/// From one width to another, with a bias.
fn projection(width_in: usize, width_out: usize) -> Projection<f64> {
    Projection::random(width_in, width_out, &mut rng())
}

fn norm(width: usize) -> LayerNorm<f64> {
    LayerNorm::fresh(width).unwrap()
}

fn around(order: NormOrder) -> Residual<f64> {
    Residual::new(norm(4), order)
}

const ORDERS: [NormOrder; 2] = [NormOrder::Pre, NormOrder::Post];

fn everything() -> Mask {
    Mask::everything()
}

fn tokens(shape: (usize, usize)) -> Array2<u32> {
    Array2::ones(shape)
}

/// Two sequences, the first of which is spoilt by a number.
fn half_spoilt(x: f64) -> Array3<f64> {
    let mut sequences = ones((2, 3, 4));
    sequences[[0, 1, 2]] = x;
    sequences
}

fn finite(x: &Array3<f64>) -> bool {
    x.iter().all(|x| x.is_finite())
}

fn one<T: Clone>(x: &Array3<T>, b: usize) -> Array3<T> {
    x.select(ndarray::Axis(0), &[b])
}

fn chapter_8_parts(table: &mut Table) {
    table
        .of("ch08_transformer::Embedding::new")
        .refuses("width 0", [0], || Embedding::new(zeros((3, 0))))
        .gives("no vocabulary", || Embedding::new(zeros((0, 3))).is_ok());
    let embedding = |rows: usize| Embedding::new(ones((rows, 4))).unwrap();
    table
        .of("ch08_transformer::Embedding::apply")
        .refuses("token 3 of 3", [3, 3], move || {
            embedding(3).apply(&array![[0, 3]])
        })
        .refuses("token 0 of none", [0, 0], move || {
            embedding(0).apply(&array![[0]])
        })
        .refuses("the largest token", [u32::MAX, 3], move || {
            embedding(3).apply(&array![[u32::MAX]])
        })
        .gives("empty", move || {
            [(0, 0), (2, 0), (0, 3)].into_iter().all(|(batch, n)| {
                let x = embedding(0).apply(&tokens((batch, n))).unwrap();
                x == zeros((batch, n, 4))
            })
        })
        .gives_each(NOT_FINITE, |x| {
            let embedding = Embedding::new(array![[x], [1.0]]).unwrap();
            let answer = embedding.apply(&array![[0, 1]]).unwrap();
            !answer[[0, 0, 0]].is_finite() && answer[[0, 1, 0]] == 1.0
        });
    table
        .of("ch08_transformer::Embedding::row")
        .refuses("token 3 of 3", [3, 3], move || {
            embedding(3).row(3).map(|row| row.to_owned())
        })
        .gives("token 2 of 3", move || {
            embedding(3).row(2).unwrap() == ones(4)
        });
    table
        .of("ch08_transformer::Embedding::table")
        .gives("no vocabulary", move || embedding(0).table().is_empty());
    table
        .of("ch08_transformer::Embedding::table_mut")
        .gives("a change", move || {
            let mut embedding = embedding(2);
            embedding.table_mut().fill(NAN);
            all_nan(embedding.table())
        });
    table
        .of("ch08_transformer::Embedding::scale")
        .gives("width 4", move || embedding(0).scale() == 2.0);
    table
        .of("ch08_transformer::Embedding::random")
        .refuses("width 0", [0], || {
            Embedding::<f64>::random(3, 0, &mut rng())
        })
        .gives("no vocabulary", || {
            Embedding::<f64>::random(0, 3, &mut rng()).unwrap().table() == zeros((0, 3))
        });
    let of = |gain: usize, shift: usize, eps: f64| LayerNorm::new(ones(gain), zeros(shift), eps);
    let mut new = table
        .of("ch08_transformer::LayerNorm::new")
        .refuses("a gain of 2, a shift of 3", [2, 3], move || of(2, 3, 1.0))
        .refuses("width 0", [0], move || of(0, 0, 1.0));
    for eps in [0.0, -1.0, NAN, INFINITY, NEG_INFINITY] {
        new = new.refuses(eps, ["0".to_string(), eps.to_string()], move || {
            of(2, 2, eps)
        });
    }
    new.refuses("an ε that rounds to 0", ["0", "0"], || {
        LayerNorm::<f32>::new(array![1.0], array![0.0], 1e-60_f64 as f32)
    });
    table
        .of("ch08_transformer::LayerNorm::fresh")
        .refuses("width 0", [0], || LayerNorm::<f64>::fresh(0))
        .gives("width 1", || {
            norm(1).apply(&all(7.0, (1, 2, 1))).unwrap() == zeros((1, 2, 1))
        });
    table
        .of("ch08_transformer::LayerNorm::apply")
        .refuses("vectors of 3 for 4", [3, 4], || {
            norm(4).apply(&ones((1, 2, 3)))
        })
        .refuses("vectors of 0 for 4", [0, 4], || {
            norm(4).apply(&ones((1, 2, 0)))
        })
        .gives("empty", || {
            norm(4).apply(&ones((0, 2, 4))).unwrap() == zeros((0, 2, 4))
                && norm(4).apply(&ones((2, 0, 4))).unwrap() == zeros((2, 0, 4))
        })
        .gives("equal numbers", || {
            all_zero(&norm(4).apply(&all(1e300, (1, 1, 4))).unwrap())
        })
        .gives_each(NOT_FINITE, |x| {
            let answer = norm(4).apply(&half_spoilt(x)).unwrap();
            let spoilt = answer
                .rows()
                .into_iter()
                .filter(|row| row.iter().all(|x| x.is_nan()));
            spoilt.count() == 1 && answer.iter().filter(|x| x.is_nan()).count() == 4
        });
    table
        .of("ch08_transformer::LayerNorm::standardized")
        .refuses("vectors of 3 for 4", [3, 4], || {
            norm(4).standardized(&ones((1, 2, 3)))
        })
        .gives("empty", || {
            let (x, sigmas) = norm(4).standardized(&ones((2, 0, 4))).unwrap();
            (x.dim(), sigmas.dim()) == ((2, 0, 4), (2, 0))
        })
        .gives("equal numbers", || {
            let (_, sigmas) = norm(4).standardized(&all(-3.0, (1, 1, 4))).unwrap();
            sigmas[[0, 0]] == 1e-5_f64.sqrt()
        });
    table
        .of("ch08_transformer::LayerNorm::gain")
        .gives("nothing", || norm(3).gain() == ones(3));
    table
        .of("ch08_transformer::LayerNorm::shift")
        .gives("nothing", || norm(3).shift() == zeros(3));
    table
        .of("ch08_transformer::LayerNorm::numbers_mut")
        .gives("a change", || {
            let mut norm = norm(3);
            let [mut gain, mut shift] = norm.numbers_mut();
            gain.fill(2.0);
            shift.fill(NAN);
            norm.gain() == all(2.0, 3) && all_nan(norm.shift())
        });
    activations(table);
    let wrong = || FeedForward {
        inner: projection(4, 6),
        activation: Activation::Gelu,
        outer: projection(5, 4),
    };
    table
        .of("ch08_transformer::FeedForward::apply")
        .refuses("vectors of 3 for 4", [3, 4], || {
            network().apply(&ones((1, 2, 3)))
        })
        .refuses("6 inside for 5", [6, 5], move || {
            wrong().apply(&ones((1, 2, 4)))
        })
        .gives("empty", || {
            network().apply(&ones((0, 2, 4))).unwrap() == zeros((0, 2, 4))
        })
        .gives_each([NAN, NEG_INFINITY], |x| {
            let answer = network().apply(&half_spoilt(x)).unwrap();
            !finite(&one(&answer, 0)) && finite(&one(&answer, 1))
        });
    table
        .of("ch08_transformer::FeedForward::apply_in_steps")
        .refuses("vectors of 3 for 4", [3, 4], || {
            network().apply_in_steps(&ones((1, 2, 3)))
        })
        .gives("an empty sequence", || {
            let steps = network().apply_in_steps(&ones((1, 0, 4))).unwrap();
            (steps.inner.dim(), steps.output.dim()) == ((1, 0, 6), (1, 0, 4))
        });
    table
        .of("ch08_transformer::FeedForwardSteps::output")
        .gives("nothing", || {
            let steps = network().apply_in_steps(&ones((1, 2, 4))).unwrap();
            Steps::output(&steps) == steps.output
        });
    residuals(table);
}

fn activations(table: &mut Table) {
    table
        .of("ch08_transformer::Activation::apply")
        .gives("NaN", || {
            let of = |activation: Activation| activation.apply(NAN).is_nan();
            of(Activation::Relu) && of(Activation::Gelu)
        })
        .gives_each([INFINITY, HUGE, 50.0], |x| {
            Activation::Relu.apply(x) == x && Activation::Gelu.apply(x) == x
        })
        .gives_each([-HUGE, -50.0, -0.0], |x| {
            Activation::Relu.apply(x) == 0.0 && Activation::Gelu.apply(x) == 0.0
        })
        .gives("−∞", || Activation::Relu.apply(NEG_INFINITY) == 0.0);
    table
        .of("ch08_transformer::normal_share_below")
        .gives("NaN", || normal_share_below(NAN).is_nan())
        .gives_each([INFINITY, HUGE], |x| normal_share_below(x) == 1.0)
        .gives_each([NEG_INFINITY, -HUGE], |x| normal_share_below(x) == 0.0)
        .gives("0", || normal_share_below(0.0_f32) == 0.5);
}

fn residuals(table: &mut Table) {
    table
        .of("ch08_transformer::Residual::new")
        .gives("either order", || {
            ORDERS.iter().all(|&order| around(order).order == order)
        });
    let mut of = table.of("ch08_transformer::Residual::with_dropout");
    for p in [1.0, -0.5, 2.0, NAN, INFINITY, NEG_INFINITY] {
        of = of.refuses(p, ["0", "1", &p.to_string()], move || {
            around(NormOrder::Pre).with_dropout(p)
        });
    }
    of.gives("0", || around(NormOrder::Pre).with_dropout(0.0).is_ok());
    let mut of = table.of("ch08_transformer::Residual::around");
    for order in ORDERS {
        let call = move |x: Array3<f64>, network: FeedForward<f64>| {
            let mode = &mut Mode::Evaluation;
            around(order).around(&x, mode, |x, _| network.apply_in_steps(x))
        };
        let wider = || FeedForward {
            outer: projection(6, 5),
            ..network()
        };
        of = of
            .refuses(
                format!("{order:?}, vectors of 3 for 4"),
                [3, 4],
                move || call(ones((1, 2, 3)), network()),
            )
            .refuses(
                format!("{order:?}, another shape"),
                [1, 2, 4, 1, 2, 5],
                move || call(ones((1, 2, 4)), wider()),
            )
            .refuses(format!("{order:?}, a part that fails"), [9], move || {
                let x = ones((1, 2, 4));
                around(order).around(&x, &mut Mode::Evaluation, |_, _| {
                    bail!("9 is too many") as Result<FeedForwardSteps<f64>>
                })
            })
            .gives(format!("{order:?}, empty"), move || {
                call(ones((0, 2, 4)), network()).unwrap().output == zeros((0, 2, 4))
                    && call(ones((1, 0, 4)), network()).unwrap().output == zeros((1, 0, 4))
            })
            .gives(format!("{order:?}, nothing to drop"), move || {
                let residual = around(order).with_dropout(0.5).unwrap();
                let x = ones((0, 2, 4));
                let mode = &mut Mode::Training(&mut rng()) as &mut Mode;
                let steps = residual.around(&x, mode, |x, _| network().apply_in_steps(x));
                steps.unwrap().output.is_empty()
            });
    }
}

fn chapter_8_layers(table: &mut Table) {
    let ask = |q: (usize, usize, usize), s: (usize, usize, usize), mask: &Mask| {
        let (queries, source) = (ones(q), ones(s));
        let mode = &mut Mode::Evaluation;
        attend(&attention(), &queries, &source, mask, mode)
    };
    table
        .of("ch08_transformer::attend")
        .refuses("queries of 3 for 4", [3, 4], move || {
            ask((1, 2, 3), (1, 2, 4), &everything())
        })
        .refuses("a source of 3 for 4", [3, 4], move || {
            ask((1, 2, 4), (1, 2, 3), &everything())
        })
        .refuses("batches of 2 and 3", [2, 2, 3, 2], move || {
            ask((2, 1, 4), (3, 1, 4), &everything())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 2, 2], move || {
            ask((1, 2, 4), (1, 2, 4), &Mask::causal(9, 9))
        })
        .gives("nothing to read", move || {
            let steps = ask((1, 2, 4), (1, 0, 4), &everything()).unwrap();
            steps.asked.output == zeros((1, 2, 4))
        })
        .gives("nobody asks", move || {
            let steps = ask((1, 0, 4), (1, 2, 4), &everything()).unwrap();
            steps.asked.output == zeros((1, 0, 4))
        });
    table
        .of("ch08_transformer::AttentionSteps::output")
        .gives("nothing", move || {
            let steps = ask((1, 2, 4), (1, 3, 4), &everything()).unwrap();
            Steps::output(&steps) == steps.asked.output
        });
    let encode = |x: Array3<f64>, mask: &Mask| encoder().layers[0].apply(&x, mask);
    let in_steps = |x: Array3<f64>, mask: &Mask| {
        encoder().layers[0].apply_in_steps(&x, mask, &mut Mode::Evaluation)
    };
    table
        .of("ch08_transformer::EncoderLayer::apply")
        .refuses("vectors of 3 for 4", [3, 4], move || {
            encode(ones((1, 2, 3)), &everything())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 2, 2], move || {
            encode(ones((1, 2, 4)), &Mask::causal(9, 9))
        })
        .gives("empty", move || {
            encode(ones((0, 2, 4)), &everything()).unwrap() == zeros((0, 2, 4))
                && encode(ones((1, 0, 4)), &everything()).unwrap() == zeros((1, 0, 4))
        })
        .gives("all padding", move || {
            let padding = Mask::padding(&[0], 2).unwrap();
            finite(&encode(ones((1, 2, 4)), &padding).unwrap())
        })
        .gives_each(NOT_FINITE, move |x| {
            let answer = encode(half_spoilt(x), &everything()).unwrap();
            all_nan(&one(&answer, 0)) && finite(&one(&answer, 1))
        });
    table
        .of("ch08_transformer::EncoderLayer::apply_in_steps")
        .refuses("vectors of 3 for 4", [3, 4], move || {
            in_steps(ones((1, 2, 3)), &everything())
        })
        .refuses("padding of 3 for 2", [3, 2, 2, 2], move || {
            in_steps(ones((2, 2, 4)), &Mask::padding(&[1; 3], 2).unwrap())
        })
        .gives("an empty sequence", move || {
            let steps = in_steps(ones((1, 0, 4)), &everything()).unwrap();
            steps.feed_forward.output == zeros((1, 0, 4))
        });
    let decode = |x: Array3<f64>, memory: Array3<f64>, masks: [Mask; 2]| {
        let (x, memory, [own, source]) = (x.view(), memory.view(), masks.each_ref());
        decoder().layers[0].apply(&x, &memory, own, source)
    };
    let free = || [everything(), everything()];
    table
        .of("ch08_transformer::DecoderLayer::apply")
        .refuses("vectors of 3 for 4", [3, 4], move || {
            decode(ones((1, 2, 3)), ones((1, 2, 4)), free())
        })
        .refuses("a memory of 3 for 4", [3, 4], move || {
            decode(ones((1, 2, 4)), ones((1, 2, 3)), free())
        })
        .refuses("batches of 2 and 3", [2, 2, 3, 2], move || {
            decode(ones((2, 2, 4)), ones((3, 2, 4)), free())
        })
        .refuses("an own mask of 9 × 9", [9, 9, 1, 2, 2, 2], move || {
            let masks = [Mask::causal(9, 9), everything()];
            decode(ones((1, 2, 4)), ones((1, 3, 4)), masks)
        })
        .refuses("a source mask of 9 × 9", [9, 9, 1, 2, 2, 3], move || {
            let masks = [everything(), Mask::causal(9, 9)];
            decode(ones((1, 2, 4)), ones((1, 3, 4)), masks)
        })
        .gives("nothing to read", move || {
            finite(&decode(ones((1, 2, 4)), ones((1, 0, 4)), free()).unwrap())
        })
        .gives("nothing to write", move || {
            decode(ones((1, 0, 4)), ones((1, 2, 4)), free()).unwrap() == zeros((1, 0, 4))
        })
        .gives_each(NOT_FINITE, move |x| {
            let answer = decode(ones((2, 3, 4)), half_spoilt(x), free()).unwrap();
            all_nan(&one(&answer, 0)) && finite(&one(&answer, 1))
        });
    table
        .of("ch08_transformer::DecoderLayer::apply_in_steps")
        .refuses("a memory of 3 for 4", [3, 4], || {
            let (x, memory, mask) = (ones((1, 2, 4)), ones((1, 2, 3)), everything());
            let mode = &mut Mode::Evaluation;
            decoder().layers[0].apply_in_steps(&x, &memory, &mask, &mask, mode)
        });
    stacks(table);
}

fn stacks(table: &mut Table) {
    let encode = |encoder: Encoder<f64>, x: Array3<f64>| {
        let mode = &mut Mode::Evaluation;
        whole(encoder.apply_in_steps(&x, &everything(), mode))
    };
    let without_layers = || Encoder {
        layers: vec![],
        final_norm: Some(norm(4)),
    };
    table
        .of("ch08_transformer::Encoder::apply_in_steps")
        .refuses("vectors of 3 for 4", [0, 3, 4], move || {
            encode(encoder(), ones((1, 2, 3)))
        })
        .refuses("a second layer of width 2", [1, 4, 2], move || {
            let mut encoder = encoder();
            let mut narrow = encoder.layers[0].clone();
            narrow.attention_residual = Residual::new(norm(2), NormOrder::Pre);
            encoder.layers.push(narrow);
            encode(encoder, ones((1, 2, 4)))
        })
        .refuses("no layers, vectors of 3 for 4", [3, 4], move || {
            encode(without_layers(), ones((1, 2, 3)))
        })
        .gives("nothing but a norm", move || {
            let steps = encode(without_layers(), ones((1, 2, 4))).unwrap();
            steps.layers.is_empty() && steps.output == zeros((1, 2, 4))
        })
        .gives("nothing at all", move || {
            let encoder = Encoder {
                layers: vec![],
                final_norm: None,
            };
            encode(encoder, all(HUGE, (1, 2, 7))).unwrap().output == all(HUGE, (1, 2, 7))
        });
    let decode = |decoder: Decoder<f64>, x: Array3<f64>, memory: Array3<f64>| {
        let (mask, mode) = (everything(), &mut Mode::Evaluation);
        whole(decoder.apply_in_steps(&x, &memory, &mask, &mask, mode))
    };
    table
        .of("ch08_transformer::Decoder::apply_in_steps")
        .refuses("vectors of 3 for 4", [0, 3, 4], move || {
            decode(decoder(), ones((1, 2, 3)), ones((1, 2, 4)))
        })
        .refuses("a memory of 3 for 4", [0, 3, 4], move || {
            decode(decoder(), ones((1, 2, 4)), ones((1, 2, 3)))
        })
        .gives("empty", move || {
            let steps = decode(decoder(), ones((0, 2, 4)), ones((0, 0, 4))).unwrap();
            steps.output == zeros((0, 2, 4))
        });
}

/// The names, if the tables to be changed are those to be read.
fn names<L: Learned<f64>>(mut learned: L) -> Vec<String> {
    let read: Vec<_> = learned
        .tables()
        .into_iter()
        .map(|(name, table)| (name, table.shape().to_vec()))
        .collect();
    let changed = learned.tables_mut().into_iter();
    let changed: Vec<_> = changed
        .map(|(name, table)| (name, table.shape().to_vec()))
        .collect();
    assert_eq!(read, changed);
    read.into_iter().map(|(name, _)| name).collect()
}

fn chapter_8_learned(table: &mut Table) {
    for [tables, tables_mut] in [
        [
            "ch08_transformer::Projection::tables",
            "ch08_transformer::Projection::tables_mut",
        ],
        [
            "ch08_transformer::MultiHeadAttention::tables",
            "ch08_transformer::MultiHeadAttention::tables_mut",
        ],
        [
            "ch08_transformer::Embedding::tables",
            "ch08_transformer::Embedding::tables_mut",
        ],
        [
            "ch08_transformer::LayerNorm::tables",
            "ch08_transformer::LayerNorm::tables_mut",
        ],
        [
            "ch08_transformer::Vec::tables",
            "ch08_transformer::Vec::tables_mut",
        ],
        [
            "ch08_transformer::Option::tables",
            "ch08_transformer::Option::tables_mut",
        ],
    ] {
        for function in [tables, tables_mut] {
            learned(table, function);
        }
    }
}

fn learned(table: &mut Table, function: &'static str) {
    let of = table.of(function);
    match function.split("::").nth(1) {
        Some("Projection") => of
            .gives("no bias", || {
                names(Projection::from(zeros((0, 3)))) == ["weight"]
            })
            .gives("a bias", || names(projection(0, 0)) == ["weight", "bias"]),
        Some("MultiHeadAttention") => of.gives("four projections", || {
            let names = names(attention());
            names.len() == 8 && names[3] == "key.bias"
        }),
        Some("Embedding") => of.gives("no vocabulary", || {
            names(Embedding::new(zeros((0, 3))).unwrap()) == ["table"]
        }),
        Some("LayerNorm") => of.gives("width 1", || names(norm(1)) == ["gain", "shift"]),
        Some("Vec") => of
            .gives("nothing", || names(Vec::<LayerNorm<f64>>::new()).is_empty())
            .gives("two", || {
                names(vec![norm(1), norm(2)])[2..] == ["1.gain", "1.shift"]
            }),
        _ => of
            .gives("nothing", || names(None::<LayerNorm<f64>>).is_empty())
            .gives("something", || names(Some(norm(1))) == ["gain", "shift"]),
    };
}

fn chapter_8_models(table: &mut Table) {
    table
        .of("ch08_transformer::Settings::small")
        .gives("nothing", || {
            Transformer::<f64>::random(&Settings::small(), &mut rng()).is_ok()
        });
    let none = || Settings {
        encoder_layers: 0,
        decoder_layers: 0,
        ..settings()
    };
    let mut of = table.of("ch08_transformer::Transformer::random");
    for (bad, numbers) in bad_settings() {
        of = of.refuses(format!("{bad:?}"), numbers, move || {
            Transformer::<f64>::random(&bad, &mut rng())
        });
    }
    for (source_vocabulary, target_vocabulary) in [(0, 6), (7, 0), (0, 0)] {
        let numbers = [source_vocabulary, target_vocabulary];
        of = of.refuses(format!("vocabularies of {numbers:?}"), numbers, move || {
            let settings = Settings {
                source_vocabulary,
                target_vocabulary,
                ..settings()
            };
            Transformer::<f64>::random(&settings, &mut rng())
        });
    }
    of.gives("no layers", move || {
        let model = Transformer::<f64>::random(&none(), &mut rng()).unwrap();
        model.encoder.layers.is_empty() && model.decoder.layers.is_empty()
    });
    let mut of = table.of("ch08_transformer::Settings::encoder");
    for (bad, numbers) in bad_settings() {
        of = of.refuses(format!("{bad:?}"), numbers, move || {
            bad.encoder::<f64>(&mut rng())
        });
    }
    of.gives("no layers", move || {
        none().encoder::<f64>(&mut rng()).unwrap().final_norm == Some(norm(4))
    });
    let mut of = table.of("ch08_transformer::Settings::decoder");
    for (bad, numbers) in bad_settings() {
        of = of.refuses(format!("{bad:?}"), numbers, move || {
            bad.decoder::<f64>(&mut rng())
        });
    }
    of.gives("post-norm", || {
        let order = NormOrder::Post;
        let settings = Settings {
            order,
            ..settings()
        };
        settings
            .decoder::<f64>(&mut rng())
            .unwrap()
            .final_norm
            .is_none()
    });
    table
        .of("ch08_transformer::Transformer::encode")
        .refuses("token 7 of 7", [7, 7], || model().encode(&array![[1, 7]]))
        .gives("empty", || {
            [(0, 0), (2, 0), (0, 3)].into_iter().all(|(batch, n)| {
                model().encode(&tokens((batch, n))).unwrap() == zeros((batch, n, 4))
            })
        })
        .gives("all padding", || {
            finite(&model().encode(&array![[PAD, PAD]]).unwrap())
        });
    let decode = |target: Array2<u32>, memory: (usize, usize, usize), source: Array2<u32>| {
        whole(model().decode(&target, &ones(memory), &source))
    };
    table
        .of("ch08_transformer::Transformer::decode")
        .refuses(
            "a source of 2 × 3 for a memory of 2 × 1",
            [2, 3, 2, 1],
            move || decode(tokens((2, 2)), (2, 1, 4), tokens((2, 3))),
        )
        .refuses(
            "a source of 1 × 3 for a memory of 2 × 3",
            [1, 3, 2, 3],
            move || decode(tokens((2, 2)), (2, 3, 4), tokens((1, 3))),
        )
        .refuses("targets of 1 for 2", [1, 2, 2, 2], move || {
            decode(tokens((1, 2)), (2, 3, 4), tokens((2, 3)))
        })
        .refuses("a memory of 3 for 4", [3, 4], move || {
            decode(tokens((1, 2)), (1, 3, 3), tokens((1, 3)))
        })
        .refuses("token 6 of 6", [6, 6], move || {
            decode(array![[6]], (1, 1, 4), tokens((1, 1)))
        })
        .gives("nothing to read or to write", move || {
            decode(tokens((1, 2)), (1, 0, 4), tokens((1, 0)))
                .unwrap()
                .dim()
                == (1, 2, 6)
                && decode(tokens((1, 0)), (1, 2, 4), tokens((1, 2)))
                    .unwrap()
                    .is_empty()
                && decode(tokens((0, 2)), (0, 2, 4), tokens((0, 2)))
                    .unwrap()
                    .is_empty()
        })
        .gives("all padding", move || {
            finite(&decode(tokens((1, 2)) * PAD, (1, 2, 4), tokens((1, 2)) * PAD).unwrap())
        });
    let apply = |source: Array2<u32>, target: Array2<u32>| {
        whole(model().apply_in_steps(&source, &target, &mut Mode::Evaluation))
    };
    table
        .of("ch08_transformer::Transformer::apply_in_steps")
        .refuses("token 9 of 7", [9, 7], move || {
            apply(array![[9]], tokens((1, 1)))
        })
        .refuses("token 9 of 6", [9, 6], move || {
            apply(tokens((1, 1)), array![[9]])
        })
        .refuses("sources of 2, targets of 3", [3, 2, 2, 2], move || {
            apply(tokens((2, 1)), tokens((3, 1)))
        })
        .gives("nothing to read or to write", move || {
            [(0, 0), (0, 2), (2, 0)].into_iter().all(|(n, m)| {
                apply(tokens((1, n)), tokens((1, m))).unwrap().logits.dim() == (1, m, 6)
            })
        });
    classifier(table);
}

fn classifier(table: &mut Table) {
    let classify = |tokens: Array2<u32>| {
        let classifier = Classifier {
            embedding: Embedding::<f64>::random(7, 4, &mut rng()).unwrap(),
            encoder: encoder(),
            classes: projection(4, 3),
        };
        classifier.apply(&tokens)
    };
    table
        .of("ch08_transformer::Classifier::apply")
        .refuses("no first token", [0; 0], move || classify(tokens((2, 0))))
        .refuses("token 7 of 7", [7, 7], move || classify(array![[7]]))
        .refuses("classes of another width", [4, 5], || {
            let classifier = Classifier {
                embedding: Embedding::<f64>::random(7, 4, &mut rng()).unwrap(),
                encoder: encoder(),
                classes: projection(5, 3),
            };
            classifier.apply(&tokens((1, 2)))
        })
        .gives("no text", move || {
            classify(tokens((0, 2))).unwrap().dim() == (0, 3)
        })
        .gives("all padding", move || {
            classify(array![[PAD, PAD]])
                .unwrap()
                .iter()
                .all(|x| x.is_finite())
        });
}

fn chapter_8_study(table: &mut Table) {
    table
        .of("ch08_transformer::random_vectors")
        .gives("empty", || {
            random_vectors(0, 4, &mut rng()).dim() == (1, 0, 4)
                && random_vectors(2, 0, &mut rng()).dim() == (1, 2, 0)
        });
    table
        .of("ch08_transformer::likeness")
        .refuses("no sequence", [0; 0], || likeness(&ones((0, 2, 4))))
        .refuses("no vector", [0; 0], || likeness(&ones((1, 0, 4))))
        .gives("one vector", || {
            likeness(&all(NAN, (1, 1, 4))).unwrap() == 1.0
        })
        .gives("zeros", || likeness(&zeros((1, 3, 4))).unwrap() == 0.0)
        .gives("NaN", || likeness(&all(NAN, (1, 3, 4))).unwrap().is_nan());
    let of = |sizes: [usize; 4]| collapse(sizes, true, &mut rng());
    table
        .of("ch08_transformer::collapse")
        .refuses("no vectors", [0; 0], move || of([0, 4, 2, 1]))
        .refuses("width 0", [0], move || of([3, 0, 2, 1]))
        .refuses("no heads", [0], move || of([3, 4, 0, 1]))
        .refuses("3 heads for 4", [4, 3], move || of([3, 4, 3, 1]))
        .gives("no layers", move || of([3, 4, 2, 0]).unwrap().len() == 1);
    let mut of = table
        .of("ch08_transformer::growth")
        .refuses("no vectors", [0; 0], || growth(&settings(), 0, &mut rng()));
    for (bad, numbers) in bad_settings() {
        of = of.refuses(format!("{bad:?}"), numbers, move || {
            growth(&bad, 3, &mut rng())
        });
    }
    of.gives("no layers", || {
        let settings = Settings {
            encoder_layers: 0,
            ..settings()
        };
        growth(&settings, 3, &mut rng()).unwrap().len() == 1
    });
}

fn chapter_9_backward(table: &mut Table) {
    table
        .of("ch09_training::backward::softmax")
        .refuses("2 weights, 3 gradients", [2, 3], || {
            backward::softmax(&ones(2), &ones(3))
        })
        .gives("empty", || {
            backward::softmax(&ones(0), &ones(0)).unwrap().is_empty()
        })
        .gives_each(NOT_FINITE, |x| {
            let d = backward::softmax(&array![0.5, 0.5], &array![x, 1.0]);
            d.unwrap().iter().all(|d| !d.is_finite())
        });
    type Shape = (usize, usize, usize, usize);
    let masked = |weights: Shape, kept: Shape, d_kept: Shape, mask: &Mask| {
        backward::masked_softmax(&ones(weights), &ones(kept), &ones(d_kept), mask)
    };
    let (one, two) = ((1, 2, 3, 4), (1, 2, 3, 5));
    table
        .of("ch09_training::backward::masked_softmax")
        .refuses(
            "kept weights of another shape",
            [3, 4, 1, 2, 3, 5],
            move || masked(one, two, one, &everything()),
        )
        .refuses(
            "a gradient of another shape",
            [3, 4, 1, 2, 3, 5],
            move || masked(one, one, two, &everything()),
        )
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 3, 4], move || {
            masked(one, one, one, &Mask::causal(9, 9))
        })
        .gives("nothing allowed", move || {
            let nothing = Mask::from_fn((1, 1, 1, 1), |_, _, _, _| false);
            let of = all(NAN, (1, 1, 2, 2));
            let weights = zeros((1, 1, 2, 2));
            let d = backward::masked_softmax(&weights, &weights, &of, &nothing);
            all_zero(&d.unwrap())
        })
        .gives("empty", move || {
            let shape = (0, 2, 3, 0);
            masked(shape, shape, shape, &everything())
                .unwrap()
                .is_empty()
        });
    let sum = |weights: Shape, values: Shape, d_output: Shape, mask: &Mask| {
        backward::weighted_sum(&ones(weights), &ones(values), mask, &ones(d_output))
    };
    table
        .of("ch09_training::backward::weighted_sum")
        .refuses("heads of 3 for 2", [1, 2, 1, 3], move || {
            sum((1, 2, 3, 4), (1, 3, 4, 5), (1, 2, 3, 5), &everything())
        })
        .refuses("gradients of 6 for values of 5", [6, 5], move || {
            sum((1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 3, 6), &everything())
        })
        .refuses("9 values for 4 weights", [3, 4, 1, 2, 3, 9], move || {
            sum((1, 2, 3, 4), (1, 2, 9, 5), (1, 2, 3, 5), &everything())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 4, 3], move || {
            sum(
                (1, 2, 3, 4),
                (1, 2, 4, 5),
                (1, 2, 3, 5),
                &Mask::causal(9, 9),
            )
        })
        .gives("empty", move || {
            let (d_a, d_v) = sum((1, 2, 0, 0), (1, 2, 0, 5), (1, 2, 0, 5), &everything()).unwrap();
            d_a.is_empty() && d_v.is_empty()
        })
        .gives("a hidden NaN", || {
            let hidden = Mask::from_fn((1, 1, 1, 2), |_, _, _, j| j == 0);
            let values = array![[[[1.0], [NAN]]]];
            let weights = array![[[[1.0, 0.0]]]];
            let d_output = ones((1, 1, 1, 1));
            let (_, d_v) = backward::weighted_sum(&weights, &values, &hidden, &d_output).unwrap();
            d_v == array![[[[1.0], [0.0]]]]
        });
    let scores = |queries: Shape, keys: Shape, d_scores: Shape, mask: &Mask| {
        backward::scaled_scores(&ones(queries), &ones(keys), mask, &ones(d_scores))
    };
    table
        .of("ch09_training::backward::scaled_scores")
        .refuses("width 0", [0], move || {
            scores((1, 2, 3, 0), (1, 2, 4, 0), (1, 2, 3, 4), &everything())
        })
        .refuses("queries of 5, keys of 6", [3, 5, 1, 2, 3, 6], move || {
            scores((1, 2, 3, 5), (1, 2, 4, 6), (1, 2, 3, 4), &everything())
        })
        .refuses("9 keys for 4 scores", [4, 9], move || {
            scores((1, 2, 3, 5), (1, 2, 9, 5), (1, 2, 3, 4), &everything())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 3, 4], move || {
            scores(
                (1, 2, 3, 5),
                (1, 2, 4, 5),
                (1, 2, 3, 4),
                &Mask::causal(9, 9),
            )
        })
        .gives("a hidden NaN", || {
            let hidden = Mask::from_fn((1, 1, 1, 2), |_, _, _, j| j == 0);
            let keys = array![[[[1.0], [NAN]]]];
            let d_scores = array![[[[1.0, 0.0]]]];
            let queries = ones((1, 1, 1, 1));
            let d = backward::scaled_scores(&queries, &keys, &hidden, &d_scores).unwrap();
            d.0 == ones((1, 1, 1, 1)) && d.1 == array![[[[1.0], [0.0]]]]
        });
    backward_parts(table);
}

fn backward_parts(table: &mut Table) {
    let project = |x: (usize, usize, usize), d_y: (usize, usize, usize), mut gradient| {
        backward::projection(&projection(2, 3), &ones(x), &ones(d_y), &mut gradient)
    };
    table
        .of("ch09_training::backward::projection")
        .refuses("vectors of 4 for 2", [1, 5, 4, 1, 5, 2], move || {
            project((1, 5, 4), (1, 5, 3), projection(2, 3))
        })
        .refuses("gradients of 4 for 3", [1, 5, 4, 1, 5, 3], move || {
            project((1, 5, 2), (1, 5, 4), projection(2, 3))
        })
        .refuses("4 gradients for 5 vectors", [1, 4, 3, 1, 5, 3], move || {
            project((1, 5, 2), (1, 4, 3), projection(2, 3))
        })
        .refuses("a gradient of 3 × 2", [2, 3, 3, 2], move || {
            project((1, 5, 2), (1, 5, 3), projection(3, 2))
        })
        .refuses("a gradient without a bias", [0; 0], move || {
            project((1, 5, 2), (1, 5, 3), Projection::from(zeros((2, 3))))
        })
        .gives("empty", move || {
            project((0, 5, 2), (0, 5, 3), projection(2, 3)).unwrap() == zeros((0, 5, 2))
        });
    let attend_back = |d_output: (usize, usize, usize), mask: &Mask, mut gradient| {
        let (x, mode) = (ones((1, 3, 4)), &mut Mode::Evaluation);
        let steps = attend(&attention(), &x, &x, &everything(), mode).unwrap();
        let (x, d_output) = (x.view(), ones(d_output));
        let (memory, asked) = (&steps.source, &steps.asked);
        backward::multi_head(
            &attention(),
            [&x, &x],
            memory,
            asked,
            mask,
            &d_output,
            &mut gradient,
        )
    };
    table
        .of("ch09_training::backward::multi_head")
        .refuses("gradients of 5 for 4", [1, 3, 5, 1, 3, 4], move || {
            attend_back((1, 3, 5), &everything(), attention())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 3, 3], move || {
            attend_back((1, 3, 4), &Mask::causal(9, 9), attention())
        })
        .refuses("a gradient of width 6", [4, 4, 6, 6], move || {
            let wider = MultiHeadAttention::random(6, 2, &mut rng()).unwrap();
            attend_back((1, 3, 4), &everything(), wider)
        })
        .gives("no mistake", move || {
            attend_back((1, 3, 4), &everything(), attention()).is_ok()
        });
    let norm_back = |x: Array3<f64>, d_y: Array3<f64>, mut gradient| {
        backward::layer_norm(&norm(4), &x, &d_y, &mut gradient)
    };
    table
        .of("ch09_training::backward::layer_norm")
        .refuses("vectors of 3 for 4", [3, 4], move || {
            norm_back(ones((1, 2, 3)), ones((1, 2, 3)), norm(4))
        })
        .refuses(
            "gradients of another shape",
            [1, 2, 4, 1, 3, 4],
            move || norm_back(ones((1, 2, 4)), ones((1, 3, 4)), norm(4)),
        )
        .refuses("a gradient of width 5", [4, 5], move || {
            norm_back(ones((1, 2, 4)), ones((1, 2, 4)), norm(5))
        })
        .gives("empty", move || {
            norm_back(ones((1, 0, 4)), ones((1, 0, 4)), norm(4)).unwrap() == zeros((1, 0, 4))
        })
        .gives("equal numbers", move || {
            finite(
                &norm_back(
                    ones((1, 2, 4)),
                    half_spoilt(2.0).slice(ndarray::s![..1, ..2, ..]).to_owned(),
                    norm(4),
                )
                .unwrap(),
            )
        });
    table
        .of("ch09_training::backward::slope")
        .gives_each([HUGE, INFINITY, 60.0], |x| {
            backward::slope(Activation::Relu, x) == 1.0
        })
        .gives_each([-HUGE, NEG_INFINITY, 0.0, -0.0], |x| {
            backward::slope(Activation::Relu, x) == 0.0
        })
        .gives_each([HUGE, 60.0], |x| {
            backward::slope(Activation::Gelu, x) == 1.0
        })
        .gives_each([-HUGE, -60.0], |x| {
            backward::slope(Activation::Gelu, x) == 0.0
        })
        .gives("NaN", || backward::slope(Activation::Gelu, NAN).is_nan());
    let network_back =
        |x: (usize, usize, usize), d: (usize, usize, usize), mut gradient: FeedForward<f64>| {
            let steps = network().apply_in_steps(&ones((1, 2, 4))).unwrap();
            backward::feed_forward(&network(), &ones(x), &steps, &ones(d), &mut gradient)
        };
    table
        .of("ch09_training::backward::feed_forward")
        .refuses("gradients of 3 for 4", [1, 2, 3, 1, 2, 4], move || {
            network_back((1, 2, 4), (1, 2, 3), network())
        })
        .refuses(
            "other vectors than those of the steps",
            [1, 2, 6, 1, 3, 6],
            move || network_back((1, 3, 4), (1, 2, 4), network()),
        )
        .refuses("a gradient of width 5", [6, 4, 6, 5], move || {
            let outer = projection(6, 5);
            network_back((1, 2, 4), (1, 2, 4), FeedForward { outer, ..network() })
        });
    let embed_back = |tokens: Array2<u32>, d_x: (usize, usize, usize), rows: usize| {
        let of = |rows: usize| Embedding::new(ones((rows, 4))).unwrap();
        backward::embedding(&of(3), &tokens, &ones(d_x), &mut of(rows))
    };
    table
        .of("ch09_training::backward::embedding")
        .refuses("token 3 of 3", [3, 3], move || {
            embed_back(array![[3]], (1, 1, 4), 3)
        })
        .refuses("gradients of 5 for 4", [1, 1, 5, 1, 1, 4], move || {
            embed_back(array![[1]], (1, 1, 5), 3)
        })
        .refuses("a gradient of 2 tokens", [3, 4, 2, 4], move || {
            embed_back(array![[1]], (1, 1, 4), 2)
        })
        .gives("no tokens", move || {
            embed_back(tokens((2, 0)), (2, 0, 4), 3).is_ok()
        });
}

fn chapter_9_layers(table: &mut Table) {
    type Three = (usize, usize, usize);
    let mut of = table.of("ch09_training::layers::residual");
    for order in ORDERS {
        let back = move |d_output: Three, d_inside: Three, width: usize| {
            let x = ones((1, 2, 4));
            let mode = &mut Mode::Evaluation;
            let steps = around(order)
                .around(&x, mode, |x, _| network().apply_in_steps(x))
                .unwrap();
            let mut gradient = Residual::new(norm(width), order);
            layers::residual(
                &around(order),
                &steps,
                &ones(d_output),
                &mut gradient,
                |_| Ok(ones(d_inside)),
            )
        };
        of = of
            .refuses(
                format!("{order:?}, a part of another shape"),
                [1, 3, 4],
                move || back((1, 2, 4), (1, 3, 4), 4),
            )
            .refuses(
                format!("{order:?}, a gradient of width 5"),
                [4, 5],
                move || back((1, 2, 4), (1, 2, 4), 5),
            );
    }
    of.refuses("a part that fails", [9], || {
        let x = ones((1, 2, 4));
        let residual = around(NormOrder::Pre);
        let mode = &mut Mode::Evaluation;
        let steps = residual
            .around(&x, mode, |x, _| network().apply_in_steps(x))
            .unwrap();
        layers::residual(&residual, &steps, &x, &mut residual.clone(), |_| {
            bail!("9 is too many")
        })
    });
    let encoder_back = |d_output: Three, mask: &Mask| {
        let layer = &encoder().layers[0];
        let mode = &mut Mode::Evaluation;
        let steps = layer
            .apply_in_steps(&ones((1, 2, 4)), &everything(), mode)
            .unwrap();
        layers::encoder_layer(layer, &steps, mask, &ones(d_output), &mut blank(layer))
    };
    table
        .of("ch09_training::layers::encoder_layer")
        .refuses("gradients of 5 for 4", [1, 2, 5, 1, 2, 4], move || {
            encoder_back((1, 2, 5), &everything())
        })
        .refuses("3 gradients for 2", [1, 3, 1, 2], move || {
            encoder_back((1, 3, 4), &everything())
        })
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 2, 2], move || {
            encoder_back((1, 2, 4), &Mask::causal(9, 9))
        })
        .gives("no mistake", move || {
            encoder_back((1, 2, 4), &everything()).is_ok()
        });
    let decoder_back = |memory: Three, d_memory: Three, d_output: Three, masks: [Mask; 2]| {
        let layer = &decoder().layers[0];
        let (x, mask, mode) = (ones((1, 2, 4)), everything(), &mut Mode::Evaluation);
        let steps = layer
            .apply_in_steps(&x, &ones((1, 3, 4)), &mask, &mask, mode)
            .unwrap();
        let memory = ones(memory);
        let memory = (&*memory, &mut ones(d_memory));
        layers::decoder_layer(
            layer,
            &steps,
            memory,
            masks.each_ref(),
            &ones(d_output),
            &mut blank(layer),
        )
    };
    let free = || [everything(), everything()];
    table
        .of("ch09_training::layers::decoder_layer")
        .refuses("gradients of 5 for 4", [1, 2, 5, 1, 2, 4], move || {
            decoder_back((1, 3, 4), (1, 3, 4), (1, 2, 5), free())
        })
        .refuses("another memory", [1, 7, 4], move || {
            decoder_back((1, 7, 4), (1, 3, 4), (1, 2, 4), free())
        })
        .refuses(
            "a gradient of another memory",
            [1, 7, 4, 1, 3, 4],
            move || decoder_back((1, 3, 4), (1, 7, 4), (1, 2, 4), free()),
        )
        .refuses("a mask of 9 × 9", [9, 9, 1, 2, 3, 2], move || {
            let masks = [everything(), Mask::causal(9, 9)];
            decoder_back((1, 3, 4), (1, 3, 4), (1, 2, 4), masks)
        })
        .gives("no mistake", move || {
            decoder_back((1, 3, 4), (1, 3, 4), (1, 2, 4), free()).is_ok()
        });
    let back = |source: Array2<u32>,
                target: Array2<u32>,
                d_logits: Three,
                change: fn(&mut Transformer<f64>)| {
        let model = model();
        let made = [tokens((1, 3)), tokens((1, 2))];
        let mode = &mut Mode::Evaluation;
        let steps = model.apply_in_steps(&made[0], &made[1], mode).unwrap();
        let mut gradient = blank(&model);
        change(&mut gradient);
        let (tokens, d_logits) = ([&*source, &*target], ones(d_logits));
        layers::transformer(&model, tokens, &steps, &d_logits, &mut gradient)
    };
    let fitting = move |change| back(tokens((1, 3)), tokens((1, 2)), (1, 2, 6), change);
    table
        .of("ch09_training::layers::transformer")
        .refuses("another source", [4, 1, 2, 3, 2], move || {
            back(tokens((1, 4)), tokens((1, 2)), (1, 2, 6), |_| ())
        })
        .refuses("another target", [5, 5], move || {
            back(tokens((1, 3)), tokens((1, 5)), (1, 2, 6), |_| ())
        })
        .refuses("scores of 7 for 6", [1, 2, 7, 1, 2, 6], move || {
            back(tokens((1, 3)), tokens((1, 2)), (1, 2, 7), |_| ())
        })
        .refuses("a token of no vocabulary", [9, 7], move || {
            back(tokens((1, 3)) * 9, tokens((1, 2)), (1, 2, 6), |_| ())
        })
        .refuses("a gradient without layers", [1, 1, 0, 1], move || {
            fitting(|gradient| gradient.encoder.layers.clear())
        })
        .refuses("a gradient without a last norm", [0; 0], move || {
            fitting(|gradient| gradient.decoder.final_norm = None)
        })
        .gives("no mistake", move || fitting(|_| ()).is_ok());
}

fn chapter_9_loss_and_steps(table: &mut Table) {
    let of = |logits: Array3<f64>, targets: Array2<u32>, smoothing: f64| {
        loss::cross_entropy(&logits, &targets, PAD, smoothing)
    };
    let mut entropy = table
        .of("ch09_training::loss::cross_entropy")
        .refuses("2 × 3 scores, 2 × 4 targets", [2, 3, 2, 4], move || {
            of(ones((2, 3, 5)), tokens((2, 4)), 0.0)
        })
        .refuses("target 5 of 5", [5, 5], move || {
            of(ones((1, 1, 5)), tokens((1, 1)) * 5, 0.0)
        })
        .refuses("target 1 of none", [1, 0], move || {
            of(ones((1, 1, 0)), tokens((1, 1)), 0.5)
        })
        .refuses("nothing but padding", [0; 0], move || {
            of(ones((1, 2, 5)), tokens((1, 2)) * PAD, 0.0)
        })
        .refuses("nothing", [0; 0], move || {
            of(ones((0, 2, 5)), tokens((0, 2)), 0.0)
        });
    for smoothing in [-0.1, 1.1, NAN, INFINITY] {
        let numbers = ["0".to_string(), "1".into(), smoothing.to_string()];
        entropy = entropy.refuses(smoothing, numbers, move || {
            of(ones((1, 1, 5)), tokens((1, 1)), smoothing)
        });
    }
    entropy
        .gives("NaN under padding", move || {
            let mut logits = ones((1, 2, 5));
            logits.slice_mut(ndarray::s![0, 1, ..]).fill(NAN);
            let loss = of(logits, array![[1, PAD]], 0.1).unwrap();
            loss.mean.is_finite() && loss.d_logits.iter().all(|d| d.is_finite())
        })
        .gives("NaN", move || {
            of(all(NAN, (1, 1, 5)), tokens((1, 1)), 0.0)
                .unwrap()
                .mean
                .is_nan()
        })
        .gives("a token that cannot be", move || {
            let logits = array![[[NEG_INFINITY, 0.0]]];
            of(logits, tokens((1, 1)), 0.0).unwrap().mean == 0.0
        })
        .gives("large scores", move || {
            of(array![[[1e300, -1e300]]], tokens((1, 1)), 0.0)
                .unwrap()
                .mean
                == 2e300
        });
    let mut adam = table.of("ch09_training::optimizer::Adam::new");
    for beta in [1.0, -0.1, NAN, INFINITY] {
        adam = adam
            .refuses(
                format!("β₁ {beta}"),
                ["0", "1", &beta.to_string()],
                move || Adam::new(&norm(2), [beta, 0.9], 1e-9),
            )
            .refuses(
                format!("β₂ {beta}"),
                ["0", "1", &beta.to_string()],
                move || Adam::new(&norm(2), [0.9, beta], 1e-9),
            );
    }
    for eps in [0.0, -1.0, NAN, INFINITY] {
        adam = adam.refuses(format!("ε {eps}"), ["0", &eps.to_string()], move || {
            Adam::new(&norm(2), [0.9, 0.9], eps)
        });
    }
    adam.gives("nothing to learn", || {
        let nothing = None::<LayerNorm<f64>>;
        Adam::new(&nothing, [0.0, 0.0], 1.0)
            .unwrap()
            .means
            .is_empty()
    });
    let step = |of: usize, model: usize, gradient: usize, rate: f64| {
        let mut adam = Adam::new(&norm(of), [0.9, 0.98], 1e-9).unwrap();
        adam.step(&mut norm(model), &norm(gradient), rate)
    };
    let mut adam = table
        .of("ch09_training::optimizer::Adam::step")
        .refuses("made for 2, given 3", [3, 2], move || step(2, 3, 3, 0.1))
        .refuses("a gradient of 4 for 3", [3, 4], move || step(3, 3, 4, 0.1))
        .refuses("fewer tables", [2, 2, 4, 4], || {
            let mut adam = Adam::new(&vec![norm(2), norm(2)], [0.9, 0.98], 1e-9).unwrap();
            adam.step(&mut norm(2), &norm(2), 0.1)
        });
    for rate in NOT_FINITE {
        adam = adam.refuses(rate, [rate], move || step(2, 2, 2, rate));
    }
    adam.gives("a refusal moves nothing", || {
        let (mut model, gradient) = (norm(2), norm(2));
        let mut adam = Adam::new(&model, [0.9, 0.98], 1e-9).unwrap();
        let before = adam.clone();
        adam.step(&mut model, &gradient, NAN).is_err() && model == norm(2) && adam == before
    })
    .gives("no gradient", || {
        let mut model = norm(2);
        let mut adam = Adam::new(&model, [0.9, 0.98], 1e-9).unwrap();
        let gradient = blank(&model);
        adam.step(&mut model, &gradient, 1.0).unwrap();
        model == norm(2)
    });
    table
        .of("ch09_training::optimizer::Schedule::rate")
        .gives("empty", || {
            let [none, last] = [0, u64::MAX].map(|step| {
                let (peak, warm_up, steps) = (1.0, 0, 0);
                Schedule {
                    peak,
                    warm_up,
                    steps,
                }
                .rate(step)
            });
            none == 1.0 && last == 0.0
        })
        .gives("endless", || {
            let (peak, warm_up, steps) = (1.0, u64::MAX, u64::MAX);
            let schedule = Schedule {
                peak,
                warm_up,
                steps,
            };
            schedule.rate(0) == 0.0 && schedule.rate(u64::MAX) == 1.0
        });
    let mut of = table.of("ch09_training::optimizer::clip");
    for most in [0.0, -1.0, NAN, NEG_INFINITY] {
        of = of.refuses(format!("to {most}"), [most], move || {
            clip(&mut norm(2), most)
        });
    }
    for x in NOT_FINITE {
        let length = x.abs();
        of = of.refuses(format!("a gradient of {x}"), [length], move || {
            clip(&mut LayerNorm::new(all(x, 2), zeros(2), 1.0).unwrap(), 1.0)
        });
    }
    of.gives("a length of 0", || {
        let mut gradient = blank(&norm(2));
        clip(&mut gradient, 1.0).unwrap() == 0.0 && gradient == blank(&norm(2))
    })
    .gives("no limit", || {
        let mut gradient = norm(4);
        clip(&mut gradient, INFINITY).unwrap() == 2.0 && gradient == norm(4)
    });
    let checked = |step: f64, count: usize, gradient: usize| {
        let sum = |norm: &LayerNorm<f64>| Ok(norm.gain().sum());
        let mut gradient = norm(gradient);
        gradient.numbers_mut()[1].fill(0.0);
        check::gradient_check(&norm(3), &gradient, check::Sample { step, count }, sum)
    };
    let mut of = table.of("ch09_training::check::gradient_check");
    for h in [0.0, -1e-5, NAN, INFINITY] {
        let h_shown = format!("{h}").replace("-0.00001", "-0.00001");
        of = of.refuses(format!("a step of {h}"), [h_shown], move || {
            checked(h, 5, 3)
        });
    }
    of.refuses("no numbers", [0], move || checked(1e-5, 0, 3))
        .refuses("a gradient of another width", [3, 4], move || {
            checked(1e-5, 5, 4)
        })
        .refuses("a loss that fails", [9], || {
            let fails = |_: &LayerNorm<f64>| bail!("9 is too many");
            let sample = check::Sample {
                step: 1e-5,
                count: 5,
            };
            check::gradient_check(&norm(2), &norm(2), sample, fails)
        })
        .gives("a right gradient", move || {
            let distances = checked(1e-5, usize::MAX, 3).unwrap();
            distances.len() == 2 && distances.iter().all(|(_, off)| *off < 1e-6)
        });
    table
        .of("ch09_training::study::gradient_by_layer")
        .gives("no layers", || {
            study::gradient_by_layer(NormOrder::Pre, 0)
                .unwrap()
                .is_empty()
        });
    table
        .of("ch09_training::study::course")
        .gives("no steps", || {
            study::course(NormOrder::Post, 0, 0, 0).unwrap().is_empty()
        })
        .gives("an endless rise", || {
            study::course(NormOrder::Pre, 0, u64::MAX, 2).unwrap().len() == 2
        });
}

fn small_plan() -> Plan {
    Plan {
        batch: 2,
        nonsense: 1,
        d_model: 4,
        heads: 2,
        d_ff: 6,
        encoder_layers: 1,
        decoder_layers: 1,
        ..Plan::default()
    }
}

fn small_trainer() -> Trainer {
    Trainer::new(small_plan()).unwrap()
}

/// Plans that lead nowhere, and the numbers that their refusal names.
fn bad_plans() -> Vec<(Plan, Vec<&'static str>)> {
    let of = small_plan;
    let peak = |peak: f64| Schedule {
        peak,
        ..of().schedule
    };
    vec![
        (Plan { batch: 0, ..of() }, vec!["0", "1"]),
        (
            Plan {
                nonsense: 70_000,
                ..of()
            },
            vec!["70000", "65536"],
        ),
        (Plan { parts: 0, ..of() }, vec!["0", "1"]),
        (
            Plan {
                d_model: usize::MAX,
                ..of()
            },
            vec!["18446744073709551615", "4096"],
        ),
        (Plan { d_ff: 0, ..of() }, vec!["0", "1"]),
        (Plan { heads: 0, ..of() }, vec!["0", "1"]),
        (
            Plan {
                encoder_layers: 0,
                ..of()
            },
            vec!["0", "1"],
        ),
        (
            Plan {
                decoder_layers: 65,
                ..of()
            },
            vec!["65", "64"],
        ),
        (
            Plan {
                dropout: 1.0,
                ..of()
            },
            vec!["0", "1", "1"],
        ),
        (
            Plan {
                smoothing: NAN,
                ..of()
            },
            vec!["0", "1", "NaN"],
        ),
        (
            Plan {
                longest_gradient: 0.0,
                ..of()
            },
            vec!["0"],
        ),
        (
            Plan {
                longest_gradient: NAN,
                ..of()
            },
            vec!["NaN"],
        ),
        (
            Plan {
                schedule: peak(-1.0),
                ..of()
            },
            vec!["-1"],
        ),
        (
            Plan {
                schedule: peak(INFINITY),
                ..of()
            },
            vec!["inf"],
        ),
    ]
}

fn example(text: &str, iso: &str) -> Example {
    Example {
        text: text.into(),
        iso: iso.into(),
        fields: [vec![0], vec![0], vec![0]],
    }
}

fn chapter_9_task(table: &mut Table) {
    dates_and_tokens(table);
    let mut of = table.of("ch09_training::trainer::Plan::check");
    for (bad, numbers) in bad_plans() {
        of = of.refuses(format!("{bad:?}"), numbers, move || bad.check());
    }
    of.gives("a plan", || small_plan().check().is_ok());
    let mut of =
        table
            .of("ch09_training::trainer::Trainer::new")
            .refuses("3 heads for 4", [4, 3], || {
                let heads = 3;
                Trainer::new(Plan {
                    heads,
                    ..small_plan()
                })
            });
    for (bad, numbers) in bad_plans() {
        of = of.refuses(format!("{bad:?}"), numbers, move || {
            Trainer::new(bad.clone())
        });
    }
    table
        .of("ch09_training::trainer::Plan::default")
        .gives("nothing", || Plan::default().check().is_ok());
    table
        .of("ch09_training::trainer::Plan::settings")
        .gives("no sizes", || {
            let d_model = 0;
            Plan {
                d_model,
                ..small_plan()
            }
            .settings()
            .d_model
                == 0
        });
    table
        .of("ch09_training::trainer::Trainer::step")
        .refuses("a number out of range", ["NaN"], || {
            let mut trainer = small_trainer();
            trainer.model.output.numbers_mut().0.fill(f32::NAN);
            trainer.step()
        })
        .refuses("a rate out of range", ["inf"], || {
            let mut trainer = small_trainer();
            trainer.plan.schedule.peak = INFINITY;
            trainer.step()
        })
        .gives("no examples", || {
            let mut trainer = small_trainer();
            (trainer.plan.batch, trainer.plan.nonsense) = (0, 0);
            trainer.step().unwrap() == 0.0
        });
    table
        .of("ch09_training::trainer::Trainer::batches")
        .gives("nothing", || small_trainer().batches(vec![]).is_empty())
        .gives("no parts", || {
            let mut trainer = small_trainer();
            trainer.plan.parts = 0;
            trainer.batches(vec![example("", ""); 3]).len() == 1
        });
    table
        .of("ch09_training::trainer::Trainer::gradient")
        .refuses("an empty batch", [0; 0], || {
            small_trainer().gradient(&[Batch::new(&[])])
        })
        .refuses("a token of no vocabulary", [u32::MAX], || {
            let mut batch = Batch::new(&[example("1", "2026-11-29")]);
            batch.source.fill(u32::MAX);
            small_trainer().gradient(&[batch])
        })
        .gives("nothing", || {
            small_trainer().gradient(&[]).unwrap().0 == 0.0
        })
        .gives("an empty text", || {
            let batch = Batch::new(&[example("", "2026-11-29")]);
            small_trainer().gradient(&[batch]).unwrap().0.is_finite()
        });
    table.of("ch09_training::trainer::blank").gives("NaN", || {
        let blank = blank(&LayerNorm::new(all(NAN, 2), all(NAN, 2), 1.0).unwrap());
        all_zero(blank.gain()) && all_zero(blank.shift())
    });
    table
        .of("ch09_training::trainer::Trainer::look")
        .refuses("a model of no vocabulary", ["0"], || {
            let mut trainer = small_trainer();
            trainer.model.source_embedding = Embedding::new(Array2::zeros((0, 4)))?;
            trainer.look(&[example("1", "2026-11-29")])
        })
        .gives("nothing", || {
            small_trainer().look(&[]).unwrap().exact == 0.0
        });
    table
        .of("ch09_training::weights::Trainer::record")
        .gives("nothing done", || {
            let record = small_trainer().record("");
            (record.steps, record.history.len(), record.made_by.len()) == (0, 0, 0)
        });
    table
        .of("ch09_training::trainer::exact")
        .refuses("a model of no vocabulary", ["0"], || {
            let mut model = small_trainer().model;
            model.target_embedding = Embedding::new(Array2::zeros((0, 4)))?;
            trainer::exact(&model, &[example("1", "2026-11-29")])
        })
        .gives("nothing", || {
            trainer::exact(&small_trainer().model, &[]).unwrap() == 0.0
        })
        .gives("an empty text", || {
            trainer::exact(&small_trainer().model, &[example("", "2026-11-29")]).is_ok()
        });
    at_work(table);
}

fn dates_and_tokens(table: &mut Table) {
    let ends = [
        "-009999-01-01",
        "0000-01-01",
        "0999-12-31",
        "3000-01-01",
        "9999-12-31",
    ];
    table
        .of("ch09_training::dates::split_of")
        .gives("the ends of the calendar", move || {
            let of = |day: &str| dates::split_of(day.parse().unwrap());
            ends.iter().all(|day| of(day) == of(day))
        });
    table
        .of("ch09_training::dates::random_date")
        .gives("each split", || {
            [Split::Training, Split::Validation, Split::HeldOut]
                .iter()
                .all(|&split| dates::split_of(dates::random_date(split, &mut rng())) == split)
        });
    table
        .of("ch09_training::dates::write")
        .gives("the ends of the calendar", move || {
            ends.iter().all(|day| {
                Language::ALL.iter().all(|&language| {
                    let written = dates::write(day.parse().unwrap(), language, &mut rng());
                    written.iso == *day
                })
            })
        });
    table
        .of("ch09_training::dates::example")
        .gives("each split", || {
            let written = dates::example(Split::HeldOut, &mut rng());
            dates::split_of(written.iso.parse().unwrap()) == Split::HeldOut
        });
    table
        .of("ch09_training::dates::alphabet")
        .gives("nothing", || dates::alphabet().is_sorted_by(|a, b| a < b));
    table
        .of("ch09_training::dates::Language::fmt")
        .gives("a width", || {
            format!("{:>8}", Language::French) == "  French"
        });
    table
        .of("ch09_training::nonsense::nonsense")
        .gives("each split", || {
            let mut rng = rng();
            (0..200).all(|_| {
                let text = nonsense::nonsense(Split::Training, &mut rng);
                text.fields.iter().all(Vec::is_empty) && text.iso.len() == 10
            })
        });
    let both = || [Vocabulary::of_sources(), Vocabulary::of_targets()];
    table
        .of("ch09_training::task::Vocabulary::of_sources")
        .gives("nothing", || {
            Vocabulary::of_sources().characters() == dates::alphabet()
        });
    table
        .of("ch09_training::task::Vocabulary::of_targets")
        .gives("nothing", || Vocabulary::of_targets().len() == 14);
    table
        .of("ch09_training::task::Vocabulary::characters")
        .gives("nothing", move || {
            both().iter().all(|v| v.characters().len() + 3 == v.len())
        });
    table
        .of("ch09_training::task::Vocabulary::len")
        .gives("nothing", move || both().iter().all(|v| v.len() > 3));
    table
        .of("ch09_training::task::Vocabulary::is_empty")
        .gives("nothing", move || both().iter().all(|v| !v.is_empty()));
    table
        .of("ch09_training::task::Vocabulary::tokens")
        .gives("nothing", move || {
            both().iter().all(|v| v.tokens("").is_empty())
        })
        .gives("unknown characters", move || {
            both().iter().all(|v| v.tokens("한🎂\0") == [UNKNOWN; 3])
        })
        .gives("every kind of space", || {
            let sources = Vocabulary::of_sources();
            sources.tokens("\t\u{3000}\u{a0}") == sources.tokens("   ")
        });
    table
        .of("ch09_training::task::Vocabulary::character")
        .gives("no character", move || {
            let none = [PAD, UNKNOWN, BEGIN, END, u32::MAX];
            both()
                .iter()
                .all(|v| none.iter().all(|&token| v.character(token).is_none()))
                && both().iter().all(|v| v.character(v.len() as u32).is_none())
        });
    table
        .of("ch09_training::task::Batch::new")
        .gives("nothing", || {
            let batch = Batch::new(&[]);
            batch.source.is_empty() && batch.input.is_empty() && batch.target.is_empty()
        })
        .gives("empty texts", || {
            let batch = Batch::new(&[example("", "")]);
            batch.source.dim() == (1, 0)
                && batch.input == array![[BEGIN]]
                && batch.target == array![[END]]
        });
    table
        .of("ch09_training::task::Batch::of_nonsense")
        .gives("nothing", || !Batch::of_nonsense(&[]).is_dates);
    table
        .of("ch09_training::task::examples")
        .gives("nothing", || task::examples(Split::Training, 0).is_empty());
    table
        .of("ch09_training::task::padded")
        .gives("nothing", || padded(vec![]).dim() == (0, 0))
        .gives("empty rows", || padded(vec![vec![]; 2]).dim() == (2, 0))
        .gives("one row longer", || {
            padded(vec![vec![], vec![7]]) == array![[PAD], [7]]
        });
}

fn at_work(table: &mut Table) {
    let heads = |heads: usize| {
        let mut model = small_trainer().model;
        let mut layer = model.decoder.layers[0].clone();
        layer.cross_attention = MultiHeadAttention::random(4, heads, &mut rng()).unwrap();
        model.decoder.layers.push(layer);
        model
    };
    table
        .of("ch09_training::alignment::alignment")
        .refuses("a date of 4 characters", [4], || {
            alignment::alignment(&small_trainer().model, &[example("1", "2026")])
        })
        .refuses("a field outside of the text", [9, 1], || {
            let mut example = example("1", "2026-11-29");
            example.fields[2] = vec![9];
            alignment::alignment(&small_trainer().model, &[example])
        })
        .refuses("a field of an empty text", [0, 0], || {
            alignment::alignment(&small_trainer().model, &[example("", "2026-11-29")])
        })
        .refuses("layers of 2 and 4 heads", [2, 4], move || {
            alignment::alignment(&heads(4), &[example("1", "2026-11-29")])
        })
        .gives("nothing", || {
            let shares = alignment::alignment(&small_trainer().model, &[]).unwrap();
            shares == Array2::from_elem((1, 2), [0.0; 3])
        })
        .gives("no layers", || {
            let mut model = small_trainer().model;
            model.decoder.layers.clear();
            alignment::alignment(&model, &[example("1", "2026-11-29")])
                .unwrap()
                .is_empty()
        });
    let written = |written: &str, probabilities: &[f64]| Translation {
        read: "29.11.2026".into(),
        written: written.into(),
        probabilities: probabilities.to_vec(),
        looked_at: vec![],
    };
    table
        .of("ch09_training::translate::Translation::probability")
        .gives("nothing", move || written("", &[]).probability() == 1.0)
        .gives("NaN", move || {
            written("", &[NAN, 0.5]).probability().is_nan()
        });
    table
        .of("ch09_training::translate::Translation::is_day")
        .gives("nothing", move || !written("", &[]).is_day())
        .gives("other characters", move || {
            !written("２０２6", &[]).is_day()
        })
        .gives("no day", move || !written("2026-02-30", &[]).is_day());
    table
        .of("ch09_training::reading::as_read")
        .gives("nothing", || as_read("").is_empty())
        .gives("an accent on nothing", || as_read("\u{301}") == "\u{301}");
    table
        .of("ch09_training::reading::is_one_date")
        .gives("nothing", || !is_one_date(""))
        .gives("digits", || !is_one_date(&"9".repeat(100_000)))
        .gives("other characters", || !is_one_date("🎂\0\u{301}"));
    table
        .of("ch09_training::translate::Translation::is_sure")
        .gives("nothing", move || !written("", &[]).is_sure())
        .gives("no day", move || !written("2026-02-30", &[1.0]).is_sure())
        .gives("NaN", move || !written("2026-11-29", &[NAN]).is_sure());
    table
        .of("ch09_training::translate::translate")
        .refuses("nothing", [0; 0], || translate(&small_trainer().model, ""))
        .refuses("201 characters", [201, 200], || {
            translate(&small_trainer().model, &"年".repeat(201))
        })
        .refuses("a model of other tokens", [1], || {
            let mut model = small_trainer().model;
            model.source_embedding = Embedding::new(Array2::zeros((1, 4)))?;
            translate(&model, "29.11.2026")
        })
        .gives("200 characters", || {
            translate(&small_trainer().model, &"年".repeat(200)).is_ok()
        })
        .gives("NaN", || {
            let mut model = small_trainer().model;
            model.output.numbers_mut().0.fill(f32::NAN);
            !translate(&model, "29.11.2026").unwrap().is_sure()
        });
    as_bytes(table);
}

fn as_bytes(table: &mut Table) {
    let saved = || {
        let trainer = small_trainer();
        weights::save(&trainer.model, &trainer.record("")).unwrap()
    };
    let paused = || weights::pause(&small_trainer(), "").unwrap();
    table
        .of("ch09_training::weights::shipped")
        .gives("nothing", || weights::shipped().is_ok());
    let not_finite = || {
        let mut trainer = small_trainer();
        trainer.losses.push(f32::NAN);
        trainer
    };
    table
        .of("ch09_training::weights::save")
        .refuses("a loss of NaN", [0; 0], move || {
            let trainer = not_finite();
            weights::save(&trainer.model, &trainer.record(""))
        })
        .gives("an empty name", move || !saved().is_empty());
    table
        .of("ch09_training::weights::load")
        .refuses("nothing", [0; 0], || weights::load(&[]))
        .refuses("a header without end", [0; 0], || {
            weights::load(&[0xff; 64])
        })
        .refuses("a byte too few", [0; 0], move || {
            let bytes = saved();
            weights::load(&bytes[..bytes.len() - 1])
        })
        .refuses(
            "a paused training",
            [0; 0],
            move || weights::load(&paused()),
        )
        .gives("what was saved", move || weights::load(&saved()).is_ok());
    table
        .of("ch09_training::weights::pause")
        .refuses("a loss of NaN", [0; 0], move || {
            weights::pause(&not_finite(), "")
        })
        .gives("no steps", move || !paused().is_empty());
    table
        .of("ch09_training::weights::resume")
        .refuses("nothing", [0; 0], || weights::resume(&[]))
        .refuses("a byte too few", [0; 0], move || {
            let bytes = paused();
            weights::resume(&bytes[..bytes.len() - 1])
        })
        .refuses("what was saved", [0; 0], move || weights::resume(&saved()))
        .gives("no steps", move || {
            weights::resume(&paused()).unwrap() == small_trainer()
        });
}
