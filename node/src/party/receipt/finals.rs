//! The fate of finals: which are missing, whether they contradict the logs, and how much noise
//! is in their sum.

use undertone_accountant::calibration::utility::{Realised, realised};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Outcome;

use crate::party::driver::Finish;
use crate::reporting::failure::{Exit, Failure};

/// Sentences about finals that were let through by the gate and did not arrive in time.
pub(super) fn missing_finals(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let publishers = outcome
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.publish.as_ref())
        .filter(|_| outcome.sum.is_some());
    let missing = publishers
        .into_iter()
        .flatten()
        .filter(|party| !outcome.included.contains(party));
    missing
        .map(|&party| format!("no final of {} was agreed on", plan.draft().members[party].name))
        .collect()
}

/// Whether the weights of the finals are not those of the agreed logs. With roll-back the logs list
/// every share of those who publish. Their weights then add up to one number, up to the rounding of
/// what the accountant computes in f64; without it some shares are ambiguous. Where finals are
/// averaged, no sum of weights is known that precisely.
pub(super) fn contradicts(plan: &Plan, outcome: &Outcome, realised: Option<&Realised>) -> bool {
    const ROUNDING: f64 = 1e-9;
    let (Some(sum), Some(realised)) = (&outcome.sum, realised) else {
        return false;
    };
    if plan.terms().is_some() || !plan.draft().exchange.rolls_back() {
        return false;
    }
    let found = plan.lattice().weight_to_f64(sum.weight.0);
    (found - realised.total_weight).abs() > ROUNDING * plan.total_weight()
}

/// The error of the result, from the agreed logs; none where nothing was summed.
///
/// # Errors
/// Logs that the gate passed and the accountant refuses.
pub(super) fn error_of(plan: &Plan, finish: &Finish) -> Result<Option<Realised>, Failure> {
    let outcome = &finish.outcome;
    let publishers = outcome
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.publish.as_ref());
    let (Some(logs), Some(publishers), Some(_)) = (&outcome.logs, publishers, &outcome.sum) else {
        return Ok(None);
    };
    realised(plan, logs, publishers, &outcome.included)
        .map(Some)
        .map_err(|e| {
            Failure::new(
                Exit::Internal,
                format!("the gate passed logs that the accountant refuses: {e}"),
            )
        })
}
