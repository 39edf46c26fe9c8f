//! What judges the stages: what each must do, hints, and the examples that it is tried with.
//!
//! A failing example tells what was given, what came back and what is wrong with it, but never the
//! right answer.

mod example;
mod peers;

mod ch01;
mod ch02;
mod ch03;
mod ch04;
mod ch05;
mod ch06;
mod ch07;
mod ch08;
mod ch09;
mod ch10;

pub use example::{Check, Wrong};

use std::cell::RefCell;
use std::panic;
use std::sync::mpsc;
use std::time::Duration;

/// A function that the reader writes or repairs.
#[derive(Clone, Copy)]
pub struct Stage {
    /// The chapter, "ch02", which is also the name of the file and its module.
    pub chapter: &'static str,
    /// The function.
    pub name: &'static str,
    /// From a push in the right direction to nearly the answer.
    pub hints: &'static [&'static str],
    check: fn() -> Check,
}

/// What became of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Right in every example.
    Passed,
    /// It still says `todo!()`.
    Unwritten,
    /// The fault that is to be found is still there, and this is what it does.
    Unrepaired(Wrong),
    /// It calls a stage that still says `todo!()`.
    Waits(String),
    /// Written, but wrong.
    Wrong(Wrong),
}

/// The chapters with stages, and what they ask.
pub const CHAPTERS: &[(&str, &str)] = &[
    ("ch01", "alignment scores"),
    ("ch02", "softmax weights"),
    ("ch03", "scaled attention"),
    ("ch04", "masks"),
    ("ch05", "several heads"),
    ("ch06", "self-attention"),
    ("ch07", "cross-attention"),
    ("ch08", "layers"),
    ("ch09", "training"),
    ("ch10", "cost"),
];

/// All stages, in the order in which they are written.
pub fn stages() -> Vec<Stage> {
    [
        ch01::STAGES,
        ch02::STAGES,
        ch03::STAGES,
        ch04::STAGES,
        ch05::STAGES,
        ch06::STAGES,
        ch07::STAGES,
        ch08::STAGES,
        ch09::STAGES,
        ch10::STAGES,
    ]
    .concat()
}

/// How long a stage may take. The book's own answers take a blink.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Keeps panics in the stages from printing anything: they are part of the verdict.
pub fn catch_panics_quietly() {
    panic::set_hook(Box::new(|info| {
        let message = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_default();
        // A place in somebody else's code tells the reader little.
        let place = info.location().and_then(|place| {
            let file = place.file().rsplit(['/', '\\']).next()?;
            let is_ours = CHAPTERS
                .iter()
                .any(|(stem, _)| file == format!("{stem}.rs"));
            is_ours.then(|| format!(" in {file}, line {}", place.line()))
        });
        PANIC.set(Some((message, place.unwrap_or_default())));
    }));
}

impl Stage {
    /// The name with the chapter: "ch02::softmax".
    pub fn path(&self) -> String {
        format!("{}::{}", self.chapter, self.name)
    }

    /// The file, from the root of the book.
    pub fn file(&self) -> String {
        format!("chapters/mine/src/{}.rs", self.chapter)
    }

    /// What the stage is to do: its documentation, as it stands in the file.
    pub fn task(&self) -> String {
        let (file, _) = sources(self.chapter);
        let mut task = vec![];
        for line in file.lines() {
            if line.starts_with(&format!("pub fn {}", self.name)) {
                break;
            }
            match line.strip_prefix("///") {
                Some(text) => task.push(without_links(text.trim_start())),
                None if line.starts_with("//") => {}
                None => task.clear(),
            }
        }
        task.join("\n")
    }

    /// Tries the stage. [`catch_panics_quietly`] must have been called before.
    pub fn judge(&self) -> Verdict {
        let (sender, receiver) = mpsc::channel();
        let check = self.check;
        // On a thread of its own, because it may never end.
        std::thread::spawn(move || {
            let found = panic::catch_unwind(check)
                .map_err(|_| PANIC.take().unwrap_or_default());
            let _ = sender.send((found, example::last()));
        });
        let Ok((found, last)) = receiver.recv_timeout(PATIENCE) else {
            let seconds = PATIENCE.as_secs();
            return Verdict::Wrong(Wrong::new(
                vec![],
                format!("has no answer after {seconds} s"),
            ));
        };
        match found {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(wrong)) if self.is_untouched_fault() => {
                Verdict::Unrepaired(wrong)
            }
            Ok(Err(wrong)) => Verdict::Wrong(wrong),
            Err((message, place)) => {
                match message.strip_prefix("not yet implemented: ") {
                    Some(stage) if stage == self.path() => Verdict::Unwritten,
                    Some(stage) => Verdict::Waits(stage.to_owned()),
                    None => Verdict::Wrong(Wrong::new(
                        last,
                        format!(
                            "panics{place}: {message}\n\
                             what does not fit should be an error, as `ensure!` makes it"
                        ),
                    )),
                }
            }
        }
    }

    /// Whether this is a fault to be found whose line is still as the book left it.
    fn is_untouched_fault(&self) -> bool {
        let (reader, solution) = sources(self.chapter);
        self.name.starts_with("find_the_fault")
            && fault(solution).is_some_and(|fault| {
                reader.lines().any(|line| line.trim() == fault)
            })
    }
}

/// A line of documentation as one reads it: [`scale`](Embedding::scale) is `scale`.
fn without_links(line: &str) -> String {
    let mut parts = line.split("](");
    let mut plain = parts.next().unwrap_or("").replace("[`", "`");
    for part in parts {
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        plain.push_str(&rest.replace("[`", "`"));
    }
    plain.replace("`]", "`")
}

/// The line that a solution says it repaired.
fn fault(solution: &'static str) -> Option<&'static str> {
    let lines = solution.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("// instead of: "))
        .next()
}

/// The file that is judged, and the one with the solutions.
fn sources(chapter: &str) -> (&'static str, &'static str) {
    macro_rules! files {
        ($($chapter:literal),+) => {
            match chapter {
                $($chapter => {
                    let solution = include_str!(concat!("../../solutions/", $chapter, ".rs"));
                    let reader = include_str!(concat!("../", $chapter, ".rs"));
                    (if cfg!(feature = "solutions") { solution } else { reader }, solution)
                })+
                _ => ("", ""),
            }
        };
    }
    files!(
        "ch01", "ch02", "ch03", "ch04", "ch05", "ch06", "ch07", "ch08", "ch09",
        "ch10"
    )
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed => f.write_str("passes"),
            Self::Unwritten => f.write_str("not written yet"),
            Self::Unrepaired(_) => f.write_str("not repaired yet"),
            Self::Waits(stage) => write!(f, "waits for {stage}"),
            Self::Wrong(_) => f.write_str("wrong"),
        }
    }
}
