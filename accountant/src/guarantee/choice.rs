//! The choice of a plan's guarantee: the one place that decides it, and the functions that follow
//! from it.

use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, Predicted};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{Coalitions, CorrelatedNoise};

use crate::calibration::claims::Stated;
use crate::calibration::error::CalibrateError;
use crate::class::claim_error::ClaimError;
use crate::class::setting::Setting;
use crate::guarantee::mixed::{OfRelease, expected, of_all_releases};
use crate::guarantee::{as_in_paper, circles, connected, drawn, exact_sum, gaussian, own_noise};
use crate::losses::loss::Noise;

/// The basis of a plan's claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Uniform noise, or masks: values are hidden among those whom nobody separates (Theorem U).
    Connected,
    /// Uniform noise over a schedule that START draws: coalitions were fixed before.
    Drawn,
    /// Gaussian noise that cancels: Theorem C, for every coalition.
    Gaussian,
    /// Each party's own noise alone, as messages are open.
    OwnNoise,
    /// Sums over neighbourhoods, as the worst coalition reads them.
    Circles,
    /// Only changes that keep the exact sums, which are revealed: PPSC without own noise.
    ExactSum,
    /// Nothing: what is revealed is said in words. PPSC's recursions as in the paper.
    AsInPaper,
}

/// The established facts of a plan, computed from its own schedule and standard deviations.
pub(crate) struct Established {
    /// The claims of one release, whatever becomes of the sealing: what the gate may meet.
    pub(crate) of_release: Vec<Claim>,
    /// The claims of all releases.
    pub(crate) of_all: Vec<Claim>,
    /// The errors of the result, in the data's unit.
    pub(crate) predicted: Predicted,
}

impl Guarantee {
    /// The guarantee of a draft.
    pub fn of(draft: &Draft) -> Self {
        // A recursion reveals exact sums whatever noise its exchanges add, so it comes before any
        // question about the noise.
        if draft.computation.recursion().is_some() {
            return Guarantee::AsInPaper;
        }
        if draft.averages() {
            return match draft.sums_neighbours() {
                true => Guarantee::Circles,
                false => Guarantee::OwnNoise,
            };
        }
        match (draft.exchange.correlated(), draft.privacy.coalitions) {
            (CorrelatedNoise::Uniform, Coalitions::Any) => Guarantee::Connected,
            (CorrelatedNoise::Uniform, Coalitions::Static) => Guarantee::Drawn,
            (CorrelatedNoise::Gaussian, _) if draft.exchange.adds_own_noise() => Guarantee::Gaussian,
            (CorrelatedNoise::Gaussian, _) => Guarantee::ExactSum,
        }
    }

    /// Whether a value is hidden among a number of parties, which all nodes count alike; what
    /// leaves before publishing then tells nothing.
    pub(crate) fn counts_parties(self) -> bool {
        matches!(self, Guarantee::Connected | Guarantee::Drawn)
    }

    /// Whether exact sums are revealed once finals are out, as a party adds no noise of its own.
    pub(crate) fn reveals_sums(self) -> bool {
        matches!(self, Guarantee::ExactSum | Guarantee::AsInPaper)
    }

    /// The claims of one release, where values are mixed.
    fn of_release(self) -> Option<OfRelease> {
        match self {
            Guarantee::Connected => Some(connected::claims),
            Guarantee::Drawn => Some(drawn::claims),
            Guarantee::Gaussian => Some(gaussian::claims),
            Guarantee::ExactSum => Some(exact_sum::claims),
            Guarantee::OwnNoise | Guarantee::Circles | Guarantee::AsInPaper => None,
        }
    }

    /// The claims of one release where values are mixed, at these standard deviations; none where
    /// they are not.
    ///
    /// # Errors
    /// Noise that no claim could be about, or too many coalitions.
    pub(crate) fn claims(
        self,
        setting: &Setting,
        noise: Noise,
        delta: f64,
    ) -> Result<Vec<Claim>, ClaimError> {
        self.of_release()
            .map_or(Ok(vec![]), |claims| claims(setting, Stated { noise, delta }))
    }

    /// Establishes the claims of a plan with this guarantee.
    ///
    /// # Errors
    /// Noise that no claim could be about, or too many coalitions.
    pub(crate) fn established(self, plan: &Plan) -> Result<Established, ClaimError> {
        let (draft, calibration) = (plan.draft(), plan.calibration());
        let noise = Noise {
            independent_std: calibration.independent_std,
            correlated_std: calibration.correlated_std,
        };
        let in_unit = |predicted: Predicted| predicted.times(plan.scales().root_mean_square());
        let (of_all, predicted) = match self {
            Guarantee::AsInPaper => (as_in_paper::established(draft), as_in_paper::NO_NOISE),
            Guarantee::OwnNoise => (own_noise::established(plan)?, in_unit(own_noise::expected(plan)?)),
            Guarantee::Circles => (circles::established(plan)?, in_unit(own_noise::expected(plan)?)),
            Guarantee::Connected | Guarantee::Drawn | Guarantee::Gaussian | Guarantee::ExactSum => {
                let setting = Setting::of_plan(plan).map_err(ClaimError::Injection)?;
                let of_release = self.claims(&setting, noise, draft.privacy.delta)?;
                return Ok(Established {
                    of_all: of_all_releases(draft, of_release.clone())?,
                    predicted: expected(draft, &setting, noise)?,
                    of_release,
                });
            }
        };
        // Only the verification of runs that mix asks for the claims of one release.
        Ok(Established {
            of_release: vec![],
            of_all,
            predicted,
        })
    }
}

/// Finds rounds, schedule and noise (σ*, each party's own, and σ_Δ, that which cancels) that meet
/// the draft's (ε, δ) over its tolerated class and before publishing, with the least expected
/// error. Deterministic. `progress` receives what is being tried, in words.
pub fn calibrate(draft: &Draft, progress: &mut dyn FnMut(&str)) -> Result<Calibration, CalibrateError> {
    match Guarantee::of(draft) {
        Guarantee::Connected => connected::calibrate(draft, progress),
        Guarantee::Drawn => drawn::calibrate(draft, progress),
        Guarantee::Gaussian => gaussian::calibrate(draft, progress),
        Guarantee::ExactSum => exact_sum::calibrate(draft, progress),
        Guarantee::OwnNoise => own_noise::calibrate(draft),
        Guarantee::Circles => circles::calibrate(draft),
        Guarantee::AsInPaper => as_in_paper::calibrate(draft),
    }
}

#[cfg(test)]
mod claims;
#[cfg(test)]
mod tests;
