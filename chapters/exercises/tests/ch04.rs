//! Judges the exercises of chapter 4: `cargo test -p exercises --test ch04`.

use ch04_masks::{Mask, masked_attention};
use exercises::ch04::*;
use ndarray::Array2;

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
        behind(Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j > i)),
        "with the polarity flipped only the future is seen"
    );
}
