//! Rounds, schedule and noise for a draft.

use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{Coalitions, CorrelatedNoise};

use crate::calibration::by_circles;
use crate::calibration::by_connectivity;
use crate::calibration::by_draw;
use crate::calibration::by_own_noise;
use crate::calibration::error::CalibrateError;
use crate::calibration::gaussian;
use crate::calibration::printed;

/// Finds rounds, schedule and noise (σ*, each party's own, and σ_Δ, that which cancels) that meet
/// the draft's (ε, δ) over its tolerated class and before publishing, with the least expected
/// error. Deterministic. `progress` is told what is being tried, in words.
pub fn calibrate(draft: &Draft, progress: &mut dyn FnMut(&str)) -> Result<Calibration, CalibrateError> {
    if let Some(outer) = draft.computation.recursion() {
        return printed::calibrate(draft, outer);
    }
    if draft.averages() {
        return match draft.sums_neighbours() {
            true => by_circles::calibrate(draft),
            false => by_own_noise::calibrate(draft),
        };
    }
    match (draft.exchange.correlated(), draft.privacy.coalitions) {
        (CorrelatedNoise::Uniform, Coalitions::Any) => by_connectivity::calibrate(draft, progress),
        (CorrelatedNoise::Uniform, Coalitions::Static) => by_draw::calibrate(draft, progress),
        (CorrelatedNoise::Gaussian, _) => gaussian::calibrate(draft, progress),
    }
}

#[cfg(test)]
mod tests;
