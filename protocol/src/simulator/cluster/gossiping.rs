//! Gossip: what must hold of every party's estimates, computed once more from what each
//! contributed and whose messages it lacked.

use super::*;
use crate::mixing::gossip::rounds::GossipRounds;

/// A weight of gossip of the whole, in units of which rows are made.
const UNIT: i128 = 1 << 16;

impl Simulation<'_> {
    /// Every node's estimates are what follows from x̃ of all and from the messages that each
    /// lacked, to the bit; a party that ended early keeps those of the rounds that it had.
    pub(super) fn check_estimates(&self) -> Vec<Violation> {
        let expected = self.states_by_round();
        let ended = self.nodes.iter().enumerate();
        let ended = ended.filter_map(|(party, node)| Some((party, &node.outcome.as_ref()?.1)));
        let wrong = ended.filter(|(party, outcome)| {
            let Some(gossip) = &outcome.gossip else {
                return false;
            };
            let states = &expected[*party][..gossip.rounds as usize];
            let kept = match self.plan.draft().releases() {
                1 => &states[states.len().saturating_sub(1)..],
                _ => states,
            };
            let step = self.plan.lattice().step();
            let estimates: Vec<f64> = kept.iter().flatten().map(|&steps| steps as f64 * step).collect();
            estimates != gossip.estimates
        });
        let told = wrong.map(|(party, _)| {
            let text = format!("party {party}'s estimates do not follow from what was contributed");
            Violation::new("estimate", text)
        });
        told.collect()
    }

    /// Every party's state after each round that it ended, in steps.
    fn states_by_round(&self) -> Vec<Vec<Vec<i128>>> {
        let rounds: Vec<&GossipRounds> = self.nodes.iter().filter_map(|node| node.task.gossip()).collect();
        let mut states: Vec<Vec<Vec<i128>>> = vec![vec![]; rounds.len()];
        for round in 1..=self.plan.rounds() {
            let messages: Vec<Option<Vec<i128>>> = (0..rounds.len())
                .map(|party| self.message_in(round, party, states[party].last()))
                .collect();
            for (party, own) in rounds.iter().enumerate().filter(|(_, own)| own.done() >= round) {
                let state = self.averaged(round, party, &|other| {
                    let lacks = other != party && own.missed().contains(&(round, other));
                    messages[other].as_ref().filter(|_| !lacks)
                });
                states[party].push(state);
            }
        }
        states
    }

    /// z of a party in a round, from its state before; none where it never came to that.
    fn message_in(&self, round: u32, party: Party, before: Option<&Vec<i128>>) -> Option<Vec<i128>> {
        let value = match round {
            1 => Some(&self.noised[party]),
            _ => self.trainees.contributed.get(&(round, party)),
        };
        let streams = u64::from(round) <= self.plan.draft().releases();
        let value: Option<Vec<i128>> = value.filter(|_| streams).map(|value| value.steps().collect());
        match (before, value) {
            (None, value) if round == 1 => value,
            (Some(state), Some(value)) => Some(state.iter().zip(value).map(|(a, b)| a + b).collect()),
            (Some(state), None) if !streams => Some(state.clone()),
            _ => None,
        }
    }

    /// Σ N z over those who are there, to the nearest step, divided by Σ N, to the nearest step.
    fn averaged<'v>(
        &self,
        round: u32,
        party: Party,
        there: &dyn Fn(Party) -> Option<&'v Vec<i128>>,
    ) -> Vec<i128> {
        let schedule = self.plan.exchanges();
        let degree = |party: Party| schedule.sends_to(round, party).len() as i128;
        let neighbours = schedule.sends_to(round, party).iter();
        let weight = |other: Party| UNIT / (1 + degree(party).max(degree(other)));
        let mut row: Vec<(Party, i128)> = neighbours.map(|&other| (other, weight(other))).collect();
        row.push((party, UNIT - row.iter().map(|(_, weight)| weight).sum::<i128>()));
        row.retain(|&(other, _)| there(other).is_some());
        let whole: i128 = row.iter().map(|(_, weight)| weight).sum();
        let at = |coordinate: usize| {
            let terms = row.iter();
            let sum: i128 = terms
                .filter_map(|&(other, weight)| Some(weight * there(other)?[coordinate]))
                .sum();
            let average = (sum + UNIT / 2).div_euclid(UNIT);
            (2 * average * UNIT + whole).div_euclid(2 * whole)
        };
        (0..self.plan.draft().dimension()).map(at).collect()
    }
}
