//! Masks of pairs (`kind = "pairwise"`, and streams with `sums = "everybody"`): the sum of all from
//! keys that each two parties have in common. Nothing is mixed: a schedule says who has a mask in
//! common with whom, whatever the private graph.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::exchange::injector::Mechanism;
use crate::plan::exchange::rules::{Occasion, Planned, Rules};
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::limits::MOST_PARTIES;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::settings::{Coalitions, Privacy, Rounds};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// Up to so many parties everybody has a mask in common with everybody: a mask of a million
/// coordinates takes some three milliseconds, and whoever is left stays joined.
const MOST_COMPLETE: usize = 32;

/// The settings of masks of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairwiseMasks {
    /// The number of rounds of the schedule that says who has a mask in common with whom.
    pub rounds: Rounds,
}

/// Returns the number of neighbours with whom each party has masks in common. It is one more than
/// may be against it, so that all others stay joined.
fn degree(parties: usize, privacy: &Privacy) -> usize {
    match parties <= MOST_COMPLETE {
        true => parties - 1,
        false => privacy.colluding + privacy.dropouts + 1,
    }
}

impl Rules for PairwiseMasks {
    /// A graph of masks has two neighbours of everybody in a round.
    fn most_rounds(&self) -> u32 {
        MOST_PARTIES as u32 / 2
    }

    fn check(&self, _: usize) -> Checked {
        Ok(())
    }

    fn check_static(&self) -> Checked {
        Ok(())
    }

    /// No share travels, so that any will do.
    fn check_private_graph(&self, _: &NamedGraph<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    /// Masks are uniform, and have no scale.
    fn correlated_key(&self) -> Option<&'static str> {
        None
    }

    fn check_rounds(&self, _: u32) -> Result<(), LatticeError> {
        Ok(())
    }

    fn rounds_widen_states(&self) -> bool {
        false
    }

    fn sent_a_round(&self) -> RangeInclusive<usize> {
        0..=1
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        let parties = occasion.private_graph.parties();
        if occasion.privacy.coalitions == Coalitions::Static {
            return Some(Schedule::independent(parties, occasion.rounds as usize, seed));
        }
        let degree = degree(parties, occasion.privacy);
        let has_rounds = Schedule::harary_rounds(parties, degree) == occasion.rounds;
        has_rounds.then(|| Schedule::harary(parties, degree, seed))
    }

    fn mixes(&self) -> bool {
        false
    }

    fn rounds(&self, parties: usize, privacy: &Privacy) -> Option<u32> {
        let any = privacy.coalitions == Coalitions::Any;
        any.then(|| Schedule::harary_rounds(parties, degree(parties, privacy)))
    }

    fn planned(&self, _: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        Ok(Arc::new(PlannedPairMasks))
    }
}

#[derive(Debug)]
struct PlannedPairMasks;

impl Planned for PlannedPairMasks {
    fn travel(&self, _: &ShareCounts) -> Travel<'_> {
        Travel::Residues { halved: false }
    }

    fn injector(&self, schedule: &Schedule, party: Party) -> Mechanism<Ratio> {
        Mechanism::Masks {
            masks: schedule.hand_outs(party),
        }
    }

    fn iterations(&self, _: &Graph, _: &Schedule) -> Option<u32> {
        None
    }
}
