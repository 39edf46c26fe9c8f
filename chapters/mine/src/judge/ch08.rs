use super::Stage;
use super::example::{Check, Example, show, wavy};
use super::peers::{Case, peers};
use crate::ch08::*;
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use ch08_transformer::{
    Activation, DecoderLayer, Embedding, Encoder, EncoderLayer, FeedForward,
    LayerNorm, NormOrder, Residual,
};
use ndarray::{Array1, Array2, Array3, ArrayRef2, Axis, Ix1, Ix3, arr1, array, s};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch08",
        name: "embed",
        hints: &[
            "Two tables added: the rows of the tokens, times √d_model, and your `positions`. Only the positions from `first` on are wanted.",
            "Make `first + tokens.len()` positions and take the last ones: `s![first.., ..]`. `x.scaled_add(factor, &row)` adds a row times a factor.",
        ],
        check: check_embed,
    },
    Stage {
        chapter: "ch08",
        name: "layer_norm",
        hints: &[
            "Row by row: take the mean away, then divide by √(mean of the squares + ε). After the first step the mean of the squares is the variance.",
            "`for mut row in y.rows_mut()`; `row -= mean` and `row /= root` change it in place. Gain and shift come last, for the whole table at once.",
        ],
        check: check_layer_norm,
    },
    Stage {
        chapter: "ch08",
        name: "feed_forward",
        hints: &[
            "Your `project`, `mapv` with `network.activation.apply(x)`, your `project`.",
        ],
        check: check_feed_forward,
    },
    Stage {
        chapter: "ch08",
        name: "residual",
        hints: &[
            "`match around.order`. In one order the part is given the normalized x and its answer is added to x as it came; in the other the sum is normalized.",
            "`layer_norm(x, around.norm.gain(), around.norm.shift(), EPS)` is the norm in both. A closure saves writing it twice.",
        ],
        check: check_residual,
    },
    Stage {
        chapter: "ch08",
        name: "encoder_layer",
        hints: &[
            "Two calls of your `residual`, the second on what the first returned. The part is a closure: `|x| self_attention(&layer.attention, x, mask)`.",
        ],
        check: check_encoder_layer,
    },
    Stage {
        chapter: "ch08",
        name: "decoder_layer",
        hints: &[
            "Three calls of your `residual`. Only the middle one looks at the memory, and under the other mask.",
        ],
        check: check_decoder_layer,
    },
    Stage {
        chapter: "ch08",
        name: "next_token_scores",
        hints: &[
            "Embed from position 0, go through all layers under a causal mask, normalize if there is a final norm, project.",
            "Which of your functions makes the causal mask? It wants both lengths, and they are equal.",
        ],
        check: check_next_token_scores,
    },
    Stage {
        chapter: "ch08",
        name: "encoder_layer_parameters",
        hints: &[
            "Four projections of attention, two of the network, two LayerNorms. A projection from a to b has a · b weights and b biases; what does a LayerNorm learn?",
        ],
        check: check_parameters,
    },
    Stage {
        chapter: "ch08",
        name: "rms_norm",
        hints: &["Your `layer_norm` without the mean and without the shift."],
        check: check_rms_norm,
    },
    Stage {
        chapter: "ch08",
        name: "find_the_fault_08",
        hints: &[
            "If the part answers with zeros, what must come out? What does come out?",
        ],
        check: check_fault,
    },
];

fn check_embed() -> Check {
    let table = wavy((5, 4), 0.7);
    let embedding = Embedding::new(table).expect("the table is not empty");
    let all: Array3<f64> = {
        let x = embedding
            .apply(&array![[1, 4, 2, 2, 0]])
            .expect("the tokens are known");
        x + ch06_self_attention::sinusoidal_positions::<f64>(5, 4)
    };
    for (first, last) in [(0, 5), (0, 1), (3, 5), (2, 3)] {
        let tokens = &[1, 4, 2, 2, 0][first..last];
        let example =
            Example::of("tokens", format!("{tokens:?}")).and("first", first);
        let yours = example.answer(embed(&embedding, tokens, first))?;
        example.same(&yours, &all.slice(s![0, first..last, ..]))?;
    }
    Example::of("tokens", "[5]")
        .and("vocabulary", 5)
        .refused(embed(&embedding, &[5], 0))
}

fn check_layer_norm() -> Check {
    let x = wavy((3, 4), 0.7);
    let yours = {
        let example = Example::new()
            .array("x", &x)
            .and("gain and shift", "1 and 0");
        let yours = example.answer(layer_norm(
            &x,
            &Array1::ones(4),
            &Array1::zeros(4),
            1e-12,
        ))?;
        example.shape(&yours, &[3, 4])?;
        example.sums(&yours, 0.0)?;
        yours
    };
    for (i, row) in yours.rows().into_iter().enumerate() {
        let variance = row.dot(&row) / 4.0;
        let example = Example::new()
            .array("x", &x)
            .and("gain and shift", "1 and 0");
        example.holds(
            show(&yours),
            (variance - 1.0).abs() < 1e-6,
            format!(
                "row {i}, counted from 0, has a variance of {variance:.4}, not 1"
            ),
        )?;
    }
    for case in peers!("layer-norm") {
        let (x, expected) =
            (case.input::<Ix3>("input"), case.expected::<Ix3>("output"));
        let (gain, shift) =
            (case.input::<Ix1>("weight"), case.input::<Ix1>("bias"));
        let eps = case.setting("eps").as_f64().unwrap_or(EPS);
        // Where PyTorch's 32 bits lose what ours keep, it is no judge.
        if case.name() == "large" || case.name() == "nearly equal" {
            continue;
        }
        for (x, expected) in x.outer_iter().zip(expected.outer_iter()) {
            let example = case
                .example()
                .array("x", &x)
                .array("gain", &gain)
                .array("shift", &shift)
                .and("ε", eps);
            let yours = example.answer(layer_norm(&x, &gain, &shift, eps))?;
            case.compare(example, &yours, &expected)?;
        }
    }
    Example::of("x", "3 × 4")
        .and("gain", "3 long")
        .refused(layer_norm(&x, &Array1::ones(3), &Array1::zeros(4), EPS))
}

fn network(activation: Activation) -> FeedForward<f64> {
    let projection =
        |weight, bias| Projection::new(weight, Some(bias)).expect("the bias fits");
    FeedForward {
        inner: projection(wavy((3, 5), 0.7), wavy(5, 0.9)),
        activation,
        outer: projection(wavy((5, 3), 1.3), wavy(3, 0.4)),
    }
}

/// One sequence as a batch of one, for the book.
fn alone(x: &ArrayRef2<f64>) -> Array3<f64> {
    x.to_owned().insert_axis(Axis(0))
}

fn check_feed_forward() -> Check {
    for activation in [Activation::Relu, Activation::Gelu] {
        let (network, x) = (network(activation), wavy((2, 3), 0.7));
        let example =
            Example::of("activation", format!("{activation:?}")).array("x", &x);
        let yours = example.answer(feed_forward(&network, &x))?;
        let book = network.apply(&alone(&x)).expect("the shapes fit");
        example.same(&yours, &book.index_axis(Axis(0), 0))?;
    }
    let x = wavy((2, 4), 0.7);
    Example::of("x", "2 × 4")
        .and("network", "takes 3")
        .refused(feed_forward(&network(Activation::Relu), &x))
}

fn norm(gain: Array1<f64>, shift: Array1<f64>) -> LayerNorm<f64> {
    LayerNorm::new(gain, shift, EPS).expect("gain and shift fit each other")
}

fn check_residual() -> Check {
    for order in [NormOrder::Pre, NormOrder::Post] {
        let around = Residual::new(
            norm(arr1(&[1.0, 2.0, -0.5]), arr1(&[0.0, 0.5, 1.0])),
            order,
        );
        let x = wavy((2, 3), 0.7);
        for (name, part) in [
            ("x → 0", (|x| x * 0.0) as fn(&ArrayRef2<f64>) -> Array2<f64>),
            ("x → x²", |x| x * x),
        ] {
            let example = Example::of("order", format!("{order:?}"))
                .and("part", name)
                .array("x", &x);
            let yours = example.answer(residual(&around, &x, |x| Ok(part(x))))?;
            let normed = |x: &ArrayRef2<f64>| {
                let y = around.norm.apply(&alone(x)).expect("the widths fit");
                y.index_axis_move(Axis(0), 0)
            };
            let book = match order {
                NormOrder::Pre => part(&normed(&x)) + &x,
                NormOrder::Post => normed(&(part(&x) + &x)),
            };
            example.same(&yours, &book)?;
        }
    }
    Ok(())
}

/// A part of PyTorch's layer, with what goes around it.
fn around(case: &Case, prefix: &str, name: &str) -> Residual<f64> {
    let order = if case.setting("norm_first").as_bool() == Some(true) {
        NormOrder::Pre
    } else {
        NormOrder::Post
    };
    let named = |of: &str| case.input::<Ix1>(&format!("{prefix}{name}.{of}"));
    Residual::new(norm(named("weight"), named("bias")), order)
}

fn network_of(case: &Case, prefix: &str) -> FeedForward<f64> {
    let is_gelu = case.setting("activation").as_str() == Some("gelu");
    FeedForward {
        inner: case.projection(&format!("{prefix}linear1")),
        activation: if is_gelu {
            Activation::Gelu
        } else {
            Activation::Relu
        },
        outer: case.projection(&format!("{prefix}linear2")),
    }
}

fn check_encoder_layer() -> Check {
    for case in peers!("encoder")
        .iter()
        .filter(|case| case.setting("layers").is_null())
    {
        let layer = EncoderLayer {
            attention: case.attention("self_attn."),
            attention_residual: around(case, "", "norm1"),
            feed_forward: network_of(case, ""),
            feed_forward_residual: around(case, "", "norm2"),
        };
        let (x, expected) =
            (case.input::<Ix3>("src"), case.expected::<Ix3>("output"));
        for (b, x) in x.outer_iter().enumerate() {
            let mask = case.mask(
                b,
                layer.attention.heads(),
                "src_key_padding_mask",
                "mask",
            );
            let example = case.example().array("x", &x).and("mask", &mask);
            let yours = example.answer(encoder_layer(&layer, &x, &mask))?;
            case.compare(example, &yours, &expected.index_axis(Axis(0), b))?;
        }
    }
    Ok(())
}

fn check_decoder_layer() -> Check {
    for case in peers!("decoder")
        .iter()
        .filter(|case| case.setting("layers").is_null())
    {
        let layer = DecoderLayer {
            attention: case.attention("self_attn."),
            attention_residual: around(case, "", "norm1"),
            cross_attention: case.attention("multihead_attn."),
            cross_attention_residual: around(case, "", "norm2"),
            feed_forward: network_of(case, ""),
            feed_forward_residual: around(case, "", "norm3"),
        };
        let [x, memory] = ["tgt", "memory"].map(|name| case.input::<Ix3>(name));
        let expected = case.expected::<Ix3>("output");
        for (b, x) in x.outer_iter().enumerate() {
            let memory = memory.index_axis(Axis(0), b);
            let heads = layer.attention.heads();
            let mask = case.mask(b, heads, "tgt_key_padding_mask", "tgt_mask");
            let source_mask =
                case.mask(b, heads, "memory_key_padding_mask", "memory_mask");
            let example = case
                .example()
                .array("x", &x)
                .array("memory", &memory)
                .and("mask", &mask)
                .and("source mask", &source_mask);
            let yours = example.answer(decoder_layer(
                &layer,
                &x,
                &memory,
                &mask,
                &source_mask,
            ))?;
            case.compare(example, &yours, &expected.index_axis(Axis(0), b))?;
        }
    }
    Ok(())
}

/// An encoder of two layers, 4 wide.
fn encoder(order: NormOrder) -> Encoder<f64> {
    let projection = |shape: (usize, usize), step| {
        Projection::new(wavy(shape, step), Some(wavy(shape.1, step)))
            .expect("the bias fits")
    };
    let layer = |step: f64| {
        let parts = [0.1, 0.2, 0.3, 0.4].map(|by| projection((4, 4), step + by));
        let [query, key, value, output] = parts;
        let around = |by: f64| {
            Residual::new(norm(wavy(4, step + by), wavy(4, step - by)), order)
        };
        EncoderLayer {
            attention: MultiHeadAttention::new(2, query, key, value, output)
                .expect("the shapes fit"),
            attention_residual: around(0.15),
            feed_forward: FeedForward {
                inner: projection((4, 6), step),
                activation: Activation::Gelu,
                outer: projection((6, 4), step),
            },
            feed_forward_residual: around(0.25),
        }
    };
    let final_norm =
        (order == NormOrder::Pre).then(|| norm(wavy(4, 0.6), wavy(4, 0.8)));
    Encoder {
        layers: vec![layer(0.7), layer(1.9)],
        final_norm,
    }
}

fn check_next_token_scores() -> Check {
    let embedding =
        Embedding::new(wavy((7, 4), 0.7)).expect("the table is not empty");
    let output = Projection::from(wavy((4, 7), 1.1));
    for order in [NormOrder::Pre, NormOrder::Post] {
        let layers = encoder(order);
        let scores = |example: &Example, tokens: &[u32]| {
            example.answer(next_token_scores(&embedding, &layers, &output, tokens))
        };
        let (tokens, changed) = ([1, 5, 6, 3], [1, 5, 2, 3]);
        let example = Example::of("order", format!("{order:?}"))
            .and("tokens", format!("{tokens:?}"));
        let yours = scores(&example, &tokens)?;
        example.shape(&yours, &[4, 7])?;
        let later = scores(&example, &changed)?;
        let same = yours.slice(s![..2, ..]) == later.slice(s![..2, ..]);
        example
            .clone()
            .and("other tokens", format!("{changed:?}"))
            .holds(
                "not the same before the change",
                same,
                "so a score depends on a later token",
            )?;
        let x = embedding
            .apply(&array![[1, 5, 6, 3]])
            .expect("the tokens are known")
            + ch06_self_attention::sinusoidal_positions::<f64>(4, 4);
        let mode = &mut ch08_transformer::Mode::Evaluation;
        let read = layers
            .apply_in_steps(&x, &Mask::causal(4, 4), mode)
            .expect("the shapes fit");
        let book = output.apply(&read.output).expect("the shapes fit");
        example.same(&yours, &book.index_axis(Axis(0), 0))?;
    }
    Ok(())
}

fn check_parameters() -> Check {
    use ch08_transformer::Learned;
    for (d, d_ff) in [(8, 32), (6, 5), (64, 128)] {
        let projection = |rows, columns| {
            Projection::new(
                Array2::<f64>::zeros((rows, columns)),
                Some(Array1::zeros(columns)),
            )
            .expect("the bias fits")
        };
        let square = || projection(d, d);
        let around = || {
            Residual::new(
                LayerNorm::fresh(d).expect("the width is not 0"),
                NormOrder::Pre,
            )
        };
        let layer = EncoderLayer {
            attention: MultiHeadAttention::new(
                2,
                square(),
                square(),
                square(),
                square(),
            )
            .expect("the shapes fit"),
            attention_residual: around(),
            feed_forward: FeedForward {
                inner: projection(d, d_ff),
                activation: Activation::Relu,
                outer: projection(d_ff, d),
            },
            feed_forward_residual: around(),
        };
        let yours = encoder_layer_parameters(d, d_ff);
        let off = yours.abs_diff(layer.parameters());
        Example::of("width", d).and("inner width", d_ff).holds(
            yours,
            off == 0,
            format!("is off by {off}"),
        )?;
    }
    Ok(())
}

fn check_rms_norm() -> Check {
    for (x, gain, eps) in [
        (array![[3.0, -4.0], [1.0, 1.0]], arr1(&[1.0, 1.0]), 0.0),
        (array![[3.0, -4.0], [0.0, 0.0]], arr1(&[1.0, 2.0]), 1e-5),
        (wavy((3, 4), 0.7), wavy(4, 0.9), 1e-3),
    ] {
        let book = Array2::from_shape_fn(x.dim(), |(i, c)| {
            let mean =
                x.row(i).iter().map(|x| x * x).sum::<f64>() / x.ncols() as f64;
            gain[c] * x[[i, c]] / (mean + eps).sqrt()
        });
        Example::new()
            .array("x", &x)
            .array("gain", &gain)
            .and("ε", eps)
            .same(&rms_norm(&x, &gain, eps), &book)?;
    }
    Ok(())
}

fn check_fault() -> Check {
    let x = array![[1.0, 5.0, 0.0], [2.0, 2.5, 3.0]];
    for (name, factor) in [("x → 0", 0.0), ("x → 2x", 2.0)] {
        let example = Example::of("part", name).array("x", &x);
        let yours = example.answer(find_the_fault_08(&x, |x| x * factor))?;
        let normed = norm(Array1::ones(3), Array1::zeros(3))
            .apply(&alone(&x))
            .expect("the widths fit");
        example
            .same(&yours, &(normed.index_axis_move(Axis(0), 0) * factor + &x))?;
    }
    Ok(())
}
