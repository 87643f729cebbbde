//! The quote of gossip: what a neighbour learns, how far estimates are from the mean, and what
//! would be better.

use serde_json::{Value, json};
use undertone_accountant::guarantee::forecast;
use undertone_accountant::guarantee::own_noise::{estimate_error, half_width, loss_of, rounding_loss};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim};
use undertone_protocol::plan::computation::stream::Protect;
use undertone_protocol::topology::active_edges::ActiveEdges;

use crate::planning::utility::Utility;
use crate::planning::{circles, foundations};
use crate::reporting::table::{Table, at_most, bytes, number};

/// Whether a plan is of gossip over edges.
pub(super) fn is_gossip(plan: &Plan) -> bool {
    plan.draft().averages()
}

/// Against whom it protects.
pub(super) fn threat(plan: &Plan) -> String {
    if let Some(threat) = plan.reads_circles().then(|| circles::threat(plan)).flatten() {
        return threat;
    }
    format!(
        "Any {} parties together, whatever they do and whoever departs: a party's own noise hides its values \
         from its neighbours, as local privacy does",
        plan.parties() - 1
    )
}

/// What a party contributes, after whose change is hidden.
pub(super) fn contributed(plan: &Plan, range: &str) -> Option<String> {
    let releases = plan.draft().releases();
    if plan.draft().computation.stream().is_none() || releases == 1 {
        return None;
    }
    Some(match plan.draft().computation.protect() {
        Protect::All => format!("all {releases} releases of each party together ({range} in each)"),
        Protect::One => format!("each single one of a party's {releases} releases ({range})"),
    })
}

/// Error over floor, and what does better.
pub(super) fn better(plan: &Plan) -> String {
    if plan.reads_circles() {
        return circles::better(plan);
    }
    let predicted = &plan.calibration().predicted;
    let floors = predicted.local / predicted.error_floor;
    let better = match plan.draft().releases() {
        1 => "task = \"mean\" gives the same mean at about the floor, on any connected graph",
        _ => "sums = \"everybody\" gives each mean at about the floor, with an agreement in every round",
    };
    format!(
        "Open gossip is local noise against a neighbour: {} times the floor at n = {} however long it mixes; \
         {better}",
        number(floors),
        plan.parties()
    )
}

/// What is claimed of strangers, if anything.
fn of_strangers(plan: &Plan) -> Option<&Claim> {
    let mut claims = plan.calibration().claims.iter();
    claims.find(|claim| claim.adversary == Adversary::Apart)
}

/// Remarks that no headline rests on.
fn remarks(plan: &Plan) -> String {
    if plan.reads_circles() {
        return format!("{} {}.", circles::REMARKS, foundations::agreeing(plan));
    }
    let mut text = "No agreement, no settling: any number of parties may vanish, at any moment, and nobody \
                    stops; each node has an estimate of its own, and no two need be alike. A liar can move its \
                    neighbours' estimates as far as values and noise at their utmost in every round could, \
                    and learns no more by it."
        .to_owned();
    text += &strangers(plan).unwrap_or_default();
    text
}

/// What strangers learn of a party; none where there is one release alone.
fn strangers(plan: &Plan) -> Option<String> {
    let draft = plan.draft();
    if draft.releases() == 1 {
        return None;
    }
    if draft.computation.is_adaptive() {
        let text = " Rows may follow estimates (data.adaptive): nothing is said of strangers, who may learn as \
                    much as neighbours do.";
        return Some(text.into());
    }
    let Some(claim) = of_strangers(plan) else {
        let all_meet = plan.exchanges().meetings().least_degree() + 1 == plan.parties();
        return Some(match (all_meet, draft.privacy.colluding) {
            (_, 0) => String::new(),
            (true, _) => " Nobody is a stranger: everybody is everybody's neighbour in some round.".into(),
            (false, _) => {
                " What strangers learn, who are a party's neighbours in no round, was not computed: \
                           coalitions are too many."
                    .into()
            }
        });
    };
    let all = loss_of(draft, plan.calibration().independent_std, draft.releases());
    let who = match claim.size {
        1 => "A stranger, who is a neighbour of a party in no round, reaches".to_owned(),
        size => format!("{size} strangers, neighbours of a party in no round, reach"),
    };
    Some(format!(
        " {who} {:.3} of a neighbour's squared loss (ε = {} in place of {}), as long as nothing fails and no \
         row follows from the run's estimates: a remark, never the headline.",
        (claim.mu / all).powi(2),
        at_most(claim.epsilon),
        at_most(plan.epsilon_claimed().unwrap_or(f64::INFINITY)),
    ))
}

/// The lattice's step, and what rounding to it costs.
fn rounding(plan: &Plan) -> String {
    let step = plan.lattice().step_log2;
    match plan.draft().releases() {
        1 => format!(
            "; steps of 2^{step}, which costs nothing: all that follows is made of the first messages"
        ),
        _ => {
            let all = loss_of(
                plan.draft(),
                plan.calibration().independent_std,
                plan.draft().releases(),
            );
            let part = rounding_loss(plan) / all;
            match plan.reads_circles() {
                true => format!(
                    "; steps of 2^{step}, whose rounding adds at most {part:.1e} of open messages' loss, in \
                     what is claimed of sums"
                ),
                false => format!(
                    "; steps of 2^{step}, whose rounding adds at most {part:.1e} of the loss to what strangers \
                     learn, and nothing to the headline"
                ),
            }
        }
    }
}

fn edges(plan: &Plan) -> String {
    match plan.draft().exchange.gossip().map(|gossip| gossip.edges) {
        Some(ActiveEdges::Matching) => "over a random matching".into(),
        Some(ActiveEdges::Degree(degree)) => format!("over {degree} edges that each party draws"),
        _ => "over all private edges".into(),
    }
}

/// What is computed, in words.
pub(super) fn what(plan: &Plan) -> String {
    match plan.draft().releases() {
        1 => "gossip averaging of one value".to_owned(),
        releases => format!("gossip averaging of a stream of {releases} releases"),
    }
}

/// The quote as a person reads it, with what is protected and its claims as all quotes tell them;
/// none of any other mechanism.
pub(super) fn text(plan: &Plan, protected: &str, claims: &str) -> Option<String> {
    if !is_gossip(plan) {
        return None;
    }
    let (draft, calibration) = (plan.draft(), plan.calibration());
    let what = what(plan);
    let utility = Utility::of(plan);
    let said = utility.warning().unwrap_or_else(|| utility.sentence() + ".");
    Some(format!(
        "{}: {what}, {} parties, {} coordinates, {} rounds {}\n{}.\n\n{}.\n{}\n\n{said}\n\nProtected: {}.\n\
         The clipping range is public: take it from what is known of the quantity, never from the data.\n\n\
         {}\nNoise: σ* = {} a party and release; sampling it in f64 adds at most {:.1e} to δ{}\n\n{}\
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
        rounding(plan),
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
    let spread = estimate_error(plan).spread(half_width(plan.draft()));
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
        "sums": draft.sums(),
        "edges": draft.exchange.gossip().map(|gossip| gossip.edges),
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "delta": draft.privacy.delta,
        "independent_std": calibration.independent_std,
        "sampling_delta": plan.sampling_delta(draft.privacy.epsilon),
        "threat": threat(plan),
        "protected": protected,
        "better": better(plan),
        "remarks": remarks(plan),
        "worst_readers": circles::json(plan),
        "step_log2": plan.lattice().step_log2,
        "rounding_mu": rounding_loss(plan),
        "claims": calibration.claims,
        "predicted": calibration.predicted,
        "spread": estimate_error(plan).spread(half_width(plan.draft())),
        "utility": Utility::of(plan).json_by_column(),
        "error_by_epsilon": forecast::curve(plan).unwrap_or_default(),
        "exit_code": 0,
    }))
}
