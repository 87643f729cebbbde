//! What a node asks of a plan before it joins: the flags, and the check.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use undertone_protocol::plan::checked::Plan;

use crate::planning::mechanism;
use crate::telling::failure::{Exit, Failure};
use crate::telling::progress::Progress;

/// Policy that a node checks a plan against.
#[derive(Args, Clone, Debug)]
pub struct Policy {
    /// Refuse a plan whose file has another SHA-256 (hex)
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
    /// Refuse a plan that claims more than this ε
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub max_epsilon: Option<f64>,
    /// Refuse a plan that covers smaller coalitions than this
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub min_colluders: usize,
    /// Ignored: earlier plans could rest on a sample, and none does now
    #[arg(long, value_enum)]
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
            "--accept-claims (policy.accept_claims) is ignored: every claim of a plan is sure now"
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
    if !plan.draft().mechanism.rollback {
        return Err(refused(
            "without roll-back (rollback = false) a run is for comparison only".into(),
            "mechanism.rollback",
        )
        .hint("ask for a plan without mechanism.rollback = false"));
    }
    if policy.max_epsilon.is_some_and(|e| e.is_nan() || e <= 0.0) {
        return Err(Failure::usage("--max-epsilon must be a number above 0").field("--max-epsilon"));
    }
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
        (None, Some(_)) if plan.draft().outer.is_some() => {
            let message = "the plan reveals exact sums at every iterate, as printed, and nothing bounds what \
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
