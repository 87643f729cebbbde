//! The claims of a plan, and the errors that are expected of its result.

use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults, Predicted};

use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::ClaimError;
use crate::class::setting::Setting;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::{self, GaussianError, SLACK};
use crate::losses::loss::Noise;

/// The noise and the δ that the claims of a plan are for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stated {
    /// The noise.
    pub(crate) noise: Noise,
    /// The δ.
    pub(crate) delta: f64,
}

impl Stated {
    /// The variance of the noise that cancels over that of a party's own, r = σ_Δ²/σ*².
    pub(crate) fn ratio(self) -> f64 {
        (self.noise.correlated_std / self.noise.independent_std).powi(2)
    }

    /// The claim of a theorem, against coalitions of up to `size`, that nobody's squared loss is
    /// above `square`, which is stated for own noise of variance 1.
    pub(crate) fn theorem(self, size: usize, faults: Faults, square: f64) -> Result<Claim, GaussianError> {
        let mu = square.sqrt() / self.noise.independent_std * (1.0 + SLACK);
        theorem(size, faults, mu, self.delta)
    }

    /// That these noises are none that claims could be about.
    pub(crate) fn refused(self) -> ClaimError {
        ClaimError::Noise {
            independent_std: self.noise.independent_std,
            correlated_std: self.noise.correlated_std,
        }
    }
}

/// The claim of a theorem with this loss.
pub(crate) fn theorem(size: usize, faults: Faults, mu: f64, delta: f64) -> Result<Claim, GaussianError> {
    let epsilon = gaussian::epsilon(delta, mu)?;
    Ok(Claim::theorem(size, faults, (mu, epsilon), delta))
}

/// For each fault set the smallest ε among the claims that cover it and are exhaustive, exact or a
/// theorem.
pub(crate) fn mark_headline(claims: &mut [Claim]) {
    for faults in [Faults::Class, Faults::BeforePublishing] {
        let covering = claims.iter_mut().filter(|claim| covers(claim, faults));
        if let Some(best) = covering.min_by(|a, b| a.mu.total_cmp(&b.mu)) {
            best.holds_as_headline = true;
        }
    }
}

/// Whether a claim is a guarantee.
pub(crate) fn is_sure(claim: &Claim) -> bool {
    matches!(
        claim.established,
        Established::Exact | Established::Exhaustive | Established::Theorem
    )
}

/// Whether a claim says something about a fault set, for sure.
pub(crate) fn covers(claim: &Claim, faults: Faults) -> bool {
    is_sure(claim)
        && claim.changes.is_none()
        && claim.adversary == Adversary::Coalition
        && (claim.faults == faults || claim.faults == Faults::Any)
}

/// Predicts the errors of the result. `budget` is the loss that the plan's (ε, δ) allows.
pub fn predicted(setting: &Setting, noise: Noise, budget: f64) -> Result<Predicted, ExecutionError> {
    let (parties, total) = (setting.parties() as f64, setting.total_weight());
    let largest = setting.largest_sensitivity();
    let each: f64 = setting.sensitivity.iter().map(|delta| delta * delta).sum();
    let honest = parties - setting.colluding as f64;
    let finite = |error: Option<f64>| error.filter(|error| error.is_finite());
    let (plain, departed, late) = if setting.uniform {
        let without =
            |gone: f64, weight: f64| noise.independent_std * (parties - gone).sqrt() / (total - weight);
        let variances = setting.weights.iter().map(|&weight| without(1.0, weight).powi(2));
        (
            without(0.0, 0.0),
            Some((variances.sum::<f64>() / parties).sqrt()),
            None,
        )
    } else {
        let errors = ErrorModel::of(setting)?;
        (errors.plain(noise), errors.departed(noise), errors.late(noise))
    };
    Ok(Predicted {
        standard_error: plain,
        standard_error_one_dropout: finite(departed.filter(|_| setting.dropouts > 0)),
        standard_error_late_dropout: finite(late),
        standard_error_correcting: None,
        // A trusted server adds noise once, for the party that can move the sum most.
        central: largest / (budget * total),
        // Everybody adds all the noise that its own value needs.
        local: each.sqrt() / (budget * total),
        error_floor: largest * (parties / honest).sqrt() / (budget * total),
        bytes_per_party: 0,
    })
}
