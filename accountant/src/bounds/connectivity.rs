//! Among how many values a party's own hides, by the connectivity of those who shared with each
//! other (accountant/docs/connectivity.md): integers only, so that all nodes decide alike.
//!
//! With uniform noise a coalition learns of the others nothing but the sums over the pieces that
//! they are in without it. m of a party is a number of parties that its piece has at least, whoever
//! colludes.

use undertone_protocol::topology::connectivity::{Ways, at_least};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

/// The gate's m of each party, with any `colluding` of the others in the coalition: never above the
/// size of the least piece that a coalition can leave it in.
///
/// All parties but the coalition, if it takes more than `colluding` to separate them. If not, a
/// party keeps those from whom no coalition can separate it (its neighbours, and who cannot be cut
/// off from it by so few), less the coalition, itself among them: at least 1. Then up to n²/2
/// searches for ways, n the parties; cuts and neighbours found on the way spare nearly all of them.
pub fn among(graph: &Graph, colluding: usize) -> Vec<usize> {
    let parties = graph.parties();
    if at_least(graph, colluding.saturating_add(1)).is_ok() {
        return vec![parties - colluding; parties];
    }
    let together = Together::of(graph, colluding);
    (0..parties)
        .map(|party| {
            (1 + together.joined.count(party))
                .saturating_sub(colluding)
                .max(1)
        })
        .collect()
}

/// The pairs that no coalition of a size can separate.
struct Together<'a> {
    graph: &'a Graph,
    /// Pairs that stay together, whoever colludes.
    joined: Bits,
    /// Pairs that some coalition separates.
    parted: Bits,
}

impl<'a> Together<'a> {
    fn of(graph: &'a Graph, colluding: usize) -> Self {
        let parties = graph.parties();
        let mut together = Together {
            graph,
            joined: Bits::none(parties),
            parted: Bits::none(parties),
        };
        for &(i, j) in graph.edges() {
            together.joined.set_both(i, j);
        }
        for party in (0..parties).filter(|&party| graph.neighbours(party).len() <= colluding) {
            together.part(party, graph.neighbours(party));
        }
        let mut ways = Ways::new(graph);
        for (party, other) in (0..parties).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let Together { joined, parted, .. } = &mut together;
            if joined.has(party, other) || parted.has(party, other) {
                continue;
            }
            // More go between than can be taken away: whoever stays is joined to both.
            if joined.in_common(party, other) > colluding {
                joined.set_both(party, other);
                continue;
            }
            match ways.cut_between(party, other, colluding.saturating_add(1)) {
                Some(cut) => together.part(party, &cut),
                None => together.joined.set_both(party, other),
            }
        }
        together
    }

    /// Notes that this cut separates all that `party` reaches without it from the rest.
    fn part(&mut self, party: Party, cut: &[Party]) {
        let mut seen = vec![false; self.graph.parties()];
        cut.iter().chain([&party]).for_each(|&known| seen[known] = true);
        let mut near = vec![party];
        let mut next = 0;
        while let Some(&reached) = near.get(next) {
            next += 1;
            for &neighbour in self.graph.neighbours(reached) {
                if !std::mem::replace(&mut seen[neighbour], true) {
                    near.push(neighbour);
                }
            }
        }
        let far: Vec<Party> = (0..seen.len()).filter(|&other| !seen[other]).collect();
        self.parted.set_all(&near, &far);
        self.parted.set_all(&far, &near);
    }
}

/// A set of pairs of parties, one bit each.
struct Bits {
    /// Words of a party's row.
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn none(parties: usize) -> Self {
        let words = parties.div_ceil(64);
        Bits {
            words,
            bits: vec![0; words * parties],
        }
    }

    fn row(&self, party: Party) -> &[u64] {
        &self.bits[party * self.words..][..self.words]
    }

    fn has(&self, party: Party, other: Party) -> bool {
        self.row(party)[other / 64] >> (other % 64) & 1 == 1
    }

    fn set(&mut self, party: Party, other: Party) {
        self.bits[party * self.words + other / 64] |= 1 << (other % 64);
    }

    fn set_both(&mut self, party: Party, other: Party) {
        self.set(party, other);
        self.set(other, party);
    }

    /// Every pair of one of `parties` with one of `others`.
    fn set_all(&mut self, parties: &[Party], others: &[Party]) {
        let mut row = vec![0u64; self.words];
        others
            .iter()
            .for_each(|&other| row[other / 64] |= 1 << (other % 64));
        for &party in parties {
            let words = &mut self.bits[party * self.words..][..self.words];
            words.iter_mut().zip(&row).for_each(|(word, more)| *word |= more);
        }
    }

    fn count(&self, party: Party) -> usize {
        self.row(party)
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// How many parties are paired with both.
    fn in_common(&self, party: Party, other: Party) -> usize {
        let words = self.row(party).iter().zip(self.row(other));
        words.map(|(one, two)| (one & two).count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests;
