//! `run.toml`: what a person asks for. [`RawRunFile`] is what the file says, [`RunFile`] is
//! complete and checked.

use crate::plan::computation::asked::Asked;
use crate::plan::computation::beside::Beside;
use crate::plan::computation::choice::Computation;
use crate::plan::defaults::Defaults;
use crate::plan::exchange::choice::Exchange;
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::raw::RawRunFile;
use crate::plan::run_file::settings::*;

/// A complete and checked run file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The run's name, for people.
    pub name: String,
    /// The computation of the parties.
    pub computation: Computation,
    /// The data that each party contributes to a sum: in a training one clipped gradient a row.
    pub data: Data,
    /// The target: ε, δ, and against whom.
    pub privacy: Privacy,
    /// The way in which values travel and cancel.
    pub exchange: Exchange,
    /// The graphs of the parties that may talk to each other.
    pub topology: Topology,
    /// The run's time-outs and sizes.
    pub run: RunSettings,
}

impl RunFile {
    /// Reads a run file for `parties` parties (as many as `peers.toml` lists).
    pub fn parse(text: &str, parties: usize) -> Result<Self, RunFileError> {
        RawRunFile::parse(text)?.resolve(parties, Defaults::File)
    }

    /// Checks everything that can be said without the list of peers.
    pub(crate) fn check(&self, parties: usize) -> Checked {
        self.asked().check(parties)
    }

    /// Refuses what parses, and will run one day, but that this version's plans do not carry.
    pub fn supported(&self) -> Result<(), RunFileError> {
        let carried = self.asked().check_carried();
        carried.map_err(|(field, problem)| RunFileError::Field {
            field,
            line: None,
            problem,
        })
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            name: &self.name,
            computation: &self.computation,
            beside: Beside {
                data: &self.data,
                privacy: &self.privacy,
                exchange: &self.exchange,
                run: &self.run,
            },
        }
    }
}

#[cfg(test)]
mod tests;
