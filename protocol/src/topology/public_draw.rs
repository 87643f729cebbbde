//! Public random choices: schedules and random graphs, drawn from a seed that everybody knows, so
//! that anybody can draw them again.
//!
//! The algorithms are spelled out here (not taken from `rand`'s higher layers, which may change
//! between versions): what a plan says must be derivable with every later version of this crate.
//! Never used for noise.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// A stream of public random numbers, fixed by (domain, seed).
pub(crate) struct PublicDraw(ChaCha8Rng);

impl PublicDraw {
    /// The stream for a purpose (`domain`, so that two purposes never share numbers) and a seed.
    pub(crate) fn new(domain: &str, seed: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(domain.as_bytes());
        hash.update([0]);
        hash.update(seed.to_le_bytes());
        PublicDraw(ChaCha8Rng::from_seed(hash.finalize().into()))
    }

    /// A number in 0..`bound`, evenly; `bound` ≥ 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        // The widest multiple of the bound; anything above it would favour small numbers and is
        // drawn again.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let number = self.0.next_u64();
            if number < limit {
                return (number % bound) as usize;
            }
        }
    }

    /// Puts the items in a uniformly random order (Fisher–Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned() {
        // A plan's schedule is derived again by other builds: these numbers may never change.
        let mut draw = PublicDraw::new("undertone/test", 7);
        let numbers: Vec<usize> = (0..8).map(|_| draw.below(1000)).collect();
        assert_eq!(numbers, PINNED);
        let mut other = PublicDraw::new("undertone/test2", 7);
        assert_ne!(numbers, (0..8).map(|_| other.below(1000)).collect::<Vec<_>>());
    }
    const PINNED: [usize; 8] = [819, 321, 752, 575, 153, 558, 502, 915];

    #[test]
    fn orders_are_uniformly_random() {
        let mut draw = PublicDraw::new("undertone/test", 1);
        let mut counts = [0u32; 6];
        for _ in 0..6000 {
            let mut items = [0usize, 1, 2];
            draw.shuffle(&mut items);
            counts[items[0] * 2 + usize::from(items[1] > items[2])] += 1;
        }
        // 1000 expected each; standard deviation 29, so five of them.
        assert!(counts.iter().all(|c| c.abs_diff(1000) < 145), "{counts:?}");
    }
}
