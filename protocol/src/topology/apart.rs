//! Schedules in which no pair meets twice, in either direction, before every pair has met that can:
//! what a run tells hangs on how many different parties each one exchanges with.
//!
//! First every pair of neighbours gets a direction, at random, so that as many of a party's pairs
//! lead away from it as lead to it (Euler's trails); where everybody has the same odd number of
//! neighbours, a pairing of the parties is put aside before. Then each round takes what it can of
//! these directed pairs, as a matching of senders with receivers. What is left of them is regular
//! if the graph is, so that the next round is a permutation again (Petersen, König): with d
//! neighbours each, d/2 rounds. Nothing is drawn and then mended, so it always ends, and the rounds
//! of a schedule are the first ones of a longer one.

use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::public_draw::PublicDraw;
use crate::topology::schedule::{Matching, Schedule};

impl Schedule {
    /// Draws `rounds` rounds in which each party sends to one of its neighbours in `graph`, and no
    /// pair meets twice, whoever of the two sends, as long as there are pairs that did not meet.
    ///
    /// - Where everybody has the same number d of neighbours, every round is a permutation; no
    ///   pair meets twice in the first d/2 of them, rounded down, and all have met in the first
    ///   d/2, rounded up. (If d is odd and the graph has no perfect pairing, or a random walk does
    ///   not find it, a few pairs may meet twice before that.)
    /// - Elsewhere as many receive as can (a greatest matching). Where the directions of pairs do
    ///   not allow that, two may send to each other, or who has met before meets again.
    /// - The rounds are drawn in order: a schedule is the beginning of that for one more round.
    ///
    /// `None` if some party has no neighbour. A round takes at most n searches through the graph, n
    /// the parties, and memory in proportion to its pairs.
    pub fn apart(graph: &Graph, rounds: usize, seed: u64) -> Option<Self> {
        let mut apart = Apart::new(graph, seed)?;
        let out = (0..rounds).map(|_| apart.round()).collect();
        Some(Schedule::from_out(out))
    }
}

/// The rounds of a schedule in which no pair meets twice, without an end.
pub(super) struct Apart<'a> {
    graph: &'a Graph,
    /// The number of a party's meetings with each of its neighbours, in their order.
    met: Vec<Vec<u8>>,
    /// Whether the pair leads from a party to each of its neighbours, in their order.
    away: Vec<Vec<bool>>,
    draw: PublicDraw,
}

impl<'a> Apart<'a> {
    /// Before the first round. `None` if some party has no neighbour.
    pub(super) fn new(graph: &'a Graph, seed: u64) -> Option<Self> {
        if graph.least_degree() == 0 {
            return None;
        }
        let mut draw = PublicDraw::new("undertone/schedule/2", seed);
        let degree = graph.least_degree();
        let regular = (0..graph.parties()).all(|party| graph.neighbours(party).len() == degree);
        let pairing = if regular && degree % 2 == 1 {
            pairing(graph, &mut draw)
        } else {
            vec![None; graph.parties()]
        };
        let away = Trails::new(graph, &pairing, &mut draw).directions(&mut draw);
        let met = away.iter().map(|list| vec![0; list.len()]).collect();
        Some(Apart {
            graph,
            met,
            away,
            draw,
        })
    }

    /// The next round: for each party the one that it sends to.
    pub(super) fn round(&mut self) -> Vec<Vec<Party>> {
        let parties = self.graph.parties();
        let mut senders: Vec<Party> = (0..parties).collect();
        self.draw.shuffle(&mut senders);
        let mut matching = Matching::new(parties);
        let mut open = vec![Vec::new(); parties];
        let mut matched = vec![None; parties];
        for choice in [Choice::Directed, Choice::Apart, Choice::Again] {
            for (party, list) in open.iter_mut().enumerate() {
                list.extend(self.choose(party, choice));
            }
            matching.extend(&open, &senders);
            matched = matching.receivers(parties);
            senders.retain(|&sender| matched[sender].is_none());
            if senders.is_empty() {
                break;
            }
        }
        (0..parties)
            .map(|party| {
                // Unmatched only where the graph is not regular: then its receiver gets one more.
                let to = matched[party].unwrap_or(open[party][0]);
                self.meet(party, to);
                self.meet(to, party);
                vec![to]
            })
            .collect()
    }

    /// The neighbours that are of this choice, at random, those met least often first.
    fn choose(&mut self, party: Party, choice: Choice) -> Vec<Party> {
        let (met, away) = (&self.met[party], &self.away[party]);
        let of_choice = |&index: &usize| match choice {
            Choice::Directed => met[index] == 0 && away[index],
            Choice::Apart => met[index] == 0 && !away[index],
            Choice::Again => met[index] > 0,
        };
        let mut chosen: Vec<usize> = (0..met.len()).filter(of_choice).collect();
        self.draw.shuffle(&mut chosen);
        chosen.sort_by_key(|&index| met[index]);
        let neighbours = self.graph.neighbours(party);
        chosen.into_iter().map(|index| neighbours[index]).collect()
    }

    fn meet(&mut self, party: Party, other: Party) {
        if let Ok(index) = self.graph.neighbours(party).binary_search(&other) {
            let met = &mut self.met[party][index];
            *met = met.saturating_add(1);
        }
    }
}

/// The receivers that a party may choose from: each choice once those before it did not give
/// everybody a receiver.
#[derive(Clone, Copy)]
enum Choice {
    /// A receiver that the sender has not met, where the pair leads to it.
    Directed,
    /// A receiver that the sender has not met, otherwise.
    Apart,
    /// A receiver that the sender has met.
    Again,
}

/// As many disjoint pairs of neighbours as a random walk finds, for each party its partner. Who has
/// none takes a neighbour from its partner, which goes on in the same way.
fn pairing(graph: &Graph, draw: &mut PublicDraw) -> Vec<Option<Party>> {
    let parties = graph.parties();
    let mut partner: Vec<Option<Party>> = vec![None; parties];
    let mut order: Vec<Party> = (0..parties).collect();
    draw.shuffle(&mut order);
    // The last two that are alone find each other in about as many steps as there are parties.
    let mut steps = 256 * parties;
    for first in order {
        let mut alone = Some(first).filter(|&party| partner[party].is_none());
        while let Some(party) = alone.filter(|_| steps > 0) {
            steps -= 1;
            let neighbours = graph.neighbours(party);
            let other = neighbours[draw.below(neighbours.len())];
            alone = partner[other].replace(party);
            partner[party] = Some(other);
            if let Some(left) = alone {
                partner[left] = None;
            }
        }
    }
    partner
}

/// Trails over the pairs of a graph that have no direction yet. A trail goes on until it is stuck,
/// which is where it began, or at a party with an odd number of pairs.
struct Trails<'a> {
    graph: &'a Graph,
    /// Places in a party's neighbours, in the order in which trails leave it.
    ahead: Vec<Vec<usize>>,
    unreachable: Vec<Vec<bool>>,
    away: Vec<Vec<bool>>,
}

impl<'a> Trails<'a> {
    /// Over all pairs but those of a pairing.
    fn new(graph: &'a Graph, pairing: &[Option<Party>], draw: &mut PublicDraw) -> Self {
        let lists = || (0..graph.parties()).map(|party| graph.neighbours(party));
        let shuffled = |list: &[Party]| {
            let mut places: Vec<usize> = (0..list.len()).collect();
            draw.shuffle(&mut places);
            places
        };
        let aside = |(list, &partner): (&[Party], &Option<Party>)| {
            list.iter().map(|&other| partner == Some(other)).collect()
        };
        Trails {
            graph,
            ahead: lists().map(shuffled).collect(),
            unreachable: lists().zip(pairing).map(aside).collect(),
            away: lists().map(|list| vec![false; list.len()]).collect(),
        }
    }

    /// For each party, whether the pair leads away from it to each of its neighbours, in their
    /// order. As many lead away as lead to it, or one more or fewer; of a pairing none.
    fn directions(mut self, draw: &mut PublicDraw) -> Vec<Vec<bool>> {
        let parties = self.graph.parties();
        let mut order: Vec<Party> = (0..parties).collect();
        draw.shuffle(&mut order);
        let pairs = |unreachable: &[bool]| unreachable.iter().filter(|&&unreachable| !unreachable).count();
        let odd: Vec<bool> = self
            .unreachable
            .iter()
            .map(|unreachable| pairs(unreachable) % 2 == 1)
            .collect();
        for &party in order.iter().filter(|&&party| odd[party]) {
            self.follow(party);
        }
        for &party in &order {
            while !self.ahead[party].is_empty() {
                self.follow(party);
            }
        }
        self.away
    }

    fn follow(&mut self, first: Party) {
        let mut party = first;
        while let Some(place) = self.ahead[party].pop() {
            if std::mem::replace(&mut self.unreachable[party][place], true) {
                continue;
            }
            self.away[party][place] = true;
            let next = self.graph.neighbours(party)[place];
            if let Ok(back) = self.graph.neighbours(next).binary_search(&party) {
                self.unreachable[next][back] = true;
            }
            party = next;
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod withstands;
