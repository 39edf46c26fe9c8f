//! The book as a reader meets it: its pages in a real Chromium, from files, in every theme.
//!
//! Without a Chromium each test says that it is skipped, unless `BOOK_REQUIRE_TOOLS` is set. The
//! variable `CHROME` names the program if it is not found by itself; `BOOK_AXE` names axe-core's
//! `axe.min.js`, for the test that needs it.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod chromium;
mod hands;
mod legible;
mod live;
mod pages;
