//! Gossip: what must hold of every party's estimates, computed once more from what each
//! contributed and whose messages it lacked.

use std::collections::BTreeSet;

use super::*;
use crate::mixing::gossip::rounds::GossipRounds;
use crate::mixing::gossip::weights::RoundWeights;
use crate::run::outcome::GossipOutcome;

/// A weight of gossip of the whole, in units of which rows are made.
const UNIT: i128 = 1 << 16;

/// The rounds of circles, computed once more.
pub(super) struct OpenedCircles {
    /// The set of parties for which each round was opened.
    pub(super) sets: Vec<BTreeSet<Party>>,
    /// Every party's state before the first round, and after each that was opened, in steps.
    pub(super) states: Vec<Vec<Vec<i128>>>,
    /// The rows that each party's owner is told.
    rows: BTreeMap<Party, Vec<f64>>,
    /// Two nodes opened the next round for two sets.
    twice: bool,
}

impl Simulation<'_> {
    /// Every node's estimates are what follows from x̃ of all and from the messages that each
    /// lacked, to the bit; a party that ended early keeps those of the rounds that it had.
    pub(super) fn check_estimates(&self) -> Vec<Violation> {
        if self.plan.reads_circles() {
            return self.check_circles();
        }
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
        let revealed = wrong.map(|(party, _)| {
            let text = format!("party {party}'s estimates do not follow from what was contributed");
            Violation::new("estimate", text)
        });
        revealed.collect()
    }

    /// A node tells something. The set of a round of circles is what a gate's verdict is elsewhere.
    pub(super) fn reported(&mut self, party: Party, event: Event) {
        if let Event::Closed { round, set } = &event {
            let verdict = GateVerdict {
                publish: Some(set.iter().copied().collect()),
                reason: String::new(),
            };
            self.checks_of(*round).verdict(party, &verdict);
        }
        self.violations
            .extend(accused::check(self.liar.or(self.conditions.replays), party, &event).err());
        self.nodes[party].complete |= event == Event::Complete;
        self.events.push((self.now, party, event));
    }

    /// Sums over circles: every node's rows are what follows from what all contributed, and from
    /// whom it says that each round was opened for, to the bit; and two nodes that went on from a
    /// round did so with one set.
    fn check_circles(&self) -> Vec<Violation> {
        let opened = self.opened_circles();
        let mut violations = vec![];
        if opened.twice {
            let round = opened.sets.len() + 1;
            let text = format!("round {round} was opened for two sets");
            violations.push(Violation::new("circles", text));
        }
        for (party, of) in self.ended_circles() {
            let length = of.rounds as usize * self.plan.draft().dimension();
            let expected = opened
                .rows
                .get(&party)
                .map_or(&[][..], |rows| &rows[..length.min(rows.len())]);
            if of.estimates != expected {
                let text = format!("party {party}'s sums do not follow from what was contributed");
                violations.push(Violation::new("circles", text));
            }
        }
        violations
    }

    fn ended_circles(&self) -> Vec<(Party, &GossipOutcome)> {
        let ended = self.nodes.iter().enumerate();
        let ended = ended.filter_map(|(party, node)| Some((party, &node.outcome.as_ref()?.1)));
        ended
            .filter_map(|(party, outcome)| Some((party, outcome.gossip.as_deref()?)))
            .collect()
    }

    /// Returns the rounds of circles by the sets that nodes say they opened.
    pub(super) fn opened_circles(&self) -> OpenedCircles {
        let parties = self.plan.parties();
        let mut opened = OpenedCircles {
            sets: vec![],
            states: vec![vec![vec![0; self.plan.draft().dimension()]; parties]],
            rows: BTreeMap::new(),
            twice: false,
        };
        let ended = self.ended_circles();
        for round in 1..=self.plan.rounds() {
            let went_on = ended.iter().filter(|(_, of)| of.rounds >= round);
            let sets: BTreeSet<BTreeSet<Party>> = went_on
                .map(|(_, of)| {
                    let there = |party: &Party| of.missed.get(party).is_none_or(|it| round < it.first);
                    (0..parties).filter(there).collect()
                })
                .collect();
            match Vec::from_iter(sets).as_slice() {
                [] => break,
                [set] => self.open_circles(round, set, &mut opened),
                _ => {
                    opened.twice = true;
                    break;
                }
            }
        }
        opened
    }

    /// Returns a party's contribution to a round; `None` if the party made none.
    fn contributed(&self, round: u32, party: Party) -> Option<Vec<i128>> {
        let value = match round {
            1 => self.noised.get(party),
            _ => self.trainees.contributed.get(&(round, party)),
        };
        value.map(|value| value.steps().collect())
    }

    /// N·z + r, coordinate by coordinate: what `author` seals in a round for the circle of
    /// `reader`, where `before` is its state. `None` if it did not come to that.
    pub(super) fn vector_of(
        &self,
        round: u32,
        (author, reader): (Party, Party),
        before: &[i128],
    ) -> Option<Vec<i128>> {
        let edges = self.plan.active_edges(round);
        let weight = i128::from(RoundWeights::of(&edges).entry(reader, author));
        let contributed = self.contributed(round, author)?;
        let dimension = self.plan.draft().dimension();
        let noise = match author == reader {
            true => vec![0; dimension],
            false => {
                let place = edges.neighbours(author).iter().position(|of| *of == reader)?;
                contributed.get(dimension * (1 + place)..)?.to_vec()
            }
        };
        let message = before.iter().zip(&contributed).map(|(state, own)| state + own);
        let terms = message.zip(noise).map(|(z, r)| weight * z + r);
        Some(terms.collect())
    }

    /// One round, opened for a set: every member's state, and the row that its owner is told.
    fn open_circles(&self, round: u32, set: &BTreeSet<Party>, opened: &mut OpenedCircles) {
        let step = self.plan.lattice().step();
        let weights = RoundWeights::of(&self.plan.active_edges(round));
        let dimension = self.plan.draft().dimension();
        let before = opened.states[opened.sets.len()].clone();
        let mut after = before.clone();
        for &reader in set {
            let row = weights.row(reader).iter().filter(|(of, _)| set.contains(of));
            let row: Vec<(Party, u32)> = row.copied().collect();
            let part: u32 = row.iter().map(|(_, weight)| weight).sum();
            let part = f64::from(part) / UNIT as f64;
            let terms = row
                .iter()
                .map(|&(author, _)| self.vector_of(round, (author, reader), &before[author]));
            // Whatever is opened was contributed.
            let terms: Option<Vec<Vec<i128>>> = terms.collect();
            let revealed = opened.rows.entry(reader).or_default();
            for at in 0..dimension {
                let sum = terms
                    .as_ref()
                    .map(|terms| terms.iter().map(|term| term[at]).sum());
                let sum: i128 = sum.unwrap_or(i128::MAX / 4);
                let state = (sum + UNIT / 2).div_euclid(UNIT);
                let mean = step * (state as f64 / part - before[reader][at] as f64);
                let last = revealed
                    .len()
                    .checked_sub(dimension)
                    .map_or(0.0, |place| revealed[place]);
                revealed.push(mean + last);
                after[reader][at] = state;
            }
        }
        opened.states.push(after);
        opened.sets.push(set.clone());
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

    /// z of a party in a round, from its state before; `None` where it never came to that.
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
