//! Training: where do the weights come from?
//!
//! The gradient of the loss by every number of the model, derived by hand and followed backwards
//! through every stage; what makes use of it; and a task to learn, dates as people write them.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: lib_imports
use anyhow::{Result, ensure};
// ANCHOR_END: lib_imports

// ANCHOR: modules
pub mod alignment;
pub mod backward;
pub mod check;
pub mod dates;
pub mod layers;
pub mod loss;
pub mod nonsense;
pub mod optimizer;
pub mod reading;
pub mod study;
pub mod task;
pub mod trainer;
pub mod translate;
pub mod weights;
// ANCHOR_END: modules

// ANCHOR: same_shape
fn same_shape(
    name: &str,
    shape: &[usize],
    other_name: &str,
    other: &[usize],
) -> Result<()> {
    ensure!(
        shape == other,
        "{name} of {shape:?} and {other_name} of {other:?} must have the same shape"
    );
    Ok(())
}
// ANCHOR_END: same_shape
