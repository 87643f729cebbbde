//! The claims of a plan (accountant/docs/guarantees.md), computed from its own schedule and noise.

use undertone_protocol::plan::claim::{Adversary, Basis, Claim, Established, Faults, Predicted};

use crate::bounds::before_publishing::largest_theorem;
use crate::bounds::bound::Bound;
use crate::bounds::exact_sum;
use crate::bounds::static_draw::{delta_of_noise, drawn};
use crate::bounds::uniform;
use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::{ClaimError, MOST_RATIO};
use crate::class::setting::Setting;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::{self, SLACK};
use crate::losses::loss::Noise;

/// All claims at these standard deviations: the headline's first.
///
/// Never states a loss below the true one of its class.
pub fn claims(setting: &Setting, noise: Noise, delta: f64) -> Result<Vec<Claim>, ClaimError> {
    let Noise {
        independent_std,
        correlated_std,
    } = noise;
    if setting.reveals_sums(noise) && correlated_std > 0.0 && correlated_std.is_finite() {
        return exact_sum::claims(setting, correlated_std, delta);
    }
    if setting.uniform {
        return of_uniform(setting, noise, delta);
    }
    let ratio = (correlated_std / independent_std).powi(2);
    let numbers = independent_std > 0.0
        && correlated_std > 0.0
        && independent_std.is_finite()
        && correlated_std.is_finite();
    if !numbers || ratio > MOST_RATIO {
        return Err(ClaimError::Noise {
            independent_std,
            correlated_std,
        });
    }
    let stated = Stated { noise, delta };
    let mut claims = Vec::new();
    claims.extend(of_class(setting, stated)?);
    claims.extend(theorems(setting, stated)?);
    if setting.mechanism.rules().claims_against_readers() && setting.colluding > 0 {
        // What the paper claims, beside what a coalition inside the private graph learns.
        let outsiders = Setting {
            colluding: 0,
            ..setting.clone()
        };
        claims.extend(of_class(&outsiders, stated)?.map(|readers| Claim {
            adversary: Adversary::Public,
            ..readers
        }));
    }
    mark_headline(&mut claims);
    Ok(claims)
}

/// The noise and the δ that the claims of a plan are for.
#[derive(Debug, Clone, Copy)]
struct Stated {
    noise: Noise,
    delta: f64,
}

/// What a claim covers, and how that was found out.
struct Covered {
    /// Parties of a coalition at most.
    size: usize,
    faults: Faults,
    established: Established,
    /// Systems that were looked at.
    cases: usize,
}

impl Stated {
    /// The variance of the noise that cancels over that of a party's own, r = σ_Δ²/σ*².
    fn ratio(self) -> f64 {
        (self.noise.correlated_std / self.noise.independent_std).powi(2)
    }

    /// The claim that nobody's squared loss is above `square`, stated for own noise of variance 1.
    fn claim(self, covered: Covered, square: f64) -> Result<Claim, ClaimError> {
        let mu = square.sqrt() / self.noise.independent_std * (1.0 + SLACK);
        Ok(Claim {
            adversary: Adversary::Coalition,
            size: covered.size,
            faults: covered.faults,
            mu,
            epsilon: gaussian::epsilon(self.delta, mu)?,
            delta: self.delta,
            sampling_delta: 0.0,
            established: covered.established,
            cases: covered.cases as u64,
            seed: None,
            changes: None,
            basis: None,
            connectivity: None,
            draw: None,
            sealed: false,
            unbounded: false,
            sentence: None,
            holds_as_headline: false,
        })
    }
}

/// What holds over the tolerated class, where more is known of it than the loss of local noise.
fn of_class(setting: &Setting, stated: Stated) -> Result<Option<Claim>, ClaimError> {
    let bound = Bound::of(setting);
    if bound.is_local() {
        return Ok(None);
    }
    let covered = Covered {
        size: setting.colluding,
        faults: Faults::Class,
        established: bound.established(),
        cases: bound.cases(),
    };
    let claim = stated.claim(covered, bound.worst(stated.ratio()).0)?;
    Ok(Some(Claim {
        basis: bound.basis().map(|_| Basis::Connectivity),
        connectivity: bound.basis(),
        ..claim
    }))
}

/// All claims where the noise that cancels is uniform: each rests on a theorem. Nothing is lost
/// before publishing: each share carries a fresh noise that nothing else which left contains.
fn of_uniform(setting: &Setting, noise: Noise, delta: f64) -> Result<Vec<Claim>, ClaimError> {
    if !(noise.independent_std > 0.0 && noise.independent_std.is_finite()) || noise.correlated_std != 0.0 {
        let Noise {
            independent_std,
            correlated_std,
        } = noise;
        return Err(ClaimError::Noise {
            independent_std,
            correlated_std,
        });
    }
    let stated = Stated { noise, delta };
    let proved = |size: usize, faults: Faults, square: f64| {
        let covered = Covered {
            size,
            faults,
            established: Established::Theorem,
            cases: 1,
        };
        stated.claim(covered, square)
    };
    let largest = setting.largest_sensitivity().powi(2);
    let anybody = setting.parties().saturating_sub(1);
    let mut claims = Vec::new();
    if setting.drawn_share_faults.is_some() {
        claims.extend(by_draw(setting, stated)?);
    } else if let Some(found) = uniform::withstands(setting) {
        claims.push(Claim {
            basis: Some(Basis::Connectivity),
            connectivity: Some(found),
            ..proved(setting.colluding, Faults::Class, largest / found.among as f64)?
        });
    }
    claims.push(proved(anybody, Faults::BeforePublishing, 0.0)?);
    claims.push(proved(anybody, Faults::Any, largest)?);
    mark_headline(&mut claims);
    Ok(claims)
}

/// What a draw of the schedule hides from a coalition, and departures, that were fixed before it.
/// The δ of the claim is that of the noise and the chance of a draw that hides nothing.
fn by_draw(setting: &Setting, stated: Stated) -> Result<Option<Claim>, ClaimError> {
    let Some(found) = drawn(setting, stated.delta) else {
        return Ok(None);
    };
    let of_noise = Stated {
        delta: delta_of_noise(stated.delta),
        ..stated
    };
    let covered = Covered {
        size: setting.colluding,
        faults: Faults::Class,
        established: Established::Theorem,
        cases: 1,
    };
    let square = setting.largest_sensitivity().powi(2) / found.among as f64;
    Ok(Some(Claim {
        delta: stated.delta,
        basis: Some(Basis::Draw),
        draw: Some(found),
        ..of_noise.claim(covered, square)?
    }))
}

/// What is proved of any coalition.
fn theorems(setting: &Setting, stated: Stated) -> Result<[Claim; 2], ClaimError> {
    let proved = |faults: Faults, square: f64| {
        let covered = Covered {
            size: setting.parties().saturating_sub(1),
            faults,
            established: Established::Theorem,
            cases: 1,
        };
        stated.claim(covered, square)
    };
    Ok([
        proved(
            Faults::BeforePublishing,
            largest_theorem(setting, stated.ratio())?,
        )?,
        proved(Faults::Any, setting.largest_sensitivity().powi(2))?,
    ])
}

/// For each fault set the smallest ε among the claims that cover it and are exhaustive, exact or a
/// theorem.
pub(super) fn mark_headline(claims: &mut [Claim]) {
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

/// What is expected of the result. `budget` is the loss that the plan's (ε, δ) allows.
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

#[cfg(test)]
mod tests;
