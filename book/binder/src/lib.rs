//! The binder.
