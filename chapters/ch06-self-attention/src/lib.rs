//! Self-attention: what if a sequence reads itself?
//!
//! Queries, keys and values all come from the same sequence. What that loses, the order of the
//! sequence, is put back by positions: added to the vectors, or turned into queries and keys.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch01_alignment::first_example;
use ch02_softmax::word_values;
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAnswer, MultiHeadAttention, cast};
use ndarray::{
    Array2, Array4, ArrayRef2, ArrayRef3, ArrayRef4, Axis, NdFloat, array,
    concatenate,
};
// ANCHOR_END: imports

/// Multi-head attention in which a sequence asks itself: Q = K = V = X.
///
/// `x` is `(batch, n, d_model)`, and the mask stretches to `(batch, heads, n, n)`.
///
/// # Errors
/// As [`MultiHeadAttention::attend`].
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.3.
// ANCHOR: self_attention
pub fn self_attention<F: NdFloat>(
    attention: &MultiHeadAttention<F>,
    x: &ArrayRef3<F>,
    mask: &Mask,
) -> Result<MultiHeadAnswer<F>> {
    attention.attend(x, x, x, mask)
}
// ANCHOR_END: self_attention

/// Bidirectional: every position sees every real token, before it and after it, but no padding.
///
/// `tokens` are `batch × n`; the mask is `(batch, 1, 1, n)`.
// ANCHOR: masks
pub fn bidirectional_mask(tokens: &ArrayRef2<u32>, pad: u32) -> Mask {
    Mask::padding_of_tokens(tokens, pad)
}

/// Causal: every position sees the real tokens up to its own.
///
/// `tokens` are `batch × n`; the mask is `(batch, 1, n, n)`.
///
/// # Errors
/// None in fact: the two masks always fit each other.
pub fn causal_mask(tokens: &ArrayRef2<u32>, pad: u32) -> Result<Mask> {
    let n = tokens.ncols();
    &Mask::causal(n, n) & &Mask::padding_of_tokens(tokens, pad)
}
// ANCHOR_END: masks

/// Sinusoidal positions: column `2i` of position `p` is `sin(p · ω_i)` and column `2i + 1` is
/// `cos(p · ω_i)`, with `ω_i = 10000^(−2i / d_model)`.
///
/// The result is `length × d_model`. `i` counts pairs of columns, so `2i` counts columns; with an odd
/// width the last pair has only its sine.
///
/// Source: Vaswani et al. (2017), section 3.5.
// ANCHOR: sinusoidal
pub fn sinusoidal_positions<F: NdFloat>(
    length: usize,
    d_model: usize,
) -> Array2<F> {
    Array2::from_shape_fn((length, d_model), |(position, column)| {
        // Columns 2i and 2i + 1 share a frequency.
        let angle = position as f64 * frequency(column / 2, d_model);
        cast(if column % 2 == 0 {
            angle.sin()
        } else {
            angle.cos()
        })
    })
}

/// The frequency of a pair of columns: `ω_i = 10000^(−2i / width)`.
fn frequency(pair: usize, width: usize) -> f64 {
    10_000_f64.powf(-2.0 * pair as f64 / width as f64)
}
// ANCHOR_END: sinusoidal

/// Rotary positions: each pair of columns `(2i, 2i + 1)` is turned by the angle `p · ω_i`, where `p`
/// is the vector's position. The score of a query and a key that are both turned depends only on
/// the difference of their positions. Position 0 turns no finite vector.
///
/// `x` is `(batch, heads, n, d)`, queries or keys but not values, and so is the result; `positions`
/// are `n`. This is the interleaved form of the paper; others pair column `i` with `i + d/2`.
///
/// # Errors
/// If the width is odd, or there is not one position for each vector.
///
/// Source: Su et al., *RoFormer* (2021), section 3.2.2 and equation 34.
// ANCHOR: rope
pub fn rotate<F: NdFloat>(
    x: &ArrayRef4<F>,
    positions: &[usize],
) -> Result<Array4<F>> {
    let (_, _, n, d) = x.dim();
    ensure!(d % 2 == 0, "a width of {d} cannot be rotated in pairs");
    ensure!(
        positions.len() == n,
        "there are {n} vectors but {} positions",
        positions.len()
    );
    let angle = |j: usize, pair: usize| positions[j] as f64 * frequency(pair, d);
    Ok(Array4::from_shape_fn(x.dim(), |(b, h, j, column)| {
        let angle = angle(j, column / 2);
        let (sin, cos) = (cast::<F>(angle.sin()), cast::<F>(angle.cos()));
        // (a, b) → (a cos − b sin, a sin + b cos)
        if column % 2 == 0 {
            x[[b, h, j, column]] * cos - x[[b, h, j, column + 1]] * sin
        } else {
            x[[b, h, j, column - 1]] * sin + x[[b, h, j, column]] * cos
        }
    }))
}
// ANCHOR_END: rope

/// The position of each token, counted from the first real one: 0, 1, 2, … wherever the padding
/// stands. A padded place gets 0, which nobody sees.
///
/// `tokens` and the result are `batch × n`.
// ANCHOR: token_positions
pub fn token_positions(tokens: &ArrayRef2<u32>, pad: u32) -> Array2<usize> {
    let mut positions = Array2::zeros(tokens.dim());
    for (row, mut positions) in tokens.rows().into_iter().zip(positions.rows_mut())
    {
        let mut next = 0;
        for (&token, position) in row.iter().zip(&mut positions) {
            if token != pad {
                *position = next;
                next += 1;
            }
        }
    }
    positions
}
// ANCHOR_END: token_positions

/// What one layer costs, for a sequence of `n` vectors of width `d`. The product of any four sizes
/// fits into the 128 bits.
// ANCHOR: cost
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Multiplications.
    pub multiplications: u128,
    /// Steps that have to wait for one another.
    pub sequential: u128,
    /// Layers or steps that news travels from the first position to the last.
    pub path: u128,
}

impl Cost {
    /// Self-attention: scores and weighted sums, `n · n · d` each.
    pub fn of_self_attention(n: u32, d: u32) -> Self {
        let (n, d) = (u128::from(n), u128::from(d));
        Self {
            multiplications: 2 * n * n * d,
            sequential: 1,
            path: u128::from(n > 1),
        }
    }

    /// A recurrent layer: two `d × d` matrices at each position, one position after the other.
    pub fn of_recurrence(n: u32, d: u32) -> Self {
        let (n, d) = (u128::from(n), u128::from(d));
        Self {
            multiplications: 2 * n * d * d,
            sequential: n,
            path: n.saturating_sub(1),
        }
    }

    /// A convolution over `width` neighbours: as many `d × d` matrices at each position. Stacked
    /// layers carry news `(width − 1) / 2` positions further each.
    ///
    /// # Errors
    /// If the width is even or below 3, so that it reaches nobody or has no middle.
    pub fn of_convolution(n: u32, d: u32, width: u32) -> Result<Self> {
        ensure!(
            width >= 3 && width % 2 == 1,
            "a convolution over {width} neighbours has no middle or reaches nobody"
        );
        let (n, d, width) = (u128::from(n), u128::from(d), u128::from(width));
        Ok(Self {
            multiplications: width * n * d * d,
            sequential: 1,
            path: n.saturating_sub(1).div_ceil((width - 1) / 2),
        })
    }
}
// ANCHOR_END: cost

/// A vector for each word of the book's sentence, 4 × 10: its key of chapter 1 (4 numbers), beside it
/// what it hands over in chapter 2 (6 numbers).
// ANCHOR: words
pub fn words() -> Array2<f64> {
    let (_, keys) = first_example();
    concatenate![Axis(1), keys, word_values()]
}

/// One head that reads such vectors: its keys are the first four columns, its values the last six.
/// What a word asks is read off what it hands over.
pub fn word_head() -> MultiHeadAttention<f64> {
    let questions = array![
        [0.0, 0.0, -2.0, 1.0], // today: 今天 asks for 天气
        [0.0, 0.0, 0.0, 0.0],  // the
        [2.0, 3.0, 1.0, 0.0],  // weather: 天气 asks for 好
        [0.0, 0.0, 0.0, 0.0],  // is
        [5.0, 1.0, 0.0, 0.0],  // very: 很 asks for 好, more strongly
        [0.6, 1.2, -1.2, 1.8], // nice: 好 asks q1
    ];
    let query = concatenate![Axis(0), Array2::zeros((4, 4)), questions];
    let (key, value) = (columns(10, 0, 4), columns(10, 4, 6));
    let same = Array2::eye(6);
    MultiHeadAttention::new(1, query.into(), key.into(), value.into(), same.into())
        .expect("the shapes fit each other")
}

/// A weight that picks `count` columns, from column `first` on, of vectors `width` wide.
pub fn columns(width: usize, first: usize, count: usize) -> Array2<f64> {
    Array2::from_shape_fn((width, count), |(i, j)| {
        f64::from(u8::from(i == first + j))
    })
}
// ANCHOR_END: words

/// The book's sentence, and a vector for each of its tokens, 6 × 10. The first five entries say what
/// a token offers, the last five what it wants: an edge, a time, a topic, a degree, a quality.
// ANCHOR: sentence
pub fn sentence() -> ([&'static str; 6], Array2<f64>) {
    let x = array![
        // offers: edge, time, topic, degree, quality; wants: the same
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 4.0, 0.0, 3.0],
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 4.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0, 1.0, 0.0, 4.0],
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 5.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 4.0, 3.0, 1.0],
        [1.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0],
    ];
    (["[CLS]", "今天", "天气", "很", "好", "[SEP]"], x)
}

/// One head whose query is what a token wants and whose key is what a token offers. Values and
/// output leave the vectors as they are.
pub fn wants_meet_offers() -> MultiHeadAttention<f64> {
    let (query, key) = (columns(10, 5, 5), columns(10, 0, 5));
    let same = Array2::eye(10);
    MultiHeadAttention::new(
        1,
        query.into(),
        key.into(),
        same.clone().into(),
        same.into(),
    )
    .expect("the shapes fit each other")
}
// ANCHOR_END: sentence
