//! Plans that only bound how many records each party contributes.

use undertone_protocol::plan::checked::{Plan, RecordsAtStart};
use undertone_protocol::plan::computation::rounds::ReleaseKind;
use undertone_protocol::plan::draft::Member;
use undertone_protocol::plan::run_file::records::Records;

use crate::reporting::table::number;

/// The number of all records, or "at most" that where START has not fixed it.
pub(super) fn total(plan: &Plan) -> String {
    let is_open = |(party, member): (usize, &Member)| {
        let bounded = matches!(member.records, Some(Records::AtMost(_)));
        bounded && !plan.records_at_start().contains_key(&party)
    };
    let at_most = match plan.draft().members.iter().enumerate().any(is_open) {
        true => "at most ",
        false => "",
    };
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
