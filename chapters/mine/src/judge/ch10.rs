use super::Stage;
use super::example::{Check, Example, wavy};
use crate::ch10::*;
use ch02_softmax::log_sum_exp;
use ch04_masks::{Mask, masked_attention};
use ch05_multihead::{MultiHeadAttention, Projection};
use ch10_efficient::Model;
use ndarray::{Array1, Array2, Axis, arr1, s};

pub(super) const STAGES: &[Stage] = &[
    Stage {
        chapter: "ch10",
        name: "online_attention",
        hints: &[
            "Carry three things from block to block: the largest score so far, the sum of exp(score − largest), and the sum of the values with the same factors. Divide at the end.",
            "When the largest score rises from old to new, all that was summed is too large by exp(new − old). Multiply it by exp(old − new), which is at most 1.",
            "The last block may be shorter: `(first + block).min(n)`. Before the first block the largest is −∞, and exp(−∞ − anything) is 0, so nothing special is needed.",
        ],
        check: check_online_attention,
    },
    Stage {
        chapter: "ch10",
        name: "cached_attention",
        hints: &[
            "Project x three times. The new keys and values go behind the old ones; then it is `side_by_side` and the output projection, as in `multi_head`.",
            "`cache.keys.append(Axis(0), new.view())?` puts rows behind. The mask is your `causal` for m new queries and as many keys as the cache then has: the last query sees them all.",
        ],
        check: check_cached_attention,
    },
    Stage {
        chapter: "ch10",
        name: "cache_by_hand",
        hints: &[
            "Multiply: layers, heads, tokens, width, bytes of a number. And what besides keys is kept?",
        ],
        check: check_cache_by_hand,
    },
    Stage {
        chapter: "ch10",
        name: "longest",
        hints: &[
            "`model.cache_bytes(1)` is what one token of one text costs.",
            "A model without layers keeps nothing: `checked_div` minds the 0, and `saturating_mul` a product that is too large.",
        ],
        check: check_longest,
    },
    Stage {
        chapter: "ch10",
        name: "find_the_fault_10",
        hints: &[
            "With falling scores it is right. When does the factor on the sum matter, and must it make the sum larger or smaller?",
        ],
        check: check_fault,
    },
];

fn check_online_attention() -> Check {
    for (n, block) in [(4, 4), (4, 1), (5, 2), (6, 3), (3, 99), (0, 2)] {
        // Scores rise from block to block, so that the largest changes.
        let keys = Array2::from_shape_fn((n, 2), |(j, c)| {
            (j as f64 - 1.0) * 1.5 + c as f64 * 0.25
        });
        let (query, values): (Array1<f64>, Array2<f64>) =
            (arr1(&[1.0, 0.5]), wavy((n, 3), 0.7));
        let example = Example::of("block", block)
            .array("query", &query)
            .array("keys", &keys)
            .array("values", &values);
        let yours =
            example.answer(online_attention(&query, &keys, &values, block))?;
        let q = query.view().insert_axis(Axis(0));
        let book = masked_attention(&q, &keys, &values, &Mask::everything())
            .expect("the shapes fit");
        example.same(&yours, &book.output.row(0))?;
    }
    let (query, keys) = (
        arr1(&[40.0, 0.0]),
        Array2::from_shape_fn((4, 2), |(j, _)| 40.0 * j as f64),
    );
    let values = wavy((4, 2), 0.9);
    let example = Example::of("block", 1)
        .array("query", &query)
        .array("keys", &keys)
        .array("values", &values);
    let yours = example.answer(online_attention(&query, &keys, &values, 1))?;
    example.same(&yours, &values.row(3))?;
    Example::of("block", 0).refused(online_attention(&query, &keys, &values, 0))?;
    let values = wavy((3, 2), 0.9);
    Example::of("keys", 4)
        .and("values", 3)
        .refused(online_attention(&query, &keys, &values, 2))
}

/// Two heads, whose keys and values differ in width.
fn numbers() -> MultiHeadAttention<f64> {
    let projection = |shape: (usize, usize), step| {
        Projection::new(wavy(shape, step), Some(wavy(shape.1, step)))
            .expect("the bias fits")
    };
    MultiHeadAttention::new(
        2,
        projection((3, 4), 0.7),
        projection((3, 4), 0.9),
        projection((3, 2), 1.3),
        projection((2, 3), 0.4),
    )
    .expect("the shapes fit")
}

fn check_cached_attention() -> Check {
    let (numbers, x) = (numbers(), wavy((5, 3), 0.7));
    let all = x.view().insert_axis(Axis(0));
    let book = numbers
        .attend(&all, &all, &all, &Mask::causal(5, 5))
        .expect("the shapes fit");
    for parts in [vec![5], vec![1, 1, 1, 1, 1], vec![2, 1, 2]] {
        let mut cache = Cache::new(&numbers);
        let mut first = 0;
        for count in parts {
            let last = first + count;
            let new = x.slice(s![first..last, ..]);
            let example = Example::of("in the cache", first).array("new", &new);
            let yours =
                example.answer(cached_attention(&mut cache, &numbers, &new))?;
            example.clone().holds(cache.keys.nrows(), cache.keys.nrows() == last && cache.values.nrows() == last, "keys or values are in the cache afterwards, not as many as were read")?;
            example.same(&yours, &book.output.slice(s![0, first..last, ..]))?;
            first = last;
        }
    }
    let narrow = wavy((1, 2), 0.7);
    Example::of("x", "2 wide")
        .and("projections", "take 3")
        .refused(cached_attention(
            &mut Cache::new(&numbers),
            &numbers,
            &narrow,
        ))
}

fn check_cache_by_hand() -> Check {
    let model = Model {
        layers: 24,
        heads: 16,
        kv_heads: 16,
        d_k: 64,
        bytes: 2,
    };
    let yours = cache_by_hand();
    let half = 2 * yours == model.cache_bytes(1000);
    let complaint = if half {
        "is half of it"
    } else {
        "is not right"
    };
    Example::of("layers", 24)
        .and("heads", 16)
        .and("width", 64)
        .and("tokens", 1000)
        .and("bytes", 2)
        .holds(yours, yours == model.cache_bytes(1000), complaint)
}

fn check_longest() -> Check {
    let model = Model {
        layers: 32,
        heads: 32,
        kv_heads: 8,
        d_k: 128,
        bytes: 2,
    };
    let nothing = Model { layers: 0, ..model };
    for (model, requests, bytes) in [
        (model, 1, 16_u128 << 30),
        (model, 10, 16 << 30),
        (model.with_kv_heads(32), 1, 16 << 30),
        (model, 1, 0),
        (nothing, 1, 1),
    ] {
        let yours = longest(&model, requests, bytes);
        let needed = |tokens: u128| {
            model
                .cache_bytes(1)
                .saturating_mul(tokens)
                .saturating_mul(requests as u128)
        };
        let example = Example::of("model", format!("{model:?}"))
            .and("texts", requests)
            .and("bytes", bytes);
        example
            .clone()
            .holds(yours, needed(yours) <= bytes, "does not fit")?;
        let more = yours.checked_add(1).is_none_or(|more| needed(more) > bytes);
        example.holds(yours, more, "is not all that fits")?;
    }
    Ok(())
}

fn check_fault() -> Check {
    for scores in [
        vec![3.0, 2.0, 1.0],
        vec![1.0, 2.0, 3.0],
        vec![-700.0, 0.0, 700.0],
    ] {
        let yours = find_the_fault_10(&scores);
        let book = log_sum_exp(&arr1(&scores));
        Example::of("scores", format!("{scores:?}")).holds(
            yours,
            (yours - book).abs() < 1e-9,
            "is not their log-sum-exp",
        )?;
    }
    Ok(())
}
