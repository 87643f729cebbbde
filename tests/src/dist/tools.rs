//! Programs that making a release needs, and calls of them.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that a release needs.
#[derive(Debug)]
pub struct Tool {
    /// The program's name, as somebody would look for it.
    pub name: &'static str,
    /// The reason for which it is needed, and where it comes from.
    pub why: &'static str,
    /// A command that succeeds where the program is there.
    probe: &'static [&'static str],
    /// Whether a release can be made without it.
    pub is_optional: bool,
}

/// All programs besides Rust's own.
pub const TOOLS: [Tool; 4] = [
    Tool {
        name: "git",
        why: "tells the commit and its time; package git",
        probe: &["git", "--version"],
        is_optional: false,
    },
    Tool {
        name: "gzip",
        why: "compresses archives; package gzip",
        probe: &["gzip", "--version"],
        is_optional: false,
    },
    Tool {
        name: "python3",
        why: "packs the wheel; version 3.9 or later, before 3.11 with tomli",
        probe: &[
            "python3",
            "-c",
            "import sys, zlib; sys.exit(sys.version_info < (3, 9))",
        ],
        is_optional: false,
    },
    Tool {
        name: "cargo-zigbuild",
        why: "builds for glibc 2.28 and later; pip install ziglang cargo-zigbuild",
        probe: &["cargo-zigbuild", "--version"],
        is_optional: true,
    },
];

impl Tool {
    /// Whether the program is on PATH and runs.
    pub fn is_there(&self) -> bool {
        let tried = Command::new(self.probe[0]).args(&self.probe[1..]).output();
        tried.is_ok_and(|tried| tried.status.success())
    }
}

/// Runs a command and returns its standard output; an error with the command and what it said, if
/// it fails.
pub fn output(command: &mut Command) -> io::Result<Vec<u8>> {
    let ended = command.output();
    let named = |what: &str| io::Error::other(format!("{command:?}: {what}"));
    let ended = ended.map_err(|e| named(&e.to_string()))?;
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(named(String::from_utf8_lossy(&ended.stderr).trim()))
    }
}

/// Compresses bytes, without a name or a time.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new("gzip")
        .args(["--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| io::Error::other(format!("gzip: {e}")))?;
    let mut input = child.stdin.take().expect("it was piped");
    // Both ends at once: a pipe holds less than an archive.
    let (fed, ended) = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || input.write_all(bytes));
        let ended = child.wait_with_output();
        (feeder.join().expect("writing does not panic"), ended)
    });
    fed?;
    let ended = ended?;
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(io::Error::other(format!("gzip ended with {}", ended.status)))
    }
}

/// Reads a file; an error names it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| io::Error::other(format!("{}: {e}", path.display())))
}

/// Reads a text file; an error names it.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::other(format!("{}: it is no UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gzip_makes_is_the_same_twice_and_unpacks() {
        let long = vec![b'u'; 1 << 20];
        let packed = gzip(&long).expect("gzip is there");
        assert_eq!(packed, gzip(&long).expect("gzip is there"));
        // No flags, no time.
        assert_eq!(packed[3..8], [0; 5]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.gz");
        std::fs::write(&path, &packed).expect("writable");
        let unpacked = output(Command::new("gzip").arg("-dc").arg(&path)).expect("it is sound");
        assert_eq!(unpacked, long);
    }

    #[test]
    fn a_command_that_fails_is_named_with_what_it_said() {
        let failed = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).expect_err("exit 3");
        assert!(failed.to_string().ends_with(": no"), "{failed}");
    }
}
