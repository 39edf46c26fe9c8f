//! Faults that were reported elsewhere, as small numbers with the right answer: none of them is here.

use ch01_alignment::{additive_scores, batched_scores};
use ch02_softmax::{attend, attention_weights, softmax};
use ch03_scaled::{scaled_dot_product_attention, scaled_scores};
use ch04_masks::{Mask, Shape, batched_attention, masked_attention, masked_softmax};
use ch05_multihead::{MultiHeadAttention, Projection, merge_heads, split_heads};
use ch06_self_attention::{rotate, sinusoidal_positions, token_positions};
use ch07_cross_attention::cross_attention;
use ch08_transformer::LayerNorm;
use ch09_training::backward;
use ch10_efficient::{
    KeyValueCache, Online, OnnxAttention, OnnxInputs, OnnxMask, Partial, Visible, fast_attention,
    grouped_attention, merge, tiled_attention,
};
use ndarray::{
    Array, Array1, Array2, Array3, Array4, ArrayD, Axis, Dimension, Ix1, Ix2, Ix3, Ix4, s,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde_json::Value;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cases");

/// A case, by the number its file begins with.
struct Case(Value);

impl Case {
    fn load(number: u32) -> Self {
        let prefix = format!("{number:02}-");
        let file = std::fs::read_dir(FOLDER)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with(&prefix)
            })
            .unwrap_or_else(|| panic!("no case {number}"));
        Self(serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
    }

    fn array<D: Dimension>(value: &Value) -> Array<f64, D> {
        let sizes: Vec<usize> = serde_json::from_value(value["shape"].clone()).unwrap();
        let numbers = value["data"].as_array().unwrap().iter().map(|x| match x {
            Value::String(text) => text.parse().unwrap(),
            number => number.as_f64().unwrap(),
        });
        ArrayD::from_shape_vec(sizes, numbers.collect())
            .unwrap()
            .into_dimensionality()
            .unwrap()
    }

    fn input<D: Dimension>(&self, name: &str) -> Array<f64, D> {
        Self::array(&self.0["inputs"][name])
    }

    /// Compares with what is expected, and with what the fault would give if that has this name.
    #[track_caller]
    fn assert<D: Dimension>(&self, name: &str, found: &Array<f64, D>) {
        let expected: Array<f64, D> = Self::array(&self.0["expected"][name]);
        assert!(near(found, &expected), "{name}: {found} is not {expected}");
        if self.0["bug_gives"][name].is_object() {
            let faulty: ArrayD<f64> = Self::array(&self.0["bug_gives"][name]);
            if faulty.shape() == found.shape() {
                let faulty = faulty.into_dimensionality().unwrap();
                assert!(
                    !near(found, &faulty),
                    "{name} is what the fault gives: {found}"
                );
            }
        }
    }
}

fn near<D: Dimension>(left: &Array<f64, D>, right: &Array<f64, D>) -> bool {
    left.raw_dim() == right.raw_dim()
        && left.iter().zip(right).all(|(a, b)| {
            (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-12 * b.abs().max(1.0)
        })
}

/// One head of one sequence.
fn alone(x: &Array2<f64>) -> Array4<f64> {
    x.clone().insert_axis(Axis(0)).insert_axis(Axis(0))
}

fn only(x: Array4<f64>) -> Array2<f64> {
    x.index_axis_move(Axis(0), 0).index_axis_move(Axis(0), 0)
}

fn mask(keep: &Array2<f64>) -> Mask {
    Mask::from_fn((1, 1, keep.nrows(), keep.ncols()), |_, _, i, j| {
        keep[[i, j]] == 1.0
    })
}

fn key_mask(keep: &Array1<f64>) -> Mask {
    Mask::from_fn((1, 1, 1, keep.len()), |_, _, _, j| keep[j] == 1.0)
}

fn allowed(mask: &Mask, shape: Shape) -> Array2<f64> {
    only(
        mask.fit(shape)
            .unwrap()
            .mapv(|allowed| f64::from(u8::from(allowed))),
    )
}

/// Queries, keys and values with two axes, behind a mask.
fn masked(case: &Case, mask: &Mask) -> ch02_softmax::Attention<f64> {
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix2>(name));
    masked_attention(&q, &k, &v, mask).unwrap()
}

#[test]
fn case_01_large_logits() {
    let case = Case::load(1);
    case.assert("y", &attention_weights(&case.input::<Ix2>("x")));
}

#[test]
fn case_03_plus_infinity() {
    let case = Case::load(3);
    case.assert("y", &attention_weights(&case.input::<Ix2>("x")));
}

#[test]
fn case_06_softmax_over_rows() {
    let case = Case::load(6);
    let (q, k) = (case.input::<Ix3>("q"), case.input::<Ix3>("k"));
    let scores = batched_scores(&q, &k).unwrap();
    let weights = attention_weights(&scores.index_axis(Axis(0), 0));
    case.assert("weights", &weights.insert_axis(Axis(0)));
}

#[test]
fn case_08_all_minus_infinity() {
    let case = Case::load(8);
    case.assert("y", &attention_weights(&case.input::<Ix2>("x")));
}

#[test]
fn case_09_fully_masked_row() {
    let case = Case::load(9);
    let attention = masked(&case, &mask(&case.input("keep")));
    case.assert("y", &attention.output);
    case.assert("weights", &attention.weights);
}

#[test]
fn case_11_gradient_of_a_masked_row() {
    let case = Case::load(11);
    let [q, k, v, dy] = ["q", "k", "v", "dy"].map(|name| alone(&case.input(name)));
    let mask = mask(&case.input("keep"));
    let attention = batched_attention(&q, &k, &v, &mask).unwrap();
    let weights = attention.weights.view();
    let (d_weights, d_v) = backward::weighted_sum(&weights, &v, &mask, &dy).unwrap();
    let d_scores = backward::masked_softmax(&weights, &weights, &d_weights, &mask).unwrap();
    let (d_q, d_k) = backward::scaled_scores(&q, &k, &mask, &d_scores).unwrap();
    for (name, gradient) in [("dq", d_q), ("dk", d_k), ("dv", d_v)] {
        case.assert(name, &only(gradient));
    }
}

#[test]
fn cases_15_and_16_finite_fills() {
    for number in [15, 16] {
        let case = Case::load(number);
        let scores = alone(&case.input("x"));
        let weights = masked_softmax(&scores, &mask(&case.input("keep"))).unwrap();
        let expected: Array2<f64> = Case::array(&case.0["expected"]["weights"]);
        // Case 16 is given to the precision of half floats.
        let tolerance = if number == 16 { 1e-3 } else { 1e-12 };
        for (a, b) in only(weights).iter().zip(&expected) {
            assert!((a - b).abs() <= tolerance, "case {number}: {a} is not {b}");
        }
    }
}

#[test]
fn case_17_two_masks_added() {
    let case = Case::load(17);
    let causal = mask(&case.input("causal_keep"));
    let both = (&causal & &key_mask(&case.input("key_keep"))).unwrap();
    assert_eq!(causal, Mask::causal(3, 3));
    case.assert("keep", &allowed(&both, (1, 1, 3, 3)));
    let scores = alone(&case.input("scores"));
    case.assert("weights", &only(masked_softmax(&scores, &both).unwrap()));
    let single = scores.mapv(|x| x as f32);
    let weights = masked_softmax(&single, &both).unwrap().mapv(f64::from);
    case.assert("weights", &only(weights));
}

#[test]
fn case_18_polarity() {
    let case = Case::load(18);
    let given: Array2<f64> = case.input("mask");
    case.assert("y_true_means_keep", &masked(&case, &mask(&given)).output);
    let flipped = given.mapv(|x| 1.0 - x);
    case.assert("y_true_means_drop", &masked(&case, &mask(&flipped)).output);
    assert_eq!(mask(&flipped), Mask::causal(3, 3));
}

#[test]
fn case_21_padding_of_a_batch() {
    let case = Case::load(21);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix4>(name));
    let keep: Array2<f64> = case.input("key_keep");
    let padding = Mask::from_fn((2, 1, 1, 2), |b, _, _, j| keep[[b, j]] == 1.0);
    let attention = batched_attention(&q, &k, &v, &padding).unwrap();
    case.assert("y", &attention.output);
}

#[test]
fn case_24_causal_and_padding() {
    let case = Case::load(24);
    let both = &Mask::causal(3, 3) & &key_mask(&case.input("key_keep"));
    case.assert("y", &masked(&case, &both.unwrap()).output);
}

#[test]
fn cases_26_and_28_causal_alignment() {
    for (number, m, n) in [(26, 1, 4), (28, 4, 2)] {
        let case = Case::load(number);
        let bottom_right = Mask::causal(m, n);
        case.assert("keep_bottom_right", &allowed(&bottom_right, (1, 1, m, n)));
        case.assert("y_bottom_right", &masked(&case, &bottom_right).output);
        case.assert(
            "y_top_left",
            &masked(&case, &Mask::causal_from(0, m, n)).output,
        );
    }
}

#[test]
fn case_30_lengths() {
    let case = Case::load(30);
    let lengths: Vec<usize> = case
        .input::<Ix1>("lengths")
        .iter()
        .map(|&x| x as usize)
        .collect();
    let padding = Mask::padding(&lengths, 4).unwrap();
    let keep = padding.fit((3, 1, 1, 4)).unwrap().to_owned();
    let keep = keep.into_shape_with_order((3, 4)).unwrap();
    case.assert("keep", &keep.mapv(|allowed| f64::from(u8::from(allowed))));
}

#[test]
fn case_31_source_mask() {
    let case = Case::load(31);
    let attention = masked(&case, &key_mask(&case.input("source_keep")));
    case.assert("y", &attention.output);
    // And through a head that changes nothing.
    let same = || Array2::eye(2).into();
    let head = MultiHeadAttention::new(1, same(), same(), same(), Array2::eye(2).into()).unwrap();
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix2>(name).insert_axis(Axis(0)));
    let source = key_mask(&case.input("source_keep"));
    let answer = head.attend(&q, &k, &v, &source).unwrap();
    case.assert("y", &answer.output.index_axis_move(Axis(0), 0));
    let crossed = cross_attention(&head, &q, &k, &source).unwrap();
    assert_eq!(crossed.weights, answer.weights);
}

#[test]
fn case_32_scale_by_the_head() {
    let case = Case::load(32);
    let split = |name| {
        let x: Array3<f64> = case.input::<Ix2>(name).insert_axis(Axis(0));
        split_heads(&x, 2).unwrap()
    };
    let (q, k, v) = (split("q"), split("k"), split("v"));
    let attention = batched_attention(&q, &k, &v, &Mask::everything()).unwrap();
    let merged = merge_heads(&attention.output);
    case.assert("y", &merged.index_axis_move(Axis(0), 0));
}

#[test]
fn case_34_scale_once() {
    let case = Case::load(34);
    let (q, k) = (case.input::<Ix2>("q"), case.input::<Ix2>("k"));
    let scores = scaled_scores(&q, &k).unwrap();
    case.assert("weights", &attention_weights(&scores));
}

#[test]
fn case_36_additive_attention() {
    let case = Case::load(36);
    let states: Array2<f64> = case.input("states");
    let scores = additive_scores(
        &case.input::<Ix1>("query").insert_axis(Axis(0)),
        &states,
        &case.input::<Ix2>("w_q"),
        &case.input::<Ix2>("w_k"),
        &case.input::<Ix1>("v_a"),
    )
    .unwrap();
    let attention = attend(&scores, &states).unwrap();
    case.assert("scores", &scores.row(0).to_owned());
    case.assert("weights", &softmax(&scores.row(0)));
    case.assert("context", &attention.output.row(0).to_owned());
}

#[test]
fn case_37_split_heads() {
    let case = Case::load(37);
    let x: Array3<f64> = case.input("x");
    let heads = split_heads(&x, 2).unwrap();
    case.assert("heads", &heads);
    assert_eq!(merge_heads(&heads), x);
}

#[test]
fn case_40_indivisible_heads() {
    let x = Case::load(40).input::<Ix2>("x").insert_axis(Axis(0));
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    for message in [
        split_heads(&x, 3).unwrap_err().to_string(),
        MultiHeadAttention::<f64>::random(4, 3, rng)
            .unwrap_err()
            .to_string(),
    ] {
        assert!(message.contains('4') && message.contains('3'), "{message}");
    }
}

#[test]
fn case_41_values_of_another_width() {
    let case = Case::load(41);
    // The case's projections are y = x Wᵀ.
    let turned = |name| Projection::from(case.input::<Ix2>(name).reversed_axes());
    let same = || Projection::from(Array2::eye(2));
    let attention =
        MultiHeadAttention::new(1, same(), same(), turned("w_v"), turned("w_o")).unwrap();
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix2>(name).insert_axis(Axis(0)));
    let answer = attention.attend(&q, &k, &v, &Mask::everything()).unwrap();
    case.assert("y", &answer.output.index_axis_move(Axis(0), 0));
}

#[test]
fn case_43_weights_of_each_head() {
    let case = Case::load(43);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix3>(name).insert_axis(Axis(0)));
    let attention = batched_attention(&q, &k, &v, &Mask::everything()).unwrap();
    let answer = ch05_multihead::MultiHeadAnswer {
        output: merge_heads(&attention.output),
        weights: attention.weights,
    };
    let mean = answer.average_weights().index_axis_move(Axis(0), 0);
    case.assert("weights_mean", &mean);
    case.assert(
        "weights_per_head",
        &answer.weights.index_axis_move(Axis(0), 0),
    );
}

#[test]
fn case_45_a_batch_of_one() {
    let case = Case::load(45);
    let scores = case.input::<Ix3>("scores").index_axis_move(Axis(2), 0);
    let values = case.input::<Ix3>("v").index_axis_move(Axis(0), 0);
    let attention = attend(&scores, &values).unwrap();
    case.assert("weights", &attention.weights);
    case.assert("y", &attention.output);
}

#[test]
fn case_47_grouped_heads() {
    let case = Case::load(47);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix3>(name).insert_axis(Axis(0)));
    let everything = Mask::everything();
    let answer = grouped_attention(&q, &k, &v, &everything).unwrap();
    case.assert("y", &answer.output.index_axis_move(Axis(0), 0));
    let tiled = tiled_attention(&q, &k, &v, &Visible::everything(), 1).unwrap();
    case.assert("y", &tiled.index_axis_move(Axis(0), 0));
    let mut cache = KeyValueCache::new(1, 2, 2, (2, 2));
    cache.extend(&k, &v).unwrap();
    let answer = cache.ask(&q, &everything).unwrap();
    case.assert("y", &answer.output.index_axis_move(Axis(0), 0));
    // In f32, to its own precision, and not what the fault gives.
    let [q, k, v] = [q, k, v].map(|x| x.mapv(|x| x as f32));
    let fast = fast_attention(&q, &k, &v, &Visible::everything()).unwrap();
    let right: Array3<f64> = Case::array(&case.0["expected"]["y"]);
    for (&a, b) in fast.iter().zip(&right) {
        assert!((f64::from(a) - b).abs() < 1e-6, "{a} is not {b}");
    }
}

#[test]
fn case_50_rotary_positions() {
    let case = Case::load(50);
    let positions: Vec<usize> = case
        .input::<Ix1>("positions")
        .iter()
        .map(|&p| p as usize)
        .collect();
    let turn = |name| only(rotate(&alone(&case.input(name)), &positions).unwrap());
    let (x, k) = (turn("x"), turn("k"));
    case.assert("y_interleaved", &x);
    let relative = Array1::from_shape_fn(2, |i| x.row(i + 1).dot(&k.row(i)));
    case.assert("rel_interleaved", &relative);
}

#[test]
fn case_53_sinusoidal_positions() {
    Case::load(53).assert("pe", &sinusoidal_positions::<f64>(3, 4));
}

#[test]
fn case_55_left_padding() {
    let case = Case::load(55);
    let tokens = case.input::<Ix2>("keep").mapv(|keep| keep as u32);
    let positions = token_positions(&tokens, 0).mapv(|p| p as f64);
    case.assert("positions", &positions);
}

#[test]
fn case_56_empty_partial_results() {
    let case = Case::load(56);
    let log_sum_exps = |name| {
        let sums = case.input::<Ix1>(name);
        sums.insert_axis(Axis(0)).insert_axis(Axis(0))
    };
    let part = |output, sums| Partial {
        output: alone(&case.input(output)),
        // One key, as it were, whose score is the log-sum-exp.
        largest: log_sum_exps(sums),
        sum: log_sum_exps(sums).mapv(|e| if e == f64::NEG_INFINITY { 0.0 } else { 1.0 }),
    };
    let (a, b) = (part("out_a", "lse_a"), part("out_b", "lse_b"));
    for merged in [merge(&a, &b).unwrap(), merge(&b, &a).unwrap()] {
        let sums = merged.log_sum_exp().index_axis_move(Axis(0), 0);
        case.assert("out", &only(merged.output));
        case.assert("lse", &sums.index_axis_move(Axis(0), 0));
    }
}

#[test]
fn case_58_rescaling_as_the_maximum_rises() {
    let case = Case::load(58);
    let (scores, values) = (case.input::<Ix2>("scores"), case.input::<Ix2>("v"));
    for block in [1, 2, 3, 4] {
        let mut online = Online::new(2);
        for first in (0..4).step_by(block) {
            let places = first..(first + block).min(4);
            let (e, v) = (
                scores.slice(s![0, places.clone()]),
                values.slice(s![places, ..]),
            );
            online.see(&e, &v).unwrap();
        }
        case.assert("y", &online.answer().0.insert_axis(Axis(0)));
    }
    case.assert("weights", &attention_weights(&scores));
}

#[test]
fn case_60_no_keys() {
    let case = Case::load(60);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix2>(name));
    let plain = scaled_dot_product_attention(&q, &k, &v).unwrap();
    case.assert("y", &plain.output);
    case.assert("y", &masked(&case, &Mask::everything()).output);
}

#[test]
fn case_62_softcap_before_the_mask() {
    let case = Case::load(62);
    let [q, k, v] = ["q", "k", "v"].map(|name| alone(&case.input(name)).into_dyn());
    let keep = case.input::<Ix2>("keep").mapv(|x| x == 1.0).into_dyn();
    let operator = OnnxAttention {
        softcap: 1.0,
        ..OnnxAttention::default()
    };
    let inputs = OnnxInputs {
        queries: q.view(),
        keys: k.view(),
        values: v.view(),
        mask: Some(OnnxMask::Allowed(keep.view())),
        past: None,
        lengths: None,
    };
    let answer = operator.attend(&inputs).unwrap();
    let output = answer.output.into_dimensionality::<Ix4>().unwrap();
    case.assert("y", &only(output));
}

#[test]
fn case_65_dropout_in_evaluation() {
    let case = Case::load(65);
    let same = || Projection::from(Array2::eye(2));
    let attention = MultiHeadAttention::new(1, same(), same(), same(), same())
        .and_then(|attention| attention.with_dropout(0.5))
        .unwrap();
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<Ix2>(name).insert_axis(Axis(0)));
    for _ in 0..3 {
        let answer = attention.attend(&q, &k, &v, &Mask::everything()).unwrap();
        case.assert("y", &answer.output.index_axis_move(Axis(0), 0));
    }
}

#[test]
fn case_66_layer_norm_divides_by_the_width() {
    let case = Case::load(66);
    let x: Array2<f64> = case.input("x");
    let parameter = |name: &str| case.0["params"][name].as_f64().unwrap();
    let row = |name| Array1::from_elem(x.ncols(), parameter(name));
    let norm = LayerNorm::new(row("gamma"), row("beta"), parameter("eps")).unwrap();
    let y = norm.apply(&x.insert_axis(Axis(0))).unwrap();
    case.assert("y", &y.index_axis_move(Axis(0), 0));
}

/// A case that no test loads tests nothing.
#[test]
fn every_case_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this = std::fs::read_to_string(root.join(file!())).unwrap();
    for entry in std::fs::read_dir(FOLDER).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Ok(number) = name[..2].parse::<u32>() else {
            continue;
        };
        // Two tests load theirs in a loop.
        let in_a_loop = [15, 16, 26, 28].contains(&number);
        let loaded = in_a_loop || this.contains(&format!("Case::load({number})"));
        assert!(loaded, "{name} is not run");
    }
}
