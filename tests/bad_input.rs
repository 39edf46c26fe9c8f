//! Every public function of the chapters against input that nobody should pass to it: it refuses in
//! a message that names the numbers, or gives what its documentation says, and never panics.

#[path = "bad_input/chapters_8_and_9.rs"]
mod chapters_8_and_9;

use anyhow::Result;
use binder::literate::library_files;
use ch01_alignment::*;
use ch02_softmax::*;
use ch03_scaled::*;
use ch04_masks::*;
use ch05_multihead::*;
use ch06_self_attention::*;
use ch07_cross_attention::*;
use ch10_efficient::*;
use ndarray::{Array, Array1, Array2, Array3, Array4, Dimension, IntoDimension, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use regex::Regex;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// One function with one input: what is wrong with its answer, if anything is.
struct Row {
    function: &'static str,
    input: String,
    fault: Box<dyn Fn() -> Option<String>>,
}

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn of(&mut self, function: &'static str) -> Of<'_> {
        Of {
            table: self,
            function,
        }
    }
}

/// Where the rows of one function are added.
struct Of<'a> {
    table: &'a mut Table,
    function: &'static str,
}

impl Of<'_> {
    fn row(self, input: String, fault: impl Fn() -> Option<String> + 'static) -> Self {
        self.table.0.push(Row {
            function: self.function,
            input,
            fault: Box::new(fault),
        });
        self
    }

    /// The answer is an error, and its message has these numbers in this order.
    fn refuses<T>(
        self,
        input: impl ToString,
        numbers: impl IntoIterator<Item = impl ToString>,
        call: impl Fn() -> Result<T> + 'static,
    ) -> Self {
        let numbers: Vec<String> = numbers.into_iter().map(|x| x.to_string()).collect();
        self.row(input.to_string(), move || {
            let Err(error) = call() else {
                return Some("is not refused".into());
            };
            let message = error.to_string();
            (!has_in_order(&message, &numbers))
                .then(|| format!("does not name {numbers:?}: {message}"))
        })
    }

    /// The answer is the documented one.
    fn gives(self, input: impl ToString, holds: impl Fn() -> bool + 'static) -> Self {
        self.row(input.to_string(), move || {
            (!holds()).then(|| "is not what the documentation says".into())
        })
    }

    /// Each of these numbers gives the documented answer.
    fn gives_each<const N: usize>(
        mut self,
        numbers: [f64; N],
        holds: impl Fn(f64) -> bool + Copy + 'static,
    ) -> Self {
        for x in numbers {
            self = self.gives(x, move || holds(x));
        }
        self
    }
}

fn has_in_order(message: &str, numbers: &[String]) -> bool {
    let number = Regex::new(r"NaN|-?inf|-?\d+(\.\d+)?").unwrap();
    let mut found = number.find_iter(message).map(|found| found.as_str());
    numbers
        .iter()
        .all(|expected| found.any(|number| number == expected))
}

const NAN: f64 = f64::NAN;
const INFINITY: f64 = f64::INFINITY;
const NEG_INFINITY: f64 = f64::NEG_INFINITY;
const NOT_FINITE: [f64; 3] = [NAN, INFINITY, NEG_INFINITY];
const HUGE: f64 = f64::MAX;

fn ones<S: IntoDimension>(shape: S) -> Array<f64, S::Dim> {
    Array::ones(shape.into_dimension())
}

fn zeros<S: IntoDimension>(shape: S) -> Array<f64, S::Dim> {
    Array::zeros(shape.into_dimension())
}

fn all<S: IntoDimension>(x: f64, shape: S) -> Array<f64, S::Dim> {
    Array::from_elem(shape.into_dimension(), x)
}

fn all_nan<D: Dimension>(x: &Array<f64, D>) -> bool {
    x.iter().all(|x| x.is_nan())
}

fn all_zero<D: Dimension>(x: &Array<f64, D>) -> bool {
    x.iter().all(|&x| x == 0.0)
}

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(0)
}

fn chapter_1(table: &mut Table) {
    table
        .of("ch01_alignment::dot_score")
        .refuses("widths 2 and 3", [2, 3], || dot_score(&ones(2), &ones(3)))
        .refuses("widths 0 and 1", [0, 1], || dot_score(&ones(0), &ones(1)))
        .gives("empty", || dot_score(&ones(0), &ones(0)).unwrap() == 0.0)
        .gives_each(NOT_FINITE, |x| {
            let score = dot_score(&all(x, 2), &ones(2)).unwrap();
            score.to_bits() == x.to_bits()
        })
        .gives("huge", || {
            dot_score(&all(HUGE, 2), &ones(2)).unwrap() == INFINITY
        });
    table
        .of("ch01_alignment::alignment_scores")
        .refuses("widths 2 and 3", [2, 3], || {
            alignment_scores(&ones((1, 2)), &ones((1, 3)))
        })
        .refuses("widths 4 and 5 of nothing", [4, 5], || {
            alignment_scores(&ones((0, 4)), &ones((0, 5)))
        })
        .gives("width 0", || {
            alignment_scores(&ones((2, 0)), &ones((3, 0))).unwrap() == zeros((2, 3))
        })
        .gives("no queries", || {
            alignment_scores(&ones((0, 2)), &ones((3, 2))).unwrap() == zeros((0, 3))
        })
        .gives("no keys", || {
            alignment_scores(&ones((2, 2)), &ones((0, 2))).unwrap() == zeros((2, 0))
        })
        .gives_each(NOT_FINITE, |x| {
            let scores = alignment_scores(&array![[x], [2.0]], &ones((2, 1))).unwrap();
            scores.row(0).iter().all(|e| e.to_bits() == x.to_bits()) && scores[[1, 0]] == 2.0
        })
        .gives("huge", || {
            let scores = alignment_scores(&all(HUGE, (1, 2)), &ones((1, 2)));
            scores.unwrap() == array![[INFINITY]]
        });
    table
        .of("ch01_alignment::batched_scores")
        .refuses("batches of 2 and 3", [2, 3], || {
            batched_scores(&ones((2, 1, 4)), &ones((3, 1, 4)))
        })
        .refuses("batches of 1 and 5", [1, 5], || {
            batched_scores(&ones((1, 1, 4)), &ones((5, 1, 4)))
        })
        .refuses("widths 4 and 5", [4, 5], || {
            batched_scores(&ones((2, 1, 4)), &ones((2, 1, 5)))
        })
        .refuses("widths 4 and 5 of no sequence", [4, 5], || {
            batched_scores(&ones((0, 1, 4)), &ones((0, 1, 5)))
        })
        .gives("no sequence", || {
            batched_scores(&ones((0, 2, 4)), &ones((0, 3, 4))).unwrap() == zeros((0, 2, 3))
        })
        .gives("width 0", || {
            batched_scores(&ones((1, 2, 0)), &ones((1, 3, 0))).unwrap() == zeros((1, 2, 3))
        })
        .gives_each(NOT_FINITE, |x| {
            let mut queries = ones((2, 1, 1));
            queries[[0, 0, 0]] = x;
            let scores = batched_scores(&queries, &ones((2, 1, 1))).unwrap();
            scores[[0, 0, 0]].to_bits() == x.to_bits() && scores[[1, 0, 0]] == 1.0
        });
    table
        .of("ch01_alignment::cosine_scores")
        .refuses("widths 2 and 3", [2, 3], || {
            cosine_scores(&ones((1, 2)), &ones((1, 3)))
        })
        .gives("zeros", || {
            cosine_scores(&zeros((1, 2)), &ones((1, 2))).unwrap() == zeros((1, 1))
        })
        .gives("empty", || {
            cosine_scores(&ones((0, 2)), &ones((3, 2))).unwrap() == zeros((0, 3))
        })
        .gives("width 0", || {
            cosine_scores(&ones((1, 0)), &ones((1, 0))).unwrap() == zeros((1, 1))
        })
        .gives_each(NOT_FINITE, |x| {
            let keys = array![[1.0, 1.0], [0.0, 0.0]];
            all_nan(&cosine_scores(&array![[x, 1.0]], &keys).unwrap())
                && all_nan(&cosine_scores(&array![[x, 0.0]], &keys).unwrap())
        })
        .gives_each([HUGE, f64::MIN_POSITIVE, 5e-324], |x| {
            let score = cosine_scores(&all(x, (1, 2)), &ones((1, 2))).unwrap();
            (score[[0, 0]] - 1.0).abs() < 1e-15
        });
    table
        .of("ch01_alignment::bilinear_scores")
        .refuses("a weight of 3 × 5 for 2 and 5", [2, 5, 3, 5], || {
            bilinear_scores(&ones((1, 2)), &ones((3, 5)), &ones((1, 5)))
        })
        .refuses("a weight of 2 × 5 for 2 and 4", [2, 4, 2, 5], || {
            bilinear_scores(&ones((1, 2)), &ones((2, 5)), &ones((1, 4)))
        })
        .refuses("a weight turned over", [2, 3, 3, 2], || {
            bilinear_scores(&ones((1, 2)), &ones((3, 2)), &ones((1, 3)))
        })
        .gives("widths 0", || {
            bilinear_scores(&ones((1, 0)), &ones((0, 0)), &ones((2, 0))).unwrap() == zeros((1, 2))
        })
        .gives("no keys", || {
            bilinear_scores(&ones((1, 2)), &ones((2, 3)), &ones((0, 3))).unwrap() == zeros((1, 0))
        })
        .gives_each(NOT_FINITE, |x| {
            let one = ones((1, 1));
            let scores = bilinear_scores(&one, &array![[x]], &one).unwrap();
            scores[[0, 0]].to_bits() == x.to_bits()
        })
        .gives("huge", || {
            let (huge, one) = (all(HUGE, (1, 2)), ones((2, 2)));
            bilinear_scores(&huge, &one, &ones((1, 2))).unwrap() == array![[INFINITY]]
        });
    let additive = |q: usize, k: usize, w_q: (usize, usize), w_k: (usize, usize), v: usize| {
        additive_scores(
            &ones((2, q)),
            &ones((3, k)),
            &ones(w_q),
            &ones(w_k),
            &ones(v),
        )
    };
    table
        .of("ch01_alignment::additive_scores")
        .refuses("hidden widths 4, 5, 4", [4, 5, 4], move || {
            additive(2, 3, (4, 2), (5, 3), 4)
        })
        .refuses("hidden widths 4, 4, 6", [4, 4, 6], move || {
            additive(2, 3, (4, 2), (4, 3), 6)
        })
        .refuses("queries of 7 for 2", [7, 2], move || {
            additive(7, 3, (4, 2), (4, 3), 4)
        })
        .refuses("keys of 8 for 3", [8, 3], move || {
            additive(2, 8, (4, 2), (4, 3), 4)
        })
        .gives("no hidden layer", move || {
            additive(2, 3, (0, 2), (0, 3), 0).unwrap() == zeros((2, 3))
        })
        .gives("widths 0", move || {
            additive(0, 0, (4, 0), (4, 0), 4).unwrap() == zeros((2, 3))
        })
        .gives_each([NAN, INFINITY, NEG_INFINITY, HUGE], |x| {
            let one = ones((1, 1));
            let key = array![[x]];
            let v = ones(1);
            let score = additive_scores(&one, &key, &one, &one, &v);
            let score = score.unwrap()[[0, 0]];
            // The hyperbolic tangent squashes everything but NaN.
            score.is_nan() == x.is_nan() && (x.is_nan() || score == x.signum())
        });
    table
        .of("ch01_alignment::plane_example")
        .gives("nothing", || {
            let (queries, keys) = plane_example();
            (queries.dim(), keys.dim()) == ((1, 2), (4, 2))
        });
    table
        .of("ch01_alignment::first_example")
        .gives("nothing", || {
            let (queries, keys) = first_example();
            (queries.dim(), keys.dim()) == ((1, 4), (4, 4))
        });
    table
        .of("ch01_alignment::second_example")
        .gives("nothing", || {
            let (queries, keys) = second_example();
            (queries.dim(), keys.dim()) == ((2, 3), (4, 3))
        });
}

fn chapter_2(table: &mut Table) {
    table
        .of("ch02_softmax::naive_softmax")
        .gives("empty", || naive_softmax(&ones(0)).is_empty())
        .gives("past 709", || {
            naive_softmax(&array![710.0_f64, 0.0])[0].is_nan()
        })
        .gives("a sum that overflows", || {
            all_zero(&naive_softmax(&all(709.5, 2)))
        })
        .gives("past 88 in single precision", || {
            naive_softmax(&array![89.0_f32])[0].is_nan()
        })
        .gives("far below 0", || all_nan(&naive_softmax(&all(-800.0, 2))))
        .gives("NaN", || all_nan(&naive_softmax(&array![NAN, 0.0])));
    table
        .of("ch02_softmax::softmax")
        .gives("empty", || softmax(&ones(0)).is_empty())
        .gives("only −∞", || softmax(&all(NEG_INFINITY, 3)) == zeros(3))
        .gives("a −∞", || {
            softmax(&array![NEG_INFINITY, 2.0]) == array![0.0, 1.0]
        })
        .gives_each([NAN, INFINITY], |x| {
            [
                [x, 0.0, 1.0],
                [0.0, x, 1.0],
                [0.0, 1.0, x],
                [NEG_INFINITY, NEG_INFINITY, x],
            ]
            .into_iter()
            .all(|row| all_nan(&softmax(&Array1::from_iter(row))))
        })
        .gives_each([HUGE, -HUGE, 1e4, -1e4, 0.0], |x| {
            softmax(&all(x, 2)) == array![0.5, 0.5]
        })
        .gives("as far apart as can be", || {
            softmax(&array![-HUGE, HUGE]) == array![0.0, 1.0]
        })
        .gives("huge in single precision", || {
            softmax(&array![-f32::MAX, f32::MAX]) == array![0.0, 1.0]
        });
    table
        .of("ch02_softmax::largest")
        .gives("empty", || largest(&ones(0)) == NEG_INFINITY)
        .gives("NaN first and last", || {
            largest(&array![NAN, 1.0]).is_nan() && largest(&array![1.0, NAN]).is_nan()
        })
        .gives("a +∞", || largest(&array![0.0, INFINITY]) == INFINITY);
    table
        .of("ch02_softmax::log_sum_exp")
        .gives("empty", || log_sum_exp(&ones(0)) == NEG_INFINITY)
        .gives("only −∞", || {
            log_sum_exp(&all(NEG_INFINITY, 2)) == NEG_INFINITY
        })
        .gives("a +∞", || log_sum_exp(&array![0.0, INFINITY]) == INFINITY)
        .gives("NaN", || log_sum_exp(&array![0.0, NAN]).is_nan())
        .gives("NaN and +∞", || {
            log_sum_exp(&array![INFINITY, NAN]).is_nan()
                && log_sum_exp(&array![NAN, INFINITY]).is_nan()
        })
        .gives_each([HUGE, -HUGE, 1e4, -1e4], |x| {
            let found = log_sum_exp(&all(x, 2));
            x <= found && found <= x + 0.7
        });
    let mut of = table.of("ch02_softmax::softmax_with_temperature");
    for temperature in [0.0, -0.0, -1.0, NAN, INFINITY, NEG_INFINITY] {
        of = of.refuses(format!("τ = {temperature}"), [temperature], move || {
            softmax_with_temperature(&ones(2), temperature)
        });
    }
    of.gives("empty", || {
        softmax_with_temperature(&ones(0), 1.0).unwrap().is_empty()
    })
    .gives("only −∞", || {
        softmax_with_temperature(&all(NEG_INFINITY, 2), 0.5).unwrap() == zeros(2)
    })
    .gives_each([NAN, INFINITY], |x| {
        all_nan(&softmax_with_temperature(&array![x, 0.0], 2.0).unwrap())
    })
    .gives_each([5e-324, f64::MIN_POSITIVE, 1e-300], |temperature| {
        let scores = array![-HUGE, 1.0, HUGE];
        softmax_with_temperature(&scores, temperature).unwrap() == array![0.0, 0.0, 1.0]
    })
    .gives("τ huge", || {
        softmax_with_temperature(&array![1.0, 2.0], HUGE).unwrap() == array![0.5, 0.5]
    });
    table
        .of("ch02_softmax::attention_weights")
        .gives("no rows", || {
            attention_weights(&ones((0, 3))) == ones((0, 3))
        })
        .gives("no columns", || {
            attention_weights(&ones((3, 0))) == ones((3, 0))
        })
        .gives("a row of −∞", || {
            let scores = array![[NEG_INFINITY, NEG_INFINITY], [1.0, 1.0]];
            attention_weights(&scores) == array![[0.0, 0.0], [0.5, 0.5]]
        })
        .gives_each([NAN, INFINITY], |x| {
            let weights = attention_weights(&array![[x, 0.0], [1.0, 1.0]]);
            weights.row(0).iter().all(|a| a.is_nan()) && weights.row(1) == array![0.5, 0.5]
        })
        .gives_each([HUGE, -HUGE], |x| {
            attention_weights(&all(x, (1, 2))) == array![[0.5, 0.5]]
        });
    table
        .of("ch02_softmax::weighted_sum")
        .refuses("2 weights for 3 values", [2, 3], || {
            weighted_sum(&ones((1, 2)), &ones((3, 1)))
        })
        .refuses("4 weights for 5 values of width 0", [4, 5], || {
            weighted_sum(&ones((0, 4)), &ones((5, 0)))
        })
        .gives("no values", || {
            weighted_sum(&ones((2, 0)), &ones((0, 3))).unwrap() == zeros((2, 3))
        })
        .gives("a weight of 0 for what is not finite", || {
            let values = array![[NAN], [INFINITY]];
            all_nan(&weighted_sum(&zeros((1, 2)), &values).unwrap())
        })
        .gives("huge", || {
            weighted_sum(&ones((1, 2)), &all(HUGE, (2, 1))).unwrap() == array![[INFINITY]]
        });
    table
        .of("ch02_softmax::attend")
        .refuses("2 scores for 3 values", [2, 3], || {
            attend(&ones((1, 2)), &ones((3, 1)))
        })
        .gives("no values", || {
            let attention = attend(&ones((2, 0)), &ones((0, 3))).unwrap();
            attention.output == zeros((2, 3)) && attention.weights.dim() == (2, 0)
        })
        .gives("no queries", || {
            let attention = attend(&ones((0, 2)), &ones((2, 3))).unwrap();
            attention.output == zeros((0, 3))
        })
        .gives_each([NAN, INFINITY], |x| {
            let attention = attend(&array![[x], [0.0]], &ones((1, 1))).unwrap();
            attention.output[[0, 0]].is_nan() && attention.output[[1, 0]] == 1.0
        })
        .gives("huge", || {
            let attention = attend(&array![[HUGE, -HUGE]], &array![[3.0], [4.0]]);
            attention.unwrap().output == array![[3.0]]
        });
    table
        .of("ch02_softmax::first_example_values")
        .gives("nothing", || first_example_values().dim() == (4, 4));
    table
        .of("ch02_softmax::word_values")
        .gives("nothing", || word_values().dim() == (4, 6));
    table
        .of("ch02_softmax::second_example_values")
        .gives("nothing", || second_example_values().dim() == (4, 5));
}

fn chapter_3(table: &mut Table) {
    table
        .of("ch03_scaled::scale")
        .refuses("width 0", [0], || scale::<f64>(0))
        .refuses("width 0 in single precision", [0], || scale::<f32>(0))
        .gives("huge", || {
            (scale::<f64>(usize::MAX).unwrap() * 2_f64.powi(32) - 1.0).abs() < 1e-9
                && scale::<f32>(usize::MAX).unwrap() > 0.0
        });
    table
        .of("ch03_scaled::scaled_scores")
        .refuses("widths 2 and 3", [2, 3], || {
            scaled_scores(&ones((1, 2)), &ones((1, 3)))
        })
        .refuses("width 0", [0], || {
            scaled_scores(&ones((1, 0)), &ones((1, 0)))
        })
        .gives("no keys", || {
            scaled_scores(&ones((2, 4)), &ones((0, 4))).unwrap() == zeros((2, 0))
        })
        .gives_each(NOT_FINITE, |x| {
            let scores = scaled_scores(&array![[x]], &ones((1, 1))).unwrap();
            scores[[0, 0]].to_bits() == x.to_bits()
        })
        .gives("huge", || {
            scaled_scores(&all(HUGE, (1, 4)), &ones((1, 4))).unwrap() == array![[INFINITY]]
        });
    let plain = |q: (usize, usize), k: (usize, usize), v: (usize, usize)| {
        scaled_dot_product_attention(&ones(q), &ones(k), &ones(v))
    };
    table
        .of("ch03_scaled::scaled_dot_product_attention")
        .refuses("4 keys, 5 values", [4, 5], move || {
            plain((1, 2), (4, 2), (5, 1))
        })
        .refuses("widths 2 and 3", [2, 3], move || {
            plain((1, 2), (4, 3), (4, 1))
        })
        .refuses("width 0", [0], move || plain((1, 0), (4, 0), (4, 1)))
        .gives("no keys", move || {
            plain((2, 3), (0, 3), (0, 4)).unwrap().output == zeros((2, 4))
        })
        .gives("no queries", move || {
            plain((0, 3), (2, 3), (2, 4)).unwrap().output == zeros((0, 4))
        })
        .gives("values of width 0", move || {
            plain((2, 3), (2, 3), (2, 0)).unwrap().output == zeros((2, 0))
        })
        .gives_each(NOT_FINITE, |x| {
            let (queries, keys) = (array![[x], [1.0]], array![[1.0], [-1.0]]);
            let attention = scaled_dot_product_attention(&queries, &keys, &keys).unwrap();
            attention.output[[0, 0]].is_nan() && attention.output[[1, 0]].is_finite()
        })
        .gives("scores of ±1e4", || {
            let (queries, keys) = (array![[100.0]], array![[100.0], [-100.0]]);
            scaled_dot_product_attention(&queries, &keys, &keys)
                .unwrap()
                .output
                == array![[100.0]]
        });
    table
        .of("ch03_scaled::softmax_jacobian")
        .gives("empty", || softmax_jacobian(&ones(0)).is_empty())
        .gives("zeros", || softmax_jacobian(&zeros(2)) == zeros((2, 2)))
        .gives("NaN", || all_nan(&softmax_jacobian(&all(NAN, 2))));
    table
        .of("ch03_scaled::random_vector")
        .gives("width 0", || random_vector(0, &mut rng()).is_empty())
        .gives("width 3", || random_vector(3, &mut rng()).len() == 3);
    table
        .of("ch03_scaled::dot_product_spread")
        .refuses("no samples", [0], || dot_product_spread(4, 0, &mut rng()))
        .gives("width 0", || {
            dot_product_spread(0, 3, &mut rng()).unwrap() == (0.0, 0.0)
        })
        .gives("one sample", || {
            dot_product_spread(4, 1, &mut rng()).unwrap().1 == 0.0
        });
    table
        .of("ch03_scaled::saturation")
        .refuses("no keys", [0, 7], || saturation(4, 0, 7, &mut rng()))
        .refuses("no samples", [7, 0], || saturation(4, 7, 0, &mut rng()))
        .refuses("width 0", [0], || saturation(0, 2, 7, &mut rng()))
        .gives("one key", || {
            let [plain, scaled] = saturation(4, 1, 1, &mut rng()).unwrap();
            (plain.largest_weight, scaled.largest_weight) == (1.0, 1.0)
                && (plain.gradient, scaled.gradient) == (0.0, 0.0)
        });
    table
        .of("ch03_scaled::size")
        .gives("empty", || size(&ones((0, 3))) == 0.0)
        .gives("NaN", || size(&array![[NAN, 1.0]]).is_nan())
        .gives_each([INFINITY, NEG_INFINITY, HUGE], |x| {
            size(&array![[x]]) == INFINITY
        });
}

/// All that attention in chapter 4 takes, from four shapes.
fn batched(
    q: [usize; 4],
    k: [usize; 4],
    v: [usize; 4],
    mask: &Mask,
) -> Result<BatchedAttention<f64>> {
    let [q, k, v] = [q, k, v].map(ones);
    batched_attention(&q, &k, &v, mask)
}

fn chapter_4_masks(table: &mut Table) {
    let nothing = |shape| Mask::from_fn(shape, |_, _, _, _| false);
    table
        .of("ch04_masks::Mask::from_fn")
        .gives("empty", move || {
            nothing((0, 1, 2, 0)).fit((0, 1, 2, 0)).unwrap().is_empty()
        });
    table
        .of("ch04_masks::Mask::everything")
        .gives("empty scores", || {
            Mask::everything().fit((0, 2, 0, 3)).unwrap().is_empty()
        });
    table
        .of("ch04_masks::Mask::allows")
        .gives("beyond the end", || {
            let mask = Mask::causal(2, 2);
            mask.allows(usize::MAX, usize::MAX, 1, 0) && !mask.allows(0, 0, 2, 0)
        })
        .gives("empty", || {
            !Mask::from_fn((0, 1, 1, 1), |_, _, _, _| true).allows(0, 0, 0, 0)
        });
    table
        .of("ch04_masks::Mask::padding")
        .refuses("a length above n", [1, 5, 4], || Mask::padding(&[4, 5], 4))
        .refuses("a length in no keys", [0, 1, 0], || Mask::padding(&[1], 0))
        .refuses("a huge length", [0, usize::MAX, 3], || {
            Mask::padding(&[usize::MAX], 3)
        })
        .gives("no sequence", || {
            Mask::padding(&[], 3).unwrap() == Mask::from_fn((0, 1, 1, 3), |_, _, _, _| true)
        })
        .gives("a length of 0", move || {
            Mask::padding(&[0], 3).unwrap() == nothing((1, 1, 1, 3))
        });
    table
        .of("ch04_masks::Mask::padding_of_tokens")
        .gives("empty", || {
            Mask::padding_of_tokens(&Array2::zeros((0, 3)), 0) == Mask::padding(&[], 3).unwrap()
        })
        .gives("all pad", move || {
            Mask::padding_of_tokens(&array![[u32::MAX; 2]], u32::MAX) == nothing((1, 1, 1, 2))
        });
    table
        .of("ch04_masks::Mask::causal")
        .gives("empty", move || Mask::causal(0, 0) == nothing((1, 1, 0, 0)))
        .gives("no keys", move || {
            Mask::causal(3, 0) == nothing((1, 1, 3, 0))
        })
        .gives("more queries than keys", || {
            Mask::causal(3, 1).to_string() == " ·\n ·\n 1"
        })
        .gives("no queries, as many keys as can be", || {
            Mask::causal(0, isize::MAX as usize)
                .fit((1, 1, 0, 1))
                .is_err()
        });
    table
        .of("ch04_masks::Mask::causal_from")
        .gives("empty", move || {
            Mask::causal_from(5, 0, 0) == nothing((1, 1, 0, 0))
        })
        .gives("huge", || {
            Mask::causal_from(usize::MAX, 2, 2).to_string() == " 1 1\n 1 1"
        });
    table
        .of("ch04_masks::Mask::window")
        .refuses("width 0", [0], || Mask::window(2, 2, 0))
        .gives("empty", move || {
            Mask::window(0, 0, 1).unwrap() == nothing((1, 1, 0, 0))
        })
        .gives("huge", || {
            Mask::window(3, 3, usize::MAX).unwrap() == Mask::causal(3, 3)
        });
    let open = |shape| Mask::from_fn(shape, |_, _, _, _| true);
    table
        .of("ch04_masks::Mask::bitand")
        .refuses("other keys", [1, 1, 2, 3, 1, 1, 2, 4], move || {
            &open((1, 1, 2, 3)) & &open((1, 1, 2, 4))
        })
        .refuses("other sequences", [2, 1, 1, 3, 5, 1, 1, 3], move || {
            &open((2, 1, 1, 3)) & &open((5, 1, 1, 3))
        })
        .refuses(
            "other heads, and none",
            [1, 0, 1, 1, 1, 2, 1, 1],
            move || &open((1, 0, 1, 1)) & &open((1, 2, 1, 1)),
        )
        .gives("empty", move || {
            (&open((0, 1, 1, 3)) & &open((1, 1, 2, 3))).unwrap() == open((0, 1, 2, 3))
        });
    table
        .of("ch04_masks::Mask::fit")
        .refuses("other keys", [1, 1, 2, 3, 1, 1, 2, 4], move || {
            open((1, 1, 2, 3)).fit((1, 1, 2, 4)).map(|_| ())
        })
        .refuses("fewer sequences", [2, 1, 1, 3, 1, 1, 1, 3], move || {
            open((2, 1, 1, 3)).fit((1, 1, 1, 3)).map(|_| ())
        })
        .refuses("none", [0, 1, 1, 3, 1, 1, 1, 3], move || {
            open((0, 1, 1, 3)).fit((1, 1, 1, 3)).map(|_| ())
        })
        .refuses("huge", [1, 1, 1, 2, usize::MAX, 1, 1, 2], move || {
            let shape = (usize::MAX, 1, 1, 2);
            open((1, 1, 1, 2)).fit(shape).map(|_| ())
        });
    table
        .of("ch04_masks::Mask::transposed")
        .gives("empty", move || {
            nothing((0, 1, 2, 3)).transposed() == nothing((0, 1, 3, 2))
                && nothing((1, 1, 0, 3)).transposed() == nothing((1, 1, 3, 0))
        })
        .gives("more queries than keys", || {
            Mask::causal(3, 1).transposed().to_string() == " · · 1"
        });
    table
        .of("ch04_masks::Mask::to_additive")
        .gives("empty", move || {
            open((0, 1, 1, 3)).to_additive::<f64>().is_empty()
        })
        .gives("nothing allowed", move || {
            nothing((1, 1, 1, 2)).to_additive::<f32>()
                == Array4::from_elem((1, 1, 1, 2), f32::NEG_INFINITY)
        });
    table
        .of("ch04_masks::Mask::fmt")
        .gives("empty", move || {
            [(0, 1, 1, 3), (1, 1, 0, 3), (0, 0, 0, 0)]
                .into_iter()
                .all(|shape| nothing(shape).to_string().is_empty())
        })
        .gives("no keys", move || {
            let mask = nothing((1, 1, 3, 0));
            format!("{mask:?}") == "1 × 1 × 3 × 0" && mask.to_string().trim().is_empty()
        });
    table
        .of("ch04_masks::example_tokens")
        .gives("nothing", || example_tokens().dim() == (2, 5));
}

fn chapter_4(table: &mut Table) {
    let nothing = || Mask::from_fn((1, 1, 1, 1), |_, _, _, _| false);
    table
        .of("ch04_masks::masked_softmax")
        .refuses("a mask that does not fit", [1, 1, 2, 3, 1, 1, 2, 4], || {
            let mask = Mask::from_fn((1, 1, 2, 3), |_, _, _, _| true);
            masked_softmax(&ones((1, 1, 2, 4)), &mask)
        })
        .refuses("padding of 2 for 3", [2, 1, 1, 4, 3, 1, 2, 4], || {
            masked_softmax(&ones((3, 1, 2, 4)), &Mask::padding(&[1, 2], 4).unwrap())
        })
        .gives("empty", || {
            [[0, 1, 2, 3], [1, 0, 2, 3], [1, 1, 0, 3], [1, 1, 2, 0]]
                .into_iter()
                .all(|shape| {
                    let scores = ones(shape).into_dimensionality().unwrap();
                    masked_softmax(&scores, &Mask::everything()).unwrap() == scores
                })
        })
        .gives("nothing allowed", move || {
            masked_softmax(&all(NAN, (1, 1, 2, 3)), &nothing()).unwrap() == zeros((1, 1, 2, 3))
        })
        .gives_each([NAN, INFINITY], |x| {
            let scores = array![[[[x, 0.0], [x, 0.0]]]];
            let mask = Mask::from_fn((1, 1, 2, 2), |_, _, i, j| i == 0 || j == 1);
            let weights = masked_softmax(&scores, &mask).unwrap();
            weights.slice(s![0, 0, 0, ..]).iter().all(|a| a.is_nan())
                && weights.slice(s![0, 0, 1, ..]) == array![0.0, 1.0]
        })
        .gives("huge", || {
            masked_softmax(&array![[[[HUGE, -HUGE]]]], &Mask::everything()).unwrap()
                == array![[[[1.0, 0.0]]]]
        });
    let sum = |weights: [usize; 4], values: [usize; 4]| {
        masked_sum(&ones(weights), &ones(values), &Mask::everything())
    };
    table
        .of("ch04_masks::Mask::hide")
        .refuses("a mask that does not fit", [1, 1, 5, 5, 1, 1, 1, 2], || {
            Mask::causal(5, 5).hide(ones((1, 1, 1, 2)))
        })
        .gives("a NaN that is forbidden", || {
            let hidden = Mask::padding(&[0], 2).unwrap().hide(all(NAN, (1, 1, 1, 2)));
            hidden.unwrap().iter().all(|&e| e == NEG_INFINITY)
        });
    table
        .of("ch04_masks::Mask::seen_in")
        .refuses("a mask that does not fit", [1, 1, 5, 5, 1, 1, 1, 2], || {
            let scores = all(NEG_INFINITY, (1, 1, 1, 2));
            Mask::causal(5, 5).seen_in(&scores).map(|_| ())
        })
        .gives("only −∞", || {
            let scores = all(NEG_INFINITY, (1, 1, 1, 2));
            let seen = Mask::everything();
            let seen = seen.seen_in(&scores).unwrap();
            !seen.allows(0, 0, 0, 0) && !seen.allows(0, 0, 0, 1)
        });
    table
        .of("ch04_masks::attend_masked")
        .refuses("2 scores for 3 values", [2, 3], || {
            let (scores, values) = (ones((1, 1, 1, 2)), ones((1, 1, 3, 1)));
            attend_masked(&scores, &values, &Mask::everything())
        })
        .refuses("a mask that does not fit", [1, 1, 5, 5, 1, 1, 1, 2], || {
            let (scores, values) = (ones((1, 1, 1, 2)), ones((1, 1, 2, 1)));
            attend_masked(&scores, &values, &Mask::causal(5, 5))
        })
        .gives("a score of −∞ for an infinite value", || {
            let scores = array![[[[NEG_INFINITY, 0.0]]]];
            let values = array![[[[INFINITY], [2.0]]]];
            let answer = attend_masked(&scores, &values, &Mask::everything());
            answer.unwrap().output[[0, 0, 0, 0]] == 2.0
        });
    table
        .of("ch04_masks::masked_sum")
        .refuses("2 weights for 3 values", [2, 3], move || {
            sum([1, 1, 1, 2], [1, 1, 3, 1])
        })
        .refuses("batches of 2 and 3", [2, 1, 3, 1], move || {
            sum([2, 1, 1, 2], [3, 1, 2, 1])
        })
        .refuses("heads of 2 and 3", [1, 2, 1, 3], move || {
            sum([1, 2, 1, 2], [1, 3, 2, 1])
        })
        .refuses("a mask that does not fit", [1, 1, 5, 5, 1, 1, 1, 2], || {
            let (weights, values) = (ones((1, 1, 1, 2)), ones((1, 1, 2, 1)));
            masked_sum(&weights, &values, &Mask::causal(5, 5))
        })
        .gives("no values", move || {
            sum([1, 1, 2, 0], [1, 1, 0, 3]).unwrap() == zeros((1, 1, 2, 3))
        })
        .gives_each(NOT_FINITE, move |x| {
            let (weights, values) = (array![[[[0.0, 1.0]]]], array![[[[x], [2.0]]]]);
            let hidden = Mask::from_fn((1, 1, 1, 2), |_, _, _, j| j == 1);
            masked_sum(&weights, &values, &hidden).unwrap() == array![[[[2.0]]]]
        })
        .gives_each(NOT_FINITE, |x| {
            let (weights, values) = (array![[[[0.5, 0.5]]]], array![[[[x], [2.0]]]]);
            let sum = masked_sum(&weights, &values, &Mask::everything()).unwrap();
            sum[[0, 0, 0, 0]].to_bits() == x.to_bits()
        });
    let everything = Mask::everything;
    table
        .of("ch04_masks::batched_attention")
        .refuses("widths 2 and 3", [2, 3], move || {
            batched([1, 1, 1, 2], [1, 1, 4, 3], [1, 1, 4, 1], &everything())
        })
        .refuses("width 0", [0], move || {
            batched([1, 1, 1, 0], [1, 1, 4, 0], [1, 1, 4, 1], &everything())
        })
        .refuses("4 keys, 5 values", [4, 5], move || {
            batched([1, 1, 1, 2], [1, 1, 4, 2], [1, 1, 5, 1], &everything())
        })
        .refuses("batches of 2 and 3", [2, 1, 3, 1], move || {
            batched([2, 1, 1, 2], [3, 1, 4, 2], [3, 1, 4, 1], &everything())
        })
        .refuses("values of another batch", [2, 1, 3, 1], move || {
            batched([2, 1, 1, 2], [2, 1, 4, 2], [3, 1, 4, 1], &everything())
        })
        .refuses("heads of 2 and 4", [1, 2, 1, 4], move || {
            batched([1, 2, 1, 2], [1, 4, 3, 2], [1, 4, 3, 1], &everything())
        })
        .refuses(
            "a mask of other keys",
            [1, 1, 1, 5, 1, 1, 1, 4],
            move || {
                let mask = Mask::padding(&[3], 5).unwrap();
                batched([1, 1, 1, 2], [1, 1, 4, 2], [1, 1, 4, 1], &mask)
            },
        )
        .gives("no sequence", move || {
            batched([0, 1, 1, 2], [0, 1, 4, 2], [0, 1, 4, 3], &everything())
                .is_ok_and(|attention| attention.output.dim() == (0, 1, 1, 3))
        })
        .gives("no head", move || {
            batched([1, 0, 1, 2], [1, 0, 4, 2], [1, 0, 4, 3], &everything())
                .is_ok_and(|attention| attention.weights.dim() == (1, 0, 1, 4))
        })
        .gives("no keys", move || {
            let attention = batched([1, 1, 2, 2], [1, 1, 0, 2], [1, 1, 0, 3], &everything());
            attention.unwrap().output == zeros((1, 1, 2, 3))
        })
        .gives("nothing allowed", move || {
            let attention = batched([1, 1, 2, 2], [1, 1, 4, 2], [1, 1, 4, 3], &nothing()).unwrap();
            all_zero(&attention.output) && all_zero(&attention.weights)
        })
        .gives_each([NAN, INFINITY, NEG_INFINITY, HUGE], |x| {
            let (q, k) = (ones((1, 1, 1, 1)), array![[[[x], [1.0]]]]);
            let hidden = Mask::from_fn((1, 1, 1, 2), |_, _, _, j| j == 1);
            batched_attention(&q, &k, &k, &hidden).unwrap().output == array![[[[1.0]]]]
        })
        .gives("an allowed NaN", || {
            let (q, k) = (ones((1, 1, 1, 1)), array![[[[NAN], [1.0]]]]);
            let attention = batched_attention(&q, &k, &k, &Mask::everything());
            all_nan(&attention.unwrap().output)
        });
    let scores = |q: [usize; 4], k: [usize; 4]| batched_scaled_scores(&ones(q), &ones(k));
    table
        .of("ch04_masks::batched_scaled_scores")
        .refuses("widths 2 and 3", [2, 3], move || {
            scores([1, 1, 1, 2], [1, 1, 1, 3])
        })
        .refuses("width 0", [0], move || scores([1, 1, 1, 0], [1, 1, 1, 0]))
        .refuses("batches of 2 and 3", [2, 1, 3, 1], move || {
            scores([2, 1, 1, 2], [3, 1, 1, 2])
        })
        .refuses("heads of 2 and none", [1, 2, 1, 0], move || {
            scores([1, 2, 1, 2], [1, 0, 1, 2])
        })
        .gives("no keys", move || {
            scores([1, 1, 2, 2], [1, 1, 0, 2]).unwrap() == zeros((1, 1, 2, 0))
        })
        .gives_each(NOT_FINITE, |x| {
            let scores = batched_scaled_scores(&all(x, [1; 4]), &ones([1; 4]));
            scores.unwrap()[[0, 0, 0, 0]].to_bits() == x.to_bits()
        });
    let masked = |q: (usize, usize), k: (usize, usize), v: (usize, usize), mask: &Mask| {
        masked_attention(&ones(q), &ones(k), &ones(v), mask)
    };
    table
        .of("ch04_masks::masked_attention")
        .refuses("widths 2 and 3", [2, 3], move || {
            masked((1, 2), (4, 3), (4, 1), &everything())
        })
        .refuses("width 0", [0], move || {
            masked((1, 0), (4, 0), (4, 1), &everything())
        })
        .refuses("4 keys, 5 values", [4, 5], move || {
            masked((1, 2), (4, 2), (5, 1), &everything())
        })
        .refuses("a mask for a batch", [2, 1, 1, 4, 1, 1, 1, 4], move || {
            let mask = Mask::padding(&[1, 2], 4).unwrap();
            masked((1, 2), (4, 2), (4, 1), &mask)
        })
        .gives("no keys", move || {
            masked((2, 2), (0, 2), (0, 3), &everything())
                .unwrap()
                .output
                == zeros((2, 3))
        })
        .gives("no queries", move || {
            masked((0, 2), (3, 2), (3, 1), &Mask::causal(0, 3))
                .unwrap()
                .output
                == zeros((0, 1))
        })
        .gives("queries before every key", move || {
            let output = masked((3, 2), (1, 2), (1, 1), &Mask::causal(3, 1))
                .unwrap()
                .output;
            output == array![[0.0], [0.0], [1.0]]
        });
}

/// Attention with two heads, of these widths: queries, keys, values, output.
fn two_headed([q, k, v, o]: [usize; 4]) -> MultiHeadAttention<f64> {
    let [query, key, value] = [q, k, v].map(|width| ones((width, 4)).into());
    MultiHeadAttention::new(2, query, key, value, ones((4, o)).into()).unwrap()
}

fn head_of(
    heads: usize,
    [query, key, value, output]: [(usize, usize); 4],
) -> Result<MultiHeadAttention<f64>> {
    let [q, k, v, o] = [query, key, value, output].map(|shape| ones(shape).into());
    MultiHeadAttention::new(heads, q, k, v, o)
}

fn memory(keys: [usize; 4], values: [usize; 4]) -> Memory<f64> {
    let [keys, values] = [keys, values].map(|shape| ones(shape).into_dimensionality().unwrap());
    Memory { keys, values }
}

fn chapter_5_parts(table: &mut Table) {
    table
        .of("ch05_multihead::Projection::new")
        .refuses("a bias of 3 for 2", [3, 2], || {
            Projection::new(ones((4, 2)), Some(ones(3)))
        })
        .refuses("a bias of none for 2", [0, 2], || {
            Projection::new(ones((4, 2)), Some(ones(0)))
        })
        .gives("empty", || {
            Projection::new(ones((0, 0)), Some(ones(0)))
                .unwrap()
                .parameters()
                == 0
        });
    table
        .of("ch05_multihead::Projection::apply")
        .refuses("vectors of 3 for 4", [3, 4], || {
            Projection::from(ones((4, 2))).apply(&ones((1, 1, 3)))
        })
        .refuses("vectors of 3 for 4, none of them", [3, 4], || {
            Projection::from(ones((4, 2))).apply(&ones((0, 0, 3)))
        })
        .gives("empty", || {
            let projection = Projection::from(ones((4, 2)));
            projection.apply(&ones((0, 5, 4))).unwrap() == zeros((0, 5, 2))
        })
        .gives("nothing but a bias", || {
            let projection = Projection::new(ones((0, 2)), Some(ones(2))).unwrap();
            projection.apply(&ones((1, 3, 0))).unwrap() == ones((1, 3, 2))
        })
        .gives_each(NOT_FINITE, |x| {
            let y = Projection::from(ones((1, 1)))
                .apply(&array![[[x], [2.0]]])
                .unwrap();
            y[[0, 0, 0]].to_bits() == x.to_bits() && y[[0, 1, 0]] == 2.0
        })
        .gives("huge", || {
            Projection::from(ones((2, 1)))
                .apply(&all(HUGE, (1, 1, 2)))
                .unwrap()
                == array![[[INFINITY]]]
        });
    table
        .of("ch05_multihead::Projection::weight")
        .gives("empty", || {
            Projection::from(ones((0, 3))).weight().dim() == (0, 3)
        });
    table
        .of("ch05_multihead::Projection::bias")
        .gives("none", || Projection::from(ones((2, 3))).bias().is_none());
    table
        .of("ch05_multihead::Projection::numbers_mut")
        .gives("empty", || {
            let mut projection = Projection::from(ones((0, 3)));
            let (weight, bias) = projection.numbers_mut();
            weight.dim() == (0, 3) && bias.is_none()
        })
        .gives_each(NOT_FINITE, |x| {
            let mut projection = Projection::new(ones((1, 1)), Some(ones(1))).unwrap();
            let (mut weight, bias) = projection.numbers_mut();
            weight[[0, 0]] = x;
            bias.unwrap()[0] = x;
            let y = projection.apply(&ones((1, 1, 1))).unwrap();
            y[[0, 0, 0]].to_bits() == x.to_bits()
        });
    table
        .of("ch05_multihead::Projection::parameters")
        .gives("empty", || Projection::from(ones((0, 3))).parameters() == 0);
    table
        .of("ch05_multihead::Projection::from")
        .gives("NaN", || {
            Projection::from(all(NAN, (1, 1))).weight()[[0, 0]].is_nan()
        });
    table
        .of("ch05_multihead::Projection::random")
        .gives("empty", || {
            [(0, 0), (0, 3), (3, 0)]
                .into_iter()
                .all(|(width_in, width_out)| {
                    let projection = Projection::<f64>::random(width_in, width_out, &mut rng());
                    projection.weight().dim() == (width_in, width_out)
                        && projection.bias().unwrap().len() == width_out
                })
        })
        .gives("bounds", || {
            let projection = Projection::<f32>::random(1, 2, &mut rng());
            projection.weight().iter().all(|w| w.abs() <= 2_f32.sqrt())
        });
    table
        .of("ch05_multihead::cast")
        .gives_each([NAN, INFINITY, NEG_INFINITY, HUGE], |x| {
            cast::<f64>(x).to_bits() == x.to_bits()
        })
        .gives("more than f32 holds", || {
            cast::<f32>(1e300) == f32::INFINITY
        });
    table
        .of("ch05_multihead::split_heads")
        .refuses("no heads", [6, 0], || split_heads(&ones((1, 2, 6)), 0))
        .refuses("6 among 4", [6, 4], || split_heads(&ones((1, 2, 6)), 4))
        .refuses("2 among 3", [2, 3], || split_heads(&ones((0, 0, 2)), 3))
        .refuses("width 0 among no heads", [0, 0], || {
            split_heads(&ones((1, 2, 0)), 0)
        })
        .refuses("huge", [6, usize::MAX], || {
            split_heads(&ones((1, 2, 6)), usize::MAX)
        })
        .gives("width 0", || {
            split_heads(&ones((1, 2, 0)), 3).unwrap() == zeros((1, 3, 2, 0))
        })
        .gives("no sequence", || {
            split_heads(&ones((0, 2, 6)), 3).unwrap() == zeros((0, 3, 2, 2))
        })
        .gives("NaN", || {
            all_nan(&split_heads(&all(NAN, (1, 1, 4)), 2).unwrap())
        });
    table
        .of("ch05_multihead::merge_heads")
        .gives("empty", || {
            merge_heads(&ones((0, 2, 3, 4))) == zeros((0, 3, 8))
                && merge_heads(&ones((1, 0, 3, 4))) == zeros((1, 3, 0))
                && merge_heads(&ones((1, 2, 0, 4))) == zeros((1, 0, 8))
                && merge_heads(&ones((1, 2, 3, 0))) == zeros((1, 3, 0))
        })
        .gives("NaN", || all_nan(&merge_heads(&all(NAN, (1, 2, 1, 2)))));
    let mut of = table.of("ch05_multihead::dropout");
    for p in [1.0, -0.1, 1.5, NAN, INFINITY, NEG_INFINITY] {
        of = of.refuses(format!("p = {p}"), [p], move || {
            dropout(&ones((1, 1, 1, 1)), p, &mut rng())
        });
    }
    of.gives_each([0.0, -0.0], |p| {
        dropout(&ones((1, 1, 2, 3)), p, &mut rng()).unwrap() == ones((1, 1, 2, 3))
    })
    .gives("p just below 1", || {
        let p = 1.0 - f64::EPSILON / 2.0;
        let dropped = dropout(&Array4::<f32>::ones((1, 1, 2, 3)), p, &mut rng());
        dropped.unwrap().iter().all(|&a| a == 0.0)
    })
    .gives("empty", || {
        dropout(&ones((0, 1, 2, 3)), 0.5, &mut rng())
            .unwrap()
            .is_empty()
    })
    .gives("NaN", || {
        let dropped = dropout(&all(NAN, (1, 1, 4, 4)), 0.5, &mut rng()).unwrap();
        dropped.iter().all(|a| a.is_nan() || *a == 0.0)
    });
    let mut of = table.of("ch05_multihead::check_probability");
    for p in [1.0, -0.1, 1.5, NAN, INFINITY, NEG_INFINITY] {
        of = of.refuses(format!("p = {p}"), [p], move || check_probability(p));
    }
    of.gives_each([0.0, -0.0, 5e-324, 1.0 - f64::EPSILON / 2.0], |p| {
        check_probability(p).is_ok()
    });
    let answer = |weights: Array4<f64>| MultiHeadAnswer {
        output: zeros((1, 1, 1)),
        weights,
    };
    table
        .of("ch05_multihead::MultiHeadAnswer::average_weights")
        .gives("no heads", move || {
            answer(ones((2, 0, 3, 4))).average_weights() == zeros((2, 3, 4))
        })
        .gives("empty", move || {
            answer(ones((0, 2, 3, 4))).average_weights() == zeros((0, 3, 4))
        })
        .gives_each(NOT_FINITE, move |x| {
            let average = answer(array![[[[x]], [[1.0]]]]).average_weights();
            average[[0, 0, 0]].to_bits() == x.to_bits()
        });
}

fn chapter_5_attention(table: &mut Table) {
    table
        .of("ch05_multihead::MultiHeadAttention::new")
        .refuses("no heads", [0], || head_of(0, [(4, 4); 4]))
        .refuses("queries of 4, keys of 6", [4, 6], || {
            head_of(2, [(3, 4), (3, 6), (3, 4), (4, 3)])
        })
        .refuses("values of 4, output of 6", [4, 6], || {
            head_of(2, [(3, 4), (3, 4), (3, 4), (6, 3)])
        })
        .refuses("keys of 4 among 3", [4, 3], || {
            head_of(3, [(3, 4), (3, 4), (3, 6), (6, 3)])
        })
        .refuses("values of 5 among 2", [5, 2], || {
            head_of(2, [(3, 4), (3, 4), (3, 5), (5, 3)])
        })
        .refuses("huge", [4, usize::MAX], || head_of(usize::MAX, [(4, 4); 4]))
        .refuses("keys projected to 0", [0], || head_of(2, [(0, 0); 4]))
        .gives("empty vectors", || {
            head_of(2, [(0, 2), (0, 2), (0, 0), (0, 0)]).is_ok()
        });
    let mut of = table.of("ch05_multihead::MultiHeadAttention::with_dropout");
    for p in [1.0, -0.1, NAN, INFINITY] {
        of = of.refuses(format!("p = {p}"), [p], move || two_heads().with_dropout(p));
    }
    of.gives("p = 0", || {
        two_heads().with_dropout(0.0).unwrap() == two_heads()
    });
    let remember = |keys: (usize, usize, usize), values: (usize, usize, usize)| {
        two_headed([3, 5, 6, 3]).remember(&ones(keys), &ones(values))
    };
    table
        .of("ch05_multihead::MultiHeadAttention::remember")
        .refuses("keys of 4 for 5", [4, 5], move || {
            remember((1, 2, 4), (1, 2, 6))
        })
        .refuses("values of 7 for 6", [7, 6], move || {
            remember((1, 2, 5), (1, 2, 7))
        })
        .refuses("2 keys, 3 values", [1, 2, 1, 3], move || {
            remember((1, 2, 5), (1, 3, 6))
        })
        .refuses("batches of 1 and 4", [1, 2, 4, 2], move || {
            remember((1, 2, 5), (4, 2, 6))
        })
        .gives("empty", move || {
            let memory = remember((0, 2, 5), (0, 2, 6)).unwrap();
            (memory.keys.dim(), memory.values.dim()) == ((0, 2, 2, 2), (0, 2, 2, 2))
        })
        .gives("NaN", || {
            let (keys, values) = (all(NAN, (1, 1, 5)), ones((1, 1, 6)));
            let memory = two_headed([3, 5, 6, 3]).remember(&keys, &values).unwrap();
            all_nan(&memory.keys) && !memory.values.iter().any(|v| v.is_nan())
        });
    type Ask = fn((usize, usize, usize), &Memory<f64>, &Mask) -> Result<Array3<f64>>;
    let ask: Ask = |queries, memory, mask| {
        let answer = two_headed([3, 5, 6, 3]).ask(&ones(queries), memory, mask);
        Ok(answer?.output)
    };
    let steps: Ask = |queries, memory, mask| {
        let steps = two_headed([3, 5, 6, 3]).ask_in_steps(&ones(queries), memory, mask);
        Ok(steps?.output)
    };
    let train: Ask = |queries, memory, mask| {
        let attention = two_headed([3, 5, 6, 3]).with_dropout(0.5)?;
        let steps = attention.ask_in_training(&ones(queries), memory, mask, &mut rng());
        Ok(steps?.output)
    };
    for (function, ask) in [
        ("ch05_multihead::MultiHeadAttention::ask", ask),
        ("ch05_multihead::MultiHeadAttention::ask_in_steps", steps),
        ("ch05_multihead::MultiHeadAttention::ask_in_training", train),
    ] {
        let good = || memory([1, 2, 4, 2], [1, 2, 4, 2]);
        let everything = Mask::everything;
        table
            .of(function)
            .refuses("queries of 4 for 3", [4, 3], move || {
                ask((1, 1, 4), &good(), &everything())
            })
            .refuses("a batch of 5 for 1", [5, 2, 1, 2], move || {
                ask((5, 1, 3), &good(), &everything())
            })
            .refuses("a memory of 7 heads", [1, 2, 1, 7], move || {
                ask(
                    (1, 1, 3),
                    &memory([1, 7, 4, 2], [1, 7, 4, 2]),
                    &everything(),
                )
            })
            .refuses("values of 7 heads", [1, 2, 1, 7], move || {
                ask(
                    (1, 1, 3),
                    &memory([1, 2, 4, 2], [1, 7, 4, 2]),
                    &everything(),
                )
            })
            .refuses("keys of 3 for 2", [2, 3], move || {
                ask(
                    (1, 1, 3),
                    &memory([1, 2, 4, 3], [1, 2, 4, 2]),
                    &everything(),
                )
            })
            .refuses("4 keys, 5 values", [4, 5], move || {
                ask(
                    (1, 1, 3),
                    &memory([1, 2, 4, 2], [1, 2, 5, 2]),
                    &everything(),
                )
            })
            .refuses("values too wide", [6, 4], move || {
                ask(
                    (1, 1, 3),
                    &memory([1, 2, 4, 2], [1, 2, 4, 3]),
                    &everything(),
                )
            })
            .refuses(
                "a mask that does not fit",
                [1, 1, 1, 9, 1, 2, 1, 4],
                move || ask((1, 1, 3), &good(), &Mask::causal(1, 9)),
            )
            .gives("no queries", move || {
                ask((1, 0, 3), &good(), &everything()).unwrap() == zeros((1, 0, 3))
            })
            .gives("an empty memory", move || {
                let empty = memory([1, 2, 0, 2], [1, 2, 0, 2]);
                ask((1, 2, 3), &empty, &everything()).unwrap() == zeros((1, 2, 3))
            })
            .gives("nothing allowed", move || {
                let nothing = Mask::from_fn((1, 1, 1, 1), |_, _, _, _| false);
                ask((1, 2, 3), &good(), &nothing).unwrap() == zeros((1, 2, 3))
            });
    }
    table
        .of("ch05_multihead::MultiHeadAttention::random")
        .refuses("no heads", [0], || {
            MultiHeadAttention::<f64>::random(4, 0, &mut rng())
        })
        .refuses("4 among 3", [4, 3], || {
            MultiHeadAttention::<f64>::random(4, 3, &mut rng())
        })
        .refuses("width 0", [0], || {
            MultiHeadAttention::<f32>::random(0, 2, &mut rng())
        });
    table
        .of("ch05_multihead::MultiHeadAttention::heads")
        .gives("empty vectors", || {
            let head = head_of(7, [(0, 7), (0, 7), (0, 0), (0, 0)]);
            head.unwrap().heads() == 7
        });
    table
        .of("ch05_multihead::MultiHeadAttention::projections")
        .gives("other widths", || {
            two_headed([3, 5, 6, 7])
                .projections()
                .map(|p| p.weight().dim())
                == [(3, 4), (5, 4), (6, 4), (4, 7)]
        });
    table
        .of("ch05_multihead::MultiHeadAttention::projections_mut")
        .gives("NaN", || {
            let mut head = two_headed([3, 5, 6, 7]);
            for projection in head.projections_mut() {
                projection.numbers_mut().0.fill(NAN);
            }
            head.projections().iter().all(|p| all_nan(p.weight()))
        });
    table
        .of("ch05_multihead::MultiHeadAttention::parameters")
        .gives("empty vectors", || {
            let head = head_of(1, [(0, 1), (0, 1), (0, 0), (0, 0)]);
            head.unwrap().parameters() == 0
        });
    table
        .of("ch05_multihead::giver_and_receiver")
        .gives_each([NAN, INFINITY, HUGE], |x| {
            giver_and_receiver(x, 1.0)[[0, 1, 3]].to_bits() == x.to_bits()
        });
    table
        .of("ch05_multihead::two_heads")
        .gives("nothing", || two_heads().heads() == 2);
    table
        .of("ch05_multihead::one_head")
        .gives("nothing", || one_head().heads() == 1);
}

/// The three ways of asking in one call, with one sequence or two; each refuses what the other does.
fn asking(table: &mut Table) {
    type Ask = fn(&MultiHeadAttention<f64>, Array3<f64>, &Mask) -> Result<MultiHeadAnswer<f64>>;
    let attend: Ask = |head, x, mask| head.attend(&x, &x, &x, mask);
    let itself: Ask = |head, x, mask| self_attention(head, &x, mask);
    let other: Ask = |head, x, mask| cross_attention(head, &x, &x, mask);
    for (function, ask) in [
        ("ch05_multihead::MultiHeadAttention::attend", attend),
        ("ch06_self_attention::self_attention", itself),
        ("ch07_cross_attention::cross_attention", other),
    ] {
        let everything = Mask::everything;
        let head = || two_headed([3, 3, 3, 5]);
        table
            .of(function)
            .refuses("vectors of 4 for 3", [4, 3], move || {
                ask(&head(), ones((1, 2, 4)), &everything())
            })
            .refuses(
                "a mask that does not fit",
                [1, 1, 9, 9, 1, 2, 2, 2],
                move || ask(&head(), ones((1, 2, 3)), &Mask::causal(9, 9)),
            )
            .refuses("padding of 4 for 1", [4, 1, 1, 2, 1, 2, 2, 2], move || {
                ask(
                    &head(),
                    ones((1, 2, 3)),
                    &Mask::padding(&[1; 4], 2).unwrap(),
                )
            })
            .gives("no sequence", move || {
                ask(&head(), ones((0, 2, 3)), &everything()).unwrap().output == zeros((0, 2, 5))
            })
            .gives("an empty sequence", move || {
                let answer = ask(&head(), ones((1, 0, 3)), &everything()).unwrap();
                answer.output == zeros((1, 0, 5)) && answer.weights == zeros((1, 2, 0, 0))
            })
            .gives("all padding", move || {
                let padding = Mask::padding(&[0], 2).unwrap();
                ask(&head(), all(NAN, (1, 2, 3)), &padding).unwrap().output == zeros((1, 2, 5))
            })
            .gives_each([NAN, INFINITY, NEG_INFINITY, HUGE], move |x| {
                let mut sequences = ones((2, 2, 3));
                sequences.slice_mut(s![0, .., ..]).fill(x);
                let answer = ask(&head(), sequences, &everything()).unwrap();
                let [poisoned, clean] =
                    [0, 1].map(|b| answer.output.slice(s![b, .., ..]).to_owned());
                all_nan(&poisoned) && clean.iter().all(|y| y.is_finite())
            });
    }
    let cross = |decoder: (usize, usize, usize), memory: (usize, usize, usize)| {
        let head = two_headed([3, 5, 5, 3]);
        let (decoder, memory) = (ones(decoder), ones(memory));
        cross_attention(&head, &decoder, &memory, &Mask::everything())
    };
    table
        .of("ch07_cross_attention::cross_attention")
        .refuses("a decoder of 5 for 3", [5, 3], move || {
            cross((1, 2, 5), (1, 4, 5))
        })
        .refuses("a memory of 3 for 5", [3, 5], move || {
            cross((1, 2, 3), (1, 4, 3))
        })
        .refuses("batches of 2 and 3", [2, 2, 3, 2], move || {
            cross((2, 1, 3), (3, 4, 5))
        })
        .gives("nothing to read", move || {
            cross((1, 2, 3), (1, 0, 5)).unwrap().output == zeros((1, 2, 3))
        });
    table
        .of("ch05_multihead::MultiHeadAttention::attend")
        .refuses("2 keys, 3 values", [1, 2, 1, 3], || {
            let [q, k, v] = [1, 2, 3].map(|n| ones((1, n, 3)));
            let head = two_headed([3; 4]);
            head.attend(&q, &k, &v, &Mask::everything())
        });
}

fn chapter_6(table: &mut Table) {
    table
        .of("ch06_self_attention::bidirectional_mask")
        .gives("empty", || {
            let mask = bidirectional_mask(&Array2::zeros((0, 3)), 0);
            mask == Mask::padding(&[], 3).unwrap()
        })
        .gives("all pad", || {
            bidirectional_mask(&array![[7, 7]], 7) == Mask::padding(&[0], 2).unwrap()
        });
    table
        .of("ch06_self_attention::causal_mask")
        .gives("empty", || {
            [(0, 3), (2, 0), (0, 0)].into_iter().all(|(batch, n)| {
                let mask = causal_mask(&Array2::zeros((batch, n)), 0).unwrap();
                mask.fit((batch, 1, n, n)).unwrap().is_empty()
            })
        })
        .gives("all pad", || {
            causal_mask(&array![[7, 7]], 7).unwrap().to_string() == " · ·\n · ·"
        })
        .gives("one token", || {
            causal_mask(&array![[1], [0]], 0).unwrap().to_string() == " 1\n ·"
        });
    table
        .of("ch06_self_attention::sinusoidal_positions")
        .gives("empty", || {
            sinusoidal_positions::<f64>(0, 4).is_empty()
                && sinusoidal_positions::<f64>(3, 0) == zeros((3, 0))
        })
        .gives("an odd width", || {
            let odd = sinusoidal_positions::<f64>(2, 3);
            odd.column(0) == array![0.0, 1_f64.sin()] && odd[[0, 2]] == 0.0
        });
    let turn =
        |shape: (usize, usize, usize, usize), positions: &[usize]| rotate(&ones(shape), positions);
    table
        .of("ch06_self_attention::rotate")
        .refuses("an odd width", [3], move || turn((1, 1, 2, 3), &[0, 1]))
        .refuses("width 1", [1], move || turn((1, 1, 1, 1), &[0]))
        .refuses("2 vectors, 3 positions", [2, 3], move || {
            turn((1, 1, 2, 4), &[0, 1, 2])
        })
        .refuses("2 vectors, no positions", [2, 0], move || {
            turn((1, 1, 2, 4), &[])
        })
        .refuses("no vectors, 1 position", [0, 1], move || {
            turn((0, 0, 0, 4), &[5])
        })
        .gives("width 0", move || {
            turn((1, 1, 2, 0), &[0, 1]).unwrap() == zeros((1, 1, 2, 0))
        })
        .gives("empty", move || {
            turn((0, 1, 1, 2), &[9]).unwrap().is_empty()
        })
        .gives("a huge position", move || {
            let turned = turn((1, 1, 1, 2), &[usize::MAX]).unwrap();
            (turned.mapv(|x| x * x).sum() - 2.0).abs() < 1e-12
        })
        .gives_each(NOT_FINITE, |x| {
            let turned = rotate(&array![[[[1.0, x, 1.0, 1.0]]]], &[1]).unwrap();
            let finite: Vec<bool> = turned.iter().map(|y| y.is_finite()).collect();
            !finite[0] && !finite[1] && finite[2] && finite[3]
        });
    table
        .of("ch06_self_attention::token_positions")
        .gives("empty", || {
            token_positions(&Array2::zeros((2, 0)), 0).dim() == (2, 0)
        })
        .gives("all pad", || {
            token_positions(&array![[7, 7, 7]], 7) == array![[0, 0, 0]]
        })
        .gives("no pad", || {
            token_positions(&array![[7, 7, 7]], u32::MAX) == array![[0, 1, 2]]
        });
    table
        .of("ch06_self_attention::Cost::of_self_attention")
        .gives("empty", || {
            let cost = Cost::of_self_attention(0, 0);
            (cost.multiplications, cost.path) == (0, 0)
        })
        .gives("huge", || {
            let huge = u128::from(u32::MAX);
            Cost::of_self_attention(u32::MAX, u32::MAX).multiplications == 2 * huge * huge * huge
        });
    table
        .of("ch06_self_attention::Cost::of_recurrence")
        .gives("empty", || {
            let cost = Cost::of_recurrence(0, 0);
            (cost.multiplications, cost.sequential, cost.path) == (0, 0, 0)
        })
        .gives("huge", || {
            let huge = u128::from(u32::MAX);
            Cost::of_recurrence(u32::MAX, u32::MAX).multiplications == 2 * huge * huge * huge
        });
    let mut of = table.of("ch06_self_attention::Cost::of_convolution");
    for width in [0, 1, 2, 4, u32::MAX - 1] {
        of = of.refuses(format!("{width} neighbours"), [width], move || {
            Cost::of_convolution(5, 5, width)
        });
    }
    of.gives("empty", || Cost::of_convolution(0, 0, 3).unwrap().path == 0)
        .gives("huge", || {
            Cost::of_convolution(1, 1, u32::MAX)
                .unwrap()
                .multiplications
                == u128::from(u32::MAX)
        });
    table
        .of("ch06_self_attention::words")
        .gives("nothing", || words().dim() == (4, 10));
    table
        .of("ch06_self_attention::word_head")
        .gives("nothing", || word_head().heads() == 1);
    table
        .of("ch06_self_attention::columns")
        .gives("columns beyond the width", || columns(2, 1, 3).sum() == 1.0)
        .gives("a width of 0", || columns(0, 0, 2).dim() == (0, 2));
    table
        .of("ch06_self_attention::sentence")
        .gives("nothing", || sentence().1.dim() == (6, 10));
    table
        .of("ch06_self_attention::wants_meet_offers")
        .gives("nothing", || wants_meet_offers().heads() == 1);
}

fn chapter_7(table: &mut Table) {
    table
        .of("ch07_cross_attention::alignment")
        .gives("no rows", || alignment(&ones((0, 3))).is_empty())
        .gives("no columns", || alignment(&ones((2, 0))) == [None, None])
        .gives("zeros", || alignment(&zeros((1, 3))) == [None])
        .gives("a tie", || alignment(&ones((1, 3))) == [Some(0)])
        .gives("negative", || alignment(&all(-1.0, (1, 3))) == [None])
        .gives("NaN", || {
            alignment(&array![[NAN, 0.5, NAN], [NAN, NAN, NAN]]) == [Some(1), None]
        })
        .gives("a +∞", || {
            alignment(&array![[1.0, INFINITY]]) == [Some(1)]
        });
    table
        .of("ch07_cross_attention::source")
        .gives("nothing", || source().1.dim() == (5, 10));
    table
        .of("ch07_cross_attention::target")
        .gives("nothing", || target().1.dim() == (6, 4));
    table
        .of("ch07_cross_attention::plain_head")
        .gives("nothing", || plain_head().heads() == 1);
}

fn model(layers: usize, heads: usize) -> Model {
    Model {
        layers,
        heads,
        kv_heads: heads,
        d_k: 2,
        bytes: 4,
    }
}

fn partial(output: (usize, usize, usize, usize), sums: (usize, usize, usize)) -> Partial<f64> {
    Partial {
        output: ones(output),
        largest: ones(sums),
        sum: ones(sums),
    }
}

fn chapter_10_parts(table: &mut Table) {
    const MOST: usize = usize::MAX;
    type Count = fn(Model, usize) -> u128;
    let counts: [(&str, Count); 6] = [
        ("operations", |model, n| model.operations(n, n)),
        ("score_bytes", |model, n| model.score_bytes(n, n)),
        ("operand_bytes", |model, n| model.operand_bytes(n, n)),
        ("cache_bytes", |model, n| model.cache_bytes(n)),
        ("ring_bytes", |model, n| model.ring_bytes(n, 3)),
        ("partial_bytes", |model, n| model.partial_bytes(n)),
    ];
    for (name, count) in counts {
        let function: &'static str = format!("ch10_efficient::Model::{name}").leak();
        table
            .of(function)
            .gives("no length", move || count(model(2, 3), 0) == 0)
            .gives("no heads", move || count(model(2, 0), 5) == 0)
            .gives("more than can be counted", move || {
                let largest = Model {
                    d_k: MOST,
                    bytes: MOST,
                    ..model(MOST, MOST)
                };
                count(largest, MOST) == u128::MAX
            });
    }
    table
        .of("ch10_efficient::Model::with_kv_heads")
        .gives("0", || model(2, 3).with_kv_heads(0).cache_bytes(9) == 0);
    table
        .of("ch10_efficient::group_size")
        .refuses("3 for 2", [3, 2], || group_size(3, 2))
        .refuses("3 for 0", [3, 0], || group_size(3, 0))
        .refuses("2 for 4", [2, 4], || group_size(2, 4))
        .gives("none for none", || group_size(0, 0).unwrap() == 1);
    table
        .of("ch10_efficient::repeat_heads")
        .refuses("3 for 2", [3, 2], || repeat_heads(&ones((1, 2, 3, 4)), 3))
        .gives("nothing", || {
            repeat_heads(&ones((1, 2, 0, 4)), 6).unwrap() == ones((1, 6, 0, 4))
        });
    table
        .of("ch10_efficient::Visible::everything")
        .gives("no positions", || {
            Visible::everything().span(0, 0, 0) == (0..0)
        });
    table
        .of("ch10_efficient::Visible::causal")
        .gives("more queries than keys", || {
            Visible::causal().span(0, 5, 2).is_empty()
        });
    table
        .of("ch10_efficient::Visible::window")
        .refuses("width 0", [0], || Visible::window(0))
        .gives("the widest", || {
            Visible::window(MOST).unwrap().span(3, 4, 4) == (0..4)
        });
    table
        .of("ch10_efficient::Visible::and")
        .gives("a mask too small", || {
            let mask = Mask::causal(2, 2);
            let visible = Visible::everything().and(&mask);
            let block = visible.block((0..3, 3), (0..3, 3), (1, 1));
            !block.allows(0, 0, 2, 2) && block.allows(0, 0, 1, 1)
        });
    table
        .of("ch10_efficient::Visible::masks")
        .gives("none", || Visible::causal().masks().is_empty())
        .gives("two, and both hold", || {
            let [left, right] = [&[false, true], &[true, false]]
                .map(|allowed: &[bool; 2]| Mask::from_fn((1, 1, 1, 2), |_, _, _, j| allowed[j]));
            let visible = Visible::everything().and(&left).and(&right);
            let block = visible.block((0..1, 1), (0..2, 2), (1, 1));
            visible.masks().len() == 2 && block == (&left & &right).unwrap()
        });
    table
        .of("ch10_efficient::Visible::span")
        .gives("a query beyond all", || {
            Visible::causal().span(MOST, 1, 4) == (0..4)
        });
    table
        .of("ch10_efficient::Visible::span_of")
        .gives("no queries", || {
            Visible::causal().span_of(0..0, 0, 4) == (0..4)
        });
    table
        .of("ch10_efficient::Visible::block")
        .gives("nothing", || {
            let block = Visible::causal().block((0..0, 0), (0..0, 0), (0, 0));
            format!("{block:?}") == "1 × 1 × 0 × 0"
        });
    table
        .of("ch10_efficient::Online::new")
        .gives("no width", || Online::<f64>::new(0).answer().0.is_empty());
    let see = |scores: Vec<f64>, values: Array2<f64>| {
        let mut online = Online::new(2);
        online.see(&Array1::from(scores), &values)?;
        Ok::<_, anyhow::Error>(online.answer())
    };
    table
        .of("ch10_efficient::Online::see")
        .refuses("1 score, 2 values", [1, 2], move || {
            see(vec![1.0], ones((2, 2)))
        })
        .refuses("another width", [3, 2], move || {
            see(vec![1.0], ones((1, 3)))
        })
        .gives("a value of NaN behind −∞", move || {
            see(vec![NEG_INFINITY, 1.0], array![[NAN, NAN], [1.0, 1.0]])
                .unwrap()
                .0
                == ones(2)
        })
        .gives_each([NAN, INFINITY], move |x| {
            let (answer, _) = see(vec![x, 1.0], ones((2, 2))).unwrap();
            all_nan(&answer)
        });
    table
        .of("ch10_efficient::Online::answer")
        .gives("no keys", move || {
            see(vec![], ones((0, 2))).unwrap() == (zeros(2), NEG_INFINITY)
        });
    table
        .of("ch10_efficient::rising_example")
        .gives("nothing", || rising_example().1.dim() == (4, 2));
    table
        .of("ch10_efficient::Partial::empty")
        .gives("no queries", || {
            Partial::<f64>::empty((0, 0, 0, 0)).output.is_empty()
        });
    table
        .of("ch10_efficient::Partial::log_sum_exp")
        .gives("nothing seen", || {
            let sums = Partial::<f64>::empty((1, 1, 1, 1)).log_sum_exp();
            sums[[0, 0, 0]] == NEG_INFINITY
        })
        .gives("beside a large score", || {
            let mut part = partial((1, 1, 1, 1), (1, 1, 1));
            part.largest.fill(1e16);
            part.log_sum_exp()[[0, 0, 0]] == 1e16
        });
    table
        .of("ch10_efficient::merge")
        .refuses("2 and 3 queries", [1, 1, 2, 4, 1, 1, 3, 4], || {
            merge(
                &partial((1, 1, 2, 4), (1, 1, 2)),
                &partial((1, 1, 3, 4), (1, 1, 3)),
            )
        })
        .refuses("sums for others", [1, 1, 2, 1, 1, 3], || {
            merge(
                &partial((1, 1, 2, 4), (1, 1, 2)),
                &partial((1, 1, 2, 4), (1, 1, 3)),
            )
        })
        .gives("a NaN", || {
            let mut bad = partial((1, 1, 1, 2), (1, 1, 1));
            bad.largest.fill(NAN);
            all_nan(&merge(&bad, &bad).unwrap().output)
        });
    let cache = || KeyValueCache::<f64>::new(1, 2, 3, (4, 5));
    table
        .of("ch10_efficient::KeyValueCache::new")
        .gives("no room", || {
            KeyValueCache::<f64>::new(0, 0, 0, (0, 0)).length() == 0
        });
    table
        .of("ch10_efficient::KeyValueCache::length")
        .gives("empty", move || cache().length() == 0);
    table
        .of("ch10_efficient::KeyValueCache::keys")
        .gives("empty", move || cache().keys().dim() == (1, 2, 0, 4));
    table
        .of("ch10_efficient::KeyValueCache::values")
        .gives("empty", move || cache().values().dim() == (1, 2, 0, 5));
    let extend = move |keys, values| {
        let mut cache = cache();
        let (keys, values) = (
            ones::<(usize, usize, usize, usize)>(keys),
            ones::<(usize, usize, usize, usize)>(values),
        );
        cache.extend(&keys, &values).map(|()| cache)
    };
    table
        .of("ch10_efficient::KeyValueCache::extend")
        .refuses("4 for 3", [3, 0, 4], move || {
            extend((1, 2, 4, 4), (1, 2, 4, 5))
        })
        .refuses("other heads", [1, 2, 1, 4, 1, 3, 1, 4], move || {
            extend((1, 3, 1, 4), (1, 3, 1, 5))
        })
        .refuses("2 keys, 1 value", [1, 2, 2, 5, 1, 2, 1, 5], move || {
            extend((1, 2, 2, 4), (1, 2, 1, 5))
        })
        .gives("nothing", move || {
            extend((1, 2, 0, 4), (1, 2, 0, 5)).unwrap().length() == 0
        });
    table
        .of("ch10_efficient::KeyValueCache::ask")
        .refuses("3 heads for 2", [3, 2], move || {
            cache().ask(&ones((1, 3, 1, 4)), &Mask::everything())
        })
        .gives("an empty cache", move || {
            let answer = cache().ask(&ones((1, 2, 1, 4)), &Mask::everything());
            answer.unwrap().output == zeros((1, 2, 1, 5))
        });
    table
        .of("ch10_efficient::exp2")
        .gives("below all floats", || {
            let mut lanes = vec![f32::NEG_INFINITY; 64];
            pulp::Arch::new().dispatch(Powers(&mut lanes));
            lanes == vec![0.0; 64]
        });
}

struct Powers<'a>(&'a mut [f32]);

impl pulp::WithSimd for Powers<'_> {
    type Output = ();

    fn with_simd<S: pulp::Simd>(self, simd: S) {
        for x in S::as_mut_simd_f32s(self.0).0 {
            *x = exp2(simd, *x);
        }
    }
}

type Sizes4 = (usize, usize, usize, usize);

fn chapter_10_attention(table: &mut Table) {
    type Way = fn(Sizes4, Sizes4, Sizes4, &Mask) -> Result<Array4<f64>>;
    let ways: [(&str, Way); 7] = [
        ("grouped_attention", |q, k, v, mask| {
            let answer = grouped_attention(&ones(q), &ones(k), &ones(v), mask);
            Ok(answer?.output)
        }),
        ("partial_attention", |q, k, v, mask| {
            // This one takes heads that are repeated already.
            anyhow::ensure!(k.1 == v.1, "{} heads of keys but {} of values", k.1, v.1);
            let (k, v) = (repeat_heads(&ones(k), q.1)?, repeat_heads(&ones(v), q.1)?);
            Ok(partial_attention(&ones(q), &k, &v, mask)?.output)
        }),
        ("tiled_attention", |q, k, v, mask| {
            let visible = Visible::everything().and(mask);
            tiled_attention(&ones(q), &ones(k), &ones(v), &visible, 2)
        }),
        ("spread_attention", |q, k, v, mask| {
            let visible = Visible::everything().and(mask);
            spread_attention(&ones(q), &ones(k), &ones(v), &visible, 2)
        }),
        ("ring_attention", |q, k, v, mask| {
            let visible = Visible::everything().and(mask);
            ring_attention(&ones(q), &ones(k), &ones(v), &visible, 2)
        }),
        ("fast_attention", |q, k, v, mask| {
            let visible = Visible::everything().and(mask);
            let [q, k, v] = [q, k, v].map(Array4::<f32>::ones);
            let answer = fast_attention(&q, &k, &v, &visible);
            Ok(answer?.mapv(f64::from))
        }),
        ("fast_attention_on", |q, k, v, mask| {
            let visible = Visible::everything().and(mask);
            let [q, k, v] = [q, k, v].map(Array4::<f32>::ones);
            let scalar = pulp::Arch::Scalar;
            let answer = fast_attention_on(scalar, &q, &k, &v, &visible);
            Ok(answer?.mapv(f64::from))
        }),
    ];
    for (name, way) in ways {
        let everything = Mask::everything;
        table
            .of(format!("ch10_efficient::{name}").leak())
            .refuses("widths 3 and 4", [3, 4], move || {
                way((1, 1, 2, 3), (1, 1, 2, 4), (1, 1, 2, 4), &everything())
            })
            .refuses("no width", [0], move || {
                way((1, 1, 2, 0), (1, 1, 2, 0), (1, 1, 2, 4), &everything())
            })
            .refuses("3 heads for 2", [3, 2], move || {
                way((1, 3, 2, 4), (1, 2, 2, 4), (1, 2, 2, 4), &everything())
            })
            .refuses("2 keys, 3 values", [2, 3], move || {
                way((1, 1, 2, 4), (1, 1, 2, 4), (1, 1, 3, 4), &everything())
            })
            .refuses("2 heads of keys, 3 of values", [2, 3], move || {
                // Both divide 6.
                way((1, 6, 2, 4), (1, 2, 2, 4), (1, 3, 2, 4), &everything())
            })
            .refuses("batches of 2 and 3", [2, 3], move || {
                way((2, 1, 2, 4), (3, 1, 2, 4), (3, 1, 2, 4), &everything())
            })
            .refuses("another mask", [5, 5, 2, 2], move || {
                let mask = Mask::causal(5, 5);
                way((1, 1, 2, 4), (1, 1, 2, 4), (1, 1, 2, 4), &mask)
            })
            .gives("no keys", move || {
                let answer = way((1, 2, 3, 4), (1, 1, 0, 4), (1, 1, 0, 5), &everything());
                answer.unwrap() == zeros((1, 2, 3, 5))
            })
            .gives("no queries", move || {
                let answer = way((1, 2, 0, 4), (1, 1, 3, 4), (1, 1, 3, 5), &everything());
                answer.unwrap() == zeros((1, 2, 0, 5))
            })
            .gives("no sequence", move || {
                let answer = way((0, 2, 1, 4), (0, 1, 3, 4), (0, 1, 3, 5), &everything());
                answer.unwrap() == zeros((0, 2, 1, 5))
            })
            .gives("nothing allowed", move || {
                let nothing = Mask::from_fn((1, 1, 1, 1), |_, _, _, _| false);
                let answer = way((1, 1, 2, 4), (1, 1, 2, 4), (1, 1, 2, 4), &nothing);
                answer.unwrap() == zeros((1, 1, 2, 4))
            });
    }
    let x = || ones((1, 1, 2, 4));
    table
        .of("ch10_efficient::tiled_attention")
        .refuses("a tile of 0", [0], move || {
            tiled_attention(&x(), &x(), &x(), &Visible::causal(), 0)
        })
        .gives("a tile of all", move || {
            let most = usize::MAX;
            tiled_attention(&x(), &x(), &x(), &Visible::causal(), most).unwrap() == x()
        });
    table
        .of("ch10_efficient::spread_attention")
        .refuses("0 workers", [0], move || {
            spread_attention(&x(), &x(), &x(), &Visible::causal(), 0)
        })
        .gives("too many workers", move || {
            let many = usize::MAX;
            spread_attention(&x(), &x(), &x(), &Visible::causal(), many).unwrap() == x()
        });
    table
        .of("ch10_efficient::ring_attention")
        .refuses("0 workers", [0], move || {
            ring_attention(&x(), &x(), &x(), &Visible::causal(), 0)
        })
        .gives("too many workers", move || {
            let many = usize::MAX;
            ring_attention(&x(), &x(), &x(), &Visible::causal(), many).unwrap() == x()
        });
    table.of("ch10_efficient::Sizes::new").refuses(
        "2 keys, 3 values",
        [1, 1, 2, 1, 1, 3],
        move || {
            let v = ones((1, 1, 3, 4));
            Sizes::new(&x(), &x(), &v, &Visible::causal())
        },
    );
}

fn chapter_10_operator(table: &mut Table) {
    let attend = |operator: OnnxAttention<f64>, sizes: [&[usize]; 3]| {
        let [q, k, v] = sizes.map(ones);
        operator.attend(&OnnxInputs {
            queries: q.view(),
            keys: k.view(),
            values: v.view(),
            mask: None,
            past: None,
            lengths: None,
        })
    };
    let four: [&'static [usize]; 3] = [&[1, 2, 3, 4]; 3];
    let plain = OnnxAttention::default;
    let masked = |mask: Array<f64, ndarray::IxDyn>| {
        let x = ones(&[1, 1, 2, 2][..]);
        OnnxAttention::default().attend(&OnnxInputs {
            queries: x.view(),
            keys: x.view(),
            values: x.view(),
            mask: Some(OnnxMask::Added(mask.view())),
            past: None,
            lengths: None,
        })
    };
    let lengths = |lengths: &[usize], past: bool| {
        let x = ones(&[1, 1, 2, 2][..]);
        let before = ones((1, 1, 1, 2));
        OnnxAttention::default().attend(&OnnxInputs {
            queries: x.view(),
            keys: x.view(),
            values: x.view(),
            mask: None,
            past: past.then(|| (before.view(), before.view())),
            lengths: Some(lengths),
        })
    };
    table
        .of("ch10_efficient::OnnxAttention::attend")
        .refuses("three axes without heads", [] as [usize; 0], move || {
            attend(plain(), [&[1, 2, 4]; 3])
        })
        .refuses("two axes", [2], move || attend(plain(), [&[2, 4]; 3]))
        .refuses("3 heads for 4", [4, 3], move || {
            let operator = OnnxAttention {
                heads: Some((3, 1)),
                ..plain()
            };
            attend(operator, [&[1, 2, 4]; 3])
        })
        .refuses("0 heads", [4, 0], move || {
            let operator = OnnxAttention {
                heads: Some((0, 0)),
                ..plain()
            };
            attend(operator, [&[1, 2, 4]; 3])
        })
        .refuses("other heads", [2, 3], move || {
            let operator = OnnxAttention {
                heads: Some((3, 2)),
                ..plain()
            };
            attend(operator, four)
        })
        .refuses("batches of 1 and 2", [1, 2], move || {
            attend(plain(), [&[1, 2, 3, 4], &[2, 2, 3, 4], &[2, 2, 3, 4]])
        })
        .refuses("3 keys, 4 values", [3, 4], move || {
            attend(plain(), [&[1, 2, 3, 4], &[1, 2, 3, 4], &[1, 2, 4, 4]])
        })
        .refuses("2 heads of keys, 3 of values", [2, 3], move || {
            attend(plain(), [&[1, 6, 3, 4], &[1, 2, 3, 4], &[1, 3, 3, 4]])
        })
        .refuses("a mask of 3 × 2", [3, 2, 1, 1, 2, 2], move || {
            masked(ones(&[3, 2][..]))
        })
        .refuses("a mask without axes", [] as [usize; 0], move || {
            masked(ones(&[] as &[usize]))
        })
        .refuses("2 lengths for 1", [1, 2], move || lengths(&[1, 1], false))
        .refuses("a length of 3", [0, 3, 2], move || lengths(&[3], false))
        .refuses("lengths and a past", [] as [usize; 0], move || {
            lengths(&[1], true)
        })
        .gives("no keys", move || {
            let answer = attend(plain(), [&[1, 2, 3, 4], &[1, 2, 0, 4], &[1, 2, 0, 5]]);
            answer.unwrap().output == zeros(&[1, 2, 3, 5][..])
        })
        .gives("a mask of NaN", move || {
            all_nan(&masked(all(NAN, &[2, 2][..])).unwrap().output)
        });
    for x in [NAN, INFINITY, NEG_INFINITY, -1.0] {
        table
            .of("ch10_efficient::OnnxAttention::attend")
            .refuses(format!("scale {x}"), [x], move || {
                let operator = OnnxAttention {
                    scale: Some(x),
                    ..plain()
                };
                attend(operator, four)
            })
            .refuses(format!("softcap {x}"), [x], move || {
                let operator = OnnxAttention {
                    softcap: x,
                    ..plain()
                };
                attend(operator, four)
            });
    }
}

fn table() -> Table {
    let mut table = Table::default();
    for fill in [
        chapter_1,
        chapter_2,
        chapter_3,
        chapter_4_masks,
        chapter_4,
        chapter_5_parts,
        chapter_5_attention,
        asking,
        chapter_6,
        chapter_7,
        chapter_10_parts,
        chapter_10_attention,
        chapter_10_operator,
    ] {
        fill(&mut table);
    }
    for fill in chapters_8_and_9::FILLS {
        fill(&mut table);
    }
    table
}

#[test]
fn bad_input_is_refused_or_answered_as_documented() {
    let mut faults = String::new();
    for Row {
        function,
        input,
        fault,
    } in table().0
    {
        let fault = catch_unwind(AssertUnwindSafe(fault));
        if let Some(fault) = fault.unwrap_or_else(|_| Some("panics".into())) {
            faults.push_str(&format!("\n{function}, {input}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// The public functions of a library: those it writes `pub`, and those of the traits that its public
/// types implement. Those of a public module stand under its name.
fn public_functions(library: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = library_files(root, &library.replace('_', "-")).unwrap();
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let modules: String = files
        .iter()
        .filter(|file| file.ends_with("/lib.rs"))
        .map(|file| read(file))
        .collect();
    let mut functions = BTreeSet::new();
    for file in &files {
        let module = Path::new(file).file_stem().unwrap().to_string_lossy();
        let is_public = modules.contains(&format!("\npub mod {module};"));
        let place = if is_public {
            format!("{library}::{module}")
        } else {
            library.into()
        };
        functions.extend(functions_of(&read(file), &place));
    }
    functions
}

fn functions_of(source: &str, place: &str) -> BTreeSet<String> {
    let is_private = |owner: &str| {
        let private = Regex::new(&format!(r"(?m)^(?:struct|enum) {owner}\b")).unwrap();
        private.is_match(source)
    };
    let head = Regex::new(r"^impl(?:<.*?>)? (?:(.*) for )?&?(\w+)").unwrap();
    let function = Regex::new(r"^ *(pub )?(?:const )?fn (\w+)").unwrap();
    let (mut functions, mut owner, mut of_trait) = (BTreeSet::new(), None, false);
    for line in source.lines() {
        if let Some(found) = head.captures(line) {
            (owner, of_trait) = (Some(found[2].to_string()), found.get(1).is_some());
        } else if line == "}" {
            (owner, of_trait) = (None, false);
        } else if let Some(found) = function.captures(line)
            && (found.get(1).is_some() || of_trait)
        {
            if owner.as_deref().is_some_and(is_private) {
                continue;
            }
            let owner = owner.iter().flat_map(|owner| [owner.as_str(), "::"]);
            let owner: String = owner.collect();
            functions.insert(format!("{place}::{owner}{}", &found[2]));
        }
    }
    functions
}

#[test]
fn every_public_function_is_in_the_table() {
    let libraries = [
        "ch01_alignment",
        "ch02_softmax",
        "ch03_scaled",
        "ch04_masks",
        "ch05_multihead",
        "ch06_self_attention",
        "ch07_cross_attention",
        "ch08_transformer",
        "ch09_training",
        "ch10_efficient",
    ];
    let public: BTreeSet<String> = libraries.into_iter().flat_map(public_functions).collect();
    let listed: BTreeSet<String> = table().0.iter().map(|row| row.function.into()).collect();
    let missing: Vec<_> = public.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&public).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    assert!(gone.is_empty(), "rows of no function: {gone:?}");
    println!("{} functions, {} inputs", public.len(), table().0.len());
}
