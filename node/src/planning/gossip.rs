//! The quote of gossip: what a neighbour learns, how far estimates are from the mean, and what
//! would be better.

use serde_json::{Value, json};
use undertone_accountant::calibration::by_own_noise::estimate_error;
use undertone_accountant::calibration::outlook;
use undertone_protocol::plan::checked::Plan;

use undertone_protocol::plan::run_file::settings::{Clip, Protect};
use undertone_protocol::topology::active_edges::ActiveEdges;

use crate::planning::worth::Worth;
use crate::telling::table::{Table, bytes, number};

/// Whether a plan is of gossip over edges.
pub(super) fn is_gossip(plan: &Plan) -> bool {
    plan.draft().mechanism.averages()
}

/// The largest absolute value of a coordinate within the clipping range, in the data's unit.
pub fn largest_coordinate(plan: &Plan) -> f64 {
    let data = &plan.draft().data;
    match &data.clip {
        Clip::Box { low, high } => (0..data.dimension())
            .map(|at| low.at(at).abs().max(high.at(at).abs()))
            .fold(0.0, f64::max),
        Clip::L2 { .. } | Clip::Tensors { .. } => data.radius().unwrap_or(0.0),
    }
}

/// Against whom it protects.
pub(super) fn threat(plan: &Plan) -> String {
    format!(
        "Any {} parties together, whatever they do and whoever departs: a party's own noise hides its values \
         from its neighbours, as local privacy does",
        plan.parties() - 1
    )
}

/// What a party brings, after whose change is hidden.
pub(super) fn brought(plan: &Plan, range: &str) -> Option<String> {
    let releases = plan.draft().releases();
    if plan.draft().mechanism.gossip.is_none() || releases == 1 {
        return None;
    }
    Some(match plan.draft().privacy.protect {
        Protect::All => format!("all {releases} releases of each party together ({range} in each)"),
        Protect::One => format!("each single one of a party's {releases} releases ({range})"),
    })
}

/// Error over floor, and what does better.
fn better(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let floors = predicted.local / predicted.error_floor;
    let instead = match plan.draft().releases() {
        1 => "kind = \"pairwise\" or \"inca\" gives the same mean at about the floor, on any connected graph",
        _ => {
            "task = \"rounds\" with kind = \"pairwise\" gives each mean at about the floor, with an agreement \
             in every round"
        }
    };
    format!(
        "Open gossip is local noise against a neighbour: {} times the floor at n = {} however long it mixes; \
         {instead}",
        number(floors),
        plan.parties()
    )
}

/// Remarks that no claim rests on.
fn remarks(plan: &Plan) -> String {
    let mut text = "No agreement, no settling: any number of parties may vanish, at any moment, and nobody \
                    stops; each node has an estimate of its own, and no two need be alike. A liar can move its \
                    neighbours' estimates as far as values and noise at their utmost in every round could, \
                    and learns no more by it."
        .to_owned();
    if plan.draft().releases() > 1 {
        text += " Strangers, who are no neighbours of a party in any round, learn less of it as long as \
                 nothing fails: a remark, not a claim.";
    }
    text
}

fn edges(plan: &Plan) -> String {
    match plan.draft().mechanism.gossip.map(|gossip| gossip.edges) {
        Some(ActiveEdges::Matching) => "over a random matching".into(),
        Some(ActiveEdges::Degree(degree)) => format!("over {degree} edges that each party draws"),
        _ => "over all private edges".into(),
    }
}

/// The quote as a person reads it, with what is protected and its claims as all quotes tell them;
/// none of any other mechanism.
pub(super) fn text(plan: &Plan, protected: &str, claims: &str) -> Option<String> {
    if !is_gossip(plan) {
        return None;
    }
    let (draft, calibration) = (plan.draft(), plan.calibration());
    let what = match draft.releases() {
        1 => "gossip averaging of one value".to_owned(),
        releases => format!("gossip averaging of a stream of {releases} releases"),
    };
    let worth = Worth::of(plan);
    let said = worth.warning().unwrap_or_else(|| worth.sentence() + ".");
    Some(format!(
        "{}: {what}, {} parties, {} coordinates, {} rounds {}\n{}.\n\n{}.\n{}\n\n{said}\n\nProtected: {}.\n\
         The clipping range is public: take it from what is known of the quantity, never from the data.\n\n\
         {}\nNoise: σ* = {} a party and release; sampling it in f64 adds at most {:.1e} to δ\n\n{}\
         \nEach party sends about {}.\n",
        draft.name,
        plan.parties(),
        draft.dimension(),
        plan.rounds(),
        edges(plan),
        threat(plan),
        better(plan),
        remarks(plan),
        protected,
        claims,
        number(calibration.independent_std),
        plan.sampling_delta(draft.privacy.epsilon),
        errors(plan),
        bytes(calibration.predicted.bytes_per_party),
    ))
}

fn errors(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let what = match plan.draft().releases() {
        1 => "standard error of an estimate".to_owned(),
        releases => format!("standard error of the last row: {releases} means added up"),
    };
    let mut table = Table::with_headings([what.as_str(), "per coordinate", "× floor"]);
    let mut row = |what: &str, value: f64| {
        let floors = format!("{:.2}", value / predicted.error_floor);
        table.row([what.into(), number(value), floors]);
    };
    row(
        "this plan, the node furthest from the mean",
        predicted.standard_error,
    );
    row("floor for these colluders", predicted.error_floor);
    row("a trusted server", predicted.central);
    row("local noise alone", predicted.local);
    let spread = estimate_error(plan).spread(largest_coordinate(plan));
    format!(
        "{}Beside the noise a node can be {} off in a coordinate, for values within the range.\n",
        table.render(),
        number(spread)
    )
}

/// The object of `plan` and `verify`; none of any other mechanism.
pub(super) fn json(plan: &Plan, protected: &str) -> Option<Value> {
    if !is_gossip(plan) {
        return None;
    }
    let (draft, calibration) = (plan.draft(), plan.calibration());
    Some(json!({
        "name": draft.name,
        "digest": plan.digest_hex(),
        "parties": plan.parties(),
        "rounds": plan.rounds(),
        "releases": draft.releases(),
        "gossip": draft.mechanism.gossip,
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "delta": draft.privacy.delta,
        "independent_std": calibration.independent_std,
        "sampling_delta": plan.sampling_delta(draft.privacy.epsilon),
        "threat": threat(plan),
        "protected": protected,
        "better": better(plan),
        "claims": calibration.claims,
        "predicted": calibration.predicted,
        "spread": estimate_error(plan).spread(largest_coordinate(plan)),
        "worth": Worth::of(plan).json_by_column(),
        "error_by_epsilon": outlook::curve(plan).unwrap_or_default(),
        "exit_code": 0,
    }))
}
