//! As many disjoint edges of a graph as there can be, in a random order (Edmonds: augmenting paths,
//! odd cycles shrunk to their base).

use std::collections::VecDeque;

use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::public_draw::PublicDraw;

/// A greatest matching, as edges (smaller, larger). Random: parties are taken, and their neighbours
/// tried, in orders that `draw` makes.
pub(crate) fn greatest_matching(graph: &Graph, draw: &mut PublicDraw) -> Vec<(Party, Party)> {
    let parties = graph.parties();
    let mut order: Vec<Party> = (0..parties).collect();
    draw.shuffle(&mut order);
    let mut neighbours: Vec<Vec<Party>> = (0..parties)
        .map(|party| graph.neighbours(party).to_vec())
        .collect();
    neighbours.iter_mut().for_each(|list| draw.shuffle(list));
    let mut mates: Vec<Option<Party>> = vec![None; parties];
    // Whoever finds a free neighbour takes the first: few are left for the paths below.
    for &party in order.iter() {
        if mates[party].is_none()
            && let Some(&free) = neighbours[party].iter().find(|&&other| mates[other].is_none())
        {
            (mates[party], mates[free]) = (Some(free), Some(party));
        }
    }
    for &party in order.iter() {
        if mates[party].is_none() {
            AlternatingPaths::new(&neighbours, &mates, party).run(&mut mates);
        }
    }
    let pairs = mates.iter().enumerate();
    pairs
        .filter_map(|(party, mate)| mate.filter(|&mate| party < mate).map(|mate| (party, mate)))
        .collect()
}

/// A search for a path from a free party to another, alternately outside of the matching and in it.
struct AlternatingPaths<'a> {
    neighbours: &'a [Vec<Party>],
    mates: Vec<Option<Party>>,
    /// The party from where a party was reached by an edge outside of the matching.
    parents: Vec<Option<Party>>,
    /// The party that stands for the odd cycle that a party is shrunk into: itself, if it is in
    /// none.
    bases: Vec<Party>,
    /// Whether the path to a party has even length.
    even: Vec<bool>,
    open: VecDeque<Party>,
}

impl<'a> AlternatingPaths<'a> {
    fn new(neighbours: &'a [Vec<Party>], mates: &[Option<Party>], root: Party) -> Self {
        let mut even = vec![false; mates.len()];
        even[root] = true;
        AlternatingPaths {
            neighbours,
            mates: mates.to_vec(),
            parents: vec![None; mates.len()],
            bases: (0..mates.len()).collect(),
            even,
            open: VecDeque::from([root]),
        }
    }

    /// Extends the matching by one edge, if it can be.
    fn run(mut self, mates: &mut [Option<Party>]) {
        while let Some(from) = self.open.pop_front() {
            for &to in &self.neighbours[from] {
                if self.bases[from] == self.bases[to] || self.mates[from] == Some(to) {
                    continue;
                }
                // Only what was reached is even: the root, or the mate of what has a parent.
                if self.even[to] {
                    self.shrink(from, to);
                } else if self.parents[to].is_none() {
                    self.parents[to] = Some(from);
                    match self.mates[to] {
                        None => return self.swap_along(to, mates),
                        Some(mate) => {
                            self.even[mate] = true;
                            self.open.push_back(mate);
                        }
                    }
                }
            }
        }
    }

    /// Makes the matching's edges of the path to `end` those outside of it.
    fn swap_along(&self, end: Party, mates: &mut [Option<Party>]) {
        let mut next = Some(end);
        while let Some(odd) = next {
            let Some(even) = self.parents[odd] else {
                return;
            };
            next = self.mates[even];
            (mates[odd], mates[even]) = (Some(even), Some(odd));
        }
    }

    /// An edge between two even parties closes an odd cycle: all on it become even.
    fn shrink(&mut self, from: Party, to: Party) {
        let base = self.common_base(from, to);
        let mut on_cycle = vec![false; self.bases.len()];
        self.mark(from, base, to, &mut on_cycle);
        self.mark(to, base, from, &mut on_cycle);
        for party in 0..self.bases.len() {
            if on_cycle[self.bases[party]] {
                self.bases[party] = base;
                if !std::mem::replace(&mut self.even[party], true) {
                    self.open.push_back(party);
                }
            }
        }
    }

    /// The next base towards the root, from one that is even.
    fn up(&self, base: Party) -> Option<Party> {
        let parent = self.parents[self.mates[base]?]?;
        Some(self.bases[parent])
    }

    fn common_base(&self, from: Party, to: Party) -> Party {
        let mut passed = vec![false; self.bases.len()];
        let mut place = Some(self.bases[from]);
        while let Some(base) = place {
            passed[base] = true;
            place = self.up(base);
        }
        let mut base = self.bases[to];
        while !passed[base] {
            base = self.up(base).expect("both paths end at the root");
        }
        base
    }

    /// Marks the cycle's part from an even party down to its base; its parents lead to `child`.
    fn mark(&mut self, mut party: Party, base: Party, mut child: Party, on_cycle: &mut [bool]) {
        while self.bases[party] != base {
            let mate = self.mates[party].expect("only the root has none, and it is the base");
            on_cycle[self.bases[party]] = true;
            on_cycle[self.bases[mate]] = true;
            self.parents[party] = Some(child);
            child = mate;
            party = self.parents[mate].expect("a party on a path was reached");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most disjoint edges, by trying all: from the first edge on, with it or without.
    fn most(edges: &[(Party, Party)], taken: u32) -> usize {
        let Some((&(a, b), rest)) = edges.split_first() else {
            return 0;
        };
        let without = most(rest, taken);
        let both = 1 << a | 1 << b;
        if taken & both == 0 {
            without.max(1 + most(rest, taken | both))
        } else {
            without
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn none_is_greater(
            parties in 1usize..10,
            listed in proptest::collection::vec((0usize..10, 0usize..10), 0..18),
            seed: u64,
        ) {
            let mut edges: Vec<(Party, Party)> =
                listed.into_iter().filter(|&(a, b)| a < b && b < parties).collect();
            edges.sort_unstable();
            edges.dedup();
            let graph = Graph::from_edges(parties, &edges).unwrap();
            let found = greatest_matching(&graph, &mut PublicDraw::new("undertone/test", seed));
            let mut ends: Vec<Party> = found.iter().flat_map(|&(a, b)| [a, b]).collect();
            prop_assert!(found.iter().all(|&(a, b)| a < b && graph.joins(a, b)));
            ends.sort_unstable();
            prop_assert!(ends.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert_eq!(found.len(), most(&edges, 0));
        }
    }

    #[test]
    fn odd_cycles_are_seen_through() {
        // Two triangles joined by a path of three edges: a perfect matching of eight parties.
        let edges = [
            (0, 1),
            (0, 2),
            (1, 2),
            (2, 3),
            (3, 4),
            (4, 5),
            (5, 6),
            (5, 7),
            (6, 7),
        ];
        let graph = Graph::from_edges(8, &edges).unwrap();
        for seed in 0..50 {
            let found = greatest_matching(&graph, &mut PublicDraw::new("undertone/test", seed));
            assert_eq!(found.len(), 4, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn many_parties_are_paired_soon() {
        let graph = Graph::random_regular(200, 8, 1).unwrap();
        let mut draw = PublicDraw::new("undertone/test", 1);
        for _ in 0..20 {
            assert_eq!(greatest_matching(&graph, &mut draw).len(), 100);
        }
    }
}
