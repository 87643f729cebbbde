//! Every coalition of a plan of gossip averaging: what the worst of them learns, at unit noise and
//! unit sensitivity of each release.
//!
//! The messages that a coalition reads in round t are a few weighted sums of that round's messages.
//! A message of round t is the weighted sum of those of round t − 1 and the values and noise that
//! enter new. So the rows of a coalition go back round by round through the weights, at a product
//! with a sparse matrix each; one factorisation then serves all parties outside of it. The
//! protocol's own averaging gives the same ([`GossipRun`]): a worst case is computed again so.

use std::collections::BTreeSet;
use std::sync::Arc;

use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::plan::computation::stream::Protect;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::class::coalitions::{all, count};
use crate::execution::gossip::{GossipRun, GossipView};
use crate::losses::contributions::ContributionLoss;
use crate::losses::row_space::{RowSpace, independent};
use crate::parallel::in_parallel;

/// Coalitions, or pairs of a coalition and a party, that are computed at most.
pub const MOST_COALITIONS: usize = 20_000;

/// Releases times rows a round that are factorised at most.
pub const MOST_ROWS_SEEN: usize = 1 << 13;

/// Parties up to which executions with a departure are in the class.
pub const MOST_DEPARTING: usize = 16;

/// Multiplications of a pass above which a class counts as too large to compute: our choice, a few
/// minutes of one core.
const MOST_WORK: f64 = 1e12;

/// The squared loss that counts where so much is protected of a party.
pub fn protected_loss(protect: Protect, loss: &ContributionLoss) -> f64 {
    match protect {
        Protect::All => loss.upper,
        Protect::One => loss.one,
    }
}

/// The squared loss of open messages, and the most that any coalition learns in any case: that of
/// as many releases as are protected together, each seen with its own noise.
pub fn open_loss(protect: Protect, releases: u64) -> f64 {
    match protect {
        Protect::All => releases as f64,
        Protect::One => 1.0,
    }
}

/// The party that departs, and after how many rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepartsAfter {
    /// The party that departs.
    pub party: Party,
    /// The number of rounds in which it took part, the first ones.
    pub rounds: usize,
}

/// Something that a coalition reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenRow {
    /// The round, from 0.
    pub(crate) round: usize,
    /// The author of the message; or, for a sum, the party whose state after the round it is.
    pub(crate) party: Party,
    /// How much of each unit of noise that the coalition does not know is in it, by round and
    /// party.
    pub(crate) over_noises: Vec<f64>,
}

/// A squared loss, and who learns so much of whom.
type Learned = (f64, Option<(Vec<Party>, Party)>);

/// The largest loss among those computed.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstGossip {
    /// The squared loss, at unit noise and sensitivity, never below the true one.
    pub square: f64,
    /// The coalition that learns it, and the party that it is of; `None` if there is no case at
    /// all.
    pub case: Option<(Vec<Party>, Party)>,
    /// How many coalitions, or executions with one, were computed.
    pub cases: usize,
    /// Whether these were all there are.
    pub exhaustive: bool,
}

impl WorstGossip {
    fn of(found: Vec<Learned>, exhaustive: bool) -> Self {
        let cases = found.len();
        // The first of several that are equal, on any number of cores.
        let worst = found
            .into_iter()
            .reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
        let (square, case) = worst.unwrap_or((0.0, None));
        WorstGossip {
            square,
            case,
            cases,
            exhaustive,
        }
    }

    /// The larger of two.
    pub fn max(self, other: Self) -> Self {
        let (cases, exhaustive) = (self.cases + other.cases, self.exhaustive && other.exhaustive);
        let worst = if other.square > self.square { other } else { self };
        WorstGossip {
            cases,
            exhaustive,
            ..worst
        }
    }
}

/// A plan of gossip averaging as its coalitions see it: a release in every round.
#[derive(Debug, Clone)]
pub struct GossipClass {
    edges: Vec<Arc<Graph>>,
    weights: Vec<Arc<RoundWeights>>,
}

impl GossipClass {
    /// From the active edges of each round, at least one. Rounds that share them share weights.
    pub fn new(edges: &[Arc<Graph>]) -> Self {
        let mut weights: Vec<Arc<RoundWeights>> = Vec::with_capacity(edges.len());
        for (round, graph) in edges.iter().enumerate() {
            let before = round
                .checked_sub(1)
                .filter(|&before| Arc::ptr_eq(&edges[before], graph));
            weights.push(match before {
                Some(before) => weights[before].clone(),
                None => Arc::new(RoundWeights::of(graph)),
            });
        }
        GossipClass {
            edges: edges.to_vec(),
            weights,
        }
    }

    /// From the rounds of a schedule whose edges are used both ways.
    ///
    /// # Panics
    /// If a round of it joins somebody with itself, or with nobody.
    pub fn of_schedule(schedule: &Schedule) -> Self {
        let mut edges: Vec<Arc<Graph>> = Vec::with_capacity(schedule.rounds());
        for round in 1..=schedule.rounds() as u32 {
            let pairs = schedule.pairs(round);
            let same = edges.last().filter(|before| before.edges() == pairs).cloned();
            let graph = || Graph::from_edges(schedule.parties(), &pairs);
            edges.push(same.unwrap_or_else(|| Arc::new(graph().expect("edges join a schedule's parties"))));
        }
        GossipClass::new(&edges)
    }

    /// Its first rounds alone, so many.
    pub(crate) fn first(mut self, rounds: usize) -> Self {
        self.edges.truncate(rounds);
        self.weights.truncate(rounds);
        self
    }

    /// The number of parties n.
    pub fn parties(&self) -> usize {
        self.edges.first().map_or(0, |graph| graph.parties())
    }

    /// The number of releases E, one a round.
    pub fn releases(&self) -> usize {
        self.edges.len()
    }

    /// Whether two parties are neighbours in some round.
    fn ever_joined(&self, one: Party, other: Party) -> bool {
        self.edges.iter().any(|graph| graph.joins(one, other))
    }

    /// Everybody's neighbours in any round.
    fn neighbours(&self) -> Vec<BTreeSet<Party>> {
        let mut all = vec![BTreeSet::new(); self.parties()];
        for (round, graph) in self.edges.iter().enumerate() {
            if round > 0 && Arc::ptr_eq(&self.edges[round - 1], graph) {
                continue;
            }
            for &(one, other) in graph.edges() {
                all[one].insert(other);
                all[other].insert(one);
            }
        }
        all
    }

    /// Returns a coalition's view of a round, as combinations of that round's messages. Each comes
    /// with the member whose sum it is, or with the author of the message.
    fn read(
        &self,
        round: usize,
        view: GossipView,
        coalition: &[Party],
        gone: Option<Party>,
    ) -> Vec<(Party, Vec<f64>)> {
        let there = |party: Party| gone != Some(party);
        let members = coalition.iter().copied().filter(|&member| there(member));
        match view {
            GossipView::Sum => members
                .map(|member| {
                    let mut row = vec![0.0; self.parties()];
                    let terms = self.weights[round].row(member).iter();
                    for &(party, weight) in terms.filter(|(party, _)| there(*party)) {
                        row[party] = part(weight);
                    }
                    (member, row)
                })
                .collect(),
            GossipView::Messages => {
                let read = members.flat_map(|member| self.edges[round].neighbours(member));
                let read: BTreeSet<Party> = read.copied().collect();
                let unknown = read
                    .into_iter()
                    .filter(|party| there(*party) && !coalition.contains(party));
                unknown
                    .map(|party| {
                        let mut row = vec![0.0; self.parties()];
                        row[party] = 1.0;
                        (party, row)
                    })
                    .collect()
            }
        }
    }

    /// Combinations of a round's states as combinations of the messages of the round before.
    fn back(&self, before: usize, row: &[f64], gone: Option<Party>) -> Vec<f64> {
        let entry = |party: Party| {
            if gone == Some(party) {
                return 0.0;
            }
            // Of who is gone nothing is in the row: nobody read it then.
            let terms = self.weights[before].row(party).iter();
            terms.map(|&(other, weight)| part(weight) * row[other]).sum()
        };
        (0..self.parties()).map(entry).collect()
    }

    /// All that a coalition reads, as independent rows over all noises that it does not know.
    pub(crate) fn rows(
        &self,
        view: GossipView,
        coalition: &[Party],
        gone: Option<DepartsAfter>,
    ) -> Vec<SeenRow> {
        let parties = self.parties();
        let gone_in = |round: usize| gone.filter(|gone| round >= gone.rounds).map(|gone| gone.party);
        let unknown = |mut row: Vec<f64>| {
            coalition.iter().for_each(|&member| row[member] = 0.0);
            row
        };
        let mut rows = Vec::new();
        for round in 0..self.releases() {
            let read = self.read(round, view, coalition, gone_in(round));
            let fresh: Vec<Vec<f64>> = read.iter().map(|(_, row)| unknown(row.clone())).collect();
            for place in independent(&fresh) {
                let mut whole = vec![0.0; parties * self.releases()];
                let (party, mut row) = read[place].clone();
                for earlier in (0..=round).rev() {
                    let columns = earlier * parties..(earlier + 1) * parties;
                    whole[columns].copy_from_slice(&unknown(row.clone()));
                    if earlier > 0 {
                        row = self.back(earlier - 1, &row, gone_in(earlier - 1));
                    }
                }
                rows.push(SeenRow {
                    round,
                    party,
                    over_noises: whole,
                });
            }
        }
        rows
    }

    /// Returns a coalition's losses for each of `victims`, in their order. Where its view is too
    /// nearly dependent to tell, the loss is the largest that anybody ever has.
    pub fn losses(
        &self,
        view: GossipView,
        coalition: &[Party],
        gone: Option<DepartsAfter>,
        victims: &[Party],
    ) -> Vec<ContributionLoss> {
        let (parties, releases) = (self.parties(), self.releases());
        let rows = self.rows(view, coalition, gone).into_iter();
        let rows: Vec<Vec<f64>> = rows.map(|row| row.over_noises).collect();
        let Ok(space) = RowSpace::of(&rows) else {
            let most = ContributionLoss {
                lower: 0.0,
                upper: releases as f64,
                one: 1.0,
            };
            return vec![most; victims.len()];
        };
        let of_victim = |&victim: &Party| {
            let own: Vec<(usize, f64)> = (0..releases)
                .map(|round| (round * parties + victim, 1.0))
                .collect();
            space.loss(&own)
        };
        victims.iter().map(of_victim).collect()
    }

    /// The victim, of these, that loses most to a coalition.
    fn worst_of(
        &self,
        view: GossipView,
        coalition: &[Party],
        victims: &[Party],
        protect: Protect,
    ) -> Learned {
        let losses = self.losses(view, coalition, None, victims);
        let mut worst = (0.0, None);
        for (&victim, loss) in victims.iter().zip(&losses) {
            let square = protected_loss(protect, loss);
            if worst.1.is_none() || square > worst.0 {
                worst = (square, Some((coalition.to_vec(), victim)));
            }
        }
        worst
    }

    /// With secure sums: the worst of all coalitions of `size`, or, where these are too many, of
    /// those that are likely to be (each party's readers, and two of which one reads it and the
    /// other does not).
    pub fn secure(&self, size: usize, protect: Protect) -> WorstGossip {
        let parties = self.parties();
        let few = count(parties, size).is_some_and(|all| all <= MOST_COALITIONS && self.computed(all, size));
        let (cases, exhaustive) = if few {
            (all(parties, size), true)
        } else {
            (self.candidates(size), false)
        };
        let at = |place: usize| {
            let coalition = &cases[place];
            let victims: Vec<Party> = (0..parties).filter(|party| !coalition.contains(party)).collect();
            Some(self.worst_of(GossipView::Sum, coalition, &victims, protect))
        };
        WorstGossip::of(in_parallel(cases.len(), at), exhaustive)
    }

    /// Whether so many coalitions of `size` are factorised in reasonable time.
    fn computed(&self, coalitions: usize, size: usize) -> bool {
        let rows = self.releases().saturating_mul(size);
        let columns = (self.releases() * self.parties()) as f64;
        let work = 2.0 * coalitions as f64 * (rows as f64).powi(2) * columns;
        rows <= MOST_ROWS_SEEN && work <= MOST_WORK
    }

    /// Coalitions of `size` that are likely to learn most, as many as are computed.
    fn candidates(&self, size: usize) -> Vec<Vec<Party>> {
        let neighbours = self.neighbours();
        let parties = self.parties();
        let fill = |victim: Party, first: &[Party]| {
            let mut coalition = first.to_vec();
            let others = neighbours[victim].iter().copied().chain(0..parties);
            for party in others.filter(|&party| party != victim) {
                if coalition.len() < size && !coalition.contains(&party) {
                    coalition.push(party);
                }
            }
            coalition.sort_unstable();
            coalition
        };
        let of_victim = |victim: Party| {
            let mut list = vec![fill(victim, &[])];
            for &reader in &neighbours[victim] {
                let others = neighbours[reader].iter().flat_map(|party| &neighbours[*party]);
                let others: BTreeSet<Party> = others.copied().collect();
                let blind = others.into_iter().filter(|other| {
                    *other != victim && *other != reader && !neighbours[victim].contains(other)
                });
                list.extend(
                    blind
                        .take_while(|_| size >= 2)
                        .map(|other| fill(victim, &[reader, other])),
                );
            }
            list
        };
        let lists: Vec<Vec<Vec<Party>>> = (0..parties).map(of_victim).collect();
        // Some of every party's, as many as can be.
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|place| lists.iter().filter_map(move |list| list.get(place)));
        let mut chosen: BTreeSet<Vec<Party>> = BTreeSet::new();
        for coalition in in_turn {
            if chosen.len() >= MOST_COALITIONS || !self.computed(chosen.len() + 1, size) {
                break;
            }
            chosen.insert(coalition.clone());
        }
        chosen.into_iter().collect()
    }

    /// With secure sums: what coalitions of `size` learn of a party that departs after some round,
    /// whose later noise is missing. None with more parties than [`MOST_DEPARTING`].
    pub fn departing(&self, size: usize, protect: Protect) -> Option<WorstGossip> {
        let (parties, releases) = (self.parties(), self.releases());
        if parties > MOST_DEPARTING {
            return None;
        }
        let coalitions = all(parties, size);
        let executions = coalitions.len() * parties * releases;
        if !self.computed(executions, size) {
            return None;
        }
        let at = |place: usize| {
            let coalition = &coalitions[place];
            let victims = (0..parties).filter(|party| !coalition.contains(party));
            let mut worst = (0.0, None);
            for gone in
                victims.flat_map(|party| (1..releases).map(move |rounds| DepartsAfter { party, rounds }))
            {
                let losses = self.losses(GossipView::Sum, coalition, Some(gone), &[gone.party]);
                let square = losses.first().map_or(0.0, |loss| protected_loss(protect, loss));
                if square > worst.0 {
                    worst = (square, Some((coalition.clone(), gone.party)));
                }
            }
            Some(worst)
        };
        let worst = WorstGossip::of(in_parallel(coalitions.len(), at), true);
        Some(WorstGossip {
            cases: executions,
            ..worst
        })
    }

    /// With open messages: the worst of all coalitions of `size` against parties that are
    /// neighbours of none of its members in any round. None where these are too many; no case,
    /// where there is none.
    pub fn apart(&self, size: usize, protect: Protect) -> Option<WorstGossip> {
        let parties = self.parties();
        let systems = count(parties, size)?.checked_mul(parties)?;
        if systems > MOST_COALITIONS {
            return None;
        }
        let cases: Vec<(Vec<Party>, Vec<Party>)> = all(parties, size)
            .into_iter()
            .map(|coalition| {
                let strange = |victim: &Party| {
                    coalition
                        .iter()
                        .all(|&member| member != *victim && !self.ever_joined(member, *victim))
                };
                let victims = (0..parties).filter(strange).collect();
                (coalition, victims)
            })
            .filter(|(_, victims): &(_, Vec<Party>)| !victims.is_empty())
            .collect();
        // Whoever is read is a neighbour of a member.
        let most = cases.iter().map(|(coalition, _)| {
            let degree = |&member: &Party| {
                self.edges
                    .iter()
                    .map(|graph| graph.neighbours(member).len())
                    .max()
            };
            coalition.iter().filter_map(degree).sum::<usize>().min(parties)
        });
        let rows = most.max().unwrap_or(0);
        if !self.computed(cases.len(), rows) {
            return None;
        }
        let at = |place: usize| {
            let (coalition, victims) = &cases[place];
            Some(self.worst_of(GossipView::Messages, coalition, victims, protect))
        };
        Some(WorstGossip::of(in_parallel(cases.len(), at), true))
    }

    /// Returns the loss of `victim` to `coalition`, by the protocol's own averaging: for checking a
    /// worst case before it is claimed. The victim departs after `rounds` if that is given.
    ///
    /// None if it is too nearly dependent, or the victim is in the coalition.
    pub fn by_the_machine(
        &self,
        view: GossipView,
        coalition: &[Party],
        victim: Party,
        rounds: Option<usize>,
    ) -> Option<ContributionLoss> {
        let (parties, releases) = (self.parties(), self.releases());
        let there = |round: usize, party: Party| party != victim || rounds.is_none_or(|last| round < last);
        let run = GossipRun {
            parties,
            edges: self.edges.clone(),
            contributions: releases,
            std: vec![1.0; releases],
            view,
            corrupted: coalition.iter().copied().collect(),
            online: (0..releases)
                .map(|round| (0..parties).map(|party| there(round, party)).collect())
                .collect(),
            published: BTreeSet::new(),
        };
        run.outcome().ok()?.losses.get(&victim).copied()
    }
}

/// A weight as a part of a whole.
fn part(weight: u32) -> f64 {
    f64::from(weight) / f64::from(WHOLE)
}

#[cfg(test)]
mod tests;
