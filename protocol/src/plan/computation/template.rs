//! The model that a result of rounds is written as: its types, and its tensors of whole numbers,
//! which are not averaged.

use serde::Deserialize;

use crate::plan::run_file::problem::{Checked, Problem, refuse};

/// The template file in whose format the result is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TemplateChoice {
    /// A file, from the run file's folder on. Who reads the run file puts [`TemplateChoice::Read`]
    /// in its place.
    File(String),
    /// The file with this SHA-256.
    Read {
        /// Lower-case hex digits.
        sha256: String,
    },
}

impl TemplateChoice {
    /// The SHA-256 that a plan carries. A file that nobody has read is refused.
    pub(in crate::plan) fn settled(self) -> Checked<String> {
        match self {
            TemplateChoice::Read { sha256 } => Ok(sha256),
            TemplateChoice::File(_) => {
                let found = "a file's name where no file is read";
                let alternative = "{ sha256 = \"…\" }, the digits that sha256sum FILE prints";
                refuse("data.template", Problem::NotYet { found, alternative })?;
                Ok(String::new())
            }
        }
    }
}
