//! How finals spread, in a quote: to everybody, in slices or by averaging, and what that sends.

use undertone_protocol::plan::checked::Plan;

use crate::reporting::table::{bytes, number};

/// How sealed finals spread, and what the other way would send; `None` where they are too short, or
/// the parties too few, for another.
pub(super) fn spreading(plan: &Plan) -> Option<String> {
    let (flood, slices) = plan.bytes_of_ways()?;
    let (flood, slices) = (bytes(flood), bytes(slices));
    let members = (0..plan.parties()).collect();
    let threshold = plan.threshold(plan.parties()).ok().flatten()?;
    Some(match plan.keepers(&members, threshold.needed()) {
        Some(keepers) => format!(
            "finals in slices to {} keepers each: {slices}, where to everybody it would be {flood}",
            keepers.each()
        ),
        None => format!("finals to everybody: {flood}, where in slices it would be {slices}"),
    })
}

/// How readable finals spread, if not to everybody.
pub(super) fn averaging(plan: &Plan) -> String {
    plan.terms().map_or(String::new(), |terms| {
        format!(
            "Finals are averaged over the public graph: about {} rounds ({}), at most {}; \
             all nodes end within {} standard errors of each other.\n",
            terms.expected_rounds,
            terms.at_most.method.name(),
            terms.at_most.steps.len(),
            number(terms.accuracy())
        )
    })
}
