//! The claims of a plan whose schedule START draws.

use undertone_protocol::plan::{Claim, Established, Faults, Plan};

use super::{VerifyError, check_claim, exceeds, words};
use crate::claims::{covers, static_claims};
use crate::gaussian;
use crate::loss::Noise;
use crate::setting::Setting;
use crate::static_coalitions::Draws;
use crate::static_coalitions::calibration::{Sample, failures, fresh_seed};

/// Every claim, and that the plan's (ε, δ) is covered: by draws for the tolerated class, for sure before publishing. Any coalition is covered by a
/// claim that is sure, whatever its ε: it is the headline.
///
/// All of the sample would take as long as planning did: the first [`Draws::checked`] draws are drawn again, and p must allow for the failures
/// among these.
pub(super) fn check(plan: &Plan, setting: &Setting, noise: Noise) -> Result<(), VerifyError> {
    let privacy = &plan.draft().privacy;
    let claims = &plan.calibration().claims;
    // What no fresh draw can contradict: an empty sample.
    let none = Sample { seed: 0, draws: 1, failures: 0 };
    let established = static_claims(plan.draft(), setting, noise, none)?;
    for (index, claim) in claims.iter().enumerate() {
        match claim.established {
            Established::Sampled => check_sample(plan, noise, index, claim)?,
            _ => check_claim(index, claim, &established, privacy.delta)?,
        }
    }
    let within = |claim: &&Claim| !exceeds(claim.epsilon, privacy.epsilon);
    let sample = |claim: &&Claim| claim.established == Established::Sampled && claim.size >= privacy.colluding;
    if !claims.iter().filter(sample).any(|claim| within(&claim)) {
        return Err(VerifyError::Missing { faults: "the tolerated class for coalitions chosen before the schedule" });
    }
    let before = claims.iter().filter(|claim| covers(claim, Faults::BeforePublishing)).map(|claim| claim.epsilon);
    match before.reduce(f64::min) {
        Some(found) if !exceeds(found, privacy.epsilon) => {}
        Some(found) => return Err(VerifyError::Budget { promised: privacy.epsilon, found }),
        None => return Err(VerifyError::Missing { faults: "what leaves before publishing" }),
    }
    let headline = |faults| claims.iter().any(|claim| claim.holds_as_headline && covers(claim, faults));
    match headline(Faults::Class) && headline(Faults::BeforePublishing) {
        true => Ok(()),
        false => Err(VerifyError::Missing { faults: "any coalition" }),
    }
}

fn check_sample(plan: &Plan, noise: Noise, index: usize, claim: &Claim) -> Result<(), VerifyError> {
    let (draft, rounds) = (plan.draft(), plan.rounds() as usize);
    let refuse = |problem: String| Err(VerifyError::Sample { index, what: words(claim), problem });
    let draws = Draws::of_draft(draft, rounds);
    let expected = fresh_seed(draft, rounds, noise);
    if claim.seed != Some(expected) {
        return refuse(format!("its seed is {:?}, but fresh draws for these parameters begin at {expected}", claim.seed));
    }
    if claim.holds_as_headline || claim.faults != Faults::Class {
        return refuse("a sample covers the tolerated class, and is never a headline".into());
    }
    if claim.size > draft.privacy.colluding {
        return refuse(format!("its draws have coalitions of {}", draft.privacy.colluding));
    }
    if claim.cases == 0 || claim.cases > MOST_DRAWS {
        return refuse(format!("it names {} draws", claim.cases));
    }
    let follows = gaussian::epsilon(draft.privacy.delta, claim.mu)?;
    if exceeds(follows, claim.epsilon) {
        return Err(VerifyError::Epsilon { index, what: words(claim), claimed: claim.epsilon, found: follows });
    }
    let again = draws.checked(claim.cases);
    let found = failures(&draws, expected..expected + again, noise, draft, claim.mu, &mut |_| {});
    let least = draft.privacy.delta + Draws::chance(found, claim.cases);
    if exceeds(least, claim.delta) {
        let problem = format!("delta {} is below {least}: {found} of the first {again} draws lose more than mu", claim.delta);
        return refuse(problem);
    }
    Ok(())
}

/// As many as a run file may ask for.
const MOST_DRAWS: u64 = 10_000_000;
