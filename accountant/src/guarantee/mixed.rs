//! The consequences of a schedule and noise where values are mixed, by whichever theorem: claims of
//! all releases, and errors of the result.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::claim::{Claim, Predicted};
use undertone_protocol::plan::draft::Draft;

use crate::calibration::claims::{Stated, predicted};
use crate::calibration::error::CalibrateError;
use crate::calibration::releases::over_releases;
use crate::calibration::sealed::{claims_when_sealed, of_result, predicted_when_sealed};
use crate::class::claim_error::ClaimError;
use crate::class::setting::Setting;
use crate::losses::gaussian::GaussianError;
use crate::losses::loss::Noise;
use crate::losses::releases;

/// The claims of one release at these standard deviations.
pub(super) type OfRelease = fn(&Setting, Stated) -> Result<Vec<Claim>, ClaimError>;

/// The calibration of a draft with this noise; `drawn` is its schedule, where START draws none.
pub(super) fn mixed(
    draft: &Draft,
    setting: &Setting,
    drawn: Option<SeededSchedule>,
    noise: Noise,
    claims: OfRelease,
) -> Result<Calibration, CalibrateError> {
    let delta = draft.privacy.delta;
    Ok(Calibration {
        rounds: setting.rounds() as u32,
        drawn,
        claims: of_all_releases(draft, claims(setting, Stated { noise, delta })?)?,
        predicted: expected(draft, setting, noise)?,
        independent_std: noise.independent_std,
        correlated_std: noise.correlated_std,
    })
}

/// The claims of all of a draft's releases, from those of one.
pub(super) fn of_all_releases(draft: &Draft, claims: Vec<Claim>) -> Result<Vec<Claim>, GaussianError> {
    over_releases(draft, claims_when_sealed(draft, claims))
}

/// Predicts the errors of the result, in the data's unit.
pub(super) fn expected(draft: &Draft, setting: &Setting, noise: Noise) -> Result<Predicted, ClaimError> {
    let budget = releases::budget(draft)?;
    // The errors that a plan is compared with are those of one release, so they have its share of
    // the budget.
    let of_mean = predicted_when_sealed(draft, predicted(setting, noise, budget)?);
    Ok(of_result(draft, of_mean))
}
