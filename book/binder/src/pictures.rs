//! The book's figures: `{{#figure ch04 causal "Caption"}}` on a line of its own, and
//! `{{#figure ch04 causal live "Caption"}}` for one whose numbers the reader may change.

use crate::again::Key;
use crate::han;
use crate::markdown::OPTIONS;
use crate::math::Math;
use crate::page::apply;
use crate::problem::known;
use anyhow::Result;
use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The figures, each drawn when it is first asked for.
#[derive(Default)]
pub struct Pictures {
    drawn: RefCell<HashMap<(String, bool), String>>,
    live: bool,
    kept: Option<(PathBuf, Key)>,
}

/// What a page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The chapter and the name of the figure.
    pub figure: (&'a str, &'a str),
    /// Whether the reader may change its numbers.
    pub live: bool,
    /// The caption.
    pub caption: &'a str,
}

impl Pictures {
    /// Those of a book whose live figures will have what they need, or will not. In a folder that is
    /// named they are kept for as long as this program is the same.
    pub fn new(live: bool, kept: Option<&Path>) -> Self {
        let kept = kept.and_then(|folder| Some((folder.to_owned(), Key::of_program().ok()?)));
        Pictures {
            live,
            kept,
            ..Pictures::default()
        }
    }

    /// What `{{#figure chapter name "caption"}}` stands for: one line of HTML.
    ///
    /// # Errors
    /// With a message for the author, if there is no such figure or it cannot be drawn.
    pub fn figure(&self, arguments: &str, math: &Math) -> Result<String, String> {
        let Asked {
            figure: (chapter, name),
            live,
            caption,
        } = parse(arguments)?;
        let drawn = find(chapter, name)?;
        let id = format!("fig-{chapter}-{name}");
        let live = match live {
            true => Some(find_live(chapter, name)?).filter(|_| self.live),
            false => None,
        };
        let key = (id, live.is_some());
        let known = self.drawn.borrow().get(&key).cloned();
        let content = match (known, live) {
            (Some(content), _) => Ok(content),
            (None, Some(live)) => self.made(&format!("{}-live", key.0), || widgets::html(live)),
            (None, None) => self.made(&key.0, || {
                drawn.draw().map(|picture| picture.to_inline_svg(&key.0))
            }),
        };
        let content = content
            .map_err(|error| format!("cannot draw the figure {chapter} {name}: {error:#}"))?;
        let attributes = match live {
            Some(live) => format!("figure live\" data-live=\"{}", live.id()),
            None => "figure".to_owned(),
        };
        let html = frame(&key.0, &attributes, &content, caption, math)?;
        self.drawn.borrow_mut().insert(key, content);
        Ok(html)
    }

    /// What was made under a name before, or else is made now.
    fn made(&self, name: &str, make: impl FnOnce() -> Result<String>) -> Result<String> {
        let Some((folder, key)) = &self.kept else {
            return make();
        };
        let file = folder.join(name);
        if let Some(content) = key.find(&file) {
            return Ok(content);
        }
        let content = make()?;
        key.put(&file, &content);
        Ok(content)
    }

    /// Whether `{{#figure chapter name "caption"}}` is well formed and known.
    ///
    /// # Errors
    /// With a message for the author.
    pub fn check(&self, arguments: &str) -> Result<(), String> {
        let asked = parse(arguments)?;
        let (chapter, name) = asked.figure;
        find(chapter, name)?;
        if asked.live {
            find_live(chapter, name)?;
        }
        Ok(())
    }
}

/// What a page asks for in `chapter name "caption"` or `chapter name live "caption"`.
///
/// # Errors
/// With a message for the author, if something is missing.
pub fn parse(arguments: &str) -> Result<Asked<'_>, String> {
    let usage = || {
        "write {{#figure chapter name \"Caption\"}}, with `live` before the caption if it is"
            .to_owned()
    };
    let (names, caption) = arguments.split_once('"').ok_or_else(usage)?;
    let caption = caption.strip_suffix('"').ok_or_else(usage)?.trim();
    let (figure, live) = match *names.split_whitespace().collect::<Vec<_>>() {
        [chapter, name] => ((chapter, name), false),
        [chapter, name, "live"] => ((chapter, name), true),
        _ => return Err(usage()),
    };
    if caption.is_empty() {
        return Err(usage());
    }
    Ok(Asked {
        figure,
        live,
        caption,
    })
}

fn find_live(chapter: &str, name: &str) -> Result<&'static widgets::Live, String> {
    widgets::find(chapter, name).map_err(|error| format!("{error:#}"))
}

fn find(chapter: &str, name: &str) -> Result<&'static figures::Figure, String> {
    let all = figures::all();
    if let Some(figure) = all.iter().find(|f| f.chapter == chapter && f.name == name) {
        return Ok(figure);
    }
    let names: Vec<&str> = all
        .iter()
        .filter(|figure| figure.chapter == chapter)
        .map(|figure| figure.name)
        .collect();
    if !names.is_empty() {
        return Err(format!(
            "{chapter} has no figure `{name}`; {}",
            known("figures", names)
        ));
    }
    let mut chapters: Vec<&str> = all.iter().map(|figure| figure.chapter).collect();
    chapters.dedup();
    Err(format!(
        "there are no figures for `{chapter}`; {}",
        known("chapters", chapters)
    ))
}

/// A picture in its frame, with the caption's Markdown and formulas rendered: one line of HTML.
///
/// # Errors
/// With a message for the author, if a formula of the caption does not parse.
pub fn wrap(id: &str, picture: &str, caption: &str, math: &Math) -> Result<String, String> {
    frame(id, "figure", picture, caption, math)
}

fn frame(
    id: &str,
    class: &str,
    content: &str,
    caption: &str,
    math: &Math,
) -> Result<String, String> {
    let caption = render_caption(caption, math)?;
    Ok(format!(
        "<figure id=\"{id}\" class=\"{class}\">{content}<figcaption>{caption}</figcaption></figure>"
    ))
}

fn render_caption(caption: &str, math: &Math) -> Result<String, String> {
    if let Some((_, problem)) = crate::math::find(caption).1.into_iter().next() {
        return Err(problem);
    }
    let options = OPTIONS | pulldown_cmark::Options::ENABLE_SMART_PUNCTUATION;
    let caption = apply(caption, han::named(caption));
    let events = Parser::new_ext(&caption, options)
        .filter(|event| {
            !matches!(
                event,
                Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph)
            )
        })
        .map(|event| {
            Ok(match event {
                Event::InlineMath(tex) => {
                    Event::InlineHtml(CowStr::from(math.render(&tex, false)?))
                }
                Event::DisplayMath(tex) => {
                    Event::InlineHtml(CowStr::from(math.render(&tex, true)?))
                }
                Event::SoftBreak => Event::Text(CowStr::Borrowed(" ")),
                other => other,
            })
        })
        .collect::<Result<Vec<_>, String>>()?;
    let mut rendered = String::new();
    html::push_html(&mut rendered, events.into_iter());
    Ok(rendered.trim().replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_two_names_and_a_caption() {
        assert_eq!(
            parse(r#"ch04 causal "What "may" be *seen*""#),
            Ok(Asked {
                figure: ("ch04", "causal"),
                live: false,
                caption: r#"What "may" be *seen*"#
            })
        );
        assert!(parse(r#"ch04 causal live "x""#).unwrap().live);
        for bad in [
            "ch04 causal",
            r#"ch04 causal alive "x""#,
            r#"ch04 "x""#,
            r#"ch04 causal """#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_caption_is_markdown_with_formulas() {
        let math = Math::new().unwrap();
        let html = wrap("fig-x", "<svg></svg>", "The *grid*\nof $E_{ij}$", &math).unwrap();
        assert!(html.starts_with("<figure id=\"fig-x\" class=\"figure\"><svg></svg><figcaption>"));
        assert!(html.contains("The <em>grid</em> of <math>"), "{html}");
        assert!(!html.contains('\n'));
        assert!(
            wrap("x", "", r"$\frax$", &math)
                .unwrap_err()
                .contains(r"\frax")
        );
        assert!(wrap("x", "", "a $ b", &math).is_err());
    }

    #[test]
    fn an_unknown_figure_lists_the_known_ones() {
        let message = Pictures::default().check("ch99 nothing \"x\"").unwrap_err();
        assert!(message.contains("no figures for `ch99`"), "{message}");
        assert!(message.contains("known chapters"), "{message}");
    }
}
