//! The claims of a plan whose schedule START draws.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults};

use crate::bounds::confidence;
use crate::bounds::draws::Draws;
use crate::calibration::claims::{covers, static_claims};
use crate::calibration::static_draws::{Allowed, Sample, failures, fresh_seed};
use crate::class::setting::Setting;
use crate::losses::gaussian;
use crate::losses::loss::Noise;
use crate::verify::claim::{check_claim, check_sampling, exceeds, words};
use crate::verify::error::VerifyError;

/// Checks every claim, and that the plan's (ε, δ) is covered: by draws for the tolerated class, for
/// sure before publishing. Any coalition is covered by a claim that is sure, whatever its ε: it is
/// the headline.
///
/// The plan's own draws cannot be taken at its word: whoever made it could have tried one noise
/// after the other until its draws looked well. So there are other ones here, [`Draws::checked`] of
/// them from the seed `own` on, which nobody knew then; the plan is refused where these say that
/// the chance p of a draw that loses more, which its δ includes, is too small.
pub(super) fn check(plan: &Plan, setting: &Setting, noise: Noise, own: u64) -> Result<(), VerifyError> {
    let privacy = &plan.draft().privacy;
    let claims = &plan.calibration().claims;
    if Draws::of_draft(plan.draft(), plan.rounds() as usize).take_too_long() {
        return Err(VerifyError::Draws {
            parties: plan.parties(),
            rounds: plan.rounds() as usize,
        });
    }
    // What no fresh draw can contradict: an empty sample.
    let none = Sample {
        seed: 0,
        draws: 1,
        failures: 0,
    };
    let established = static_claims(plan.draft(), setting, noise, none)?;
    for (index, claim) in claims.iter().enumerate() {
        match claim.established {
            Established::Sampled => check_sample(plan, noise, index, claim, own)?,
            _ => check_claim(plan, index, claim, &established)?,
        }
    }
    // The tolerated class, by a sample.
    let within = |claim: &&Claim| !exceeds(claim.epsilon, privacy.epsilon);
    let sample =
        |claim: &&Claim| claim.established == Established::Sampled && claim.size >= privacy.colluding;
    if !claims.iter().filter(sample).any(|claim| within(&claim)) {
        return Err(VerifyError::Missing {
            faults: "the tolerated class for coalitions chosen before the schedule",
        });
    }
    // What leaves before publishing, for sure.
    let before = claims
        .iter()
        .filter(|claim| covers(claim, Faults::BeforePublishing))
        .map(|claim| claim.epsilon);
    match before.reduce(f64::min) {
        Some(found) if !exceeds(found, privacy.epsilon) => {}
        Some(found) => {
            return Err(VerifyError::Budget {
                promised: privacy.epsilon,
                found,
            });
        }
        None => {
            return Err(VerifyError::Missing {
                faults: "what leaves before publishing",
            });
        }
    }
    // The headline: any coalition, for sure.
    let headline = |faults| {
        claims
            .iter()
            .any(|claim| claim.holds_as_headline && covers(claim, faults))
    };
    if headline(Faults::Class) && headline(Faults::BeforePublishing) {
        Ok(())
    } else {
        Err(VerifyError::Missing {
            faults: "any coalition",
        })
    }
}

/// Checks a sampled claim: that it names the draws that are due, and states no more than they can
/// show, nor than draws of one's own do.
fn check_sample(plan: &Plan, noise: Noise, index: usize, claim: &Claim, own: u64) -> Result<(), VerifyError> {
    let (draft, rounds) = (plan.draft(), plan.rounds() as usize);
    let privacy = &draft.privacy;
    let refuse = |problem: String| {
        Err(VerifyError::Sample {
            index,
            what: words(claim),
            problem,
        })
    };
    // The draws that are due, and what they are of.
    let draws = Draws::of_draft(draft, rounds);
    let expected = fresh_seed(draft, rounds, noise);
    if claim.seed != Some(expected) {
        return refuse(format!(
            "its seed is {:?}, but fresh draws for these parameters begin at {expected}",
            claim.seed
        ));
    }
    if claim.holds_as_headline || claim.faults != Faults::Class {
        return refuse("a sample covers the tolerated class, and is never a headline".into());
    }
    if claim.adversary != Adversary::Coalition || claim.changes.is_some() {
        return refuse("a sample is of coalitions, and of the change of one value".into());
    }
    if claim.size > privacy.colluding {
        return refuse(format!("its draws have coalitions of {}", privacy.colluding));
    }
    let due = privacy.draws.unwrap_or_else(|| draws.usual());
    if claim.cases != due {
        return refuse(format!(
            "it names {} draws, but {due} are due for this plan",
            claim.cases
        ));
    }
    // Its ε and δ.
    let follows = gaussian::epsilon(privacy.delta, claim.mu)?;
    if exceeds(follows, claim.epsilon) {
        return Err(VerifyError::Epsilon {
            index,
            what: words(claim),
            claimed: claim.epsilon,
            found: follows,
        });
    }
    check_sampling(plan, index, claim, follows)?;
    let least = privacy.delta + Draws::chance(0, due);
    if exceeds(least, claim.delta) {
        return refuse(format!(
            "delta {} is below {least}, the least that {due} draws can show",
            claim.delta
        ));
    }
    // Draws of one's own.
    let trials = draws.checked(due);
    let first = OWN | (own >> 2);
    let allowed = Allowed::of(draft, noise, claim.mu);
    let found = failures(&draws, first..first + trials, allowed, &mut |_| {});
    let chance = confidence::at_least(found, trials, WRONGLY_REFUSED);
    if exceeds(privacy.delta + chance, claim.delta) {
        let problem = format!(
            "delta {} is too small: {found} of {trials} draws of this machine's own lose more than mu, so that a draw fails with a chance above {chance:.1e}",
            claim.delta
        );
        return refuse(problem);
    }
    Ok(())
}

/// Where the seeds of whoever verifies begin: planning uses those from 2⁶¹ and 2⁶² on, and below
/// 2⁵³.
const OWN: u64 = 1 << 63;

/// The chance that draws of one's own refuse a plan whose δ is right. Our choice: never in a
/// lifetime.
const WRONGLY_REFUSED: f64 = 1e-6;
