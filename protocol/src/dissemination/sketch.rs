//! What a node says of its result, so that others see whether theirs is the same: a few sums of its coordinates with random signs.
//!
//! A neighbour that lies can leave two honest nodes with different results, each of which looks right from where it stands. So whoever has its
//! result of the whole of E floods its sums, with the seed of the signs; the others compute theirs with the same seed. The seed is a hash of the node's
//! own signature over its result: nobody knows it before there is a result, and of two nodes the one that ends later has a seed that no lie to it can
//! have been made for.
//!
//! Honest results differ by at most a in each coordinate, so a sum over m of them by more than 7·√m·a with probability below 5e-11 (Hoeffding:
//! 2·exp(−7²/2)), and never by more than m·a. A single coordinate that is off by twice that, or all of them off by some 10·a, is seen. So a lie that is
//! not seen moves a mean by little more than was allowed, and the exact loss does not depend on it: sums are functions of the result.

use sha2::{Digest, Sha256};

/// Sums that a node says. Our choice: 128 bytes in a notice; each is over an eighth of the coordinates.
pub const SUMS: usize = 8;

/// The seed of the signs.
pub type Seed = [u8; 16];

/// So many standard deviations of Σ ±1 are never exceeded.
const DEVIATIONS: f64 = 7.0;

/// A seed that nobody knows who does not know `secret`.
pub fn seed_of(secret: &[u8]) -> Seed {
    let hash: [u8; 32] = Sha256::digest(secret).into();
    hash[..16].try_into().expect("16 of 32 bytes")
}

/// The sums of a result's coordinates: coordinate i with its sign goes into sum i modulo [`SUMS`]. What no honest result has wraps.
pub fn sums(seed: &Seed, result: impl Iterator<Item = i128>) -> [i128; SUMS] {
    let mut sums = [0i128; SUMS];
    let mut signs = [0u8; 32];
    for (i, x) in result.enumerate() {
        let bit = i % 256;
        if bit == 0 {
            signs = Sha256::new().chain_update(seed).chain_update((i as u64).to_le_bytes()).finalize().into();
        }
        let sum = &mut sums[i % SUMS];
        *sum = if signs[bit / 8] >> (bit % 8) & 1 == 0 { sum.wrapping_add(x) } else { sum.wrapping_sub(x) };
    }
    sums
}

/// Whether results with these sums can be within `apart` of each other in each of `coordinates`.
pub fn are_near(a: &[i128; SUMS], b: &[i128; SUMS], coordinates: usize, apart: f64) -> bool {
    let each = coordinates.div_ceil(SUMS) as f64;
    let most = apart * each.min(DEVIATIONS * each.sqrt());
    a.iter().zip(b).all(|(a, b)| a.wrapping_sub(*b).unsigned_abs() as f64 <= most)
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Sums of two results that differ by `differ`, under a seed.
    fn near(seed: u8, differ: impl Fn(usize) -> i128, apart: f64) -> bool {
        let result = |i: usize| (i as i128 * 7919) << 40;
        let of = |extra: bool| sums(&[seed; 16], (0..1000).map(|i| result(i) + if extra { differ(i) } else { 0 }));
        are_near(&of(false), &of(true), 1000, apart)
    }

    #[test]
    fn what_is_within_the_bound_is_near_whichever_way_it_differs() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for seed in 0..200 {
            let random: Vec<i128> = (0..1000).map(|_| rng.random_range(-100..=100)).collect();
            assert!(near(seed, |i| random[i], 100.0) && near(seed, |_| 100, 100.0) && near(seed, |_| -100, 100.0));
        }
        // Of few coordinates no sum can be off by more than all of them together.
        let alike = |seed: u8| sums(&[seed; 16], (0..5).map(|_| 0));
        assert!((0..50).all(|seed| are_near(&alike(seed), &sums(&[seed; 16], (0..5).map(|_| 9)), 5, 9.0)));
        assert!((0..50).all(|seed| !are_near(&alike(seed), &sums(&[seed; 16], (0..5).map(|_| 10)), 5, 9.0)));
    }

    #[test]
    fn a_lie_is_seen_in_one_coordinate_and_in_all() {
        let count = |differ: &dyn Fn(usize) -> i128| (0..200).filter(|&seed| !near(seed, differ, 100.0)).count();
        // 7·√125 is 78; the rest is equal.
        assert_eq!(count(&|i| if i == 613 { 7900 } else { 0 }), 200);
        assert_eq!(count(&|i| if i == 613 { 7700 } else { 0 }), 0);
        assert!(count(&|_| 1000) > 198, "{}", count(&|_| 1000));
        assert!(count(&|i| (i as i128 % 3 - 1) << 70) == 200, "beyond 64 bits");
        assert_ne!(sums(&[1; 16], 0..1000), sums(&[2; 16], 0..1000));
    }
}
