//! A whole plan: its claims, what they cover, its predictions.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults, Predicted};

use crate::calibration::claims::{covers, is_sure};
use crate::guarantee::as_in_paper;
use crate::guarantee::choice::Guarantee;
use crate::verify::claim::{check_claim, exceeds, words};
use crate::verify::clearance::check_clearance;
use crate::verify::error::VerifyError;

/// How far a recomputed prediction may differ from the plan's, relatively.
const PREDICTION: f64 = 1e-6;

/// Recomputes every claim and every predicted number from the plan's own schedule and standard
/// deviations.
///
/// `Ok` means: every claim holds, and those that hold as headline cover the tolerated class and
/// what leaves before publishing, within the plan's (ε, δ). Claims that are worse than the truth
/// are accepted.
pub fn verify(plan: &Plan) -> Result<(), VerifyError> {
    let guarantee = Guarantee::of(plan.draft());
    let established = guarantee.established(plan)?;
    let claims = &plan.calibration().claims;
    match guarantee {
        Guarantee::AsInPaper => {
            check_theorem(plan)?;
            if *claims != established.of_all {
                return Err(VerifyError::Missing {
                    faults: "the algorithm as in the paper, of which exact sums are revealed, and nothing else",
                });
            }
        }
        // The plan says that exact sums are revealed, and that this is meant: it has no headline,
        // and keeps its word for other changes.
        Guarantee::ExactSum => {
            check_clearance(plan, &established.of_release)?;
            check_claims(plan, &established.of_all)?;
            check_cover(plan, |claim, faults| is_sure(claim) && claim.faults == faults)?;
        }
        Guarantee::Connected | Guarantee::Drawn | Guarantee::Gaussian => {
            check_sizes(plan)?;
            check_clearance(plan, &established.of_release)?;
            check_claims(plan, &established.of_all)?;
            check_cover(plan, is_headline_of)?;
            check_theorems(plan)?;
        }
        Guarantee::OwnNoise | Guarantee::Circles => {
            check_claims(plan, &established.of_all)?;
            check_sizes(plan)?;
            check_cover(plan, is_headline_of)?;
        }
    }
    check_predicted(&plan.calibration().predicted, &established.predicted)
}

/// Checks each claim of a plan against those that can be established.
fn check_claims(plan: &Plan, established: &[Claim]) -> Result<(), VerifyError> {
    let mut claims = plan.calibration().claims.iter().enumerate();
    claims.try_for_each(|(index, claim)| check_claim(plan, index, claim, established))
}

/// Whether a headline rests on a claim for these faults.
fn is_headline_of(claim: &Claim, faults: Faults) -> bool {
    claim.holds_as_headline && covers(claim, faults)
}

/// Checks that the noise of an exchange is that of the theorem which the plan says it is of.
fn check_theorem(plan: &Plan) -> Result<(), VerifyError> {
    let Some(outer) = plan.draft().computation.recursion() else {
        return Ok(());
    };
    let claimed = plan.calibration().correlated_std;
    let found = match as_in_paper::noise_of_exchange(plan.draft(), outer) {
        Ok(found) if (claimed - found).abs() <= PREDICTION * found => return Ok(()),
        found => found.ok(),
    };
    Err(VerifyError::PairwiseStd { claimed, found })
}

/// Checks that what holds as headline covers coalitions as large as the plan's privacy target says.
fn check_sizes(plan: &Plan) -> Result<(), VerifyError> {
    let colluding = plan.draft().privacy.colluding;
    for (index, claim) in plan.calibration().claims.iter().enumerate() {
        if claim.holds_as_headline && claim.size < colluding {
            return Err(VerifyError::Size {
                index,
                what: words(claim),
                colluding,
            });
        }
    }
    Ok(())
}

/// Checks that the plan states what is proved of all others together: before publishing (with
/// sealed finals, of as many as collude: more may open them), and with any faults. A receipt falls
/// back on these.
fn check_theorems(plan: &Plan) -> Result<(), VerifyError> {
    let others = plan.parties() - 1;
    let before = match plan.draft().run.sealed {
        true => plan.draft().privacy.colluding,
        false => others,
    };
    for (faults, name, size) in [
        (Faults::BeforePublishing, "what leaves before publishing", before),
        (Faults::Any, "any faults", others),
    ] {
        let proved = |claim: &Claim| {
            claim.adversary == Adversary::Coalition
                && claim.established == Established::Theorem
                && claim.faults == faults
                && claim.changes.is_none()
                && claim.size >= size
        };
        if !plan.calibration().claims.iter().any(proved) {
            return Err(VerifyError::NoTheorem { faults: name });
        }
    }
    Ok(())
}

/// Checks that some claim covers each fault set, within the plan's ε.
fn check_cover(plan: &Plan, covers: impl Fn(&Claim, Faults) -> bool) -> Result<(), VerifyError> {
    let (claims, epsilon) = (&plan.calibration().claims, plan.draft().privacy.epsilon);
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

/// Checks what the plan predicts against what was computed again.
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
        (
            "standard_error_correcting",
            said.standard_error_correcting,
            found.standard_error_correcting,
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

#[cfg(test)]
mod tests;
