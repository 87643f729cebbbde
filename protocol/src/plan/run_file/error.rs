//! `run.toml`: what a person asks for. [`RawRunFile`] is what the file says, [`RunFile`] is complete and checked.

mod check;
mod raw;
mod settings;

use thiserror::Error;

pub use check::{
    MOST_EXCHANGE_ROUNDS, MOST_FANOUT, MOST_PARTIES, MOST_ROUNDS, Problem, most_rounds, unnamed,
};
pub(crate) use check::{check_settings, supported};
pub use raw::{RawData, RawMechanism, RawPrivacy, RawRunFile, RawRunSettings, RawTopology};
pub use settings::*;

use crate::defaults::Defaults;

/// A complete and checked run file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// What is computed.
    pub task: Task,
    /// Of the run.
    pub name: String,
    /// What each party brings.
    pub data: Data,
    /// The target.
    pub privacy: Privacy,
    /// How noise is shared out.
    pub mechanism: Mechanism,
    /// Who may talk to whom.
    pub topology: Topology,
    /// Time-outs and sizes.
    pub run: RunSettings,
}

/// Why a run file is refused (exit 2). Names the field, where the line is known the line, and the fix.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunFileError {
    /// It is not TOML, has an unknown key, or a value of another type.
    #[error("run file{}: {message}", at(*.line))]
    Toml {
        /// Line, from 1.
        line: Option<usize>,
        /// The key on that line.
        field: Option<String>,
        /// The parser's words.
        message: String,
    },
    /// A value that makes no sense.
    #[error("run file{}: {field} {problem}; {}", at(*.line), problem.fix())]
    Field {
        /// Dotted key.
        field: String,
        /// Line, from 1, if the key is written in the file.
        line: Option<usize>,
        /// What is wrong.
        problem: Problem,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl RunFileError {
    /// The dotted key that it is about.
    pub fn field(&self) -> Option<&str> {
        match self {
            RunFileError::Toml { field, .. } => field.as_deref(),
            RunFileError::Field { field, .. } => Some(field),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            RunFileError::Toml { .. } => None,
            RunFileError::Field { problem, .. } => Some(problem.fix()),
        }
    }
}

impl RunFile {
    /// Reads a run file for `parties` parties (as many as `peers.toml` lists).
    pub fn parse(text: &str, parties: usize) -> Result<Self, RunFileError> {
        RawRunFile::parse(text)?.resolve(parties, Defaults::File)
    }
}

#[cfg(test)]
mod tests;
