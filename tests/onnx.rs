//! The operator Attention of chapter 10 against what onnx's reference answered before.
//!
//! `tests/fixtures/onnx/generate.py` asked it, and onnxruntime besides.

use ch10_efficient::{OnnxAnswer, OnnxAttention, OnnxInputs, OnnxMask, ScoreOutput};
use ndarray::{Array4, ArrayD, Ix4};
use serde_json::Value;

const CASES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/onnx/cases.json"
);

fn shape(value: &Value) -> Vec<usize> {
    serde_json::from_value(value["shape"].clone()).unwrap()
}

fn array(value: &Value) -> ArrayD<f32> {
    let numbers = value["data"].as_array().unwrap().iter().map(|x| match x {
        Value::String(text) => text.parse().unwrap(),
        number => number.as_f64().unwrap() as f32,
    });
    ArrayD::from_shape_vec(shape(value), numbers.collect()).unwrap()
}

fn four(value: &Value) -> Array4<f32> {
    array(value).into_dimensionality::<Ix4>().unwrap()
}

/// The operator with the attributes and inputs of a case.
fn answer(case: &Value) -> OnnxAnswer<f32> {
    let attribute = |name: &str| &case["attributes"][name];
    let count = |name: &str| attribute(name).as_u64().map(|x| x as usize);
    let operator = OnnxAttention {
        scale: attribute("scale").as_f64().map(|x| x as f32),
        softcap: attribute("softcap").as_f64().unwrap_or(0.0) as f32,
        is_causal: count("is_causal") == Some(1),
        window: (count("left_window_size"), count("right_window_size")),
        heads: count("q_num_heads").zip(count("kv_num_heads")),
        score_output: match count("qk_matmul_output_mode").unwrap_or(0) {
            0 => ScoreOutput::Scaled,
            1 => ScoreOutput::Capped,
            2 => ScoreOutput::Masked,
            _ => ScoreOutput::Weights,
        },
    };
    let input = |name: &str| Some(&case["inputs"][name]).filter(|value| value.is_object());
    let [queries, keys, values] = ["Q", "K", "V"].map(|name| array(input(name).unwrap()));
    let past = input("past_key").map(|keys| (four(keys), four(input("past_value").unwrap())));
    let lengths: Option<Vec<usize>> = input("nonpad_kv_seqlen")
        .map(|value| serde_json::from_value(value["data"].clone()).unwrap());
    let (mut allowed, mut added) = (None, None);
    if let Some(mask) = input("attn_mask") {
        if mask["kind"] == "bool" {
            let bits = serde_json::from_value(mask["data"].clone()).unwrap();
            allowed = Some(ArrayD::<bool>::from_shape_vec(shape(mask), bits).unwrap());
        } else {
            added = Some(array(mask));
        }
    }
    let inputs = OnnxInputs {
        queries: queries.view(),
        keys: keys.view(),
        values: values.view(),
        mask: match (&allowed, &added) {
            (Some(allowed), _) => Some(OnnxMask::Allowed(allowed.view())),
            (_, Some(added)) => Some(OnnxMask::Added(added.view())),
            _ => None,
        },
        past: past
            .as_ref()
            .map(|(keys, values)| (keys.view(), values.view())),
        lengths: lengths.as_deref(),
    };
    operator.attend(&inputs).unwrap()
}

#[test]
fn answers_of_the_reference() {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let (mut faults, mut agreed) = (String::new(), 0);
    for case in cases {
        let found = answer(case);
        let outputs = [
            ("Y", found.output),
            ("present_key", found.keys.into_dyn()),
            ("present_value", found.values.into_dyn()),
            ("qk_matmul_output", found.scores.into_dyn()),
        ];
        for (name, found) in outputs {
            let expected = &case["expected"][name];
            if !expected.is_object() {
                continue;
            }
            let expected = array(expected);
            let near = |(&a, &b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5;
            if found.shape() != expected.shape() || !found.iter().zip(&expected).all(near) {
                faults.push_str(&format!("\n{}: {name}", case["name"]));
            }
            agreed += 1;
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(agreed > 3 * cases.len(), "{agreed} outputs compared");
}

/// Where onnxruntime answers at all, it answers what the reference does.
#[test]
fn onnxruntime_agrees_with_the_reference() {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    let (mut answered, mut refused) = (0, 0);
    for case in file["cases"].as_array().unwrap() {
        match &case["onnxruntime"] {
            Value::Object(differences) => {
                for (name, difference) in differences {
                    let near = difference.as_f64().is_some_and(|x| x <= 1e-5);
                    assert!(near, "{}: {name}", case["name"]);
                }
                answered += 1;
            }
            _ => refused += 1,
        }
    }
    assert!(
        answered > 4 * refused,
        "{answered} answered, {refused} refused"
    );
}
