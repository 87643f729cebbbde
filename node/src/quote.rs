//! What a plan promises, before anything private moves: for people and as an object.

use serde::Serialize;
use serde_json::{Value, json};
use undertone_accountant::outlook::{self, Remedy};
use undertone_accountant::static_coalitions::{CONFIDENCE, Draws};
use undertone_protocol::graph::Graph;
use undertone_protocol::plan::{Adversary, Claim, Established, Faults, Plan};
use undertone_protocol::run_file::{Adjacency, Bound, Clip, Unit};

use crate::table::{Table, at_most, bytes, number};

/// One sentence: against whom and what.
pub fn threat(plan: &Plan) -> String {
    let privacy = &plan.draft().privacy;
    let coalition = match privacy.colluding {
        c if plan.draws_at_start() => {
            let when = match plan.draft().private_graph == Graph::complete(plan.parties()) {
                true => "chosen before the schedule was drawn",
                false => "drawn at random (the private graph is not complete: one chosen with it in view may learn more)",
            };
            format!("a coalition of {c} of the {} parties, {when}, and everybody who reads the public graph", plan.parties())
        }
        0 => "outsiders who read the public graph".to_owned(),
        1 => format!("any one of the {} parties, and everybody who reads the public graph", plan.parties()),
        c => format!("any {c} of the {} parties together, and everybody who reads the public graph", plan.parties()),
    };
    let departures = match privacy.dropouts {
        0 => "no departure tolerated".to_owned(),
        1 => "one departure tolerated at any moment".to_owned(),
        d => format!("{d} departures tolerated at any moment"),
    };
    format!("Honest but curious: {coalition}; {departures}; not parties that lie about their values")
}

/// What is protected: whose change is hidden, and within which public range.
pub fn protected(plan: &Plan) -> String {
    let draft = plan.draft();
    let change = match draft.data.adjacency {
        Adjacency::ReplaceOne => "replaced by any other",
        Adjacency::ZeroOut => "replaced by zero",
    };
    let range = match &draft.data.clip {
        Clip::L2 { radius } => format!("L2 norm at most {}", number(*radius)),
        Clip::Box { low: Bound::All(low), high: Bound::All(high) } => {
            format!("each coordinate from {} to {}", number(*low), number(*high))
        }
        Clip::Box { .. } => "each coordinate within an interval of its own".into(),
    };
    match draft.data.unit {
        Unit::Party => format!("each party's whole vector ({range}), {change}"),
        Unit::Record => format!("each single one of {} records ({range}), {change}", draft.total_weight()),
    }
}

/// The object of `plan` and `verify`.
pub fn json(plan: &Plan) -> Value {
    let calibration = plan.calibration();
    json!({
        "name": plan.draft().name,
        "digest": plan.digest_hex(),
        "parties": plan.parties(),
        "rounds": plan.rounds(),
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "delta": plan.draft().privacy.delta,
        "independent_std": calibration.independent_std,
        "correlated_std": calibration.correlated_std,
        "sampling_delta": plan.lattice().sampling_delta(&plan.lattice_request()),
        "threat": threat(plan),
        "protected": protected(plan),
        "claims": calibration.claims,
        "predicted": calibration.predicted,
        "error_with_parties_gone": outlook::gone(plan).unwrap_or_default(),
        "error_by_epsilon": outlook::curve(plan).unwrap_or_default(),
        "would_help": outlook::against_the_theorem(plan),
        "sample": sample(plan),
        "exit_code": 0,
    })
}

/// The quote as a person reads it.
pub fn text(plan: &Plan) -> String {
    let (draft, calibration) = (plan.draft(), plan.calibration());
    let mut text = format!(
        "{}: mean over {} parties, {} coordinates, {} rounds\n{}.\n\n",
        draft.name,
        plan.parties(),
        draft.dimension(),
        plan.rounds(),
        threat(plan)
    );
    text += &format!(
        "Protected: {}.\nThe clipping range is public: take it from what is known of the quantity, never from the data.\n\n",
        protected(plan)
    );
    text += &claims(&calibration.claims);
    text += &sampled(plan);
    text += &format!(
        "\nNoise{}: σ* = {} a party, σ_Δ = {} between parties (it cancels); sampling it in f64 adds at most {:.1e} to δ\n\n",
        if plan.scales().differ() { ", in widths of each column" } else { "" },
        number(calibration.independent_std),
        number(calibration.correlated_std),
        plan.lattice().sampling_delta(&plan.lattice_request()),
    );
    text += &errors(plan);
    text += &others(plan);
    if calibration.predicted.standard_error > calibration.predicted.local * (1.0 + 1e-3) {
        text += "The weights differ so much that local noise alone, each party's for its own weight, would give a smaller error than this plan.\n";
    }
    if plan.parties() < 20 && draft.data.unit == Unit::Party {
        text += "With this few parties a mean of whole vectors stays noisy; `unit = \"record\"` protects single rows at a fraction of the error.\n";
    }
    text
}

/// What a sampled claim rests on, and what it would take for its p to be no larger than the plan's δ.
#[derive(Clone, Debug, Serialize)]
pub struct SampleInfo {
    /// Fresh draws of schedule, coalition and departures.
    pub draws: u64,
    /// Of these, what everybody who verifies the plan draws again.
    pub checked: u64,
    /// p: the chance of a draw that loses more, at most, with `confidence`.
    pub chance: f64,
    /// Of p.
    pub confidence: f64,
    /// Draws without a failure that would show p ≤ δ.
    pub draws_for_delta: f64,
}

/// Of a plan that has a sampled claim.
pub fn sample(plan: &Plan) -> Option<SampleInfo> {
    let claim = plan.calibration().claims.iter().find(|claim| claim.established == Established::Sampled)?;
    let (draws, delta) = (Draws::of_draft(plan.draft(), plan.rounds() as usize), plan.draft().privacy.delta);
    Some(SampleInfo {
        draws: claim.cases,
        checked: draws.checked(claim.cases),
        chance: claim.delta - delta,
        confidence: CONFIDENCE,
        draws_for_delta: Draws::needed(delta),
    })
}

/// The same as a sentence.
fn sampled(plan: &Plan) -> String {
    let Some(SampleInfo { draws, chance, confidence, draws_for_delta, .. }) = sample(plan) else { return String::new() };
    format!(
        "\nThe sampled claim is (ε, δ + p): in {draws} fresh draws of schedule, coalition and departures, each with its worst fault of a share, \
         p = {chance:.1e} at {} %. For p no larger than δ = {:e} it would take {draws_for_delta:.0} draws (privacy.draws). A start that a \
         coalition ends by not revealing its nonce gives it one draw more.\n",
        100.0 * confidence,
        plan.draft().privacy.delta
    )
}

fn claims(claims: &[Claim]) -> String {
    let mut table = Table::with_headings(["claim against", "under", "ε", "δ", "how it was established", "headline"]);
    for claim in claims {
        let who = match claim.adversary {
            Adversary::Public => "readers of the public graph".to_owned(),
            Adversary::Coalition if claim.size >= 1 => format!("coalitions of up to {}", claim.size),
            Adversary::Coalition => "outsiders".to_owned(),
        };
        let faults = match claim.faults {
            Faults::Class => "tolerated faults",
            Faults::BeforePublishing => "being cut off before publishing",
            Faults::Any => "any faults",
        };
        let how = match claim.established {
            Established::Exact => "exact formula".to_owned(),
            Established::Exhaustive => format!("all {} cases computed", claim.cases),
            Established::Theorem => "theorem".to_owned(),
            Established::Sampled => format!("{} sampled cases: NOT a guarantee", claim.cases),
            Established::Searched if claim.seed.is_some() => {
                format!("{} searched cases that know the schedule: NOT a guarantee", claim.cases)
            }
            Established::Searched => format!("{} searched cases: NOT a guarantee", claim.cases),
        };
        let headline = if claim.holds_as_headline { "yes" } else { "" };
        table.row([who, faults.into(), at_most(claim.epsilon), format!("{:e}", claim.delta), how, headline.into()]);
    }
    table.render()
}

fn errors(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let floor = predicted.error_floor;
    let scale = if plan.scales().differ() { "root mean square over columns" } else { "per coordinate" };
    let mut table = Table::with_headings(["standard error of the mean", scale, "× floor"]);
    let mut row = |what: &str, value: f64| {
        table.row([what.into(), number(value), format!("{:.2}", value / floor)]);
    };
    row("this plan, nobody departs", predicted.standard_error);
    if let Some(value) = predicted.standard_error_one_dropout {
        row("one party departs while mixing", value);
    }
    if let Some(value) = predicted.standard_error_late_dropout {
        row("one party vanishes while publishing", value);
    }
    row("floor for these colluders", floor);
    row("a trusted server", predicted.central);
    row("local noise alone", predicted.local);
    format!("{}\nEach party sends about {}.\n", table.render(), bytes(predicted.bytes_per_party))
}

/// Errors with parties gone and at other ε, and what would help.
fn others(plan: &Plan) -> String {
    let shown = |error: Option<f64>| error.map_or("–".to_owned(), number);
    let mut gone = Table::with_headings(["gone for good", "parties", "standard error", ""]);
    for row in outlook::gone(plan).unwrap_or_default() {
        let note = if row.tolerated { "" } else { "more than the plan tolerates: a run may be withheld" };
        gone.row([format!("{} %", row.percent), row.parties.to_string(), shown(row.standard_error), note.into()]);
    }
    let mut curve = Table::with_headings(["ε", "this plan", "a trusted server", "local noise"]);
    for at in outlook::curve(plan).unwrap_or_default() {
        curve.row([number(at.epsilon), number(at.standard_error), number(at.central), number(at.local)]);
    }
    let mut text = format!("\n{}\nStandard error at other ε:\n{}", gone.render(), curve.render());
    let remedies = outlook::against_the_theorem(plan);
    if !remedies.is_empty() {
        text += "\nThere are too many coalitions to compute them all: the noise is that of local privacy, by the theorem. ";
        text += &format!("With {} they can be computed, and most of the noise cancels.\n", listed(&remedies));
    }
    text + "\n"
}

/// Changes that suffice each by itself, as a sentence.
pub fn listed(remedies: &[Remedy]) -> String {
    remedies.iter().map(Remedy::to_string).collect::<Vec<_>>().join(", or ")
}
