//! Judges the exercises of chapter 6: `cargo test -p exercises --test ch06`.

use anyhow::Result;
use ch04_masks::{Mask, masked_attention};
use ch06_self_attention::{Cost, sinusoidal_positions};
use exercises::ch06::*;
use ndarray::{Array2, Array3, ArrayView2, Axis, array, s};

#[test]
fn exercise_1_break_even_by_hand() {
    let n = break_even_by_hand();
    let attention = Cost::of_self_attention(n, 512).multiplications;
    let convolution = Cost::of_convolution(n, 512, 3).unwrap().multiplications;
    assert!(n > 0, "the length is above 0");
    assert_eq!(
        attention, convolution,
        "at n = {n} the two differ: solve 2 n² d = 3 n d² for n"
    );
}

#[test]
fn exercise_2_rotate_halves() {
    let x = array![
        [1.0, 2.0, -0.5, 0.75],
        [1.0, 2.0, -0.5, 0.75],
        [1.0, 2.0, -0.5, 0.75]
    ];
    let yours = rotate_halves(x.view(), &[0, 1, 2]).expect("the width is even");
    assert_eq!(yours.row(0), x.row(0), "position 0 turns nothing");
    // Computed apart, in double precision.
    let expected = array![
        0.961037798272088,
        1.9924001258327055,
        0.5713198318738266,
        0.7699621669808323
    ];
    assert!(
        yours
            .row(1)
            .iter()
            .zip(&expected)
            .all(|(a, b)| (a - b).abs() < 1e-9),
        "at position 1 expected {expected}, not {}",
        yours.row(1)
    );
    let key = rotate_halves(array![[0.5, -1.0, 1.5, 2.0]].view(), &[1]).unwrap();
    let earlier =
        rotate_halves(array![[0.5, -1.0, 1.5, 2.0]].view(), &[0]).unwrap();
    let (near, far) = (
        yours.row(1).dot(&earlier.row(0)),
        yours.row(2).dot(&key.row(0)),
    );
    assert!(
        (near - far).abs() < 1e-9,
        "the score should depend on the distance alone, but is {near} and {far}"
    );
    assert!(
        rotate_halves(Array2::ones((1, 3)).view(), &[0]).is_err(),
        "3 has no halves"
    );
    assert!(
        rotate_halves(Array2::ones((2, 4)).view(), &[0]).is_err(),
        "two vectors need two positions"
    );
}

#[test]
fn exercise_3_mean_of_real() {
    let x =
        Array3::from_shape_fn((3, 3, 2), |(b, j, c)| (b * 100 + j * 10 + c) as f64);
    let tokens = array![[5, 6, 0], [0, 7, 0], [0, 0, 0]];
    let yours = mean_of_real(x.view(), tokens.view(), 0).expect("the shapes fit");
    assert_eq!(
        yours,
        array![[5.0, 6.0], [110.0, 111.0], [0.0, 0.0]],
        "means over real tokens, zeros where there are none"
    );
    let mut filled = x.clone();
    for (b, j) in [(0, 2), (1, 0), (1, 2)] {
        filled.slice_mut(s![b, j, ..]).fill(f64::NAN);
    }
    assert_eq!(
        mean_of_real(filled.view(), tokens.view(), 0).expect("the shapes fit"),
        yours,
        "what stands in a padded place does not matter, and be it NaN"
    );
    assert_eq!(
        mean_of_real(x.view(), tokens.view(), 7).expect("the shapes fit"),
        array![[10.0, 11.0], [110.0, 111.0], [210.0, 211.0]],
        "if the pad is 7, then 0 is a token like any other"
    );
    assert!(
        mean_of_real(x.view(), array![[1, 2]].view(), 0).is_err(),
        "tokens and vectors that do not fit should be an error"
    );
}

#[test]
fn exercise_4_ignores_order() {
    let x =
        Array2::from_shape_fn((4, 4), |(i, c)| ((i * 4 + c) as f64 * 0.9).sin());
    let attend = |x: ArrayView2<f64>| -> Result<Array2<f64>> {
        Ok(masked_attention(x, x, x, &Mask::everything())?.output)
    };
    let ask = |layer: &dyn Fn(ArrayView2<f64>) -> Result<Array2<f64>>| {
        ignores_order(layer, x.view()).expect("the layer itself does not fail")
    };
    assert!(
        ask(&attend),
        "self-attention without positions ignores the order"
    );
    let places = sinusoidal_positions::<f64>(4, 4);
    assert!(
        !ask(&|x| attend((&x + &places).view())),
        "with positions it does not"
    );
    assert!(
        !ask(&|x| Ok(masked_attention(x, x, x, &Mask::causal(4, 4))?.output)),
        "a causal mask knows the order, too"
    );
    // The sum of the first rows enters every answer. Only an exchange of the last of them with
    // its neighbour can tell.
    let mixed = |k: usize| {
        move |x: ArrayView2<f64>| Ok(&x + &x.slice(s![..k, ..]).sum_axis(Axis(0)))
    };
    for k in 1..4 {
        assert!(
            !ask(&mixed(k)),
            "here it matters which rows are among the first {k}: exchange rows {} and {k}, too",
            k - 1
        );
    }
    let first = x[[0, 0]];
    let undefined = |y: ArrayView2<f64>| {
        Ok(if y[[0, 0]] == first {
            y.to_owned()
        } else {
            y.mapv(|_| f64::NAN)
        })
    };
    assert!(!ask(&undefined), "NaN is not the old answer");
}
