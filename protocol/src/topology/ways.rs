//! Ways in a graph: the order in which a walk meets its parties, and trees that join some of them.

use std::collections::{BTreeSet, VecDeque};

use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The order in which a depth-first walk meets `members`, each once. It begins with the first of
/// them in `order`, and goes from each party on to the first neighbour in `order` that it has not
/// met. Members that it cannot reach follow by walks of their own.
///
/// Parties that are near each other in it are near each other in the graph: a way to a few of them
/// in a row is short.
pub(crate) fn depth_first(graph: &Graph, members: &BTreeSet<Party>, order: &[Party]) -> Vec<Party> {
    let mut place = vec![usize::MAX; graph.parties()];
    order
        .iter()
        .enumerate()
        .for_each(|(at, &party)| place[party] = at);
    let mut met = BTreeSet::new();
    let mut walk = Vec::with_capacity(members.len());
    for &first in order.iter().filter(|party| members.contains(party)) {
        let mut trail = vec![first];
        while let Some(&at) = trail.last() {
            if met.insert(at) {
                walk.push(at);
            }
            let next = graph.neighbours(at).iter().copied();
            let next = next.filter(|party| members.contains(party) && !met.contains(party));
            match next.min_by_key(|&party| place[party]) {
                Some(next) => trail.push(next),
                None => {
                    trail.pop();
                }
            }
        }
    }
    walk
}

/// A tree that joins a party with others, as pairs of a party and the next one after it, in the
/// order in which they join. Of those that are still to be joined the nearest is next, by a
/// shortest way from any party of the tree. Only `members` are on it; who cannot be reached is not
/// joined.
pub(crate) fn tree(
    graph: &Graph,
    members: &BTreeSet<Party>,
    root: Party,
    joined: &[Party],
) -> Vec<(Party, Party)> {
    let mut wanted: BTreeSet<Party> = joined.iter().copied().filter(|&party| party != root).collect();
    let (mut parties, mut edges) = (vec![root], Vec::new());
    while let Some(way) = nearest(graph, members, &parties, &wanted) {
        for pair in way.windows(2) {
            wanted.remove(&pair[1]);
            parties.push(pair[1]);
            edges.push((pair[0], pair[1]));
        }
    }
    edges
}

/// A shortest way from some party of `from` to one of `to`: of equally long ones that which a
/// breadth-first search in the order of `from`, then of parties, finds first.
fn nearest(
    graph: &Graph,
    members: &BTreeSet<Party>,
    from: &[Party],
    to: &BTreeSet<Party>,
) -> Option<Vec<Party>> {
    if to.is_empty() {
        return None;
    }
    let mut before = vec![None; graph.parties()];
    from.iter().for_each(|&party| before[party] = Some(party));
    let mut queue: VecDeque<Party> = from.iter().copied().collect();
    while let Some(at) = queue.pop_front() {
        for &next in graph.neighbours(at) {
            if before[next].is_some() || !members.contains(&next) {
                continue;
            }
            before[next] = Some(at);
            if to.contains(&next) {
                let mut way = vec![next];
                let mut last = next;
                while let Some(earlier) = before[last].filter(|&earlier| earlier != last) {
                    way.push(earlier);
                    last = earlier;
                }
                way.reverse();
                return Some(way);
            }
            queue.push_back(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(graph: &Graph) -> BTreeSet<Party> {
        (0..graph.parties()).collect()
    }

    #[test]
    fn a_walk_meets_each_member_once_and_neighbours_in_a_row() {
        let graph = Graph::random_regular(40, 4, 3).expect("a graph");
        let order: Vec<Party> = (0..40).rev().collect();
        let walk = depth_first(&graph, &all(&graph), &order);
        assert_eq!(walk[0], 39);
        assert_eq!(walk.iter().copied().collect::<BTreeSet<_>>(), all(&graph));
        let joined = walk
            .windows(2)
            .filter(|pair| graph.joins(pair[0], pair[1]))
            .count();
        assert!(joined >= 30, "{joined} of 39 are neighbours");
        let some: BTreeSet<Party> = (0..40).filter(|party| party % 3 != 0).collect();
        let walk = depth_first(&graph, &some, &order);
        assert_eq!(walk.iter().copied().collect::<BTreeSet<_>>(), some);
        assert_eq!(walk.len(), some.len());
    }

    #[test]
    fn a_tree_joins_all_that_can_be_reached_and_enters_nobody_twice() {
        let pieces = Graph::from_edges(6, &[(0, 1), (1, 2), (3, 4)]).expect("two pieces");
        assert_eq!(tree(&pieces, &all(&pieces), 0, &[2, 4, 0]), [(0, 1), (1, 2)]);
        for graph in [
            Graph::complete(9),
            Graph::ring(9),
            Graph::random_regular(40, 4, 7).expect("a graph"),
        ] {
            for root in 0..graph.parties() {
                let wanted: Vec<Party> = (0..4).map(|at| (root * 5 + at * 2) % graph.parties()).collect();
                let edges = tree(&graph, &all(&graph), root, &wanted);
                let mut on = BTreeSet::from([root]);
                for (from, to) in edges {
                    assert!(on.contains(&from) && graph.joins(from, to));
                    assert!(on.insert(to), "{to} is entered twice");
                }
                assert!(wanted.iter().all(|party| on.contains(party)));
            }
        }
        // Everybody is a neighbour: each keeper has it from the root itself.
        let complete = Graph::complete(5);
        assert_eq!(
            tree(&complete, &all(&complete), 3, &[4, 1, 0]),
            [(3, 0), (3, 1), (3, 4)]
        );
    }
}
