//! Graphs and pairs of nodes: the papers draw both at random and print neither; here a seed draws
//! them.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;

/// An observer and whose contributions it looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// The node that looks.
    pub(super) observer: usize,
    /// The node whose contributions are protected.
    pub(super) target: usize,
}

/// A connected graph in which each pair of `nodes` is joined with this chance (Erdős and Rényi),
/// drawn again until it is connected. `nodes` ≥ 1, and `chance` large enough for that.
pub(super) fn evenly_joined(nodes: usize, chance: f64, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    loop {
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        let edges: Vec<(usize, usize)> = pairs.filter(|_| random.random::<f64>() < chance).collect();
        let graph = Graph::from_edges(nodes, &edges).expect("each pair once");
        if graph.connected() {
            return graph;
        }
    }
}

/// A graph grown by preferential attachment (Barabási and Albert): from a complete core of `core`
/// nodes, each further node joins `links` ≤ `core` others, in proportion to their degrees.
pub(super) fn grown(nodes: usize, core: usize, links: usize, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut edges: Vec<(usize, usize)> = (0..core).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
    for node in core..nodes {
        let mut joined: Vec<usize> = Vec::with_capacity(links);
        while joined.len() < links {
            // An end of a random edge: a node in proportion to its degree.
            let (a, b) = edges[random.random_range(0..edges.len())];
            let end = if random.random() { a } else { b };
            if !joined.contains(&end) {
                joined.push(end);
            }
        }
        edges.extend(joined.into_iter().map(|end| (end, node)));
    }
    Graph::from_edges(nodes, &edges).expect("each pair once")
}

/// A random pair of neighbours, and a random pair of nodes that are none; the graph has both.
pub(super) fn random_pairs(graph: &Graph, seed: u64) -> [Pair; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let nodes = graph.parties();
    let mut draw = |joined: bool| loop {
        let (observer, target) = (random.random_range(0..nodes), random.random_range(0..nodes));
        if observer != target && graph.joins(observer, target) == joined {
            return Pair { observer, target };
        }
    };
    [draw(true), draw(false)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_what_they_are_called() {
        let graph = evenly_joined(100, 0.15, 1);
        // 742.5 edges expected, standard deviation 25.
        assert!(graph.connected() && graph.edges().len().abs_diff(742) < 125);
        assert_ne!(graph, evenly_joined(100, 0.15, 2));
        let graph = grown(100, 5, 3, 1);
        assert_eq!(graph.edges().len(), 10 + 95 * 3);
        assert!(graph.connected() && graph.least_degree() == 3);
        let most = (0..100).map(|node| graph.neighbours(node).len()).max();
        assert!(most > Some(15), "some have many: {most:?}");
        for seed in 0..20 {
            let [near, far] = random_pairs(&graph, seed);
            assert!(graph.joins(near.observer, near.target) && !graph.joins(far.observer, far.target));
            assert_ne!(far.observer, far.target);
        }
    }
}
