//! Coalitions that were chosen before the schedule was drawn, for many parties: losses of random
//! (schedule, coalition, departures) draws, what a sample of them shows, and beside it what
//! coalitions that know the schedule find.
//!
//! One system of 200 parties has hundreds of rows over thousands of unknowns. But with D_Inc a run
//! is a small dynamic system. Before a split each state is yᵢ = uᵢ + ηᵢ, ηᵢ its party's newest
//! noise, that nothing else contains; after it ηᵢ leaves again. So a state that is seen is a noisy
//! observation of uᵢ, one that is not turns its ηᵢ into noise among its receivers, and what is
//! hidden are u and x̃ alone ([`hidden`]). The loss is what the view takes from the variance of x̃:
//! μᵢ² = (1 − Var(x̃ᵢ | view)/σ*²)/σ*², the Fisher information of xᵢ in the view. By Theorem R
//! departed parties are counted with the coalition; faults of a share cost at most what its state
//! would show.
//!
//! # What a sample says
//! Where everybody may exchange shares with everybody (a complete private graph), a schedule is as
//! likely as the same with the parties' names exchanged. So a coalition and departures drawn at
//! random are as good as *any* that were chosen before the schedule, and the chance p of a draw in
//! which somebody's loss is above μ is theirs, too. Elsewhere it is the chance of coalitions drawn
//! at random. A run is then (ε, δ + p) with the (ε, δ) of μ, for each party: p bounds the chance
//! that *anybody* outside of a coalition and departures of full size loses more. If fewer collude
//! or depart, say C′ and D′, take for a given party sets C and D of full size around them that
//! leave it out: by Theorem R it loses no less against these, and their chance is p.
//! [`Draws::chance`] is that p.

pub mod hidden;
pub mod search;

use std::ops::Range;

use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::{Schedule, draw_parties};

use crate::bounds::confidence;
use crate::bounds::draws::hidden::{largest, squared_losses, worst_with_a_share_fault};
use crate::parallel::in_parallel;

/// Confidence with which [`Draws::chance`] holds.
pub const CONFIDENCE: f64 = 0.999;

/// Multiplications of a draw at most: our choice, some two seconds of one core. 500 parties with 40
/// that collude or depart stay below in 40 rounds.
const MOST_PRODUCTS: f64 = 3e10;

/// What draws are made of.
#[derive(Debug, Clone)]
pub struct Draws {
    /// Who may exchange shares.
    pub graph: Graph,
    /// To how many a party sends in a round.
    pub fanout: usize,
    /// How many rounds a run has.
    pub rounds: usize,
    /// Parties that collude, drawn evenly.
    pub colluding: usize,
    /// Parties that depart, drawn evenly among the others.
    pub dropouts: usize,
}

impl Draws {
    /// The largest squared loss of the draw of `seed` over the tolerated class, at σ* = 1, Δ = 1
    /// and σ_Δ² = `ratio`; never below it, ∞ where it is in doubt or there is no schedule.
    pub fn worst(&self, seed: u64, ratio: f64) -> f64 {
        let Some(schedule) = Schedule::draw(&self.graph, self.fanout, self.rounds, seed) else {
            return f64::INFINITY;
        };
        let against = draw_parties(self.graph.parties(), self.colluding + self.dropouts, seed);
        worst_with_a_share_fault(schedule.out(), &against, ratio).unwrap_or(f64::INFINITY)
    }

    /// The largest squared loss of the draw of `seed` without faults of shares.
    pub fn worst_without_share_faults(&self, seed: u64, ratio: f64) -> f64 {
        let Some(schedule) = Schedule::draw(&self.graph, self.fanout, self.rounds, seed) else {
            return f64::INFINITY;
        };
        let against = draw_parties(self.graph.parties(), self.colluding + self.dropouts, seed);
        largest(squared_losses(schedule.out(), &against, ratio))
    }

    /// The largest squared losses of many draws, in the order of their seeds.
    pub fn all(&self, seeds: Range<u64>, ratio: f64) -> Vec<f64> {
        let count = seeds.end.saturating_sub(seeds.start) as usize;
        in_parallel(count, |index| Some(self.worst(seeds.start + index as u64, ratio)))
    }

    /// The largest of many draws.
    pub fn worst_of(&self, seeds: Range<u64>, ratio: f64) -> f64 {
        self.all(seeds, ratio).into_iter().fold(0.0, f64::max)
    }

    /// How many draws lose more than `most` (μ² at σ* = 1, Δ = 1).
    pub fn failures(&self, seeds: Range<u64>, ratio: f64, most: f64) -> u64 {
        self.all(seeds, ratio)
            .into_iter()
            .filter(|&square| square.is_nan() || square > most)
            .count() as u64
    }

    /// Roughly how many multiplications a draw takes.
    pub fn products(&self) -> f64 {
        let honest = self
            .graph
            .parties()
            .saturating_sub(self.colluding + self.dropouts)
            .max(1) as f64;
        (self.rounds as f64 * 7.0 + 3.0) * honest.powi(3) + 1e4
    }

    /// Whether a draw takes so long that nobody could verify a plan: each verification makes ten at
    /// least.
    pub fn take_too_long(&self) -> bool {
        self.products() > MOST_PRODUCTS
    }

    /// The largest chance of a failure that this many of them leave possible, at [`CONFIDENCE`],
    /// one-sided (Clopper and Pearson 1934): see [`self`](crate::bounds::draws).
    pub fn chance(failures: u64, draws: u64) -> f64 {
        confidence::at_most(failures, draws, 1.0 - CONFIDENCE)
    }

    /// How many draws without a failure show that failures are rarer than `probability`.
    pub fn needed(probability: f64) -> f64 {
        ((1.0 - CONFIDENCE).ln() / libm::log1p(-probability)).ceil()
    }
}

#[cfg(test)]
mod tests;
