//! What is wrong with the book, and where.

use std::fmt;

/// One fault: the file the author has to open, the line if it is known, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, relative to the book's root, with forward slashes.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem in a known line.
    pub fn new(file: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Problem {
            file: file.into(),
            line: Some(line),
            message: message.into(),
        }
    }

    /// A problem with a file as a whole.
    pub fn in_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Problem {
            file: file.into(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// All the problems of one run, sorted by file and line, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Succeeds if there are no problems, and else fails with all of them.
    ///
    /// # Errors
    /// If the list is not empty.
    pub fn none_in(mut problems: Vec<Problem>) -> Result<(), Problems> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort();
        problems.dedup();
        Err(Problems(problems))
    }

    /// The problems, at least one.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        match self.0.len() {
            1 => write!(f, "1 problem"),
            n => write!(f, "{n} problems"),
        }
    }
}

impl std::error::Error for Problems {}

/// The line that byte `offset` of `text` is in, counted from 1.
pub fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// "known names: a, b" for error messages, or "there are none yet".
pub(crate) fn known<S: AsRef<str>>(what: &str, names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    if names.is_empty() {
        format!("known {what}: none yet")
    } else {
        format!("known {what}: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_sorted_and_said_once() {
        let late = Problem::new("b.md", 2, "late");
        let early = Problem::new("a.md", 9, "early");
        let problems = Problems::none_in(vec![late.clone(), early, late]).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "a.md:9: early\nb.md:2: late\n2 problems"
        );
        assert!(Problems::none_in(Vec::new()).is_ok());
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!(line_at("a\nb\nc", 0), 1);
        assert_eq!(line_at("a\nb\nc", 2), 2);
        assert_eq!(line_at("a\nb\nc", 99), 3);
    }

    #[test]
    fn known_names_are_listed() {
        assert_eq!(known("figures", ["a", "b"]), "known figures: a, b");
        assert_eq!(known::<&str>("figures", []), "known figures: none yet");
    }
}
