//! Cross-attention.
