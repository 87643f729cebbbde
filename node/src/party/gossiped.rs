//! Gossip: what a party contributes round by round, and what an account says of its end.

use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use serde_json::{Value, json};
use undertone_accountant::guarantee::circles;
use undertone_accountant::guarantee::own_noise::{estimate_error, half_width, loss_of};
use undertone_accountant::losses::gaussian;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, GossipOutcome, MissedMessages, Outcome};
use undertone_protocol::topology::party::Party;

use crate::party::circle_noise::with_noise_of_circles;
use crate::party::contributor::Contributor;
use crate::party::sealing::opened_for;

/// Rows of a stream, one a round, clipped already.
pub(super) struct StreamOfRows {
    plan: Arc<Plan>,
    me: Party,
    rows: Vec<f64>,
    noise: LatticeNoise<ChaCha12Rng>,
}

impl StreamOfRows {
    /// The party with these clipped rows, and randomness for its noise.
    pub(super) fn of(plan: &Arc<Plan>, me: Party, rows: Vec<f64>, rng: ChaCha12Rng) -> Self {
        StreamOfRows {
            noise: LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), 0.0),
            plan: plan.clone(),
            me,
            rows,
        }
    }
}

impl Contributor for StreamOfRows {
    fn contribution(&mut self, iteration: u32, _: &[f64]) -> Noisy {
        let dimension = self.plan.draft().dimension();
        let row = self.rows.chunks(dimension).nth(iteration as usize - 1);
        let contribution = match row {
            Some(row) => Clipped::of(&self.plan, self.me, row.to_vec()).0,
            // Never: as many rows as releases were read.
            None => Clipped::stand_in(&self.plan, self.me),
        };
        let std = self.plan.calibration().independent_std;
        let value = self.noise.noisy(std, contribution);
        with_noise_of_circles(&self.plan, self.me, iteration, value, &mut self.noise)
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}

/// Gossip in an account.
#[derive(Clone, Debug)]
pub(super) struct Gossiped {
    /// Loss of the releases that have left, and its ε at the plan's δ.
    pub(super) mu: f64,
    pub(super) epsilon: f64,
    /// Whether there is an estimate.
    pub(super) has_estimate: bool,
    /// The standard error of the last row, if nobody's message was missing.
    pub(super) standard_error: Option<f64>,
    /// How far a node's last row can be from the mean for the clipping range, noise aside.
    spread: Option<f64>,
    /// The reason for fewer rounds or parties than planned.
    pub(super) reason: Option<String>,
    /// Sentences on the parties whose messages were missing.
    faults: Vec<String>,
    /// Names of those that were missing at the end.
    pub(super) departed: Vec<String>,
    /// Names of those whose secrets others made known, in order; of sums of neighbours only.
    pub(super) opened_for: Option<Vec<String>>,
    /// How far it came.
    pub(super) rounds: Value,
    settings: Value,
}

impl Gossiped {
    /// The account of a node's part; none of any other mechanism. None of a plan that was spent
    /// before either: what that has cost is an earlier start's to say.
    pub(super) fn of(plan: &Plan, outcome: &Outcome) -> Option<Self> {
        let gossip = outcome.gossip.as_deref()?;
        if matches!(outcome.ending, Ending::Spent { .. }) {
            return None;
        }
        let mu = mu_of(plan, gossip.spent.into());
        let name = |party: &Party| plan.draft().members[*party].name.clone();
        let complete = gossip.missed.is_empty() && gossip.rounds == plan.rounds();
        let error = complete.then(|| estimate_error(plan));
        let at_the_end = |missed: &MissedMessages| missed.first + missed.count == gossip.rounds + 1;
        let departed = gossip.missed.iter().filter(|(_, missed)| at_the_end(missed));
        let sentence = |(party, missed): (&Party, &MissedMessages)| match missed.count {
            1 => format!("no message of {} came in round {}", name(party), missed.first),
            count => format!(
                "{count} messages of {} did not come, the first in round {}",
                name(party),
                missed.first
            ),
        };
        Some(Gossiped {
            mu,
            epsilon: gaussian::epsilon(plan.draft().privacy.delta, mu).unwrap_or(f64::INFINITY),
            has_estimate: !gossip.estimates.is_empty(),
            standard_error: complete.then(|| standard_error(plan)),
            spread: error.map(|error| error.spread(half_width(plan.draft()))),
            reason: reason(plan, gossip),
            faults: gossip.missed.iter().map(sentence).collect(),
            departed: departed.map(|(party, _)| name(party)).collect(),
            opened_for: plan.reads_circles().then(|| opened_for(plan, outcome)),
            rounds: json!({
                "planned": plan.rounds(),
                "run": gossip.rounds,
                "releases": plan.draft().releases(),
                "spent": gossip.spent,
            }),
            settings: json!({
                "sums": plan.draft().sums(),
                "protect": plan.draft().computation.protect(),
            }),
        })
    }

    /// Adds the entries of gossip to a receipt or a final object.
    pub(super) fn add_to(&self, object: &mut Value) {
        object["agreed"] = Value::Null;
        object["spread"] = json!(self.spread);
        object["iterations"] = self.rounds.clone();
    }

    /// Adds the entries of gossip that only a receipt has.
    pub(super) fn add_faults_to(&self, receipt: &mut Value) {
        receipt["gossip"] = self.settings.clone();
        receipt["faults"] = json!(self.faults);
        if let Some(opened_for) = &self.opened_for {
            receipt["opened_for"] = json!(opened_for);
        }
    }
}

/// Returns μ of this many releases of a plan of gossip that have left.
pub(crate) fn mu_of(plan: &Plan, spent: u64) -> f64 {
    match plan.reads_circles() {
        true => circles::loss_of(plan, spent),
        false => loss_of(plan.draft(), plan.calibration().independent_std, spent),
    }
}

/// Returns the standard error of the last row of a plan of gossip, if nobody's message is missing.
pub(crate) fn standard_error(plan: &Plan) -> f64 {
    let std = plan.calibration().independent_std;
    estimate_error(plan).standard_error(std) * plan.scales().root_mean_square()
}

fn reason(plan: &Plan, gossip: &GossipOutcome) -> Option<String> {
    let (run, planned) = (gossip.rounds, plan.rounds());
    if let Some(stopped) = &gossip.stopped {
        return Some(format!("it ended after {run} of {planned} rounds: {stopped}"));
    }
    if gossip.missed.is_empty() {
        return None;
    }
    let members = &plan.draft().members;
    let of = |(party, missed): (&Party, &MissedMessages)| {
        format!(
            "{} in {} rounds, the first {}",
            members[*party].name, missed.count, missed.first
        )
    };
    let names: Vec<String> = gossip.missed.iter().map(of).collect();
    Some(format!(
        "this party's estimates are without what did not come from neighbours: {}",
        names.join("; ")
    ))
}

#[cfg(test)]
mod tests;
