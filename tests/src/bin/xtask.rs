//! `cargo xtask`: what a contributor runs before a commit.
//!
//! - `guide`: builds the guide as HTML under `target/guide/`.
//! - `verify`: everything that needs neither root, docker nor packages; writes nothing.
//! - `fix`: formats, and takes what the lints propose.

use std::process::{Command, ExitCode};
use std::time::Instant;

use undertone_tests::composition::top;
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
        _ => {
            eprintln!("cargo xtask guide | verify | fix");
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
