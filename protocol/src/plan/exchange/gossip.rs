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
use crate::plan::exchange::injector::Mechanism;
use crate::plan::exchange::rules::{Occasion, Planned, Rules};
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::limits::{MOST_EXCHANGE_ROUNDS, MOST_PARTIES};
use crate::plan::run_file::problem::{Checked, count};
use crate::plan::run_file::settings::Rounds;
use crate::plan::shares::ShareCounts;
use crate::topology::active_edges::ActiveEdges;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The settings of gossip averaging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossip {
    /// The number of rounds.
    pub rounds: Rounds,
    /// The messages, or sums of them, that a neighbour reads.
    pub read: MessagesRead,
    /// The edges of the private graph that are active in a round.
    pub edges: ActiveEdges,
}

/// The part of gossip's messages that a neighbour reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagesRead {
    /// The messages: a party's own noise is all that hides its value from a neighbour.
    Each,
    /// Only the sum of those of its own neighbours.
    Sums,
}

impl Rules for Gossip {
    fn most_rounds(&self) -> u32 {
        MOST_EXCHANGE_ROUNDS
    }

    fn check(&self, parties: usize) -> Checked {
        let ActiveEdges::Degree(degree) = self.edges else {
            return Ok(());
        };
        count(
            "mechanism.edges.degree",
            degree as u64,
            1,
            parties.saturating_sub(1) as u64,
        )
    }

    /// A stream's coalitions know the schedule.
    fn check_static(&self) -> Checked {
        Ok(())
    }

    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_connected()
    }

    /// Nothing cancels.
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
        0..=MOST_PARTIES
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        let rounds = occasion.rounds as usize;
        let active = self.edges.draw(occasion.private_graph, rounds, seed);
        Some(Schedule::both_ways(active.iter().map(Arc::as_ref)))
    }

    fn planned(&self, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        let secure = self.read == MessagesRead::Sums;
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
    fn injector(&self, _: &Schedule, _: Party) -> Mechanism<Ratio> {
        Mechanism::Masks { masks: 0 }
    }

    fn iterations(&self, _: &Graph, _: &Schedule) -> Option<u32> {
        None
    }
}
