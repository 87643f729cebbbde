//! Executions of gossip averaging, and a coalition's view of them, from the protocol's own
//! averaging run on unit impulses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use undertone_protocol::lattice::payload::Impulse;
use undertone_protocol::mixing::gossip::averaging::{CarriedWeight, RoundSum};
use undertone_protocol::mixing::gossip::weights::RoundWeights;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::losses::contributions::ContributionLoss;
use crate::losses::row_space::{NearlyDependent, RowSpace, independent};
use crate::parallel::in_parallel;

/// A coalition member's view of its neighbours in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GossipView {
    /// Each neighbour's message: its state, release and noise.
    Messages,
    /// The weighted sum of them alone, as secure sums give it.
    Sum,
}

/// A run of gossip averaging. Read from a file by [`GossipRun::parse`], or made of a plan, whose
/// numbers are then the caller's to keep in range.
#[derive(Debug, Clone, PartialEq)]
pub struct GossipRun {
    /// The number of parties n.
    pub parties: usize,
    /// The active edges of each round.
    pub edges: Vec<Arc<Graph>>,
    /// E: a party contributes something new in rounds 1 to E.
    pub contributions: usize,
    /// The standard deviation of each round's noise, positive.
    pub std: Vec<f64>,
    /// The view that members of the coalition have.
    pub view: GossipView,
    /// The coalition, which knows all of its members' noise and releases.
    pub corrupted: BTreeSet<Party>,
    /// The parties that take part, by round and party. One that does not sends and hears nothing in
    /// that round: nothing enters its state, and its state stays.
    pub online: Vec<Vec<bool>>,
    /// The parties whose last state is shown to the coalition.
    pub published: BTreeSet<Party>,
}

/// The losses of a run, and how well it averaged.
#[derive(Debug, Clone, PartialEq)]
pub struct GossipOutcome {
    /// The squared losses of each party outside of the coalition, at unit sensitivity.
    pub losses: BTreeMap<Party, ContributionLoss>,
    /// The standard deviation that noise gives an estimate of the sum of all rounds' means: the
    /// root of the mean square over those who took part in the last round; none if nobody did.
    pub noise_error: Option<f64>,
    /// The largest Σⱼ |Σₜ (wᵢⱼₜ − 1/n)| over those who took part in the last round, wᵢⱼₜ what
    /// estimate i carries of party j's contribution of round t: times half the width of the range
    /// it is how far i can be from the mean, if each party contributes the same in every round;
    /// `None` if nobody took part.
    pub weight_error: Option<f64>,
}

/// A state as a function of what entered, one number for each round so far and party, with its
/// public weight.
#[derive(Clone)]
struct Carried {
    state: Vec<f64>,
    weight: CarriedWeight,
}

impl GossipRun {
    /// The number of rounds T.
    pub fn rounds(&self) -> usize {
        self.edges.len()
    }

    fn here(&self, round: usize, party: Party) -> bool {
        self.online[round][party]
    }

    /// Computes the loss of each party's releases in this run, and how well it averages.
    ///
    /// # Errors
    /// The coalition's view is too nearly dependent.
    pub fn outcome(&self) -> Result<GossipOutcome, NearlyDependent> {
        let mut states = vec![
            Carried {
                state: vec![],
                weight: CarriedWeight::WHOLE,
            };
            self.parties
        ];
        let mut seen: Vec<Vec<f64>> = Vec::new();
        for round in 0..self.rounds() {
            let messages = self.messages(round, &states);
            states = self.averaged(round, &messages, &states);
            let rows = self.rows_seen(round, &messages, &states);
            // Only what the round's own noise sets apart is new: all that enters a round's
            // messages does so with it, so that a combination without it is a known one.
            let fresh = rows.iter().map(|row| self.unknown(row, round * self.parties));
            let fresh: Vec<Vec<f64>> = fresh.collect();
            seen.extend(
                independent(&fresh)
                    .into_iter()
                    .map(|at| self.unknown(&rows[at], 0)),
            );
        }
        let columns = self.parties * self.rounds();
        seen.iter_mut().for_each(|row| row.resize(columns, 0.0));
        let space = RowSpace::of(&seen)?;
        let honest: Vec<Party> = (0..self.parties)
            .filter(|party| !self.corrupted.contains(party))
            .collect();
        let loss = |place: usize| {
            let own =
                (0..self.contributions).map(|round| (round * self.parties + honest[place], self.std[round]));
            Some((honest[place], space.loss(&own.collect::<Vec<_>>())))
        };
        Ok(GossipOutcome {
            losses: in_parallel(honest.len(), loss).into_iter().collect(),
            noise_error: self.noise_error(&states),
            weight_error: self.weight_error(&states),
        })
    }

    /// z = θ + x + u of everybody; nothing of who is not there.
    fn messages(&self, round: usize, states: &[Carried]) -> Vec<Option<Impulse>> {
        let message = |party: Party| {
            let mut message = states[party].state.clone();
            message.resize((round + 1) * self.parties, 0.0);
            message[round * self.parties + party] += 1.0;
            self.here(round, party).then_some(Impulse(message))
        };
        (0..self.parties).map(message).collect()
    }

    /// Everybody's state after the round, by the machine that a node runs.
    fn averaged(&self, round: usize, messages: &[Option<Impulse>], states: &[Carried]) -> Vec<Carried> {
        let weights = RoundWeights::of(&self.edges[round]);
        let average = |own: Party| {
            let Some(message) = &messages[own] else {
                let mut same = states[own].clone();
                same.state.resize((round + 1) * self.parties, 0.0);
                return Some(same);
            };
            let mut sum = RoundSum::new(&weights, own, message.clone(), states[own].weight);
            for &other in self.edges[round].neighbours(own) {
                if let Some(message) = &messages[other] {
                    sum.add(other, message, states[other].weight);
                }
            }
            let (state, weight) = sum.end();
            Some(Carried {
                state: state.0,
                weight,
            })
        };
        in_parallel(self.parties, average)
    }

    /// Returns the coalition's view of a round, and the states shown to it that nothing changes
    /// later.
    fn rows_seen(&self, round: usize, messages: &[Option<Impulse>], states: &[Carried]) -> Vec<Vec<f64>> {
        let readers = self
            .corrupted
            .iter()
            .copied()
            .filter(|&member| self.here(round, member));
        let mut rows: Vec<Vec<f64>> = match self.view {
            GossipView::Sum => readers.map(|reader| states[reader].state.clone()).collect(),
            GossipView::Messages => {
                let read = readers.flat_map(|reader| self.edges[round].neighbours(reader));
                let read: BTreeSet<Party> = read
                    .copied()
                    .filter(|party| !self.corrupted.contains(party))
                    .collect();
                let read = read.into_iter().filter_map(|party| messages[party].as_ref());
                read.map(|message| message.0.clone()).collect()
            }
        };
        let last = |party: Party| (0..self.rounds()).rev().find(|&round| self.here(round, party));
        let shown = self.published.iter().filter(|&&party| last(party) == Some(round));
        rows.extend(shown.map(|&party| states[party].state.clone()));
        rows
    }

    /// A row from entry `first` on, over noises of unit variance, without those that the coalition
    /// knows.
    fn unknown(&self, row: &[f64], first: usize) -> Vec<f64> {
        let entry = |(at, &value): (usize, &f64)| {
            let (round, party) = (at / self.parties, at % self.parties);
            let known = self.corrupted.contains(&party);
            if known { 0.0 } else { value * self.std[round] }
        };
        row.iter().enumerate().skip(first).map(entry).collect()
    }

    /// The estimates θ/w of those who took part in the last round.
    fn estimates<'a>(&'a self, states: &'a [Carried]) -> impl Iterator<Item = Vec<f64>> + 'a {
        let last = self.rounds() - 1;
        let there = states
            .iter()
            .enumerate()
            .filter(move |&(party, _)| self.here(last, party));
        let weighted = there.filter(|(_, carried)| carried.weight.part() > 0.0);
        weighted.map(|(_, carried)| {
            let whole = 1.0 / carried.weight.part();
            carried.state.iter().map(|value| value * whole).collect()
        })
    }

    fn noise_error(&self, states: &[Carried]) -> Option<f64> {
        let variance = |estimate: Vec<f64>| {
            let entries = estimate.iter().enumerate();
            entries
                .map(|(at, value)| (value * self.std[at / self.parties]).powi(2))
                .sum::<f64>()
        };
        let variances: Vec<f64> = self.estimates(states).map(variance).collect();
        let count = variances.len() as f64;
        (count > 0.0).then(|| (variances.iter().sum::<f64>() / count).sqrt())
    }

    fn weight_error(&self, states: &[Carried]) -> Option<f64> {
        let equal = 1.0 / self.parties as f64;
        let off = |estimate: Vec<f64>| {
            let of_party = |party: Party| {
                let carried =
                    (0..self.contributions).map(|round| estimate[round * self.parties + party] - equal);
                carried.sum::<f64>().abs()
            };
            (0..self.parties).map(of_party).sum::<f64>()
        };
        self.estimates(states).map(off).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests;
