//! What a node tells of its result, so that others see whether theirs is the same: sums of its
//! coordinates with random signs.
//!
//! A neighbour that lies can leave two honest nodes with different results, each of which looks
//! right from where it stands. So whoever has its result of the whole of E floods its sums, with
//! the seed of the signs; the others compute theirs with the same seed. When, and who may count
//! them, is in `comparing`: nobody may know the signs before the results are fixed that they
//! compare.
//!
//! # What near sums say, and what not
//! Honest results differ by at most a in each coordinate (their bounds, ν at most together), so a
//! sum over m = ⌈d / [`SUMS`]⌉ of them differs by at most m·a, and by more than 7·√m·a with
//! probability below 5e-11 (Hoeffding: 2·exp(−7²/2)). Sums are *near* up to the smaller of these
//! ([`reach`] × a). So:
//!
//! - Up to [`SUMS`] coordinates each has a sum of its own, and near results are within a in each.
//! - Of more, a lie in a single coordinate is seen only beyond [`reach`] × a, that is 1.24·√d·a
//!   from d = 1568 on: at a million coordinates and ν = 1e-3, one coordinate in each sum may be off
//!   by 1.2 standard errors. Two nodes that are near to a third may be twice as far from each
//!   other.
//! - One that is spread out is seen with a good probability in *each* sum once its root mean square
//!   is above some 7·a, hence almost surely in one of them.
//!
//! Nodes differ by at most ν in each coordinate only if nobody lied.
//!
//! The exact loss does not depend on any of this: sums are functions of the result.

use sha2::{Digest, Sha256};

/// Sums in a sketch. Our choice: 256 bytes; each is over a 32nd of the coordinates.
pub const SUMS: usize = 32;

/// Sketches that a node tells at most. Our choice: one as a rule, one more for those that ended
/// later, and two that liars may cause.
pub const MOST_SKETCHES: u8 = 4;

/// The seed of the signs.
pub type Seed = [u8; 16];

/// So many standard deviations of Σ ±1 are never exceeded.
const DEVIATIONS: f64 = 7.0;

/// Sums are told in units of a power of two of steps, so many or more of which make up what results
/// may differ by: they fit into 64 bits then.
const UNITS_LOG2: u32 = 6;

/// How results are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// How far honest results may be from each other in each coordinate, in steps of the lattice.
    pub apart: f64,
    /// Sums are in units of 2^this steps.
    unit_log2: u32,
}

impl Measure {
    /// `own`: how far this node's result may be from the exact one, in steps; `most`: any other's.
    /// Units follow from `most`, which all know.
    pub fn of(own: f64, most: f64) -> Self {
        let unit_log2 = (most as u128)
            .checked_ilog2()
            .unwrap_or(0)
            .saturating_sub(UNITS_LOG2);
        Measure {
            apart: own + most,
            unit_log2,
        }
    }
}

/// A seed that nobody knows who does not know `secret`.
pub fn seed_of(secret: &[u8]) -> Seed {
    let hash: [u8; 32] = Sha256::digest(secret).into();
    hash[..16].try_into().expect("16 of 32 bytes")
}

/// The signs of the coordinates, in order: whether each is added.
pub fn signs(seed: &Seed) -> impl Iterator<Item = bool> {
    let seed = *seed;
    (0u64..).flat_map(move |block| {
        let bits: [u8; 32] = Sha256::new()
            .chain_update(seed)
            .chain_update((256 * block).to_le_bytes())
            .finalize()
            .into();
        (0..256).map(move |bit| bits[bit / 8] >> (bit % 8) & 1 == 0)
    })
}

/// The sums of a result's coordinates: coordinate i with its sign goes into sum i modulo [`SUMS`].
/// What no honest result has wraps or saturates.
pub fn sums(seed: &Seed, result: impl Iterator<Item = i128>, measure: &Measure) -> [i64; SUMS] {
    let mut sums = [0i128; SUMS];
    for (i, (x, added)) in result.zip(signs(seed)).enumerate() {
        let sum = &mut sums[i % SUMS];
        *sum = if added {
            sum.wrapping_add(x)
        } else {
            sum.wrapping_sub(x)
        };
    }
    sums.map(|sum| (sum >> measure.unit_log2).clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Sums of results of so many coordinates are near if they differ by at most so many times what
/// these may differ by in each.
pub fn reach(coordinates: usize) -> f64 {
    let each = coordinates.div_ceil(SUMS) as f64;
    each.min(DEVIATIONS * each.sqrt())
}

/// Whether results with these sums can be as near to each other in each of `coordinates` as the
/// measure says.
pub fn are_near(a: &[i64; SUMS], b: &[i64; SUMS], coordinates: usize, measure: &Measure) -> bool {
    let unit = libm::exp2(f64::from(measure.unit_log2));
    // Two sums are rounded down to whole units.
    let most = measure.apart * reach(coordinates) + if measure.unit_log2 > 0 { unit } else { 0.0 };
    let is_saturated = |sum: &i64| [i64::MIN, i64::MAX].contains(sum);
    a.iter()
        .zip(b)
        .all(|(a, b)| !is_saturated(a) && !is_saturated(b) && a.abs_diff(*b) as f64 * unit <= most)
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const COORDINATES: usize = 125 * SUMS;

    fn measure(apart: f64) -> Measure {
        Measure::of(apart, 0.0)
    }

    /// Sums of two results that differ by `differ`, under a seed.
    fn near(seed: u8, differ: impl Fn(usize) -> i128, measure: &Measure) -> bool {
        let result = |i: usize| (i as i128 * 7919) << 20;
        let extra = |i: usize, extra: bool| if extra { differ(i) } else { 0 };
        let of = |other: bool| {
            sums(
                &[seed; 16],
                (0..COORDINATES).map(|i| result(i) + extra(i, other)),
                measure,
            )
        };
        are_near(&of(false), &of(true), COORDINATES, measure)
    }

    #[test]
    fn what_is_within_the_bound_is_near_whichever_way_it_differs() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for seed in 0..100 {
            let random: Vec<i128> = (0..COORDINATES).map(|_| rng.random_range(-100..=100)).collect();
            for measure in [measure(100.0), Measure::of(36.0, 64.0), Measure::of(0.0, 100.0)] {
                assert!(
                    near(seed, |i| random[i], &measure)
                        && near(seed, |_| 100, &measure)
                        && near(seed, |_| -100, &measure)
                );
            }
        }
        // Of few coordinates no sum can be off by more than all of them together.
        let alike = |seed: u8, x: i128| sums(&[seed; 16], (0..5).map(|_| x), &measure(9.0));
        assert!((0..50).all(|seed| are_near(&alike(seed, 0), &alike(seed, 9), 5, &measure(9.0))));
        assert!((0..50).all(|seed| !are_near(&alike(seed, 0), &alike(seed, 10), 5, &measure(9.0))));
    }

    #[test]
    fn a_lie_is_seen_in_one_coordinate_and_in_all() {
        let count = |differ: &dyn Fn(usize) -> i128| {
            (0..200)
                .filter(|&seed| !near(seed, differ, &measure(100.0)))
                .count()
        };
        // 7·√125 is 78; the rest is equal.
        assert_eq!(reach(COORDINATES).floor(), 78.0);
        assert_eq!(count(&|i| if i == 613 { 7900 } else { 0 }), 200);
        assert_eq!(count(&|i| if i == 613 { 7700 } else { 0 }), 0);
        assert_eq!(count(&|_| 1000), 200);
        assert_eq!(count(&|i| (i as i128 % 3 - 1) << 70), 200, "beyond 64 bits");
        assert_ne!(
            sums(&[1; 16], 0..1000, &measure(1.0)),
            sums(&[2; 16], 0..1000, &measure(1.0))
        );
    }

    #[test]
    fn coarse_sums_hold_large_results_and_still_tell_lies() {
        let measure = Measure::of(0.0, 2f64.powi(70));
        assert_eq!(
            measure,
            Measure {
                apart: 2f64.powi(70),
                unit_log2: 64
            }
        );
        let of = |lie: i128| {
            sums(
                &[7; 16],
                (0..10).map(|i| (i << 90) + if i == 4 { lie } else { 0 }),
                &measure,
            )
        };
        assert!(
            are_near(&of(0), &of(1 << 70), 10, &measure)
                && !are_near(&of(0), &of((1 << 70) + (1 << 66)), 10, &measure)
        );
        // Two that are beyond all reach are not the same.
        let saturated = sums(&[7; 16], [i128::MAX / 2; 3].into_iter(), &Measure::of(0.0, 1.0));
        assert!(!are_near(&saturated, &saturated, 3, &measure));
    }
}
