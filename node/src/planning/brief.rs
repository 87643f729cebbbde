//! The quote on one screen: what is computed, how good it will be, who is protected against whom,
//! what it costs, and what could be better.

use undertone_accountant::guarantee::forecast;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, Established, Faults};
use undertone_protocol::plan::run_file::settings::Unit;

use crate::planning::alternatives::Alternative;
use crate::planning::described::{self, DescribedNoise};
use crate::planning::gain::Gain;
use crate::planning::utility::Utility;
use crate::planning::{as_in_paper, bounded, deadlines, gossip, mechanism, policy, quote, relays, spreading};
use crate::reporting::report::lower_first;
use crate::reporting::table::{Table, at_most, bytes};

/// Proposals at most. Our choice: what a person weighs against each other.
const MOST_PROPOSALS: usize = 3;

/// A proposal gives this share of an error less, or of the bytes. Our choice: less is not worth
/// another plan.
const WORTH_A_CHANGE: f64 = 0.03;

/// The quote on one screen, with what the plan could have been instead if that was computed.
pub fn text(plan: &Plan, ways: &[Alternative]) -> String {
    if let Some(text) = as_in_paper::text(plan) {
        return text;
    }
    format!(
        "{}\n\n{}\n{}{}",
        what(plan),
        quality(plan),
        facts(plan, ways).render(),
        warnings(plan)
    )
}

/// What is computed, of whom, and by which exchange.
fn what(plan: &Plan) -> String {
    let draft = plan.draft();
    let of = match draft.data.unit {
        Unit::Record => format!("{} records of {} parties", bounded::total(plan), plan.parties()),
        Unit::Party => format!("{} parties", plan.parties()),
    };
    let size = match (draft.computation.parameters(), &draft.data.columns) {
        (Some(parameters), _) => format!("{parameters} parameters"),
        (None, Some(names)) if names.len() == draft.dimension() => format!("{} columns", names.len()),
        _ => format!("{} coordinates", draft.dimension()),
    };
    let what = match gossip::is_gossip(plan) {
        true => gossip::what(plan),
        false => quote::what(plan).to_owned(),
    };
    format!(
        "{}: {}, {size}, over {of}, in {}",
        draft.name,
        what.trim_end_matches(','),
        mechanism::work(plan)
    )
}

/// How good the result will be: each column's error where columns differ, and what the protocol
/// wins.
fn quality(plan: &Plan) -> String {
    let utility = Utility::of(plan);
    let table = utility.brief_table();
    let noise = DescribedNoise::of(plan, plan.calibration().predicted.standard_error);
    let headline = noise.map_or(String::new(), |noise| {
        format!("{}.\n{}.\n\n", noise.headline(plan), noise.sentence())
    });
    let mut text = match (utility.warning(), table.is_empty()) {
        (Some(warning), _) => format!("{warning}\n{table}"),
        (None, true) => format!("{}.\n", utility.sentence()),
        (None, false) => table,
    };
    text = headline + &text;
    text += &bounded::at_half(plan);
    if let Some(gain) = Gain::of(plan) {
        text += &format!("{}.\n", gain.sentence());
    }
    text
}

/// Who is protected, what it costs, and what could be better.
fn facts(plan: &Plan, ways: &[Alternative]) -> Table {
    let mut table = Table::new();
    let mut row = |what: &str, said: String| {
        table.row([what.into(), said]);
    };
    row("protected", quote::protected(plan));
    row("against", lower_first(&quote::threat(plan)));
    if let Some(revealed) = mechanism::revealed(plan) {
        row("revealed", revealed);
    }
    let claims = &plan.calibration().claims;
    let headline = claims.iter().filter(|claim| claim.holds_as_headline);
    let relied_on = headline.max_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
    if let Some(claim) = relied_on {
        row("promised", promised(plan, claim));
    }
    if let Some(said) = described::of_two_rows(plan) {
        row("", said);
    }
    let beyond = claims
        .iter()
        .find(|claim| claim.faults == Faults::Any && !claim.holds_as_headline);
    if let Some(claim) = beyond {
        let epsilon = at_most(claim.epsilon);
        row(
            "beyond that",
            format!("any {} parties, whatever they do: ε = {epsilon}", claim.size),
        );
    }
    row("budget", budget(plan));
    row(
        "network",
        format!(
            "each party sends about {}{}",
            bytes(plan.calibration().predicted.bytes_per_party),
            spreading::spreading(plan).map_or(String::new(), |how| format!("; {how}"))
        ),
    );
    row("time", time(plan));
    for (at, proposal) in proposals(plan, ways).into_iter().enumerate() {
        row(if at == 0 { "better" } else { "" }, proposal);
    }
    table
}

/// What to rely on, and how that is known.
fn promised(plan: &Plan, claim: &Claim) -> String {
    let how = match claim.established {
        Established::Exact => "by an exact formula",
        Established::Exhaustive => "all cases computed",
        Established::Theorem => "by a theorem",
        Established::Searched => "searched: NOT a guarantee",
    };
    let whose = match plan.draft().data.unit {
        Unit::Record => "one row",
        Unit::Party => "one party",
    };
    format!(
        "ε = {} at δ = {} ({how}): whatever {whose} is, anything seen is at most {} times as probable, plus δ",
        at_most(claim.epsilon),
        at_most(claim.delta + claim.sampling_delta),
        at_most(claim.epsilon.exp())
    )
}

/// What the data sets' budgets are charged.
fn budget(plan: &Plan) -> String {
    let (privacy, releases) = (&plan.draft().privacy, plan.draft().releases());
    let whose = match plan.draft().data.unit {
        Unit::Record => "row",
        Unit::Party => "party",
    };
    let headline = plan
        .calibration()
        .claims
        .iter()
        .filter(|claim| claim.holds_as_headline);
    let delta = headline.fold(privacy.delta, |most, claim| {
        most.max(claim.delta + claim.sampling_delta)
    });
    let of_all = match (releases, plan.draft().data.unit) {
        (1, _) => String::new(),
        (releases, Unit::Party) => format!(", all {releases} releases together"),
        // Who trains expects amplification by subsampling, which nothing here counts on.
        (releases, Unit::Record) => {
            format!(
                ", all {releases} releases together, each over all rows (a random part would gain nothing)"
            )
        }
    };
    format!(
        "ε = {} at δ = {} of each {whose}'s{of_all}; whatever else is computed of the same data adds up",
        at_most(plan.epsilon_claimed().unwrap_or(privacy.epsilon)),
        at_most(delta)
    )
}

/// Until when a run has ended.
fn time(plan: &Plan) -> String {
    let run = &plan.draft().run;
    format!(
        "it waits {} for everybody, then ends within {} by its deadlines, usually far sooner",
        deadlines::span(run.join_ms.div_ceil(1000)),
        deadlines::span(deadlines::after_start(plan).as_millis().div_ceil(1000) as u64)
    )
}

/// What would give less noise or send less, the largest gain first.
fn proposals(plan: &Plan, ways: &[Alternative]) -> Vec<String> {
    let mut proposals = vec![];
    if gossip::is_gossip(plan) {
        proposals.push(gossip::better(plan));
    } else if forecast::is_local(plan) {
        proposals.push(quote::why_local(plan));
    }
    let predicted = &plan.calibration().predicted;
    let of_parties = ways.iter().filter(|way| !way.is_reference());
    let best = of_parties
        .clone()
        .filter(|way| way.standard_error < predicted.standard_error * (1.0 - WORTH_A_CHANGE))
        .min_by(|a, b| a.standard_error.total_cmp(&b.standard_error));
    proposals.extend(best.map(|way| {
        let times = predicted.standard_error / way.standard_error;
        format!(
            "{}: {times:.2} times less noise, {} sent",
            way.mechanism,
            bytes(way.bytes_per_party)
        )
    }));
    let least = predicted.bytes_per_party as f64 * (1.0 - WORTH_A_CHANGE);
    let frugal = of_parties
        .filter(|way| (way.bytes_per_party as f64) < least)
        .filter(|way| way.standard_error < predicted.standard_error * (1.0 + WORTH_A_CHANGE))
        .min_by_key(|way| way.bytes_per_party);
    proposals.extend(
        frugal.map(|way| format!("{}: as exact, {} sent", way.mechanism, bytes(way.bytes_per_party))),
    );
    proposals.extend(twice_the_epsilon(plan));
    if plan.parties() < 20
        && plan.draft().data.unit == Unit::Party
        && plan.draft().computation.parameters().is_none()
    {
        proposals.push("unit = \"record\" protects single rows at a fraction of the error".into());
    }
    if let Some(described) = DescribedNoise::of(plan, predicted.standard_error) {
        proposals.extend(described.of_fewer().map(|said| lower_first(&said)));
    }
    proposals.truncate(MOST_PROPOSALS);
    proposals
}

/// The error at some larger ε.
fn twice_the_epsilon(plan: &Plan) -> Option<String> {
    let (now, error) = (
        plan.draft().privacy.epsilon,
        plan.calibration().predicted.standard_error,
    );
    let curve = forecast::curve(plan).unwrap_or_default();
    let larger = curve.into_iter().find(|at| at.epsilon >= 2.0 * now)?;
    let times = error / larger.standard_error;
    Some(format!(
        "epsilon = {}: {times:.1} times less noise, for more of the budget",
        larger.epsilon
    ))
}

/// What a person should know who reads nothing else.
fn warnings(plan: &Plan) -> String {
    let mut text = String::new();
    text += &mechanism::caveat(plan);
    text += &quote::heavier_than_local(plan);
    if let Some(warning) = policy::large_delta(plan) {
        text += &format!("{warning}.\n");
    }
    if let Some(warning) = relays::warning(plan) {
        text += &format!("{warning}.\n");
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{text}"),
    }
}
