//! The live figures' scripts: the chapters as WebAssembly, in files that a page can load from a disk
//! as well as from a server, and what it all weighs.

use crate::again::Key;
use crate::cargo;
use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use wasm_bindgen_cli_support::Bindgen;

/// The folder of the bound book that holds the scripts.
const FOLDER: &str = "live";

/// The most that each thing may weigh, in bytes.
const WASM: usize = 180 * 1024;
const SCRIPTS: usize = 20 * 1024;
const PAGE: usize = 150 * 1024;

/// How to get what is lacking where pages stay without life.
pub const ADVICE: &str = "The figures are bound without controls, because Rust's target for pages is not here: \
                          `rustup target add wasm32-unknown-unknown` adds it.";

/// What something weighs, and what it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// What it is.
    pub what: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// The most that it may weigh, if there is a limit.
    pub limit: Option<usize>,
}

impl Weight {
    fn new(what: impl Into<String>, bytes: usize, limit: Option<usize>) -> Self {
        Self {
            what: what.into(),
            bytes,
            limit,
        }
    }

    fn is_too_much(&self) -> bool {
        self.limit.is_some_and(|limit| self.bytes > limit)
    }
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        write!(f, "{}: {:.1} KiB", self.what, kib(self.bytes))?;
        match self.limit {
            Some(limit) => write!(f, " of {:.0}", kib(limit)),
            None => Ok(()),
        }
    }
}

/// Where a page has its live figures' scripts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// From files beside the page, which [`finish`] adds.
    Files,
    /// From the page itself, because nobody can add a file.
    Inside,
    /// From nowhere: the figures stand still.
    None,
}

/// What a page needs for its live figures, as HTML; nothing for a page without any. `up` leads from the
/// page to the book's folder.
///
/// # Errors
/// If the live figures cannot be compiled.
pub fn tags(root: &Path, page: &str, up: &str, life: Life) -> Result<String> {
    let names = needed(page);
    let mut tags = String::new();
    for name in names {
        tags += &match life {
            Life::Files => format!("<script defer src=\"{up}{FOLDER}/{name}.js\"></script>"),
            Life::Inside => format!("<script>\n{}\n</script>\n", script(root, name)?.text),
            Life::None => String::new(),
        };
    }
    Ok(tags)
}

/// The names of the scripts that a page needs, in the order in which they run.
fn needed(page: &str) -> Vec<&'static str> {
    let live: Vec<_> = widgets::all()
        .filter(|live| page.contains(&format!("data-live=\"{}\"", live.id())))
        .collect();
    let mut names = vec![];
    for (part, data) in PARTS {
        if live.iter().any(|live| live.part == part) {
            names.extend(data);
            names.push(part);
        }
    }
    if !names.is_empty() {
        names.push(OURS);
    }
    names
}

/// The parts of the live figures that pages load one by one, examples of the crate `widgets`, and the
/// data that a part needs.
const PARTS: [(&str, Option<&str>); 2] = [("numbers", None), ("dates", Some(LEARNED))];

/// The trained weights.
const LEARNED: &str = "weights";

/// The script that we write ourselves.
const OURS: &str = "live";

/// A script, and what it weighs: what is compressed in it, or else its text.
struct Script {
    text: String,
    weight: Weight,
    /// How much of it is JavaScript.
    code: usize,
}

impl Script {
    /// A script as it was kept.
    fn read(kept: &str) -> Option<Self> {
        let mut lines = kept.splitn(5, '\n');
        let what = lines.next()?;
        let bytes = lines.next()?.parse().ok()?;
        let limit = match lines.next()? {
            "" => None,
            limit => Some(limit.parse().ok()?),
        };
        Some(Script {
            weight: Weight::new(what, bytes, limit),
            code: lines.next()?.parse().ok()?,
            text: lines.next()?.to_owned(),
        })
    }
}

impl std::fmt::Display for Script {
    /// As it is kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Weight { what, bytes, limit } = &self.weight;
        let limit = limit.map_or_else(String::new, |limit| limit.to_string());
        write!(f, "{what}\n{bytes}\n{limit}\n{}\n{}", self.code, self.text)
    }
}

fn script(root: &Path, name: &str) -> Result<Script> {
    let packed = |variable: &str, bytes: &[u8]| format!("window.{variable}=\"{}\";", base64(bytes));
    Ok(if name == OURS {
        let file = root.join("book/widgets/live.js");
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Script {
            weight: Weight::new("our script", text.len(), None),
            code: text.len(),
            text,
        }
    } else if name == LEARNED {
        let weights = gzip(&widgets::packed_weights()?)?;
        Script {
            text: packed("bookWeights", &weights),
            weight: Weight::new("trained weights, compressed", weights.len(), None),
            code: 0,
        }
    } else {
        let Code { glue, wasm } = code(root, name)?;
        let what = format!("live figures, {name}, compressed");
        Script {
            text: format!("{glue}\n{}", packed("bookWasm", &wasm)),
            weight: Weight::new(what, wasm.len(), Some(WASM)),
            code: glue.len(),
        }
    })
}

/// A script that was made of the same before, in the folder where it is kept, or else is made now.
fn kept_script(root: &Path, name: &str, kept: Option<(&Path, &Key)>) -> Result<Script> {
    let Some((folder, key)) = kept.filter(|_| name != OURS) else {
        return script(root, name);
    };
    let file = folder.join(format!("{name}.js"));
    if let Some(script) = key.find(&file).as_deref().and_then(Script::read) {
        return Ok(script);
    }
    let script = script(root, name)?;
    key.put(&file, &script.to_string());
    Ok(script)
}

/// Adds the scripts that the pages in `dir` ask for, and weighs what a reader has to load. A book without
/// live figures has nothing to weigh. The scripts are kept in a folder if one is named.
///
/// # Errors
/// If the live figures cannot be compiled, or something is too heavy.
pub fn finish(root: &Path, dir: &Path, kept: Option<&Path>) -> Result<Vec<Weight>> {
    let pages = pages(dir)?;
    let mut names: Vec<_> = pages.iter().flat_map(|(_, html)| needed(html)).collect();
    names.sort_unstable();
    names.dedup();
    let key = match kept {
        Some(_) if !names.is_empty() => Key::of_live_figures(root).ok(),
        _ => None,
    };
    let kept = kept.zip(key.as_ref());
    let mut weights = vec![];
    let (mut ours, mut glue) = (0, 0);
    for name in names {
        let script = kept_script(root, name, kept)?;
        let folder = dir.join(FOLDER);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{name}.js")), script.text)?;
        if name == OURS {
            ours = script.code;
        } else {
            glue = script.code.max(glue);
            weights.push(script.weight);
        }
    }
    if ours > 0 {
        let what = "live figures, JavaScript";
        weights.push(Weight::new(what, ours + glue, Some(SCRIPTS)));
        weights.extend(heaviest(dir, &pages)?);
    }
    let heavy: Vec<_> = weights
        .iter()
        .filter(|weight| weight.is_too_much())
        .collect();
    if !heavy.is_empty() {
        let heavy: Vec<_> = heavy.iter().map(ToString::to_string).collect();
        bail!("too much to load: {}", heavy.join("; "));
    }
    Ok(weights)
}

/// Takes the tags of scripts that nobody adds off the pages in `dir`.
///
/// # Errors
/// If a page cannot be read or written.
pub fn give_up(dir: &Path) -> Result<()> {
    for (path, html) in pages(dir)? {
        fs::write(path, without_tags(&html).as_ref())?;
    }
    Ok(())
}

fn without_tags(html: &str) -> Cow<'_, str> {
    static TAGS: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = format!("<script defer(?:=\"\")? src=\"[./]*{FOLDER}/\\w+\\.js\"></script>");
        Regex::new(&pattern).expect("the pattern is valid")
    });
    TAGS.replace_all(html, "")
}

/// The pages of the book with their paths. The one that is made to be printed has everything twice and
/// nobody works with it, so its scripts go.
fn pages(dir: &Path) -> Result<Vec<(PathBuf, String)>> {
    let (mut pages, mut folders) = (vec![], vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                let html = fs::read_to_string(&path)?;
                if path == dir.join("print.html") {
                    fs::write(&path, without_tags(&html).as_ref())?;
                } else {
                    pages.push((path, html));
                }
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The heaviest page without live figures, with all that it loads at first.
fn heaviest(dir: &Path, pages: &[(PathBuf, String)]) -> Result<Option<Weight>> {
    let mut heaviest: Option<Weight> = None;
    let mut linked = BTreeMap::new();
    for (path, html) in pages {
        if html.contains(" data-live=") {
            continue;
        }
        let bytes = load(dir, path, html, &mut linked)?;
        if heaviest.as_ref().is_none_or(|most| bytes > most.bytes) {
            let name = path.strip_prefix(dir)?.display();
            let what = format!("heaviest page without them, {name}");
            heaviest = Some(Weight::new(what, bytes, Some(PAGE)));
        }
    }
    Ok(heaviest)
}

/// What a page weighs when it is first read: itself, its style sheets and scripts, compressed, and the
/// faces of the book that it is set in down to the first heading of a section. Further faces arrive
/// while that is read. Of what pages link to, the weights are entered as they become known.
fn load(
    dir: &Path,
    path: &Path,
    html: &str,
    known: &mut BTreeMap<PathBuf, usize>,
) -> Result<usize> {
    static LINKED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"<script[^>]* src="([^"]+)"|<link rel="stylesheet" href="([^"]+)"(?: media="(\w+)")?"#)
            .expect("the pattern is valid")
    });
    static FACES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?s)@font-face\s*\{([^}]*)\}"#).expect("the pattern is valid")
    });
    static FILE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"url\(["']?([^"')]+)"#).expect("the pattern is valid"));
    let folder = path.parent().context("a page lies in a folder")?;
    let text = html.split_once("<main>").map_or(html, |(_, text)| text);
    let first = text.split_once("<h2").map_or(text, |(first, _)| first);
    let mut bytes = gzip(html.as_bytes())?.len();
    for linked in LINKED.captures_iter(html) {
        if linked.get(3).is_some_and(|media| media.as_str() == "print") {
            continue;
        }
        let Some(name) = linked.get(1).or(linked.get(2)) else {
            continue;
        };
        let file = folder.join(name.as_str());
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        bytes += match known.get(&file) {
            Some(&bytes) => bytes,
            None => {
                let bytes = gzip(&content)?.len();
                known.insert(file.clone(), bytes);
                bytes
            }
        };
        if file.extension().is_none_or(|ending| ending != "css") {
            continue;
        }
        let css = String::from_utf8_lossy(&content);
        for face in FACES.captures_iter(&css) {
            let face = &face[1];
            let needed = [
                ("Book Code", "<code"),
                ("Book Math", "<math"),
                ("italic", "<em>"),
            ];
            let used = needed
                .iter()
                .all(|(mark, element)| !face.contains(mark) || first.contains(element));
            if let Some(font) = FILE.captures(face).filter(|_| used) {
                let font = file.parent().unwrap_or(dir).join(&font[1]);
                bytes += fs::metadata(&font)
                    .with_context(|| format!("cannot read {}", font.display()))?
                    .len() as usize;
            }
        }
    }
    Ok(bytes)
}

/// The live figures as a page runs them.
struct Code {
    /// The functions that hand texts over.
    glue: String,
    /// The WebAssembly, compressed.
    wasm: Vec<u8>,
}

/// Compiles the live figures, or takes what came of the same code before.
fn code(root: &Path, part: &str) -> Result<Code> {
    let file = cargo::wasm(root, part)?;
    let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut hasher = DefaultHasher::new();
    (&bytes, VERSION).hash(&mut hasher);
    let kept = file.with_file_name(format!("widgets-{part}-{:016x}", hasher.finish()));
    let (kept_glue, kept_wasm) = (kept.with_extension("js"), kept.with_extension("gz"));
    if let (Ok(glue), Ok(wasm)) = (fs::read_to_string(&kept_glue), fs::read(&kept_wasm)) {
        return Ok(Code { glue, wasm });
    }
    let mut bindgen = Bindgen::new();
    bindgen
        .input_bytes("widgets", bytes)
        .no_modules(true)?
        .typescript(false)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true);
    let mut output = bindgen
        .generate_output()
        .context("the live figures cannot be bound to a page")?;
    let snippets = output.snippets().values().flatten().count();
    ensure!(
        snippets + output.local_modules().len() == 0,
        "the live figures need scripts of others"
    );
    // A variable may be declared twice, by the page that is made to be printed.
    let glue = output.js().trim_start().replacen("let ", "var ", 1);
    let glue: String = glue
        .lines()
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect();
    let wasm = densest(&output.wasm_mut().emit_wasm())?;
    keep(&kept_wasm, &wasm)?;
    keep(&kept_glue, glue.as_bytes())?;
    Ok(Code { glue, wasm })
}

/// Writes a file that others may be about to read.
pub(crate) fn keep(file: &Path, content: &[u8]) -> Result<()> {
    let folder = file.parent().context("a file lies in a folder")?;
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(content)?;
    fresh.persist(file)?;
    Ok(())
}

/// Changes when the same code is to be bound in another way.
const VERSION: u32 = 2;

/// As small as gzip can say it. That takes seconds.
fn densest(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let options = zopfli::Options {
        iteration_count: NonZeroU64::new(5).context("five is not zero")?,
        ..zopfli::Options::default()
    };
    zopfli::compress(options, zopfli::Format::Gzip, bytes, &mut packed)?;
    Ok(packed)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = three
            .iter()
            .fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
        let number = number << (8 * (3 - three.len()));
        for place in 0..4 {
            if place > three.len() {
                text.push('=');
            } else {
                let digit = number >> (18 - 6 * place) & 63;
                text.push(char::from(DIGITS[digit as usize]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, coded) in cases {
            assert_eq!(base64(text.as_bytes()), coded);
        }
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }

    #[test]
    fn a_script_is_kept_with_its_weight() {
        for limit in [None, Some(7)] {
            let script = Script {
                text: "a\nb\n".to_owned(),
                weight: Weight::new("x, y", 5, limit),
                code: 3,
            };
            let read = Script::read(&script.to_string()).unwrap();
            assert_eq!(read.text, script.text);
            assert_eq!((read.weight, read.code), (script.weight, script.code));
        }
        assert!(Script::read("x\n5\n").is_none());
    }

    #[test]
    fn only_pages_with_live_figures_load_something() {
        let tags = |page: &str| tags(Path::new("."), page, "../", Life::Files).unwrap();
        assert_eq!(tags("<figure class=\"figure\">"), "");
        let one = tags("<figure data-live=\"ch04-causal\">");
        assert_eq!(one.matches("<script defer").count(), 2);
        assert!(one.contains("src=\"../live/numbers.js\""), "{one}");
        assert_eq!(without_tags(&one), "");
        let model = tags("<figure data-live=\"ch09-languages\">");
        assert!(model.contains("live/weights.js"), "{model}");
    }

    #[test]
    fn a_weight_says_whether_it_is_too_much() {
        let weight = |bytes| Weight::new("x", bytes, Some(1024));
        assert!(weight(1025).is_too_much() && !weight(1024).is_too_much());
        assert_eq!(weight(512).to_string(), "x: 0.5 KiB of 1");
    }
}
