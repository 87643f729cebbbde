//! Active edges of each round, drawn from public numbers: everybody can draw them again.

use std::sync::Arc;

use crate::topology::graph::Graph;
use crate::topology::greatest_matching::greatest_matching;
use crate::topology::party::Party;
use crate::topology::public_draw::PublicDraw;

/// The edges of the private graph that are active in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActiveEdges {
    /// All of them, in every round.
    #[default]
    All,
    /// A greatest matching, in a fresh random order: as many pairs as there can be.
    Matching,
    /// Each party draws so many of its neighbours (all, if it has fewer): an edge is active if
    /// either end drew it.
    Degree(usize),
}

impl ActiveEdges {
    /// The active edges of rounds 1 to `rounds`, in that order: a draw is the beginning of that for
    /// more rounds. Rounds with the same edges share them.
    pub fn draw(self, graph: &Graph, rounds: usize, seed: u64) -> Vec<Arc<Graph>> {
        if self == ActiveEdges::All {
            return std::iter::repeat_n(Arc::new(graph.clone()), rounds).collect();
        }
        let mut draw = PublicDraw::new("undertone/gossip-edges/1", seed);
        let mut round = || {
            let mut pairs = match self {
                ActiveEdges::All => graph.edges().to_vec(),
                ActiveEdges::Matching => greatest_matching(graph, &mut draw),
                ActiveEdges::Degree(degree) => drawn_by_each(graph, degree, &mut draw),
            };
            pairs.sort_unstable();
            pairs.dedup();
            let active = Graph::from_edges(graph.parties(), &pairs);
            Arc::new(active.expect("edges of a graph, each once"))
        };
        (0..rounds).map(|_| round()).collect()
    }
}

/// `degree` neighbours of each party, as edges (smaller, larger), some maybe twice.
fn drawn_by_each(graph: &Graph, degree: usize, draw: &mut PublicDraw) -> Vec<(Party, Party)> {
    let mut pairs = Vec::new();
    for own in 0..graph.parties() {
        let mut neighbours = graph.neighbours(own).to_vec();
        draw.shuffle(&mut neighbours);
        let drawn = neighbours.into_iter().take(degree);
        pairs.extend(drawn.map(|other| (own.min(other), own.max(other))));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(rounds: &[Arc<Graph>]) -> Vec<&[(Party, Party)]> {
        rounds.iter().map(|graph| graph.edges()).collect()
    }

    #[test]
    fn matchings_are_greatest_and_fresh() {
        let graph = Graph::random_regular(11, 4, 3).expect("a graph");
        let rounds = ActiveEdges::Matching.draw(&graph, 40, 7);
        for round in &rounds {
            assert_eq!(round.edges().len(), 5, "all but one of eleven are paired");
            assert!((0..11).all(|party| round.neighbours(party).len() <= 1));
            assert!(round.edges().iter().all(|&(a, b)| graph.joins(a, b)));
        }
        let mut different = edges(&rounds);
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 30, "{}", different.len());
        assert_eq!(ActiveEdges::Matching.draw(&graph, 12, 7), rounds[..12]);
        assert_ne!(ActiveEdges::Matching.draw(&graph, 12, 8), rounds[..12]);
    }

    #[test]
    fn everybody_draws_so_many_neighbours() {
        let graph = Graph::complete(9);
        let rounds = ActiveEdges::Degree(2).draw(&graph, 50, 1);
        let mut counts = vec![0; 9 * 9];
        for round in &rounds {
            assert!((0..9).all(|party| round.neighbours(party).len() >= 2));
            assert!(round.edges().len() <= 18);
            round.edges().iter().for_each(|&(a, b)| counts[9 * a + b] += 1);
        }
        // Each edge with probability 1 − (3/4)² a round: 21.9 of 50, standard deviation 3.5.
        assert!(
            counts.iter().all(|&count| count == 0 || (5..40).contains(&count)),
            "{counts:?}"
        );
        assert_eq!(counts.iter().filter(|count| **count > 0).count(), 36);
        // A party with fewer neighbours draws them all.
        let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).expect("a graph");
        assert_eq!(*ActiveEdges::Degree(5).draw(&path, 1, 1)[0], path);
    }

    #[test]
    fn all_edges_are_kept_once() {
        let rounds = ActiveEdges::All.draw(&Graph::ring(6), 4096, 1);
        assert!(rounds.len() == 4096 && Arc::ptr_eq(&rounds[0], &rounds[4095]));
    }

    /// Plans name a seed: every build must draw the same edges from it.
    #[test]
    fn the_draw_is_pinned() {
        let matching = ActiveEdges::Matching.draw(&Graph::complete(6), 1, 42);
        assert_eq!(edges(&matching), [&[(0, 5), (1, 3), (2, 4)]]);
    }
}
