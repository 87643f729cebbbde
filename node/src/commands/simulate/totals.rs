//! Totals over simulated runs.

use std::collections::BTreeSet;

use serde_json::json;
use undertone_accountant::calibration::utility::realised;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::invariants::mass::largest_difference;
use undertone_protocol::simulator::scenario::Report as Simulated;
use undertone_protocol::task::mean::Mean;
use undertone_protocol::topology::party::Party;

use crate::commands::simulate::numbered::{Counted, claimed};
use crate::measuring::trial::Trial;
use crate::measuring::vectors::Vectors;
use crate::party::clipping;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;
use crate::reporting::table::{at_most, precise};

/// 97.5 % of a standard normal distribution lie below: intervals are at 95 %.
const NORMAL_975: f64 = 1.959964;

/// The totals over all runs.
pub(super) struct Totals {
    counted: Counted,
    /// Runs in which every survivor holds the exact sum of one set that has all survivors.
    exact: u64,
    /// Runs in which that set has the killed, too.
    whole: u64,
    /// Runs in which all that finished hold the same bits.
    same_bits: u64,
    finished: u64,
    squares: f64,
    coordinates: u64,
    largest: f64,
    /// The error of each run that was measured: root of the mean square over coordinates.
    pub(super) errors: Vec<f64>,
    /// The accounted squares of all coordinates that were measured.
    accounted: f64,
    included: BTreeSet<Party>,
    /// None once a result was an average.
    agreed: Option<bool>,
}

/// Names in plan order.
fn names(plan: &Plan, parties: &BTreeSet<Party>) -> Vec<String> {
    let name = |&party: &Party| plan.draft().members[party].name.clone();
    parties.iter().map(name).collect()
}

impl Totals {
    pub(super) fn new() -> Self {
        Totals {
            counted: Counted::default(),
            exact: 0,
            whole: 0,
            same_bits: 0,
            finished: 0,
            squares: 0.0,
            coordinates: 0,
            largest: 0.0,
            errors: vec![],
            accounted: 0.0,
            included: BTreeSet::new(),
            agreed: Some(true),
        }
    }

    /// Adds one simulated run to the totals.
    pub(super) fn add(&mut self, trial: &Trial<Vectors>, simulated: &Simulated) -> Result<(), Failure> {
        self.counted.add(simulated);
        let results: Vec<&Outcome> = simulated
            .outcomes
            .iter()
            .flatten()
            .filter(|outcome| outcome.sum.is_some())
            .collect();
        self.same_bits += u64::from(agree(&trial.plan, &results));
        let exact = are_exact(&trial.plan, simulated, &results);
        self.exact += u64::from(exact);
        let has_all = |outcome: &&Outcome| outcome.included.len() == trial.plan.parties();
        self.whole += u64::from(exact && results.iter().all(has_all));
        self.finished += results.len() as u64;
        let Some(first) = results.first() else {
            return Ok(());
        };
        self.included = first.included.clone();
        self.agreed = self
            .agreed
            .filter(|_| first.accuracy.is_none())
            .map(|agreed| agreed && first.agreed);
        self.measure(trial, first)
    }

    /// Holds one node's result against what the inputs' mean really is.
    fn measure(&mut self, trial: &Trial<Vectors>, outcome: &Outcome) -> Result<(), Failure> {
        let publishers = outcome
            .verdict
            .as_ref()
            .and_then(|verdict| verdict.publish.as_ref());
        let (Some(logs), Some(publishers), Some(sum)) = (&outcome.logs, publishers, &outcome.sum) else {
            return Ok(());
        };
        let plan = &*outcome.plan(&trial.plan);
        let dimension = plan.draft().dimension();
        let realised = realised(plan, logs, publishers, &outcome.included)
            .map_err(|e| Failure::new(Exit::Internal, e.to_string()))?;
        // Of sealed finals fewer may have been opened than the gate had let through at first.
        let logs = audited(outcome, logs);
        let epsilon = trial.gate.answer(plan, &logs, |verdict| verdict.audit.epsilon);
        self.counted.epsilon = self.counted.epsilon.max(epsilon);
        self.accounted += realised.standard_error.powi(2) * dimension as f64;
        let before = self.squares;
        let means: Vec<Vec<f64>> = trial
            .of
            .releases
            .iter()
            .map(|releases| clipping::mean_of_rows(&releases[0], dimension))
            .collect();
        for (i, value) in Mean::of_sum(plan, sum).into_iter().enumerate() {
            let parts = realised.weights.iter().zip(&means).map(|(b, mean)| b * mean[i]);
            let truth: f64 = parts.sum();
            self.squares += (value - truth).powi(2);
            self.largest = self.largest.max((value - truth).abs());
            self.coordinates += 1;
        }
        self.errors
            .push(((self.squares - before) / dimension as f64).sqrt());
        Ok(())
    }

    /// The accounted error per coordinate; 0 where no run was measured.
    pub(super) fn accounted_error(&self) -> f64 {
        self.per_coordinate(self.accounted).unwrap_or(0.0)
    }

    /// Root of the mean over all coordinates that were measured.
    fn per_coordinate(&self, squares: f64) -> Option<f64> {
        (self.coordinates > 0).then(|| (squares / self.coordinates as f64).sqrt())
    }

    /// The measured error per coordinate, with its interval at 95 %.
    fn measured(&self) -> Option<(f64, [f64; 2])> {
        let rms = self.per_coordinate(self.squares)?;
        // The mean of N squares of normal errors has a relative standard deviation of √(2/N), its
        // root half of that.
        let width = NORMAL_975 / (2.0 * self.coordinates as f64).sqrt();
        Some((rms, [rms * (1.0 - width).max(0.0), rms * (1.0 + width)]))
    }

    /// The report; `title` stands above its table.
    pub(super) fn report(&self, plan: &Plan, title: String) -> Report {
        let predicted = &plan.calibration().predicted;
        let (rms, interval) = self.measured().unzip();
        let counted = &self.counted;
        let own = json!({
            "finished": self.finished, "included": names(plan, &self.included), "agreed": self.agreed,
            "outcome": if self.finished > 0 { "done" } else { "withheld" },
            "epsilon_searched": plan.epsilon_searched(),
            "standard_error": self.per_coordinate(self.accounted), "error_floor": predicted.error_floor,
            "rms_error": rms, "rms_error_interval": interval, "max_abs_error": self.largest,
            "runs_with_the_survivors_exact_sum": self.exact, "runs_with_everybody": self.whole,
            "runs_with_the_same_bits": self.same_bits,
            "rounds": plan.mixing_rounds(),
            "private_bytes": counted.private_bytes, "public_bytes": counted.public_bytes,
            "dissemination": plan.draft().run.dissemination,
            "predicted_bytes_per_party": predicted.bytes_per_party,
            "public_bytes_per_party": counted.public_bytes / (counted.runs * plan.parties() as u64),
        });
        counted.report(plan, own, title + &self.table(plan))
    }

    fn table(&self, plan: &Plan) -> String {
        let predicted = &plan.calibration().predicted;
        let (rms, interval) = self.measured().unzip();
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), precise);
        let interval = interval.map_or("–".to_owned(), |[low, high]| {
            format!("{} to {}", precise(low), precise(high))
        });
        let of_runs = |count: u64| format!("{count} of {}", self.counted.runs);
        let accounted = shown(self.per_coordinate(self.accounted));
        let mut table = self.counted.table();
        let mut row = |what: &str, shown: String| {
            table.row([what.into(), shown]);
        };
        row("runs whose survivors hold their exact sum", of_runs(self.exact));
        row("  of which with the value of everybody", of_runs(self.whole));
        row("runs whose results have the same bits", of_runs(self.same_bits));
        row("ε claimed", claimed(plan));
        row("largest ε as it turned out", at_most(self.counted.epsilon));
        row("accounted error per coordinate", accounted);
        row("measured error per coordinate (rms)", shown(rms));
        row("  95 % interval of it", interval);
        row("  its square", shown(rms.map(|rms| rms * rms)));
        row("a trusted server", precise(predicted.central));
        row("local noise alone", precise(predicted.local));
        table.row(self.counted.violations()).render()
    }
}

/// The agreed logs that a node's last verdict was on.
pub(super) fn audited(outcome: &Outcome, logs: &AgreedLogs) -> AgreedLogs {
    let mut logs = logs.clone();
    if outcome.sealed.is_some() {
        logs.retain(|party, _| outcome.included.contains(party));
    }
    logs
}

/// Whether all results are the same bits. Averages are within their bounds of each other, an
/// invariant that is checked at every run's end: they agree if their weights do.
fn agree(plan: &Plan, results: &[&Outcome]) -> bool {
    let weight = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| sum.weight);
    let sum = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| (sum.value.clone(), sum.weight));
    let Some(first) = results.first() else { return true };
    if plan.terms().is_some() {
        results.iter().all(|outcome| weight(outcome) == weight(first))
    } else {
        let first = sum(first);
        results.iter().all(|outcome| sum(outcome) == first)
    }
}

/// Whether every survivor ended with the sum of one set that has all survivors, and with nothing of
/// anybody else.
fn are_exact(plan: &Plan, simulated: &Simulated, results: &[&Outcome]) -> bool {
    let survivors: BTreeSet<Party> = (0..plan.parties())
        .filter(|&party| simulated.outcomes[party].is_some())
        .collect();
    let is_exact = |outcome: &&Outcome| {
        let steps = outcome.accuracy.map_or(0.0, |accuracy| accuracy.steps);
        let off = outcome
            .sum
            .as_ref()
            .zip(simulated.sum_over(&outcome.included))
            .map(|(sum, exact)| largest_difference(&sum.value, &exact));
        outcome.included.is_superset(&survivors) && off.is_some_and(|off| off <= steps)
    };
    let same_set = |outcome: &&Outcome| Some(&outcome.included) == results.first().map(|it| &it.included);
    results.len() == survivors.len()
        && results
            .iter()
            .all(|outcome| is_exact(outcome) && same_set(outcome))
}
