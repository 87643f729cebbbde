//! States as vectors of integers, in steps of a power of two, so that every split is exact and mass
//! is conserved to the bit.
//!
//! With fan-out k and T rounds, what is injected in round t is a multiple of (k+1)^(T−t) steps, so
//! the state before round t + 1 can be divided by k + 1, and every share of round t lies on the
//! grid (k+1)^(T−t). A plain shift would make shares depend on the data's low bits, outside of what
//! the accountant sees; floating point is worse (Mironov 2012). PPSC divides nothing: its lattice
//! has one grid, see `handed_over`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::lattice::average::AverageTerms;
use crate::lattice::injection::Injection;
use crate::lattice::packed::{Coordinates, PackedVector, VectorError};
use crate::lattice::payload::{Payload, Ratio};
use crate::lattice::residue::{ResidueVector, Ring};
use crate::lattice::sampling;
use crate::lattice::vector::{LatticeVector, Words};

/// The lattice that a plan fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lattice {
    /// One step is 2^`step_log2` in the data's unit.
    pub step_log2: i32,
    /// Width of a state's coordinate in memory: 64 or 128 bits.
    pub state_bits: u32,
    /// Bytes a coordinate of a share on the wire, little-endian two's complement.
    pub wire_bytes: u32,
    /// Bytes a coordinate of a final state on the wire.
    pub final_bytes: u32,
    /// The bound of one party's injections in steps, in absolute value. With PPSC it bounds a
    /// party's state; in a ring, a sum of finals.
    pub own_reach: i128,
    /// The most shares that one party is due in one round.
    pub received_bound: u32,
    /// A normal variate is rounded to 2^−`noise_bits` standard deviations before finer bits are
    /// filled (see `noise`).
    pub noise_bits: u32,
    /// Into so many parts a state is split: one more than the fan-out k.
    pub ways: u32,
    /// The number of rounds T.
    pub rounds: u32,
    /// q, the common denominator of the injection's c, by which values enter.
    pub value_denominator: u32,
    /// The common denominator of the injection's Z, by which noises enter.
    pub noise_denominator: u32,
    /// PPSC: shares and finals are residues modulo 2^(8 × `wire_bytes`), none of which is refused.
    pub residues: bool,
    /// Gossip averaging: in how many rounds, from the first on, a party adds something of its own;
    /// 0 with all else.
    pub injections: u32,
    /// The ring of states, shares and finals, where correlated noise is uniform.
    pub(super) ring: Option<Ring>,
}

/// The way in which values travel on a lattice.
#[derive(Clone, Copy, Debug)]
pub enum Travel<'a> {
    /// INCA: states are split.
    Split {
        /// The fan-out k: to how many parties each sends in a round.
        fanout: u32,
        /// The factors (c, Z) by which value and noise enter, and the number of their rounds.
        injection: &'a Injection<Ratio>,
        /// The largest number of shares that one party is due in one round.
        received_bound: usize,
    },
    /// Uniform correlated noise: states, shares and finals are residues, of 2^w − 1 where states
    /// are halved (INCA), else of 2^w.
    Residues {
        /// Whether a share is half of a state.
        halved: bool,
    },
    /// PPSC: states are handed over whole.
    HandOver {
        /// The number of exchanges of all parties together.
        exchanges: usize,
        /// A step is at most this, in the data's unit; `None`: as coarse as noise and values allow.
        finest: Option<f64>,
    },
    /// Gossip: states are averaged over neighbours, round by round, and rounded.
    Average(AverageTerms),
}

/// The requirements on a lattice.
#[derive(Clone, Debug)]
pub struct LatticeRequest<'a> {
    /// The number of parties n.
    pub parties: usize,
    /// Coordinates of a state.
    pub dimension: usize,
    /// The way in which values travel between parties.
    pub travel: Travel<'a>,
    /// The largest absolute coordinate that a party injects (weighted, clipped), in the data's
    /// unit.
    pub value_bound: f64,
    /// The largest number of vectors that one party rounds and then adds up: its records, 1 where
    /// it contributes a vector.
    pub rows: u64,
    /// The largest distance that neighbouring inputs may have, in the data's unit; ∞ where their
    /// noise alone sets it. Kept where correlated noise is uniform.
    pub coarsest: f64,
    /// The largest public weight of a party, in units of 2^-20 (a party of weight 1 has 2^20).
    pub weight_bound: u64,
    /// σ*, in the data's unit; with PPSC it may be 0.
    pub independent_std: f64,
    /// The noise that cancels: σ_Δ of INCA, σ_γ of PPSC, in the data's unit.
    pub correlated_std: f64,
    /// The largest number of shares that one party is due to send, or due to receive, in the whole
    /// run.
    pub shares_bound: usize,
    /// The plan's budget, of which sampling may take a tenth of δ.
    pub epsilon: f64,
    /// The δ of the plan's budget.
    pub delta: f64,
}

/// A reason why no lattice fits.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LatticeError {
    /// A parameter out of its range.
    #[error("lattice: {field} = {value} is not usable; it must be {range}")]
    Parameter {
        /// The name of the parameter.
        field: &'static str,
        /// The value that it has.
        value: f64,
        /// The range that would do.
        range: &'static str,
    },
    /// More than 127 bits a coordinate.
    #[error(
        "lattice: a state needs {bits} bits a coordinate, more than 127; use fewer rounds or a smaller fan-out"
    )]
    TooWide {
        /// The bits that a coordinate would need.
        bits: u32,
    },
    /// f64 noise is too coarse for so small a δ.
    #[error(
        "lattice: sampling noise in f64 adds {added:e} to delta, more than a tenth of {delta:e}; use a smaller epsilon, a larger delta or a smaller dimension"
    )]
    Sampling {
        /// The δ that sampling adds at best.
        added: f64,
        /// δ of the plan.
        delta: f64,
    },
}

/// Noise further out than this many standard deviations is clamped; its probability, below 4e-33 a
/// draw, is part of the sampling bound.
pub const NOISE_REACH: f64 = 12.0;

/// The coarsest grid of a noise is at most this fraction of its standard deviation: 2^-16.
pub(super) const NOISE_GRID_LOG2: i32 = -16;

/// A weight of 1 is this many units, so that public weights are multiples of 2^-20.
pub const WEIGHT_UNIT: u64 = 1 << 20;

/// Bits that hold every integer of absolute value up to `bound`, with its sign; saturates for what
/// no integer type holds.
pub(super) fn bits(bound: f64) -> u32 {
    (libm::log2(bound).floor().clamp(0.0, 10_000.0) as u32).saturating_add(2)
}

/// The largest integer of so many bits, its sign not counted.
fn below(bits: u32) -> i128 {
    i128::MAX >> (127 - bits)
}

impl Lattice {
    /// The lattice on which the finest step is as coarse as the noise allows: no grid is coarser
    /// than 2^-16 of the noise on it.
    pub fn fit(request: &LatticeRequest<'_>) -> Result<Self, LatticeError> {
        request.check()?;
        match request.travel {
            Travel::Split {
                fanout,
                injection,
                received_bound,
            } => Self::fit_split(request, fanout, injection, received_bound),
            Travel::HandOver { exchanges, finest } => Self::fit_handed_over(request, exchanges, finest),
            Travel::Residues { halved } => Self::fit_residues(request, halved),
            Travel::Average(terms) => Self::fit_averaged(request, terms),
        }
    }

    fn fit_split(
        request: &LatticeRequest<'_>,
        fanout: u32,
        injection: &Injection<Ratio>,
        received_bound: usize,
    ) -> Result<Self, LatticeError> {
        let value_denominator = injection.value_denominator();
        let ways = fanout + 1;
        let rounds = injection.rounds() as u32;
        let noise_denominator = injection.noise_denominator();
        let coarsest = f64::from(ways).powi(rounds as i32);
        let value_steps = value_denominator as f64 * coarsest;
        // Both noises must be smooth on the coarsest grid that they live on.
        let per_step = (request.independent_std / value_steps)
            .min(request.correlated_std / (noise_denominator as f64 * coarsest));
        // Each row is rounded towards zero, by half a cell on average: so much finer that their sum
        // is off by no more than one vector is.
        let per_row = per_step / request.rows.max(1) as f64;
        // The library's logarithm, not the platform's: all members must find the same step.
        let step_log2 = (libm::log2(per_row) + f64::from(NOISE_GRID_LOG2)).floor();
        if !(-1000.0..=900.0).contains(&step_log2) {
            return Err(LatticeError::Parameter {
                field: "the noise's scale",
                value: request.independent_std,
                range: "within about 1e-280 and 1e280",
            });
        }
        let reach = request.reach(injection);
        let scale = libm::exp2(-step_log2);
        let (mut held, mut share_bound) = (reach.likely * scale, 0.0);
        for _ in 0..rounds {
            share_bound = held / f64::from(ways) + 1.0;
            held += received_bound as f64 * share_bound;
        }
        // A share's largest coordinate with its sign, and some room for the rounding of these few
        // sums.
        let share_bits = bits(share_bound * (1.0 + 1e-9));
        // Own injections, plus every share in and (rolled back) every share out, all at the bound:
        // no sum can overflow.
        let state = reach.own * scale + held + request.shares_bound as f64 * share_bound;
        // In a final each piece that was injected or came in counts at most once, with either sign.
        let final_bits = bits(held * (1.0 + 1e-9));
        let needed = bits(state.max(request.parties as f64 * libm::exp2(f64::from(final_bits))));
        let weight = request.weight_bound as f64
            * request.parties as f64
            * value_steps
            * (4.0 + 2.0 * request.shares_bound as f64);
        if needed.max(bits(weight)) > 127 {
            return Err(LatticeError::TooWide {
                bits: needed.max(bits(weight)),
            });
        }
        let mut lattice = Lattice {
            step_log2: step_log2 as i32,
            state_bits: if needed <= 63 { 64 } else { 128 },
            wire_bytes: share_bits.div_ceil(8),
            final_bytes: final_bits.div_ceil(8),
            own_reach: (reach.likely * scale).ceil() as i128,
            received_bound: received_bound as u32,
            noise_bits: 0,
            ways,
            rounds,
            value_denominator: value_denominator as u32,
            noise_denominator: noise_denominator as u32,
            residues: false,
            injections: 0,
            ring: None,
        };
        lattice.noise_bits = lattice.noise_bits_for(request)?;
        Ok(lattice)
    }

    pub(super) fn noise_bits_for(&self, request: &LatticeRequest<'_>) -> Result<u32, LatticeError> {
        let added = |noise_bits| self.sampling_delta_at(request, noise_bits);
        (sampling::COARSEST_BITS..=sampling::FINEST_BITS)
            .rev()
            .find(|&noise_bits| added(noise_bits) <= request.delta / 10.0)
            .ok_or(LatticeError::Sampling {
                added: added(sampling::COARSEST_BITS),
                delta: request.delta,
            })
    }

    /// Returns the most that sampling and rounding of the noise can add to δ in the whole run (see
    /// [`sampling::sampling_delta`]).
    pub fn sampling_delta(&self, request: &LatticeRequest<'_>) -> f64 {
        self.sampling_delta_at(request, self.noise_bits)
    }

    fn sampling_delta_at(&self, request: &LatticeRequest<'_>, noise_bits: u32) -> f64 {
        let scale = libm::exp2(f64::from(-self.step_log2));
        let levels = |std: f64, grid: i128| sampling::levels(std * scale, grid, noise_bits).len() as f64;
        let readers = match request.travel {
            Travel::Average(terms) => terms.readers as f64,
            _ => 0.0,
        };
        let independent = if request.independent_std > 0.0 {
            // A vector for a reader has at most 2^9 times the noise of a message, in its units.
            let sealed = readers * levels(512.0 * request.independent_std, self.value_grid());
            request.parties as f64 * (levels(request.independent_std, self.value_grid()) + sealed)
        } else {
            0.0
        };
        let correlated = match request.travel {
            Travel::Split { injection, .. } => {
                let of = |k| {
                    levels(
                        request.correlated_std,
                        self.noise_grid(injection.first_use(k) as u32),
                    )
                };
                request.parties as f64 * (0..self.rounds as usize).map(of).sum::<f64>()
            }
            Travel::HandOver { exchanges, .. } => exchanges as f64 * levels(request.correlated_std, 1),
            // No normal variate: raw words of the cipher; or nothing.
            Travel::Residues { .. } | Travel::Average(_) => 0.0,
        };
        let draws = request.dimension as f64 * (independent + correlated);
        sampling::sampling_delta(request.epsilon, draws, noise_bits)
    }

    /// The grid of a party's value x and of its independent noise η*, in steps: q (k+1)^T, with q
    /// the denominator of the values, fan-out k and T rounds.
    pub fn value_grid(&self) -> i128 {
        i128::from(self.value_denominator) * self.round_grid(0)
    }

    /// The grid of a noise that is first injected in round `t`, in steps.
    pub fn noise_grid(&self, t: u32) -> i128 {
        i128::from(self.noise_denominator) * self.round_grid(t.min(self.rounds))
    }

    /// The grid of what is injected in round `t`, and of the shares of round `t`, in steps:
    /// (k+1)^(T−t), with fan-out k and T rounds.
    pub fn round_grid(&self, t: u32) -> i128 {
        i128::from(self.ways).saturating_pow(self.rounds.saturating_sub(t))
    }

    /// A coordinate of a share of round `t` is at most so many steps in absolute value; what is
    /// larger is refused.
    ///
    /// Whatever peers send, an honest share of round t is within this bound: its sender's state is
    /// at most what it injected itself (beyond [`NOISE_REACH`] deviations with a probability that
    /// the sampling bound has), plus all shares due to it in earlier rounds, each at *its* bound,
    /// on time or late, with all of its own shares back; and a share is one of the k + 1 parts of
    /// that (fan-out k). So whether a share leaves, or is refused, never depends on what honest
    /// parties hold. The bound grows by a factor of 1 + k/(k+1) a round.
    pub fn share_bound(&self, t: u32) -> i128 {
        if self.residues {
            return below(self.wire_bytes * 8 - 1);
        }
        if self.injections > 0 {
            return self.message_bound(t);
        }
        let part = |held: i128| held / i128::from(self.ways) + 1;
        let held = (1..t).fold(self.own_reach, |held, _| {
            held.saturating_add(part(held).saturating_mul(i128::from(self.received_bound)))
        });
        part(held)
    }

    /// One step, in the data's unit.
    pub fn step(&self) -> f64 {
        libm::exp2(f64::from(self.step_log2))
    }

    /// The distance of two neighbouring inputs, in the data's unit: inputs are multiples of it.
    pub fn value_step(&self) -> f64 {
        self.value_grid() as f64 * self.step()
    }

    /// The weight in a state of a party whose public weight is `units` × 2^-20. With residues none
    /// travels: the plan says it all.
    pub fn weight(&self, units: u64) -> i128 {
        if self.ring.is_some() {
            return 0;
        }
        i128::from(units) * self.value_grid()
    }

    /// A state's weight as a number: 1 for a party of weight 1.
    pub fn weight_to_f64(&self, weight: i128) -> f64 {
        weight as f64 / (self.value_grid() as f64 * WEIGHT_UNIT as f64)
    }

    /// Rounds towards zero onto the grid of inputs, so that a clipped vector cannot leave its ball.
    pub fn encode(&self, values: impl Iterator<Item = f64>) -> LatticeVector {
        let (cell, grid) = (self.value_step(), self.value_grid());
        if self.ring.is_none() && self.state_bits == 64 {
            let grid = grid as i64;
            return LatticeVector(Words::Narrow(
                values.map(|x| (x / cell).trunc() as i64 * grid).collect(),
            ));
        }
        self.vector(values.map(|x| (x / cell).trunc() as i128 * grid))
    }

    /// A vector of these coordinates, in steps; what a state cannot hold wraps.
    pub(crate) fn vector(&self, steps: impl Iterator<Item = i128>) -> LatticeVector {
        LatticeVector(match self.cells() {
            Coordinates::Integers(64) => Words::Narrow(steps.map(|step| step as i64).collect()),
            Coordinates::Integers(_) => Words::Wide(steps.collect()),
            Coordinates::Residues(ring) => Words::Residues(ResidueVector::of(ring, steps)),
        })
    }

    /// A vector of zeros.
    pub fn zeros(&self, dimension: usize) -> LatticeVector {
        LatticeVector::zeros(self.cells(), dimension)
    }

    /// The ring of states, shares and finals, where correlated noise is uniform.
    pub const fn ring(&self) -> Option<Ring> {
        self.ring
    }

    pub(super) fn cells(&self) -> Coordinates {
        match self.ring {
            Some(ring) => Coordinates::Residues(ring),
            None => Coordinates::Integers(self.state_bits),
        }
    }

    /// Writes a share of round `t` into a frame's own bytes, as many as it takes. Residues always
    /// fit.
    pub fn write_share(&self, vector: &LatticeVector, t: u32, bytes: &mut [u8]) -> Result<(), VectorError> {
        if self.residues {
            return vector.write(self.wire_bytes, i128::MAX, bytes);
        }
        vector.write(self.wire_bytes, self.share_bound(t), bytes)
    }

    /// A share of round `t` from the wire: refused unless every coordinate is a multiple of its
    /// round's grid and within the plan's bound. The test looks at the share alone.
    pub fn share(&self, bytes: Bytes, dimension: usize, t: u32) -> Result<PackedVector, VectorError> {
        let share = self.packed(bytes, dimension, self.wire_bytes)?;
        if let Some(ring) = self.ring {
            share.check_residues(ring)?;
            return Ok(share);
        }
        if self.residues {
            return Ok(share);
        }
        share.check(self.share_bound(t), self.round_grid(t))?;
        Ok(share)
    }

    /// A share that this node wrote itself.
    pub(crate) fn own_share(&self, bytes: Bytes) -> PackedVector {
        PackedVector::new(self.cells(), self.wire_bytes, bytes)
    }

    /// Writes a final state into a frame's own bytes, as many as it takes. Residues always fit.
    pub fn write_final(&self, vector: &LatticeVector, bytes: &mut [u8]) -> Result<(), VectorError> {
        if self.residues {
            return vector.write(self.final_bytes, i128::MAX, bytes);
        }
        vector.write(self.final_bytes, below(self.final_bytes * 8 - 1), bytes)
    }

    /// A final state from the wire: refused unless `parties` such states can be summed.
    pub fn final_state(
        &self,
        bytes: Bytes,
        dimension: usize,
        parties: usize,
    ) -> Result<PackedVector, VectorError> {
        let state = self.packed(bytes, dimension, self.final_bytes)?;
        if let Some(ring) = self.ring {
            state.check_residues(ring)?;
            return Ok(state);
        }
        let more = parties.next_power_of_two().trailing_zeros();
        // Where the wire's width alone keeps the sum within a state's, no coordinate needs a look.
        if self.final_bytes * 8 - 1 + more >= self.state_bits {
            state.check(below(self.state_bits - 1 - more), 1)?;
        }
        Ok(state)
    }

    /// A sum of finals as the result has it: of residues the one that is smallest in absolute
    /// value.
    pub fn sum(&self, sum: LatticeVector) -> LatticeVector {
        if !self.residues || self.ring.is_some() {
            return sum;
        }
        let mut bytes = vec![0; sum.len() * self.final_bytes as usize];
        match self.write_final(&sum, &mut bytes) {
            Ok(()) => PackedVector::new(self.cells(), self.final_bytes, bytes.into()).unpack(),
            Err(_) => sum,
        }
    }

    fn packed(&self, bytes: Bytes, dimension: usize, width: u32) -> Result<PackedVector, VectorError> {
        let expected = dimension.checked_mul(width as usize);
        if expected != Some(bytes.len()) {
            return Err(VectorError::Length {
                found: bytes.len(),
                expected: expected.unwrap_or(usize::MAX),
            });
        }
        Ok(PackedVector::new(self.cells(), width, bytes))
    }
}

/// The reach of states, in the data's unit.
struct Reach {
    /// All that one party ever injects, by absolute values.
    own: f64,
    /// All that one party ever injects, 12 standard deviations of its noise together.
    likely: f64,
}

impl LatticeRequest<'_> {
    fn check(&self) -> Result<(), LatticeError> {
        let positive = |field, value: f64| {
            let fine = value.is_finite() && value > 0.0;
            if fine {
                Ok(())
            } else {
                Err(LatticeError::Parameter {
                    field,
                    value,
                    range: "positive and finite",
                })
            }
        };
        let exact = matches!(
            self.travel,
            Travel::HandOver { .. } | Travel::Residues { halved: false }
        );
        if !(exact && self.independent_std == 0.0) {
            positive("independent_std", self.independent_std)?;
        }
        if !matches!(self.travel, Travel::Residues { .. } | Travel::Average(_)) {
            positive("correlated_std", self.correlated_std)?;
        }
        positive("delta", self.delta)?;
        positive("the number of parties", self.parties as f64)?;
        positive("the dimension", self.dimension as f64)?;
        if !(self.value_bound.is_finite() && self.value_bound >= 0.0) {
            return Err(LatticeError::Parameter {
                field: "the clipping range",
                value: self.value_bound,
                range: "finite",
            });
        }
        if let Travel::Split {
            fanout, injection, ..
        } = self.travel
        {
            positive("fanout", f64::from(fanout))?;
            if !(1..=1000).contains(&injection.rounds()) {
                let value = injection.rounds() as f64;
                return Err(LatticeError::Parameter {
                    field: "rounds",
                    value,
                    range: "from 1 to 1000",
                });
            }
        }
        Ok(())
    }

    fn reach(&self, injection: &Injection<Ratio>) -> Reach {
        let rounds = injection.rounds();
        let column = |k: usize| (0..=rounds).map(move |t| injection.z(t)[k].to_f64());
        let value = self.value_bound + NOISE_REACH * self.independent_std;
        let c: f64 = injection.c().iter().map(|c| c.to_f64().abs()).sum();
        let touched: f64 = (0..rounds).map(|k| column(k).map(f64::abs).sum::<f64>()).sum();
        // A node holds between 0 and all of each piece, so η_k's coefficient stays below its
        // positive (or negative) entries' sum.
        let spread: f64 = (0..rounds)
            .map(|k| column(k).map(f64::abs).sum::<f64>().powi(2) / 4.0)
            .sum();
        let noise = c * c * self.independent_std.powi(2) + spread * self.correlated_std.powi(2);
        Reach {
            own: c * value + touched * NOISE_REACH * self.correlated_std,
            likely: c * self.value_bound + NOISE_REACH * noise.sqrt(),
        }
    }
}

/// A weight on the lattice: [`WEIGHT_UNIT`] × [`Lattice::value_grid`] for a whole party of weight
/// 1. Public.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LatticeWeight(pub i128);

impl Payload for LatticeWeight {
    type Coefficient = Ratio;
    type Packed = LatticeWeight;
    fn zero_like(_: &Self) -> Self {
        LatticeWeight(0)
    }
    fn pack(&self) -> Self {
        *self
    }
    fn add(&mut self, other: &Self) {
        self.0 += other.0;
    }
    fn add_and_divide(&mut self, terms: &[(Ratio, &Self)], ways: u32) {
        let multiple = |(factor, other): &(Ratio, &Self)| {
            other.0 / i128::from(factor.denominator()) * i128::from(factor.numerator())
        };
        self.0 = (self.0 + terms.iter().map(multiple).sum::<i128>()) / i128::from(ways);
    }
}

#[cfg(test)]
mod tests;
