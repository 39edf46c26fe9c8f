//! The program `figures`: it lists the book's pictures and keeps them as files.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use figures::{Figure, Picture, all};

/// Lists the book's pictures, and keeps them as files
#[derive(Parser)]
#[command(name = "figures", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Name every picture and say what it shows
    List,
    /// Write a picture to a file
    Draw {
        /// The picture, as `list` names it
        name: String,
        /// The file, whose ending says the format: .svg or .png
        #[arg(long)]
        out: PathBuf,
        /// Overwrite the file if it exists
        #[arg(long)]
        force: bool,
        /// Pixels of a PNG to each unit of the picture, about 360 of which are its width [default: 2]
        #[arg(long)]
        scale: Option<f32>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Draw {
            name,
            out,
            force,
            scale,
        } => draw(&name, &out, force, scale),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<()> {
    let widest = all().iter().map(|figure| figure.id().len()).max();
    for figure in all() {
        let picture = figure.draw()?;
        say(&format!(
            "{:width$}  {}",
            figure.id(),
            first_sentence(&picture.alt),
            width = widest.unwrap_or(0)
        ))?;
    }
    Ok(())
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| &text[..=first.len()])
}

fn draw(name: &str, out: &Path, force: bool, scale: Option<f32>) -> Result<()> {
    let format = Format::of(out)?;
    let picture = find(name)?.draw()?;
    let (file, scale) = match (format, scale) {
        (Format::Svg, None) => (picture.to_standalone_svg().into_bytes(), 1.0),
        (Format::Svg, Some(_)) => bail!("an SVG has no pixels to scale: --scale is for .png"),
        (Format::Png, scale) => {
            let scale = scale.unwrap_or(2.0);
            (picture.to_png(scale)?, scale)
        }
    };
    write(out, &file, force)?;
    tell(out, &picture, scale)
}

fn find(name: &str) -> Result<&'static Figure> {
    let figure = all().iter().find(|figure| figure.id() == name);
    figure.with_context(|| {
        let known: Vec<_> = all().iter().map(Figure::id).collect();
        format!(
            "there is no figure {name}; the known ones are {}",
            known.join(", ")
        )
    })
}

/// What a file may hold.
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(file: &Path) -> Result<Self> {
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => bail!(
                "{} ends neither in .svg nor in .png, the formats a figure can have",
                file.display()
            ),
        }
    }
}

fn write(out: &Path, file: &[u8], force: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    match options.open(out) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; --force overwrites it", out.display())
        }
        opened => opened.and_then(|mut opened| opened.write_all(file)),
    }
    .with_context(|| format!("{} cannot be written", out.display()))
}

fn tell(out: &Path, picture: &Picture, scale: f32) -> Result<()> {
    let (width, height) = picture.pixels(scale);
    say(&format!(
        "wrote {}, {width} × {height} pixels",
        out.display()
    ))
}

/// Prints a line; a reader who has seen enough is no error.
fn say(line: &str) -> Result<()> {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
