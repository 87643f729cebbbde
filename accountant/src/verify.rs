//! Any node recomputes a plan's claims before it joins, and refuses a plan whose claims do not hold.

use undertone_protocol::injection::InjectionError;
use undertone_protocol::plan::{Claim, Faults, Plan, Predicted};

use crate::claims::{ClaimError, claims, covers, predicted};
use crate::execution::ExecutionError;
use crate::gaussian::{self, GaussianError};
use crate::loss::Noise;
use crate::setting::Setting;

/// How far a recomputed loss may exceed the claimed one by rounding, relatively.
const ROUNDING: f64 = 1e-9;

/// How far a recomputed prediction may differ from the plan's, relatively.
const PREDICTION: f64 = 1e-6;

/// Why a plan's claims are refused. Always the plan's fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VerifyError {
    /// A claim that says less than the truth.
    #[error("claims[{index}] ({what}): the plan says mu {claimed}, its own schedule and noise give {found}")]
    Loss {
        /// Of the claim.
        index: usize,
        /// The claim, in words.
        what: String,
        /// In the plan.
        claimed: f64,
        /// Recomputed.
        found: f64,
    },
    /// A claim whose ε does not follow from its μ.
    #[error(
        "claims[{index}] ({what}): epsilon {claimed} is below {found}, which follows from its mu at its delta"
    )]
    Epsilon {
        /// Of the claim.
        index: usize,
        /// The claim, in words.
        what: String,
        /// In the plan.
        claimed: f64,
        /// Recomputed.
        found: f64,
    },
    /// A claim for another δ than the plan's privacy target.
    #[error("claims[{index}] ({what}): delta {claimed} is not the plan's delta {expected}")]
    Delta {
        /// Of the claim.
        index: usize,
        /// The claim, in words.
        what: String,
        /// In the plan's claim.
        claimed: f64,
        /// privacy.delta.
        expected: f64,
    },
    /// A claim that this version cannot establish.
    #[error("claims[{index}] ({what}): this cannot be established for this plan")]
    Unknown {
        /// Of the claim.
        index: usize,
        /// The claim, in words.
        what: String,
    },
    /// No sure claim for a fault set.
    #[error("claims: none that holds as headline covers {faults}")]
    Missing {
        /// The fault set.
        faults: &'static str,
    },
    /// The headline exceeds the target.
    #[error("privacy.epsilon: the plan promises {promised}, its claims only hold for {found}")]
    Budget {
        /// privacy.epsilon.
        promised: f64,
        /// The headline.
        found: f64,
    },
    /// A predicted number that does not follow from the plan.
    #[error("predicted.{field}: the plan says {claimed:?}, its own schedule and noise give {found:?}")]
    Predicted {
        /// The key.
        field: &'static str,
        /// In the plan.
        claimed: Option<f64>,
        /// Recomputed.
        found: Option<f64>,
    },
    /// A sampled claim that does not follow from the draws that it names.
    #[error("claims[{index}] ({what}): {problem}")]
    Sample {
        /// Of the claim.
        index: usize,
        /// The claim, in words.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// Static coalitions of more parties, over more rounds, than anybody could draw.
    #[error(
        "privacy.coalitions: a single random draw of {parties} parties over {rounds} rounds takes seconds: nobody can check a sample of them"
    )]
    Draws {
        /// n.
        parties: usize,
        /// T.
        rounds: usize,
    },
    /// (c, Z).
    #[error(transparent)]
    Injection(#[from] InjectionError),
    /// The schedule.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The numbers.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// ε or δ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
}

mod sampled;

/// Recomputes every claim and every predicted number from the plan's own schedule and standard deviations.
///
/// `Ok` means: every claim holds, and those that hold as headline cover the tolerated class and what leaves before publishing, within the
/// plan's (ε, δ). Claims that are worse than the truth are accepted. Where START draws the schedule the plan's (ε, δ) is for its sampled claim, which
/// is held against draws from the seed `own` on: a random number that nobody else knew when the plan was made. Other plans make no use of it.
pub fn verify(plan: &Plan, own: u64) -> Result<(), VerifyError> {
    let calibration = plan.calibration();
    let privacy = &plan.draft().privacy;
    let setting = Setting::of_plan(plan)?;
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    if plan.draws_at_start() {
        sampled::check(plan, &setting, noise, own)?;
    } else {
        let established = claims(&setting, noise, privacy.delta)?;
        for (index, claim) in calibration.claims.iter().enumerate() {
            check_claim(index, claim, &established, privacy.delta)?;
        }
        match setting.reveals_sums(noise) {
            // The plan says that exact sums are revealed, and that this is meant: it has no headline, and keeps its word for other changes.
            true => check_cover(&calibration.claims, privacy.epsilon, |claim, faults| {
                claim.faults == faults
            })?,
            false => check_cover(&calibration.claims, privacy.epsilon, |claim, faults| {
                claim.holds_as_headline && covers(claim, faults)
            })?,
        }
    }
    let budget = gaussian::mu(privacy.epsilon, privacy.delta)?;
    check_predicted(
        &calibration.predicted,
        &predicted(&setting, noise, budget)?.times(plan.scales().root_mean_square()),
    )
}

fn check_claim(index: usize, claim: &Claim, established: &[Claim], delta: f64) -> Result<(), VerifyError> {
    let what = words(claim);
    if claim.delta != delta {
        return Err(VerifyError::Delta {
            index,
            what,
            claimed: claim.delta,
            expected: delta,
        });
    }
    let same = |truth: &&Claim| {
        truth.adversary == claim.adversary
            && truth.faults == claim.faults
            && truth.established == claim.established
            && truth.changes == claim.changes
            && truth.size >= claim.size
    };
    let Some(truth) = established.iter().find(same) else {
        return Err(VerifyError::Unknown { index, what });
    };
    if exceeds(truth.mu, claim.mu) {
        return Err(VerifyError::Loss {
            index,
            what,
            claimed: claim.mu,
            found: truth.mu,
        });
    }
    let follows = gaussian::epsilon(claim.delta, claim.mu)?;
    if exceeds(follows, claim.epsilon) {
        return Err(VerifyError::Epsilon {
            index,
            what,
            claimed: claim.epsilon,
            found: follows,
        });
    }
    if claim.cases > truth.cases || claim.holds_as_headline && claim.changes.is_some() {
        return Err(VerifyError::Unknown { index, what });
    }
    Ok(())
}

/// Whether a recomputed number is above what was said, or not a number.
fn exceeds(truth: f64, said: f64) -> bool {
    truth.is_nan() || said.is_nan() || truth > said * (1.0 + ROUNDING)
}

fn check_cover(
    claims: &[Claim],
    epsilon: f64,
    covers: impl Fn(&Claim, Faults) -> bool,
) -> Result<(), VerifyError> {
    for (faults, name) in [
        (Faults::Class, "the tolerated class"),
        (Faults::BeforePublishing, "what leaves before publishing"),
    ] {
        let best = claims
            .iter()
            .filter(|claim| covers(claim, faults))
            .map(|claim| claim.epsilon)
            .reduce(f64::min);
        match best {
            None => return Err(VerifyError::Missing { faults: name }),
            Some(found) if exceeds(found, epsilon) => {
                return Err(VerifyError::Budget {
                    promised: epsilon,
                    found,
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_predicted(said: &Predicted, found: &Predicted) -> Result<(), VerifyError> {
    let pairs = [
        (
            "standard_error",
            Some(said.standard_error),
            Some(found.standard_error),
        ),
        (
            "standard_error_one_dropout",
            said.standard_error_one_dropout,
            found.standard_error_one_dropout,
        ),
        (
            "standard_error_late_dropout",
            said.standard_error_late_dropout,
            found.standard_error_late_dropout,
        ),
        ("central", Some(said.central), Some(found.central)),
        ("local", Some(said.local), Some(found.local)),
        ("error_floor", Some(said.error_floor), Some(found.error_floor)),
    ];
    for (field, claimed, found) in pairs {
        let same = match (claimed, found) {
            (Some(claimed), Some(found)) => (claimed - found).abs() <= PREDICTION * found.abs(),
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Err(VerifyError::Predicted {
                field,
                claimed,
                found,
            });
        }
    }
    Ok(())
}

/// A claim in words, for messages.
fn words(claim: &Claim) -> String {
    let faults = match claim.faults {
        Faults::Class => "the tolerated class",
        Faults::BeforePublishing => "before publishing",
        Faults::Any => "any faults",
    };
    format!("{:?}, up to {} parties, {faults}", claim.established, claim.size).to_lowercase()
}

#[cfg(test)]
mod tests;
