//! Simulated gossip: how far estimates are from the mean of what all contributed, beside what was
//! accounted, local noise and the floor.

use serde_json::json;
use undertone_accountant::guarantee::circles;
use undertone_accountant::guarantee::own_noise::{estimate_error, half_width, loss_of};
use undertone_accountant::losses::gaussian;
use undertone_accountant::losses::releases::together;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::scenario::{Conditions, Report as Simulated};

use crate::commands::simulate::numbered::{Counted, RunsAsked, claimed};
use crate::commands::simulate::totals::audited;
use crate::measuring::trial::Trial;
use crate::measuring::vectors::Vectors;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::{at_most, precise};

/// Returns the loss of a node's releases, as it turned out: of those that have left. Where all read
/// the one sum, it is of those whose sum may have been opened. Each counts as much as the last one,
/// which had the fewest parties.
fn loss(trial: &Trial<Vectors>, outcome: &Outcome) -> f64 {
    let plan = &*trial.plan;
    if let Some(gossip) = &outcome.gossip {
        let std = plan.calibration().independent_std;
        return match plan.reads_circles() {
            true => circles::loss_of(plan, gossip.spent.into()),
            false => loss_of(plan.draft(), std, gossip.spent.into()),
        };
    }
    let (Some(training), Some(logs)) = (&outcome.training, &outcome.logs) else {
        return 0.0;
    };
    let logs = audited(outcome, logs);
    let each = trial.gate.answer(plan, &logs, |verdict| verdict.audit.mu);
    together(each, training.spent.min(plan.draft().protected_releases()))
}

/// Squares of differences, and the largest.
#[derive(Default)]
struct Differences {
    squares: f64,
    count: u64,
    largest: f64,
}

impl Differences {
    fn add(&mut self, found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            self.squares += (found - expected).powi(2);
            self.largest = self.largest.max((found - expected).abs());
            self.count += 1;
        }
    }

    /// The root of their mean square; none of none.
    fn root(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }
}

/// The totals over all runs.
#[derive(Default)]
pub(super) struct GossipTotals {
    counted: Counted,
    finished: u64,
    /// How far last rows are from the means over those who were there.
    errors: Differences,
    /// How far last rows are from what they would be without noise, in runs without kills.
    noise: Differences,
    /// The root of the mean square of each run's errors.
    pub(super) each: Vec<f64>,
    missed: u64,
}

impl GossipTotals {
    /// Simulates these runs.
    pub(super) fn of(trial: &Trial<Vectors>, runs: RunsAsked) -> Result<Self, Failure> {
        let mut totals = GossipTotals::default();
        let expected = (runs.kills == 0).then(|| trial.without_noise());
        runs.each(|seed, silent| {
            let faults = trial.kills_anywhere(runs.kills, seed, silent);
            let simulated = trial.simulate(Conditions::new(seed).with_faults(faults));
            totals.add(trial, &simulated, expected.as_deref());
            Ok(())
        })?;
        Ok(totals)
    }

    fn add(&mut self, trial: &Trial<Vectors>, simulated: &Simulated, expected: Option<&[Vec<f64>]>) {
        self.counted.add(simulated);
        let (plan, truth) = (&*trial.plan, trial.truth(simulated));
        let mut of_run = Differences::default();
        for (party, outcome) in simulated.outcomes.iter().enumerate() {
            let Some(outcome) = outcome else { continue };
            let epsilon = gaussian::epsilon(plan.draft().privacy.delta, loss(trial, outcome));
            self.counted.epsilon = self.counted.epsilon.max(epsilon.unwrap_or(f64::INFINITY));
            let missed = outcome.gossip.iter().flat_map(|gossip| gossip.missed.values());
            self.missed += missed.map(|missed| u64::from(missed.count)).sum::<u64>();
            let Some(last) = trial.last_row(outcome) else {
                continue;
            };
            self.finished += 1;
            self.errors.add(last, &truth);
            of_run.add(last, &truth);
            if let Some(expected) = expected {
                self.noise.add(last, &expected[party]);
            }
        }
        self.each.extend(of_run.root());
    }

    /// How far a node can be from the mean without noise; 0 where all read the one sum.
    fn spread(plan: &Plan) -> f64 {
        match plan.draft().averages() {
            true => estimate_error(plan).spread(half_width(plan.draft())),
            false => 0.0,
        }
    }

    /// The report; `title` stands above its table.
    pub(super) fn report(&self, plan: &Plan, title: String) -> Report {
        let predicted = &plan.calibration().predicted;
        let own = json!({
            "finished": self.finished, "agreed": (!plan.draft().averages()).then_some(true),
            "outcome": if self.finished > 0 { "done" } else { "aborted" },
            "epsilon_searched": plan.epsilon_searched(),
            "standard_error": predicted.standard_error, "spread": Self::spread(plan),
            "error_floor": predicted.error_floor,
            "rms_error": self.errors.root(), "max_abs_error": self.errors.largest,
            "rms_noise": self.noise.root(),
            "rounds": plan.rounds(), "releases": plan.draft().releases(), "missed_messages": self.missed,
            "private_bytes": self.counted.private_bytes, "public_bytes": self.counted.public_bytes,
            "predicted_bytes_per_party": predicted.bytes_per_party,
        });
        self.counted.report(plan, own, title + &self.table(plan))
    }

    fn table(&self, plan: &Plan) -> String {
        let predicted = &plan.calibration().predicted;
        let floors = |error: f64| {
            format!(
                "{} ({:.2} × floor)",
                precise(error),
                error / predicted.error_floor
            )
        };
        let shown = |error: Option<f64>| error.map_or("–".to_owned(), floors);
        let mut table = self.counted.table();
        let mut row = |what: &str, shown: String| {
            table.row([what.into(), shown]);
        };
        row("messages that were missing", self.missed.to_string());
        row("ε claimed", claimed(plan));
        row("largest ε as it turned out", at_most(self.counted.epsilon));
        row(
            "accounted noise of a last row, the node furthest off",
            floors(predicted.standard_error),
        );
        row("measured noise of last rows (rms)", shown(self.noise.root()));
        row(
            "measured error from the mean of those who were there (rms)",
            shown(self.errors.root()),
        );
        row(
            "  of which uneven weights at most, without a fault",
            precise(Self::spread(plan)),
        );
        row("floor for these colluders", floors(predicted.error_floor));
        row("a trusted server", floors(predicted.central));
        row("local noise alone", floors(predicted.local));
        table.row(self.counted.violations()).render()
    }
}
