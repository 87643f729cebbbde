//! `task = "rounds"`: means in sequence of what programs hand over, each of which has seen the
//! means before.

use serde::{Deserialize, Serialize};

use crate::plan::computation::sequence::SequenceSettings;
use crate::plan::run_file::limits::MOST_ITERATIONS;
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{Clip, Contributed, Data, Unit};

/// The number of means, and the kind of value that each yields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundsSettings {
    /// The number of means that are released; all of them share ε.
    pub releases: u64,
    /// The kind of value that each mean yields.
    pub result: ReleaseKind,
    /// SHA-256 of the model that the last result is written as, in hex: its types, and its tensors
    /// of whole numbers. Nothing else depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The time of a round, and the precomputed noise.
    pub sequence: SequenceSettings,
}

impl RoundsSettings {
    /// Refuses what no program hands over.
    pub(in crate::plan) fn check(&self, data: &Data) -> Checked {
        count("data.releases", self.releases, 1, MOST_ITERATIONS)?;
        let within_balls = matches!(data.clip, Clip::L2 { .. } | Clip::Tensors { .. });
        let summed = data.unit == Unit::Record && within_balls;
        let by_node = data.contributed == Contributed::AsTheyAre;
        require(summed || by_node, "data.clipped", || Problem::OnlyFor {
            only: "unit = \"record\" and a clip of kind \"l2\" or \"tensors\"",
        })?;
        let Some(sha256) = &self.template else {
            return Ok(());
        };
        let digits = sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        require(digits && sha256.len() == 64, "data.template", || {
            Problem::Tensor {
                what: "needs 64 lower-case hex digits for sha256, not",
                name: sha256.chars().take(80).collect(),
            }
        })?;
        require(data.tensors.is_some(), "data.tensors", || Problem::Missing {
            example: "tensors = { \"layer.weight\" = [16, 65], \"layer.bias\" = [16] } under [data], those of \
                      data.template that are averaged",
        })
    }
}

/// The kind of value that a release yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseKind {
    /// The weighted mean of what was handed over.
    #[default]
    Mean,
    /// Its weighted sum.
    Sum,
}

impl ReleaseKind {
    /// Returns the kind in a word.
    pub fn name(self) -> &'static str {
        match self {
            ReleaseKind::Mean => "mean",
            ReleaseKind::Sum => "sum",
        }
    }

    /// Returns the divisor of a sum of this weight.
    pub fn divisor(self, weight: f64) -> f64 {
        match self {
            ReleaseKind::Mean => weight,
            ReleaseKind::Sum => 1.0,
        }
    }
}

/// The part that clips rows, the node or the program, as a run file says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClippedBy {
    /// The node, row by row.
    ByNode,
    /// The program, which hands over their sum.
    ByProgram,
}
