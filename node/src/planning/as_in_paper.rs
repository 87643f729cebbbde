//! The quote of PPSC's outer recursions: what everybody learns, and how it goes.

use serde_json::{Value, json};
use undertone_accountant::guarantee::as_in_paper::{learned_by_readers, of_theorem};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::plan::computation::recursion::PublicAveraging;

use crate::reporting::table::number;

/// Against whom such a plan protects.
pub(super) const THREAT: &str =
    "Against nobody who reads the public graph: exact sums are revealed, as in the paper";
/// What it protects.
pub(super) const PROTECTED: &str = "nothing: exact sums are revealed at every iterate";

/// What is computed, in words; none of any other task.
pub(super) fn what(plan: &Plan) -> Option<&'static str> {
    match plan.draft().computation {
        Computation::LinearEquations(_) => Some("linear equations (PPSC, Algorithm 3)"),
        Computation::Optimise(_) => Some("convex optimisation (PPSC, Algorithm 4)"),
        _ => None,
    }
}

/// What everybody who reads the public graph learns, as a sentence; none of any other task.
pub(super) fn revealed(plan: &Plan) -> Option<String> {
    let outer = plan.draft().computation.recursion()?;
    Some(format!(
        "This plan has no ε, and reveals what it computes from: {}. Who knows all rows of a piece but one \
         party's knows that one's. It is for reproducing the paper; what hides every row is \
         task = \"regression\"",
        learned_by_readers(plan.draft(), outer)
    ))
}

/// The quote as a person reads it; none of any other task.
pub(super) fn text(plan: &Plan) -> Option<String> {
    let (draft, outer) = (plan.draft(), plan.draft().computation.recursion()?);
    let averaging = match outer.averaging {
        PublicAveraging::Exact => "averaging that is exact after finitely many rounds".to_owned(),
        PublicAveraging::Paper { rounds, weight } => {
            let weight = weight.unwrap_or(1.0 / plan.parties() as f64);
            format!(
                "{rounds} rounds of plain averaging, edges of weight {}",
                number(weight)
            )
        }
    };
    Some(format!(
        "{}: {} over {} parties, {} coordinates\n{}.\n\n\
         {} outer iterations, each of {} iterations of multi-gossip (σ_γ = {} an exchange, which cancels), \
         {averaging}, and a step of each party's own. Whoever departs ends it: each party keeps its last \
         iterate.\n{}",
        draft.name,
        what(plan)?,
        plan.parties(),
        draft.dimension(),
        revealed(plan)?,
        outer.iterations,
        outer.gossip_iterations,
        number(plan.calibration().correlated_std),
        of_theorem(draft, outer).map_or_else(String::new, |theorem| format!("\nσ_γ: {theorem}.\n")),
    ))
}

/// The object of `plan` and `verify`; none of any other task.
pub(super) fn json(plan: &Plan) -> Option<Value> {
    let outer = plan.draft().computation.recursion()?;
    Some(json!({
        "name": plan.draft().name,
        "digest": plan.digest_hex(),
        "parties": plan.parties(),
        "task": plan.draft().computation.task(),
        "outer": outer,
        "epsilon_claimed": null,
        "epsilon_searched": null,
        "unbounded": true,
        "delta": plan.draft().privacy.delta,
        "pairwise_std": plan.calibration().correlated_std,
        "pairwise_std_says": of_theorem(plan.draft(), outer),
        "revealed": revealed(plan),
        "threat": THREAT,
        "protected": PROTECTED,
        "claims": plan.calibration().claims,
        "exit_code": 0,
    }))
}
