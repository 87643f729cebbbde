//! The account of a run whose finals were sealed: the fate of this node's final, and its loss
//! (protocol/docs/sealing.md).

use undertone_accountant::gate::sealed::{closed, perhaps_opened};
use undertone_accountant::gate::verdict::Audit;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, Outcome, SealedFinal};
use undertone_protocol::topology::party::Party;

use crate::party::driver::Finish;

/// The fate of this node's final, where the plan seals finals and something private has left. A
/// node that never sealed its own has given nobody anything to open.
pub(super) fn fate(plan: &Plan, outcome: &Outcome) -> Option<SealedFinal> {
    match outcome.ending {
        Ending::Aborted { .. } | Ending::Spent { .. } => None,
        // What is sealed for circles is accounted for as gossip's.
        _ if plan.reads_circles() => None,
        _ if plan.draft().run.sealed => Some(outcome.sealed.unwrap_or(SealedFinal::Closed)),
        _ => None,
    }
}

/// Returns the loss of the run. It is nothing where nothing is opened, and the largest within the
/// plan where others may have opened what this node could not.
pub(super) fn audit(plan: &Plan, finish: &Finish, fate: SealedFinal) -> Option<Audit> {
    let verdict = finish.gate.as_ref();
    match fate {
        SealedFinal::Opened => verdict.map(|verdict| verdict.audit.clone()),
        SealedFinal::Closed => Some(closed(plan, verdict, reason(&finish.outcome))),
        SealedFinal::Unknown => Some(perhaps_opened(plan, verdict, reason(&finish.outcome))),
    }
}

fn reason(outcome: &Outcome) -> &str {
    match &outcome.ending {
        Ending::Withheld { reason } => reason,
        _ => "not all that opens the agreed set is here",
    }
}

/// Names of those who were opened by others, since their own word did not come, in order.
pub(super) fn opened_for(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let name = |&party: &Party| plan.draft().members[party].name.clone();
    let mut names: Vec<String> = outcome.opened_for.iter().map(name).collect();
    names.sort();
    names
}

/// That others opened a party's final, for people.
pub(super) fn opened_for_sentence(name: &str) -> String {
    format!(
        "opened for {name}, who was gone: holders of its secret made it known, so that its value is in the mean"
    )
}

/// Returns the reason why there is no mean, where the plan seals finals and `ending` alone does not
/// say it.
pub(super) fn reason_without_mean(plan: &Plan, outcome: &Outcome, fate: SealedFinal) -> String {
    const OTHERS: &str = "nobody here could read a result; others may have";
    match (&outcome.ending, fate) {
        (Ending::Withheld { reason }, SealedFinal::Closed) => {
            format!(
                "{reason}; nothing of this node's value is opened: this run has cost it nothing, \
                 and a new plan costs nothing extra"
            )
        }
        (Ending::Withheld { reason }, SealedFinal::Unknown) => format!("{reason}; {OTHERS}"),
        (Ending::Withheld { reason }, SealedFinal::Opened) => reason.clone(),
        (_, SealedFinal::Opened) => {
            "no mean was written: what was opened does not add up to values and noise, \
                                     so that somebody's share, correction or final is a lie"
                .into()
        }
        _ => {
            let lacking = outcome.unopened.iter();
            let sentences: Vec<String> = lacking
                .map(|lacking| lacking.sentence(&plan.draft().members[lacking.party].name))
                .collect();
            match &sentences[..] {
                [] => format!("no mean was written: {OTHERS}"),
                _ => format!("no mean was written: {}; {OTHERS}", sentences.join(", ")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
