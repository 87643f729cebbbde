//! Plans that only bound how many records each party contributes.

use undertone_protocol::describe::columns::RowCount;
use undertone_protocol::plan::checked::{Plan, RecordsAtStart};
use undertone_protocol::plan::computation::rounds::ReleaseKind;
use undertone_protocol::plan::draft::Member;
use undertone_protocol::plan::run_file::records::Records;

use crate::reporting::table::number;

/// Whether fewer records may come than the plan has room for: START has not fixed their numbers,
/// or nobody says them.
fn is_open(plan: &Plan) -> bool {
    let is_open = |(party, member): (usize, &Member)| {
        let bounded = matches!(member.records, Some(Records::AtMost(_)));
        bounded && !plan.records_at_start().contains_key(&party)
    };
    let described = plan.draft().computation.described();
    let is_private = described.is_some_and(|settings| settings.describe.count == RowCount::Private);
    is_private || plan.draft().members.iter().enumerate().any(is_open)
}

/// The number of all records, or "at most" that where fewer may come.
pub(super) fn total(plan: &Plan) -> String {
    let at_most = if is_open(plan) { "at most " } else { "" };
    format!("{at_most}{}", plan.total_weight())
}

/// The plan as it would run with half as many records as it allows. `None` where it has their
/// numbers, or releases sums, whose errors do not depend on them.
fn with_half(plan: &Plan) -> Option<Plan> {
    let half = |(party, member): (usize, &Member)| match member.records? {
        Records::AtMost(most) => Some((party, u32::try_from(most.div_ceil(2)).ok()?)),
        Records::Exactly(_) => None,
    };
    let halves: RecordsAtStart = plan.draft().members.iter().enumerate().filter_map(half).collect();
    let depends = !halves.is_empty() && plan.draft().computation.result() == ReleaseKind::Mean;
    depends.then(|| plan.with_records(&halves))
}

/// How large errors are with half as many records as the plan allows, as a sentence; empty where
/// the plan has the numbers.
pub(super) fn at_half(plan: &Plan) -> String {
    if plan.draft().computation.described().is_some() && is_open(plan) {
        // The noise of the sum stays, and figures are divided by the rows that there are.
        return format!(
            "These errors are for as many rows as the plan has room for. With half of them, {}, means, shares \
             and ranks are off by twice as much.\n",
            (plan.total_weight() / 2.0).ceil()
        );
    }
    let Some(fewer) = with_half(plan) else {
        return String::new();
    };
    let times = fewer.predicted().standard_error / plan.predicted().standard_error;
    format!(
        "These errors are for as many records as the plan allows. With half of them, {}, they are {} \
         times as large.\n",
        fewer.total_weight(),
        number(times)
    )
}

/// The standard error with half as many records as the plan allows, in the data's unit.
pub(super) fn error_at_half(plan: &Plan) -> Option<f64> {
    Some(with_half(plan)?.predicted().standard_error)
}
