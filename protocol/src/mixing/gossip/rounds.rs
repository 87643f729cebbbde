//! One party's rounds of gossip: what it sends in each, what has come of the others', and when a
//! round is over.
//!
//! Round t ends once this party's own message is out and all that are waited for are in, not
//! before t × `pace_ms` after START, so that whoever is behind catches up, and at the latest
//! t × `round_ms` after it. Nobody waits for a peer that is gone, nor, until it is heard of again,
//! for one that missed a deadline. A message of an earlier round is ignored, one of a later round
//! is kept: one for each neighbour and round.
//!
//! A message that is missing leaves out its term, of the state and of the weight that comes with
//! it; then the state is divided by that weight. So what travels always has the whole weight, each
//! release counts as much as the ones before it, and no message outgrows its round's bound.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::{PackedVector, VectorError};
use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::ShareId;
use crate::mixing::gossip::averaging::{CarriedWeight, RoundSum};
use crate::mixing::gossip::weights::RoundWeights;
use crate::plan::checked::Plan;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// Rounds whose own message is kept: whoever is there again may lack it. A neighbour that waits for
/// this party is at most one round behind.
const KEPT: u32 = 2;

/// An error in a message of gossip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GossipOffence {
    /// Another author, another recipient, or no active edge between them in that round.
    #[error("a message that is not due: round {}, from {} to {}", .0.round, .0.from, .0.to)]
    NotDue(ShareId),
    /// A weight other than the whole.
    #[error("a message of round {round} with a weight that is not whole")]
    Weight {
        /// Its round.
        round: u32,
    },
    /// Coordinates that no honest party sends.
    #[error("a message of round {round}: {error}")]
    Values {
        /// Its round.
        round: u32,
        /// The error in the values.
        error: VectorError,
    },
}

/// The message that a party sends in a round, to all neighbours alike.
#[derive(Clone)]
pub struct OwnMessage {
    /// The number of the round.
    pub round: u32,
    /// Its coordinates, as they travel.
    pub values: Bytes,
}

/// One party's rounds.
pub struct GossipRounds {
    me: Party,
    lattice: Lattice,
    dimension: usize,
    schedule: Schedule,
    /// The number of releases that a party contributes, one in each of the first rounds.
    releases: u32,
    round_ms: u64,
    pace_ms: u64,
    start: Time,
    /// The round that is under way, from 1; 0 before START, T + 1 after the last.
    round: u32,
    /// θ, by whole weight.
    state: LatticeVector,
    /// The release of this round, with its own noise, until it is in the message.
    value: Option<LatticeVector>,
    /// z of this round, once it is out.
    message: Option<LatticeVector>,
    sent: Vec<OwnMessage>,
    arrived: BTreeMap<(u32, Party), PackedVector>,
    /// The last round in which a message of each neighbour is due.
    last_due: BTreeMap<Party, u32>,
    /// The latest round of which each has sent a message.
    heard: BTreeMap<Party, u32>,
    unreachable: BTreeSet<Party>,
    late: BTreeSet<Party>,
    missed: BTreeSet<(u32, Party)>,
    estimates: Vec<f64>,
}

impl GossipRounds {
    /// Before START, with the first release.
    pub fn of(plan: &Plan, me: Party, first: LatticeVector) -> Self {
        let draft = plan.draft();
        let rounds = 1..=plan.rounds();
        let due = rounds.flat_map(|round| {
            plan.exchanges()
                .sends_to(round, me)
                .iter()
                .map(move |&peer| (peer, round))
        });
        GossipRounds {
            // Of each the last one stays.
            last_due: due.collect(),
            me,
            lattice: *plan.lattice(),
            dimension: draft.dimension(),
            schedule: plan.exchanges().clone(),
            releases: draft.releases() as u32,
            round_ms: draft.run.round_ms,
            pace_ms: draft.run.pace_ms,
            start: Time::ZERO,
            round: 0,
            state: plan.lattice().zeros(draft.dimension()),
            value: Some(first),
            message: None,
            sent: vec![],
            arrived: BTreeMap::new(),
            heard: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            late: BTreeSet::new(),
            missed: BTreeSet::new(),
            estimates: vec![],
        }
    }

    /// START: round 1 begins. `absent` have not started.
    pub fn begin(&mut self, start: Time, absent: impl Iterator<Item = Party>) {
        self.unreachable.extend(absent);
        (self.start, self.round) = (start, 1);
    }

    fn last(&self) -> u32 {
        self.schedule.rounds() as u32
    }

    /// The round that is under way, from 1; 0 before START, T + 1 after the last.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether all rounds are over.
    pub fn over(&self) -> bool {
        self.round > self.last()
    }

    /// Rounds that are over.
    pub fn done(&self) -> u32 {
        self.round.saturating_sub(1)
    }

    /// Releases of this party that have left, or are about to.
    pub fn spent(&self) -> u32 {
        self.round.min(self.releases)
    }

    /// The messages that were due to this party and did not come in time, by round and author.
    pub fn missed(&self) -> &BTreeSet<(u32, Party)> {
        &self.missed
    }

    /// This party's estimates in the data's unit, one row after the other: of a stream one a round,
    /// of the means of all releases so far, added up; of one value the latest.
    pub fn estimates(&self) -> &[f64] {
        &self.estimates
    }

    /// The latest of the estimates; empty before the first.
    pub fn latest(&self) -> &[f64] {
        &self.estimates[self.estimates.len().saturating_sub(self.dimension)..]
    }

    /// The release that this round waits for.
    pub fn lacks_release(&self) -> Option<u32> {
        let lacks =
            (1..=self.releases).contains(&self.round) && self.value.is_none() && self.message.is_none();
        lacks.then_some(self.round)
    }

    /// Takes the release that this round waits for.
    pub fn contribute(&mut self, value: LatticeVector) {
        self.value = Some(value);
    }

    /// Own messages of this round and the one before that are due to a neighbour: it may lack them.
    pub fn due_to(&self, peer: Party) -> impl Iterator<Item = &OwnMessage> {
        let due = move |message: &&OwnMessage| self.sends(message.round).contains(&peer);
        self.sent.iter().filter(due)
    }

    /// Returns the parties to which this party sends in a round.
    pub fn sends(&self, round: u32) -> &[Party] {
        self.schedule.sends_to(round, self.me)
    }

    /// A peer is there (again).
    pub fn back(&mut self, peer: Party) {
        self.unreachable.remove(&peer);
    }

    /// A peer is gone.
    pub fn lost(&mut self, peer: Party) {
        self.unreachable.insert(peer);
    }

    /// Takes a neighbour's message of this round or a later one.
    ///
    /// # Errors
    /// What is wrong with it; it is as if it had not come.
    pub fn receive(
        &mut self,
        from: Party,
        id: ShareId,
        weight: LatticeWeight,
        values: Bytes,
    ) -> Result<(), GossipOffence> {
        let due = id.from == from && id.to == self.me && self.sends(id.round).contains(&from);
        if !due {
            return Err(GossipOffence::NotDue(id));
        }
        let round = id.round;
        if weight.0 != CarriedWeight::WHOLE.units() {
            return Err(GossipOffence::Weight { round });
        }
        let latest = self.heard.get(&from).copied().unwrap_or(0);
        if round < self.round || self.arrived.contains_key(&(round, from)) {
            // Too late, or sent again on a new connection.
            return Ok(());
        }
        let share = self.lattice.share(values, self.dimension, round);
        let vector = share.map_err(|error| GossipOffence::Values { round, error })?;
        self.late.remove(&from);
        self.heard.insert(from, latest.max(round));
        self.arrived.insert((round, from), vector);
        Ok(())
    }

    /// Whether every neighbour has sent its last message that is due here, or is gone.
    pub fn all_have_ended(&self) -> bool {
        let ended = |(peer, last): (&Party, &u32)| {
            self.unreachable.contains(peer) || self.heard.get(peer).is_some_and(|heard| heard >= last)
        };
        self.last_due.iter().all(ended)
    }

    /// Returns the parties that this round waits for: those whose messages are due and missing,
    /// unless nobody waits for them.
    pub fn waits_for(&self) -> impl Iterator<Item = Party> + '_ {
        let absent = |peer: &Party| self.unreachable.contains(peer) || self.late.contains(peer);
        self.lacking().filter(move |peer| !absent(peer))
    }

    fn lacking(&self) -> impl Iterator<Item = Party> + '_ {
        let due = self.sends(self.round).iter().copied();
        due.filter(|peer| !self.arrived.contains_key(&(self.round, *peer)))
    }

    /// This round's end, if every round takes as long.
    fn end_of(&self, milliseconds: u64) -> Time {
        self.start
            .plus_millis(milliseconds.saturating_mul(self.round.into()))
    }

    /// Returns the moment when this round may end by itself.
    pub fn wake(&self) -> Time {
        if self.round == 0 || self.over() || self.message.is_none() {
            return Time::FAR;
        }
        match self.waits_for().next() {
            None => self.end_of(self.pace_ms),
            Some(_) => self.end_of(self.round_ms),
        }
    }

    /// This round's own message, once its release is here: z = θ + x + u.
    pub fn speak(&mut self) -> Option<OwnMessage> {
        let waits = self.lacks_release().is_some() || self.round == 0 || self.over();
        if waits || self.message.is_some() {
            return None;
        }
        let mut message = self.state.clone();
        if let Some(value) = self.value.take() {
            message.add(&value);
        }
        let mut values = vec![0; self.dimension * self.lattice.wire_bytes as usize];
        // Within its bound, as all honest messages are; noise beyond twelve deviations is clamped.
        self.lattice.write_share(&message, self.round, &mut values).ok()?;
        let own = OwnMessage {
            round: self.round,
            values: values.into(),
        };
        self.sent.retain(|sent| sent.round + KEPT > self.round);
        self.sent.push(own.clone());
        self.message = Some(message);
        Some(own)
    }

    /// Ends this round, if it is over. False: it is not.
    pub fn end_round(&mut self, now: Time) -> bool {
        if now < self.wake() {
            return false;
        }
        let Some(message) = self.message.take() else {
            return false;
        };
        let round = self.round;
        let missing: Vec<Party> = self.lacking().collect();
        self.late
            .extend(missing.iter().filter(|peer| !self.unreachable.contains(peer)));
        self.missed.extend(missing.into_iter().map(|peer| (round, peer)));
        let weights = RoundWeights::of(&self.active());
        let mut sum = RoundSum::new(&weights, self.me, message, CarriedWeight::WHOLE);
        for (&(_, from), vector) in self.arrived.range((round, 0)..(round + 1, 0)) {
            sum.add(from, &vector.unpack(), CarriedWeight::WHOLE);
        }
        let (state, weight) = sum.end();
        self.state = self.whole(state, weight);
        self.arrived = self.arrived.split_off(&(round + 1, 0));
        if self.releases == 1 {
            self.estimates.clear();
        }
        self.estimates.extend(self.state.to_f64(self.lattice.step()));
        self.round = round + 1;
        true
    }

    /// The edges that are active in this round.
    fn active(&self) -> Graph {
        let graph = Graph::from_edges(self.schedule.parties(), &self.schedule.pairs(self.round));
        graph.expect("a checked plan's edges join its parties")
    }

    /// A state divided by its weight, to the nearest step.
    fn whole(&self, state: LatticeVector, weight: CarriedWeight) -> LatticeVector {
        if weight == CarriedWeight::WHOLE {
            return state;
        }
        // The own term is always there.
        let weight = weight.units().max(1);
        self.lattice
            .vector(state.steps().map(|steps| divided(steps, weight)))
    }
}

/// steps × 2^64 / weight to the nearest integer, in two halves of 32 bits: nothing overflows whose
/// quotient fits. `weight` is from 1 to 2^64.
fn divided(steps: i128, weight: i128) -> i128 {
    let (high, low) = (steps.div_euclid(weight), steps.rem_euclid(weight));
    let first = (low << 32) / weight;
    let rest = (low << 32) % weight;
    let second = ((rest << 32) + weight / 2) / weight;
    (high << 64) + (first << 32) + second
}

#[cfg(test)]
mod tests;
