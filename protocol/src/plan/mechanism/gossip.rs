//! Gossip averaging: in every round each party sends its state to its neighbours by active edges,
//! and goes on with the weighted sum of what came. Nothing cancels: a party's own noise is all that
//! hides its values.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::average::AverageTerms;
use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::mechanism::rules::{Occasion, Planned, Rules};
use crate::plan::mechanism::ways_in::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::limits::{MOST_EXCHANGE_ROUNDS, MOST_PARTIES};
use crate::plan::run_file::problem::{Checked, Problem, refuse};
use crate::plan::run_file::settings::MechanismSettings;
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The rules of gossip averaging over edges.
pub(super) struct Gossip {
    /// Whether neighbours read sums only.
    pub(super) secure: bool,
}

impl Rules for Gossip {
    fn most_rounds(&self) -> u32 {
        MOST_EXCHANGE_ROUNDS
    }

    /// What goes with gossip is checked with data and privacy in hand
    /// (`run_file/gossip_case.rs`).
    fn check(&self, _: &MechanismSettings) -> Checked {
        Ok(())
    }

    fn check_static(&self, _: &MechanismSettings) -> Checked {
        refuse(
            "privacy.coalitions",
            Problem::NotYet {
                found: "\"static\" with kind = \"gossip\"",
                instead: "coalitions = \"any\"",
            },
        )
    }

    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_connected()
    }

    fn keys(&self) -> &'static [&'static str] {
        match self.secure {
            true => &["sums", "circle", "edges", "weight_bits", "threshold"],
            false => &["sums", "edges", "weight_bits"],
        }
    }

    /// Nothing cancels.
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
        0..=MOST_PARTIES
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        let gossip = occasion.settings.gossip.as_ref()?;
        let rounds = occasion.rounds as usize;
        let active = gossip.edges.draw(occasion.private_graph, rounds, seed);
        Some(Schedule::both_ways(active.iter().map(Arc::as_ref)))
    }

    fn planned(&self, _: &MechanismSettings, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        let secure = self.secure;
        Ok(Arc::new(PlannedGossip { rounds, secure }))
    }
}

#[derive(Debug)]
struct PlannedGossip {
    rounds: u32,
    secure: bool,
}

impl Planned for PlannedGossip {
    fn travel(&self, shares: &ShareCounts) -> Travel<'_> {
        // One value, as fine as its noise allows; what a stream changes in it a draft says.
        Travel::Average(AverageTerms {
            rounds: self.rounds,
            injections: 1,
            finest: f64::INFINITY,
            readers: if self.secure { shares.most_at_once } else { 0 },
        })
    }

    /// A party's state is its task's: none mixes.
    fn way_in(&self, _: &Schedule, _: Party) -> Mechanism<Ratio> {
        Mechanism::Masks { masks: 0 }
    }

    fn iterations(&self, _: &Graph, _: &Schedule) -> Option<u32> {
        None
    }
}
