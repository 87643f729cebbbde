//! Simulated gossip: how far estimates are from the mean of what all brought, beside what was
//! accounted, local noise and the floor.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use undertone_accountant::calibration::by_circles;
use undertone_accountant::calibration::by_own_noise::{estimate_error, half_width, loss_of};
use undertone_accountant::losses::gaussian;
use undertone_accountant::losses::releases::together;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::scenario::{Conditions, Report as Simulated};

use crate::commands::simulate::numbered::seed_of_run;
use crate::commands::simulate::totals::{audited, ending};
use crate::measuring::gossip_trial::GossipTrial;
use crate::planning::quote;
use crate::telling::failure::Exit;
use crate::telling::progress::Progress;
use crate::telling::report::Report;
use crate::telling::table::{Table, at_most, number};

/// What a node's releases cost it, as it turned out: those that have left, or where all read the
/// one sum, those whose sum may have been opened, each as much as the last one, which had the
/// fewest parties.
fn loss(trial: &GossipTrial, outcome: &Outcome) -> f64 {
    let plan = &*trial.plan;
    if let Some(gossip) = &outcome.gossip {
        let std = plan.calibration().independent_std;
        return match plan.reads_circles() {
            true => by_circles::loss_of(plan, gossip.spent.into()),
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

/// What all runs add up to.
#[derive(Default)]
pub(super) struct GossipTotals {
    runs: u64,
    /// Nodes by how they ended.
    endings: BTreeMap<&'static str, u64>,
    finished: u64,
    /// How far last rows are from the means over those who were there.
    errors: Differences,
    /// How far last rows are from what they would be without noise, in runs without kills.
    noise: Differences,
    /// The root of the mean square of each run's errors.
    pub(super) each: Vec<f64>,
    missed: u64,
    epsilon: f64,
    private_bytes: u64,
    public_bytes: u64,
    violations: Vec<String>,
}

impl GossipTotals {
    /// Simulates so many runs with so many kills in each.
    pub(super) fn of(trial: &GossipTrial, runs: u64, kills: usize, seed: u64) -> Self {
        let mut totals = GossipTotals::default();
        let expected = (kills == 0).then(|| trial.without_noise());
        let mut progress = Progress::start();
        for number in 0..runs {
            progress.show(&format!("run {} of {runs}", number + 1));
            let seed = seed_of_run(seed, number);
            let faults = trial.kills(kills, seed, !number.is_multiple_of(2));
            let simulated = trial.simulate(Conditions::new(seed).with_faults(faults));
            totals.add(trial, &simulated, expected.as_deref());
        }
        progress.end();
        totals
    }

    fn add(&mut self, trial: &GossipTrial, simulated: &Simulated, expected: Option<&[Vec<f64>]>) {
        self.runs += 1;
        for outcome in &simulated.outcomes {
            *self.endings.entry(ending(outcome)).or_insert(0) += 1;
        }
        let violations = simulated.violations.iter();
        self.violations
            .extend(violations.map(|violation| format!("{violation:?}")));
        for (private, public) in &simulated.bytes {
            self.private_bytes += private;
            self.public_bytes += public;
        }
        let (plan, truth) = (&*trial.plan, trial.truth(simulated));
        let mut of_run = Differences::default();
        for (party, outcome) in simulated.outcomes.iter().enumerate() {
            let Some(outcome) = outcome else { continue };
            let epsilon = gaussian::epsilon(plan.draft().privacy.delta, loss(trial, outcome));
            self.epsilon = self.epsilon.max(epsilon.unwrap_or(f64::INFINITY));
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

    /// The report; `title` stands above its table.
    pub(super) fn report(&self, plan: &Plan, title: String) -> Report {
        let exit = match self.violations.is_empty() {
            true => Exit::Done,
            false => Exit::Internal,
        };
        Report {
            json: self.object(plan, exit),
            text: title + &self.table(plan),
            exit: exit.code(),
        }
    }

    /// How far a node can be from the mean without noise; 0 where all read the one sum.
    fn spread(plan: &Plan) -> f64 {
        match plan.draft().averages() {
            true => estimate_error(plan).spread(half_width(plan.draft())),
            false => 0.0,
        }
    }

    fn object(&self, plan: &Plan, exit: Exit) -> Value {
        let predicted = &plan.calibration().predicted;
        json!({
            "parties": plan.parties(), "runs": self.runs, "finished": self.finished, "endings": self.endings,
            "agreed": (!plan.draft().averages()).then_some(true),
            "outcome": if self.finished > 0 { "done" } else { "aborted" },
            "epsilon": self.epsilon, "delta": plan.draft().privacy.delta,
            "epsilon_claimed": plan.epsilon_claimed(), "epsilon_searched": plan.epsilon_searched(),
            "threat": quote::threat(plan), "claims": plan.calibration().claims,
            "standard_error": predicted.standard_error, "spread": Self::spread(plan),
            "error_floor": predicted.error_floor, "central": predicted.central, "local": predicted.local,
            "rms_error": self.errors.root(), "max_abs_error": self.errors.largest,
            "rms_noise": self.noise.root(),
            "rounds": plan.rounds(), "releases": plan.draft().releases(), "missed_messages": self.missed,
            "private_bytes": self.private_bytes, "public_bytes": self.public_bytes,
            "predicted_bytes_per_party": predicted.bytes_per_party,
            "violations": self.violations, "digest": plan.digest_hex(), "exit_code": exit.code(),
        })
    }

    fn table(&self, plan: &Plan) -> String {
        let predicted = &plan.calibration().predicted;
        let floors = |error: f64| format!("{} ({:.2} × floor)", number(error), error / predicted.error_floor);
        let shown = |error: Option<f64>| error.map_or("–".to_owned(), floors);
        let mut table = Table::new();
        for (ending, nodes) in &self.endings {
            table.row([format!("nodes {ending}"), nodes.to_string()]);
        }
        let claimed = plan.epsilon_claimed().map_or("–".into(), number);
        let mut row = |what: &str, shown: String| {
            table.row([what.into(), shown]);
        };
        row("messages that were missing", self.missed.to_string());
        row("ε claimed", claimed);
        row("largest ε as it turned out", at_most(self.epsilon));
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
            number(Self::spread(plan)),
        );
        row("floor for these colluders", floors(predicted.error_floor));
        row("a trusted server", floors(predicted.central));
        row("local noise alone", floors(predicted.local));
        row("invariants broken", self.violations.len().to_string());
        table.render()
    }
}
