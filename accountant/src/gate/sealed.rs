//! The statement about a run with sealed finals that gave this node no result
//! (protocol/docs/sealing.md).

use undertone_protocol::plan::checked::Plan;

use crate::gate::decision::{withheld, without_verdict};
use crate::gate::verdict::{Audit, Verdict};

/// The audit of a node that knows that nobody opens its final: it has lost nothing, whatever the
/// others open without it. `verdict` is the gate's last word on the logs, if there is one.
pub fn closed(plan: &Plan, verdict: Option<&Verdict>, reason: &str) -> Audit {
    let own = withheld(plan, reason);
    match verdict {
        None => own,
        Some(Verdict { audit, .. }) => Audit {
            departed: audit.departed.clone(),
            faults: audit.faults.clone(),
            ..own
        },
    }
}

/// The audit of a node that could read no result although others may have: the largest loss that
/// any set within the plan may have, since which one they opened is not known here.
pub fn perhaps_opened(plan: &Plan, verdict: Option<&Verdict>, reason: &str) -> Audit {
    let any = without_verdict(plan, reason);
    match verdict {
        None => any,
        Some(Verdict { audit, .. }) if audit.mu <= any.mu => Audit {
            mu: any.mu,
            epsilon: any.epsilon,
            among: None,
            ..audit.clone()
        },
        Some(Verdict { audit, .. }) => audit.clone(),
    }
}

#[cfg(test)]
mod tests;
