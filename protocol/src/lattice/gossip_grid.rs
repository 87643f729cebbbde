//! The lattice of gossip averaging: whole steps, and averages that are rounded to them.
//!
//! A message is what came of the round before, by weights that add up to at most 1, and what its
//! sender adds of its own. So whatever others send within the bound of their round, an honest
//! message is within the bound of its own: no honest one is ever refused, and whether one is
//! depends on that message alone.

use crate::lattice::average::{AVERAGE_BITS, AverageTerms};
use crate::lattice::grid::{Lattice, LatticeError, LatticeRequest, NOISE_GRID_LOG2, NOISE_REACH, bits};

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
        let own = (request.value_bound + NOISE_REACH * request.independent_std) * (-step_log2).exp2();
        let rounding = 1.0 + request.parties as f64;
        let held = (own + 1.0) * f64::from(injections) + rounding * f64::from(rounds);
        let message = bits(held * (1.0 + 1e-9));
        // A weighted sum has as many bits more as a weight, before it is divided.
        if message + AVERAGE_BITS + 1 > 127 {
            return Err(LatticeError::TooWide { bits: message });
        }
        let mut lattice = Lattice {
            step_log2: step_log2 as i32,
            state_bits: if message <= 63 { 64 } else { 128 },
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

    /// A coordinate of a message of round `t` of gossip is at most so many steps in absolute value:
    /// all that its sender may have added so far, and what each round may round off: half a step,
    /// divided by a weight that is as small as 1/n if nobody's message comes (n parties).
    pub(super) fn message_bound(&self, t: u32) -> i128 {
        let added = self.own_reach.saturating_mul(i128::from(self.injections.min(t)));
        added.saturating_add(i128::from(self.received_bound).saturating_mul(i128::from(t)))
    }
}
