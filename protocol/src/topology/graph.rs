//! Undirected graphs over the parties of a plan: who may exchange privately, who exchanges in the
//! clear.

use thiserror::Error;

use crate::topology::public_draw::PublicDraw;

/// An undirected simple graph over parties 0…n−1. Edges are (smaller, larger), in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    edges: Vec<(usize, usize)>,
    neighbours: Vec<Vec<usize>>,
}

/// A reason why edges are not a graph, or a graph with such degrees cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// An end of an edge that is no party.
    #[error("edge [{from}, {to}] names a party beyond the {parties} of the plan")]
    UnknownParty {
        /// One end of the edge.
        from: usize,
        /// The other end of the edge.
        to: usize,
        /// The number of parties.
        parties: usize,
    },
    /// An edge from a party to itself.
    #[error("an edge joins party {party} to itself")]
    SelfLoop {
        /// The party that is no neighbour of itself.
        party: usize,
    },
    /// A pair that is listed twice.
    #[error("the edge between parties {from} and {to} is listed twice")]
    Repeated {
        /// One end of the edge.
        from: usize,
        /// The other end of the edge.
        to: usize,
    },
    /// A degree that no connected regular graph has.
    #[error(
        "no connected graph of {parties} parties has degree {degree} everywhere: the degree must be from 2 to {}, and even if the number of parties is odd",
        parties.saturating_sub(1)
    )]
    Degree {
        /// The degree asked for.
        degree: usize,
        /// The number of parties.
        parties: usize,
    },
}

impl Graph {
    /// The graph with these edges, in any order and direction.
    pub fn from_edges(parties: usize, edges: &[(usize, usize)]) -> Result<Self, GraphError> {
        let mut sorted = Vec::with_capacity(edges.len());
        for &(from, to) in edges {
            if from >= parties || to >= parties {
                return Err(GraphError::UnknownParty { from, to, parties });
            }
            if from == to {
                return Err(GraphError::SelfLoop { party: from });
            }
            sorted.push((from.min(to), from.max(to)));
        }
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(GraphError::Repeated {
                from: pair[0].0,
                to: pair[0].1,
            });
        }
        Ok(Self::from_sorted(parties, sorted))
    }

    fn from_sorted(parties: usize, edges: Vec<(usize, usize)>) -> Self {
        let mut neighbours = vec![Vec::new(); parties];
        for &(from, to) in &edges {
            neighbours[from].push(to);
            neighbours[to].push(from);
        }
        neighbours.iter_mut().for_each(|list| list.sort_unstable());
        Graph { edges, neighbours }
    }

    /// The graph of every pair of parties.
    pub fn complete(parties: usize) -> Self {
        Self::from_sorted(
            parties,
            (0..parties)
                .flat_map(|i| (i + 1..parties).map(move |j| (i, j)))
                .collect(),
        )
    }

    /// Each party with the next one in plan order, the last with the first. Needs at least 3
    /// parties to be a ring.
    pub fn ring(parties: usize) -> Self {
        let mut edges: Vec<(usize, usize)> = (1..parties).map(|i| (i - 1, i)).collect();
        if parties > 2 {
            edges.push((0, parties - 1));
        }
        edges.sort_unstable();
        Self::from_sorted(parties, edges)
    }

    /// Each party with those so many places before and after it in plan order, the last being
    /// followed by the first. Distances are from 1 to half of `parties`.
    pub fn circulant(parties: usize, distances: &[usize]) -> Self {
        let pairs = (0..parties).flat_map(|from| {
            let to = distances.iter().map(move |distance| (from + distance) % parties);
            to.map(move |to| (from.min(to), from.max(to)))
        });
        let mut edges: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
        edges.sort_unstable();
        edges.dedup();
        Self::from_sorted(parties, edges)
    }

    /// A connected graph in which everybody has `degree` neighbours, drawn from `seed`.
    ///
    /// Starts from a circulant graph and switches random pairs of edges (a–b, c–d become a–c, b–d)
    /// 16 times per edge, which keeps the degrees; pairing stubs at random, the textbook way,
    /// practically never yields a simple graph at higher degrees. Near-uniform, not uniform;
    /// nothing rests on uniformity (claims are computed for the graph that came out).
    pub fn random_regular(parties: usize, degree: usize, seed: u64) -> Result<Self, GraphError> {
        if degree < 2 || degree >= parties || parties % 2 == 1 && degree % 2 == 1 {
            return Err(GraphError::Degree { degree, parties });
        }
        let mut draw = PublicDraw::new("undertone/random-regular/1", seed);
        let mut switching = Switching::circulant(parties, degree);
        for _ in 0..64 {
            switching.switch(&mut draw);
            let graph = switching.graph();
            if graph.connected() {
                return Ok(graph);
            }
        }
        // Not reached in practice: at degree 2 about one draw in √parties is connected. The
        // circulant graph is, too.
        Ok(Switching::circulant(parties, degree).graph())
    }

    /// Returns the number of parties.
    pub fn parties(&self) -> usize {
        self.neighbours.len()
    }

    /// All edges, (smaller, larger), ascending.
    pub fn edges(&self) -> &[(usize, usize)] {
        &self.edges
    }

    /// The neighbours of a party (below `parties`), ascending.
    pub fn neighbours(&self, party: usize) -> &[usize] {
        &self.neighbours[party]
    }

    /// Whether two parties are neighbours.
    pub fn joins(&self, from: usize, to: usize) -> bool {
        self.neighbours
            .get(from)
            .is_some_and(|list| list.binary_search(&to).is_ok())
    }

    /// The least number of neighbours that a party has; 0 without parties.
    pub fn least_degree(&self) -> usize {
        self.neighbours.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Whether every party can be reached from every other. A graph without parties is connected.
    pub fn connected(&self) -> bool {
        self.unreached().is_none()
    }

    /// A party that cannot be reached from party 0, if there is one.
    pub fn unreached(&self) -> Option<usize> {
        let mut reached = vec![false; self.parties()];
        self.reach(0, &mut reached);
        reached.iter().position(|&r| !r)
    }

    /// Returns the distance of each party in edges from this one (below `parties`); `None` where no
    /// way leads.
    pub fn distances(&self, from: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.parties()];
        distances[from] = Some(0);
        let mut front = vec![from];
        for distance in 1.. {
            let mut next = Vec::new();
            for party in front.into_iter().flat_map(|party| &self.neighbours[party]) {
                if distances[*party].is_none() {
                    distances[*party] = Some(distance);
                    next.push(*party);
                }
            }
            if next.is_empty() {
                break;
            }
            front = next;
        }
        distances
    }

    /// A tree of all parties with those of these edges that are none of it: connected, and
    /// otherwise as irregular as they are. For tests.
    #[cfg(test)]
    pub(crate) fn tree_and(parties: usize, extra: Vec<(usize, usize)>) -> Self {
        let mut edges: Vec<(usize, usize)> = (1..parties).map(|i| (i / 2, i)).collect();
        edges.extend(extra.into_iter().filter(|&(a, b)| a < b && b < parties));
        edges.sort_unstable();
        edges.dedup();
        Graph::from_edges(parties, &edges).expect("edges of these parties, each once")
    }

    /// The connected components, each in ascending order, by their first party.
    pub fn components(&self) -> Vec<Vec<usize>> {
        let mut reached = vec![false; self.parties()];
        let mut components = Vec::new();
        while let Some(first) = reached.iter().position(|&r| !r) {
            components.push(self.reach(first, &mut reached));
        }
        components
    }

    /// Marks all that can be reached from `first` (if there is such a party); returns those that
    /// were not marked before, ascending.
    fn reach(&self, first: usize, reached: &mut [bool]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open: Vec<usize> = (first..self.parties().min(first + 1)).collect();
        open.iter().for_each(|&party| reached[party] = true);
        while let Some(party) = open.pop() {
            found.push(party);
            for &next in &self.neighbours[party] {
                if !std::mem::replace(&mut reached[next], true) {
                    open.push(next);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

/// A graph under edge switching.
struct Switching {
    edges: Vec<(usize, usize)>,
    joined: Vec<Vec<bool>>,
}

impl Switching {
    /// Neighbours at distances 1…⌊degree/2⌋ around a circle, and opposite if the degree is odd
    /// (then the number of parties is even).
    fn circulant(parties: usize, degree: usize) -> Self {
        let mut edges = Vec::new();
        for from in 0..parties {
            for distance in 1..=degree / 2 {
                edges.push((from, (from + distance) % parties));
            }
            if degree % 2 == 1 && from < parties / 2 {
                edges.push((from, from + parties / 2));
            }
        }
        let mut joined = vec![vec![false; parties]; parties];
        for &(from, to) in &edges {
            joined[from][to] = true;
            joined[to][from] = true;
        }
        Switching { edges, joined }
    }

    fn switch(&mut self, draw: &mut PublicDraw) {
        for _ in 0..16 * self.edges.len() {
            let (first, second) = (draw.below(self.edges.len()), draw.below(self.edges.len()));
            let (a, b) = self.edges[first];
            let (mut c, mut d) = self.edges[second];
            if draw.below(2) == 1 {
                (c, d) = (d, c);
            }
            let distinct = a != c && a != d && b != c && b != d;
            if distinct && !self.joined[a][c] && !self.joined[b][d] {
                self.set((a, b), false);
                self.set((c, d), false);
                self.set((a, c), true);
                self.set((b, d), true);
                self.edges[first] = (a, c);
                self.edges[second] = (b, d);
            }
        }
    }

    fn set(&mut self, (from, to): (usize, usize), joined: bool) {
        self.joined[from][to] = joined;
        self.joined[to][from] = joined;
    }

    fn graph(&self) -> Graph {
        let mut edges: Vec<(usize, usize)> = self.edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        edges.sort_unstable();
        Graph::from_sorted(self.joined.len(), edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn complete_and_ring() {
        let complete = Graph::complete(5);
        assert_eq!(complete.edges().len(), 10);
        assert_eq!(complete.neighbours(2), [0, 1, 3, 4]);
        let ring = Graph::ring(5);
        assert_eq!(ring.neighbours(0), [1, 4]);
        assert_eq!(ring.edges(), [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]);
        assert!(ring.connected() && complete.connected());
        assert!(ring.joins(4, 0) && !ring.joins(0, 2) && !ring.joins(9, 0));
    }

    #[test]
    fn distances_count_edges() {
        let ring = Graph::ring(5);
        assert_eq!(ring.distances(1), [1, 0, 1, 2, 2].map(Some));
        let split = Graph::from_edges(4, &[(0, 1)]).unwrap();
        assert_eq!(split.distances(0), [Some(0), Some(1), None, None]);
    }

    #[test]
    fn bad_edges_are_named() {
        assert_eq!(
            Graph::from_edges(3, &[(0, 3)]),
            Err(GraphError::UnknownParty {
                from: 0,
                to: 3,
                parties: 3
            })
        );
        assert_eq!(
            Graph::from_edges(3, &[(1, 1)]),
            Err(GraphError::SelfLoop { party: 1 })
        );
        assert_eq!(
            Graph::from_edges(3, &[(0, 1), (1, 0)]),
            Err(GraphError::Repeated { from: 0, to: 1 })
        );
        let split = Graph::from_edges(4, &[(0, 1), (3, 2)]).unwrap();
        assert_eq!(split.unreached(), Some(2));
    }

    #[test]
    fn impossible_degrees_are_refused() {
        for (parties, degree) in [(5, 3), (5, 5), (5, 1), (5, 0), (1, 1)] {
            assert_eq!(
                Graph::random_regular(parties, degree, 1),
                Err(GraphError::Degree { degree, parties })
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn random_regular_is_regular_connected_and_repeatable(
            parties in 3usize..40,
            degree in 2usize..12,
            seed: u64,
        ) {
            prop_assume!(degree < parties && (parties * degree) % 2 == 0);
            let graph = Graph::random_regular(parties, degree, seed).unwrap();
            prop_assert!((0..parties).all(|i| graph.neighbours(i).len() == degree));
            prop_assert!(graph.connected());
            let read = Graph::from_edges(parties, graph.edges());
            let again = Graph::random_regular(parties, degree, seed);
            prop_assert_eq!(read.as_ref(), Ok(&graph));
            prop_assert_eq!(again.as_ref(), Ok(&graph));
        }
    }

    #[test]
    fn seeds_matter() {
        assert_ne!(Graph::random_regular(20, 4, 1), Graph::random_regular(20, 4, 2));
    }
}
