//! What a node asks of a plan before it joins: the flags, and the check.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::Unit;

use crate::planning::mechanism;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::progress::Progress;

/// Policy that a node checks a plan against.
#[derive(Args, Clone, Debug)]
pub struct Policy {
    /// Refuse a plan of another SHA-256 (hex)
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
    /// Refuse a plan that claims more than this ε
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub max_epsilon: Option<f64>,
    /// Refuse a plan whose δ is larger
    ///
    /// Default: 1e-4, or 1/(10 · records) where that is smaller.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub max_delta: Option<f64>,
    /// Refuse fewer colluders than this
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub min_colluders: usize,
    /// Ignored: earlier plans could rest on a sample, and none does now
    #[arg(long, value_enum, hide_short_help = true)]
    pub accept_claims: Option<AcceptClaims>,
}

/// How claims must be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptClaims {
    /// Exact, exhaustive or by theorem.
    Exact,
    /// Sampled claims will do.
    Sampled,
}

/// The policy first (it is quick), then every claim.
pub fn check(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    check_policy(plan, policy)?;
    undertone_accountant::verify(plan)
        .map_err(|e| Failure::new(Exit::PlanRefused, e.to_string()).field("claims"))
}

/// Checks the policy, then every claim, with a live line: against a hundred parties' coalitions it
/// takes a while.
pub fn check_aloud(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    let mut progress = Progress::start();
    progress.show(&format!(
        "checking the plan: every claim of {} parties",
        plan.parties()
    ));
    let checked = check(plan, policy);
    progress.end();
    checked
}

/// The policy alone: what the plan claims is taken for true.
pub fn check_policy(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    let refused = |message: String, field: &str| Failure::new(Exit::PlanRefused, message).field(field);
    if policy.accept_claims.is_some() {
        tracing::warn!(
            "--accept-claims (policy.accept_claims) is ignored: all claims of plans hold with certainty now"
        );
    }
    // Is it the file that the others have?
    if let Some(digest) = policy
        .digest
        .as_ref()
        .filter(|digest| !digest.eq_ignore_ascii_case(&plan.digest_hex()))
    {
        return Err(refused(
            format!("the plan's digest is {}, not {digest}", plan.digest_hex()),
            "--digest",
        )
        .hint("you were sent another file than the others; ask for theirs"));
    }
    if !plan.draft().exchange.rolls_back() {
        return Err(refused(
            "without roll-back (rollback = false) a run is for comparison only".into(),
            "mechanism.rollback",
        )
        .hint("ask for a plan without mechanism.rollback = false"));
    }
    if policy.max_epsilon.is_some_and(|e| e.is_nan() || e <= 0.0) {
        return Err(Failure::usage("--max-epsilon must be a number above 0").field("--max-epsilon"));
    }
    within_delta(plan, policy)?;
    // Is the claimed loss within what is allowed, against enough colluders?
    let claimed = plan.epsilon_claimed();
    within_epsilon(plan, claimed, policy)?;
    let colluding = plan.draft().privacy.colluding;
    if colluding < policy.min_colluders {
        return Err(refused(
            format!(
                "the plan covers coalitions of up to {colluding}, your policy asks for {}",
                policy.min_colluders
            ),
            "--min-colluders",
        )
        .hint("ask for a plan with privacy.colluding at least that large"));
    }
    Ok(())
}

/// The δ that a node accepts where nobody says another. Our choice.
const MOST_DELTA: f64 = 1e-4;

/// How many there are of what a plan protects: records, or parties.
fn protected_units(plan: &Plan) -> f64 {
    match plan.draft().data.unit {
        Unit::Record => plan.draft().total_weight(),
        Unit::Party => plan.parties() as f64,
    }
}

/// Returns the largest δ that is accepted where no policy says another: 10⁻⁴, or 1/(10·records)
/// where that is smaller. To show one record of n in full is (0, 1/n)-private, so that δ says
/// something only well below 1/n.
pub fn default_max_delta(plan: &Plan) -> f64 {
    MOST_DELTA.min(1.0 / (10.0 * protected_units(plan)))
}

fn within_delta(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    if policy.max_delta.is_some_and(|most| !(most > 0.0 && most <= 1.0)) {
        return Err(
            Failure::usage("--max-delta must be a number above 0, and at most 1").field("--max-delta"),
        );
    }
    let (delta, most) = (
        plan.draft().privacy.delta,
        policy.max_delta.unwrap_or_else(|| default_max_delta(plan)),
    );
    if delta <= most {
        return Ok(());
    }
    let whose = match policy.max_delta {
        Some(_) => "your policy allows",
        None => "where no policy says another this node allows",
    };
    let message = format!("the plan's ε holds but for a chance of δ = {delta:e}, {whose} {most:e}");
    Err(Failure::new(Exit::PlanRefused, message)
        .field("--max-delta")
        .hint("ask for a plan with a smaller privacy.delta, or allow more if a record may be told in full with that chance"))
}

/// Says of a plan whose δ is above one over the number of records that it promises little; None of
/// any other.
pub fn large_delta(plan: &Plan) -> Option<String> {
    let (delta, units) = (plan.draft().privacy.delta, protected_units(plan));
    let what = match plan.draft().data.unit {
        Unit::Record => "records",
        Unit::Party => "parties",
    };
    (delta > 1.0 / units).then(|| {
        format!(
            "δ = {delta:e} is above 1/{units}, one over the number of {what}: to show one of them in full to \
             everybody would be within it. Choose privacy.delta at most {:e}",
            default_max_delta(plan)
        )
    })
}

/// A plan that reveals exact sums has no ε for the change of one value: whoever states a largest
/// one has refused it.
fn within_epsilon(plan: &Plan, claimed: Option<f64>, policy: &Policy) -> Result<(), Failure> {
    let refused = |message: String, field: &str| Failure::new(Exit::PlanRefused, message).field(field);
    match (claimed, policy.max_epsilon) {
        (Some(claimed), Some(most)) if claimed > most => Err(refused(
            format!("the plan claims ε = {claimed}, your policy allows {most}"),
            "--max-epsilon",
        )
        .hint("ask for a plan with a smaller epsilon")),
        (Some(_), _) => Ok(()),
        (None, None) if mechanism::reveals_sums(plan) => Ok(()),
        (None, Some(_)) if plan.draft().computation.recursion().is_some() => {
            let message = "the plan reveals exact sums at every iterate, as as_in_paper, and nothing bounds what \
                           they tell";
            Err(refused(message.into(), "--max-epsilon").hint(
                "what you want is task = \"regression\"; or leave --max-epsilon out if exact sums are meant",
            ))
        }
        (None, Some(_)) if mechanism::reveals_sums(plan) => {
            let message = "the plan reveals exact sums (independent_noise = \"none\"): \
                           what it claims holds for changes that keep these, and a change of one value \
                           has no ε";
            Err(refused(message.into(), "--max-epsilon").hint(
                "ask for a plan with independent_noise = \"calibrated\", or leave --max-epsilon out if \
                 exact sums are meant",
            ))
        }
        (None, _) => Err(refused("the plan claims no ε at all".into(), "claims")),
    }
}

#[cfg(test)]
mod tests;
