//! The same numbers, laid out in memory in every way an array can be.

use ndarray::{Array, Axis, Dimension, NdFloat, Slice};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    Standard,
    Transposed,
    Reversed,
    Strided,
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Standard),
        Just(Layout::Transposed),
        Just(Layout::Reversed),
        Just(Layout::Strided),
    ]
}

impl Layout {
    /// Equal to `x` in shape and numbers. What lies between the numbers is NaN.
    pub(crate) fn of<F: NdFloat, D: Dimension>(self, x: &Array<F, D>) -> Array<F, D> {
        match self {
            Self::Standard => x.as_standard_layout().into_owned(),
            Self::Transposed => x.t().as_standard_layout().into_owned().reversed_axes(),
            Self::Reversed => reversed(reversed(x.clone()).as_standard_layout().into_owned()),
            Self::Strided => strided(x),
        }
    }
}

fn reversed<F: NdFloat, D: Dimension>(mut x: Array<F, D>) -> Array<F, D> {
    for axis in 0..x.ndim() {
        x.invert_axis(Axis(axis));
    }
    x
}

fn strided<F: NdFloat, D: Dimension>(x: &Array<F, D>) -> Array<F, D> {
    let mut shape = x.raw_dim();
    for size in shape.slice_mut() {
        *size = 2 * *size + 1;
    }
    let mut wide = Array::from_elem(shape, F::nan());
    wide.slice_each_axis_inplace(|_| Slice::new(1, None, 2));
    wide.assign(x);
    wide
}
