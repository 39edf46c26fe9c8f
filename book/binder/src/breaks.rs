//! Where a long name in a table may break: between its words, and nowhere else.

use crate::markdown::events;
use pulldown_cmark::{Event, Tag, TagEnd};
use std::ops::Range;

/// A name of so many characters fits a cell on a phone.
const SHORT: usize = 12;

/// The long code in a page's tables, with what takes its place.
pub fn allowed(text: &str) -> Vec<(Range<usize>, String)> {
    let (mut edits, mut in_table) = (vec![], false);
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::Table(_)) => in_table = true,
            Event::End(TagEnd::Table) => in_table = false,
            Event::Code(code) if in_table && code.chars().count() > SHORT => {
                edits.push((range, breakable(&code)));
            }
            _ => {}
        }
    }
    edits
}

/// Code as HTML that may break behind the marks that join its words. No mark is left for Markdown.
fn breakable(code: &str) -> String {
    let mut html = String::from("<code>");
    let mut rest = code.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_ascii_punctuation() {
            html += &format!("&#{};", u32::from(c));
        } else {
            html.push(c);
        }
        let ends_word = matches!(c, '_' | '.' | ':' | '/' | '(' | ',' | '=' | '-');
        let begins_word = rest.peek().is_some_and(|next| next.is_alphabetic());
        if ends_word && begins_word {
            html += "<wbr>";
        }
    }
    html + "</code>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_names_in_tables_break_and_only_between_words() {
        let text = "`scaled_dot_product`\n\n| `a_b` | `F.scaled_dots` | `xy \\| __init__` |\n|---|---|---|\n";
        let edits = allowed(text);
        let made: Vec<_> = edits.iter().map(|(_, html)| html.as_str()).collect();
        assert_eq!(
            made,
            [
                "<code>F&#46;<wbr>scaled&#95;<wbr>dots</code>",
                "<code>xy &#124; &#95;&#95;<wbr>init&#95;&#95;</code>"
            ]
        );
        assert_eq!(&text[edits[0].0.clone()], "`F.scaled_dots`");
    }
}
