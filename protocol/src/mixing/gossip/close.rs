//! The parties whose sealed vectors of a round are added up. From the items that a set of parties
//! signed, all find the largest part in which nobody lacks a neighbour's vector.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The statements of a party's item of a round. All names are neighbours in that round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldVectors {
    /// The neighbours from which a sealed vector of the round is here.
    pub got: BTreeSet<Party>,
    /// The neighbours whose good signed answers to the own vector are here: these have it.
    pub answered: BTreeSet<Party>,
}

/// The rules for closing a round, beside the items.
#[derive(Clone, Copy, Debug)]
pub struct Closing<'a> {
    /// The edges that are active in the round.
    pub edges: &'a Graph,
    /// The set of the round before; in round 1 that of START.
    pub before: &'a BTreeSet<Party>,
    /// Smaller sets are none: `min_parties`.
    pub least: usize,
    /// The largest number of the plan's members that may be missing from the set, for whatever
    /// reason.
    pub dropouts: usize,
}

impl Closing<'_> {
    /// The set of the round by these items alone, by author. In this order: who was in the set of
    /// the round before; without those, all at once, who deny a vector of a member that they have
    /// answered for; then, while two neighbours lack a vector either way, without whoever is in
    /// most of these pairs, of several the last in the plan. `None` if too few are left.
    ///
    /// The third rule does not know who is at fault, and may take out somebody honest. Who vanishes
    /// costs nobody else its place as long as vectors come in time: before its deadline a party
    /// signs its item only once every vector is here and every reader has answered, but for those
    /// that it finds gone. So whoever signs and vanishes then owes nothing, and whose item does not
    /// come is in no set. Two are out for one only where a party still owes a vector at its
    /// deadline (a link is broken, or slower than the plan's), signs, is paired with one that is
    /// later in the plan, and vanishes after that. No other words in an item would help: that one
    /// lacks a vector which the other says it sent reads alike whether the sender, the reader or
    /// the link is at fault, and where the reader has signed an answer the second rule decides. It
    /// costs a departure, or the stream, and tells nothing: the set is one for all, whoever is in.
    pub fn close(&self, items: &BTreeMap<Party, HeldVectors>) -> Option<BTreeSet<Party>> {
        let in_plan = |party: &Party| *party < self.edges.parties();
        let mut set: BTreeSet<Party> = items.keys().copied().filter(in_plan).collect();
        set.retain(|party| self.before.contains(party));
        let deniers: Vec<Party> = set
            .iter()
            .copied()
            .filter(|&a| self.denies(a, &set, items))
            .collect();
        deniers.iter().for_each(|denier| {
            set.remove(denier);
        });
        while let Some(worst) = self.most_lacking(&set, items) {
            set.remove(&worst);
        }
        let out = self.edges.parties() - set.len();
        (set.len() >= self.least && out <= self.dropouts).then_some(set)
    }

    /// The neighbours of `party` in the round that are in the set.
    fn neighbours<'a>(&'a self, party: Party, set: &'a BTreeSet<Party>) -> impl Iterator<Item = Party> + 'a {
        let neighbours = self.edges.neighbours(party).iter().copied();
        neighbours.filter(|neighbour| set.contains(neighbour))
    }

    /// Whether an item of the set holds `a`'s answer to a vector that `a` says it lacks.
    fn denies(&self, a: Party, set: &BTreeSet<Party>, items: &BTreeMap<Party, HeldVectors>) -> bool {
        self.neighbours(a, set)
            .any(|b| items[&b].answered.contains(&a) && !items[&a].got.contains(&b))
    }

    /// Returns the party in most pairs of neighbours in the set that lack a vector either way;
    /// `None` if there is no such pair.
    fn most_lacking(&self, set: &BTreeSet<Party>, items: &BTreeMap<Party, HeldVectors>) -> Option<Party> {
        let lacks = |a: Party, b: Party| !items[&a].got.contains(&b) || !items[&b].got.contains(&a);
        let pairs = |a: Party| self.neighbours(a, set).filter(|&b| lacks(a, b)).count();
        let counts = set.iter().map(|&party| (pairs(party), party));
        counts
            .filter(|(count, _)| *count > 0)
            .max()
            .map(|(_, party)| party)
    }
}

#[cfg(test)]
mod tests;
