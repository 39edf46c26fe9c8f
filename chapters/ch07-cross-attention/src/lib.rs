//! Cross-attention: what if one sequence reads another?
//!
//! The queries come from the sequence that is being written, the keys and values from the one that
//! has been read: the decoder asks, the encoder's outputs answer.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::Result;
use ch04_masks::Mask;
use ch05_multihead::{MultiHeadAnswer, MultiHeadAttention};
use ch06_self_attention::{columns, words};
use ndarray::{Array2, ArrayRef2, ArrayRef3, Axis, NdFloat, array, concatenate};
// ANCHOR_END: imports

/// Multi-head attention in which one sequence reads another: Q from the decoder, K and V from the
/// encoder.
///
/// `decoder` is `(batch, m, d_model)`, `memory`, the encoder's output, is `(batch, n, its width)`. The
/// mask is over the *source*, `(batch, 1, 1, n)` for padding; nothing here is causal.
///
/// # Errors
/// As [`MultiHeadAttention::attend`].
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.3, "encoder-decoder
/// attention".
// ANCHOR: cross_attention
pub fn cross_attention<F: NdFloat>(
    attention: &MultiHeadAttention<F>,
    decoder: &ArrayRef3<F>,
    memory: &ArrayRef3<F>,
    source_mask: &Mask,
) -> Result<MultiHeadAnswer<F>> {
    attention.attend(decoder, memory, memory, source_mask)
}
// ANCHOR_END: cross_attention

/// For each row of weights the key with the largest one: what a reader of the weights would call
/// the alignment. The first of several that tie; nothing for a row without a weight above 0. A NaN
/// counts as no weight.
///
/// `weights` are `m × n`, the result is `m` long.
// ANCHOR: alignment
pub fn alignment<F: NdFloat>(weights: &ArrayRef2<F>) -> Vec<Option<usize>> {
    weights
        .rows()
        .into_iter()
        .map(|row| {
            let mut best = None;
            let mut largest = F::zero();
            for (j, &weight) in row.iter().enumerate() {
                if weight > largest {
                    (best, largest) = (Some(j), weight);
                }
            }
            best
        })
        .collect()
}
// ANCHOR_END: alignment

/// The source of the chapter's example, a token a row, padded to five, and what the encoder made of it,
/// 5 × 10: the vectors of `ch06_self_attention::words`, and one for the padding.
// ANCHOR: source
pub fn source() -> ([&'static str; 5], Array2<f64>) {
    let padding = Array2::from_elem((1, 10), 0.3);
    let memory = concatenate![Axis(0), words(), padding];
    (["今天", "天气", "很", "好", "[PAD]"], memory)
}
// ANCHOR_END: source

/// The target of the example, and what the decoder asks as it is about to write each word, 6 × 4. Before
/// "weather" it asks q1.
// ANCHOR: target
pub fn target() -> ([&'static str; 6], Array2<f64>) {
    let decoder = array![
        [0.0, 0.0, -2.0, 1.0],
        [0.6, 1.2, -1.2, 1.8],
        [2.0, -3.0, 1.0, 0.0],
        [0.0, -6.0, 1.0, 0.0],
        [5.0, 1.0, 0.0, 0.0],
        [-4.0, 3.0, 2.0, 0.0],
    ];
    (["the", "weather", "is", "very", "nice", "today"], decoder)
}

/// One head whose queries come as they are, whose keys are the first four columns of the memory and whose
/// values are the other six.
pub fn plain_head() -> MultiHeadAttention<f64> {
    let (key, value) = (columns(10, 0, 4), columns(10, 4, 6));
    let [query, output] = [4, 6].map(Array2::eye);
    MultiHeadAttention::new(
        1,
        query.into(),
        key.into(),
        value.into(),
        output.into(),
    )
    .expect("the shapes fit each other")
}
// ANCHOR_END: target
