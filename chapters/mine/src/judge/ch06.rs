use super::Stage;
use super::example::{Check, Example, wavy};
use super::peers::peers;
use crate::ch06::*;
use anyhow::{Result, anyhow};
use ch06_self_attention::sinusoidal_positions;
use ndarray::{Array2, ArrayRef2, Axis, Ix3, array};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch06",
        name: "self_attention",
        hints: &[
            "One call of your `multi_head`. Who asks, who is asked, and who answers?",
        ],
        check: check_self_attention,
    },
    Stage {
        chapter: "ch06",
        name: "positions",
        hints: &[
            "`Array2::from_shape_fn((length, width), |(position, column)| …)` asks you for every entry. Columns 2i and 2i + 1 have the same i: which expression gives it from the column?",
            "The exponent is −2i / width, in floats: `10_000_f64.powf(-2.0 * i as f64 / width as f64)`. Even columns are sines, odd ones cosines, and `cast` makes an `F` of an `f64`.",
        ],
        check: check_positions,
    },
    Stage {
        chapter: "ch06",
        name: "rotate",
        hints: &[
            "A point (a, b) of the plane, turned by an angle, is (a cos − b sin, a sin + b cos).",
            "The first of a pair is an even column, the second an odd one. Column c belongs to the pair c / 2, whose two entries are at 2 (c / 2) and one further.",
        ],
        check: check_rotate,
    },
    Stage {
        chapter: "ch06",
        name: "break_even_by_hand",
        hints: &[
            "Set the two entries of the table of costs equal, 2n²d and 3nd², and solve for n.",
        ],
        check: check_break_even_by_hand,
    },
    Stage {
        chapter: "ch06",
        name: "ignores_order",
        hints: &[
            "Ask once with the rows as they are, then once for each pair of neighbours with that pair exchanged. `x.select(Axis(0), &order)` takes rows in any order.",
            "Compare with the first answer, its rows exchanged in the same way. And ask yourself what a comparison with a NaN says.",
        ],
        check: check_ignores_order,
    },
    Stage {
        chapter: "ch06",
        name: "find_the_fault_06",
        hints: &[
            "Columns 0 and 1 belong together and must have the same frequency. Do they?",
        ],
        check: check_fault,
    },
];

fn check_self_attention() -> Check {
    for case in peers!("multi-head") {
        if case.has("key")
            || case.axes("query") != 3
            || !case.only_forbids("attn_mask")
        {
            continue;
        }
        let numbers = case.attention("");
        let (x, expected) =
            (case.input::<Ix3>("query"), case.expected::<Ix3>("output"));
        for (b, x) in x.outer_iter().enumerate() {
            let mask =
                case.mask(b, numbers.heads(), "key_padding_mask", "attn_mask");
            let example = case.example().array("x", &x).and("mask", &mask);
            let yours = example.answer(self_attention(&numbers, &x, &mask))?;
            case.compare(example, &yours, &expected.index_axis(Axis(0), b))?;
        }
    }
    Ok(())
}

fn check_positions() -> Check {
    for (length, width) in [(3, 4), (5, 6), (4, 3), (1, 1), (0, 4)] {
        let example = Example::of("length", length).and("width", width);
        let yours = positions::<f64>(length, width);
        example.same(&yours, &sinusoidal_positions(length, width))?;
    }
    Ok(())
}

fn check_rotate() -> Check {
    for (x, places) in [
        (array![[1.0, 0.0], [0.0, 1.0]], vec![0, 1]),
        (wavy((3, 4), 0.7), vec![0, 5, 2]),
        (wavy((2, 6), 0.9), vec![7, 7]),
    ] {
        let example = Example::new()
            .array("x", &x)
            .and("positions", format!("{places:?}"));
        let yours = example.answer(rotate(&x, &places))?;
        example.shape(&yours, x.shape())?;
        let d = x.ncols();
        let book = Array2::from_shape_fn(x.dim(), |(j, c)| {
            // A complex number, times one of length 1.
            let angle =
                places[j] as f64 / 1e4_f64.powf((c - c % 2) as f64 / d as f64);
            let (a, b) = (x[[j, c - c % 2]], x[[j, c - c % 2 + 1]]);
            let (length, start) = (a.hypot(b), b.atan2(a));
            if c % 2 == 0 {
                length * (start + angle).cos()
            } else {
                length * (start + angle).sin()
            }
        });
        example.same(&yours, &book)?;
    }
    let odd = wavy((2, 3), 0.7);
    Example::new()
        .array("x", &odd)
        .refused(rotate(&odd, &[0, 1]))?;
    let x = wavy((2, 4), 0.7);
    Example::of("vectors", 2)
        .and("positions", 3)
        .refused(rotate(&x, &[0, 1, 2]))
}

fn check_break_even_by_hand() -> Check {
    let n = u64::from(break_even_by_hand());
    let (attention, convolution) = (2 * n * n * 512, 3 * n * 512 * 512);
    let complaint = format!(
        "gives {attention} multiplications to self-attention and {convolution} to the convolution"
    );
    Example::of("width", 512).holds(n, n > 0 && attention == convolution, complaint)
}

fn check_ignores_order() -> Check {
    let x: Array2<f64> = wavy((4, 3), 0.7);
    type Layer = fn(&ArrayRef2<f64>) -> Result<Array2<f64>>;
    let to_all: Layer = |x| Ok(x + x.sum_axis(Axis(0)));
    let with_positions: Layer =
        |x| Ok(x + sinusoidal_positions::<f64>(x.nrows(), x.ncols()));
    let to_the_last: Layer = |x| {
        let mut y = x.to_owned();
        let last = x.nrows() - 1;
        y.row_mut(last).mapv_inplace(|x| x + 1e-6);
        Ok(y)
    };
    let nothing: Layer = |x| Ok(x.mapv(|_| f64::NAN));
    for (name, layer, book) in [
        ("adds the sum of all rows to each", to_all, true),
        ("adds sinusoidal positions", with_positions, false),
        ("adds a millionth to the last row", to_the_last, false),
        ("answers with NaN", nothing, false),
    ] {
        let example = Example::of("layer", name);
        let yours = example.answer(ignores_order(layer, &x))?;
        example.holds(yours, yours == book, "is wrong")?;
    }
    Example::of("layer", "one that fails")
        .refused(ignores_order(|_| Err(anyhow!("no answer")), &x))
}

fn check_fault() -> Check {
    for (position, column, width) in [(0, 1, 4), (1, 0, 4), (3, 1, 4), (2, 3, 6)] {
        let yours = find_the_fault_06(position, column, width);
        let book: Array2<f64> = sinusoidal_positions(position + 1, width);
        let example = Example::of("position", position)
            .and("column", column)
            .and("width", width);
        example.holds(
            yours,
            (yours - book[[position, column]]).abs() < 1e-9,
            "is not the sine or cosine that belongs there",
        )?;
    }
    Ok(())
}
