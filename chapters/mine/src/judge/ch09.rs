use super::Stage;
use super::example::{Check, Example, OF_PEERS, wavy};
use super::peers::peers;
use crate::ch09::*;
use anyhow::anyhow;
use ndarray::{Array1, Ix2, Ix3, arr1, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch09",
        name: "cross_entropy",
        hints: &[
            "Your `log_softmax` of a row has −log p of the right token in it, but for the sign. Leave padding out of the sum and out of the count.",
            "`logits.rows().into_iter().zip(targets)` walks through both. `get` instead of `[…]` makes an error of a token that is not there.",
        ],
        check: check_cross_entropy,
    },
    Stage {
        chapter: "ch09",
        name: "attention_backward",
        hints: &[
            "Go the way of your attention once more, then back, step by step: output, weights, scores, queries and keys. You have `gradient_through_softmax` for one row.",
            "O = A V gives d_V = Aᵀ d_O and d_A = d_O Vᵀ: the shapes leave no other choice. In the same way E = Q Kᵀ gives d_Q = d_E K and d_K = d_Eᵀ Q.",
            "The scores were divided by √d_k, so their gradient is, too.",
        ],
        check: check_attention_backward,
    },
    Stage {
        chapter: "ch09",
        name: "greedy",
        hints: &[
            "Keep a list of tokens that begins with `begin`. Ask `next` about all of it, choose, stop at `end`, or push and go on.",
            "`longest` counts written tokens, and `begin` is not written. At the end, `tokens.split_off(1)` leaves it behind.",
        ],
        check: check_greedy,
    },
    Stage {
        chapter: "ch09",
        name: "gradient_by_hand",
        hints: &[
            "Use a_j (g_j − g · a) with a = [½, ½] and the derivative of the loss by each weight as g. What is g, if the loss is the first weight?",
        ],
        check: check_gradient_by_hand,
    },
    Stage {
        chapter: "ch09",
        name: "rate_of_the_paper",
        hints: &[
            "`powf` takes the exponents −1/2 and −3/2. Both branches meet at the end of the warm-up.",
        ],
        check: check_rate_of_the_paper,
    },
    Stage {
        chapter: "ch09",
        name: "find_the_fault_09",
        hints: &[
            "If every gradient is 1, what should their mean be after one step, and after ten?",
            "After t steps from 0 a mean of ones is 1 − βᵗ.",
        ],
        check: check_fault,
    },
];

fn check_cross_entropy() -> Check {
    let half = array![[0.0, 0.0], [3.0, 1.0]];
    let example = Example::new()
        .array("logits", &half)
        .and("targets", "[1, 0]")
        .and("padding", 0);
    let yours = example.answer(cross_entropy(&half, &[1, 0], 0))?;
    example.holds(
        yours,
        (yours.exp() - 2.0).abs() < 1e-9,
        "is not the loss of the one token that counts",
    )?;
    for case in peers!("cross-entropy") {
        if case.setting("label_smoothing").as_f64() != Some(0.0)
            || case.axes("logits") != 3
        {
            continue;
        }
        let (logits, targets) =
            (case.input::<Ix3>("logits"), case.input::<Ix2>("targets"));
        let (batch, m, vocabulary) = logits.dim();
        let logits = logits
            .into_shape_with_order((batch * m, vocabulary))
            .expect("there are as many");
        let targets: Vec<u32> = targets.iter().map(|&token| token as u32).collect();
        let pad = case
            .setting("ignore_index")
            .as_i64()
            .and_then(|pad| u32::try_from(pad).ok())
            .unwrap_or(u32::MAX);
        let example = case
            .example()
            .array("logits", &logits)
            .and("targets", format!("{targets:?}"))
            .and("padding", pad);
        let yours = example.answer(cross_entropy(&logits, &targets, pad))?;
        let expected = case.expected::<ndarray::Ix0>("loss");
        example.within(&ndarray::arr0(yours), &expected, "PyTorch's", OF_PEERS)?;
    }
    let scores = wavy((2, 3), 0.7);
    Example::of("targets", "nothing but padding").refused(cross_entropy(
        &scores,
        &[0, 0],
        0,
    ))?;
    Example::of("rows", 2)
        .and("targets", 1)
        .refused(cross_entropy(&scores, &[1], 0))?;
    Example::of("vocabulary", 3)
        .and("target", 3)
        .refused(cross_entropy(&scores, &[1, 3], 0))
}

fn check_attention_backward() -> Check {
    for case in peers!("sdpa-plain")
        .iter()
        .filter(|case| case.axes("q") == 2)
    {
        let [q, k, v, d_o] =
            ["q", "k", "v", "weighting"].map(|name| case.input::<Ix2>(name));
        let example = case
            .example()
            .array("queries", &q)
            .array("keys", &k)
            .array("values", &v)
            .array("d_output", &d_o);
        let yours = example.answer(attention_backward(&q, &k, &v, &d_o))?;
        for (name, yours) in ["q", "k", "v"].into_iter().zip(&yours) {
            let example = example.clone().and("gradient by", name);
            example.within(
                yours,
                &case.gradient::<Ix2>(name),
                "PyTorch's",
                OF_PEERS,
            )?;
        }
    }
    let (q, v) = (wavy((2, 3), 0.7), wavy((3, 3), 0.9));
    let example = Example::of("keys", 2).and("values", 3);
    example.refused(attention_backward(&q, &q, &v, &q))
}

fn check_greedy() -> Check {
    // After token t the best is t + 1, in a vocabulary of 6.
    let counting = |tokens: &[u32]| {
        let last = *tokens.last().unwrap_or(&0) as usize;
        Ok(Array1::from_shape_fn(6, |token| {
            if token == last + 1 {
                2.0
            } else {
                -(token as f64)
            }
        }))
    };
    for (begin, end, longest, book) in [
        (1, 5, 10, vec![2, 3, 4]),
        (1, 5, 2, vec![2, 3]),
        (1, 5, 3, vec![2, 3, 4]),
        (4, 5, 10, vec![]),
        (1, 5, 0, vec![]),
    ] {
        let example = Example::of("model", "counts one further each time")
            .and("begin", begin)
            .and("end", end)
            .and("longest", longest);
        let yours = example.answer(greedy(counting, begin, end, longest))?;
        example.holds(
            format!("{yours:?}"),
            yours == book,
            "is not what it would write",
        )?;
    }
    let mut seen = vec![];
    let watched = |tokens: &[u32]| {
        seen.push(tokens.to_vec());
        counting(tokens)
    };
    let example = Example::of("model", "counts one further each time")
        .and("begin", 1)
        .and("end", 4);
    example.answer(greedy(watched, 1, 4, 9))?;
    example.holds(
        format!("asks about {seen:?}"),
        seen == [vec![1], vec![1, 2], vec![1, 2, 3]],
        "and should ask about all tokens so far, each time",
    )?;
    let tied = |_: &[u32]| Ok(arr1(&[0.0, 7.0, 7.0]));
    let example = Example::of("scores", "0, 7, 7")
        .and("begin", 0)
        .and("end", 1);
    let yours = example.answer(greedy(tied, 0, 1, 3))?;
    example.holds(
        format!("{yours:?}"),
        yours.is_empty(),
        "does not take the first of equals",
    )?;
    Example::of("model", "one that fails").refused(greedy(
        |_| Err::<Array1<f64>, _>(anyhow!("no scores")),
        0,
        1,
        3,
    ))
}

fn check_gradient_by_hand() -> Check {
    let example = Example::of("weights", "½ and ½").and("loss", "the first weight");
    let yours = arr1(&gradient_by_hand());
    let step = 1e-6;
    let first = |e: f64, f: f64| e.exp() / (e.exp() + f.exp());
    let slopes = arr1(&[
        (first(step, 0.0) - first(-step, 0.0)) / (2.0 * step),
        (first(0.0, step) - first(0.0, -step)) / (2.0 * step),
    ]);
    example.within(&yours, &slopes, "the measured slopes", 1e-6)
}

fn check_rate_of_the_paper() -> Check {
    let rate = |step| rate_of_the_paper(step, 512, 4000);
    let example = |step: u64| {
        Example::of("step", step)
            .and("width", 512)
            .and("warm-up", 4000)
    };
    let ratio = rate(2000) / rate(1);
    example(2000).holds(
        rate(2000),
        (ratio - 2000.0).abs() < 1e-6,
        format!("is {ratio:.4} times that of step 1; it should rise in a line"),
    )?;
    let ratio = rate(16_000) / rate(4000);
    example(16_000).holds(
        rate(16_000),
        (ratio - 0.5).abs() < 1e-9,
        format!(
            "is {ratio:.4} times that of step 4000; it should fall with the root"
        ),
    )?;
    let size = rate(4000) * (512.0 * 4000.0_f64).sqrt();
    example(4000).holds(
        rate(4000),
        (size - 1.0).abs() < 1e-9,
        "is not d^(−1/2) · w^(−1/2), where both branches meet",
    )?;
    let narrow = rate_of_the_paper(7, 128, 4000) / rate(7);
    Example::of("step", 7)
        .and("width", "128 in place of 512")
        .holds(
            narrow,
            (narrow - 2.0).abs() < 1e-9,
            "times as high, and a quarter of the width should double it",
        )
}

fn check_fault() -> Check {
    for (gradients, beta) in [
        (vec![3.0], 0.9),
        (vec![1.0; 10], 0.9),
        (vec![2.0; 4], 0.5),
        (vec![1.0, 0.0, -1.0], 0.9),
    ] {
        let yours = find_the_fault_09(&gradients, beta);
        // The mean with weights βᵗ, the last gradient having the largest.
        let weights: Array1<f64> = (0..gradients.len())
            .rev()
            .map(|age| beta.powi(age as i32))
            .collect();
        let book = weights.dot(&arr1(&gradients)) / weights.sum();
        let example =
            Example::of("gradients", format!("{gradients:?}")).and("β", beta);
        example.holds(
            yours,
            (yours - book).abs() < 1e-9,
            "is not their mean, weighted by age",
        )?;
    }
    Ok(())
}
