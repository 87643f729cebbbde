//! PPSC (Algorithm 1): in every iteration one party of each component of the private graph hands
//! its whole state over, less a fresh noise that it keeps.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::mechanism::inca::check_even;
use crate::plan::mechanism::rules::{Occasion, Planned, Rules};
use crate::plan::mechanism::ways_in::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::limits::MOST_EXCHANGE_ROUNDS;
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{
    Coalitions, CorrelatedNoise, IndependentNoise, InjectionChoice, MechanismSettings,
};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

pub(super) struct Ppsc;

impl Rules for Ppsc {
    fn most_rounds(&self) -> u32 {
        MOST_EXCHANGE_ROUNDS
    }

    fn check(&self, settings: &MechanismSettings) -> Checked {
        // A hand-over has one receiver, and is what roll-back takes back; value and noise come in
        // as Algorithm 1 has them.
        count("mechanism.fanout", settings.fanout.into(), 1, 1)?;
        let only = || Problem::OnlyFor {
            only: "mechanism.kind = \"inca\"",
        };
        let none = [InjectionChoice::Incremental, InjectionChoice::Late].contains(&settings.injection);
        require(none, "mechanism.injection", only)?;
        require(settings.rollback, "mechanism.rollback", only)?;
        let said = settings.independent_noise == IndependentNoise::Calibrated || settings.accept_exact_sum;
        require(said, "mechanism.independent_noise", || Problem::ExactSum)
    }

    fn check_static(&self, settings: &MechanismSettings) -> Checked {
        check_even(settings)
    }

    /// There may be several components, each with a sum of its own, but nobody may be alone.
    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_nobody_alone()
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "iterations",
            "independent_noise",
            "accept_exact_sum",
            "local_noise_ok",
            "pairwise_std",
        ]
    }

    fn correlated_key(&self) -> &'static str {
        "pairwise_std"
    }

    /// Nothing is divided, so no number of rounds is too many for a lattice.
    fn check_rounds(&self, _: u32, _: u32) -> Result<(), LatticeError> {
        Ok(())
    }

    fn rounds_widen_states(&self) -> bool {
        false
    }

    fn sent_a_round(&self, fanout: usize) -> RangeInclusive<usize> {
        0..=fanout
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

    fn planned(&self, settings: &MechanismSettings, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        let correlated = settings.correlated;
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

    fn way_in(&self, schedule: &Schedule, party: Party) -> Mechanism<Ratio> {
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
