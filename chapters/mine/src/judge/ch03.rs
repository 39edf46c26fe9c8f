use super::Stage;
use super::example::{Check, Example, show, wavy};
use super::peers::peers;
use crate::ch03::*;
use ndarray::{Array1, Array2, arr1};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch03",
        name: "scaled_scores",
        hints: &[
            "Your `scores` of chapter 1, divided by one number. Which shape holds d_k?",
            "d_k is the width of the queries, `queries.ncols()`. `F::from(d_k)` makes a float of it, an `Option` because not every number fits every type; `.sqrt()` is its root.",
        ],
        check: check_scaled_scores,
    },
    Stage {
        chapter: "ch03",
        name: "attention",
        hints: &[
            "Three of your functions, one after the other: scaled scores, weights, weighted sum. You need no formula any more.",
        ],
        check: check_attention,
    },
    Stage {
        chapter: "ch03",
        name: "weights_by_hand",
        hints: &["√16 is 4. What remains of 4 log 3, and what is exp of that?"],
        check: check_weights_by_hand,
    },
    Stage {
        chapter: "ch03",
        name: "scale_for",
        hints: &[
            "What is the variance of one term q_c · k_c, if both are independent and have mean 0? And of a sum of d_k such terms?",
            "Multiplying by s multiplies a variance by s².",
        ],
        check: check_scale_for,
    },
    Stage {
        chapter: "ch03",
        name: "gradient_through_softmax",
        hints: &[
            "Put ∂a_i/∂e_j = a_i (δ_ij − a_j) into Σ_i g_i ∂a_i/∂e_j. One of the two sums that come out has a single term.",
            "The other sum is the same for all j: one dot product. `a * (b - 1.0)` multiplies entry by entry.",
        ],
        check: check_gradient,
    },
    Stage {
        chapter: "ch03",
        name: "find_the_fault_03",
        hints: &[
            "With four keys of width 4 it is right. What changes if there are nine keys of width 4?",
        ],
        check: check_fault,
    },
];

fn check_scaled_scores() -> Check {
    for (m, n, d_k) in [(1, 2, 4), (2, 3, 9), (3, 4, 2)] {
        let (queries, keys) = (wavy((m, d_k), 0.7), wavy((n, d_k), 1.3));
        let example = Example::new()
            .array("queries", &queries)
            .array("keys", &keys);
        let yours = example.answer(scaled_scores(&queries, &keys))?;
        example.same(&yours, &(queries.dot(&keys.t()) / (d_k as f64).sqrt()))?;
    }
    let none = Array2::<f64>::zeros((2, 0));
    Example::of("queries and keys", "0 wide").refused(scaled_scores(&none, &none))
}

fn check_attention() -> Check {
    for case in peers!("sdpa-plain") {
        case.each_head(|_, _| None, |q, k, v, _| attention(q, k, v))?;
    }
    let (queries, keys, values) =
        (wavy((2, 3), 0.7), wavy((4, 2), 1.3), wavy((4, 3), 0.5));
    let example = Example::new()
        .array("queries", &queries)
        .array("keys", &keys);
    example.refused(attention(&queries, &keys, &values))?;
    let keys = wavy((5, 3), 1.3);
    let example = Example::new().array("keys", &keys).array("values", &values);
    example.refused(attention(&queries, &keys, &values))?;
    let single = Array2::<f32>::ones((2, 2));
    Example::of("everything", "ones in f32")
        .answer(attention(&single, &single, &single))
        .map(|_| ())
}

fn check_weights_by_hand() -> Check {
    let [first, second] = weights_by_hand();
    let example = Example::of("scores at width 16", "4 log 3 and 0");
    let answer = format!("{first}, {second}");
    example.clone().holds(
        &answer,
        (first + second - 1.0).abs() < 1e-9,
        format!("sums to {}, not 1", first + second),
    )?;
    example.holds(
        &answer,
        ((first / second).ln() - 3f64.ln()).abs() < 1e-9,
        "is not right",
    )
}

fn check_scale_for() -> Check {
    for (d_k, query, key) in [
        (64, 1.0, 1.0),
        (16, 4.0, 1.0),
        (16, 1.0, 4.0),
        (3, 0.5, 2.5),
    ] {
        let yours = scale_for(d_k, query, key);
        let example =
            Example::of("d_k", d_k).and("variances", format!("{query} and {key}"));
        example.clone().holds(
            yours,
            yours > 0.0,
            "would turn the best key into the worst: a scale is above 0",
        )?;
        let variance = yours * yours * d_k as f64 * query * key;
        example.holds(
            yours,
            (variance - 1.0).abs() < 1e-9,
            format!("leaves the score a variance of {variance:.4}, not 1"),
        )?;
    }
    Ok(())
}

fn check_gradient() -> Check {
    for (e, g) in [
        ([0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
        ([0.36, 2.4, -0.36, 0.36], [1.0, -0.5, 2.0, 0.25]),
    ] {
        let exponentials = arr1(&e).mapv(f64::exp);
        let (weights, g) = (&exponentials / exponentials.sum(), arr1(&g));
        let example = Example::new().array("weights", &weights).array("g", &g);
        let yours = gradient_through_softmax(&weights, &g);
        example.shape(&yours, &[4])?;
        let complaint = format!(
            "sums to {:.4}; a number added to all scores changes no weight, so it must be 0",
            yours.sum()
        );
        example
            .clone()
            .holds(show(&yours), yours.sum().abs() < 1e-9, complaint)?;
        let book: Array1<f64> = (0..4)
            .map(|j| {
                (0..4)
                    .map(|i| {
                        g[i] * weights[i]
                            * (f64::from(u8::from(i == j)) - weights[j])
                    })
                    .sum()
            })
            .collect();
        example.same(&yours, &book)?;
    }
    Ok(())
}

fn check_fault() -> Check {
    for (n, d_k) in [(9, 4), (4, 9), (4, 4)] {
        let example = Example::of("keys", format!("{n}, each {d_k} wide"));
        let yours = find_the_fault_03(&wavy((n, d_k), 0.7));
        example.holds(
            yours,
            (yours * yours * d_k as f64 - 1.0).abs() < 1e-9,
            "is not the scale",
        )?;
    }
    Ok(())
}
