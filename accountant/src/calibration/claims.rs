//! What a plan may say: every claim of DESIGN section 3, computed from its own schedule and noise.

use undertone_protocol::plan::{Adversary, Claim, Draft, Established, Faults, Predicted};

use crate::before_publishing::{BeforePublishing, largest_theorem};
use crate::class::Class;
use crate::execution::{ExecutionError, Family};
use crate::gaussian::{self, GaussianError, SLACK};
use crate::loss::Noise;
use crate::optimum::LARGEST_RATIO;
use crate::ppsc::exact_sum;
use crate::ppsc::spreading::Spreading;
use crate::setting::Setting;
use crate::static_coalitions::Draws;
use crate::static_coalitions::calibration::{self, EXAMPLE_SEED, Sample};
use crate::utility::ErrorModel;

/// σ_Δ²/σ*² up to which losses are stated: what calibration looks for, and its rounding. Beyond, what the sum of the finals says of a value drowns
/// in the rounding of what has cancelled in it: at 1e7 fast paths are in doubt now and then, at 1e12 they were seen to be off by 3e-4.
pub(crate) const MOST_RATIO: f64 = LARGEST_RATIO * (1.0 + 1e-6);

/// Why a plan's numbers cannot be stated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// ε or δ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// The schedule or the injection.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// Without independent noise nothing but computing every system bounds the loss, and these are too many.
    #[error(
        "there are too many coalitions and faults to compute them all, and without independent noise no theorem stands in"
    )]
    TooMany,
    /// A noise of nothing, or noises of sizes that have nothing to do with each other.
    #[error(
        "mechanism: independent_std and correlated_std must be positive numbers, the second at most {} times the first, found {independent_std} and {correlated_std}",
        LARGEST_RATIO.sqrt()
    )]
    Noise {
        /// σ*.
        independent_std: f64,
        /// σ_Δ.
        correlated_std: f64,
    },
}

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
    let claim = |size: usize, faults: Faults, square: f64, established: Established, cases: usize| {
        of_square(size, faults, square, noise, delta, established, cases)
    };
    let mut claims = Vec::new();
    if let Some(class) = Class::of(setting)? {
        claims.push(claim(
            setting.colluding,
            Faults::Class,
            class.worst(ratio)?.square,
            Established::Exhaustive,
            class.cases(),
        )?);
    } else if let Some(spreading) = Spreading::of_class(setting)? {
        let square = spreading.worst(&setting.sensitivity, ratio, |_| true).0;
        claims.push(claim(
            setting.colluding,
            Faults::Class,
            square,
            Established::Theorem,
            1,
        )?);
    }
    if let Some(before) = BeforePublishing::of(setting)? {
        let square = before.worst(setting, ratio).0;
        let established = if setting.family == Family::Ppsc {
            Established::Exact
        } else {
            Established::Exhaustive
        };
        claims.push(claim(
            setting.colluding,
            Faults::BeforePublishing,
            square,
            established,
            before.cases(),
        )?);
    }
    claims.extend(theorems(setting, noise, delta)?);
    if setting.family == Family::Ppsc && setting.colluding > 0 {
        // What the paper claims, beside what a coalition inside the private graph learns.
        let outsiders = Setting {
            colluding: 0,
            ..setting.clone()
        };
        if let Some(class) = Class::of(&outsiders)? {
            let square = class.worst(ratio)?.square;
            let readers = claim(0, Faults::Class, square, Established::Exhaustive, class.cases())?;
            claims.push(Claim {
                adversary: Adversary::Public,
                ..readers
            });
        } else if let Some(spreading) = Spreading::of_class(&outsiders)? {
            let square = spreading.worst(&setting.sensitivity, ratio, |_| true).0;
            let readers = claim(0, Faults::Class, square, Established::Theorem, 1)?;
            claims.push(Claim {
                adversary: Adversary::Public,
                ..readers
            });
        }
    }
    mark_headline(&mut claims);
    Ok(claims)
}

fn of_square(
    size: usize,
    faults: Faults,
    square: f64,
    noise: Noise,
    delta: f64,
    established: Established,
    cases: usize,
) -> Result<Claim, ClaimError> {
    let mu = square.sqrt() / noise.independent_std * (1.0 + SLACK);
    let (adversary, epsilon, cases) = (Adversary::Coalition, gaussian::epsilon(delta, mu)?, cases as u64);
    let (seed, changes) = (None, None);
    Ok(Claim {
        adversary,
        size,
        faults,
        mu,
        epsilon,
        delta,
        established,
        cases,
        seed,
        changes,
        holds_as_headline: false,
    })
}

/// What is proved of any coalition.
fn theorems(setting: &Setting, noise: Noise, delta: f64) -> Result<[Claim; 2], ClaimError> {
    let ratio = (noise.correlated_std / noise.independent_std).powi(2);
    let everybody_else = setting.parties().saturating_sub(1);
    let largest = setting.largest_sensitivity().powi(2);
    let before = largest_theorem(setting, ratio)?;
    Ok([
        of_square(
            everybody_else,
            Faults::BeforePublishing,
            before,
            noise,
            delta,
            Established::Theorem,
            1,
        )?,
        of_square(
            everybody_else,
            Faults::Any,
            largest,
            noise,
            delta,
            Established::Theorem,
            1,
        )?,
    ])
}

/// All claims of a plan whose schedule START draws: what fresh draws showed of coalitions that were chosen before, what a search found for
/// those that know the schedule, and the theorems, which alone make the headline. `setting` is that of `calibration::example`.
pub fn static_claims(
    draft: &Draft,
    setting: &Setting,
    noise: Noise,
    sample: Sample,
) -> Result<Vec<Claim>, ClaimError> {
    let delta = draft.privacy.delta;
    let mut claims = vec![sampled(draft, sample)?, found(draft, setting, noise)?];
    claims.extend(theorems(setting, noise, delta)?);
    mark_headline(&mut claims);
    Ok(claims)
}

/// (ε, δ + p): in all but a share p of the draws nobody loses more than the μ of (ε, δ).
fn sampled(draft: &Draft, sample: Sample) -> Result<Claim, ClaimError> {
    let privacy = &draft.privacy;
    let mu = gaussian::mu(privacy.epsilon, privacy.delta)?;
    let chance = Draws::chance(sample.failures, sample.draws);
    Ok(Claim {
        adversary: Adversary::Coalition,
        size: privacy.colluding,
        faults: Faults::Class,
        mu,
        epsilon: gaussian::epsilon(privacy.delta, mu)?,
        // A δ of 1 says nothing, and is none.
        delta: (privacy.delta + chance).min(1.0f64.next_down()),
        established: Established::Sampled,
        cases: sample.draws,
        seed: Some(sample.seed),
        changes: None,
        holds_as_headline: false,
    })
}

/// What a coalition that knows the schedule learns at least, with departures that join it (Theorem R).
fn found(draft: &Draft, setting: &Setting, noise: Noise) -> Result<Claim, ClaimError> {
    let ratio = (noise.correlated_std / noise.independent_std).powi(2);
    let draws = Draws::of_draft(draft, setting.rounds());
    let found = calibration::search(&draws, &setting.out, ratio);
    let square = found.square.min(1.0) * setting.largest_sensitivity().powi(2);
    let (size, cases) = (draft.privacy.colluding, found.cases as usize);
    let claim = of_square(
        size,
        Faults::Class,
        square,
        noise,
        draft.privacy.delta,
        Established::Searched,
        cases,
    )?;
    Ok(Claim {
        seed: Some(EXAMPLE_SEED),
        ..claim
    })
}

/// For each fault set the smallest ε among the claims that cover it and are exhaustive, exact or a theorem.
fn mark_headline(claims: &mut [Claim]) {
    for faults in [Faults::Class, Faults::BeforePublishing] {
        let covering = claims.iter_mut().filter(|claim| covers(claim, faults));
        if let Some(best) = covering.min_by(|a, b| a.mu.total_cmp(&b.mu)) {
            best.holds_as_headline = true;
        }
    }
}

/// Whether a claim says something about a fault set, for sure.
pub(crate) fn covers(claim: &Claim, faults: Faults) -> bool {
    let sure = matches!(
        claim.established,
        Established::Exact | Established::Exhaustive | Established::Theorem
    );
    sure && claim.changes.is_none()
        && claim.adversary == Adversary::Coalition
        && (claim.faults == faults || claim.faults == Faults::Any)
}

/// What is expected of the result. `budget` is the μ of the plan's (ε, δ).
pub fn predicted(setting: &Setting, noise: Noise, budget: f64) -> Result<Predicted, ExecutionError> {
    let errors = ErrorModel::of(setting)?;
    let (parties, total) = (setting.parties() as f64, setting.total_weight());
    let largest = setting.largest_sensitivity();
    let each: f64 = setting.sensitivity.iter().map(|delta| delta * delta).sum();
    let honest = parties - setting.colluding as f64;
    let finite = |error: Option<f64>| error.filter(|error| error.is_finite());
    Ok(Predicted {
        standard_error: errors.plain(noise),
        standard_error_one_dropout: finite(errors.departed(noise).filter(|_| setting.dropouts > 0)),
        standard_error_late_dropout: finite(errors.late(noise)),
        // A trusted server adds noise once, for the party that can move the sum most.
        central: largest / (budget * total),
        // Everybody adds all the noise that its own value needs.
        local: each.sqrt() / (budget * total),
        error_floor: largest * (parties / honest).sqrt() / (budget * total),
        bytes_per_party: 0,
    })
}
