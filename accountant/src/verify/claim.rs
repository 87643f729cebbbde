//! One claim of a plan against what can be established.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, DrawBasis, Faults};

use crate::bounds::static_draw::{delta_of_noise, most_chance};
use crate::calibration::claims::is_sure;
use crate::losses::gaussian;
use crate::verify::error::VerifyError;

/// How far a recomputed loss may exceed the claimed one by rounding, relatively.
const ROUNDING: f64 = 1e-9;

/// Checks a claim, the plan's number `index`, against those that can be established.
pub(super) fn check_claim(
    plan: &Plan,
    index: usize,
    claim: &Claim,
    established: &[Claim],
) -> Result<(), VerifyError> {
    let what = words(claim);
    let delta = plan.draft().privacy.delta;
    if claim.delta != delta {
        return Err(VerifyError::Delta {
            index,
            what,
            claimed: claim.delta,
            expected: delta,
        });
    }
    // Something can be said of what it covers, and nothing worse.
    let same = |truth: &&Claim| {
        truth.adversary == claim.adversary
            && truth.faults == claim.faults
            && truth.established == claim.established
            && truth.changes == claim.changes
            && truth.connectivity == claim.connectivity
            && is_same_draw(truth, claim)
            && truth.sealed == claim.sealed
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
    let delta = match claim.draw {
        Some(_) => delta_of_noise(claim.delta),
        None => claim.delta,
    };
    let follows = gaussian::epsilon(delta, claim.mu)?;
    if exceeds(follows, claim.epsilon) {
        return Err(VerifyError::Epsilon {
            index,
            what,
            claimed: claim.epsilon,
            found: follows,
        });
    }
    let no_headline = claim.changes.is_some() || !is_sure(claim);
    if claim.cases > truth.cases || claim.holds_as_headline && no_headline {
        return Err(VerifyError::Unknown { index, what });
    }
    // A larger ε than the true one is as true, at no larger δ.
    check_sampling(plan, index, claim, truth.epsilon.min(claim.epsilon))
}

/// Whether a claim rests on the draw that it says, or on none, and states no smaller chance of a
/// bad one than there is, nor a larger one than its δ has room for.
fn is_same_draw(truth: &Claim, claim: &Claim) -> bool {
    match (truth.draw, claim.draw) {
        (None, None) => true,
        (Some(truth), Some(said)) => {
            let chance = said.chance;
            !exceeds(truth.chance, chance)
                && !exceeds(chance, most_chance(claim.delta, truth.tries))
                && said == DrawBasis { chance, ..truth }
        }
        _ => false,
    }
}

/// Checks that a claim, the plan's number `index`, states what sampling its noise adds to δ of a
/// true statement with that ε.
pub(super) fn check_sampling(
    plan: &Plan,
    index: usize,
    claim: &Claim,
    epsilon: f64,
) -> Result<(), VerifyError> {
    let found = plan.sampling_delta(epsilon);
    if exceeds(found, claim.sampling_delta) {
        return Err(VerifyError::Sampling {
            index,
            what: words(claim),
            claimed: claim.sampling_delta,
            found,
        });
    }
    Ok(())
}

/// Whether a recomputed number is above what was said, or not a number.
pub(super) fn exceeds(truth: f64, said: f64) -> bool {
    truth.is_nan() || said.is_nan() || truth > said * (1.0 + ROUNDING)
}

/// A claim in words, for messages.
pub(super) fn words(claim: &Claim) -> String {
    let faults = match claim.faults {
        Faults::Class => "the tolerated class",
        Faults::BeforePublishing => "before publishing",
        Faults::Any => "any faults",
        Faults::None => "no faults",
    };
    let who = match claim.adversary {
        Adversary::Apart => "strangers",
        Adversary::Coalition | Adversary::Public => "parties",
    };
    format!("{:?}, up to {} {who}, {faults}", claim.established, claim.size).to_lowercase()
}
