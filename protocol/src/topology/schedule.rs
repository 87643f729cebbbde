//! Schedules: the receivers of each sender in each round (accountant/docs/connectivity.md). Derived
//! from public numbers: everybody can draw it again.

use std::ops::RangeBounds;

use crate::topology::graph::Graph;
use crate::topology::public_draw::PublicDraw;

/// Out-neighbours: `out[r - 1][i]` are the parties to whom party i sends a share in round r, from 1
/// to the number of rounds, ascending: as many as the fan-out says with INCA ([`Schedule::draw`]),
/// none or one with PPSC
/// ([`MultiGossip::schedule`](crate::topology::multi_gossip::MultiGossip::schedule)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    out: Vec<Vec<Vec<usize>>>,
}

impl Schedule {
    /// Draws `rounds` rounds with `fanout` out-neighbours each among the neighbours in `graph`.
    ///
    /// - No party sends to a neighbour again before it sent to all of them.
    /// - Where the graph is regular every round consists of `fanout` permutations, so that
    ///   everybody also receives `fanout` shares; elsewhere as many receive as can (a greatest
    ///   matching), the rest is left to chance.
    /// - The rounds are drawn in order: a schedule is the beginning of that for one more round.
    ///
    /// `None` if some party has fewer than `fanout` neighbours, or `fanout` is 0.
    pub fn draw(graph: &Graph, fanout: usize, rounds: usize, seed: u64) -> Option<Self> {
        if fanout == 0 || graph.least_degree() < fanout {
            return None;
        }
        let mut draw = PublicDraw::new("undertone/schedule/1", seed);
        let mut unused = Unused::new(graph);
        let out = (0..rounds).map(|_| unused.round(fanout, &mut draw)).collect();
        Some(Schedule { out })
    }

    /// The schedule with these out-neighbours; the caller has checked them (a plan compares them
    /// with the drawn ones).
    pub(crate) fn from_out(out: Vec<Vec<Vec<usize>>>) -> Self {
        Schedule { out }
    }

    /// The schedule in which each edge of a round's graph is used both ways.
    pub fn both_ways<'a>(rounds: impl Iterator<Item = &'a Graph>) -> Self {
        let out = |graph: &Graph| {
            let parties = 0..graph.parties();
            parties.map(|party| graph.neighbours(party).to_vec()).collect()
        };
        Schedule {
            out: rounds.map(out).collect(),
        }
    }

    /// Returns the pairs that meet in `round`, from 1 to the last, as (smaller, larger), ascending.
    pub fn pairs(&self, round: u32) -> Vec<(usize, usize)> {
        let index = (round as usize).wrapping_sub(1);
        let senders = self.out.get(index).into_iter().flatten().enumerate();
        let pairs = senders.flat_map(|(from, to)| to.iter().map(move |&to| (from.min(to), from.max(to))));
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Whether it has as many rounds and parties as that, and such numbers of out-neighbours.
    pub(crate) fn has_shape(&self, rounds: usize, parties: usize, fanout: impl RangeBounds<usize>) -> bool {
        self.out.len() == rounds
            && self
                .out
                .iter()
                .all(|round| round.len() == parties && round.iter().all(|to| fanout.contains(&to.len())))
    }

    /// The number of all shares.
    pub fn shares(&self) -> usize {
        self.out.iter().flatten().map(Vec::len).sum()
    }

    /// The number of shares that a party sends in the whole run.
    pub fn hand_outs(&self, party: usize) -> usize {
        self.out
            .iter()
            .map(|round| round.get(party).map_or(0, Vec::len))
            .sum()
    }

    /// Returns the number of parties that it is for; 0 before it is drawn.
    pub fn parties(&self) -> usize {
        self.out.first().map_or(0, Vec::len)
    }

    /// The number of rounds T.
    pub fn rounds(&self) -> usize {
        self.out.len()
    }

    /// All rounds: `[round − 1][party]` → out-neighbours, ascending.
    pub fn out(&self) -> &[Vec<Vec<usize>>] {
        &self.out
    }

    /// Returns the parties to which `party` sends in `round`, from 1 to the last; empty outside of
    /// these.
    pub fn sends_to(&self, round: u32, party: usize) -> &[usize] {
        let index = (round as usize).wrapping_sub(1);
        self.out
            .get(index)
            .and_then(|parties| parties.get(party))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the parties that send to `party` in `round`, from 1 to the last, ascending; empty
    /// outside of these.
    pub fn receives_from(&self, round: u32, party: usize) -> Vec<usize> {
        let index = (round as usize).wrapping_sub(1);
        let Some(parties) = self.out.get(index) else {
            return Vec::new();
        };
        (0..parties.len())
            .filter(|&from| parties[from].contains(&party))
            .collect()
    }

    /// Returns the schedule without rounds.
    pub(crate) const fn none() -> Self {
        Schedule { out: Vec::new() }
    }

    /// [`Schedule::largest_in_degree`] and [`Schedule::most_at_once`] of any schedule that can be
    /// drawn: on a regular graph each round consists of `fanout` permutations; elsewhere a party
    /// may be due a share from each of its neighbours.
    pub fn bounds(graph: &Graph, fanout: usize, rounds: usize) -> (usize, usize) {
        let degrees = (0..graph.parties()).map(|party| graph.neighbours(party).len());
        let most = degrees.max().unwrap_or(0);
        let at_once = if most == graph.least_degree() {
            fanout
        } else {
            most
        };
        (at_once.saturating_mul(rounds), at_once)
    }

    /// Returns the graph of the parties, joined where a share is due either way.
    pub fn meetings(&self) -> Graph {
        let parties = self.out.first().map_or(0, Vec::len);
        let mut pairs = Vec::with_capacity(self.shares());
        for (from, receivers) in self.out.iter().flat_map(|round| round.iter().enumerate()) {
            pairs.extend(receivers.iter().map(|&to| (from.min(to), from.max(to))));
        }
        pairs.sort_unstable();
        pairs.dedup();
        Graph::from_edges(parties, &pairs).expect("nobody sends to itself, each pair is there once")
    }

    /// The largest number of shares that a party is due over all rounds.
    pub fn largest_in_degree(&self) -> usize {
        let mut due = vec![0usize; self.out.first().map_or(0, Vec::len)];
        for &to in self.out.iter().flatten().flatten() {
            due[to] += 1;
        }
        due.into_iter().max().unwrap_or(0)
    }

    /// The largest number of shares that one party is due in one round.
    pub fn most_at_once(&self) -> usize {
        let in_round = |round: &Vec<Vec<usize>>| {
            let mut due = vec![0usize; round.len()];
            round.iter().flatten().for_each(|&to| due[to] += 1);
            due.into_iter().max().unwrap_or(0)
        };
        self.out.iter().map(in_round).max().unwrap_or(0)
    }
}

/// `count` different parties of `parties` (all, if these are fewer), drawn evenly, in the order of
/// the draw.
pub fn draw_parties(parties: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parties).collect();
    PublicDraw::new("undertone/parties/1", seed).shuffle(&mut order);
    order.truncate(count);
    order
}

/// For each party the neighbours that it has not sent to since it last had sent to all of them.
struct Unused<'a> {
    graph: &'a Graph,
    unused: Vec<Vec<usize>>,
}

impl<'a> Unused<'a> {
    fn new(graph: &'a Graph) -> Self {
        let unused = (0..graph.parties())
            .map(|i| graph.neighbours(i).to_vec())
            .collect();
        Unused { graph, unused }
    }

    /// One round: `fanout` times one out-neighbour for everybody.
    fn round(&mut self, fanout: usize, draw: &mut PublicDraw) -> Vec<Vec<usize>> {
        let parties = self.unused.len();
        let mut out: Vec<Vec<usize>> = vec![Vec::with_capacity(fanout); parties];
        for _ in 0..fanout {
            let mut open: Vec<Vec<usize>> = (0..parties).map(|i| self.open(i, &out[i])).collect();
            open.iter_mut().for_each(|list| draw.shuffle(list));
            let mut order: Vec<usize> = (0..parties).collect();
            draw.shuffle(&mut order);
            let mut matching = Matching::new(parties);
            matching.extend(&open, &order);
            let matched = matching.receivers(parties);
            for party in 0..parties {
                // Unmatched only where the graph is not regular: then some unused neighbour, which
                // so gets one more share.
                let to = matched[party].unwrap_or(open[party][0]);
                out[party].push(to);
                self.unused[party].retain(|&neighbour| neighbour != to);
            }
        }
        out.iter_mut().for_each(|list| list.sort_unstable());
        out
    }

    /// The neighbours that a party may send to next. Never empty: it has at least `fanout`
    /// neighbours, fewer of which are taken.
    fn open(&mut self, party: usize, taken: &[usize]) -> Vec<usize> {
        if self.unused[party].is_empty() {
            self.unused[party] = self.graph.neighbours(party).to_vec();
        }
        let open = |unused: &[usize]| -> Vec<usize> {
            unused.iter().copied().filter(|j| !taken.contains(j)).collect()
        };
        open(&self.unused[party])
    }
}

/// A bipartite matching of senders with receivers by augmenting paths (Kuhn).
pub(super) struct Matching {
    sender_of: Vec<Option<usize>>,
    tried: Vec<bool>,
}

impl Matching {
    /// Has matched nobody yet.
    pub(super) fn new(receivers: usize) -> Self {
        Matching {
            sender_of: vec![None; receivers],
            tried: Vec::new(),
        }
    }

    /// Makes it a greatest matching, along the orders given: of senders that have none yet, and of
    /// the receivers that are open to each. Who is matched stays so, if maybe with another; all
    /// earlier pairs must be open still. A regular bipartite graph has a perfect matching (König).
    pub(super) fn extend(&mut self, open: &[Vec<usize>], senders: &[usize]) {
        for &sender in senders {
            self.tried = vec![false; self.sender_of.len()];
            self.place(open, sender);
        }
    }

    /// For each sender its receiver, if it got one.
    pub(super) fn receivers(&self, senders: usize) -> Vec<Option<usize>> {
        let mut matched = vec![None; senders];
        for (receiver, sender) in self.sender_of.iter().enumerate() {
            if let Some(sender) = *sender {
                matched[sender] = Some(receiver);
            }
        }
        matched
    }

    /// Finds a receiver for `sender`, moving earlier senders on if need be. An explicit stack:
    /// paths can be as long as there are parties, and there can be a thousand.
    fn place(&mut self, open: &[Vec<usize>], sender: usize) {
        // (sender, next candidate, the receiver that led here)
        let mut path: Vec<(usize, usize)> = vec![(sender, 0)];
        while let Some(&mut (current, ref mut next)) = path.last_mut() {
            let Some(&receiver) = open[current].get(*next) else {
                path.pop();
                continue;
            };
            *next += 1;
            if std::mem::replace(&mut self.tried[receiver], true) {
                continue;
            }
            match self.sender_of[receiver] {
                Some(earlier) => path.push((earlier, 0)),
                None => {
                    for &(sender, next) in &path {
                        self.sender_of[open[sender][next - 1]] = Some(sender);
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every party's out-neighbours in order of sending, cut into passes over all neighbours: no
    /// pass has a repetition.
    fn check_passes(graph: &Graph, schedule: &Schedule, fanout: usize) {
        for party in 0..graph.parties() {
            let degree = graph.neighbours(party).len();
            let mut counts = vec![0usize; graph.parties()];
            for round in 1..=schedule.rounds() as u32 {
                let to = schedule.sends_to(round, party);
                assert_eq!(to.len(), fanout);
                assert!(to.windows(2).all(|w| w[0] < w[1]), "ascending and distinct");
                assert!(to.iter().all(|&j| graph.joins(party, j)));
                to.iter().for_each(|&j| counts[j] += 1);
                let passes = round as usize * fanout / degree;
                let used = graph.neighbours(party).iter().map(|&j| counts[j]);
                // After s sends every neighbour was used ⌊s / degree⌋ times, or once more.
                assert!(
                    used.clone().all(|c| c == passes || c == passes + 1),
                    "party {party}, round {round}: {counts:?}"
                );
            }
        }
    }

    fn is_permutational(schedule: &Schedule, fanout: usize, parties: usize) -> bool {
        (1..=schedule.rounds() as u32)
            .all(|round| (0..parties).all(|party| schedule.receives_from(round, party).len() == fanout))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn regular_graphs_give_permutations(
            parties in 3usize..24,
            degree in 2usize..24,
            fanout in 1usize..6,
            rounds in 1usize..20,
            seed: u64,
        ) {
            let degree = degree.min(parties - 1);
            prop_assume!((parties * degree) % 2 == 0);
            let fanout = fanout.min(degree);
            let graph = Graph::random_regular(parties, degree, seed).unwrap();
            let schedule = Schedule::draw(&graph, fanout, rounds, seed).unwrap();
            check_passes(&graph, &schedule, fanout);
            prop_assert!(is_permutational(&schedule, fanout, parties));
            prop_assert_eq!(schedule.largest_in_degree(), fanout * rounds);
            prop_assert_eq!(Schedule::bounds(&graph, fanout, rounds), (fanout * rounds, fanout));
        }

        #[test]
        fn any_graph_gives_a_schedule(
            parties in 3usize..16,
            extra in proptest::collection::vec((0usize..16, 0usize..16), 0..30),
            rounds in 1usize..20,
            seed: u64,
        ) {
            let graph = Graph::tree_and(parties, extra);
            for fanout in 1..=graph.least_degree() {
                let schedule = Schedule::draw(&graph, fanout, rounds, seed).unwrap();
                check_passes(&graph, &schedule, fanout);
                let (in_degree, at_once) = Schedule::bounds(&graph, fanout, rounds);
                prop_assert!(schedule.largest_in_degree() <= in_degree && schedule.most_at_once() <= at_once);
            }
            prop_assert!(Schedule::draw(&graph, graph.least_degree() + 1, rounds, seed).is_none());
        }

        #[test]
        fn fewer_rounds_are_a_prefix(parties in 3usize..12, rounds in 1usize..12, seed: u64) {
            let graph = Graph::complete(parties);
            let long = Schedule::draw(&graph, 1, rounds + 1, seed).unwrap();
            let short = Schedule::draw(&graph, 1, rounds, seed).unwrap();
            prop_assert_eq!(short.out(), &long.out()[..rounds]);
        }
    }

    #[test]
    fn a_star_lets_its_centre_receive_from_all() {
        let graph = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)]).unwrap();
        let schedule = Schedule::draw(&graph, 1, 6, 3).unwrap();
        check_passes(&graph, &schedule, 1);
        assert_eq!(schedule.receives_from(1, 0), [1, 2, 3]);
        assert_eq!(schedule.largest_in_degree(), 18);
    }

    #[test]
    fn the_draw_is_pinned() {
        // Plans name a seed; every build must draw the same schedule from it.
        let schedule = Schedule::draw(&Graph::complete(5), 1, 3, 42).unwrap();
        let flat: Vec<Vec<usize>> = schedule
            .out()
            .iter()
            .map(|round| round.iter().flatten().copied().collect())
            .collect();
        assert_eq!(flat, PINNED);
        assert_ne!(Schedule::draw(&Graph::complete(5), 1, 3, 43).unwrap(), schedule);
    }
    const PINNED: [[usize; 5]; 3] = [[2, 4, 1, 0, 3], [3, 0, 4, 2, 1], [4, 2, 3, 1, 0]];

    #[test]
    fn rounds_outside_are_empty() {
        let schedule = Schedule::draw(&Graph::ring(3), 1, 2, 0).unwrap();
        assert!(
            schedule.sends_to(0, 0).is_empty()
                && schedule.sends_to(3, 0).is_empty()
                && schedule.sends_to(1, 9).is_empty()
        );
        assert!(schedule.receives_from(0, 0).is_empty());
        assert_eq!(Schedule::draw(&Graph::ring(3), 0, 2, 0), None);
    }

    #[test]
    fn two_hundred_parties_take_no_time() {
        // Not a time limit (machines differ): the work is bounded. 40 rounds of 200 took 25 ms when
        // this was written.
        let graph = Graph::complete(200);
        let schedule = Schedule::draw(&graph, 1, 40, 1).unwrap();
        assert!(is_permutational(&schedule, 1, 200));
        check_passes(&graph, &schedule, 1);
    }
}
