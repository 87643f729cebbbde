//! Runs the commands of documents, in order, as they stand there.
//!
//! Blocks run with `sh -eu` in one empty folder per document; a page that continues another one
//! runs in the folder of that page. `undertone`, and `cargo run --release --`, mean the binary
//! under test, `python3` one that has what they import, and `node` is the repository's.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;

use crate::composition::top;
use crate::documents::block::{Block, blocks};
use crate::documents::page::Page;
use crate::python::python;
use crate::{Running, left_out, undertone};

/// Programs that a block may need and that not every machine has.
const PROGRAMS: [&str; 6] = ["awk", "cmp", "curl", "cut", "python3", "sha256sum"];

/// Returns a program that a block needs and that a machine with these folders on its PATH lacks.
pub fn lacking(commands: &str, path: &str) -> Option<String> {
    let word = |c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c);
    let program = |word: &&str| PROGRAMS.contains(word);
    let is_there = |name: &str| {
        path.split(':')
            .any(|folder| Path::new(folder).join(name).is_file())
    };
    let needed = commands.split(word).filter(program);
    let absent = needed.into_iter().find(|name| !is_there(name)).map(str::to_owned);
    let wants_packages = commands.contains("venv/bin/");
    let packages =
        || (wants_packages && python().is_none()).then(|| "Python with ensurepip, numpy and pandas".into());
    absent.or_else(packages)
}

/// The files that a block names.
pub fn files(commands: &str) -> BTreeSet<String> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !"-_./:".contains(c);
    let is_file = |word: &&str| {
        let extension = Path::new(word).extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| it.chars().all(|c| c.is_ascii_lowercase())) && !word.contains(':')
    };
    commands.split(part).filter(is_file).map(str::to_owned).collect()
}

/// Puts `undertone` and `cargo` that mean the binary under test into a folder, and a `python3` that
/// need not fetch numpy and pandas, if there is one.
fn stand_ins(folder: &Path) {
    let binary = undertone();
    let cargo = "[ \"$1 $2 $3\" = 'run --release --' ] || { echo \"cargo $*: not in a document\" >&2; \
                 exit 99; }\nshift 3";
    let mut scripts = vec![
        ("undertone", format!("exec '{}' \"$@\"", binary.display())),
        ("cargo", format!("{cargo}\nexec '{}' \"$@\"", binary.display())),
    ];
    if let Some(python) = python() {
        let script = format!("PATH=\"${{PATH#*:}}\" exec {} \"$@\"", python.display());
        scripts.push(("python3", script));
    }
    for (name, script) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

/// A folder in which a document's commands run. Kills what still runs there at the end: daemons
/// that no later block ended, because the test failed before.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(top().join("node"), folder.path().join("node")).expect("writable");
        Place(folder)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return;
        };
        let pids = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_here = |pid: &i32| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(self.0.path()))
        };
        for pid in pids.filter(is_here) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// Standard output of a block that was run.
#[derive(Debug)]
pub struct Output {
    /// The page's path.
    pub page: String,
    /// The block's lines.
    pub commands: String,
    /// The text that they printed.
    pub stdout: String,
}

/// Runs the commands of documents; `slow`: those that are marked so, too. Panics at the first block
/// that fails. A block is left out, loudly and not in CI, if the machine lacks a program that it
/// needs.
pub fn run(pages: &[Page], slow: bool) -> Vec<Output> {
    let tools = tempfile::tempdir().expect("a folder");
    stand_ins(tools.path());
    let rest = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{rest}", tools.path().display());
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    let mut outputs = vec![];
    for page in pages {
        let place = match page.continues() {
            None => Place::new(),
            Some(other) => places
                .remove(other)
                .unwrap_or_else(|| panic!("{} continues {other}, which no page before it is", page.path)),
        };
        outputs.extend(run_page(page, place.0.path(), &path, slow));
        places.insert(page.name().to_owned(), place);
    }
    outputs
}

fn run_page(page: &Page, folder: &Path, path: &str, slow: bool) -> Vec<Output> {
    // Files that blocks name, and those that only blocks name that were left out.
    let (mut present, mut absent) = (BTreeSet::new(), BTreeSet::new());
    let mut outputs = vec![];
    // A reader's shell stays where a block leaves it.
    let mut folder = folder.to_owned();
    for block in blocks(&page.text).into_iter().filter(|block| block.is_run(slow)) {
        let place = format!("{}:{}", page.path, block.line);
        let made = absent.intersection(&files(&block.commands)).next().cloned();
        if let Some(missing) = lacking(&block.commands, path).or(made) {
            left_out(&place, &format!("no {missing}"));
            absent.extend(files(&block.commands).difference(&present).cloned());
            continue;
        }
        present.extend(files(&block.commands));
        outputs.push(Output {
            page: page.path.clone(),
            stdout: run_block(&place, &block, &mut folder, path),
            commands: block.commands,
        });
    }
    outputs
}

/// Runs a block in a folder, and leaves there where its shell ended.
fn run_block(place: &str, block: &Block, folder: &mut PathBuf, path: &str) -> String {
    let last = tempfile::NamedTempFile::new().expect("writable");
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", &format!("{}\npwd > \"$LAST_FOLDER\"", block.commands)])
        .current_dir(&*folder)
        .env("LAST_FOLDER", last.path())
        .env("PATH", path);
    let begun = Instant::now();
    let ended = Running::start(shell, None).wait();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{place}: exit {} after {seconds:.1} s", ended.code);
    assert_eq!(
        ended.code, 0,
        "{place}:\n{}\n{}\n{}",
        block.commands, ended.stdout, ended.stderr
    );
    let left = std::fs::read_to_string(last.path()).expect("written");
    *folder = left.trim_end().into();
    ended.stdout
}
