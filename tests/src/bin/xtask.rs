//! `cargo xtask`: what a contributor runs before a commit.
//!
//! - `guide`: builds the guide as HTML under `target/guide/`.
//! - `verify`: everything that needs neither root, docker nor packages; writes nothing.
//! - `fix`: formats, and takes what the lints propose.
//! - `dist`: makes a release in `target/dist/`.
//! - `mixed COMMIT`: tests this program beside that of another commit, which it builds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use undertone_tests::composition::top;
use undertone_tests::dist::{TOOLS, release};
use undertone_tests::documents::html;

/// A step of `verify`: its name, and the command.
type Step = (&'static str, &'static [&'static str]);

const VERIFY: [Step; 6] = [
    ("format", &["fmt", "--all", "--check"]),
    (
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    ),
    ("program", &["build", "--workspace", "--bins", "--locked"]),
    ("unit tests", &["test", "--workspace", "--lib", "--locked"]),
    (
        "shape, layers, citations",
        &[
            "test",
            "--locked",
            "-p",
            "undertone-tests",
            "--test",
            "shape",
            "--test",
            "layers",
            "--test",
            "layout",
            "--test",
            "samples",
            "--test",
            "documents",
        ],
    ),
    (
        "README and guide",
        &["test", "--locked", "-p", "undertone-tests", "--test", "readme"],
    ),
];

const FIX: [Step; 2] = [
    (
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--fix",
            "--allow-dirty",
            "--allow-staged",
        ],
    ),
    ("format", &["fmt", "--all"]),
];

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    match task.as_str() {
        "guide" => guide(),
        "verify" => licences(all(&VERIFY)),
        "fix" => all(&FIX),
        "dist" => dist(std::env::args().skip(2)),
        "mixed" => mixed(std::env::args().nth(2)),
        _ => {
            eprintln!("cargo xtask guide | verify | fix | dist | mixed");
            ExitCode::from(2)
        }
    }
}

fn guide() -> ExitCode {
    let folder = top().join("target/guide");
    match html::build(&folder) {
        Ok(pages) => {
            println!("{pages} pages: {}", folder.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

const DIST: &str = "cargo xtask dist [--tools] [--binary FILE] [--out DIR] [--version VERSION]";

/// Makes a release, of a program that is built for it or of `--binary`.
fn dist(arguments: impl Iterator<Item = String>) -> ExitCode {
    let (mut binary, mut out, mut version) = (None, top().join("target/dist"), None);
    let mut arguments = arguments;
    while let Some(flag) = arguments.next() {
        let value = match flag.as_str() {
            "--tools" => return tools(),
            "--binary" | "--out" | "--version" => arguments.next(),
            _ => None,
        };
        let Some(value) = value else {
            eprintln!("xtask: {flag}: unknown, or without a value\n{DIST}");
            return ExitCode::from(2);
        };
        match flag.as_str() {
            "--binary" => binary = Some(PathBuf::from(value)),
            "--out" => out = PathBuf::from(value),
            _ => version = Some(value),
        }
    }
    let build = || release::build(top());
    let made = binary
        .map_or_else(build, |path| Ok((path, None)))
        .and_then(|(program, warning)| {
            let names = release::make(top(), &program, &out, version.as_deref())?;
            Ok((names, warning))
        });
    match made {
        Ok((names, warning)) => {
            report(&names, &out);
            if let Some(warning) = warning {
                eprintln!("\n*** {warning}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(names: &[String], out: &Path) {
    for name in names {
        let path = out.join(name);
        let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
        println!("{bytes:>10} bytes  {}", path.display());
    }
}

/// Lists the programs that `dist` needs; fails if one that it cannot do without is absent.
fn tools() -> ExitCode {
    let mut can_be_made = true;
    for tool in &TOOLS {
        let (is_there, or) = (tool.is_there(), if tool.is_optional { " (optional)" } else { "" });
        can_be_made &= is_there || tool.is_optional;
        let state = if is_there { "found" } else { "absent" };
        println!("{:<15} {state:<7} {}{or}", tool.name, tool.why);
    }
    if can_be_made {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Builds the program of another commit, and tests this one beside it.
fn mixed(commit: Option<String>) -> ExitCode {
    let Some(commit) = commit else {
        eprintln!("cargo xtask mixed COMMIT");
        return ExitCode::from(2);
    };
    let folder = top().join("target/older");
    let tree = folder.join("tree");
    let run = |program: &str, arguments: &[&str], place: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(place);
        command
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("CARGO_INCREMENTAL", "0")
            .status()
            .is_ok_and(|status| status.success())
    };
    let tree_name = tree.display().to_string();
    // One that an earlier call left is of another commit.
    let _ = Command::new("git")
        .args(["worktree", "remove", "--force", &tree_name])
        .current_dir(top())
        .output();
    let add = ["worktree", "add", "--force", "--detach", &tree_name, &commit];
    let build = ["build", "--locked", "--package", "undertone"];
    if !run("git", &add, top()) || !run(env!("CARGO"), &build, &tree) {
        eprintln!("xtask: {commit} cannot be built");
        return ExitCode::FAILURE;
    }
    let tests = [
        "test",
        "--locked",
        "-p",
        "undertone-tests",
        "--test",
        "mixed",
        "--",
    ];
    let status = Command::new(env!("CARGO"))
        .args(tests)
        .args(["--ignored", "--nocapture", "--test-threads", "1"])
        .env("OLDER", folder.join("target/debug/undertone"))
        .current_dir(top())
        .status();
    match status.is_ok_and(|status| status.success()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs steps until one fails, and says how long each took.
fn all(steps: &[Step]) -> ExitCode {
    for (name, arguments) in steps {
        let begun = Instant::now();
        let status = Command::new(env!("CARGO"))
            .args(*arguments)
            .current_dir(top())
            .env("CARGO_INCREMENTAL", "0")
            .status();
        let seconds = begun.elapsed().as_secs();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!(
                "xtask: {name} failed after {seconds} s: cargo {}",
                arguments.join(" ")
            );
            return ExitCode::FAILURE;
        }
        eprintln!("xtask: {name} took {seconds} s");
    }
    ExitCode::SUCCESS
}

/// Licences, bans and sources, by `cargo deny` if it is installed: it needs no network for these.
fn licences(before: ExitCode) -> ExitCode {
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.arg("deny").args(arguments).current_dir(top());
        command
    };
    let is_there = deny(&["--version"]).output().is_ok_and(|it| it.status.success());
    if before != ExitCode::SUCCESS || !is_there {
        if !is_there {
            eprintln!("xtask: cargo deny is not installed: licences were not checked");
        }
        return before;
    }
    let check = [
        "--offline",
        "check",
        "--config",
        ".cargo/deny.toml",
        "licenses",
        "bans",
        "sources",
    ];
    let status = deny(&check).status();
    if status.is_ok_and(|status| status.success()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
