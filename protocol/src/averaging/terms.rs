//! The public terms of averaging in a plan: the unit, the tolerance, and the expected rounds and
//! bytes.

use std::sync::Arc;

use crate::averaging::integers;
use crate::averaging::spectrum::Spectrum;
use crate::averaging::step_schedule::{Goal, StepSchedule};
use crate::lattice::grid::Lattice;
use crate::topology::graph::Graph;

/// The inputs that the terms follow from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The public graph, over which is averaged.
    pub graph: &'a Graph,
    /// The lattice that finals live on.
    pub lattice: &'a Lattice,
    /// ν: the largest difference between two nodes' results, in standard errors.
    pub accuracy: f64,
    /// The result's standard error without a fault, per coordinate and in a state's units.
    pub standard_error: f64,
    /// The sum of all parties' weights W.
    pub total_weight: f64,
}

/// A reason why there are no terms.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TermsError {
    /// Finer than the lattice, or than f64 products of integers.
    #[error(
        "run.accuracy = {found:e} is below the {least:.1e} that the integers of this plan can carry; raise it, or use dissemination = \"flood\""
    )]
    Accuracy {
        /// The accuracy ν that was asked for.
        found: f64,
        /// About the least one that would do.
        least: f64,
    },
    /// No schedule within the rounds that there may be.
    #[error(
        "the public graph is so long that averaging over it takes more than {} rounds; add public edges, or use dissemination = \"flood\"",
        crate::averaging::step_schedule::MOST_ROUNDS
    )]
    Rounds,
}

/// The terms of a plan with `dissemination = "consensus"`.
#[derive(Clone, Debug, PartialEq)]
pub struct AveragingTerms {
    /// One unit is 2^`grain_log2` steps of the lattice: coarser, or finer where the rounding of the
    /// rounds asks for it.
    pub grain_log2: i32,
    /// Bytes a coordinate of an opening.
    pub opening_bytes: usize,
    /// A unit's size in the data of one party, in standard errors of the result: × parties / their
    /// weight for a result's.
    unit_errors: f64,
    accuracy: f64,
    /// The eigenvalues of the whole public graph.
    spectrum: Arc<Spectrum>,
    /// The schedule, if every final reaches as far as a party's own noise may.
    pub at_most: StepSchedule,
    /// Bytes a coordinate that a node sends to one neighbour, for finals that reach as far as is
    /// usual.
    pub expected_bytes: usize,
    /// Rounds for such finals.
    pub expected_rounds: usize,
}

/// A final's largest coordinate is expected to be about this part of what the lattice makes room
/// for (12 standard deviations of all noise of one party at once): 3 standard deviations, since not
/// all of the noise is in it. It decides nothing but predictions.
const USUAL_REACH: f64 = 0.25;

impl AveragingTerms {
    /// The coarsest unit with which ν can be met.
    pub fn of(request: Request<'_>) -> Result<Self, TermsError> {
        let parties = request.graph.parties() as f64;
        let spectrum = Arc::new(Spectrum::of(request.graph).ok_or(TermsError::Rounds)?);
        let unit = |grain_log2: i32| {
            libm::exp2(f64::from(grain_log2)) * request.lattice.step() / request.standard_error
        };
        // So many units of tolerance, so that the rounding of every round fits into it: about
        // rounds × √n.
        let levels = libm::exp2(9.0 + (libm::log2(parties) / 2.0).ceil());
        let finest = 0.5 * request.accuracy / (unit(0) * parties / request.total_weight);
        // Products of this many bits have to hold what the parties begin with; and a sum is given
        // out in whole steps.
        let reach = request.lattice.own_reach as f64 * parties.sqrt();
        let by_products = libm::log2(reach).ceil() - f64::from(integers::PRODUCT_BITS) + 4.0;
        let by_steps = -libm::log2(levels * parties / 2.0).floor();
        let finest_grain = by_products.max(by_steps).max(-40.0);
        let least = request.accuracy * levels * libm::exp2(finest_grain) / finest;
        let refused = TermsError::Accuracy {
            found: request.accuracy,
            least,
        };
        let grain = libm::log2(finest / levels).floor();
        if !grain.is_finite() || grain < finest_grain {
            return Err(refused);
        }
        let mut terms = AveragingTerms {
            grain_log2: 0,
            opening_bytes: 0,
            unit_errors: 0.0,
            accuracy: request.accuracy,
            spectrum: spectrum.clone(),
            at_most: StepSchedule {
                method: crate::averaging::step_schedule::Method::FiniteTime,
                steps: vec![],
                error: 0.0,
            },
            expected_bytes: 0,
            expected_rounds: 0,
        };
        let grain = grain.min(100.0) as i32;
        for grain_log2 in (finest_grain as i32..=grain).rev().take(6) {
            terms.grain_log2 = grain_log2;
            terms.unit_errors = unit(grain_log2);
            terms.opening_bytes = (8 * request.lattice.final_bytes as i32 + 1 - grain_log2)
                .clamp(8, 56)
                .unsigned_abs()
                .div_ceil(8) as usize;
            let reach = request.lattice.own_reach as f64 / libm::exp2(f64::from(grain_log2));
            let ranges = |part: f64| vec![reach * part; request.graph.parties()];
            let all = terms.fast_form(&spectrum, &ranges(1.0), request.total_weight);
            let usual = terms.fast_form(&spectrum, &ranges(USUAL_REACH), request.total_weight);
            if let (Some(all), Some(usual)) = (all, usual) {
                terms.expected_rounds = usual.step_schedule.steps.len();
                terms.expected_bytes = terms.opening_bytes + usual.widths.iter().sum::<usize>();
                terms.at_most = all.step_schedule;
                return Ok(terms);
            }
        }
        let long = spectrum.largest() / spectrum.least() > 1e5;
        Err(if long { TermsError::Rounds } else { refused })
    }

    /// One unit of difference between averages over `parties` whose weights add up to `weight`, in
    /// standard errors of the result.
    pub fn unit_errors(&self, parties: usize, weight: f64) -> f64 {
        self.unit_errors * parties as f64 / weight
    }

    /// Returns the largest distance of an average of openings from the exact one, in units. It is
    /// half of ν, so that no two are further apart than ν, less the rounding of the openings or of
    /// the result. `None` if the weights add up to nothing.
    pub fn tolerance(&self, parties: usize, weight: f64) -> Option<f64> {
        let tolerance = 0.5 * self.accuracy / self.unit_errors(parties, weight) - self.rounded(parties);
        (weight > 0.0 && tolerance.is_finite() && tolerance > 0.0).then_some(tolerance)
    }

    /// Returns the rounding error of an average of openings × `parties`, in whole steps, against
    /// the finals' sum, in units of the average. It is half a unit where openings are coarser than
    /// finals, else half a step of the sum.
    pub fn rounded(&self, parties: usize) -> f64 {
        match self.grain_log2 {
            1.. => 0.5,
            0 => 0.0,
            finer => 0.5 * libm::exp2(f64::from(-finer)) / parties as f64,
        }
    }

    /// Units as whole steps of the lattice, to the nearest.
    pub fn to_steps(&self, units: i128) -> i128 {
        match self.grain_log2 {
            0.. => units.wrapping_shl(self.grain_log2.unsigned_abs()),
            finer => (units + (1 << (-finer - 1))) >> -finer,
        }
    }

    /// The spectrum of the graph between all parties of the plan, which is averaged over as a rule.
    pub fn spectrum(&self) -> &Arc<Spectrum> {
        &self.spectrum
    }

    /// The accuracy ν: the largest difference between two nodes' results, in standard errors.
    pub fn accuracy(&self) -> f64 {
        self.accuracy
    }

    /// The fast form for these parties: `ranges` are their openings' largest coordinates. `None` if
    /// none is accurate enough.
    pub fn fast_form(&self, spectrum: &Spectrum, ranges: &[f64], weight: f64) -> Option<FastForm> {
        let norm = ranges.iter().map(|range| range * range).sum::<f64>().sqrt();
        let tolerance = self.tolerance(ranges.len(), weight)?;
        let goal = Goal {
            norm: norm.max(1.0) * (1.0 + 1e-9),
            rounding: integers::ROUNDING,
            tolerance,
        };
        let step_schedule = StepSchedule::fit(spectrum, goal)?;
        let changes = step_schedule.changes(spectrum, goal);
        let most = libm::exp2(f64::from(integers::PRODUCT_BITS));
        let fits = changes
            .iter()
            .zip(&step_schedule.steps)
            .all(|(change, step)| change / step.min(1.0) < most);
        // The last round's change stays with its node.
        let most_sent = changes[..changes.len() - 1].to_vec();
        let widths = most_sent.iter().map(|&change| integers::width(change)).collect();
        (fits && goal.norm < most).then_some(FastForm {
            step_schedule,
            widths,
            most: most_sent,
        })
    }

    /// A final's coordinate in units, to the nearest.
    pub fn opening(&self, steps: i128) -> i128 {
        match self.grain_log2 {
            grain @ 1.. => (steps + (1 << (grain - 1))) >> grain,
            // Beyond any honest final's reach it saturates, and does not fit into an opening.
            finer => steps.saturating_mul(1 << -finer),
        }
    }
}

/// The fast form of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FastForm {
    /// The steps that each node takes.
    pub step_schedule: StepSchedule,
    /// Bytes a coordinate of the change that is sent after each round but the last.
    pub widths: Vec<usize>,
    /// The largest such change, by absolute value, that openings with these ranges lead to.
    pub most: Vec<f64>,
}
