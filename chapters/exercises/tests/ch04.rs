//! Judges the exercises of chapter 4: `cargo test -p exercises --test ch04`.

use anyhow::anyhow;
use ch04_masks::{Mask, masked_attention};
use exercises::ch04::*;
use ndarray::{Array2, ArrayView2, Axis};

#[test]
fn exercise_1_allowed_by_hand() {
    let mask = Mask::causal(2, 5);
    let allowed = mask
        .fit((1, 1, 2, 5))
        .unwrap()
        .iter()
        .filter(|&&a| a)
        .count();
    let yours = allowed_by_hand();
    assert_eq!(
        yours, allowed,
        "the two queries stand at positions 3 and 4; count the keys up to each"
    );
}

#[test]
fn exercise_2_prefix_mask() {
    let yours = prefix_mask(3, 5).expect("a prefix of 3 fits into 5 positions");
    let expected = Mask::from_fn(
        (1, 1, 5, 5),
        |_, _, i, j| if i < 3 { j < 3 } else { j <= i },
    );
    assert!(yours == expected, "expected\n{expected}\nnot\n{yours}");
    assert!(
        prefix_mask(0, 4).expect("no prefix is fine") == Mask::causal(4, 4),
        "without a prefix the mask is causal"
    );
    assert!(
        prefix_mask(4, 4).expect("a prefix may be all there is")
            == Mask::from_fn((1, 1, 4, 4), |_, _, _, _| true),
        "in a prefix as long as the sequence everybody sees everybody"
    );
    assert!(
        prefix_mask(5, 4).is_err(),
        "a prefix longer than the sequence should be an error"
    );
}

#[test]
fn exercise_3_packed_mask() {
    let yours = packed_mask(&[0, 0, 1, 1, 1]);
    let expected =
        Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j <= i && ((i < 2) == (j < 2)));
    assert!(yours == expected, "expected\n{expected}\nnot\n{yours}");
    let yours = packed_mask(&[5, 5, 2, 9, 9]);
    let expected = Mask::from_fn((1, 1, 5, 5), |_, _, i, j| {
        j <= i && [0, 0, 1, 2, 2][i] == [0, 0, 1, 2, 2][j]
    });
    assert!(
        yours == expected,
        "the numbers only name the sentences, their order means nothing: \
         expected\n{expected}\nnot\n{yours}"
    );
    assert!(
        packed_mask(&[7, 7, 7]) == Mask::causal(3, 3),
        "one sentence is causal"
    );
}

#[test]
fn exercise_4_looks_ahead() {
    let x =
        Array2::from_shape_fn((5, 3), |(i, j)| ((i * 3 + j) as f64 * 0.7).sin());
    let behind = |mask: Mask| {
        looks_ahead(|x| Ok(masked_attention(x, x, x, &mask)?.output), x.view())
            .expect("the attention itself does not fail")
    };
    assert!(
        !behind(Mask::causal(5, 5)),
        "a causal mask hides the future"
    );
    assert!(
        behind(Mask::everything()),
        "without a mask the future is seen"
    );
    assert!(
        behind(Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j <= i + 1)),
        "one step ahead is ahead"
    );
    assert!(
        behind(Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j <= i || (i, j) == (0, 1))),
        "a single leak, from position 1 to position 0, is a leak"
    );
    assert!(
        behind(Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j <= i || (i, j) == (0, 4))),
        "so is one from the last position to the first, of which position 3 knows nothing"
    );
    assert!(
        behind(Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j > i)),
        "with the polarity flipped only the future is seen"
    );
    let one_number = |x: ArrayView2<f64>| {
        let mut y = x.to_owned();
        y[[1, 0]] += x[[3, 2]];
        Ok(y)
    };
    assert!(
        looks_ahead(one_number, x.view()).expect("this does not fail"),
        "a single number of a later position is enough"
    );
    // Small whole numbers in four columns, so that nothing is rounded here.
    let whole = Array2::from_shape_fn((3, 4), |(i, j)| ((i * 4 + j) % 5) as f64);
    let centred = |x: ArrayView2<f64>| {
        let means = x.sum_axis(Axis(1)) / x.ncols() as f64;
        let x = &x - &means.insert_axis(Axis(1));
        let (x, all) = (x.view(), Mask::everything());
        Ok(masked_attention(x, x, x, &all)?.output)
    };
    assert!(
        looks_ahead(centred, whole.view())
            .expect("the attention itself does not fail"),
        "a function that first subtracts the mean of each row does not notice if the \
         same number is added to a whole row: change the row in another way"
    );
    assert!(
        looks_ahead(|_| Err(anyhow!("no answer")), x.view()).is_err(),
        "if the function fails, nobody knows"
    );
}
