use super::Stage;
use super::example::{Check, Example, show, wavy};
use super::peers::peers;
use crate::ch02::{attention_weights, weighted_sum};
use crate::ch03::scaled_scores;
use crate::ch04::*;
use anyhow::{Result, anyhow};
use ch04_masks::Mask;
use ndarray::{Array2, ArrayRef2, Axis, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch04",
        name: "causal",
        hints: &[
            "`Mask::from_fn((1, 1, m, n), |_, _, i, j| …)` asks your rule about every query i and key j. The last query, i = m − 1, must see every key.",
            "So query i stands at position i + n − m, and sees every j up to there. These are unsigned numbers: bring the m to the other side.",
        ],
        check: check_causal,
    },
    Stage {
        chapter: "ch04",
        name: "masked_weights",
        hints: &[
            "Where the mask forbids, put −∞ in place of the score, and then do what you did without a mask.",
            "`F::neg_infinity()` is −∞, and your `attention_weights` makes a weight of exactly 0 of it. Ask `mask.fit((1, 1, m, n))?` first, then `mask.allows(0, 0, i, j)`.",
        ],
        check: check_masked_weights,
    },
    Stage {
        chapter: "ch04",
        name: "masked_attention",
        hints: &[
            "Your `attention` of chapter 3, with the masked weights in the middle.",
        ],
        check: check_masked_attention,
    },
    Stage {
        chapter: "ch04",
        name: "allowed_by_hand",
        hints: &[
            "The three queries stand at positions 4, 5 and 6, counted from 0. Count the keys up to each.",
        ],
        check: check_allowed_by_hand,
    },
    Stage {
        chapter: "ch04",
        name: "prefix_mask",
        hints: &["j ≤ i is allowed as before. What else, and for whom?"],
        check: check_prefix_mask,
    },
    Stage {
        chapter: "ch04",
        name: "packed_mask",
        hints: &[
            "Two conditions at once: the key is not later, and both are of the same sentence. The numbers are only names.",
        ],
        check: check_packed_mask,
    },
    Stage {
        chapter: "ch04",
        name: "looks_ahead",
        hints: &[
            "Ask once. Change a later row of the input, ask again, and compare the rows before it.",
            "Change every row in its turn, from the last to the second: a leak may go from one position to a single other one. And change it so that no function could miss it; adding the same number to a whole row is not enough.",
        ],
        check: check_looks_ahead,
    },
    Stage {
        chapter: "ch04",
        name: "find_the_fault_04",
        hints: &[
            "Try a query that may see nothing. What are its weights?",
            "exp(−10⁹ − (−10⁹)) is 1.",
        ],
        check: check_fault,
    },
];

/// The mask must be the book's.
fn same(example: Example, yours: &Mask, book: &Mask) -> Check {
    let complaint = format!("is a mask of {yours:?} and should be {book:?}");
    let (fit, shape) = (format!("{yours:?}"), format!("{book:?}"));
    example.clone().holds(
        format!("\n{yours}").trim_start_matches('\n'),
        fit == shape,
        complaint,
    )?;
    example.holds(
        yours,
        yours == book,
        "allows too much or too little (a row for each query, 1 is allowed)",
    )
}

fn check_causal() -> Check {
    for (m, n) in [(4, 4), (1, 5), (2, 5), (3, 2), (0, 3)] {
        let example = Example::of("queries", m).and("keys", n);
        same(example, &causal(m, n), &Mask::causal(m, n))?;
    }
    Ok(())
}

/// What each of two functions does that should do the same: behind masks, and for nobody.
fn behind_masks(
    weights: impl Fn(&ArrayRef2<f64>, &Mask) -> Result<Array2<f64>>,
) -> Check {
    let masks = [
        Mask::everything(),
        Mask::causal(3, 4),
        Mask::from_fn((1, 1, 1, 4), |_, _, _, j| j < 3),
        Mask::from_fn((1, 1, 3, 4), |_, _, i, j| i != 1 && (i + j) % 2 == 0),
    ];
    let scores = wavy((3, 4), 0.7);
    for mask in masks {
        let example = Example::new().array("scores", &scores).and("mask", &mask);
        let yours = example.answer(weights(&scores, &mask))?;
        example.shape(&yours, &[3, 4])?;
        let mut book = scores.mapv(f64::exp);
        for ((i, j), x) in book.indexed_iter_mut() {
            if !mask.allows(0, 0, i, j) {
                *x = 0.0;
                let complaint = format!(
                    "has a weight of {:.4} at [{i}, {j}], which is forbidden",
                    yours[[i, j]]
                );
                example.clone().holds(
                    show(&yours),
                    yours[[i, j]] == 0.0,
                    complaint,
                )?;
            }
        }
        for mut row in book.rows_mut() {
            let sum = row.sum();
            if sum > 0.0 {
                row /= sum;
            }
        }
        for (i, (row, book)) in
            yours.rows().into_iter().zip(book.rows()).enumerate()
        {
            let (sum, right) = (row.sum(), book.sum());
            let complaint = format!(
                "row {i}, counted from 0, sums to {sum:.4}, not {right:.0}"
            );
            example.clone().holds(
                show(&yours),
                (sum - right).abs() < 1e-9,
                complaint,
            )?;
        }
        example.same(&yours, &book)?;
    }
    let wrong = Mask::causal(2, 4);
    let example = Example::of("scores", "3 × 4").and("mask", format!("{wrong:?}"));
    example.refused(weights(&scores, &wrong))
}

fn check_masked_weights() -> Check {
    behind_masks(masked_weights)
}

fn check_masked_attention() -> Check {
    for case in peers!("sdpa-boolean") {
        case.each_head(|_, _| None, masked_attention)?;
    }
    for case in peers!("sdpa-causal") {
        case.each_head(|m, n| Some(Mask::causal(m, n)), masked_attention)?;
    }
    let x = wavy((2, 3), 0.7);
    let wrong = Mask::causal(3, 3);
    let example = Example::of("queries", "2 × 3")
        .and("keys", "2 × 3")
        .and("mask", format!("{wrong:?}"));
    example.refused(masked_attention(&x, &x, &x, &wrong))
}

fn check_allowed_by_hand() -> Check {
    let mask = Mask::causal(3, 7);
    let places = (0..3).flat_map(|i| (0..7).map(move |j| (i, j)));
    let allowed = places.filter(|&(i, j)| mask.allows(0, 0, i, j)).count();
    let yours = allowed_by_hand();
    Example::of("queries", 3).and("keys", 7).holds(
        yours,
        yours == allowed,
        "is not how many are allowed",
    )
}

fn check_prefix_mask() -> Check {
    for (prefix, n) in [(3, 5), (0, 4), (4, 4), (1, 3)] {
        let example = Example::of("prefix", prefix).and("positions", n);
        let yours = example.answer(prefix_mask(prefix, n))?;
        let book = Mask::from_fn((1, 1, n, n), |_, _, i, j| {
            if i < prefix { j < prefix } else { j <= i }
        });
        same(example, &yours, &book)?;
    }
    Example::of("prefix", 5)
        .and("positions", 4)
        .refused(prefix_mask(5, 4))
}

fn check_packed_mask() -> Check {
    for sentence in [
        vec![0, 0, 1, 1, 1],
        vec![5, 5, 2, 9, 9],
        vec![7, 7, 7],
        vec![],
    ] {
        let n = sentence.len();
        let book = Mask::from_fn((1, 1, n, n), |_, _, i, j| {
            j <= i && sentence[j..=i].iter().all(|&name| name == sentence[i])
        });
        same(
            Example::of("sentence", format!("{sentence:?}")),
            &packed_mask(&sentence),
            &book,
        )?;
    }
    Ok(())
}

/// Attention of a sequence to itself, out of what the reader has written before.
fn behind(x: &ArrayRef2<f64>, mask: &Mask) -> Result<Array2<f64>> {
    let mut scores = scaled_scores(x, x)?;
    for ((i, j), score) in scores.indexed_iter_mut() {
        if !mask.allows(0, 0, i, j) {
            *score = f64::NEG_INFINITY;
        }
    }
    weighted_sum(&attention_weights(&scores), x)
}

fn check_looks_ahead() -> Check {
    let x: Array2<f64> = wavy((5, 3), 0.7);
    type Rule = fn(usize, usize) -> bool;
    let rules: [(&str, bool, Rule); 6] = [
        ("attention behind a causal mask", false, |i, j| j <= i),
        ("attention without a mask", true, |_, _| true),
        ("attention that sees one step ahead", true, |i, j| {
            j <= i + 1
        }),
        ("causal attention with a leak from 1 to 0", true, |i, j| {
            j <= i || (i, j) == (0, 1)
        }),
        ("causal attention with a leak from 4 to 0", true, |i, j| {
            j <= i || (i, j) == (0, 4)
        }),
        ("attention that sees only the future", true, |i, j| j > i),
    ];
    for (name, ahead, rule) in rules {
        let mask = Mask::from_fn((1, 1, 5, 5), |_, _, i, j| rule(i, j));
        let example = Example::of("function", name);
        let yours = example.answer(looks_ahead(|x| behind(x, &mask), &x))?;
        example.holds(yours, yours == ahead, "is wrong")?;
    }
    let one_number = |x: &ArrayRef2<f64>| {
        let mut y = x.to_owned();
        y[[1, 0]] += x[[3, 2]];
        Ok(y)
    };
    let example =
        Example::of("function", "adds one number of row 3 to one of row 1");
    let yours = example.answer(looks_ahead(one_number, &x))?;
    example.holds(yours, yours, "is wrong")?;
    // Small whole numbers in four columns, so that nothing is rounded here.
    let whole = Array2::from_shape_fn((3, 4), |(i, j)| ((i * 4 + j) % 5) as f64);
    let centred = |x: &ArrayRef2<f64>| {
        let means = x.sum_axis(Axis(1)) / x.ncols() as f64;
        behind(&(x - means.insert_axis(Axis(1))), &Mask::everything())
    };
    let example = Example::of(
        "function",
        "attention without a mask, after the mean of each row was taken away",
    )
    .array("x", &whole);
    let yours = example.answer(looks_ahead(centred, &whole))?;
    example.holds(yours, yours, "is wrong")?;
    Example::of("function", "one that fails").refused(looks_ahead(
        |_| Err(anyhow!("no answer")),
        &array![[1.0], [2.0]],
    ))
}

fn check_fault() -> Check {
    behind_masks(find_the_fault_04)
}
