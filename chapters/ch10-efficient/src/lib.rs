//! What attention costs, and how to pay less.
//!
//! The same answers as chapter 4's, made with fewer numbers kept, fewer keys, less memory and less
//! time. This library is longer than the others and stands in several files, one for each idea.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: files
mod cache;
mod count;
mod fast;
mod few;
mod groups;
mod online;
mod onnx;
mod tiles;
mod visible;
mod workers;

pub use cache::KeyValueCache;
pub use count::Model;
pub use fast::{
    exp2, fast_attention, fast_attention_on, fast_partial, fast_partial_on,
};
pub use groups::{group_size, grouped_attention, repeat_heads};
pub use online::{Online, Partial, merge, rising_example};
pub use onnx::{OnnxAnswer, OnnxAttention, OnnxInputs, OnnxMask, ScoreOutput};
pub use tiles::{Sizes, partial_attention, tiled_attention, tiled_partial};
pub use visible::Visible;
pub use workers::{Answer, ring_attention, spread_attention};
// ANCHOR_END: files
