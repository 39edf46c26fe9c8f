use super::Stage;
use super::example::{Check, Example};
use super::peers::peers;
use crate::ch07::*;
use ch04_masks::Mask;
use ndarray::{Array1, Array2, Axis, Ix3, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch07",
        name: "cross_attention",
        hints: &[
            "One call of your `multi_head`. The one that writes asks; the one that was read answers, with keys and with values.",
        ],
        check: check_cross_attention,
    },
    Stage {
        chapter: "ch07",
        name: "decoder_masks",
        hints: &[
            "A decoder must not see its own future, and never any padding. In the source nothing lies in the future.",
            "The first mask is your `causal` and the padding of the target at once; ask `allows` of the one and compare the token of key j. The second knows the source only, so one row is enough: `(1, 1, 1, n)`.",
        ],
        check: check_decoder_masks,
    },
    Stage {
        chapter: "ch07",
        name: "shape_by_hand",
        hints: &[
            "The order is (batch, heads, m, n). m counts those who ask, n those who answer. Who asks, letters or slices of sound?",
        ],
        check: check_shape_by_hand,
    },
    Stage {
        chapter: "ch07",
        name: "coverage",
        hints: &[
            "A source word is a column. `sum_axis` makes one axis vanish: which?",
        ],
        check: check_coverage,
    },
    Stage {
        chapter: "ch07",
        name: "find_the_fault_07",
        hints: &[
            "If source and target are equally long, nothing fails. Whose padding is hidden?",
        ],
        check: check_fault,
    },
];

fn check_cross_attention() -> Check {
    for case in peers!("multi-head") {
        // Keys and values are the same memory here.
        if !case.has("key") || case.has("value") || !case.only_forbids("attn_mask")
        {
            continue;
        }
        let numbers = case.attention("");
        let [decoder, memory] =
            ["query", "key"].map(|name| case.input::<Ix3>(name));
        let expected = case.expected::<Ix3>("output");
        for (b, x) in decoder.outer_iter().enumerate() {
            let (memory, mask) = (
                memory.index_axis(Axis(0), b),
                case.mask(b, numbers.heads(), "key_padding_mask", "attn_mask"),
            );
            let example = case
                .example()
                .array("decoder", &x)
                .array("memory", &memory)
                .and("mask", &mask);
            let yours =
                example.answer(cross_attention(&numbers, &x, &memory, &mask))?;
            case.compare(example, &yours, &expected.index_axis(Axis(0), b))?;
        }
    }
    Ok(())
}

/// What a mask must allow, at every place.
fn allows(
    example: &Example,
    mask: &Mask,
    (m, n): (usize, usize),
    rule: impl Fn(usize, usize) -> bool,
) -> Check {
    let fits = mask.fit((1, 1, m, n)).is_ok();
    example.clone().holds(
        format!("a mask of {mask:?}"),
        fits,
        format!("does not stretch to 1 × 1 × {m} × {n}"),
    )?;
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let right = mask.allows(0, 0, i, j) == rule(i, j);
        example.clone().holds(
            mask,
            right,
            format!("is wrong about query {i} and key {j}, counted from 0"),
        )?;
    }
    Ok(())
}

fn check_decoder_masks() -> Check {
    for (source, target) in [
        (vec![1, 2, 3, 0], vec![1, 2, 0]),
        (vec![4, 5], vec![3, 4, 5]),
        (vec![0, 7], vec![0, 8]),
    ] {
        let example = Example::of("source", format!("{source:?}"))
            .and("target", format!("{target:?}"))
            .and("padding", 0);
        let (own, cross) = decoder_masks(&source, &target, 0);
        let (m, n) = (target.len(), source.len());
        allows(
            &example.clone().and("mask of", "self-attention"),
            &own,
            (m, m),
            |i, j| j <= i && target[j] != 0,
        )?;
        allows(
            &example.and("mask of", "cross-attention"),
            &cross,
            (m, n),
            |_, j| source[j] != 0,
        )?;
    }
    Ok(())
}

fn check_shape_by_hand() -> Check {
    let example = Example::of("letters written", 7)
        .and("slices of sound", 200)
        .and("batch", 4)
        .and("heads", 8);
    let yours = shape_by_hand();
    let (batch, heads, m, n) = yours;
    example.clone().holds(
        format!("{yours:?}"),
        batch * heads == 4 * 8 && batch < heads,
        "does not begin with batch and heads, in this order",
    )?;
    example.holds(
        format!("{yours:?}"),
        m < n && m * n == 7 * 200,
        "has not one row for each who asks and one column for each who answers",
    )
}

fn check_coverage() -> Check {
    for weights in [
        array![[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]],
        Array2::zeros((0, 3)),
        array![[1.0, 0.0]],
    ] {
        let book: Array1<f64> = weights
            .columns()
            .into_iter()
            .map(|column| column.sum())
            .collect();
        Example::new()
            .array("weights", &weights)
            .same(&coverage(&weights), &book)?;
    }
    Ok(())
}

fn check_fault() -> Check {
    for (source, target) in [
        (vec![1, 2, 0], vec![4, 5, 6]),
        (vec![1, 2, 3, 0], vec![4, 5]),
        (vec![1, 2], vec![4, 0, 0]),
    ] {
        let example = Example::of("source", format!("{source:?}"))
            .and("target", format!("{target:?}"))
            .and("padding", 0);
        let (m, n) = (target.len(), source.len());
        allows(
            &example,
            &find_the_fault_07(&source, &target, 0),
            (m, n),
            |_, j| source[j] != 0,
        )?;
    }
    Ok(())
}
