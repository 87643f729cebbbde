//! Local noise: every party adds independent noise to its value, and nobody sends anything. A third
//! mechanism, for tests of what a mechanism has to answer.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::mechanism::rules::{Planned, Rules};
use crate::plan::mechanism::ways_in::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::settings::MechanismSettings;
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The rules of local noise: one round, in which nothing is sent.
#[derive(Debug)]
pub(super) struct Local;

impl Rules for Local {
    fn most_rounds(&self) -> u32 {
        1
    }

    fn check(&self, _: &MechanismSettings) -> Checked {
        Ok(())
    }

    fn check_static(&self, _: &MechanismSettings) -> Checked {
        Ok(())
    }

    /// Nobody's value is hidden by others', so that any graph will do.
    fn check_private_graph(&self, _: &NamedGraph<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn keys(&self) -> &'static [&'static str] {
        &["correlated_std"]
    }

    /// Every plan has such a noise; this mechanism never draws it.
    fn correlated_key(&self) -> &'static str {
        "correlated_std"
    }

    fn check_rounds(&self, _: u32, _: u32) -> Result<(), LatticeError> {
        Ok(())
    }

    fn rounds_widen_states(&self) -> bool {
        false
    }

    fn sent_a_round(&self, _: usize) -> RangeInclusive<usize> {
        0..=0
    }

    fn draw(&self, graph: &Graph, _: &MechanismSettings, rounds: u32, _: u64) -> Option<Schedule> {
        let silent = vec![vec![]; graph.parties()];
        Some(Schedule::from_out(vec![silent; rounds as usize]))
    }

    fn planned(&self, _: &MechanismSettings, _: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        Ok(Arc::new(Local))
    }
}

impl Planned for Local {
    fn travel(&self, shares: &ShareCounts) -> Travel<'_> {
        Travel::HandOver {
            exchanges: shares.all,
        }
    }

    fn way_in(&self, _: &Schedule, _: Party) -> Mechanism<Ratio> {
        Mechanism::Local
    }

    fn iterations(&self, _: &Graph, _: &Schedule) -> Option<u32> {
        None
    }
}
