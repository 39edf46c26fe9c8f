//! What several of the tests need.

use std::io::Write;

/// Says that a test is passed over, and why. Where nothing may be lacking, because the variable
/// `BOOK_REQUIRE_TOOLS` is set, this is a failure instead.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("BOOK_REQUIRE_TOOLS").is_none(),
        "{test} cannot be skipped here: {why}"
    );
    // Written past the capture of the test runner, so that it is seen when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test} ({why})");
}
