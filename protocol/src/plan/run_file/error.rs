//! Errors of a run file that is refused.

use thiserror::Error;

use crate::plan::run_file::problem::Problem;
use crate::plan::run_file::settings::TaskName;

/// A reason why a run file is refused (exit 2). Names the field, where the line is known the line,
/// and the fix.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunFileError {
    /// A file that is not TOML, or has an unknown key, or a value of another type.
    #[error("run file{}: {message}", at(*.line))]
    Toml {
        /// The file's line, from 1.
        line: Option<usize>,
        /// The key on that line.
        field: Option<String>,
        /// The parser's message.
        message: String,
    },
    /// A key of another task.
    #[error("run file{}: `{field}` belongs to {}; this file says task = \"{}\"", at(*.line), listed(tasks), task.name())]
    Foreign {
        /// The dotted key, or the table.
        field: String,
        /// Line, from 1.
        line: Option<usize>,
        /// The tasks that have the key.
        tasks: Vec<TaskName>,
        /// The task of this file.
        task: TaskName,
    },
    /// A value that makes no sense.
    #[error("run file{}: {field} {problem}; {}", at(*.line), problem.fix())]
    Field {
        /// The dotted key, such as "data.clip".
        field: String,
        /// Line, from 1, if the key is written in the file.
        line: Option<usize>,
        /// The problem of the value.
        problem: Problem,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

/// The tasks as a person reads them: `task = "rounds" or "stream"`.
fn listed(tasks: &[TaskName]) -> String {
    let quoted: Vec<String> = tasks.iter().map(|task| format!("\"{}\"", task.name())).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("task = {} or {last}", others.join(", ")),
        _ => format!("task = {}", quoted.concat()),
    }
}

impl RunFileError {
    /// The dotted key that the error is about, if it is known.
    pub fn field(&self) -> Option<&str> {
        match self {
            RunFileError::Toml { field, .. } => field.as_deref(),
            RunFileError::Foreign { field, .. } | RunFileError::Field { field, .. } => Some(field),
        }
    }
}
