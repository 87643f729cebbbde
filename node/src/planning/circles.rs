//! The quote of secure sums over neighbourhoods: what nobody reads, what sums tell all the same,
//! and what ends a stream.

use serde_json::{Value, json};
use undertone_accountant::guarantee::circles::{WorstReaders, worst_readers};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Faults;

use crate::planning::foundations;
use crate::reporting::table::number;

/// What of open messages' loss sums may keep before a quote warns. Our choice, as the design has
/// it.
const LITTLE_GAINED: f64 = 0.8;

/// Whether the headline is what was computed of every coalition.
fn is_computed(plan: &Plan) -> bool {
    let mut claims = plan.calibration().claims.iter();
    claims.any(|claim| claim.holds_as_headline && claim.faults == Faults::Class)
}

fn names(plan: &Plan, readers: &[usize]) -> String {
    let names: Vec<&str> = readers
        .iter()
        .map(|&reader| &plan.draft().members[reader].name[..])
        .collect();
    names.join(" and ")
}

/// Against whom it protects.
pub(super) fn threat(plan: &Plan) -> Option<String> {
    is_computed(plan).then(|| {
        format!(
            "Honest but curious: any {} of the {} parties together, with {}; they read sums of their \
             neighbours' messages and no message",
            plan.draft().privacy.colluding,
            plan.parties(),
            foundations::departures_tolerated(plan)
        )
    })
}

/// What is read, what the worst readers learn of it, and what does better.
pub(super) fn better(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let read = format!(
        "Nobody reads a message, but each node the sum of its neighbours' under masks. {} {} times the floor at \
         n = {}; sums = \"everybody\" gives each mean at about the floor",
        learned(plan, worst_readers(plan).as_ref()),
        number(predicted.standard_error / predicted.error_floor),
        plan.parties()
    );
    match warning(plan) {
        Some(warning) => format!("{read}.\n{warning}"),
        None => read,
    }
}

fn learned(plan: &Plan, worst: Option<&WorstReaders>) -> String {
    if plan.draft().computation.is_adaptive() {
        return "Rows may follow estimates (data.adaptive): what sums tell of these was not computed, and the \
                noise is that of open messages,"
            .into();
    }
    let Some(worst) = worst else {
        return "Nobody learns anything by them:".into();
    };
    let most = format!(
        "{}, who learn most, reach {:.2} of open messages' squared loss of {}",
        names(plan, &worst.readers),
        worst.part_of_open,
        plan.draft().members[worst.party].name
    );
    match worst.exhaustive {
        true => format!("What counts is what sums tell together: {most}. The last row is at"),
        false => format!(
            "{most}, of those that were looked at: not all coalitions, or not all who may depart, were \
             computed, so that sums buy nothing that is claimed, and the noise is that of open messages. The \
             last row is at"
        ),
    }
}

/// Where sums hide next to nothing: who reads what, and the way out.
fn warning(plan: &Plan) -> Option<String> {
    let worst = worst_readers(plan).filter(|worst| worst.part_of_open > LITTLE_GAINED)?;
    Some(format!(
        "THESE SUMS HIDE NEXT TO NOTHING. What {} read differs in little more than the messages of {}: {:.2} of \
         what open messages tell. The way out is sums = \"everybody\", or a private graph of larger circles",
        names(plan, &worst.readers),
        plan.draft().members[worst.party].name,
        worst.part_of_open
    ))
}

/// What the object of `plan` and `verify` says of the worst readers.
pub(super) fn json(plan: &Plan) -> Value {
    let worst = plan.reads_circles().then(|| worst_readers(plan)).flatten();
    worst.map_or(Value::Null, |worst| {
        let name = |&party: &usize| plan.draft().members[party].name.clone();
        json!({
            "readers": worst.readers.iter().map(name).collect::<Vec<_>>(),
            "party": name(&worst.party),
            "part_of_open": worst.part_of_open,
            "exhaustive": worst.exhaustive,
        })
    })
}

/// What ends a stream, and for whom estimates are.
pub(super) const REMARKS: &str = "Each round is opened for one agreed set or for none: whoever vanishes is left out from then on, and more \
     than privacy.dropouts end the stream for everybody. One colluder can end it in any round, which nobody \
     can prove, and may have its sums of that round. In the round in which it ends it, a liar's message beyond \
     all range also shows whether the sums of its neighbours stay within theirs with it; of more neighbours \
     than privacy.dropouts only the claim against any coalition covers that. A node's estimates are for its \
     owner alone, and its daemon tells them on its own machine only: shown to others they make it one reader \
     more.";
