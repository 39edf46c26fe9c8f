//! What the chapters' programs print, pinned in `tests/snapshots`, for the pages to show.
//!
//! A program prints sections. Each begins with a line `# name: Title` and runs to the next such
//! line. A page shows a section with `{{#output ch01-alignment name}}` and takes one number out of
//! it with `{{#value ch01-alignment name label}}`.

use crate::problem::known;
use regex::Regex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const PREFIX: &str = "programs__";
const SUFFIX: &str = ".snap.txt";

/// One section of what a program prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name that pages use.
    pub name: String,
    /// The section as printed, its heading line included, without blank lines at its end.
    pub text: String,
}

impl Section {
    /// The value behind `label =`, up to a remark that two spaces set off.
    ///
    /// # Errors
    /// With a message for the author, if no line or more than one has that label.
    pub fn value(&self, label: &str) -> Result<&str, String> {
        let lines: Vec<(&str, &str)> = self
            .text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(label, value)| (label.trim(), value.trim()))
            .collect();
        let mut values = lines.iter().filter(|(name, _)| *name == label);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Ok(value.split("  ").next().unwrap_or("")),
            (Some(_), Some(_)) => Err(format!(
                "more than one line of the section `{}` is labelled `{label}`",
                self.name
            )),
            (None, _) => Err(format!(
                "no line of the section `{}` is labelled `{label}`; {}",
                self.name,
                known("labels", lines.iter().map(|(name, _)| name))
            )),
        }
    }
}

/// The sections of a program's output, in order.
pub fn sections(printed: &str) -> Vec<Section> {
    static HEADING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^# ([\w-]+): \S").expect("the pattern is valid"));
    let mut sections: Vec<Section> = Vec::new();
    for line in printed.lines() {
        if let Some(heading) = HEADING.captures(line) {
            sections.push(Section {
                name: heading[1].to_owned(),
                text: String::new(),
            });
        }
        if let Some(section) = sections.last_mut() {
            section.text.push_str(line);
            section.text.push('\n');
        }
    }
    for section in &mut sections {
        section.text.truncate(section.text.trim_end().len());
    }
    sections
}

/// The pinned outputs of a book, each read when it is first asked for.
pub struct Outputs {
    dir: PathBuf,
    read: RefCell<BTreeMap<String, Vec<Section>>>,
}

impl Outputs {
    /// The outputs of the book at `root`.
    pub fn new(root: &Path) -> Self {
        Outputs {
            dir: root.join("tests/snapshots"),
            read: RefCell::default(),
        }
    }

    /// The chapters whose output is pinned.
    pub fn chapters(&self) -> Vec<String> {
        let mut chapters: Vec<String> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let stem = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
                Some(stem.replace('_', "-"))
            })
            .collect();
        chapters.sort();
        chapters
    }

    /// What `{{#output chapter section}}` stands for.
    ///
    /// # Errors
    /// With a message for the author, if there is no such chapter or section.
    pub fn output(&self, arguments: &str) -> Result<String, String> {
        match *arguments.split_whitespace().collect::<Vec<_>>() {
            [chapter, section] => Ok(self.section(chapter, section)?.text),
            _ => Err("write {{#output chapter section}}".to_owned()),
        }
    }

    /// What `{{#value chapter section label}}` stands for.
    ///
    /// # Errors
    /// With a message for the author, if there is no such chapter, section or label.
    pub fn value(&self, arguments: &str) -> Result<String, String> {
        let usage = || "write {{#value chapter section label}}".to_owned();
        let (chapter, rest) = arguments
            .split_once(char::is_whitespace)
            .ok_or_else(usage)?;
        let (section, label) = rest
            .trim_start()
            .split_once(char::is_whitespace)
            .ok_or_else(usage)?;
        let section = self.section(chapter, section)?;
        section.value(label.trim()).map(str::to_owned)
    }

    /// The sections of one chapter's output.
    ///
    /// # Errors
    /// With a message for the author, if the chapter's output is not pinned.
    pub fn sections(&self, chapter: &str) -> Result<Vec<Section>, String> {
        if let Some(sections) = self.read.borrow().get(chapter) {
            return Ok(sections.clone());
        }
        let name = format!("{PREFIX}{}{SUFFIX}", chapter.replace('-', "_"));
        let printed = std::fs::read_to_string(self.dir.join(name)).map_err(|_| {
            format!(
                "nothing is pinned that `{chapter}` prints; {}",
                known("chapters", self.chapters())
            )
        })?;
        let sections = sections(&printed);
        self.read
            .borrow_mut()
            .insert(chapter.to_owned(), sections.clone());
        Ok(sections)
    }

    fn section(&self, chapter: &str, name: &str) -> Result<Section, String> {
        let sections = self.sections(chapter)?;
        let mut named = sections.iter().filter(|section| section.name == name);
        match (named.next(), named.next()) {
            (Some(section), None) => Ok(section.clone()),
            (Some(_), Some(_)) => Err(format!("`{chapter}` prints more than one section `{name}`")),
            (None, _) => Err(format!(
                "`{chapter}` prints no section `{name}`; {}",
                known("sections", sections.iter().map(|section| &section.name))
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "# pinned: The weights\n\nweights = [0.098, 0.756]  rows sum to 1\n\
        q1 · k2 = 2.40\nmax − 1   = 3\ntwice = 1\ntwice = 2\n\n\n# next: More\nx = 1\n";

    fn outputs() -> (tempfile::TempDir, Outputs) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("tests/snapshots");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("programs__ch02_softmax.snap.txt"), PRINTED).unwrap();
        let outputs = Outputs::new(root.path());
        (root, outputs)
    }

    #[test]
    fn a_section_runs_to_the_next_heading() {
        let (_root, outputs) = outputs();
        let shown = outputs.output("ch02-softmax pinned").unwrap();
        assert!(shown.starts_with("# pinned: The weights\n"));
        assert!(shown.ends_with("twice = 2"));
        assert_eq!(
            outputs.output("ch02-softmax next").unwrap(),
            "# next: More\nx = 1"
        );
    }

    #[test]
    fn a_value_ends_where_its_remark_begins() {
        let (_root, outputs) = outputs();
        let value = |label: &str| outputs.value(&format!("ch02-softmax pinned {label}"));
        assert_eq!(value("weights").unwrap(), "[0.098, 0.756]");
        assert_eq!(value("q1 · k2").unwrap(), "2.40");
        assert_eq!(value("max − 1").unwrap(), "3");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let (_root, outputs) = outputs();
        let message = outputs.output("ch03-scaled x").unwrap_err();
        assert!(
            message.contains("known chapters: ch02-softmax"),
            "{message}"
        );
        let message = outputs.output("ch02-softmax x").unwrap_err();
        assert!(
            message.contains("known sections: pinned, next"),
            "{message}"
        );
        let message = outputs.value("ch02-softmax next y").unwrap_err();
        assert!(message.contains("known labels: x"), "{message}");
        let message = outputs.value("ch02-softmax pinned twice").unwrap_err();
        assert!(message.contains("more than one line"), "{message}");
        assert!(outputs.output("ch02-softmax").is_err());
    }
}
