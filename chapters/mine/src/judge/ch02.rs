use super::Stage;
use super::example::{Check, Example, OF_PEERS, show, wavy};
use super::peers::peers;
use crate::ch02::*;
use ndarray::{Array1, Array2, Ix1, Ix2, arr1, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch02",
        name: "softmax",
        hints: &[
            "Three steps: the largest score; exp of each score minus the largest; each of these by their sum.",
            "`scores.fold(F::neg_infinity(), |largest, &e| …)` finds the largest, `mapv` applies a function to every entry, and `.sum()` adds them up.",
            "−∞ − (−∞) is NaN: if the largest is −∞, answer with zeros before you subtract. And `max` forgets a NaN: let your fold keep it.",
        ],
        check: check_softmax,
    },
    Stage {
        chapter: "ch02",
        name: "attention_weights",
        hints: &[
            "Copy the table with `to_owned`, then replace every row by its softmax.",
            "`for mut row in weights.rows_mut()` gives you the rows, `row.assign(&new)` overwrites one. `&row` may be handed to your `softmax` as it is.",
        ],
        check: check_attention_weights,
    },
    Stage {
        chapter: "ch02",
        name: "weighted_sum",
        hints: &["It is the product A V. What is there to check before?"],
        check: check_weighted_sum,
    },
    Stage {
        chapter: "ch02",
        name: "weights_by_hand",
        hints: &[
            "exp(log 3) is 3. Take exp of each score, then divide by their sum, and leave the fractions as they are: `1.0 / 7.0`, not 0.14.",
        ],
        check: check_weights_by_hand,
    },
    Stage {
        chapter: "ch02",
        name: "log_softmax",
        hints: &[
            "Do not take the logarithm of a weight: a weight may be rounded to 0. Take it on paper first: what is log(exp(e_j) / Σ exp(e_l))?",
            "It is e_j minus the log-sum-exp of all scores, and that is the largest score plus log Σ exp(e_l − largest).",
        ],
        check: check_log_softmax,
    },
    Stage {
        chapter: "ch02",
        name: "softmax_or_nothing",
        hints: &[
            "The 1 in the denominator is an exponential, too. Of which score?",
            "Append that score, take your `softmax`, and drop the last weight. `concatenate![Axis(0), scores.view(), array![…]]` appends, `s![..n]` cuts.",
        ],
        check: check_softmax_or_nothing,
    },
    Stage {
        chapter: "ch02",
        name: "find_the_fault_02",
        hints: &[
            "Add up the rows of what comes out, then its columns. Which of them sum to 1?",
            "`sum_axis(Axis(0))` makes axis 0 vanish and leaves a number for each column. The sums of rows must also stand as a column: `insert_axis(Axis(1))`.",
        ],
        check: check_fault,
    },
];

fn check_softmax() -> Check {
    for scores in [arr1(&[0.0, 0.0]), arr1(&[0.36, 2.4, -0.36, 0.36])] {
        let example = Example::new().array("scores", &scores);
        let yours = softmax(&scores);
        example.shape(&yours, &[scores.len()])?;
        let complaint = format!("sums to {:.4}, not 1", yours.sum());
        example.clone().holds(
            show(&yours),
            (yours.sum() - 1.0).abs() < 1e-9,
            complaint,
        )?;
        let book = scores.mapv(f64::exp);
        example.same(&yours, &(&book / book.sum()))?;
    }
    let large = arr1(&[1000.0, 1000.0]);
    Example::new()
        .array("scores", &large)
        .same(&softmax(&large), &arr1(&[0.5, 0.5]))?;
    let far_below = arr1(&[-1000.0, -1001.0]);
    let book = arr1(&[1.0, (-1f64).exp()]) / (1.0 + (-1f64).exp());
    Example::new()
        .array("scores", &far_below)
        .same(&softmax(&far_below), &book)?;
    let lost = arr1(&[f64::NAN, f64::NEG_INFINITY]);
    Example::new()
        .array("scores", &lost)
        .same(&softmax(&lost), &arr1(&[f64::NAN, f64::NAN]))?;
    let none = Array1::<f64>::zeros(0);
    Example::of("scores", "none").shape(&softmax(&none), &[0])?;
    let hidden = Array1::from_elem(3, f64::NEG_INFINITY);
    Example::new()
        .array("scores", &hidden)
        .same(&softmax(&hidden), &Array1::zeros(3))?;
    for case in peers!("softmax")
        .iter()
        .filter(|case| case.axes("scores") == 1)
    {
        let scores = case.input::<Ix1>("scores");
        let example = case.example().array("scores", &scores);
        example.within(
            &softmax(&scores),
            &case.expected("weights"),
            "PyTorch's",
            OF_PEERS,
        )?;
    }
    let single = arr1(&[0.5_f32, 1.5]);
    let sum = softmax(&single).sum();
    Example::of("scores in f32", &single).holds(
        sum,
        (sum - 1.0).abs() < 1e-6,
        "is what your weights sum to",
    )
}

fn check_attention_weights() -> Check {
    for scores in [
        array![[0.0, 1.0], [5.0, 5.0], [-2.0, 3.0]],
        wavy((3, 3), 0.7),
    ] {
        let example = Example::new().array("scores", &scores);
        let yours = attention_weights(&scores);
        example.shape(&yours, &[3, scores.ncols()])?;
        example.sums(&yours, 1.0)?;
    }
    for case in peers!("softmax").iter().filter(|case| {
        case.axes("scores") == 2 && case.setting("temperature").is_null()
    }) {
        let scores = case.input::<Ix2>("scores");
        let example = case.example().array("scores", &scores);
        example.within(
            &attention_weights(&scores),
            &case.expected("weights"),
            "PyTorch's",
            OF_PEERS,
        )?;
    }
    let empty = Array2::<f64>::zeros((0, 2));
    Example::of("scores", "no queries, two keys")
        .shape(&attention_weights(&empty), &[0, 2])
}

fn check_weighted_sum() -> Check {
    for (weights, values) in [
        (
            array![[0.25, 0.75]],
            array![[4.0, 8.0, 0.0], [0.0, 4.0, 1.0]],
        ),
        (wavy((2, 3), 0.5), wavy((3, 4), 0.9)),
    ] {
        let example = Example::new()
            .array("weights", &weights)
            .array("values", &values);
        let yours = example.answer(weighted_sum(&weights, &values))?;
        let book =
            Array2::from_shape_fn((weights.nrows(), values.ncols()), |(i, c)| {
                (0..values.nrows())
                    .map(|j| weights[[i, j]] * values[[j, c]])
                    .sum()
            });
        example.same(&yours, &book)?;
    }
    let (weights, values) = (wavy((2, 3), 0.5), wavy((2, 3), 0.9));
    let example = Example::new()
        .array("weights", &weights)
        .array("values", &values);
    example.refused(weighted_sum(&weights, &values))
}

fn check_weights_by_hand() -> Check {
    let exponentials: [f64; 3] = [1.0, 2.0, 3.0];
    let sum: f64 = exponentials.iter().sum();
    for (j, (yours, exponential)) in
        weights_by_hand().iter().zip(exponentials).enumerate()
    {
        let right = (yours - exponential / sum).abs() < 1e-9;
        Example::of("scores", "0, log 2, log 3").holds(
            yours,
            right,
            format!("is not weight {j}, counted from 0, or not exactly"),
        )?;
    }
    Ok(())
}

fn check_log_softmax() -> Check {
    let of = |scores: Array1<f64>, book: Array1<f64>| {
        Example::new()
            .array("scores", &scores)
            .same(&log_softmax(&scores), &book)
    };
    let scores = arr1(&[0.36, 2.4, -0.36, 0.36]);
    let exponentials = scores.mapv(f64::exp);
    of(scores, (&exponentials / exponentials.sum()).ln())?;
    of(arr1(&[0.0, -2000.0]), arr1(&[0.0, -2000.0]))?;
    of(arr1(&[1000.0, 1000.0]), arr1(&[-2f64.ln(), -2f64.ln()]))?;
    of(arr1(&[-3000.0]), arr1(&[0.0]))
}

fn check_softmax_or_nothing() -> Check {
    let of = |scores: Array1<f64>, book: Array1<f64>| {
        Example::new()
            .array("scores", &scores)
            .same(&softmax_or_nothing(&scores), &book)
    };
    let scores = arr1(&[1.0, -0.5, 0.25]);
    let exponentials = scores.mapv(f64::exp);
    of(scores, &exponentials / (1.0 + exponentials.sum()))?;
    of(arr1(&[1000.0, 1000.0]), arr1(&[0.5, 0.5]))?;
    of(arr1(&[-800.0, 800.0]), arr1(&[0.0, 1.0]))?;
    of(arr1(&[-900.0, -800.0]), arr1(&[0.0, 0.0]))
}

fn check_fault() -> Check {
    for scores in [
        array![[0.0, 1.0], [2.0, 2.0], [-1.0, 0.5]],
        wavy((3, 3), 0.7),
    ] {
        let example = Example::new().array("scores", &scores);
        let yours = find_the_fault_02(&scores);
        example.shape(&yours, scores.shape())?;
        example.clone().sums(&yours, 1.0)?;
        let mut book = scores.mapv(f64::exp);
        for mut row in book.rows_mut() {
            row /= row.sum();
        }
        example.same(&yours, &book)?;
    }
    Ok(())
}
