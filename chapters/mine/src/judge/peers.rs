//! What PyTorch answered to the same questions, from `tests/fixtures/peers/`.

use super::example::{Check, Example, OF_PEERS, Wrong};
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAttention, Projection};
use ndarray::{
    Array, Array2, Array4, ArrayD, ArrayRef2, Axis, Dimension, Ix1, Ix2, s,
};
use serde_json::Value;

/// A file of the folder, as a text.
macro_rules! peers {
    ($name:literal) => {
        $crate::judge::peers::cases(include_str!(concat!(
            "../../../../tests/fixtures/peers/",
            $name,
            ".json"
        )))
    };
}
pub(super) use peers;

/// One call of PyTorch, whose answer the book shares.
pub(super) struct Case(Value);

/// The calls in a file, but for those where the book chose another answer.
pub(super) fn cases(text: &str) -> Vec<Case> {
    let file: Value = serde_json::from_str(text).expect("the fixtures are JSON");
    let cases = file["cases"].as_array().expect("a file has cases");
    let shared = cases.iter().filter(|case| case["differs"].is_null());
    shared.cloned().map(Case).collect()
}

impl Case {
    pub(super) fn name(&self) -> &str {
        self.0["name"].as_str().expect("a case has a name")
    }

    pub(super) fn example(&self) -> Example {
        Example::of("PyTorch's case", format!("“{}”", self.name()))
    }

    pub(super) fn setting(&self, name: &str) -> &Value {
        &self.0["settings"][name]
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0["inputs"][name].is_object()
    }

    pub(super) fn axes(&self, name: &str) -> usize {
        self.0["inputs"][name]["shape"]
            .as_array()
            .map_or(0, Vec::len)
    }

    pub(super) fn input<D: Dimension>(&self, name: &str) -> Array<f64, D> {
        array(&self.0["inputs"][name])
            .into_dimensionality()
            .expect("the shape is known")
    }

    pub(super) fn find<D: Dimension>(&self, name: &str) -> Option<Array<f64, D>> {
        self.has(name).then(|| self.input(name))
    }

    pub(super) fn expected<D: Dimension>(&self, name: &str) -> Array<f64, D> {
        array(&self.0["expected"][name])
            .into_dimensionality()
            .expect("the shape is known")
    }

    pub(super) fn gradient<D: Dimension>(&self, name: &str) -> Array<f64, D> {
        array(&self.0["gradients"][name])
            .into_dimensionality()
            .expect("the shape is known")
    }

    /// With axes (batch, heads, rows, columns), those that lack having size 1.
    fn four_axes(&self, value: &Value) -> Array4<f64> {
        let mut array = array(value);
        while array.ndim() < 4 {
            let axis = usize::from(array.ndim() == 3);
            array.insert_axis_inplace(Axis(axis));
        }
        array.into_dimensionality().expect("there are four axes")
    }

    /// Every head of a call of `scaled_dot_product_attention`, with its mask.
    pub(super) fn each_head(
        &self,
        mask: impl Fn(usize, usize) -> Option<Mask>,
        yours: impl Fn(
            &ArrayRef2<f64>,
            &ArrayRef2<f64>,
            &ArrayRef2<f64>,
            &Mask,
        ) -> anyhow::Result<Array2<f64>>,
    ) -> Check {
        let [q, k, v] =
            ["q", "k", "v"].map(|name| self.four_axes(&self.0["inputs"][name]));
        let expected = self.four_axes(&self.0["expected"]["output"]);
        let given = self
            .find::<ndarray::IxDyn>("mask")
            .map(|_| self.four_axes(&self.0["inputs"]["mask"]));
        let (batch, heads, m, _) = q.dim();
        let n = k.dim().2;
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let (q, k, v) = (
                q.slice(s![b, h, .., ..]),
                k.slice(s![b, h, .., ..]),
                v.slice(s![b, h, .., ..]),
            );
            let mask = mask(m, n).unwrap_or_else(|| match &given {
                Some(given) => {
                    let given = given
                        .broadcast((batch, heads, m, n))
                        .expect("the mask fits");
                    Mask::from_fn((1, 1, m, n), |_, _, i, j| {
                        given[[b, h, i, j]] != 0.0
                    })
                }
                None => Mask::everything(),
            });
            let mut example = self
                .example()
                .array("queries", &q)
                .array("keys", &k)
                .array("values", &v);
            if given.is_some() {
                example = example.and("mask", &mask);
            }
            let yours = example.answer(yours(&q, &k, &v, &mask))?;
            example.within(
                &yours,
                &expected.slice(s![b, h, .., ..]),
                "PyTorch's",
                OF_PEERS,
            )?;
        }
        Ok(())
    }

    /// The numbers of an attention whose names begin with `prefix`.
    pub(super) fn attention(&self, prefix: &str) -> MultiHeadAttention<f64> {
        let named = |name: &str| format!("{prefix}{name}");
        let output: Array2<f64> = self.input(&named("out_proj.weight"));
        let part = |i: usize| i * output.nrows()..(i + 1) * output.nrows();
        let weights = match self.find::<Ix2>(&named("in_proj_weight")) {
            Some(all) => [0, 1, 2].map(|i| all.slice(s![part(i), ..]).to_owned()),
            None => ["q", "k", "v"]
                .map(|of| self.input(&named(&format!("{of}_proj_weight")))),
        };
        let bias = self.find::<Ix1>(&named("in_proj_bias"));
        let mut number = 0..;
        let [query, key, value] = weights.map(|weight| {
            let i = number.next().unwrap_or(0);
            let bias = bias.as_ref().map(|all| all.slice(s![part(i)]).to_owned());
            projection(weight, bias)
        });
        let output = projection(output, self.find(&named("out_proj.bias")));
        let heads = self.setting("heads").as_u64().unwrap_or(1) as usize;
        MultiHeadAttention::new(heads, query, key, value, output)
            .expect("PyTorch's parts fit")
    }

    /// The projection under a name, if it is there.
    pub(super) fn projection(&self, name: &str) -> Projection<f64> {
        projection(
            self.input(&format!("{name}.weight")),
            self.find(&format!("{name}.bias")),
        )
    }

    /// What padding and another mask together allow sequence `b`, with `(1, heads, m, n)` axes at most.
    pub(super) fn mask(
        &self,
        b: usize,
        heads: usize,
        padding: &str,
        other: &str,
    ) -> Mask {
        let padding = self.find::<Ix2>(padding);
        let other = self.find::<ndarray::IxDyn>(other);
        let (m, n) = match (&padding, &other) {
            (None, None) => return Mask::everything(),
            (Some(padding), None) => (1, padding.ncols()),
            (_, Some(other)) => (
                other.shape()[other.ndim() - 2],
                other.shape()[other.ndim() - 1],
            ),
        };
        Mask::from_fn((1, heads, m, n), |_, h, i, j| {
            // In PyTorch's modules true is blocked, the opposite of the book's.
            let real = padding
                .as_ref()
                .is_none_or(|padding| padding[[b, j]] == 0.0);
            let seen = other.as_ref().is_none_or(|other| match other.ndim() {
                2 => other[[i, j]] == 0.0,
                _ => other[[b * heads + h, i, j]] == 0.0,
            });
            real && seen
        })
    }

    /// Whether the mask only forbids, and adds nothing else to the scores.
    pub(super) fn only_forbids(&self, mask: &str) -> bool {
        self.find::<ndarray::IxDyn>(mask).is_none_or(|mask| {
            mask.iter()
                .all(|&x| x == 0.0 || x == 1.0 || x == f64::NEG_INFINITY)
        })
    }

    pub(super) fn compare(
        &self,
        example: Example,
        yours: &ArrayRef2<f64>,
        theirs: &ArrayRef2<f64>,
    ) -> Result<(), Wrong> {
        example.within(yours, theirs, "PyTorch's", OF_PEERS)
    }
}

/// PyTorch keeps a weight transposed: y = x Wᵀ + b.
fn projection(
    weight: Array2<f64>,
    bias: Option<ndarray::Array1<f64>>,
) -> Projection<f64> {
    Projection::new(weight.reversed_axes(), bias).expect("PyTorch's parts fit")
}

fn array(value: &Value) -> ArrayD<f64> {
    let sizes: Vec<usize> =
        serde_json::from_value(value["shape"].clone()).expect("sizes are numbers");
    let data = value["data"].as_array().expect("an array has numbers");
    let numbers = data.iter().map(|x| match x {
        Value::String(text) => text.parse().unwrap_or(f64::NAN),
        number => number.as_f64().unwrap_or(f64::NAN),
    });
    ArrayD::from_shape_vec(sizes, numbers.collect())
        .expect("there are as many as the shape says")
}
