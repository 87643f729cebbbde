//! The model that a result of rounds is written as: its types, and its tensors of whole numbers,
//! which are not averaged.

use serde::Deserialize;

use crate::plan::run_file::problem::{Checked, Problem, refuse, require};
use crate::plan::run_file::settings::{Data, TaskKind};

/// Which file the result is written as.
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
    pub(super) fn settled(self) -> Checked<String> {
        match self {
            TemplateChoice::Read { sha256 } => Ok(sha256),
            TemplateChoice::File(_) => {
                let found = "a file's name where no file is read";
                let instead = "{ sha256 = \"…\" }, the digits that sha256sum FILE prints";
                refuse("model.template", Problem::NotYet { found, instead })?;
                Ok(String::new())
            }
        }
    }
}

impl Data {
    /// A template is of the tensors that the vectors of rounds consist of.
    pub(super) fn check_template(&self, task: TaskKind) -> Checked {
        let Some(sha256) = &self.template else {
            return Ok(());
        };
        require(task == TaskKind::Rounds, "model.template", || Problem::OnlyFor {
            only: "task = \"rounds\"",
        })?;
        let digits = sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        require(digits && sha256.len() == 64, "model.template", || {
            Problem::Tensor {
                what: "needs 64 lower-case hex digits for sha256, not",
                name: sha256.chars().take(80).collect(),
            }
        })?;
        require(self.tensors.is_some(), "data.tensors", || Problem::Missing {
            example: "tensors = { \"layer.weight\" = [16, 65], \"layer.bias\" = [16] } under [data], those of \
                      model.template that are averaged",
        })
    }
}
