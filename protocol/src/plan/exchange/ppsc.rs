//! PPSC (Algorithm 1): in every iteration one party of each component of the private graph hands
//! its whole state over, less a fresh noise that it keeps.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::exchange::inca::check_uniform;
use crate::plan::exchange::injector::Mechanism;
use crate::plan::exchange::rules::{Occasion, Planned, Rules};
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::limits::MOST_EXCHANGE_ROUNDS;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::settings::{Coalitions, CorrelatedNoise, Rounds};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// PPSC's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ppsc {
    /// The number of network rounds, filled with as many iterations as fit.
    pub rounds: Rounds,
    /// The noise of its parties.
    pub noise: PpscNoise,
    /// Whether components so small that their noise is local are accepted.
    pub local_noise_ok: bool,
}

/// The noise of PPSC's parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PpscNoise {
    /// The noise that cancels is uniform over residues; each party adds its own.
    Uniform,
    /// The noise that cancels is Gaussian; each party adds its own.
    Gaussian,
    /// The noise that cancels is Gaussian and nobody adds its own: the exact sum of every component
    /// is revealed.
    ExactSum,
}

impl PpscNoise {
    /// The name of the noise that cancels.
    pub fn correlated(self) -> CorrelatedNoise {
        match self {
            PpscNoise::Uniform => CorrelatedNoise::Uniform,
            PpscNoise::Gaussian | PpscNoise::ExactSum => CorrelatedNoise::Gaussian,
        }
    }
}

impl Rules for Ppsc {
    fn most_rounds(&self) -> u32 {
        MOST_EXCHANGE_ROUNDS
    }

    fn check(&self, _: usize) -> Checked {
        Ok(())
    }

    fn check_static(&self) -> Checked {
        check_uniform(self.noise.correlated())
    }

    /// There may be several components, each with a sum of its own, but nobody may be alone.
    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_nobody_alone()
    }

    fn correlated_key(&self) -> Option<&'static str> {
        match self.noise {
            PpscNoise::Uniform => None,
            PpscNoise::Gaussian | PpscNoise::ExactSum => Some("pairwise_std"),
        }
    }

    /// Nothing is divided, so no number of rounds is too many for a lattice.
    fn check_rounds(&self, _: u32) -> Result<(), LatticeError> {
        Ok(())
    }

    fn rounds_widen_states(&self) -> bool {
        false
    }

    fn sent_a_round(&self) -> RangeInclusive<usize> {
        0..=1
    }

    /// Draws as many iterations as fit into so many rounds. Where START draws, each round pairs
    /// everybody: how many exchanges multi-gossip fits into its rounds depends on the draw, and of
    /// that no chance is known.
    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        if occasion.privacy.coalitions == Coalitions::Static {
            let parties = occasion.private_graph.parties();
            return Some(Schedule::pairings(parties, occasion.rounds as usize, seed));
        }
        Some(MultiGossip::fitting(occasion.private_graph, occasion.rounds, seed)?.schedule())
    }

    fn planned(&self, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        let correlated = self.noise.correlated();
        Ok(Arc::new(PlannedPpsc { correlated, rounds }))
    }
}

#[derive(Debug)]
struct PlannedPpsc {
    correlated: CorrelatedNoise,
    rounds: u32,
}

impl Planned for PlannedPpsc {
    fn travel(&self, shares: &ShareCounts) -> Travel<'_> {
        match self.correlated {
            CorrelatedNoise::Gaussian => Travel::HandOver {
                exchanges: shares.all,
                finest: None,
            },
            CorrelatedNoise::Uniform => Travel::Residues { halved: false },
        }
    }

    fn injector(&self, schedule: &Schedule, party: Party) -> Mechanism<Ratio> {
        Mechanism::HandOver {
            hand_outs: schedule.hand_outs(party),
        }
    }

    /// An iteration has one exchange for each component of the private graph. Before START has
    /// drawn its pairings it is known how many they are.
    fn iterations(&self, private_graph: &Graph, schedule: &Schedule) -> Option<u32> {
        if schedule.rounds() == 0 {
            return Some(self.rounds * (private_graph.parties() / 2) as u32);
        }
        let components = private_graph.components().len().max(1);
        Some((schedule.shares() / components) as u32)
    }
}
