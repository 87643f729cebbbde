//! The Python of this machine that has what the package and its tests need.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::composition::top;

/// The modules that must be there: `venv` makes environments with pip, the package reads arrays and
/// tables.
const NEEDED: &str = "import ensurepip, numpy, pandas, sys; sys.exit(sys.version_info < (3, 9))";

/// A Python of version 3.9 or later that has ensurepip, numpy and pandas: the first on PATH, or
/// the system's own.
pub fn python() -> Option<PathBuf> {
    let mut candidates = ["python3", "/usr/bin/python3"].into_iter();
    let found = candidates.find(|python| {
        let tried = Command::new(python).args(["-c", NEEDED]).output();
        tried.is_ok_and(|tried| tried.status.success())
    });
    found.map(PathBuf::from)
}

/// Makes a fresh virtual environment in a folder, which sees the system's numpy and pandas, builds
/// the wheel of `node/python` there, and installs that; the environment's Python.
pub fn environment_with_wheel(python: &Path, folder: &Path) -> PathBuf {
    let run = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        succeeded(&output, program, arguments);
    };
    run(python, &["-m", "venv", "--system-site-packages", "fresh"]);
    let fresh = folder.join("fresh/bin/python");
    let sources = top().join("node/python").display().to_string();
    let build = [
        "-m",
        "pip",
        "wheel",
        "--no-index",
        "--no-deps",
        "--wheel-dir",
        "wheels",
    ];
    run(&fresh, &[&build[..], &[&sources]].concat());
    let install = ["-m", "pip", "install", "--no-index", "--find-links", "wheels"];
    run(&fresh, &[&install[..], &["undertone-node"]].concat());
    fresh
}

fn succeeded(output: &Output, program: &Path, arguments: &[&str]) {
    assert!(
        output.status.success(),
        "{} {}\n{}\n{}",
        program.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
