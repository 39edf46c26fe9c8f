//! The numbers of the worked examples to twelve digits, where three would hide a change.

use ch01_alignment::{alignment_scores, cosine_scores, first_example, second_example};
use ch02_softmax::{
    Attention, attend, first_example_values, log_sum_exp, second_example_values, softmax,
    softmax_with_temperature,
};
use ch03_scaled::{saturation, scaled_dot_product_attention, scaled_scores, softmax_jacobian};
use ndarray::{Array1, Array2};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::fmt::Write;

/// Names and matrices, one row a line.
struct Sheet(String);

impl Sheet {
    fn new() -> Self {
        Self(String::new())
    }

    fn row(&mut self, name: &str, row: Array1<f64>) -> &mut Self {
        self.matrix(name, &row.insert_axis(ndarray::Axis(0)))
    }

    fn matrix(&mut self, name: &str, matrix: &Array2<f64>) -> &mut Self {
        writeln!(self.0, "{name} {} × {}", matrix.nrows(), matrix.ncols()).unwrap();
        for row in matrix.rows() {
            for x in row {
                // Adding 0 turns −0 into 0.
                write!(self.0, " {:16.12}", x + 0.0).unwrap();
            }
            self.0.push('\n');
        }
        self
    }

    fn attention(&mut self, name: &str, attention: &Attention<f64>) -> &mut Self {
        self.matrix(&format!("{name}: weights"), &attention.weights)
            .matrix(&format!("{name}: output"), &attention.output)
    }
}

#[test]
fn first_example_to_twelve_digits() {
    let (queries, keys) = first_example();
    let values = first_example_values();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let row = scores.row(0);
    let mut sheet = Sheet::new();
    sheet
        .matrix("scores", &scores)
        .row("log-sum-exp", Array1::from_elem(1, log_sum_exp(&row)))
        .attention("unscaled", &attend(&scores, &values).unwrap())
        .attention(
            "scaled",
            &scaled_dot_product_attention(&queries, &keys, &values).unwrap(),
        )
        .row(
            "temperature 0.5",
            softmax_with_temperature(&row, 0.5).unwrap(),
        )
        .matrix("Jacobian", &softmax_jacobian(&softmax(&row)));
    insta::assert_snapshot!("first_example", sheet.0);
}

#[test]
fn second_example_to_twelve_digits() {
    let (queries, keys) = second_example();
    let values = second_example_values();
    let scores = alignment_scores(&queries, &keys).unwrap();
    let mut sheet = Sheet::new();
    sheet
        .matrix("scores", &scores)
        .matrix("cosines", &cosine_scores(&queries, &keys).unwrap())
        .attention("unscaled", &attend(&scores, &values).unwrap())
        .matrix("scaled scores", &scaled_scores(&queries, &keys).unwrap())
        .attention(
            "scaled",
            &scaled_dot_product_attention(&queries, &keys, &values).unwrap(),
        );
    insta::assert_snapshot!("second_example", sheet.0);
}

/// The weights this book is built around, to the three digits they are known by.
#[test]
fn the_pinned_weights() {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys).unwrap();
    insta::assert_snapshot!(format!("{:.3}", softmax(&scores.row(0))), @"[0.098, 0.756, 0.048, 0.098]");
    let scaled = scaled_scores(&queries, &keys).unwrap();
    insta::assert_snapshot!(format!("{:.3}", softmax(&scaled.row(0))), @"[0.183, 0.507, 0.128, 0.183]");
}

#[test]
fn saturation_to_nine_digits() {
    let mut rng = ChaCha8Rng::seed_from_u64(2017);
    let mut sheet = String::new();
    for d_k in [1, 64, 256] {
        let [unscaled, scaled] = saturation(d_k, 16, 51, &mut rng).unwrap();
        writeln!(sheet, "d_k = {d_k}").unwrap();
        for (name, s) in [("unscaled", unscaled), ("scaled", scaled)] {
            writeln!(
                sheet,
                "  {name:8} largest weight {:.9}, gradient {:.9}",
                s.largest_weight, s.gradient
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("saturation", sheet);
}
