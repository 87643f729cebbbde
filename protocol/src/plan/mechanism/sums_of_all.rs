//! Gossip of which everybody reads one sum a round (`sums = "secure"`, `circle = "everybody"`):
//! each round is a sum by masks of pairs, whatever the private graph, so that nobody has a state.
//!
//! With weights of ⌊2^16/n⌋ on the sum and the rest at home the sums would tell the same: each is
//! a known multiple of the one before, and what its round brought. What is kept at home would not
//! be for others' eyes, though: beside the sum it tells the own message.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::LatticeError;
use crate::lattice::injection::InjectionError;
use crate::plan::error::DraftError;
use crate::plan::mechanism::pairwise::Pairwise;
use crate::plan::mechanism::rules::{Occasion, Planned, Rules};
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::problem::{Checked, Problem, require};
use crate::plan::run_file::settings::{CorrelatedNoise, MechanismSettings, Privacy};
use crate::topology::schedule::Schedule;

/// The rules of sums of all: those of masks of pairs, with the keys of gossip.
#[derive(Debug)]
pub(super) struct SumsOfAll;

impl Rules for SumsOfAll {
    fn most_rounds(&self) -> u32 {
        Pairwise.most_rounds()
    }

    fn check(&self, settings: &MechanismSettings) -> Checked {
        let uniform = settings.correlated == CorrelatedNoise::Uniform;
        require(uniform, "mechanism.correlated", || Problem::OnlyFor {
            only: "another mechanism.circle than \"everybody\"",
        })
    }

    fn check_static(&self, settings: &MechanismSettings) -> Checked {
        Pairwise.check_static(settings)
    }

    fn check_private_graph(&self, _: &NamedGraph<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn keys(&self) -> &'static [&'static str] {
        &["sums", "circle", "edges", "threshold"]
    }

    fn correlated_key(&self) -> &'static str {
        Pairwise.correlated_key()
    }

    fn check_rounds(&self, fanout: u32, rounds: u32) -> Result<(), LatticeError> {
        Pairwise.check_rounds(fanout, rounds)
    }

    fn rounds_widen_states(&self) -> bool {
        false
    }

    fn sent_a_round(&self, fanout: usize) -> RangeInclusive<usize> {
        Pairwise.sent_a_round(fanout)
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        Pairwise.draw(occasion, seed)
    }

    fn mixes(&self) -> bool {
        false
    }

    fn rounds(&self, parties: usize, privacy: &Privacy) -> Option<u32> {
        Pairwise.rounds(parties, privacy)
    }

    fn planned(&self, settings: &MechanismSettings, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        Pairwise.planned(settings, rounds)
    }
}
