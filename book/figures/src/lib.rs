//! Every picture of the book.
