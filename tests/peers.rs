//! The answers of PyTorch to the same questions, from `tests/fixtures/peers/`.

use ch01_alignment::{alignment_scores, batched_scores};
use ch02_softmax::{attend, attention_weights, log_sum_exp, softmax, softmax_with_temperature};
use ch03_scaled::{scaled_dot_product_attention, scaled_scores, softmax_jacobian};
use ch04_masks::{
    Mask, batched_attention, batched_scaled_scores, masked_attention, masked_softmax, masked_sum,
};
use ch05_multihead::{MultiHeadAnswer, MultiHeadAttention, Projection, merge_heads, split_heads};
use ch06_self_attention::self_attention;
use ch07_cross_attention::cross_attention;
use ch08_transformer::{
    Activation, Decoder, DecoderLayer, DecoderLayerSteps, Embedding, Encoder, EncoderLayer,
    EncoderLayerSteps, FeedForward, LayerNorm, Learned, Mode, NormOrder, Residual,
};
use ch09_training::optimizer::{Adam, clip};
use ch09_training::{backward, layers, loss};
use ch10_efficient::repeat_heads;
use ndarray::{
    Array, Array1, Array2, Array3, Array4, ArrayD, ArrayRef1, ArrayView1, Axis, Dimension, Ix2,
    Ix3, IxDyn, NdFloat, arr0, concatenate, s, stack,
};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/peers");

/// The largest difference allowed, relative to the size of the answer.
const TOLERANCE: f64 = 1e-5;

/// How far the book's answer must be from an answer it chose not to give.
const CLEARLY: f64 = 1e-2;

/// The files by name, without their ending.
fn files() -> BTreeMap<String, Value> {
    std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

fn cases(file: &Value) -> impl Iterator<Item = Case<'_>> {
    file["cases"].as_array().unwrap().iter().map(|value| Case {
        value,
        differences: RefCell::default(),
    })
}

/// One call of PyTorch, and how far the book's answers are from its.
struct Case<'a> {
    value: &'a Value,
    differences: RefCell<BTreeMap<String, f64>>,
}

impl<'a> Case<'a> {
    fn name(&self) -> &'a str {
        self.value["name"].as_str().unwrap()
    }

    fn setting(&self, name: &str) -> Option<f64> {
        self.value["settings"][name].as_f64()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.value["settings"][name].as_str()
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        serde_json::from_value(self.value["settings"][name].clone()).unwrap()
    }

    fn is_causal(&self) -> bool {
        self.value["settings"]["is_causal"].as_bool() == Some(true)
    }

    fn find<F: NdFloat, D: Dimension>(&self, name: &str) -> Option<Array<F, D>> {
        let value = self.value["inputs"].get(name)?;
        Some(array(value).into_dimensionality().unwrap())
    }

    fn input<F: NdFloat, D: Dimension>(&self, name: &str) -> Array<F, D> {
        self.find(name)
            .unwrap_or_else(|| panic!("{}: there is no {name}", self.name()))
    }

    fn is_boolean(&self, name: &str) -> bool {
        self.value["inputs"][name]["boolean"] == true
    }

    /// An input with the axes (batch, heads, rows, columns), those that lack having size 1.
    fn four_axes<F: NdFloat>(&self, name: &str) -> Array4<F> {
        let mut array: ArrayD<F> = array(&self.value["inputs"][name]);
        while array.ndim() < 4 {
            let axis = usize::from(array.ndim() == 3);
            array.insert_axis_inplace(Axis(axis));
        }
        array.into_dimensionality().unwrap()
    }

    /// Where the book chose another answer than PyTorch, that answer.
    fn chosen(&self, name: &str) -> Option<&'a Value> {
        self.value["differs"]["ours"].get(name)
    }

    /// Compares with what the book should say, and if that is not what PyTorch says, with both.
    fn compare<F: NdFloat, D: Dimension>(&self, name: &str, found: Array<F, D>) {
        let found = found.into_dyn();
        match self.chosen(name) {
            None => self.compare_with_peer(name, found),
            Some(ours) => {
                let theirs = difference(&found, &array(&self.value["expected"][name]));
                if theirs <= CLEARLY {
                    self.note(
                        &format!("{name}, which should not be PyTorch's,"),
                        f64::INFINITY,
                    );
                }
                self.note(&format!("{name}, ours"), difference(&found, &array(ours)));
            }
        }
    }

    fn compare_with_peer<F: NdFloat, D: Dimension>(&self, name: &str, found: Array<F, D>) {
        let expected = array(&self.value["expected"][name]);
        self.note(name, difference(&found.into_dyn(), &expected));
    }

    /// Compares a gradient with PyTorch's.
    fn compare_gradient<F: NdFloat, D: Dimension>(&self, name: &str, found: Array<F, D>) {
        let expected = array(&self.value["gradients"][name]);
        let difference = difference(&found.into_dyn(), &expected);
        self.note(&gradient_of(name), difference);
    }

    fn note(&self, name: &str, difference: f64) {
        let mut differences = self.differences.borrow_mut();
        let largest = differences.entry(name.to_owned()).or_insert(0.0);
        *largest = largest.max(difference);
    }

    /// What the file has and nothing was compared with.
    fn forgotten(&self) -> Vec<String> {
        let compared = self.differences.borrow();
        let names = |value: &'a Value| value.as_object().into_iter().flat_map(|map| map.keys());
        let expected = names(&self.value["expected"])
            .filter(|name| self.chosen(name).is_none())
            .cloned();
        let ours = names(&self.value["differs"]["ours"]).map(|name| format!("{name}, ours"));
        let gradients = names(&self.value["gradients"]).map(|name| gradient_of(name));
        expected
            .chain(ours)
            .chain(gradients)
            .filter(|name| !compared.contains_key(name))
            .collect()
    }
}

/// The name under which the difference of a gradient is noted.
fn gradient_of(name: &str) -> String {
    format!("d {name}")
}

/// The numbers of the fixtures are 32-bit floats, in every float type.
fn array<F: NdFloat>(value: &Value) -> ArrayD<F> {
    let sizes: Vec<usize> = serde_json::from_value(value["shape"].clone()).unwrap();
    let numbers = value["data"].as_array().unwrap().iter().map(|x| match x {
        Value::String(text) => cast(text.parse().unwrap()),
        number => cast(number.as_f64().unwrap()),
    });
    ArrayD::from_shape_vec(sizes, numbers.collect()).unwrap()
}

fn cast<F: NdFloat>(x: f64) -> F {
    F::from(x as f32).unwrap()
}

/// The largest difference, relative to the largest number expected if that is above 1. Infinite
/// if the shapes differ, or something is NaN or infinite and the other is not.
fn difference<F: NdFloat>(found: &ArrayD<F>, expected: &ArrayD<F>) -> f64 {
    if found.shape() != expected.shape() {
        return f64::INFINITY;
    }
    let numbers = || {
        found
            .iter()
            .zip(expected)
            .map(|(a, b)| [a, b].map(|x| x.to_f64().unwrap()))
    };
    let size = numbers()
        .map(|[_, b]| b.abs())
        .filter(|b| b.is_finite())
        .fold(1.0, f64::max);
    numbers()
        .map(|[a, b]| {
            if a == b || (a.is_nan() && b.is_nan()) {
                0.0
            } else if (a - b).is_finite() {
                (a - b).abs() / size
            } else {
                f64::INFINITY
            }
        })
        .fold(0.0, f64::max)
}

fn check<F: NdFloat>(file: &str, case: &Case) {
    match file {
        "softmax" => check_softmax::<F>(case),
        "sdpa-plain" | "sdpa-boolean" | "sdpa-additive" | "sdpa-causal" | "sdpa-scale"
        | "sdpa-grouped" => check_attention::<F>(case),
        "multi-head" => check_multi_head::<F>(case),
        "layer-norm" => check_layer_norm::<F>(case),
        "activation" => check_activation::<F>(case),
        "embedding" => check_embedding::<F>(case),
        "encoder" => check_encoder::<F>(case),
        "decoder" => check_decoder::<F>(case),
        "cross-entropy" => check_cross_entropy::<F>(case),
        "adam" => check_adam::<F>(case),
        "clip" => check_clip::<F>(case),
        _ => panic!("{file}.json is not compared with anything"),
    }
}

fn check_softmax<F: NdFloat>(case: &Case) {
    let scores: ArrayD<F> = case.input("scores");
    let shape = scores.shape().to_owned();
    let n = *shape.last().unwrap();
    let rows = scores.to_shape((scores.len() / n, n)).unwrap();
    let weights = |weights: Array2<F>| weights.into_shape_with_order(shape.clone()).unwrap();
    let row_by_row = |softmax: &dyn Fn(&ArrayRef1<F>) -> Array1<F>| {
        let mut all = rows.to_owned();
        for mut row in all.rows_mut() {
            let weights = softmax(&row);
            row.assign(&weights);
        }
        weights(all)
    };
    if let Some(temperature) = case.setting("temperature") {
        let warm = row_by_row(&|row| softmax_with_temperature(row, cast(temperature)).unwrap());
        case.compare("weights", warm);
        return;
    }
    case.compare("weights", row_by_row(&softmax));
    case.compare("weights", weights(attention_weights(&rows)));
    let one = rows.view().insert_axis(Axis(0)).insert_axis(Axis(0));
    let unmasked = masked_softmax(&one, &Mask::everything()).unwrap();
    case.compare(
        "weights",
        unmasked.into_shape_with_order(shape.clone()).unwrap(),
    );
    let logarithms = rows.map_axis(Axis(1), |row| log_sum_exp(&row));
    let outer = &shape[..shape.len() - 1];
    case.compare(
        "log_sum_exp",
        logarithms.into_shape_with_order(outer).unwrap(),
    );
    if scores.ndim() == 1 && case.value["expected"]["jacobian"].is_object() {
        case.compare("jacobian", softmax_jacobian(&softmax(&rows.row(0))));
    }
}

/// Queries, keys and values with four axes each.
fn attention_inputs<F: NdFloat>(case: &Case) -> [Array4<F>; 3] {
    ["q", "k", "v"].map(|name| case.four_axes(name))
}

/// For each query head the key head it reads: query head `i` reads `i / (heads / key_heads)`.
fn shared<F>(q: &Array4<F>, k: &Array4<F>) -> Vec<usize> {
    let (heads, key_heads) = (q.len_of(Axis(1)), k.len_of(Axis(1)));
    (0..heads).map(|i| i / (heads / key_heads)).collect()
}

/// Where the settings of the case allow attention, with that causal mask if it is causal.
fn mask_of<F: NdFloat>(
    case: &Case,
    [q, k, _]: &[Array4<F>; 3],
    causal: fn(usize, usize) -> Mask,
) -> Mask {
    let mut mask = Mask::everything();
    if case.is_causal() {
        mask = (&mask & &causal(q.len_of(Axis(2)), k.len_of(Axis(2)))).unwrap();
    }
    if case.is_boolean("mask") {
        mask = (&mask & &may_attend(&case.four_axes("mask"))).unwrap();
    }
    mask
}

/// The weights, as the settings of the case ask for them.
fn weights_of<F: NdFloat>(case: &Case, [q, k]: [&Array4<F>; 2], mask: &Mask) -> Array4<F> {
    let is_added = case.value["inputs"]["mask"].is_object() && !case.is_boolean("mask");
    let scores = match case.setting("scale") {
        Some(scale) => scores_of_all_heads(q, k) * cast::<F>(scale),
        None if is_added => {
            let bias: Array4<F> = case.four_axes("mask");
            batched_scaled_scores(q, k).unwrap() + bias
        }
        None => batched_scaled_scores(q, k).unwrap(),
    };
    masked_softmax(&scores, mask).unwrap()
}

/// Attention as the settings of the case ask for it, with that causal mask if it is causal.
fn answer<F: NdFloat>(
    case: &Case,
    inputs: &[Array4<F>; 3],
    causal: fn(usize, usize) -> Mask,
) -> Array4<F> {
    let [q, k, v] = inputs;
    let [k, v] = [k, v].map(|x| repeat_heads(x, q.len_of(Axis(1))).unwrap());
    let mask = mask_of(case, inputs, causal);
    let has_bias = case.value["inputs"]["mask"].is_object() && !case.is_boolean("mask");
    if case.setting("scale").is_none() && !has_bias {
        let attention = batched_attention(q, &k, &v, &mask).unwrap();
        return attention.output;
    }
    let weights = weights_of(case, [q, &k], &mask);
    masked_sum(&weights, &v, &mask).unwrap()
}

/// The gradients of `Σ weighting · output` by queries, keys and values, PyTorch's causal mask behind it.
fn attention_gradients<F: NdFloat>(case: &Case, inputs: &[Array4<F>; 3]) -> [Array4<F>; 3] {
    let [q, k, v] = inputs;
    let [all_k, all_v] = [k, v].map(|x| repeat_heads(x, q.len_of(Axis(1))).unwrap());
    let mask = mask_of(case, inputs, |m, n| Mask::causal_from(0, m, n));
    let weights = weights_of(case, [q, &all_k], &mask);
    let (weights, weighting) = (weights.view(), case.four_axes::<F>("weighting"));
    let (d_weights, d_all_v) = backward::weighted_sum(&weights, &all_v, &mask, &weighting).unwrap();
    let mut d_scores = backward::masked_softmax(&weights, &weights, &d_weights, &mask).unwrap();
    if let Some(scale) = case.setting("scale") {
        // The book's scale, 1/√d_k, is replaced by the one of the case.
        d_scores *= cast::<F>(scale) * cast::<F>(q.len_of(Axis(3)) as f64).sqrt();
    }
    let (d_q, d_all_k) = backward::scaled_scores(q, &all_k, &mask, &d_scores).unwrap();
    // A key head that several query heads read gets the gradients of all of them.
    let [d_k, d_v] = [(k, d_all_k), (v, d_all_v)].map(|(x, d_all)| {
        let mut d_x = Array4::zeros(x.dim());
        for (head, d_head) in shared(q, k).into_iter().zip(d_all.axis_iter(Axis(1))) {
            let mut d_x = d_x.index_axis_mut(Axis(1), head);
            d_x += &d_head;
        }
        d_x
    });
    [d_q, d_k, d_v]
}

/// The unscaled scores, every head standing for a batch entry of chapter 1.
fn scores_of_all_heads<F: NdFloat>(q: &Array4<F>, k: &Array4<F>) -> Array4<F> {
    let (batch, heads, m, d_k) = q.dim();
    let n = k.dim().2;
    let q = q.to_shape((batch * heads, m, d_k)).unwrap();
    let k = k.to_shape((batch * heads, n, d_k)).unwrap();
    let scores = batched_scores(&q, &k).unwrap();
    scores.into_shape_with_order((batch, heads, m, n)).unwrap()
}

/// The mask of `scaled_dot_product_attention`: true may attend, as in the book.
fn may_attend(mask: &Array4<f32>) -> Mask {
    Mask::from_fn(mask.dim(), |b, h, i, j| mask[[b, h, i, j]] == 1.0)
}

fn check_attention<F: NdFloat>(case: &Case) {
    let inputs = attention_inputs::<F>(case);
    let axes = case.input::<F, IxDyn>("q").ndim();
    let output = |causal| {
        let output = answer(case, &inputs, causal);
        match axes {
            2 => output.remove_axis(Axis(0)).remove_axis(Axis(0)).into_dyn(),
            3 => output.remove_axis(Axis(1)).into_dyn(),
            _ => output.into_dyn(),
        }
    };
    case.compare("output", output(Mask::causal));
    case.compare_with_peer("output", output(|m, n| Mask::causal_from(0, m, n)));
    let gradients = attention_gradients(case, &inputs);
    for (name, gradient) in ["q", "k", "v"].into_iter().zip(gradients) {
        let shape = case.input::<F, IxDyn>(name).raw_dim();
        case.compare_gradient(name, gradient.into_shape_with_order(shape).unwrap());
    }
    if axes == 2 {
        check_two_axes::<F>(case);
    }
}

/// The functions for one head of one sequence.
fn check_two_axes<F: NdFloat>(case: &Case) {
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input::<F, Ix2>(name));
    let (q, k, v) = (q.view(), k.view(), v.view());
    let attention = match (case.find::<F, Ix2>("mask"), case.setting("scale")) {
        (None, None) if case.is_causal() => {
            masked_attention(&q, &k, &v, &Mask::causal(q.nrows(), k.nrows()))
        }
        (None, None) => scaled_dot_product_attention(&q, &k, &v),
        (None, Some(scale)) => attend(&(alignment_scores(&q, &k).unwrap() * cast::<F>(scale)), &v),
        (Some(_), _) if case.is_boolean("mask") => {
            masked_attention(&q, &k, &v, &may_attend(&case.four_axes("mask")))
        }
        (Some(bias), _) => attend(&(scaled_scores(&q, &k).unwrap() + bias), &v),
    };
    case.compare("output", attention.unwrap().output);
}

/// The attention whose parameters stand in the case under this prefix. PyTorch keeps its weights as
/// `y = x Wᵀ + b`.
fn multi_head<F: NdFloat>(case: &Case, prefix: &str) -> MultiHeadAttention<F> {
    let named = |name: &str| format!("{prefix}{name}");
    let output: Array2<F> = case.input(&named("out_proj.weight"));
    let width = output.nrows();
    let part = |i: usize| i * width..(i + 1) * width;
    let weights = match case.find::<F, Ix2>(&named("in_proj_weight")) {
        Some(all) => [0, 1, 2].map(|i| all.slice(s![part(i), ..]).to_owned()),
        None => {
            ["q_proj_weight", "k_proj_weight", "v_proj_weight"].map(|name| case.input(&named(name)))
        }
    };
    let bias: Option<Array1<F>> = case.find(&named("in_proj_bias"));
    let biases = [0, 1, 2].map(|i| bias.as_ref().map(|all| all.slice(s![part(i)]).to_owned()));
    let projection =
        |weight: Array2<F>, bias| Projection::new(weight.reversed_axes(), bias).unwrap();
    let [query, key, value] = weights;
    let [query_bias, key_bias, value_bias] = biases;
    MultiHeadAttention::new(
        case.setting("heads").unwrap() as usize,
        projection(query, query_bias),
        projection(key, key_bias),
        projection(value, value_bias),
        projection(output, case.find(&named("out_proj.bias"))),
    )
    .unwrap()
}

/// The masks of PyTorch's modules: true is blocked, the opposite of the book's.
fn not_blocked(case: &Case, heads: usize, padding: &str, attention: &str) -> Mask {
    let mut mask = Mask::everything();
    if let Some(blocked) = case.find::<f32, Ix2>(padding) {
        let shape = (blocked.nrows(), 1, 1, blocked.ncols());
        let padding = Mask::from_fn(shape, |b, _, _, j| blocked[[b, j]] == 0.0);
        mask = (&mask & &padding).unwrap();
    }
    if let Some(blocked) = case.find::<f32, IxDyn>(attention) {
        let attention = match *blocked.shape() {
            // What is added is 0 where nothing is blocked.
            [m, n] => Mask::from_fn((1, 1, m, n), |_, _, i, j| blocked[[i, j]] == 0.0),
            [all, m, n] => Mask::from_fn((all / heads, heads, m, n), |b, h, i, j| {
                blocked[[b * heads + h, i, j]] == 0.0
            }),
            _ => panic!("{}: a mask of {:?}", case.name(), blocked.shape()),
        };
        mask = (&mask & &attention).unwrap();
    }
    mask
}

/// A mask to be added that says more than where attention is allowed.
fn bias<F: NdFloat>(case: &Case) -> Option<Array2<F>> {
    let is_bias = |x: &F| *x != F::zero() && *x != F::neg_infinity();
    let mask = || case.input::<F, Ix2>("attn_mask");
    let is_added = case.value["inputs"]["attn_mask"].is_object() && !case.is_boolean("attn_mask");
    is_added.then(mask).filter(|mask| mask.iter().any(is_bias))
}

fn check_multi_head<F: NdFloat>(case: &Case) {
    let module = multi_head::<F>(case, "");
    let sequences = |name| -> Option<Array3<F>> {
        let x: ArrayD<F> = case.find(name)?;
        let x = if x.ndim() == 2 {
            x.insert_axis(Axis(0))
        } else {
            x
        };
        Some(x.into_dimensionality().unwrap())
    };
    let query = sequences("query").unwrap();
    let (key, value) = (sequences("key"), sequences("value"));
    let (q, k) = (query.view(), key.as_ref().unwrap_or(&query).view());
    let v = value.as_ref().map_or(k, |value| value.view());

    let answers = if let Some(bias) = bias(case) {
        vec![attend_with_bias(
            &module,
            [&query, &k.to_owned(), &v.to_owned()],
            &bias,
        )]
    } else {
        let mask = not_blocked(case, module.heads(), "key_padding_mask", "attn_mask");
        let mut answers = vec![module.attend(&q, &k, &v, &mask).unwrap()];
        if key.is_none() {
            answers.push(self_attention(&module, &q, &mask).unwrap());
        } else if value.is_none() {
            answers.push(cross_attention(&module, &q, &k, &mask).unwrap());
        }
        answers
    };

    let axes = case.input::<F, IxDyn>("query").ndim();
    let batched = |x: ArrayD<F>| if axes == 2 { x.remove_axis(Axis(0)) } else { x };
    for answer in answers {
        let average = answer.average_weights();
        case.compare("output", batched(answer.output.into_dyn()));
        case.compare("weights", batched(average.into_dyn()));
        case.compare("weights_per_head", batched(answer.weights.into_dyn()));
    }
}

/// Multi-head attention put together from its parts, with something added to the scores.
fn attend_with_bias<F: NdFloat>(
    module: &MultiHeadAttention<F>,
    inputs: [&Array3<F>; 3],
    bias: &Array2<F>,
) -> MultiHeadAnswer<F> {
    let [query, key, value, output] = module.projections();
    let heads = |x: &Array3<F>, projection: &Projection<F>| {
        let projected = projection.apply(x).unwrap();
        split_heads(&projected, module.heads()).unwrap()
    };
    let [q, k, v] = inputs;
    let (q, k, v) = (heads(q, query), heads(k, key), heads(v, value));
    let scores = batched_scaled_scores(&q, &k).unwrap() + bias;
    let weights = masked_softmax(&scores, &Mask::everything()).unwrap();
    let answers = masked_sum(&weights, &v, &Mask::everything()).unwrap();
    let output = output.apply(&merge_heads(&answers)).unwrap();
    MultiHeadAnswer { output, weights }
}

/// What gradients are added to.
fn nothing<F: NdFloat, L: Learned<F> + Clone>(model: &L) -> L {
    let mut gradient = model.clone();
    for (_, mut table) in gradient.tables_mut() {
        table.fill(F::zero());
    }
    gradient
}

fn layer_norm<F: NdFloat>(case: &Case, prefix: &str) -> LayerNorm<F> {
    let named = |name| case.input(&format!("{prefix}{name}"));
    let eps = cast(case.setting("eps").unwrap_or(1e-5));
    LayerNorm::new(named("weight"), named("bias"), eps).unwrap()
}

fn projection<F: NdFloat>(case: &Case, prefix: &str) -> Projection<F> {
    let weight: Array2<F> = case.input(&format!("{prefix}weight"));
    let bias = case.input(&format!("{prefix}bias"));
    Projection::new(weight.reversed_axes(), Some(bias)).unwrap()
}

fn activation(case: &Case) -> Activation {
    match case.text("activation").unwrap() {
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        other => panic!("{}: no activation is {other}", case.name()),
    }
}

fn feed_forward<F: NdFloat>(case: &Case, prefix: &str) -> FeedForward<F> {
    FeedForward {
        inner: projection(case, &format!("{prefix}linear1.")),
        activation: activation(case),
        outer: projection(case, &format!("{prefix}linear2.")),
    }
}

fn residual<F: NdFloat>(case: &Case, prefix: &str) -> Residual<F> {
    let order = match case.value["settings"]["norm_first"].as_bool().unwrap() {
        true => NormOrder::Pre,
        false => NormOrder::Post,
    };
    Residual::new(layer_norm(case, prefix), order)
}

fn encoder_layer<F: NdFloat>(case: &Case, prefix: &str) -> EncoderLayer<F> {
    EncoderLayer {
        attention: multi_head(case, &format!("{prefix}self_attn.")),
        attention_residual: residual(case, &format!("{prefix}norm1.")),
        feed_forward: feed_forward(case, prefix),
        feed_forward_residual: residual(case, &format!("{prefix}norm2.")),
    }
}

fn decoder_layer<F: NdFloat>(case: &Case, prefix: &str) -> DecoderLayer<F> {
    DecoderLayer {
        attention: multi_head(case, &format!("{prefix}self_attn.")),
        attention_residual: residual(case, &format!("{prefix}norm1.")),
        cross_attention: multi_head(case, &format!("{prefix}multihead_attn.")),
        cross_attention_residual: residual(case, &format!("{prefix}norm2.")),
        feed_forward: feed_forward(case, prefix),
        feed_forward_residual: residual(case, &format!("{prefix}norm3.")),
    }
}

/// The layers of a stack under PyTorch's names, or a layer that stands alone.
fn prefixes(case: &Case) -> Vec<String> {
    match case.setting("layers") {
        None => vec![String::new()],
        Some(layers) => (0..layers as usize)
            .map(|number| format!("layers.{number}."))
            .collect(),
    }
}

fn final_norm<F: NdFloat>(case: &Case) -> Option<LayerNorm<F>> {
    let is_stack = case.setting("layers").is_some();
    is_stack.then(|| layer_norm(case, "norm."))
}

fn compare_projection<F: NdFloat>(case: &Case, prefix: &str, d: &Projection<F>) {
    case.compare_gradient(&format!("{prefix}weight"), d.weight().t().to_owned());
    case.compare_gradient(&format!("{prefix}bias"), d.bias().unwrap().clone());
}

/// Three of the projections together, as PyTorch keeps them.
fn compare_multi_head<F: NdFloat>(case: &Case, prefix: &str, d: &MultiHeadAttention<F>) {
    let [query, key, value, output] = d.projections();
    let inputs = [query, key, value];
    let weights = inputs.map(|d| d.weight().t());
    let biases = inputs.map(|d| d.bias().unwrap().view());
    let weight = concatenate(Axis(0), &weights).unwrap();
    let bias = concatenate(Axis(0), &biases).unwrap();
    case.compare_gradient(&format!("{prefix}in_proj_weight"), weight);
    case.compare_gradient(&format!("{prefix}in_proj_bias"), bias);
    compare_projection(case, &format!("{prefix}out_proj."), output);
}

fn compare_norm<F: NdFloat>(case: &Case, prefix: &str, d: &LayerNorm<F>) {
    case.compare_gradient(&format!("{prefix}weight"), d.gain().clone());
    case.compare_gradient(&format!("{prefix}bias"), d.shift().clone());
}

fn compare_network<F: NdFloat>(case: &Case, prefix: &str, d: &FeedForward<F>) {
    compare_projection(case, &format!("{prefix}linear1."), &d.inner);
    compare_projection(case, &format!("{prefix}linear2."), &d.outer);
}

fn check_layer_norm<F: NdFloat>(case: &Case) {
    let norm = layer_norm(case, "");
    let x: Array3<F> = case.input("input");
    let weighting: Array3<F> = case.input("weighting");
    let mut gradient = nothing(&norm);
    let d_x = backward::layer_norm(&norm, &x, &weighting, &mut gradient).unwrap();
    case.compare("output", norm.apply(&x).unwrap());
    case.compare_gradient("input", d_x);
    compare_norm(case, "", &gradient);
}

fn check_activation<F: NdFloat>(case: &Case) {
    let activation = activation(case);
    let x: Array1<F> = case.input("input");
    let slopes = x.mapv(|x| backward::slope(activation, x));
    case.compare("output", x.mapv(|x| activation.apply(x)));
    let weighting: Array1<F> = case.input("weighting");
    case.compare_gradient("input", slopes * weighting);
}

fn tokens(case: &Case, name: &str) -> Array2<u32> {
    case.input::<f32, Ix2>(name).mapv(|token| token as u32)
}

fn check_embedding<F: NdFloat>(case: &Case) {
    let embedding = Embedding::<F>::new(case.input("embedding.weight")).unwrap();
    let tokens = tokens(case, "input");
    let weighting: Array3<F> = case.input("weighting");
    let mut gradient = nothing(&embedding);
    backward::embedding(&embedding, &tokens, &weighting, &mut gradient).unwrap();
    case.compare("output", embedding.apply(&tokens).unwrap());
    case.compare_gradient("embedding.weight", gradient.table().clone());
}

fn check_encoder<F: NdFloat>(case: &Case) {
    let prefixes = prefixes(case);
    let encoder = Encoder::<F> {
        layers: prefixes
            .iter()
            .map(|prefix| encoder_layer(case, prefix))
            .collect(),
        final_norm: final_norm(case),
    };
    let heads = encoder.layers[0].attention.heads();
    let mask = not_blocked(case, heads, "src_key_padding_mask", "mask");
    let x: Array3<F> = case.input("src");
    let steps = encoder.apply_in_steps(&x, &mask, &mut Mode::Evaluation);
    let steps = steps.unwrap();
    if let ([layer], None) = (&encoder.layers[..], &encoder.final_norm) {
        case.compare("output", layer.apply(&x, &mask).unwrap());
    }
    case.compare("output", steps.output);

    let mut gradient = nothing(&encoder);
    let mut d_x: Array3<F> = case.input("weighting");
    if let (Some(norm), Some(gradient)) = (&encoder.final_norm, &mut gradient.final_norm) {
        d_x = backward::layer_norm(norm, &steps.before_norm, &d_x, gradient).unwrap();
    }
    let back = |layer: &_, steps: &EncoderLayerSteps<F>, gradient: &mut _, d_x: Array3<F>| {
        layers::encoder_layer(layer, steps, &mask, &d_x, gradient).unwrap()
    };
    let stack = encoder.layers.iter().zip(&steps.layers);
    for ((layer, steps), gradient) in stack.zip(&mut gradient.layers).rev() {
        d_x = back(layer, steps, gradient, d_x);
    }
    case.compare_gradient("src", d_x);
    for (prefix, d) in prefixes.iter().zip(&gradient.layers) {
        compare_multi_head(case, &format!("{prefix}self_attn."), &d.attention);
        compare_norm(case, &format!("{prefix}norm1."), &d.attention_residual.norm);
        compare_network(case, prefix, &d.feed_forward);
        compare_norm(
            case,
            &format!("{prefix}norm2."),
            &d.feed_forward_residual.norm,
        );
    }
    if let Some(d) = &gradient.final_norm {
        compare_norm(case, "norm.", d);
    }
}

fn check_decoder<F: NdFloat>(case: &Case) {
    let prefixes = prefixes(case);
    let decoder = Decoder::<F> {
        layers: prefixes
            .iter()
            .map(|prefix| decoder_layer(case, prefix))
            .collect(),
        final_norm: final_norm(case),
    };
    let heads = decoder.layers[0].attention.heads();
    let mask = not_blocked(case, heads, "tgt_key_padding_mask", "tgt_mask");
    let source_mask = not_blocked(case, heads, "memory_key_padding_mask", "memory_mask");
    let (x, memory): (Array3<F>, Array3<F>) = (case.input("tgt"), case.input("memory"));
    let mode = &mut Mode::Evaluation;
    let steps = decoder
        .apply_in_steps(&x, &memory, &mask, &source_mask, mode)
        .unwrap();
    if let ([layer], None) = (&decoder.layers[..], &decoder.final_norm) {
        let output = layer.apply(&x, &memory, &mask, &source_mask);
        case.compare("output", output.unwrap());
    }
    case.compare("output", steps.output);

    let mut gradient = nothing(&decoder);
    let mut d_x: Array3<F> = case.input("weighting");
    let mut d_memory = Array3::zeros(memory.dim());
    if let (Some(norm), Some(gradient)) = (&decoder.final_norm, &mut gradient.final_norm) {
        d_x = backward::layer_norm(norm, &steps.before_norm, &d_x, gradient).unwrap();
    }
    let mut back = |layer: &_, steps: &DecoderLayerSteps<F>, gradient: &mut _, d_x: Array3<F>| {
        let memory = (&*memory, &mut d_memory);
        let masks = [&mask, &source_mask];
        layers::decoder_layer(layer, steps, memory, masks, &d_x, gradient).unwrap()
    };
    let stack = decoder.layers.iter().zip(&steps.layers);
    for ((layer, steps), gradient) in stack.zip(&mut gradient.layers).rev() {
        d_x = back(layer, steps, gradient, d_x);
    }
    case.compare_gradient("tgt", d_x);
    case.compare_gradient("memory", d_memory);
    for (prefix, d) in prefixes.iter().zip(&gradient.layers) {
        compare_multi_head(case, &format!("{prefix}self_attn."), &d.attention);
        compare_norm(case, &format!("{prefix}norm1."), &d.attention_residual.norm);
        compare_multi_head(
            case,
            &format!("{prefix}multihead_attn."),
            &d.cross_attention,
        );
        compare_norm(
            case,
            &format!("{prefix}norm2."),
            &d.cross_attention_residual.norm,
        );
        compare_network(case, prefix, &d.feed_forward);
        compare_norm(
            case,
            &format!("{prefix}norm3."),
            &d.feed_forward_residual.norm,
        );
    }
    if let Some(d) = &gradient.final_norm {
        compare_norm(case, "norm.", d);
    }
}

fn check_cross_entropy<F: NdFloat>(case: &Case) {
    let logits: Array3<F> = case.input("logits");
    let ignored = case.setting("ignore_index").unwrap() as u32;
    let smoothing = case.setting("label_smoothing").unwrap();
    let targets = tokens(case, "targets");
    let loss = loss::cross_entropy(&logits, &targets, ignored, smoothing).unwrap();
    case.compare("loss", arr0(loss.mean));
    case.compare_gradient("logits", loss.d_logits);
}

/// A weight and a bias, which stand here for any model.
fn two_tables<F: NdFloat>(weight: Array2<F>, bias: Array1<F>) -> Projection<F> {
    Projection::new(weight, Some(bias)).unwrap()
}

fn check_adam<F: NdFloat>(case: &Case) {
    let mut model = two_tables::<F>(case.input("weight"), case.input("bias"));
    let weight_gradients = case.input::<F, Ix3>("weight_gradients");
    let bias_gradients = case.input::<F, Ix2>("bias_gradients");
    let betas = case.numbers("betas").try_into().unwrap();
    let mut adam = Adam::new(&model, betas, case.setting("eps").unwrap()).unwrap();
    let (mut weights, mut biases) = (vec![], vec![]);
    for (step, &rate) in case.numbers("rates").iter().enumerate() {
        let weight = weight_gradients.index_axis(Axis(0), step).to_owned();
        let bias = bias_gradients.index_axis(Axis(0), step).to_owned();
        adam.step(&mut model, &two_tables(weight, bias), rate)
            .unwrap();
        weights.push(model.weight().clone());
        biases.push(model.bias().unwrap().clone());
    }
    let views: Vec<_> = weights.iter().map(|x| x.view()).collect();
    case.compare("weights", stack(Axis(0), &views).unwrap());
    let views: Vec<_> = biases.iter().map(|x| x.view()).collect();
    case.compare("biases", stack(Axis(0), &views).unwrap());
    case.compare("means", adam.means[0].clone());
    case.compare("squares", adam.squares[0].clone());
}

fn check_clip<F: NdFloat>(case: &Case) {
    let mut gradient = two_tables::<F>(case.input("weight"), case.input("bias"));
    let length = clip(&mut gradient, case.setting("longest").unwrap()).unwrap();
    case.compare("length", arr0(cast::<F>(length)));
    case.compare("weight", gradient.weight().clone());
    case.compare("bias", gradient.bias().unwrap().clone());
}

/// A power of ten that the difference is below: its own digits depend on the processor.
fn bound(difference: f64) -> &'static str {
    if difference < 1e-6 {
        "10⁻⁶"
    } else {
        "10⁻⁵"
    }
}

/// The first row in which PyTorch and the book differ by choice, as each has it.
fn both_values(case: &Case) -> Option<[String; 2]> {
    let ours = case.value["differs"]["ours"].as_object()?;
    let name = if ours.contains_key("weights") {
        "weights"
    } else {
        "output"
    };
    let [theirs, ours] = [&case.value["expected"][name], &ours[name]].map(array::<f32>);
    let last = Axis(ours.ndim() - 1);
    let differ = |a: &ArrayView1<f32>, b: &ArrayView1<f32>| {
        difference(&a.to_owned().into_dyn(), &b.to_owned().into_dyn()) > CLEARLY
    };
    let (theirs, ours) = theirs
        .lanes(last)
        .into_iter()
        .zip(ours.lanes(last))
        .find(|(a, b)| differ(a, b))?;
    // Adding 0 turns −0 into 0.
    Some([theirs, ours].map(|row| format!("{:.2}", row.mapv(|x| x + 0.0))))
}

/// What was found in all the files.
#[derive(Default)]
struct Report {
    table: String,
    choices: String,
    cases: usize,
    gradients: usize,
    problems: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &str, file: &Value) {
        let single = self.compare(&format!("{name}.json, f32"), file, |case| {
            check::<f32>(name, case)
        });
        let double = self.compare(&format!("{name}.json, f64"), file, |case| {
            check::<f64>(name, case)
        });
        println!("{name}: {single:.1e} in f32, {double:.1e} in f64");
        let (count, asked) = (cases(file).count(), file["asked"].as_str().unwrap());
        let (single, double) = (bound(single), bound(double));
        self.cases += count;
        self.gradients += cases(file)
            .filter_map(|case| Some(case.value["gradients"].as_object()?.len()))
            .sum::<usize>();
        let row = format!("| {name} | {asked} | {count} | {single} | {double} |\n");
        self.table.push_str(&row);
        for case in cases(file) {
            if let Some([theirs, ours]) = both_values(&case) {
                let row = format!("| {name} | {} | `{theirs}` | `{ours}` |\n", case.name());
                self.choices.push_str(&row);
            }
        }
    }

    /// The largest difference of all cases.
    fn compare(&mut self, place: &str, file: &Value, check: impl Fn(&Case)) -> f64 {
        let mut largest = 0.0_f64;
        for case in cases(file) {
            let place = format!("{place}, {}", case.name());
            if catch_unwind(AssertUnwindSafe(|| check(&case))).is_err() {
                self.problems
                    .push(format!("{place}: no answer, see the message above"));
                continue;
            }
            for (what, &difference) in case.differences.borrow().iter() {
                largest = largest.max(difference);
                if difference > TOLERANCE {
                    let problem = format!("{place}: {what} is off by {difference:.1e}");
                    self.problems.push(problem);
                }
            }
            for what in case.forgotten() {
                self.problems
                    .push(format!("{place}: {what} is not compared"));
            }
        }
        largest
    }
}

#[test]
fn the_book_agrees_with_pytorch() {
    let mut report = Report::default();
    let files = files();
    for (name, file) in &files {
        report.add(name, file);
        assert_eq!(
            file["versions"], files["softmax"]["versions"],
            "{name}.json"
        );
    }
    let Report {
        table,
        choices,
        cases,
        gradients,
        problems,
    } = report;
    assert!(
        problems.is_empty(),
        "\n{}\n{} problems",
        problems.join("\n"),
        problems.len()
    );
    assert!(cases >= 120, "there are only {cases} cases");
    assert!(gradients >= 300, "there are only {gradients} gradients");
    let version = |of: &str| files["softmax"]["versions"][of].as_str().unwrap();
    let compared = format!(
        "| file | what is asked | cases | `f32`, below | `f64`, below |\n|---|---|---|---|---|\n{table}\n\
         Together {cases} cases with {gradients} gradients, made with PyTorch {} under Python {}.\n",
        version("torch"),
        version("python")
    );
    let choices = format!("| file | case | PyTorch | this book |\n|---|---|---|---|\n{choices}");
    insta::assert_binary_snapshot!("compared.md", compared.into_bytes());
    insta::assert_binary_snapshot!("choices.md", choices.into_bytes());
}
