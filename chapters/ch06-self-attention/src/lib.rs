//! Self-attention.
