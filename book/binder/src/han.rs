//! Chinese in the text of a page, named as such: whoever reads it aloud needs to know, and so does a
//! browser that chooses a font. Simplified, but for a column of a table that is headed 繁體中文.

use crate::markdown::events;
use pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

const SIMPLIFIED: &str = "zh-Hans";
const TRADITIONAL: &str = "zh-Hant";

/// Chinese characters, and the digits, spaces and punctuation among them.
static RUN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9]*\p{Han}(?:[\p{Han}0-9、，。；：！？（） ]*[\p{Han}）。])?")
        .expect("the pattern is valid")
});

/// The Chinese in a page's Markdown but for code, with what takes its place.
pub fn named(text: &str) -> Vec<(Range<usize>, String)> {
    let mut edits = vec![];
    // Of the table that is being read: the language of each column, and the next column.
    let (mut columns, mut column, mut in_head) = (vec![], 0, false);
    let (mut in_code, mut in_image) = (false, false);
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::TableHead) => (columns, column, in_head) = (vec![], 0, true),
            Event::Start(Tag::TableRow) => (column, in_head) = (0, false),
            Event::Start(Tag::TableCell) if in_head => columns.push(SIMPLIFIED),
            Event::End(TagEnd::TableCell) => column += 1,
            Event::End(TagEnd::Table) => columns.clear(),
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            // What stands for an image is an attribute.
            Event::Start(Tag::Image { .. }) => in_image = true,
            Event::End(TagEnd::Image) => in_image = false,
            Event::Text(_) if !in_code && !in_image => {
                let own = &text[range.clone()];
                if let (true, Some(language)) = (in_head && own == "繁體中文", columns.last_mut())
                {
                    *language = TRADITIONAL;
                }
                let language = columns.get(column).unwrap_or(&SIMPLIFIED);
                edits.extend(RUN.find_iter(own).map(|run| {
                    let place = range.start + run.start()..range.start + run.end();
                    (place, element("span", language, run.as_str()))
                }));
            }
            _ => {}
        }
    }
    edits
}

/// A text with the Chinese in it put into elements of that name.
pub fn within(text: &str, name: &str) -> String {
    let run = |run: &regex::Captures<'_>| element(name, SIMPLIFIED, &run[0]);
    RUN.replace_all(text, run).into_owned()
}

fn element(name: &str, language: &str, run: &str) -> String {
    format!("<{name} lang=\"{language}\">{run}</{name}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> String {
        let mut made = text.to_owned();
        for (range, with) in named(text).into_iter().rev() {
            made.replace_range(range, &with);
        }
        made
    }

    #[test]
    fn a_sentence_is_one_run_and_code_is_left_alone() {
        assert_eq!(
            marked("From 今天 天气 很 好, *很* and `好`\n\n```text\n好\n```\n\n![好](x.png)\n"),
            "From <span lang=\"zh-Hans\">今天 天气 很 好</span>, *<span lang=\"zh-Hans\">很</span>* and `好`\n\n\
             ```text\n好\n```\n\n![好](x.png)\n"
        );
        assert_eq!(
            marked("2026年11月29日。 x"),
            "<span lang=\"zh-Hans\">2026年11月29日。</span> x"
        );
    }

    #[test]
    fn a_column_may_be_traditional() {
        let table = "| a | 繁體中文 | 简体中文 |\n|---|---|---|\n| cosine | 餘弦（相似度） | logits、余弦 |\n";
        let made = marked(table);
        for part in [
            "<span lang=\"zh-Hant\">繁體中文</span>",
            "<span lang=\"zh-Hans\">简体中文</span>",
            "| <span lang=\"zh-Hant\">餘弦（相似度）</span> |",
            "| logits、<span lang=\"zh-Hans\">余弦</span> |",
        ] {
            assert!(made.contains(part), "{part} is not in {made}");
        }
        assert!(marked(&format!("{table}\n好\n")).ends_with("<span lang=\"zh-Hans\">好</span>\n"));
    }
}
