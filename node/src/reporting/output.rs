//! Standard output and standard error. A reader that has left (`| head`) is no failure: what it
//! would have read is dropped, and whoever wrote it goes on.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use crate::reporting::escaped::escaped;
use crate::reporting::failure::Failure;

/// The exit code of a command that has nothing to do but to print, once nobody reads. A shell shows
/// it for a process that SIGPIPE ended (128 + SIGPIPE).
pub const NO_READER: i32 = 141;

/// Writes to standard output at once, escaped. False: nobody reads it any more. Fails where it
/// cannot be written for another reason: exit 75 on a full disk, else 2.
pub fn print(text: impl Display) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    let text = text.to_string();
    match out
        .write_all(escaped(&text).as_bytes())
        .and_then(|()| out.flush())
    {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::storage(
            &e,
            format!("standard output cannot be written: {e}"),
        )),
    }
}

/// Whether somebody reads standard output as it is written, and no file or program.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Tells a table's owner what is not as the plan describes it. For a terminal, or who asked for it.
pub fn tell_owner(sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    tell("Your table (only this terminal shows it):");
    let lines = sentences.iter().map(|sentence| format!("  {sentence}"));
    lines.for_each(tell);
}

/// Writes a line to standard error, escaped, if that can be written.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{}", escaped(&line.to_string()));
}
