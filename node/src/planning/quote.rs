//! What a plan promises, before anything private moves: for people and as an object.

use serde_json::{Value, json};
use undertone_accountant::calibration::remedy::Remedy;
use undertone_accountant::guarantee::forecast;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Changes, Claim, Established, Faults};
use undertone_protocol::plan::computation::model::LossChoice;
use undertone_protocol::plan::computation::rounds::ReleaseKind;
use undertone_protocol::plan::run_file::settings::{Adjacency, Bound, Clip, Contributed, TaskName, Unit};

use crate::planning::alternatives::{self, Alternative};
use crate::planning::described::{self, DescribedNoise};
use crate::planning::gain::Gain;
use crate::planning::utility::Utility;
use crate::planning::{
    as_in_paper, bounded, foundations, gossip, mechanism, policy, relays, spreading, trained,
};
use crate::reporting::table::{Table, at_most, bytes, number};

/// Returns δ of a result with this ε and of the plan's own claim: the planned δ, the chance of a
/// bad draw, and what sampling the noise adds at the larger ε. Never below the real δ.
pub fn delta_with(plan: &Plan, epsilon: Option<f64>) -> f64 {
    let claimed = plan.epsilon_claimed().unwrap_or(plan.draft().privacy.epsilon);
    let largest = epsilon.unwrap_or(0.0).max(claimed);
    (plan.draft().privacy.delta + plan.draw_chance() + plan.sampling_delta(largest)).min(1.0)
}

/// One sentence: against whom and what.
pub fn threat(plan: &Plan) -> String {
    if plan.draft().computation.recursion().is_some() {
        return as_in_paper::THREAT.into();
    }
    if gossip::is_gossip(plan) {
        return gossip::threat(plan);
    }
    let (coalition, departures) = (coalition(plan), departures(plan));
    format!("Honest but curious: {coalition}; {departures}; not parties that lie about their values")
}

/// Against whose collusion a plan protects.
fn coalition(plan: &Plan) -> String {
    let (colluding, parties) = (plan.draft().privacy.colluding, plan.parties());
    let who = match colluding {
        _ if plan.draws_at_start() => {
            format!(
                "a coalition of {colluding} of the {parties} parties, chosen before the schedule is drawn"
            )
        }
        0 => return "outsiders who read the public graph".to_owned(),
        1 => format!("any one of the {parties} parties"),
        _ => format!("any {colluding} of the {parties} parties together"),
    };
    format!("{who}, and everybody who reads the public graph")
}

/// How many departures a plan tolerates.
fn departures(plan: &Plan) -> String {
    let tolerated = foundations::departures_tolerated(plan);
    if plan.draws_at_start() && plan.draft().privacy.dropouts > 0 {
        tolerated + ", unless somebody chooses who departs by the schedule"
    } else {
        tolerated
    }
}

/// What is protected: whose change is hidden, and within which public range.
pub fn protected(plan: &Plan) -> String {
    let draft = plan.draft();
    if draft.computation.recursion().is_some() {
        return as_in_paper::PROTECTED.into();
    }
    let change = match draft.data.adjacency {
        _ if mechanism::reveals_sums(plan) => "several changed at once such that every revealed sum stays",
        Adjacency::ReplaceOne => "replaced by any other",
        Adjacency::ZeroOut => "replaced by zero",
    };
    let range = match &draft.data.clip {
        Clip::L2 { radius } => format!("L2 norm at most {}", number(*radius)),
        Clip::Described { .. } => "all of its cells".into(),
        Clip::Tensors { radius } => format!(
            "each of {} tensors of L2 norm at most its radius, {} together",
            radius.len(),
            number(draft.data.radius().unwrap_or(0.0))
        ),
        Clip::Box {
            low: Bound::All(low),
            high: Bound::All(high),
        } => {
            format!("each coordinate from {} to {}", number(*low), number(*high))
        }
        Clip::Box { .. } => "each coordinate within an interval of its own".into(),
    };
    if let Some(model) = draft.computation.model() {
        let who = match draft.data.unit {
            Unit::Record => format!("each single one of {} rows", bounded::total(plan)),
            Unit::Party => "all rows of each party".to_owned(),
        };
        let whose = match draft.data.unit {
            Unit::Record => "its gradient",
            Unit::Party => "their mean gradient",
        };
        let counts = match model.is_statistics() {
            true => format!("with its target of length {} at most", number(model.clip)),
            false => format!(
                "{whose} counts {} at most, in each of {} iterations",
                number(model.clip),
                model.iterations
            ),
        };
        return format!("{who} ({counts}), {change}");
    }
    if draft.computation.task() == TaskName::Rounds {
        return format!("{}, {change}", of_each_round(plan, &range));
    }
    if let Some(contributed) = gossip::contributed(plan, &range) {
        return format!("{contributed}, {change}");
    }
    if let Some(settings) = draft.computation.described() {
        return format!(
            "each single one of {} rows ({range}), {change}; {}",
            bounded::total(plan),
            described::public(settings)
        );
    }
    match draft.data.unit {
        Unit::Party => format!("each party's whole vector ({range}), {change}"),
        Unit::Record => format!(
            "each single one of {} records ({range}), {change}",
            bounded::total(plan)
        ),
    }
}

/// Whose change is hidden in all rounds together, and what has to be true of programs for that.
fn of_each_round(plan: &Plan, range: &str) -> String {
    let draft = plan.draft();
    let rounds = draft.releases();
    let handed_over = match draft.data.contributed {
        Contributed::AsTheyAre | Contributed::SecondMoments => ("hands over", "and ", ")"),
        Contributed::ByProgram => (
            "adds up",
            "",
            ", or a sum that is not finite), and each program clips as it says",
        ),
    };
    match draft.data.unit {
        Unit::Party => format!("all that a party hands over in {rounds} rounds ({range} in each)"),
        Unit::Record => format!(
            "each single one of {} rows in {rounds} rounds ({range} in each), if each row that a program \
             {} depends on one record, on released {}s and on nothing else, {}no record \
             makes it fail (be late, crash, or hand over another shape{}",
            bounded::total(plan),
            handed_over.0,
            draft.computation.result().name(),
            handed_over.1,
            handed_over.2
        ),
    }
}

/// What is computed, in a word or two.
pub(super) fn what(plan: &Plan) -> &'static str {
    if plan.draft().sums_everybody() {
        return "a stream of secure sums, a mean a round,";
    }
    if plan.draft().computation.task() == TaskName::Rounds {
        return match plan.draft().computation.result() {
            ReleaseKind::Mean => "means in sequence",
            ReleaseKind::Sum => "sums in sequence",
        };
    }
    if plan.draft().computation.described().is_some() {
        return "statistics of a table";
    }
    match plan.draft().computation.model().map(|model| model.loss) {
        None => "mean",
        Some(LossChoice::Squared) => "least squares",
        Some(LossChoice::Logistic) => "logistic regression",
        Some(LossChoice::Softmax) => "softmax regression",
    }
}

/// The object of `plan` and `verify`.
pub fn json(plan: &Plan) -> Value {
    let mut object = of_kind(plan);
    if let Some(warning) = policy::large_delta(plan) {
        object["delta_warning"] = warning.into();
    }
    if let Some(warning) = relays::warning(plan) {
        object["relay_warning"] = warning.into();
    }
    if let Some(gain) = Gain::of(plan) {
        object["gain"] = gain.json();
    }
    if let Some(error) = bounded::error_at_half(plan) {
        object["predicted"]["standard_error_at_half"] = error.into();
    }
    object
}

fn of_kind(plan: &Plan) -> Value {
    if let Some(json) = as_in_paper::json(plan).or_else(|| gossip::json(plan, &protected(plan))) {
        return json;
    }
    let calibration = plan.calibration();
    let averaging = plan.terms().map(|terms| {
        json!({
            "method": terms.at_most.method.name(),
            "rounds_expected": terms.expected_rounds,
            "rounds_at_most": terms.at_most.steps.len(),
            "accuracy": terms.accuracy(),
        })
    });
    json!({
        "dissemination": plan.draft().run.dissemination,
        "bytes_flooded": plan.bytes_of_ways().map(|(flood, _)| flood),
        "bytes_in_slices": plan.bytes_of_ways().map(|(_, slices)| slices),
        "quorum": plan.draft().run.quorum,
        "averaging": averaging,
        "name": plan.draft().name,
        "digest": plan.digest_hex(),
        "parties": plan.parties(),
        "rounds": plan.mixing_rounds(),
        "iterations": plan.iterations(),
        "training": trained::json(plan),
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "delta": plan.draft().privacy.delta,
        "independent_std": mechanism::independent_std(plan),
        "correlated_std": mechanism::correlated_std(plan),
        "pairwise_std": mechanism::pairwise_std(plan),
        "revealed": mechanism::revealed(plan),
        "sampling_delta": plan.sampling_delta(plan.draft().privacy.epsilon),
        "threat": threat(plan),
        "protected": protected(plan),
        "claims": calibration.claims,
        "predicted": calibration.predicted,
        "utility": Utility::of(plan).json_by_column(),
        "caveat": Some(mechanism::caveat(plan).trim_end()).filter(|reported| !reported.is_empty()),
        "error_with_departures": forecast::departures(plan),
        "error_by_epsilon": forecast::curve(plan).unwrap_or_default(),
        "would_help": forecast::against_the_theorem(plan),
        "rests_on": foundations::sentences(plan),
        "exit_code": 0,
    })
}

/// The object of who makes a plan: with what could be used instead.
pub fn comparing_json(plan: &Plan, ways: &[Alternative]) -> Value {
    let mut object = json(plan);
    object["alternatives"] = json!(ways);
    object
}

/// The quote as a person reads it who makes a plan.
pub fn comparing_text(plan: &Plan, ways: &[Alternative]) -> String {
    if ways.is_empty() {
        return text(plan);
    }
    text(plan) + &alternatives::text(plan, ways)
}

/// The quote as a person reads it.
pub fn text(plan: &Plan) -> String {
    match policy::large_delta(plan) {
        Some(warning) => format!("{}\n{warning}.\n", text_of_kind(plan)),
        None => text_of_kind(plan),
    }
}

fn text_of_kind(plan: &Plan) -> String {
    let stated = || gossip::text(plan, &protected(plan), &claims(&plan.calibration().claims));
    if let Some(text) = as_in_paper::text(plan).or_else(stated) {
        return text;
    }
    let (draft, calibration) = (plan.draft(), plan.calibration());
    let mut text = format!(
        "{}: {} over {} parties, {} coordinates, {}\n{}.\n\n",
        draft.name,
        what(plan),
        plan.parties(),
        draft.dimension(),
        mechanism::work(plan),
        threat(plan)
    );
    if let Some(revealed) = mechanism::revealed(plan) {
        text += &format!("{revealed}.\n\n");
    }
    if let Some(described) = DescribedNoise::of(plan, calibration.predicted.standard_error) {
        text += &format!("{}.\n", described.headline(plan));
    }
    text += &worth(plan);
    text += &Gain::of(plan).map_or_else(String::new, |gain| format!("{}.\n\n", gain.sentence()));
    text += &format!(
        "Protected: {}.\n\
         The clipping range is public: take it from what is known of the quantity, never from the data.\n\n",
        protected(plan)
    );
    text += &claims(&calibration.claims);
    if let Some(said) = described::of_two_rows(plan) {
        text += &format!("Of one row; {said}.\n\n");
    }
    text += &noise(plan);
    text += &errors(plan);
    text += &trained::by_method(plan).unwrap_or_default();
    text += &trained::attempts(plan).unwrap_or_default();
    text += &mechanism::caveat(plan);
    text += &foundations::text(plan);
    text += &others(plan);
    text += &heavier_than_local(plan);
    if plan.parties() < 20 && draft.data.unit == Unit::Party && draft.computation.model().is_none() {
        text += "With this few parties a mean of whole vectors stays noisy; \
                 `unit = \"record\"` protects single rows at a fraction of the error.\n";
    }
    text
}

/// A warning where weights differ so much that each party's own noise would be less.
pub(super) fn heavier_than_local(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let heavier = predicted.standard_error > predicted.local * (1.0 + 1e-3) && !gossip::is_gossip(plan);
    match heavier {
        true => {
            "The weights differ so much that local noise alone, each party's for its own weight, would give \
                 a smaller error than this plan.\n"
                .to_owned()
        }
        false => String::new(),
    }
}

/// What a result of the plan is worth, and where that is nothing, loudly.
fn worth(plan: &Plan) -> String {
    let worth = Utility::of(plan);
    let said = worth.warning().unwrap_or_else(|| worth.sentence() + ".");
    let table = worth.table();
    match table.is_empty() {
        true => format!("{said}\n\n"),
        false => format!("{said}\n\n{table}\n"),
    }
}

/// How much noise of which kind.
fn noise(plan: &Plan) -> String {
    let calibration = plan.calibration();
    let scale = if plan.scales().differ() {
        ", in widths of each column"
    } else {
        ""
    };
    format!(
        "\nNoise{scale}: σ* = {} a party, {} (it cancels); \
         sampling it in f64 adds at most {:.1e} to δ\n\n",
        number(calibration.independent_std),
        mechanism::correlated_noise(plan),
        plan.sampling_delta(plan.draft().privacy.epsilon),
    )
}

fn claims(claims: &[Claim]) -> String {
    let mut table = Table::with_headings([
        "claim against",
        "under",
        "ε",
        "δ",
        "how it was established",
        "headline",
        "what it means",
    ]);
    for claim in claims {
        // Whom it is against, and under which faults.
        let who = match claim.adversary {
            Adversary::Public => "readers of the public graph".to_owned(),
            Adversary::Apart => format!("up to {} strangers (never its neighbours)", claim.size),
            Adversary::Coalition if claim.size >= 1 => format!("coalitions of up to {}", claim.size),
            Adversary::Coalition => "outsiders".to_owned(),
        };
        let who = match claim.changes {
            Some(Changes::SameSum) => format!("{who}, for changes that keep every revealed sum"),
            None => who,
        };
        let faults = match claim.faults {
            Faults::Class => "tolerated faults",
            Faults::BeforePublishing => "any faults, before publishing",
            Faults::Any => "any faults",
            Faults::None => "no fault at all",
        };
        // How far it can be relied on.
        let how = match claim.established {
            Established::Exact => "exact formula".to_owned(),
            Established::Exhaustive => format!("all {} cases computed", claim.cases),
            Established::Theorem => match (claim.connectivity, claim.draw) {
                (Some(found), _) => format!("theorem: among {} values, κ = {}", found.among, found.kappa),
                (None, Some(found)) => format!(
                    "theorem: among {} values, but for a draw of chance {:.1e}, tried {} times",
                    found.among, found.chance, found.tries
                ),
                (None, None) => "theorem".to_owned(),
            },
            Established::Searched => format!("{} searched cases: NOT a guarantee", claim.cases),
        };
        let delta = format!("{:e} + {:.0e}", claim.delta, claim.sampling_delta);
        let headline = if claim.holds_as_headline { "yes" } else { "" };
        table.row([
            who,
            faults.into(),
            at_most(claim.epsilon),
            delta,
            how,
            headline.into(),
            meaning(claim),
        ]);
    }
    table.render()
}

/// A claim in words that need no others.
fn meaning(claim: &Claim) -> String {
    let who = match (claim.adversary, claim.size) {
        (Adversary::Public, _) | (_, 0) => "whoever reads the network".to_owned(),
        (Adversary::Apart, _) => "who is a neighbour in no round".to_owned(),
        (_, 1) => "any one party, with all that it sees".to_owned(),
        (_, size) => format!("any {size} parties that pool all they see"),
    };
    match (claim.faults, claim.established) {
        (_, Established::Searched) => format!("{who}: the worst that was found, and there may be worse"),
        (Faults::Class, _) => format!("{who}, whoever leaves as tolerated: what to rely on"),
        (Faults::BeforePublishing, _) => format!("{who}, if the run breaks off before anything is published"),
        (Faults::Any, _) => format!("{who}, whatever goes wrong and whatever is broken"),
        (Faults::None, _) => format!("{who}, as long as nothing fails: a remark, nothing to rely on"),
    }
}

/// A standard error in what all columns share, and what that is: a share of each one's range, say.
fn comparable(plan: &Plan) -> (impl Fn(f64) -> String, &'static str) {
    let (of_ranges, unit) = match (&plan.draft().data.clip, plan.scales().differ()) {
        (Clip::Box { .. }, true) => (true, "% of half"),
        (_, true) => (false, "root mean square over columns"),
        (_, false) => (false, "per coordinate"),
    };
    let shown = move |error: f64| match of_ranges {
        true => number(100.0 * Utility::with_error(plan, error).ratio()),
        false => number(error),
    };
    (shown, unit)
}

fn errors(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let floor = predicted.error_floor;
    let (shown, scale) = comparable(plan);
    let what = match &plan.draft().computation.model() {
        Some(model) if model.is_statistics() => "noise of the mean second moments".to_owned(),
        Some(_) => "noise of the mean gradient, one iteration".to_owned(),
        None if plan.draft().sums_everybody() => format!(
            "standard error of the last row: {} means added up",
            plan.draft().releases()
        ),
        None => format!(
            "standard error of the {}",
            plan.draft().computation.result().name()
        ),
    };
    let mut table = Table::with_headings([what.as_str(), scale, "× floor"]);
    let mut row = |what: &str, value: f64| {
        table.row([what.into(), shown(value), format!("{:.2}", value / floor)]);
    };
    row("this plan, nobody departs", predicted.standard_error);
    if let Some(value) = predicted.standard_error_one_dropout {
        row("one party departs while mixing", value);
    }
    if let Some(value) = predicted.standard_error_late_dropout {
        let late = match plan.draft().run.sealed {
            true => "one party leaves right after its log",
            false => "one party vanishes while publishing",
        };
        row(late, value);
    }
    if let Some(value) = predicted.standard_error_correcting {
        row("one party leaves while it owes a correction", value);
    }
    row("floor for these colluders", floor);
    row("a trusted server", predicted.central);
    row("local noise alone", predicted.local);
    format!(
        "{}\nEach party sends about {}{}.\n{}",
        table.render(),
        bytes(predicted.bytes_per_party),
        spreading::spreading(plan).map_or(String::new(), |how| format!("; {how}")),
        spreading::averaging(plan)
    )
}

/// Errors with parties gone and at other ε, and what would help.
fn others(plan: &Plan) -> String {
    let (comparable, unit) = comparable(plan);
    let shown = |error: Option<f64>| error.map_or("–".to_owned(), &comparable);
    let error = if unit.starts_with('%') {
        unit
    } else {
        "standard error"
    };
    let mut departures = Table::with_headings(["gone for good", "parties", error, ""]);
    let mut rows = forecast::departures(plan);
    // Few parties: several shares of them are as many parties.
    rows.dedup_by_key(|row| row.parties);
    for row in rows {
        let note = if row.tolerated {
            ""
        } else if plan.parties() - row.parties < plan.draft().run.min_parties {
            "fewer stay than run.min_parties: nothing is published"
        } else {
            "more than the plan tolerates: a run may be withheld"
        };
        departures.row([
            format!("{} %", 100 * row.parties / plan.parties()),
            row.parties.to_string(),
            shown(row.standard_error),
            note.into(),
        ]);
    }
    let mut curve = Table::with_headings(["ε", "this plan", "a trusted server", "local noise"]);
    for at in forecast::curve(plan).unwrap_or_default() {
        curve.row([
            number(at.epsilon),
            comparable(at.standard_error),
            comparable(at.central),
            comparable(at.local),
        ]);
    }
    let mut text = format!(
        "\n{}\nStandard error at other ε, {unit}:\n{}",
        departures.render(),
        curve.render()
    );
    if forecast::is_local(plan) {
        text += &format!("\n{}\n", why_local(plan));
    }
    text + "\n"
}

/// Why nothing cancels, and what would help.
pub(super) fn why_local(plan: &Plan) -> String {
    if let Some(reported) = forecast::beyond_theorems(plan) {
        return reported.to_owned();
    }
    let computed = plan
        .calibration()
        .claims
        .iter()
        .any(|claim| claim.faults == Faults::Class);
    let why = if computed {
        "In so few rounds a coalition may be all that a party exchanges shares with"
    } else {
        "Too few pairs exchange shares to hide each value among others, whoever is in a coalition"
    };
    let remedies = forecast::against_the_theorem(plan);
    let help = match &remedies[..] {
        [] => String::new(),
        remedies => format!(" With {} most of it cancels.", listed(remedies)),
    };
    format!("{why}: the noise is that of local privacy, by the theorem.{help}")
}

/// Changes that suffice each by itself, as a sentence.
pub fn listed(remedies: &[Remedy]) -> String {
    remedies
        .iter()
        .map(Remedy::to_string)
        .collect::<Vec<_>>()
        .join(", or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan_of;

    #[test]
    fn printed_delta_is_never_below_what_noise_draws_and_sampling_add() {
        for lines in [
            "",
            "[privacy]\ncoalitions = \"static\"\n",
            "[mechanism]\nkind = \"pairwise\"\n",
        ] {
            let plan = plan_of(&format!("[data]\nshape = [2]\n{lines}"), 8, None);
            let claims = plan.calibration().claims.iter();
            let headline = claims.filter(|claim| claim.holds_as_headline);
            let least = headline
                .map(|claim| claim.delta + claim.sampling_delta)
                .fold(0.0, f64::max);
            let shown = delta_with(&plan, plan.epsilon_claimed());
            assert!(
                shown >= least && shown > plan.draft().privacy.delta,
                "{lines}: {shown} of {least}"
            );
        }
    }
}
