//! Releases in sequence, each with a time of its own, over noise that may be precomputed: what a
//! training and rounds have in common.

use serde::{Deserialize, Serialize};

use crate::plan::run_file::limits::{LONGEST_MS, MOST_ATTEMPTS};
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::RunSettings;

/// The time of an iteration, and the precomputed noise of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSettings {
    /// Contribution, flood and vote of one iteration, in milliseconds.
    pub iteration_ms: u64,
    /// The most bytes that a node may hold of precomputed noise.
    pub precomputed_bytes: u64,
    /// The most times that noise is mixed, each time afresh, before a training gives up.
    pub mixing_attempts: u32,
}

impl SequenceSettings {
    /// Refuses times and attempts out of range, and stages that do not take half of an iteration
    /// each.
    pub(super) fn check(&self, run: &RunSettings) -> Checked {
        count(
            "run.mixing_attempts",
            self.mixing_attempts.into(),
            1,
            MOST_ATTEMPTS,
        )?;
        count("run.iteration_ms", self.iteration_ms, 8, LONGEST_MS)?;
        let half = self.iteration_ms / 2;
        require(run.settle_ms == half, "run.settle_ms", || Problem::Count {
            found: run.settle_ms,
            least: half,
            most: half,
        })
    }
}
