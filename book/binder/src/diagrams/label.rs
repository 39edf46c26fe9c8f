//! Labels: how wide they are, and how they are set.

use crate::han;
use figures::escape;
use std::fmt::Write;

/// A run of characters that stand on the same height.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    text: String,
    height: Height,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Height {
    Line,
    Below,
    Above,
}

/// How much smaller a subscript or superscript is.
const SMALL: f64 = 0.75;

/// The width of the widest line, in the unit of `size`.
pub(super) fn width(label: &str, size: f64) -> f64 {
    label
        .lines()
        .map(|line| runs(line).iter().map(Run::width).sum::<f64>())
        .fold(0.0, f64::max)
        * size
}

/// The same label with its lines broken between words, so that none is wider than `limit` but for
/// a single word.
pub(super) fn broken(label: &str, size: f64, limit: f64) -> String {
    let mut lines = Vec::new();
    for line in label.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            let longer = format!("{current} {word}");
            if current.is_empty() {
                current = word.to_owned();
            } else if width(&longer, size) <= limit {
                current = longer;
            } else {
                lines.push(std::mem::replace(&mut current, word.to_owned()));
            }
        }
        lines.push(current);
    }
    lines.join("\n")
}

/// The number of lines, at least one.
pub(super) fn height(label: &str) -> usize {
    label.lines().count().max(1)
}

/// One line of a label as the content of an SVG text element.
pub(super) fn spans(line: &str, size: f64) -> String {
    let mut svg = String::new();
    let mut lowered = 0.0;
    for run in runs(line) {
        let (low, scale) = match run.height {
            Height::Line => (0.0, 1.0),
            Height::Below => (0.22 * size, SMALL),
            Height::Above => (-0.35 * size, SMALL),
        };
        let text = han::within(&escape(&run.text), "tspan");
        if low == lowered && scale == 1.0 {
            svg.push_str(&text);
        } else {
            let _ = write!(
                svg,
                "<tspan dy=\"{:.1}\" font-size=\"{:.1}\">{text}</tspan>",
                low - lowered,
                size * scale
            );
        }
        lowered = low;
    }
    svg
}

impl Run {
    fn width(&self) -> f64 {
        let scale = if self.height == Height::Line {
            1.0
        } else {
            SMALL
        };
        self.text.chars().map(advance).sum::<f64>() * scale
    }
}

/// The width of a character in the page's face, relative to the size of the letters. A little is
/// added to what that face takes, for the others that may stand in for it.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.26,
        'f' | 't' | 'r' | 'I' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' | '·' => 0.33,
        'm' | 'w' | 'M' | 'W' | '—' | '…' | '%' | '@' => 0.82,
        'A'..='Z' | '+' | '=' | '<' | '>' | '×' | '−' | '√' | '→' | '←' | '≤' | '≥' | '&' => {
            0.68
        }
        '\u{300}'..='\u{36f}' => 0.0,
        'ᵀ' | 'ᵢ' | 'ⱼ' | 'ₖ' | '₀'..='₉' | '⁰'..='⁹' | '²' | '³' | '¹' => 0.42,
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3ffff}' => 1.0,
        '\u{2190}'..='\u{22ff}' => 0.75,
        _ => 0.53,
    }
}

/// Splits `d_k`, `d_{model}` and `W^O` where the base is a single letter: longer words before an
/// underscore are names from the code and stay as they are.
fn runs(line: &str) -> Vec<Run> {
    let chars: Vec<char> = line.chars().collect();
    let mut runs: Vec<Run> = Vec::new();
    let mut push = |text: &str, height: Height| match runs.last_mut() {
        Some(run) if run.height == height => run.text.push_str(text),
        _ => runs.push(Run {
            text: text.to_owned(),
            height,
        }),
    };
    let mut at = 0;
    while at < chars.len() {
        let height = match chars[at] {
            '_' => Height::Below,
            '^' => Height::Above,
            _ => Height::Line,
        };
        let single = at > 0
            && chars[at - 1].is_alphabetic()
            && (at == 1 || !(chars[at - 2].is_alphanumeric() || chars[at - 2] == '_'));
        let script = script(&chars[at + 1..]);
        match script {
            Some((text, length)) if single && height != Height::Line => {
                push(&text, height);
                at += 1 + length;
            }
            _ => {
                push(&chars[at].to_string(), Height::Line);
                at += 1;
            }
        }
    }
    runs
}

/// What is raised or lowered, and how many characters it takes in the label.
fn script(rest: &[char]) -> Option<(String, usize)> {
    if rest.first() == Some(&'{') {
        let end = rest.iter().position(|&c| c == '}')?;
        return Some((rest[1..end].iter().collect(), end + 1));
    }
    let text: String = rest.iter().take_while(|c| c.is_alphanumeric()).collect();
    let length = text.chars().count();
    (length > 0).then_some((text, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_set_behind_single_letters_only() {
        assert_eq!(
            spans("√d_k", 10.0),
            "√d<tspan dy=\"2.2\" font-size=\"7.5\">k</tspan>"
        );
        assert_eq!(
            spans("W^O·d_{model} x", 10.0),
            "W<tspan dy=\"-3.5\" font-size=\"7.5\">O</tspan>\
             <tspan dy=\"3.5\" font-size=\"10.0\">·d</tspan>\
             <tspan dy=\"2.2\" font-size=\"7.5\">model</tspan>\
             <tspan dy=\"-2.2\" font-size=\"10.0\"> x</tspan>"
        );
        assert_eq!(spans("dot_score <T>", 10.0), "dot_score &lt;T&gt;");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(
            broken("one two three\nfour", 10.0, 45.0),
            "one two\nthree\nfour"
        );
        assert_eq!(broken("one two", 10.0, f64::INFINITY), "one two");
        assert_eq!(broken("unbreakable", 10.0, 1.0), "unbreakable");
    }

    #[test]
    fn wide_characters_are_wide() {
        assert!(width("今天", 10.0) > width("ab", 10.0));
        assert!(width("longer\nx", 10.0) == width("longer", 10.0));
        assert!(width("d_k", 10.0) < width("dk", 10.0));
        assert_eq!(height("a\nb"), 2);
        assert_eq!(height(""), 1);
    }
}
