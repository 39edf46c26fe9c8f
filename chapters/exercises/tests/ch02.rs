//! Judges the exercises of chapter 2: `cargo test -p exercises --test ch02`.

use ch02_softmax::{softmax, softmax_with_temperature};
use exercises::ch02::*;
use ndarray::{Array1, array};

fn assert_near(yours: &Array1<f64>, expected: &Array1<f64>, hint: &str) {
    assert_eq!(yours.len(), expected.len(), "one number for each score");
    for (a, b) in yours.iter().zip(expected) {
        assert!(
            (a - b).abs() < 1e-9,
            "expected {expected}, not {yours}: {hint}"
        );
    }
}

#[test]
fn exercise_1_weights_by_hand() {
    let scores = array![0.0, 2f64.ln(), 3f64.ln()];
    let yours = weights_by_hand();
    for (j, (a, b)) in yours.iter().zip(&softmax(scores.view())).enumerate() {
        assert!(
            (a - b).abs() < 1e-9,
            "weight {} is not {a}: take exp of each score, then divide by their sum, and leave \
             the fraction as it is, unrounded",
            j + 1
        );
    }
}

#[test]
fn exercise_2_log_softmax() {
    let scores = array![0.36, 2.4, -0.36, 0.36];
    assert_near(
        &log_softmax(scores.view()),
        &softmax(scores.view()).mapv(f64::ln),
        "the logarithm of each weight is wanted",
    );
    assert_near(
        &log_softmax(array![0.0, -2000.0].view()),
        &array![0.0, -2000.0],
        "the second weight is rounded to 0, but its logarithm is not lost",
    );
    assert_near(
        &log_softmax(array![1000.0, 1000.0].view()),
        &array![-2f64.ln(), -2f64.ln()],
        "large scores must not overflow",
    );
}

#[test]
fn exercise_3_temperature_for() {
    let scores = array![0.36, 2.4, -0.36, 0.36];
    for factor in [0.01, 1.0, 100.0] {
        let scores = &scores * factor;
        for wanted in [0.3, 0.5, 0.756, 0.9, 0.99] {
            let temperature = temperature_for(scores.view(), wanted)
                .expect("there is such a temperature");
            assert!(
                (1e-3..=1e3).contains(&temperature),
                "{temperature} is not between 1e-3 and 1e3"
            );
            let weights = softmax_with_temperature(scores.view(), temperature)
                .expect("a temperature is a finite number above 0");
            let largest = weights.fold(0.0, |a, &b| f64::max(a, b));
            assert!(
                (largest - wanted).abs() < 1e-3,
                "for {scores} at temperature {temperature} the largest weight is {largest}, \
                 not {wanted}"
            );
        }
    }
    assert!(
        temperature_for(scores.view(), 0.1).is_err(),
        "the largest of four weights is never below a quarter: that should be an error"
    );
}

#[test]
fn exercise_4_softmax_or_nothing() {
    let scores = array![1.0, -0.5, 0.25];
    let exponentials = scores.mapv(f64::exp);
    let expected = &exponentials / (1.0 + exponentials.sum());
    assert_near(
        &softmax_or_nothing(scores.view()),
        &expected,
        "the denominator is 1 plus the sum",
    );
    assert_near(
        &softmax_or_nothing(array![1000.0, 1000.0].view()),
        &array![0.5, 0.5],
        "large scores must not overflow",
    );
    assert_near(
        &softmax_or_nothing(array![-800.0, 800.0].view()),
        &array![0.0, 1.0],
        "one score may be large and another far below 0",
    );
}
