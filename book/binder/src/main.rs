//! The program `book`: binds, serves and tests *Attention, Line by Line*.

use anyhow::{Context, Error, Result, bail};
use binder::again::Key;
use binder::bind::Bound;
use binder::blocks::Blocks;
use binder::preprocessor::{self, Binder};
use binder::serve::{Site, rebind_on_change};
use binder::{Problems, bind, cargo, live};
use clap::{Parser, Subcommand};
use mdbook_preprocessor::Preprocessor;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Binds the book into target/book and says where it is.
#[derive(Parser)]
#[command(name = "book", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Open the book in the browser
    #[arg(long)]
    open: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Bind the book, show it on a port of this machine, and bind it again when it changes
    Serve {
        /// The port
        #[arg(long, default_value_t = 3000)]
        port: u16,
        /// Open the book in the browser
        #[arg(long)]
        open: bool,
    },
    /// Compile and run every Rust block of the book
    Test,
    /// Be one of mdBook's preprocessors: the book on stdin, the bound book on stdout
    #[command(hide = true)]
    Preprocess {
        /// Which of the preprocessors in book.toml
        name: String,
        #[command(subcommand)]
        question: Option<Question>,
    },
}

#[derive(Subcommand)]
enum Question {
    /// Whether the preprocessor has anything to do for a renderer
    Supports {
        /// The renderer's name
        renderer: String,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

fn tell(error: &Error) {
    progress("");
    eprintln!("{}", message(error));
}

fn message(error: &Error) -> String {
    match error.downcast_ref::<Problems>() {
        Some(problems) => problems.to_string(),
        None => format!("error: {error:#}"),
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        None => bind_and_tell(cli.open)?,
        Some(Command::Serve { port, open }) => serve(port, open || cli.open)?,
        Some(Command::Test) => {
            progress("Testing the Rust blocks …\n");
            bind::test(&root()?)?;
        }
        Some(Command::Preprocess {
            name,
            question: Some(Question::Supports { renderer }),
        }) => {
            let supported = match name.as_str() {
                Binder::NAME => Binder::supports(&renderer),
                Blocks::NAME => Blocks::supports(&renderer),
                _ => bail!("there is no preprocessor `{name}`"),
            };
            return Ok(if supported {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        Some(Command::Preprocess {
            name,
            question: None,
        }) => preprocess(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn bind_and_tell(open: bool) -> Result<()> {
    let start = Instant::now();
    progress("Binding the book …");
    let root = root()?;
    let target = bind::target(&root, cargo::target().as_deref())?;
    let index = target.join("index.html");
    // Taken before anything else is read: what changes from now on changes the next key.
    let key = Key::of(&root).ok();
    if key.as_ref().is_some_and(|key| key.opens(&target)) {
        progress("");
        println!("Nothing has changed: {}", index.display());
    } else {
        let Bound { weights, stilled } = bind::bind_and_weigh(&root, &target)?;
        // What failed may succeed when it is tried again.
        if let Some(key) = key.filter(|_| !stilled) {
            key.keep(&target)?;
        }
        progress("");
        for weight in weights {
            println!("{weight}");
        }
        if !cargo::can_build_wasm(&root) {
            println!("{}", live::ADVICE);
        }
        println!(
            "Bound in {:.1} s: {}",
            start.elapsed().as_secs_f64(),
            index.display()
        );
    }
    if open {
        opener::open(&index).context("cannot open the browser")?;
    }
    Ok(())
}

fn serve(port: u16, open: bool) -> Result<()> {
    let root = root()?;
    let site = Site::open(&bind::target(&root, cargo::target().as_deref())?, port)?;
    let (address, version) = (site.address(), site.version());
    // A book with problems can be mended while it is being served.
    if let Err(error) = bind_and_tell(false) {
        tell(&error);
        version.fail(message(&error));
    }
    println!("The book is at {address} until you press Ctrl-C.");
    if open {
        opener::open(&address).context("cannot open the browser")?;
    }
    std::thread::spawn(move || site.run());
    rebind_on_change(&root, &version)
}

/// Answers mdBook. Before anything is handed on for HTML the book is bound once and thrown away:
/// what is wrong with it shows before mdBook writes the first page.
fn preprocess(name: &str) -> Result<()> {
    let (ctx, book) = preprocessor::read(stdin().lock())?;
    let book = match name {
        Binder::NAME => {
            if ctx.renderer == "html" {
                bind::check(&ctx.root)?;
            }
            Binder::strict(&ctx.root).run(&ctx, book)?
        }
        Blocks::NAME => Blocks.run(&ctx, book)?,
        _ => bail!("there is no preprocessor `{name}`"),
    };
    serde_json::to_writer(stdout().lock(), &book)?;
    Ok(())
}

/// The folder of book.toml: where this program was built, or else the nearest one above.
fn root() -> Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if built.join("book.toml").is_file() {
        return Ok(built.to_owned());
    }
    let here = std::env::current_dir()?;
    here.ancestors()
        .find(|dir| dir.join("book.toml").is_file())
        .map(Path::to_owned)
        .context("there is no book.toml here or above")
}

/// What is being done, on a line that the next one replaces; only for a person to see.
fn progress(step: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[2K{step}");
        let _ = stderr().flush();
    }
}
