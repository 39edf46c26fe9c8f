//! Judges the exercises of chapter 9: `cargo test -p exercises --test ch09`.

use exercises::ch09::*;
use ndarray::{Array3, array};

#[test]
fn exercise_1_gradient_by_hand() {
    let [first, second] = gradient_by_hand();
    assert_eq!(first, 0.25, "a higher first score raises the first weight");
    assert_eq!(second, -0.25, "a higher second score takes from it as much");
}

#[test]
fn exercise_2_rms_norm_backward() {
    let x = Array3::from_shape_fn((2, 2, 3), |(b, i, c)| {
        (1.0 + (b * 6 + i * 3 + c) as f64).sin()
    });
    let d_y = x.mapv(|x: f64| (3.0 * x).cos());
    let (gain, eps) = (array![1.0, -2.0, 0.5], 1e-3);
    // The loss whose gradient by y is d_y.
    let loss = |x: &Array3<f64>| {
        let mut sum = 0.0;
        for (x, d_y) in x.rows().into_iter().zip(d_y.rows()) {
            let root = (x.dot(&x) / 3.0 + eps).sqrt();
            sum += (&x * &gain / root).dot(&d_y);
        }
        sum
    };
    let yours = rms_norm_backward(x.view(), gain.view(), eps, d_y.view());
    assert_eq!(yours.dim(), x.dim(), "d_x has the shape of x");
    for (place, &yours) in yours.indexed_iter() {
        let (mut up, mut down) = (x.clone(), x.clone());
        up[place] += 1e-5;
        down[place] -= 1e-5;
        let slope = (loss(&up) - loss(&down)) / 2e-5;
        assert!(
            (yours - slope).abs() < 1e-7,
            "at {place:?} the loss has the slope {slope}, not {yours}"
        );
    }
}

#[test]
fn exercise_3_rate_of_the_paper() {
    let rate = |step| rate_of_the_paper(step, 512, 4000);
    assert!((rate(1) - 1.746_928e-7).abs() < 1e-12, "the first step");
    assert!(
        (rate(2000) / rate(1) - 2000.0).abs() < 1e-6,
        "it rises in a line"
    );
    assert!(
        rate(3999) < rate(4000) && rate(4001) < rate(4000),
        "highest after the warm-up"
    );
    assert!(
        (rate(16_000) / rate(4000) - 0.5).abs() < 1e-9,
        "then it falls with the root"
    );
    let narrow = rate_of_the_paper(7, 128, 4000);
    assert!(
        (narrow / rate(7) - 2.0).abs() < 1e-9,
        "a narrower model takes longer steps"
    );
}

#[test]
fn exercise_4_token_accuracy() {
    let logits = array![
        [[0.0, 1.0, 2.0], [5.0, 1.0, 2.0], [9.0, 0.0, 0.0]],
        [[0.0, 3.0, 2.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]]
    ];
    let targets = array![[2, 1, 0], [1, 0, 0]];
    let yours =
        token_accuracy(logits.view(), targets.view(), 0).expect("three tokens");
    assert!(
        (yours - 2.0 / 3.0).abs() < 1e-12,
        "2 of 3; padding does not count"
    );
    let nothing = array![[0, 0, 0], [0, 0, 0]];
    assert!(
        token_accuracy(logits.view(), nothing.view(), 0).is_err(),
        "nothing but padding has no accuracy"
    );
}
