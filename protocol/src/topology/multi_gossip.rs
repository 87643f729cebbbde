//! PPSC's schedule: which edge of each component exchanges in each iteration (Algorithm 1, step 1),
//! and in which network round.
//!
//! An iteration selects one edge a component, so that one after the other they would take as many
//! rounds as iterations. Edges without a common end can go at the same time, and the result depends
//! only on each party's own order: an edge takes place in the round after the last one of its two
//! ends. The number of rounds is then the longest chain of edges with common ends, the least that
//! any protocol takes in which a party acts on its own edges in order.
//!
//! # Where the outer loops go
//! Algorithms 3 (linear equations) and 4 (convex optimisation) call Algorithm 2 once in each of
//! their recursions: some iterations of multi-gossip, then averaging, then a step on data of one's
//! own (a projection, a projected gradient). One such call is one
//! [`Run`](crate::run::machine::Run): a value goes in, the agreed mean comes out in its
//! [`Outcome`](crate::run::outcome::Outcome). The outer recursion is a machine above `Run` that
//! makes the next value from the mean; the plan of recursion l has the schedule of a seed of its
//! own (here: one `MultiGossip` for each), and the accountant adds up the recursions' μ². Nothing
//! below `Run` knows of it.

use crate::topology::graph::Graph;
use crate::topology::public_draw::PublicDraw;
use crate::topology::schedule::Schedule;

/// Edges (out-agent, in-agent) by iteration, one for each component of the private graph, with
/// their rounds. Derived from public numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiGossip {
    parties: usize,
    edges: Vec<Vec<HandOver>>,
    depth: u32,
}

/// One edge of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The party that hands out: ω = β − γ leaves it, γ stays.
    pub out: usize,
    /// The party that adds ω to its state.
    pub into: usize,
    /// The network round in which it takes place, from 1.
    pub round: u32,
}

impl MultiGossip {
    /// Draws `iterations` iterations from `seed`: in each component a party, evenly, then one of
    /// its neighbours, evenly. The first iterations of a longer draw are those of a shorter one.
    /// `None` if a party has no neighbour: it could hide nothing.
    pub fn draw(graph: &Graph, iterations: usize, seed: u64) -> Option<Self> {
        let mut drawing = Drawing::new(graph, seed)?;
        Some(drawing.take_while(|index, _| index < iterations))
    }

    /// Draws as many iterations as fit into `rounds` network rounds; they take exactly as many.
    pub fn fitting(graph: &Graph, rounds: u32, seed: u64) -> Option<Self> {
        let mut drawing = Drawing::new(graph, seed)?;
        Some(drawing.take_while(|_, edges| edges.iter().all(|edge| edge.round <= rounds)))
    }

    /// The number of parties n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// The number of network rounds T: the length of the longest chain of edges with common ends.
    pub fn rounds(&self) -> u32 {
        self.depth
    }

    /// The edges of each iteration, in order of the components' first parties.
    pub fn edges(&self) -> &[Vec<HandOver>] {
        &self.edges
    }

    /// Returns the schedule of the network rounds.
    pub fn schedule(&self) -> Schedule {
        let mut out = vec![vec![Vec::new(); self.parties]; self.depth as usize];
        for edge in self.edges.iter().flatten() {
            out[edge.round as usize - 1][edge.out].push(edge.into);
        }
        Schedule::from_out(out)
    }
}

/// Iterations without an end.
struct Drawing<'a> {
    graph: &'a Graph,
    components: Vec<Vec<usize>>,
    draw: PublicDraw,
    /// The last round in which each party has an edge.
    last: Vec<u32>,
}

impl<'a> Drawing<'a> {
    fn new(graph: &'a Graph, seed: u64) -> Option<Self> {
        let components = graph.components();
        let alone = graph.parties() == 0 || graph.least_degree() == 0;
        let draw = PublicDraw::new("undertone/multi-gossip/1", seed);
        (!alone).then(|| Drawing {
            graph,
            components,
            draw,
            last: vec![0; graph.parties()],
        })
    }

    fn next(&mut self) -> Vec<HandOver> {
        let Drawing {
            graph,
            components,
            draw,
            last,
        } = self;
        let edge = |component: &Vec<usize>| {
            let out = component[draw.below(component.len())];
            let neighbours = graph.neighbours(out);
            let into = neighbours[draw.below(neighbours.len())];
            let round = 1 + last[out].max(last[into]);
            (last[out], last[into]) = (round, round);
            HandOver { out, into, round }
        };
        components.iter().map(edge).collect()
    }

    fn take_while(&mut self, take: impl Fn(usize, &[HandOver]) -> bool) -> MultiGossip {
        let mut edges = Vec::new();
        loop {
            let next = self.next();
            if !take(edges.len(), &next) {
                break;
            }
            edges.push(next);
        }
        let depth = edges
            .iter()
            .flatten()
            .map(|edge: &HandOver| edge.round)
            .max()
            .unwrap_or(0);
        MultiGossip {
            parties: self.graph.parties(),
            edges,
            depth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Paths of four, three and three parties: the private graph of the paper's Figure 4c
    /// (accountant/docs/papers.md).
    fn three_paths() -> Graph {
        Graph::from_edges(10, &[(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9)]).unwrap()
    }

    fn pairs(gossip: &MultiGossip) -> Vec<(usize, usize)> {
        gossip
            .edges()
            .iter()
            .flatten()
            .map(|edge| (edge.out, edge.into))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn rounds_keep_each_partys_order_and_are_as_few_as_can_be(
            parties in 3usize..14,
            extra in proptest::collection::vec((0usize..14, 0usize..14), 0..12),
            iterations in 1usize..60,
            seed: u64,
        ) {
            // A ring of the first half and a path of the rest: one or two components, and more
            // edges inside of the first.
            let half = (parties / 2).max(2);
            let joined = (1..parties).filter(|&i| i != half || parties - half < 2);
            let mut edges: Vec<(usize, usize)> = joined.map(|i| (i - 1, i)).collect();
            edges.extend(extra.into_iter().filter(|&(a, b)| a < b && b < half && b > a + 1));
            edges.sort_unstable();
            edges.dedup();
            let graph = Graph::from_edges(parties, &edges).unwrap();
            let gossip = MultiGossip::draw(&graph, iterations, seed).unwrap();
            prop_assert_eq!(gossip.edges().len(), iterations);
            let schedule = gossip.schedule();
            prop_assert_eq!(schedule.rounds() as u32, gossip.rounds());
            let mut last = vec![0; parties];
            let mut longest = 0;
            for iteration in gossip.edges() {
                prop_assert_eq!(iteration.len(), graph.components().len());
                for edge in iteration {
                    prop_assert!(graph.joins(edge.out, edge.into));
                    // In order at both ends, and not later than these ends force it to be.
                    prop_assert_eq!(edge.round, 1 + last[edge.out].max(last[edge.into]));
                    (last[edge.out], last[edge.into]) = (edge.round, edge.round);
                    longest = longest.max(edge.round);
                    prop_assert_eq!(schedule.sends_to(edge.round, edge.out), &[edge.into]);
                }
            }
            prop_assert_eq!(longest, gossip.rounds());
            prop_assert_eq!(schedule.shares(), iterations * graph.components().len());
            for round in 1..=gossip.rounds() {
                let ends = |i| schedule.sends_to(round, i).len() + schedule.receives_from(round, i).len();
                prop_assert!((0..parties).all(|i| ends(i) <= 1), "edges of one round are disjoint");
            }
        }

        #[test]
        fn what_fits_into_so_many_rounds_takes_them_all(
            parties in 3usize..12,
            rounds in 1u32..20,
            seed: u64,
        ) {
            let graph = Graph::ring(parties);
            let fitting = MultiGossip::fitting(&graph, rounds, seed).unwrap();
            prop_assert_eq!(fitting.rounds(), rounds);
            let longer = MultiGossip::draw(&graph, fitting.edges().len() + 1, seed).unwrap();
            prop_assert_eq!(longer.rounds(), rounds + 1);
            prop_assert_eq!(&longer.edges()[..fitting.edges().len()], fitting.edges());
        }
    }

    #[test]
    fn each_component_has_its_own_edge() {
        let gossip = MultiGossip::draw(&three_paths(), 40, 5).unwrap();
        assert_eq!(
            (gossip.edges()[0].len(), gossip.parties(), gossip.edges().len()),
            (3, 10, 40)
        );
        for iteration in gossip.edges() {
            let component = |party: usize| [4, 7, 10].iter().position(|&end| party < end);
            let found: Vec<_> = iteration.iter().map(|edge| component(edge.out)).collect();
            assert_eq!(found, [Some(0), Some(1), Some(2)]);
        }
        // The middle of a path of three is an end of all of its edges; components share rounds.
        assert_eq!(gossip.rounds(), 40);
    }

    #[test]
    fn senders_and_receivers_are_uniformly_random() {
        // A path of three: its middle is drawn once in three times and then sends either way; its
        // ends send to it.
        let graph = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let gossip = MultiGossip::draw(&graph, 6000, 3).unwrap();
        let count = |pair| pairs(&gossip).iter().filter(|&&found| found == pair).count();
        // 2000 and 1000 expected; standard deviations 37 and 29, so five of them.
        for (pair, expected) in [((0, 1), 2000), ((2, 1), 2000), ((1, 0), 1000), ((1, 2), 1000)] {
            assert!(count(pair).abs_diff(expected) < 185, "{pair:?}: {}", count(pair));
        }
    }

    #[test]
    fn the_draw_is_pinned() {
        // Plans name a seed; every build must draw the same edges from it.
        assert_eq!(pairs(&MultiGossip::draw(&three_paths(), 3, 42).unwrap()), PINNED);
        assert_ne!(pairs(&MultiGossip::draw(&three_paths(), 3, 43).unwrap()), PINNED);
    }
    const PINNED: [(usize, usize); 9] = [
        (0, 1),
        (6, 5),
        (7, 8),
        (3, 2),
        (5, 6),
        (9, 8),
        (2, 1),
        (4, 5),
        (8, 7),
    ];

    #[test]
    fn a_party_without_a_neighbour_has_no_schedule() {
        assert_eq!(
            MultiGossip::draw(&Graph::from_edges(3, &[(0, 1)]).unwrap(), 5, 1),
            None
        );
        assert_eq!(
            MultiGossip::fitting(&Graph::from_edges(3, &[(0, 1)]).unwrap(), 5, 1),
            None
        );
    }

    #[test]
    fn two_hundred_parties_take_few_rounds() {
        let gossip = MultiGossip::draw(&Graph::complete(200), 1200, 1).unwrap();
        assert!(gossip.rounds() < 60, "{}", gossip.rounds());
    }
}
