//! The lattice where correlated noise is uniform: one grid, and residues everywhere.
//!
//! The residues' width holds the sum of all parties' noisy values alone, whatever the number of
//! rounds: states and shares are uniformly random, and wrap as they like. So a sum that some noise
//! is missing from is uniformly random, too; the width has so many bits to spare that this shows.

use crate::lattice::grid::{Lattice, LatticeError, LatticeRequest};
use crate::lattice::handed_over::EXACT_GRID_LOG2;
use crate::lattice::residue::Ring;
use crate::lattice::width;

/// A step may be 2^4 times as coarse where that saves a byte of every coordinate. Values and noise
/// lie on one grid, however coarse, so that no claim changes; what rounding adds to the variance of
/// a mean is then 2^-24/12 of what independent noise does.
const COARSER: i32 = 4;

impl Lattice {
    /// The residues modulo 2^w − 1 where states are `halved`, else modulo 2^w.
    pub(super) fn fit_residues(request: &LatticeRequest<'_>, halved: bool) -> Result<Self, LatticeError> {
        let unusable = || LatticeError::Parameter {
            field: "the noise's scale",
            value: request.independent_std,
            range: "within about 1e-280 and 1e280",
        };
        // Without independent noise (PPSC) it is the values that set the step.
        let of_vector = if request.independent_std > 0.0 {
            width::step_log2(request.independent_std).ok_or_else(unusable)?
        } else {
            libm::ilogb(request.value_bound).saturating_add(EXACT_GRID_LOG2 as i32)
        };
        // Each row is rounded: so much finer that their sum is off by no more than one vector is.
        let finer = request.rows.max(1).next_power_of_two().trailing_zeros() as i32;
        let most = match request.coarsest.is_finite() {
            true => libm::ilogb(request.coarsest),
            false => i32::MAX,
        };
        let finest = of_vector.saturating_sub(finer).min(most);
        if !(-1000..=900).contains(&finest) {
            return Err(unusable());
        }
        let coarser = if request.independent_std > 0.0 { COARSER } else { 0 };
        let (bytes, step_log2, bits) = (finest..=(finest + coarser).min(most))
            .filter_map(|step_log2| {
                let (bound, std) = (request.value_bound, request.independent_std);
                let bits = width::bits_at(request.parties, bound, std, step_log2)?;
                Some((width::whole_bytes(bits, request.dimension), step_log2, bits))
            })
            .min()
            .ok_or(LatticeError::TooWide { bits: 128 })?;
        let ring = if halved {
            Ring::odd(bytes)
        } else {
            Ring::even(bytes)
        };
        // A sum is told as a signed integer, and compared with its range.
        let ring = ring
            .filter(|_| bits < 128)
            .ok_or(LatticeError::TooWide { bits })?;
        let mut lattice = Lattice {
            step_log2,
            state_bits: if bytes <= 7 { 64 } else { 128 },
            wire_bytes: bytes as u32,
            final_bytes: bytes as u32,
            own_reach: 1i128 << (bits - 1),
            received_bound: 1,
            noise_bits: 0,
            ways: 1,
            rounds: 0,
            value_denominator: 1,
            noise_denominator: 1,
            residues: true,
            injections: 0,
            ring: Some(ring),
        };
        lattice.noise_bits = lattice.noise_bits_for(request)?;
        Ok(lattice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::{Travel, WEIGHT_UNIT};

    fn request(parties: usize, halved: bool) -> LatticeRequest<'static> {
        LatticeRequest {
            parties,
            dimension: 1000,
            travel: Travel::Residues { halved },
            value_bound: 1.0,
            rows: 1,
            coarsest: f64::INFINITY,
            weight_bound: WEIGHT_UNIT,
            // Δ/(μ √(n − 2)) for Δ = 2 and (1, 1e-6).
            independent_std: 2.0 / (0.2367 * (parties as f64 - 2.0).sqrt()),
            correlated_std: 0.0,
            shares_bound: 3,
            epsilon: 1.0,
            delta: 1e-6,
        }
    }

    #[test]
    fn two_hundred_parties_take_three_bytes_and_a_thousand_four() {
        for halved in [true, false] {
            for (parties, bytes) in [(8, 3), (100, 3), (200, 3), (1000, 4)] {
                let lattice = Lattice::fit(&request(parties, halved)).expect("it fits");
                assert_eq!(
                    (lattice.wire_bytes, lattice.final_bytes),
                    (bytes, bytes),
                    "{parties}"
                );
                assert_eq!(lattice.ring().map(Ring::is_odd), Some(halved));
                assert_eq!(
                    (lattice.value_grid(), lattice.round_grid(2), lattice.weight(7)),
                    (1, 1, 0)
                );
                assert!(lattice.sampling_delta(&request(parties, halved)) <= 1e-7);
            }
        }
    }

    /// The step is no coarser than it takes.
    #[test]
    fn a_step_is_coarser_only_where_that_saves_a_byte() {
        let step = |parties| Lattice::fit(&request(parties, true)).expect("it fits").step_log2;
        let finest = |parties| width::step_log2(request(parties, true).independent_std).expect("a deviation");
        assert_eq!(step(8), finest(8));
        assert!((1..=COARSER).contains(&(step(100) - finest(100))));
        assert_eq!(step(1000), finest(1000), "four bytes either way");
    }

    /// A vector of few coordinates has more bits for each, so that an even one shows.
    #[test]
    fn short_vectors_have_bits_to_spare() {
        for dimension in [1, 2, 8, 39, 1000] {
            let lattice = Lattice::fit(&LatticeRequest {
                dimension,
                ..request(8, true)
            })
            .expect("it fits");
            let inside = lattice.own_reach as f64 * 2.0 / libm::exp2(f64::from(8 * lattice.final_bytes));
            assert!(
                inside.powi(dimension as i32) <= libm::exp2(-40f64),
                "{dimension}: {inside}"
            );
        }
    }

    #[test]
    fn many_rows_are_rounded_finer_and_exact_sums_have_a_grid_of_their_own() {
        let one = Lattice::fit(&request(8, true)).expect("it fits");
        let rows = LatticeRequest {
            rows: 1000,
            ..request(8, true)
        };
        assert_eq!(
            Lattice::fit(&rows).expect("it fits").step_log2,
            one.step_log2 - 8,
            "ten bits, and two coarser to save a byte"
        );
        // No coarser than is asked for, however coarse the noise.
        for coarsest in [0.3, 1e-5, 1e-9] {
            let asked = LatticeRequest {
                coarsest,
                ..request(8, false)
            };
            let cell = Lattice::fit(&asked).expect("it fits").value_step();
            assert!(
                cell <= coarsest && cell > coarsest / 32.0 || cell == one.value_step(),
                "{cell}"
            );
        }
        let exact = LatticeRequest {
            independent_std: 0.0,
            ..request(8, false)
        };
        assert_eq!(Lattice::fit(&exact).expect("it fits").step_log2, -32);
        let none = LatticeRequest {
            independent_std: 0.0,
            ..request(8, true)
        };
        assert!(Lattice::fit(&none).is_err(), "INCA has a noise of its own");
    }
}
