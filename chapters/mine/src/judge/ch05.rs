use super::Stage;
use super::example::{Check, Example, wavy};
use super::peers::peers;
use crate::ch05::*;
use ch04_masks::{Mask, batched_attention};
use ch05_multihead::{MultiHeadAttention, Projection, merge_heads, split_heads};
use ndarray::{Array1, Array2, Array3, ArrayD, Axis, IxDyn, array, s};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch05",
        name: "columns_of_head",
        hints: &[
            "Every head is width / heads wide. Where does head 2 begin, if head 0 begins at column 0?",
        ],
        check: check_columns_of_head,
    },
    Stage {
        chapter: "ch05",
        name: "project",
        hints: &[
            "y = x W + b. `projection.weight()` is W, `projection.bias()` is an `Option` of b.",
            "ndarray adds a row to every row of a table: `y + bias`. Check the widths before the product, or it panics.",
        ],
        check: check_project,
    },
    Stage {
        chapter: "ch05",
        name: "side_by_side",
        hints: &[
            "A loop over heads, each with its own columns of q, k and v, and your `masked_attention` in the middle.",
            "`q.slice(s![.., columns])` cuts columns out, and `&` of that may be handed on. `joined.slice_mut(s![.., columns]).assign(&answer)` puts an answer in its place.",
            "Keys and values may be of different widths, so ask for their columns separately. A head's own mask is `Mask::from_fn((1, 1, m, n), |_, _, i, j| mask.allows(0, head, i, j))`.",
        ],
        check: check_side_by_side,
    },
    Stage {
        chapter: "ch05",
        name: "multi_head",
        hints: &[
            "Project queries, keys and values, all heads at once; let the heads answer side by side; project that.",
            "`let [w_query, w_key, w_value, w_output] = numbers.projections();` takes them apart.",
        ],
        check: check_multi_head,
    },
    Stage {
        chapter: "ch05",
        name: "parameters_by_hand",
        hints: &[
            "How many projections are there, what is the size of each, and does the number of heads matter?",
        ],
        check: check_parameters_by_hand,
    },
    Stage {
        chapter: "ch05",
        name: "find_the_fault_05",
        hints: &[
            "The shape that comes out is right. Follow one number: where does [1, 0, 0] of the stack, the first entry of head 1, end up?",
            "A new shape does not move any number. The axes must stand as m × heads × d_v before two of them can become one.",
        ],
        check: check_fault,
    },
];

fn check_columns_of_head() -> Check {
    for (width, heads, head, book) in [
        (12, 3, 0, 0..4),
        (12, 3, 2, 8..12),
        (5, 1, 0, 0..5),
        (6, 6, 4, 4..5),
    ] {
        let example = Example::of("width", width)
            .and("heads", heads)
            .and("head", head);
        let yours = example.answer(columns_of_head(width, heads, head))?;
        example.holds(
            format!("{yours:?}"),
            yours == book,
            "are not its columns",
        )?;
    }
    for (width, heads, head) in [(12, 5, 0), (12, 3, 3), (12, 0, 0)] {
        let example = Example::of("width", width)
            .and("heads", heads)
            .and("head", head);
        example.refused(columns_of_head(width, heads, head))?;
    }
    Ok(())
}

fn check_project() -> Check {
    let weight: Array2<f64> = wavy((3, 2), 0.9);
    for bias in [None, Some(Array1::from(vec![10.0, -10.0]))] {
        let x = wavy((4, 3), 0.7);
        let mut example = Example::new().array("x", &x).array("weight", &weight);
        let mut book = x.dot(&weight);
        if let Some(bias) = &bias {
            example = example.array("bias", bias);
            book += bias;
        }
        let projection =
            Projection::new(weight.clone(), bias).expect("the bias fits");
        let yours = example.answer(project(&x, &projection))?;
        example.same(&yours, &book)?;
    }
    let x = wavy((2, 2), 0.7);
    let example = Example::new().array("x", &x).array("weight", &weight);
    example.refused(project(&x, &weight.into()))
}

fn check_side_by_side() -> Check {
    for (heads, widths) in [(1, (3, 2)), (2, (4, 6)), (3, (3, 3))] {
        let (q, k, v) = (
            wavy((3, widths.0), 0.7),
            wavy((4, widths.0), 1.3),
            wavy((4, widths.1), 0.5),
        );
        for mask in [
            Mask::everything(),
            Mask::from_fn((1, heads, 3, 4), |_, h, i, j| j <= i + h),
        ] {
            let example = Example::of("heads", heads)
                .array("q", &q)
                .array("k", &k)
                .array("v", &v)
                .and("mask", &mask);
            let yours = example.answer(side_by_side(heads, &q, &k, &v, &mask))?;
            let split = |x: &Array2<f64>| {
                split_heads(&x.view().insert_axis(Axis(0)), heads)
            };
            let [q, k, v] =
                [&q, &k, &v].map(|x| split(x).expect("the heads divide the width"));
            let book =
                batched_attention(&q, &k, &v, &mask).expect("the shapes fit");
            let book = merge_heads(&book.output);
            example.same(&yours, &book.index_axis(Axis(0), 0))?;
        }
    }
    let x = wavy((2, 4), 0.7);
    let example = Example::of("heads", 3).array("q, k and v", &x);
    example.refused(side_by_side(3, &x, &x, &x, &Mask::everything()))
}

fn check_multi_head() -> Check {
    for case in peers!("multi-head")
        .iter()
        .filter(|case| case.only_forbids("attn_mask"))
    {
        let numbers = case.attention("");
        let sequences = |name: &str| case.find::<IxDyn>(name).map(three_axes);
        let queries = sequences("query").expect("there are queries");
        let keys = sequences("key").unwrap_or_else(|| queries.clone());
        let values = sequences("value").unwrap_or_else(|| keys.clone());
        let expected = three_axes(case.expected::<IxDyn>("output"));
        for b in 0..queries.dim().0 {
            let mask =
                case.mask(b, numbers.heads(), "key_padding_mask", "attn_mask");
            let (q, k, v) = (
                queries.index_axis(Axis(0), b),
                keys.index_axis(Axis(0), b),
                values.index_axis(Axis(0), b),
            );
            let example = case
                .example()
                .and("heads", numbers.heads())
                .array("queries", &q)
                .array("keys", &k)
                .and("mask", &mask);
            let yours = example.answer(multi_head(&numbers, &q, &k, &v, &mask))?;
            case.compare(example, &yours, &expected.index_axis(Axis(0), b))?;
        }
    }
    let same = || Projection::from(Array2::<f64>::eye(4));
    let numbers = MultiHeadAttention::new(2, same(), same(), same(), same())
        .expect("the shapes fit");
    let x = wavy((3, 4), 0.7);
    let wrong = Mask::causal(2, 3);
    let example = Example::of("queries", "3 × 4")
        .and("keys", "3 × 4")
        .and("mask", format!("{wrong:?}"));
    example.refused(multi_head(&numbers, &x, &x, &x, &wrong))?;
    let narrow = wavy((3, 3), 0.7);
    let example = Example::of("queries", "3 × 3").and("weights", "4 × 4");
    example.refused(multi_head(&numbers, &narrow, &x, &x, &Mask::everything()))
}

/// One sequence is a batch of one.
fn three_axes(x: ArrayD<f64>) -> Array3<f64> {
    let x = if x.ndim() == 2 {
        x.insert_axis(Axis(0))
    } else {
        x
    };
    x.into_dimensionality().expect("there are three axes")
}

fn check_parameters_by_hand() -> Check {
    let projection = || {
        Projection::new(Array2::<f64>::zeros((12, 12)), Some(Array1::zeros(12)))
            .expect("the bias fits")
    };
    let attention = MultiHeadAttention::new(
        3,
        projection(),
        projection(),
        projection(),
        projection(),
    )
    .expect("the shapes fit");
    let yours = parameters_by_hand();
    Example::of("width", 12).and("heads", 3).holds(
        yours,
        yours == attention.parameters(),
        "is not the number of parameters",
    )
}

fn check_fault() -> Check {
    let tables = [
        vec![
            array![[1.0, 2.0], [3.0, 4.0]],
            array![[5.0, 6.0], [7.0, 8.0]],
        ],
        vec![wavy((2, 3), 0.7), wavy((2, 3), 0.9), wavy((2, 3), 1.1)],
    ];
    for answers in tables {
        let mut example = Example::new();
        let (m, d_v) = answers[0].dim();
        let mut book = Array2::zeros((m, answers.len() * d_v));
        for (head, answer) in answers.iter().enumerate() {
            example = example.array(&format!("head {head}"), answer);
            book.slice_mut(s![.., head * d_v..(head + 1) * d_v])
                .assign(answer);
        }
        let yours = example.answer(find_the_fault_05(&answers))?;
        example.same(&yours, &book)?;
    }
    Example::of("heads", "none").refused(find_the_fault_05(&[]))
}
