//! The lattice of PPSC: one grid for everything, and residues on the wire.
//!
//! Nothing is divided: values and noises are whole steps, a share is a difference of states. So the
//! numbers may be taken modulo 2^w, w the wire's width, and every vector of w-bit integers is a
//! share that an honest party might send: none is refused for its size, none overflows, whatever
//! peers send (a bound on a share would have to grow along every chain of exchanges, or else what
//! is refused would depend on what honest parties hold). The view is a function of the one over the
//! integers, so no loss is larger. The width covers all parties' values and twelve standard
//! deviations of all noises meeting at one node, so that of honest parties' states and sums none is
//! ever cut.

use crate::lattice::grid::{Lattice, LatticeError, LatticeRequest, NOISE_GRID_LOG2, NOISE_REACH, bits};

/// The largest grid, as a fraction of its range, where no independent noise blurs a value: 2^-32,
/// f32's and more.
pub(super) const EXACT_GRID_LOG2: f64 = -32.0;

impl Lattice {
    /// The lattice for so many exchanges. Without independent noise (`independent_std` = 0) it is
    /// the values that set the step.
    pub(super) fn fit_handed_over(
        request: &LatticeRequest<'_>,
        exchanges: usize,
        finest: Option<f64>,
    ) -> Result<Self, LatticeError> {
        // The step: as coarse as the noises allow.
        let smooth = |std: f64| libm::log2(std) + f64::from(NOISE_GRID_LOG2);
        let blurred = if request.independent_std > 0.0 {
            smooth(request.independent_std)
        } else {
            libm::log2(request.value_bound) + EXACT_GRID_LOG2
        };
        let per_row = libm::log2(request.rows.max(1) as f64);
        let coarsest = smooth(request.correlated_std).min(blurred) - per_row;
        let step_log2 = coarsest.min(finest.map_or(f64::INFINITY, libm::log2)).floor();
        if !(-1000.0..=900.0).contains(&step_log2) {
            let value = request.correlated_std;
            return Err(LatticeError::Parameter {
                field: "the noise's scale",
                value,
                range: "within about 1e-280 and 1e280",
            });
        }
        // The wire's width: all values and all noises may meet at one node.
        let parties = request.parties as f64;
        let noise = (parties * request.independent_std.powi(2)
            + exchanges as f64 * request.correlated_std.powi(2))
        .sqrt();
        let held = (parties * request.value_bound + NOISE_REACH * noise) * libm::exp2(-step_log2);
        let wire_bytes = bits(held * (1.0 + 1e-9)).div_ceil(8);
        // A state is a sum of residues: its value, what came in, what came back and a noise for
        // each; the result is one of n.
        let terms = (2.0 + 3.0 * request.shares_bound as f64).max(parties);
        let needed = bits(terms * libm::exp2(f64::from(wire_bytes * 8)));
        let weight = bits(request.weight_bound as f64 * parties * (4.0 + 2.0 * request.shares_bound as f64));
        if needed.max(weight) > 127 {
            return Err(LatticeError::TooWide {
                bits: needed.max(weight),
            });
        }
        let mut lattice = Lattice {
            step_log2: step_log2 as i32,
            state_bits: if needed <= 63 { 64 } else { 128 },
            wire_bytes,
            final_bytes: wire_bytes,
            // A state may hold everybody's values and noises: a final reaches as far.
            own_reach: held.ceil() as i128,
            received_bound: 1,
            noise_bits: 0,
            ways: 1,
            rounds: 0,
            value_denominator: 1,
            noise_denominator: 1,
            residues: true,
            injections: 0,
            ring: None,
        };
        lattice.noise_bits = lattice.noise_bits_for(request)?;
        Ok(lattice)
    }
}
