use super::Stage;
use super::example::{Check, Example, wavy};
use crate::ch01::*;
use ndarray::{Array2, arr1, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch01",
        name: "scores",
        hints: &[
            "Entry [i, j] is the dot product of row i of the queries and row j of the keys. A product of matrices takes rows of the left and columns of the right, so one of the two has to be turned.",
            "`keys.t()` is the transpose, and `a.dot(&b)` the product. Check the widths first, with `anyhow::ensure!`, because the product would panic.",
        ],
        check: check_scores,
    },
    Stage {
        chapter: "ch01",
        name: "best_key",
        hints: &[
            "`scores.rows()` goes through the queries. In a row, carry along the number of the best key so far.",
            "Start with key 0, not with a score of 0: scores may all be negative. Only a larger score may take the place, so that the first of equals stays.",
        ],
        check: check_best_key,
    },
    Stage {
        chapter: "ch01",
        name: "score_by_hand",
        hints: &[
            "Multiply entry by entry, then add the four products. Mind the signs: two of them are below 0.",
        ],
        check: check_score_by_hand,
    },
    Stage {
        chapter: "ch01",
        name: "key_at_a_right_angle",
        hints: &[
            "Two entries of the key are enough; the others may be 0.",
            "In the plane, the vector (a, b) is turned by a right angle if its two entries are exchanged and one changes its sign.",
        ],
        check: check_key_at_a_right_angle,
    },
    Stage {
        chapter: "ch01",
        name: "distance_scores",
        hints: &[
            "Multiply ‖q − k‖² out. Three terms remain, and one of them is a score.",
            "The other two are one number for each query and one for each key. `insert_axis(Axis(1))` makes a column of a vector, and ndarray stretches a column and a row over a table.",
        ],
        check: check_distance_scores,
    },
    Stage {
        chapter: "ch01",
        name: "find_the_fault_01",
        hints: &[
            "What should the cosine of a vector with itself be? What is it here?",
            "‖q‖ is a root.",
        ],
        check: check_fault,
    },
];

fn check_scores() -> Check {
    let tables: [(Array2<f64>, Array2<f64>); 4] = [
        (array![[1.0, 2.0]], array![[3.0, 4.0], [0.0, -1.0]]),
        (wavy((2, 3), 0.7), wavy((4, 3), 1.3)),
        (wavy((3, 3), 0.9), wavy((3, 3), 2.3)),
        (wavy((1, 5), 0.7), wavy((0, 5), 1.3)),
    ];
    for (queries, keys) in tables {
        let example = Example::new()
            .array("queries", &queries)
            .array("keys", &keys);
        let yours = example.answer(scores(&queries, &keys))?;
        let dot = |i: usize, j: usize| {
            (0..queries.ncols())
                .map(|c| queries[[i, c]] * keys[[j, c]])
                .sum()
        };
        let book =
            Array2::from_shape_fn((queries.nrows(), keys.nrows()), |(i, j)| {
                dot(i, j)
            });
        example.same(&yours, &book)?;
    }
    let (queries, keys) = (wavy((2, 3), 0.7), wavy((4, 2), 1.3));
    let example = Example::new()
        .array("queries", &queries)
        .array("keys", &keys);
    example.refused(scores(&queries, &keys))
}

fn check_best_key() -> Check {
    let tables: [(Array2<f64>, &[usize]); 4] = [
        (array![[0.1, 0.3, 0.2]], &[1]),
        (array![[2.0, -1.0], [-3.0, -2.0]], &[0, 1]),
        (array![[5.0, 7.0, 7.0], [0.0, 0.0, 0.0]], &[1, 0]),
        (Array2::zeros((0, 3)), &[]),
    ];
    for (scores, book) in tables {
        let example = Example::new().array("scores", &scores);
        let yours = example.answer(best_key(&scores))?;
        let complaint = match yours
            .iter()
            .zip(book)
            .position(|(yours, book)| yours != book)
        {
            _ if yours.len() != book.len() => {
                "there must be one number for each query".to_owned()
            }
            row => {
                format!("is wrong for query {}, counted from 0", row.unwrap_or(0))
            }
        };
        example.holds(format!("{yours:?}"), yours == book, complaint)?;
    }
    let none = Array2::<f64>::zeros((2, 0));
    Example::of("scores", "two queries and no keys").refused(best_key(&none))
}

fn check_score_by_hand() -> Check {
    let (q1, k5) = (arr1(&[0.6, 1.2, -1.2, 1.8]), arr1(&[0.5, -1.0, 2.0, 1.0]));
    let example = Example::new().array("q1", &q1).array("k5", &k5);
    let yours = score_by_hand();
    example.holds(
        yours,
        (yours - q1.dot(&k5)).abs() < 1e-9,
        "is not their score",
    )
}

fn check_key_at_a_right_angle() -> Check {
    let (q1, key) = (arr1(&[0.6, 1.2, -1.2, 1.8]), arr1(&key_at_a_right_angle()));
    let example = Example::new().array("q1", &q1);
    let not_zero = key.iter().any(|&x| x != 0.0);
    example.clone().holds(&key, not_zero, "is all zeros")?;
    let cosine = q1.dot(&key) / (q1.dot(&q1) * key.dot(&key)).sqrt();
    let complaint =
        format!("has a cosine of {cosine:.4} with q1; at a right angle it is 0");
    example.holds(&key, cosine.abs() < 1e-9, complaint)
}

fn check_distance_scores() -> Check {
    let same = wavy((3, 2), 0.4);
    let pairs = [
        (array![[1.0, 2.0]], array![[1.0, 0.0], [4.0, 6.0]]),
        (same.clone(), same),
        (wavy((2, 4), 0.7), wavy((5, 4), 1.3)),
    ];
    for (queries, keys) in pairs {
        let example = Example::new()
            .array("queries", &queries)
            .array("keys", &keys);
        let yours = example.answer(distance_scores(&queries, &keys))?;
        let book =
            Array2::from_shape_fn((queries.nrows(), keys.nrows()), |(i, j)| {
                let apart = &queries.row(i) - &keys.row(j);
                -apart.dot(&apart)
            });
        example.same(&yours, &book)?;
    }
    let (queries, keys) = (wavy((1, 3), 0.7), wavy((1, 1), 1.3));
    let example = Example::new()
        .array("queries", &queries)
        .array("keys", &keys);
    example.refused(distance_scores(&queries, &keys))
}

fn check_fault() -> Check {
    for (q, k) in [
        ([3.0, 4.0], [3.0, 4.0]),
        ([3.0, 4.0], [-6.0, -8.0]),
        ([1.0, 0.0], [2.0, 2.0]),
    ] {
        let (q, k) = (arr1(&q), arr1(&k));
        let yours = find_the_fault_01(&q, &k);
        let book = q.dot(&k) / (q.dot(&q).sqrt() * k.dot(&k).sqrt());
        let example = Example::new().array("q", &q).array("k", &k);
        example.holds(yours, (yours - book).abs() < 1e-9, "is not their cosine")?;
    }
    Ok(())
}
