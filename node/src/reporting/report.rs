//! The report that a command ends with.

use crate::reporting::failure::Exit;

/// The output of a command: an object for `--json`, a text for people, and an exit code.
#[derive(Debug)]
pub struct Report {
    /// The object that `--json` prints.
    pub json: serde_json::Value,
    /// The object's content, as a text for people.
    pub text: String,
    /// The process's exit code.
    pub exit: i32,
}

impl Report {
    /// A report of a command that did what it was asked.
    pub fn done(json: serde_json::Value, text: String) -> Self {
        Report {
            json,
            text,
            exit: Exit::Done.code(),
        }
    }
}

/// A sentence as it stands inside of another one.
pub fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(letters).collect()
}
