//! What cargo builds for the book: the chapters' libraries and programs.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The same cargo that runs this program, or else the one on the path.
pub fn command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What the reader named was meant from the folder of the reader, not from the book's.
    if let Some(target) = target() {
        command.env("CARGO_TARGET_DIR", target);
    }
    command
}

/// The folder that the reader wants to have in place of `target`.
pub fn target() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|named| !named.is_empty())?;
    std::path::absolute(named).ok()
}

/// The stems of the chapters in the folder `chapters`, in order: "ch01-alignment", …
///
/// # Errors
/// If the folder cannot be read.
pub fn chapters(root: &Path) -> Result<Vec<String>> {
    let dir = root.join("chapters");
    let mut chapters = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_chapter(&name) && dir.join(&name).join("Cargo.toml").is_file() {
            chapters.push(name);
        }
    }
    chapters.sort();
    Ok(chapters)
}

/// Whether a name is a chapter's, `chNN-…`.
pub fn is_chapter(name: &str) -> bool {
    let digits = name
        .strip_prefix("ch")
        .map(|rest| rest.split('-').next().unwrap_or(""));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The libraries that the book's code may use.
#[derive(Debug)]
pub struct Libraries {
    /// The name that code uses, and the file.
    pub externs: BTreeMap<String, PathBuf>,
    /// The folders with what those depend on.
    pub folders: BTreeSet<PathBuf>,
}

/// Builds the chapters and names their libraries, and those that the chapters use themselves.
///
/// # Errors
/// If something does not build.
pub fn libraries(root: &Path) -> Result<Libraries> {
    let chapters = chapters(root)?;
    if chapters.is_empty() {
        bail!(
            "there are no chapters in {}",
            root.join("chapters").display()
        );
    }
    let mut packages = chapters.clone();
    packages.push("figures".to_owned());
    let wanted = usable_packages(root, &packages)?;
    // Blocks use no more of a package than the pages do: the figures need no program.
    let mut args = vec!["--lib".to_owned(), "--no-default-features".to_owned()];
    args.extend(
        packages
            .iter()
            .flat_map(|name| ["-p".to_owned(), name.clone()]),
    );
    let mut libraries = Libraries {
        externs: BTreeMap::new(),
        folders: BTreeSet::new(),
    };
    for artifact in build(command(root), &args)? {
        let Some(rlib) = artifact.library() else {
            continue;
        };
        libraries.folders.extend(rlib.parent().map(Path::to_owned));
        libraries
            .folders
            .extend(rlib.parent().map(|dir| dir.join("deps")));
        if wanted.contains(&artifact.package) {
            libraries.externs.insert(artifact.name.clone(), rlib);
        }
    }
    libraries.folders.retain(|folder| folder.is_dir());
    Ok(libraries)
}

/// Builds the chapters' programs and returns them with their files.
///
/// # Errors
/// If something does not build.
pub fn programs(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let chapters = chapters(root)?;
    let mut args = vec!["--bins".to_owned()];
    args.extend(
        chapters
            .iter()
            .flat_map(|name| ["-p".to_owned(), name.clone()]),
    );
    let mut programs: Vec<(String, PathBuf)> = build(command(root), &args)?
        .into_iter()
        .filter(|artifact| chapters.contains(&artifact.target))
        .filter_map(|artifact| Some((artifact.target, artifact.executable?)))
        .collect();
    programs.sort();
    Ok(programs)
}

/// What the compiler says of itself, or nothing.
pub fn compiler(root: &Path) -> String {
    let output = rustc(root).arg("-vV").output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn rustc(root: &Path) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(root);
    rustc
}

/// Whether code for the page can be compiled here.
pub fn can_build_wasm(root: &Path) -> bool {
    let output = rustc(root)
        .args(["--print", "target-libdir", "--target", WASM])
        .output();
    let folder = output.ok().filter(|output| output.status.success());
    let folder = folder.and_then(|output| String::from_utf8(output.stdout).ok());
    folder.is_some_and(|folder| Path::new(folder.trim()).is_dir())
}

/// The target that pages run.
pub const WASM: &str = "wasm32-unknown-unknown";

/// Builds a part of the live figures for the page and returns the file.
///
/// # Errors
/// If it does not build.
pub fn wasm(root: &Path, part: &str) -> Result<PathBuf> {
    let args = [
        "-p",
        "widgets",
        "--example",
        part,
        "--target",
        WASM,
        "--profile",
        "widget",
    ];
    // A reader's flags are for the reader's processor, and would make another file of it.
    let mut cargo = command(root);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    cargo.env_remove("CARGO_BUILD_TARGET");
    build(cargo, &args.map(str::to_owned))?
        .into_iter()
        .filter(|artifact| artifact.target == part)
        .flat_map(|artifact| artifact.files)
        .find(|file| file.extension().is_some_and(|ending| ending == "wasm"))
        .context("cargo built the live figures, but no .wasm file")
}

/// Something that cargo has built.
struct Artifact {
    package: String,
    target: String,
    name: String,
    files: Vec<PathBuf>,
    executable: Option<PathBuf>,
}

impl Artifact {
    fn read(message: &Value) -> Option<Self> {
        if message["reason"] != "compiler-artifact" {
            return None;
        }
        let target = message["target"]["name"].as_str()?;
        Some(Artifact {
            package: message["package_id"].as_str()?.to_owned(),
            target: target.to_owned(),
            name: target.replace('-', "_"),
            files: message["filenames"]
                .as_array()?
                .iter()
                .filter_map(|file| Some(PathBuf::from(file.as_str()?)))
                .collect(),
            executable: message["executable"].as_str().map(PathBuf::from),
        })
    }

    fn library(&self) -> Option<PathBuf> {
        let is_rlib = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rlib");
        self.files.iter().find(is_rlib).cloned()
    }
}

fn build(mut cargo: Command, args: &[String]) -> Result<Vec<Artifact>> {
    let output = cargo
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build {} failed", args.join(" "));
    }
    let artifacts = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| Artifact::read(&message))
        .collect();
    Ok(artifacts)
}

/// The ids of these packages and of those that they name as their normal dependencies.
fn usable_packages(root: &Path, names: &[String]) -> Result<BTreeSet<String>> {
    let output = command(root)
        .args(["metadata", "--format-version=1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo cannot read the workspace");
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ours: BTreeSet<String> = array(&metadata["packages"])
        .iter()
        .filter(|package| package["source"].is_null())
        .filter(|package| names.iter().any(|name| package["name"] == name.as_str()))
        .filter_map(|package| Some(package["id"].as_str()?.to_owned()))
        .collect();
    let mut usable = ours.clone();
    for node in array(&metadata["resolve"]["nodes"]) {
        if !node["id"].as_str().is_some_and(|id| ours.contains(id)) {
            continue;
        }
        for dependency in array(&node["deps"]) {
            let normal = array(&dependency["dep_kinds"])
                .iter()
                .any(|kind| kind["kind"].is_null());
            if normal && let Some(id) = dependency["pkg"].as_str() {
                usable.insert(id.to_owned());
            }
        }
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_known_by_their_names() {
        assert!(is_chapter("ch01-alignment") && is_chapter("ch10-efficient"));
        assert!(!is_chapter("mine") && !is_chapter("chapter") && !is_chapter("ch1-x"));
    }

    #[test]
    fn artifacts_are_read_from_cargos_messages() {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "p",
            "target": { "name": "ch01-alignment" },
            "filenames": ["/t/libch01_alignment.rlib", "/t/libch01_alignment.rmeta"],
            "executable": null,
        });
        let artifact = Artifact::read(&message).unwrap();
        assert_eq!(artifact.name, "ch01_alignment");
        assert_eq!(
            artifact.library(),
            Some(PathBuf::from("/t/libch01_alignment.rlib"))
        );
        assert!(Artifact::read(&serde_json::json!({ "reason": "build-finished" })).is_none());
    }
}
