//! Markdown, read with the same extensions as mdBook reads it, and math besides.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// mdBook's extensions but for the smart punctuation, which changes no structure, and `$…$`.
pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_HEADING_ATTRIBUTES)
    .union(Options::ENABLE_DEFINITION_LIST)
    .union(Options::ENABLE_GFM)
    .union(Options::ENABLE_MATH);

/// The events of a page with their places in it.
pub(crate) fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, OPTIONS).into_offset_iter()
}

/// A block of code on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The whole block, fences included.
    pub range: Range<usize>,
    /// What stands behind the opening fence; nothing if the block is indented.
    pub info: Option<String>,
    /// The code, without the indentation of what it stands in.
    pub code: String,
}

impl CodeBlock {
    /// The language: the first word of the info string.
    pub fn language(&self) -> &str {
        self.words().next().unwrap_or("")
    }

    /// The words of the info string, as mdBook and rustdoc tell them apart.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let info = self.info.as_deref().unwrap_or("");
        info.split([' ', '\t', ',']).filter(|word| !word.is_empty())
    }

    /// Whether rustdoc would leave this Rust block out.
    pub fn is_ignored_rust(&self) -> bool {
        self.language() == "rust" && self.words().any(|word| word.starts_with("ignore"))
    }
}

/// The blocks of code on a page, in order.
pub fn code_blocks(text: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CodeBlock> = None;
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                open = Some(CodeBlock {
                    range,
                    info: match kind {
                        CodeBlockKind::Fenced(info) => Some(info.to_string()),
                        CodeBlockKind::Indented => None,
                    },
                    code: String::new(),
                });
            }
            Event::Text(code) => {
                if let Some(block) = &mut open {
                    block.code.push_str(&code);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_where_they_stand() {
        let text = "a\n\n```rust,ignore\nlet x;\n```\n\n- b\n\n  ```text\n  c\n  ```\n";
        let blocks = code_blocks(text);
        assert_eq!(blocks.len(), 2);
        assert!(blocks[0].is_ignored_rust());
        assert!(text[blocks[0].range.clone()].starts_with("```rust"));
        assert_eq!(
            (blocks[1].language(), blocks[1].code.as_str()),
            ("text", "c\n")
        );
        assert!(!blocks[1].is_ignored_rust());
    }
}
