//! `run.toml`: what a person asks for. [`RawRunFile`] is what the file says, [`RunFile`] is
//! complete and checked.

use crate::plan::defaults::Defaults;
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::outer::OuterSettings;
use crate::plan::run_file::raw::RawRunFile;
use crate::plan::run_file::settings::*;
use crate::plan::run_file::training::ModelSettings;

/// A complete and checked run file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// What the run computes.
    pub task: TaskKind,
    /// The run's name, for people.
    pub name: String,
    /// What each party contributes to a sum: in a training one clipped gradient a row.
    pub data: Data,
    /// What a training fits.
    pub model: Option<ModelSettings>,
    /// What PPSC's outer recursions iterate.
    pub outer: Option<OuterSettings>,
    /// The target: ε, δ, and against whom.
    pub privacy: Privacy,
    /// How noise is shared out.
    pub mechanism: MechanismSettings,
    /// Who may talk to whom.
    pub topology: Topology,
    /// The run's time-outs and sizes.
    pub run: RunSettings,
}

impl RunFile {
    /// Reads a run file for `parties` parties (as many as `peers.toml` lists).
    pub fn parse(text: &str, parties: usize) -> Result<Self, RunFileError> {
        RawRunFile::parse(text)?.resolve(parties, Defaults::File)
    }
}

#[cfg(test)]
mod tests;
