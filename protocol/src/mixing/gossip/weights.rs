//! Integer weights of a round of gossip averaging, the same for everybody.

use crate::lattice::average::AVERAGE_BITS;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// A whole, in units of weights: 2^16.
pub const WHOLE: u32 = 1 << AVERAGE_BITS;

/// The weights N of one round, in units of 2^-16: ⌊2^16 / (1 + max(dᵢ, dⱼ))⌋ for the ends of each
/// edge, of degrees dᵢ and dⱼ, and the rest of 2^16 for a party itself. Symmetric, and every row
/// sums to 2^16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundWeights {
    rows: Vec<Vec<(Party, u32)>>,
}

impl RoundWeights {
    /// The weights of a round in which the edges of `graph` are active. On the complete graph they
    /// are those of one circle of everybody, ⌊2^16 / n⌋ for n parties.
    pub fn of(graph: &Graph) -> Self {
        let row = |own: Party| {
            let degree = |party: Party| graph.neighbours(party).len() as u64;
            let weight = |other: Party| (u64::from(WHOLE) / (1 + degree(own).max(degree(other)))) as u32;
            let neighbours = graph.neighbours(own).iter();
            let mut row: Vec<(Party, u32)> = neighbours.map(|&other| (other, weight(other))).collect();
            // d neighbours take at most d / (1 + d) of it.
            let rest = WHOLE - row.iter().map(|(_, weight)| weight).sum::<u32>();
            row.insert(row.partition_point(|&(other, _)| other < own), (own, rest));
            row
        };
        RoundWeights {
            rows: (0..graph.parties()).map(row).collect(),
        }
    }

    /// Returns the number of parties.
    pub fn parties(&self) -> usize {
        self.rows.len()
    }

    /// Returns the parties whose messages `own` (below the number of parties) adds up, itself among
    /// them, ascending, with their weights.
    pub fn row(&self, own: Party) -> &[(Party, u32)] {
        &self.rows[own]
    }

    /// Returns the weight by which `own` multiplies the message of `other`; 0 where no edge is
    /// active.
    pub fn entry(&self, own: Party, other: Party) -> u32 {
        let row = self.rows.get(own).map_or(&[][..], Vec::as_slice);
        row.binary_search_by_key(&other, |&(party, _)| party)
            .map_or(0, |place| row[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_are_whole_and_the_rest_stays_at_home() {
        let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).expect("a graph");
        let weights = RoundWeights::of(&path);
        assert_eq!(weights.row(0), [(0, 65536 - 21845), (1, 21845)]);
        assert_eq!(weights.row(1), [(0, 21845), (1, 21846), (2, 21845)]);
        assert_eq!(
            (weights.entry(1, 2), weights.entry(0, 2), weights.entry(9, 0)),
            (21845, 0, 0)
        );
        let all = RoundWeights::of(&Graph::complete(7));
        assert!((0..7).all(|i| (0..7).all(|j| i == j || all.entry(i, j) == 65536 / 7)));
        // Nobody to gossip with: the message stays as it is.
        assert_eq!(
            RoundWeights::of(&Graph::from_edges(2, &[]).expect("a graph")).row(1),
            [(1, WHOLE)]
        );
    }

    proptest! {
        #[test]
        fn rows_and_columns_are_whole(
            parties in 1usize..20,
            extra in proptest::collection::vec((0usize..20, 0usize..20), 0..40),
        ) {
            let graph = Graph::tree_and(parties, extra);
            let weights = RoundWeights::of(&graph);
            for own in 0..parties {
                let row = weights.row(own);
                prop_assert_eq!(row.iter().map(|(_, weight)| weight).sum::<u32>(), WHOLE);
                prop_assert!(weights.entry(own, own) > 0);
                let symmetric = |&(other, weight): &(Party, u32)| weights.entry(other, own) == weight;
                prop_assert!(row.iter().all(symmetric));
            }
        }
    }
}
