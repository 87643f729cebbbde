//! The lattice of gossip averaging: whole steps, and averages that are rounded to them.
//!
//! A message is what came of the round before, by weights that add up to at most 1, and what its
//! sender adds of its own. So whatever others send within the bound of their round, an honest
//! message is within the bound of its own: no honest one is ever refused, and whether one is
//! depends on that message alone.

use crate::lattice::average::{AVERAGE_BITS, AverageTerms};
use crate::lattice::grid::{Lattice, LatticeError, LatticeRequest, NOISE_GRID_LOG2, NOISE_REACH, bits};
use crate::lattice::residue::Ring;
use crate::lattice::vector::LatticeVector;

/// The noise of a vector that is sealed for a reader is up to 2^9 times as many steps as a
/// message's own: 2^-6 of that, in units of 2^-16 of a step, times a weight below a half.
const OWN_NOISE_BITS: u32 = 10;

impl Lattice {
    /// The lattice of averages in which a party adds values and noise of its own in the first
    /// rounds.
    pub(super) fn fit_averaged(
        request: &LatticeRequest<'_>,
        terms: AverageTerms,
    ) -> Result<Self, LatticeError> {
        let AverageTerms {
            rounds,
            injections,
            finest,
            readers,
        } = terms;
        let smooth = libm::log2(request.independent_std) + f64::from(NOISE_GRID_LOG2);
        let step_log2 = smooth.min(libm::log2(finest)).floor();
        if !(-1000.0..=900.0).contains(&step_log2) {
            return Err(LatticeError::Parameter {
                field: "the noise's scale",
                value: request.independent_std,
                range: "within about 1e-280 and 1e280",
            });
        }
        let own = (request.value_bound + NOISE_REACH * request.independent_std) * libm::exp2(-step_log2);
        // Where sums are sealed, beside each message comes noise of a 64th of the message's own.
        let (own, spare) = match readers {
            0 => (own, 0),
            _ => (own * (1.0 + 1.0 / 64.0), OWN_NOISE_BITS),
        };
        let rounding = 1.0 + request.parties as f64;
        let held = (own + 1.0) * f64::from(injections) + rounding * f64::from(rounds);
        let message = bits(held * (1.0 + 1e-9));
        // A weighted sum has as many bits more as a weight, before it is divided.
        if message + AVERAGE_BITS + 1 > 127 {
            return Err(LatticeError::TooWide { bits: message });
        }
        let mut lattice = Lattice {
            step_log2: step_log2 as i32,
            state_bits: if message + spare <= 63 { 64 } else { 128 },
            wire_bytes: message.div_ceil(8),
            final_bytes: message.div_ceil(8),
            own_reach: own.ceil() as i128 + 1,
            // What rounding may add in a round.
            received_bound: request.parties as u32 + 1,
            noise_bits: 0,
            ways: 1,
            rounds,
            value_denominator: 1,
            noise_denominator: 1,
            residues: false,
            injections,
            ring: None,
        };
        lattice.noise_bits = lattice.noise_bits_for(request)?;
        Ok(lattice)
    }

    /// Vectors, one after the other, as one.
    pub fn joined(&self, vectors: impl Iterator<Item = LatticeVector>) -> LatticeVector {
        let steps = vectors.flat_map(|vector| vector.steps().collect::<Vec<_>>());
        self.vector(steps)
    }

    /// A coordinate of a sum of a circle in round `t`, this party's own message in it, is at most
    /// so many units of 2^-16 of a step in absolute value: weights add up to 1 at most, and the
    /// bound of messages has room for the noise of what is sealed.
    pub(crate) fn circle_bound(&self, t: u32) -> i128 {
        self.message_bound(t).saturating_mul(1 << AVERAGE_BITS)
    }

    /// The ring of what is sealed for a circle: four times as wide as any sum, so that none wraps;
    /// none where that is wider than residues are, or where nothing is averaged.
    pub(crate) fn circle_ring(&self) -> Option<Ring> {
        let most = self.circle_bound(self.rounds) as f64;
        let bits = bits(2.0 * most);
        (self.injections > 0).then_some(())?;
        Ring::even(bits.div_ceil(8) as usize)
    }

    /// A coordinate of a message of round `t` of gossip is at most so many steps in absolute value:
    /// all that its sender may have added so far, and what each round may round off: half a step,
    /// divided by a weight that is as small as 1/n if nobody's message comes (n parties).
    pub(super) fn message_bound(&self, t: u32) -> i128 {
        let added = self.own_reach.saturating_mul(i128::from(self.injections.min(t)));
        added.saturating_add(i128::from(self.received_bound).saturating_mul(i128::from(t)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::{Travel, WEIGHT_UNIT};
    use crate::lattice::sampling;

    fn request(readers: usize, rounds: u32, value_bound: f64) -> LatticeRequest<'static> {
        LatticeRequest {
            parties: 9,
            dimension: 1000,
            travel: Travel::Average(AverageTerms {
                rounds,
                injections: rounds,
                finest: f64::INFINITY,
                readers,
            }),
            value_bound,
            rows: 1,
            coarsest: f64::INFINITY,
            weight_bound: WEIGHT_UNIT,
            independent_std: 3.0,
            correlated_std: 0.0,
            shares_bound: 1,
            epsilon: 1.0,
            delta: 1e-6,
        }
    }

    /// A party draws the noise of its message, and of each vector that it seals for a reader.
    #[test]
    fn sampling_counts_the_noise_of_the_vectors_for_readers() {
        let lattice = Lattice::fit(&request(8, 5, 1.0)).expect("it fits");
        let delta = |readers| lattice.sampling_delta(&request(readers, 5, 1.0));
        let scale = libm::exp2(f64::from(-lattice.step_log2));
        let variates = |std: f64| sampling::levels(std * scale, 1, lattice.noise_bits).len();
        assert_eq!((variates(3.0), variates(512.0 * 3.0)), (1, 2), "of a coordinate");
        // δ grows as the root of the number of variates: 1, and 2 for each of 8 readers.
        let ratio = delta(8) / delta(0);
        assert!((ratio - 17f64.sqrt()).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn the_ring_of_circles_holds_twice_any_sum_and_is_no_byte_wider() {
        let mut widths = std::collections::BTreeSet::new();
        for rounds in [1, 2, 3, 7, 30, 200] {
            for size in 0..60 {
                let value_bound = 1.31f64.powi(size);
                let Ok(lattice) = Lattice::fit(&request(8, rounds, value_bound)) else {
                    continue;
                };
                let Some(ring) = lattice.circle_ring() else {
                    continue;
                };
                let (most, bits) = (lattice.circle_bound(rounds), 8 * ring.width() as u32);
                let what = format!("T = {rounds}, {value_bound}: {most} in {bits} bits");
                assert!(2 * most < 1 << (bits - 1), "{what}");
                assert!(2 * most >= 1 << (bits - 9), "{what}");
                widths.insert(ring.width());
            }
        }
        assert!(widths.len() >= 3, "{widths:?}");
    }

    /// A message of an honest party is within its round's bound: n releases at their utmost, and
    /// rounding. One step beyond it is refused.
    #[test]
    fn a_message_has_room_for_all_releases_so_far_and_for_no_more() {
        let lattice = Lattice::fit(&request(0, 40, 1.0)).expect("it fits");
        let terms = LatticeRequest {
            travel: Travel::Average(AverageTerms {
                rounds: 40,
                injections: 2,
                finest: f64::INFINITY,
                readers: 0,
            }),
            ..request(0, 40, 1.0)
        };
        let two = Lattice::fit(&terms).expect("it fits");
        let step = lattice.step();
        let utmost = (1.0 + NOISE_REACH * 3.0) / step;
        for t in 1..=40 {
            let rounding = f64::from(t) * 10.0;
            for (lattice, releases) in [(&lattice, t), (&two, t.min(2))] {
                let least = utmost * f64::from(releases) + rounding;
                let bound = lattice.message_bound(t) as f64;
                assert!(
                    (least..least + 2.0 * f64::from(releases)).contains(&bound),
                    "round {t}: {bound}"
                );
                let mut bytes = vec![0; lattice.wire_bytes as usize];
                let steps = |steps: i128| lattice.vector(std::iter::once(steps));
                let most = lattice.message_bound(t);
                assert!(lattice.write_share(&steps(-most), t, &mut bytes).is_ok());
                assert!(lattice.write_share(&steps(most + 1), t, &mut bytes).is_err());
            }
        }
    }
}
