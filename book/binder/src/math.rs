//! Formulas: `$…$` and `$$…$$` become MathML when the book is bound.

use crate::markdown::events;
use anyhow::{Result, anyhow};
use math_core::{LatexToMathML, MathCoreConfig, MathDisplay, PrettyPrint};
use pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Commands of the book's own, beside those of LaTeX.
const MACROS: [(&str, &str); 2] = [("softmax", r"\operatorname{softmax}"), ("R", r"\mathbb{R}")];

/// A formula on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// Where it stands, dollar signs included.
    pub range: Range<usize>,
    /// The LaTeX between the dollar signs.
    pub tex: String,
    /// Whether it has a line of its own.
    pub display: bool,
}

/// The formulas of a page, and what is wrong with dollar signs that delimit none, each with its
/// byte offset. A `$` in code is code; elsewhere a dollar sign is written `\$`.
pub fn find(text: &str) -> (Vec<Formula>, Vec<(usize, String)>) {
    let (mut formulas, mut strays) = (Vec::new(), Vec::new());
    let mut in_code = false;
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::InlineMath(tex) => formulas.push(Formula {
                range,
                tex: tex.to_string(),
                display: false,
            }),
            Event::DisplayMath(tex) => formulas.push(Formula {
                range,
                tex: tex.to_string(),
                display: true,
            }),
            Event::Text(_) if !in_code => strays.extend(dollars(text, range)),
            Event::Html(_) | Event::InlineHtml(_) => strays.extend(dollars(text, range)),
            _ => {}
        }
    }
    (formulas, stray(strays))
}

/// The offsets of the dollar signs in a part of the page, but for those that are escaped.
fn dollars(text: &str, range: Range<usize>) -> impl Iterator<Item = usize> {
    let start = range.start;
    text[range]
        .match_indices('$')
        .map(move |(at, _)| start + at)
        .filter(|&at| !text[..at].ends_with('\\'))
}

fn stray(offsets: Vec<usize>) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let mut offsets = offsets.into_iter().peekable();
    while let Some(offset) = offsets.next() {
        let message = if offsets.next_if_eq(&(offset + 1)).is_some() {
            "this $$ opens or closes no formula; is the other one missing?"
        } else {
            r"this $ opens or closes no formula; a dollar sign is written \$"
        };
        problems.push((offset, message.to_owned()));
    }
    problems
}

/// A formula within a line, joined to the punctuation that follows it, so that no line begins with
/// a comma.
pub fn keep_with_punctuation(
    text: &str,
    range: Range<usize>,
    html: String,
) -> (Range<usize>, String) {
    let rest = &text[range.end..];
    let behind = rest.trim_start_matches(['.', ',', ';', ':', '?', '!', ')', '’']);
    let punctuation = &rest[..rest.len() - behind.len()];
    if punctuation.is_empty() {
        return (range, html);
    }
    (
        range.start..range.end + punctuation.len(),
        format!("<span class=\"unbroken\">{html}{punctuation}</span>"),
    )
}

/// The translator from LaTeX to MathML.
pub struct Math(LatexToMathML);

impl Math {
    /// A translator that knows the book's own commands.
    ///
    /// # Errors
    /// If one of them is not well formed.
    pub fn new() -> Result<Self> {
        let config = MathCoreConfig {
            pretty_print: PrettyPrint::Never,
            macros: MACROS
                .map(|(name, meaning)| (name.to_owned(), meaning.to_owned()))
                .into(),
            ..MathCoreConfig::default()
        };
        LatexToMathML::new(config)
            .map(Math)
            .map_err(|(error, _, meaning)| anyhow!("the command `{meaning}`: {error}"))
    }

    /// The formula as one line of HTML that can stand inside a paragraph of Markdown.
    ///
    /// # Errors
    /// With a message for the author, if the LaTeX does not parse.
    pub fn render(&self, tex: &str, display: bool) -> Result<String, String> {
        let style = if display {
            MathDisplay::Block
        } else {
            MathDisplay::Inline
        };
        let tex = tex.split_whitespace().collect::<Vec<_>>().join(" ");
        let rendered = self
            .0
            .convert_with_local_state(&tex, style)
            .map_err(|error| {
                let at = tex.get(error.0.start..).unwrap_or("");
                let near: String = at.chars().take(20).collect();
                let place = if near.is_empty() {
                    "at its end".to_owned()
                } else {
                    format!("at `{near}`")
                };
                format!("the formula ${tex}$ does not parse {place}: {error}")
            })?;
        let mathml = shield(&primes_beside(&rendered.mathml.replace('\n', " ")));
        Ok(if display {
            format!("<span class=\"math-block\">{mathml}</span>")
        } else {
            mathml
        })
    }
}

/// The same MathML with its primes beside their letter. The face of the formulas draws a prime small and
/// raised by itself, so as a superscript it would be tiny and float above.
fn primes_beside(mathml: &str) -> String {
    static PRIMED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"<msup>(<mi[^>]*>[^<]*</mi>)<mo>([′″‴])</mo></msup>")
            .expect("it is well formed")
    });
    static PRIMED_AND_NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"<msubsup>(<mi[^>]*>[^<]*</mi>)(<m[in][^>]*>[^<]*</m[in]>|<mrow>(?:<m[ino][^>]*>[^<]*</m[ino]>)*</mrow>)<mo>([′″‴])</mo></msubsup>")
            .expect("it is well formed")
    });
    let mathml = PRIMED.replace_all(mathml, "<mrow>$1<mo>$2</mo></mrow>");
    PRIMED_AND_NUMBERED
        .replace_all(&mathml, "<msub><mrow>$1<mo>$3</mo></mrow>$2</msub>")
        // The face has no glyphs for these two.
        .replace('″', "′′")
        .replace('‴', "′′′")
}

/// The same HTML with no character left in its text that Markdown would take for its own.
fn shield(html: &str) -> String {
    let mut shielded = String::with_capacity(html.len() * 2);
    let mut in_tag = false;
    for c in html.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ => {}
        }
        let special = if in_tag {
            c == '|'
        } else {
            c.is_ascii_punctuation() && !matches!(c, '>' | '&' | ';' | '#' | ',' | '(' | ')')
        };
        if special {
            shielded.push_str(&format!("&#{};", u32::from(c)));
        } else {
            shielded.push(c);
        }
    }
    shielded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prime_stands_beside_its_letter() {
        let math = Math::new().unwrap();
        // As it is read, without the shield against Markdown.
        let html = |tex| {
            primes_beside(
                &math
                    .0
                    .convert_with_local_state(tex, MathDisplay::Inline)
                    .unwrap()
                    .mathml,
            )
        };
        assert!(html("S'").contains("<mrow><mi>S</mi><mo>′</mo></mrow>"));
        let numbered = html("E'_{ij}");
        assert!(
            numbered.contains("<msub><mrow><mi>E</mi><mo>′</mo></mrow><mrow>"),
            "{numbered}"
        );
        let thrice = html("L'''(w)");
        assert!(thrice.contains("<mo>′′′</mo>"), "{thrice}");
        // Each of two keeps its own number.
        let two = html("x_1^2 E'_3");
        assert!(two.contains("<mn>2</mn></msubsup>"), "{two}");
        assert!(two.contains("<mo>′</mo></mrow><mn>3</mn></msub>"), "{two}");
    }

    fn formulas(text: &str) -> Vec<(String, bool)> {
        let (formulas, problems) = find(text);
        assert_eq!(problems, []);
        formulas.into_iter().map(|f| (f.tex, f.display)).collect()
    }

    #[test]
    fn formulas_are_found_and_code_is_not() {
        assert_eq!(
            formulas("$a_1$ `$b$` $$c$$\n\n```sh\n$ d $e$\n```\n\ncosts \\$5"),
            [("a_1".to_owned(), false), ("c".to_owned(), true)]
        );
    }

    #[test]
    fn formulas_are_found_in_lists_tables_and_quotes() {
        assert_eq!(
            formulas("> $$\n> a\n> $$\n\n- b\n  $$c$$\n\n| x |\n|---|\n| $d$ |\n")
                .into_iter()
                .map(|(tex, _)| tex.trim().to_owned())
                .collect::<Vec<_>>(),
            ["a", "c", "d"]
        );
    }

    #[test]
    fn a_stray_dollar_sign_is_a_problem() {
        let (_, problems) = find("one $$ two\n\nthree $ four\n\n<p>$5</p>\n");
        assert_eq!(
            problems.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [4, 18, 29]
        );
        assert!(problems[0].1.contains("$$"));
    }

    #[test]
    fn a_formula_becomes_one_line_that_markdown_leaves_alone() {
        let math = Math::new().unwrap();
        let html = math
            .render(
                r"\softmax\left(\frac{Q K^\top}{\sqrt{d_k}}\right)_{ij} * |x| \le [y]",
                true,
            )
            .unwrap();
        assert!(html.starts_with("<span class=\"math-block\"><math display=\"block\">"));
        assert!(!html.contains('\n'));
        let rendered = {
            let mut out = String::new();
            pulldown_cmark::html::push_html(
                &mut out,
                pulldown_cmark::Parser::new_ext(&html, crate::markdown::OPTIONS),
            );
            out
        };
        assert!(!rendered.contains("<em>"), "{rendered}");
        assert!(rendered.contains("softmax"));
        assert_eq!(rendered.trim().matches("<p>").count(), 1);
    }

    #[test]
    fn a_formula_in_a_table_stays_in_its_cell() {
        let html = Math::new().unwrap().render(r"\|q\| = |k|", false).unwrap();
        assert!(!html.contains('|'), "{html}");
    }

    #[test]
    fn punctuation_stays_with_its_formula() {
        let joined = |text| keep_with_punctuation(text, 2..5, "M".to_owned());
        assert_eq!(
            joined("a $b$), c"),
            (2..7, "<span class=\"unbroken\">M),</span>".to_owned())
        );
        assert_eq!(joined("a $b$ c."), (2..5, "M".to_owned()));
    }

    #[test]
    fn a_bad_formula_says_what_and_where() {
        let math = Math::new().unwrap();
        let message = math.render(r"a + \frax{1}{2}", false).unwrap_err();
        assert!(message.contains(r"\frax"), "{message}");
        let message = math.render(r"\frac{1}{2", false).unwrap_err();
        assert!(message.contains("does not parse"), "{message}");
    }
}
