//! Along which edges a party's notices travel: one tree for each party.
//!
//! All nodes make the same trees of the public graph, so that in a run without faults everybody
//! gets every notice once, by a shortest way. Who misses one, since somebody on the way is gone or
//! keeps it, compares what it holds with its neighbours
//! ([`AntiEntropy`](crate::agreement::anti_entropy::AntiEntropy)).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// This node's place in everybody's tree.
pub struct Trees {
    me: Party,
    graph: Arc<Graph>,
    /// The neighbours to which this node passes a party's notices on, computed at the first
    /// request.
    children: BTreeMap<Party, Vec<Party>>,
}

impl Trees {
    /// The place of party `me` in the trees of the public graph.
    pub fn new(me: Party, graph: Arc<Graph>) -> Self {
        Trees {
            me,
            graph,
            children: BTreeMap::new(),
        }
    }

    /// Returns the neighbours to which this node passes on notices of `author`.
    pub fn children(&mut self, author: Party) -> &[Party] {
        let (graph, me) = (&self.graph, self.me);
        self.children
            .entry(author)
            .or_insert_with(|| children_of(graph, me, author))
    }
}

fn children_of(graph: &Graph, me: Party, author: Party) -> Vec<Party> {
    if me == author {
        return graph.neighbours(me).to_vec();
    }
    // Whoever is everybody's neighbour needs nobody.
    if graph.neighbours(author).len() + 1 == graph.parties() {
        return Vec::new();
    }
    let distances = graph.distances(author);
    let next = distances[me].map(|distance| distance + 1);
    let later = graph.neighbours(me).iter().copied();
    later
        .filter(|&party| distances[party] == next && parent(graph, &distances, author, party) == Some(me))
        .collect()
}

/// Returns the neighbour from which a party gets an author's notices: one of those nearest to the
/// author. It differs from author to author, so that nobody has to pass on everybody's.
fn parent(graph: &Graph, distances: &[Option<usize>], author: Party, party: Party) -> Option<Party> {
    let nearer = |other: &&Party| distances[**other].map(|distance| distance + 1) == distances[party];
    let nearest = || graph.neighbours(party).iter().filter(nearer);
    let count = nearest().count();
    nearest().nth((author + party).checked_rem(count)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who gets an author's notices how often, if everybody passes them on, and how many hops the
    /// longest way has.
    fn spread(graph: &Arc<Graph>, author: Party) -> (Vec<usize>, usize) {
        let parties = graph.parties();
        let mut trees: Vec<Trees> = (0..parties).map(|me| Trees::new(me, graph.clone())).collect();
        let (mut got, mut hops, mut front) = (vec![0; parties], 0, vec![author]);
        while !front.is_empty() {
            let next: Vec<Party> = front
                .iter()
                .flat_map(|&at| trees[at].children(author).to_vec())
                .collect();
            next.iter().for_each(|&party| got[party] += 1);
            hops += usize::from(!next.is_empty());
            front = next;
        }
        (got, hops)
    }

    #[test]
    fn everybody_gets_everything_once_by_a_shortest_way() {
        let regular = |parties, degree| Graph::random_regular(parties, degree, 3).expect("a graph");
        let graphs = [
            Graph::complete(7),
            Graph::ring(9),
            regular(40, 4),
            regular(31, 8),
            regular(12, 10),
            Graph::from_edges(4, &[(0, 1), (1, 2), (1, 3)]).expect("a star"),
        ];
        for graph in graphs.map(Arc::new) {
            for author in 0..graph.parties() {
                let (got, hops) = spread(&graph, author);
                let others = (0..graph.parties()).filter(|&party| party != author);
                assert!(others.clone().all(|party| got[party] == 1), "{got:?}");
                assert_eq!(got[author], 0);
                let farthest = graph.distances(author).into_iter().flatten().max();
                assert_eq!(Some(hops), farthest);
            }
        }
    }

    #[test]
    fn nobody_passes_on_what_everybody_says() {
        let graph = Arc::new(Graph::random_regular(200, 8, 5).expect("a graph"));
        for me in 0..200 {
            let mut trees = Trees::new(me, graph.clone());
            let passed_on: usize = (0..200).map(|author| trees.children(author).len()).sum();
            assert!((100..400).contains(&passed_on), "{me}: {passed_on}");
        }
    }
}
