//! Why a run file is refused.

use thiserror::Error;

use crate::plan::run_file::problem::Problem;

/// Why a run file is refused (exit 2). Names the field, where the line is known the line, and the
/// fix.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunFileError {
    /// A file that is not TOML, or has an unknown key, or a value of another type.
    #[error("run file{}: {message}", at(*.line))]
    Toml {
        /// The file's line, from 1.
        line: Option<usize>,
        /// The key on that line.
        field: Option<String>,
        /// What the parser says about it.
        message: String,
    },
    /// A value that makes no sense.
    #[error("run file{}: {field} {problem}; {}", at(*.line), problem.fix())]
    Field {
        /// The dotted key, such as "data.clip".
        field: String,
        /// Line, from 1, if the key is written in the file.
        line: Option<usize>,
        /// What is wrong with its value.
        problem: Problem,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl RunFileError {
    /// The dotted key that the error is about, if it is known.
    pub fn field(&self) -> Option<&str> {
        match self {
            RunFileError::Toml { field, .. } => field.as_deref(),
            RunFileError::Field { field, .. } => Some(field),
        }
    }
}
