//! The bound book's links: every one of them leads somewhere, and nothing is fetched from outside.

use crate::preprocessor::display;
use crate::problem::{Problem, line_at};
use anyhow::{Context, Result};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer,
};
use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use percent_encoding::percent_decode_str;
use regex::Regex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Which Markdown each page came from.
#[derive(Default)]
pub struct Sources {
    by_page: BTreeMap<String, (String, String)>,
    summary: String,
}

impl Sources {
    /// The sources of a book.
    pub fn of(book: &MDBook) -> Self {
        let src = &book.config.book.src;
        let mut sources = Sources {
            by_page: BTreeMap::new(),
            summary: display(&src.join("SUMMARY.md")),
        };
        for item in book.iter() {
            let BookItem::Chapter(chapter) = item else {
                continue;
            };
            let (Some(path), Some(source)) = (&chapter.path, &chapter.source_path) else {
                continue;
            };
            let source = (display(&src.join(source)), chapter.content.clone());
            // mdBook shows the first page a second time, as the index.
            sources
                .by_page
                .entry("index.html".to_owned())
                .or_insert_with(|| source.clone());
            sources
                .by_page
                .insert(display(&path.with_extension("html")), source);
        }
        sources
    }

    /// Whether another page came from the same Markdown.
    fn repeats_a_page(&self, page: &str) -> bool {
        let source = self.by_page.get(page).map(|(file, _)| file);
        source.is_some()
            && self
                .by_page
                .values()
                .filter(|(file, _)| Some(file) == source)
                .count()
                > 1
    }

    /// The problem with a link of a page, said of the Markdown that the page came from.
    fn problem(&self, page: &str, link: &str, message: String) -> Problem {
        if page == "toc.html" {
            return Problem::in_file(&self.summary, message);
        }
        let Some((file, text)) = self.by_page.get(page) else {
            return Problem::in_file(page, message);
        };
        let decoded = percent_decode_str(link).decode_utf8_lossy().into_owned();
        let spellings = [link.to_owned(), link.replace(".html", ".md"), decoded];
        let found = spellings
            .iter()
            .flat_map(|link| [format!("({link}"), format!("\"{link}"), link.clone()])
            .find_map(|needle| text.find(&needle));
        match found {
            Some(offset) => Problem::new(file, line_at(text, offset), message),
            None => Problem::in_file(file, message),
        }
    }
}

/// The problems of the book that is bound in `dir`.
///
/// # Errors
/// If a file cannot be read.
pub fn check(dir: &Path, sources: &Sources) -> Result<Vec<Problem>> {
    let mut files = BTreeSet::new();
    list(dir, "", &mut files)?;
    let mut pages = BTreeMap::new();
    let mut references = Vec::new();
    for file in &files {
        if file.ends_with(".html") {
            let page = read_page(&read(dir, file)?);
            references.extend(page.references.iter().map(|r| (file.as_str(), r.clone())));
            pages.insert(file.as_str(), page);
        } else if file.ends_with(".css") {
            let css = css_references(&read(dir, file)?);
            references.extend(css.into_iter().map(|r| (file.as_str(), r)));
        }
    }
    let mut problems = Vec::new();
    let mut repeated = Vec::new();
    for (file, reference) in references {
        let base = pages.get(file).and_then(|page| page.base.as_deref());
        if let Err(message) = resolve(file, base, &reference, &files, &pages) {
            let problem = sources.problem(file, &reference.url, message);
            if file == "print.html" || file == "index.html" && sources.repeats_a_page(file) {
                repeated.push(problem);
            } else {
                problems.push(problem);
            }
        }
    }
    // The print page repeats all the others and the index the first one, with changed names.
    if problems.is_empty() {
        problems = repeated;
    }
    problems.sort();
    problems.dedup();
    Ok(problems)
}

fn read(dir: &Path, file: &str) -> Result<String> {
    fs::read_to_string(dir.join(file)).with_context(|| format!("cannot read {file}"))
}

fn list(dir: &Path, prefix: &str, files: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(dir.join(prefix))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = match prefix {
            "" => name.to_string_lossy().into_owned(),
            _ => format!("{prefix}/{}", name.to_string_lossy()),
        };
        if entry.file_type()?.is_dir() {
            list(dir, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

/// What a page or a stylesheet refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    url: String,
    /// Whether the reader follows it by choice, and it may lead out of the book.
    link: bool,
}

#[derive(Debug, Default)]
struct PageParts {
    ids: BTreeSet<String>,
    references: Vec<Reference>,
    base: Option<String>,
}

fn read_page(html: &str) -> PageParts {
    let reader = Reader::default();
    let tokenizer = Tokenizer::new(reader, Default::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.parts.take()
}

#[derive(Default)]
struct Reader {
    parts: RefCell<PageParts>,
    in_style: RefCell<bool>,
}

impl Reader {
    fn start(&self, tag: &Tag) {
        let mut parts = self.parts.borrow_mut();
        let name = &*tag.name;
        for attribute in &tag.attrs {
            let (key, value) = (&*attribute.name.local, attribute.value.to_string());
            match key {
                "id" | "name" if key == "id" || name == "a" => {
                    parts.ids.insert(value);
                }
                "href" if name == "base" => parts.base = Some(value),
                "href" | "xlink:href" => parts.references.push(Reference {
                    url: value,
                    link: name == "a",
                }),
                "src" | "poster" | "data" | "action" | "formaction" | "background" => {
                    parts.references.push(Reference {
                        url: value,
                        link: false,
                    });
                }
                "srcset" => {
                    for candidate in value.split(',') {
                        let url = candidate.split_whitespace().next().unwrap_or("");
                        parts.references.push(Reference {
                            url: url.to_owned(),
                            link: false,
                        });
                    }
                }
                _ if value.contains("url(") => parts.references.extend(css_references(&value)),
                _ => {}
            }
        }
    }
}

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) => {
                *self.in_style.borrow_mut() =
                    tag.kind == TagKind::StartTag && &*tag.name == "style";
                if tag.kind == TagKind::EndTag {
                    return TokenSinkResult::Continue;
                }
                self.start(&tag);
                match &*tag.name {
                    "script" if !tag.self_closing => TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" if !tag.self_closing => TokenSinkResult::RawData(RawKind::Rawtext),
                    _ => TokenSinkResult::Continue,
                }
            }
            Token::CharacterTokens(text) if *self.in_style.borrow() => {
                let references = css_references(&text);
                self.parts.borrow_mut().references.extend(references);
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

fn css_references(css: &str) -> Vec<Reference> {
    static URL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?s)/\*.*?\*/|url\(\s*["']?([^"')]*?)["']?\s*\)|@import\s+["']([^"']*)["']"#)
            .expect("the pattern is valid")
    });
    URL.captures_iter(css)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|url| Reference {
            url: url.as_str().to_owned(),
            link: false,
        })
        .collect()
}

/// Whether a reference in `file` leads to something that is there.
fn resolve(
    file: &str,
    base: Option<&str>,
    reference: &Reference,
    files: &BTreeSet<String>,
    pages: &BTreeMap<&str, PageParts>,
) -> Result<(), String> {
    let url = reference.url.trim();
    if url.starts_with("data:") {
        return Ok(());
    }
    if let Some(scheme) = scheme(url) {
        return match (reference.link, scheme) {
            (true, "https") => Ok(()),
            (true, _) => Err(format!(
                "the link {url} leaves the book by {scheme}, not https"
            )),
            (false, _) => Err(format!("{url} would be fetched from outside the book")),
        };
    }
    let (path, fragment) = url.split_once('#').unwrap_or((url, ""));
    let path = path.split('?').next().unwrap_or("");
    let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let path = decode(path);
    let target = if path.is_empty() {
        file.to_owned()
    } else {
        let inside = match (base, path.strip_prefix('/')) {
            // Such a page is shown at any address and says itself where its links start.
            (Some("/"), Some(rest)) => join("", rest),
            (Some("/"), None) => join("", &path),
            (_, Some(_)) => return Err(format!("the link {url} starts at the root of a server")),
            (_, None) => join(
                file.rsplit_once('/').map_or("", |(folder, _)| folder),
                &path,
            ),
        };
        let mut inside = inside.ok_or_else(|| format!("{url} leads out of the book"))?;
        if path.ends_with('/') || inside.is_empty() {
            inside = format!("{inside}/index.html")
                .trim_start_matches('/')
                .to_owned();
        }
        inside
    };
    if !files.contains(&target) {
        return Err(format!(
            "the link {url} leads nowhere: there is no {target}"
        ));
    }
    let fragment = decode(fragment);
    match pages.get(target.as_str()) {
        Some(page) if !fragment.is_empty() && !page.ids.contains(&fragment) => Err(format!(
            "the link {url} leads nowhere: {target} has no #{fragment}{}",
            similar(&fragment, &page.ids)
        )),
        _ => Ok(()),
    }
}

/// The scheme of an address that leaves the book.
fn scheme(url: &str) -> Option<&str> {
    if url.starts_with("//") {
        return Some("//");
    }
    let (scheme, _) = url.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    valid.then_some(scheme)
}

/// A relative path, seen from a folder of the book; nothing if it leads out of the book.
fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The ids that begin like the one that is missing.
fn similar(fragment: &str, ids: &BTreeSet<String>) -> String {
    let beginning: String = fragment.chars().take(4).collect();
    let near: Vec<String> = ids
        .iter()
        .filter(|id| id.starts_with(&beginning))
        .map(|id| format!("#{id}"))
        .collect();
    if near.is_empty() {
        String::new()
    } else {
        format!("; there is {}", near.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut sources = Sources::default();
        sources.by_page.insert(
            "a.html".to_owned(),
            ("src/a.md".to_owned(), "# A\n\n[x](b.md#no)\n".to_owned()),
        );
        let found = check(dir.path(), &sources).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_links_are_good() {
        let found = problems(&[
            (
                "a.html",
                "<a href='b.html#%C3%BC'>x</a><a href='#'>t</a><a href='https://doc.rust-lang.org'>r</a>\
                 <img src='data:image/png;base64,x'><script>'<a href=\"no.html\">'</script>\
                 <link href='css/s.css?v=1'>",
            ),
            (
                "b.html",
                "<p id=ü><a href='./'>i</a><svg><use href='#ü'/></svg>",
            ),
            (
                "css/s.css",
                "/* url(no.png) */ a { background: url('../p.png') }",
            ),
            ("p.png", ""),
            ("index.html", ""),
            (
                "404.html",
                "<base href='/'><a href='/b.html'>b</a><a href='b.html'>b</a>",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn bad_links_are_named_with_their_source() {
        let found = problems(&[
            ("a.html", "<a href='b.html#no'>x</a>"),
            ("b.html", "<p id=some>"),
            ("print.html", "<a href='#b-no'>x</a>"),
        ]);
        assert_eq!(
            found,
            ["src/a.md:3: the link b.html#no leads nowhere: b.html has no #no"]
        );
    }

    #[test]
    fn nothing_is_fetched_and_nothing_leads_out() {
        for (html, message) in [
            ("<img src='https://x.org/a.png'>", "fetched from outside"),
            ("<link href='//x.org/a.css'>", "fetched from outside"),
            (
                "<style>a{b:url(http://x.org)}</style>",
                "fetched from outside",
            ),
            ("<p style='background:url(x.png)'>", "there is no c/x.png"),
            ("<a href='http://x.org'>x</a>", "not https"),
            ("<a href='../../x'>x</a>", "out of the book"),
            ("<a href='/x'>x</a>", "root of a server"),
            ("<a href='c.html'>x</a>", "there is no c/c.html"),
            ("<img srcset='p.png 2x'>", "there is no c/p.png"),
        ] {
            let found = problems(&[("c/d.html", html)]);
            assert!(
                found.iter().any(|problem| problem.contains(message)),
                "{html}: {found:?}"
            );
        }
    }
}
