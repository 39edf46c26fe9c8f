//! The worked examples.
fn main() {}
