//! Simulated trainings: how good models are, beside those of the same gradients with the noise of a
//! trusted server, and with local noise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::{Peer, Peers, PeersError};
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::scenario::{Conditions, Report as Simulated};

use crate::commands::local::parties;
use crate::commands::simulate::numbered::{check_kills, seed_of_run};
use crate::commands::simulate::totals::{audited, ending};
use crate::measuring::synthetic;
use crate::measuring::training_trial::TrainingTrial;
use crate::party::model_file;
use crate::party::rows::Rows;
use crate::planning::{make, quote};
use crate::telling::failure::{Exit, Failure};
use crate::telling::progress::Progress;
use crate::telling::report::Report;
use crate::telling::table::{Table, at_most, number};

/// Made-up rows of each party.
const ROWS: usize = 1000;

/// Made-up rows that models are held against.
const TEST_ROWS: usize = 5000;

/// A party's rows.
struct PartyTable {
    name: String,
    path: PathBuf,
    values: Vec<f64>,
    rows: u64,
}

/// What trainings are asked for.
pub(super) struct SimulatedTrainings {
    /// How many there are, where rows are made up.
    pub(super) parties: Option<usize>,
    /// A table of each party.
    pub(super) inputs: Option<PathBuf>,
    /// Rows that no party has.
    pub(super) test: Option<PathBuf>,
    pub(super) runs: u64,
    pub(super) seed: u64,
    pub(super) kills: usize,
}

impl SimulatedTrainings {
    /// Simulates trainings of a run file's plan.
    pub(super) fn run(&self, path: &Path, raw: RawRunFile) -> Result<Report, Failure> {
        let (trial, kills) = (self.trial(path, raw)?, self.kills);
        let mut totals = Qualities {
            without_noise: trial.quality(&trial.with_noise(0.0, 0)?),
            ..Qualities::default()
        };
        let (predicted, weight) = (
            &trial.plan.calibration().predicted,
            trial.plan.draft().total_weight(),
        );
        let mut progress = Progress::start();
        for number in 0..self.runs {
            progress.count("trainings", number, self.runs);
            let seed = seed_of_run(self.seed, number);
            let faults = trial.kills(kills, seed, !number.is_multiple_of(2));
            let simulated = trial.simulate(Conditions::new(seed).with_faults(faults));
            totals.add(&trial, &simulated);
            let of_noise = |error: f64| Ok(trial.quality(&trial.with_noise(error * weight, seed)?));
            totals.central.push(of_noise(predicted.central)?);
            totals.local.push(of_noise(predicted.local)?);
        }
        progress.end();
        let title = format!(
            "{} parties, {} trainings, {kills} kill{} each, seed {}\n",
            trial.plan.parties(),
            self.runs,
            if kills == 1 { "" } else { "s" },
            self.seed
        );
        Ok(totals.report(&trial, title))
    }

    fn trial(&self, path: &Path, mut raw: RawRunFile) -> Result<TrainingTrial, Failure> {
        raw.data.unit = raw.data.unit.or(Some(Unit::Record));
        let mut read = vec![];
        if let Some(folder) = &self.inputs {
            read = parties::read(folder, self.parties, &raw)?;
            parties::shape(&mut raw, &mut read)?;
        }
        let count = self.parties.unwrap_or(read.len());
        raw.data.shape.get_or_insert(vec![100]);
        let run = raw
            .resolve(count, Defaults::Local)
            .map_err(|e| make::run_failure(path, &e))?;
        run.supported().map_err(|e| make::run_failure(path, &e))?;
        check_kills(self.kills, count)?;
        let unfit = || Failure::new(Exit::Internal, "the run file fits no model");
        let (model, unit) = (run.computation.model().cloned().ok_or_else(unfit)?, run.data.unit);
        let tables: Vec<PartyTable> = match self.inputs {
            Some(_) => read.into_iter().map(of_file).collect(),
            None => (0..count)
                .map(|party| made_up(&model, self.seed, party))
                .collect(),
        };
        let test = match &self.test {
            Some(path) => model_file::rows(&model, path)?,
            None => {
                let values = synthetic::table(&model, TEST_ROWS, self.seed, 1 << 32);
                Rows::prepare(&model, &values, Path::new("made up"))?
            }
        };
        let plan = make::make(run, &peers(&tables, unit)?, self.seed)?;
        let tables: Vec<(&Path, &[f64])> = tables
            .iter()
            .map(|table| (table.path.as_path(), &table.values[..]))
            .collect();
        TrainingTrial::new(Arc::new(plan), &tables, test)
    }
}

fn of_file(party: parties::LocalParty) -> PartyTable {
    let rows = party.vector.layout.records().map_or(1, |(rows, _)| rows);
    PartyTable {
        name: party.name,
        path: party.input,
        values: party.vector.values,
        rows,
    }
}

fn made_up(model: &ModelSettings, seed: u64, party: usize) -> PartyTable {
    PartyTable {
        name: format!("party-{party}"),
        path: "made up".into(),
        values: synthetic::table(model, ROWS, seed, party as u64),
        rows: ROWS as u64,
    }
}

/// Simulated peers with these tables' names and counts.
fn peers(tables: &[PartyTable], unit: Unit) -> Result<Peers, Failure> {
    let refuse = |e: PeersError| Failure::usage(e.to_string()).field("--parties");
    let simulated = Peers::simulated(tables.len(), None).map_err(refuse)?;
    let named = simulated.as_slice().iter().zip(tables).map(|(peer, table)| Peer {
        name: table.name.clone(),
        records: (unit == Unit::Record).then_some(table.rows),
        ..peer.clone()
    });
    Peers::new(named.collect()).map_err(refuse)
}

/// How good the models of all trainings are, on rows that were held out.
#[derive(Default)]
struct Qualities {
    plan: Vec<f64>,
    central: Vec<f64>,
    local: Vec<f64>,
    without_noise: f64,
    /// Nodes by how they ended.
    endings: BTreeMap<&'static str, u64>,
    /// Iterations of each training.
    iterations: Vec<u64>,
    /// SHA-256 of each training's model.
    models: Vec<String>,
    /// Trainings whose nodes, those that came as far, hold one model.
    same_bits: u64,
    epsilon: f64,
    violations: Vec<String>,
}

fn hash(model: &[f64]) -> String {
    let bytes: Vec<u8> = model.iter().flat_map(|theta| theta.to_le_bytes()).collect();
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard error of the mean over trainings: two means that differ by less than some of these
/// may differ by chance. `None` of fewer than two.
fn standard_error(values: &[f64]) -> Option<f64> {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Qualities {
    fn add(&mut self, trial: &TrainingTrial, simulated: &Simulated) {
        for outcome in &simulated.outcomes {
            *self.endings.entry(ending(outcome)).or_insert(0) += 1;
        }
        let violations = simulated.violations.iter();
        self.violations
            .extend(violations.map(|violation| format!("{violation:?}")));
        let outcomes: Vec<&Outcome> = simulated.outcomes.iter().flatten().collect();
        let furthest = outcomes
            .iter()
            .filter_map(|outcome| outcome.training.as_ref())
            .filter(|training| training.result.is_some())
            .max_by_key(|training| training.iterations);
        let model = furthest.and_then(|training| training.result.as_ref());
        self.iterations
            .push(furthest.map_or(0, |training| training.iterations));
        let same = outcomes
            .iter()
            .filter_map(|outcome| outcome.training.as_ref())
            .all(|training| {
                Some(training.iterations) != self.iterations.last().copied()
                    || training.result.as_ref() == model
            });
        self.same_bits += u64::from(same);
        self.models.push(model.map_or(String::new(), |model| hash(model)));
        let start = vec![
            0.0;
            trial
                .plan
                .draft()
                .computation
                .model()
                .map_or(0, ModelSettings::parameters)
        ];
        self.plan.push(trial.quality(model.unwrap_or(&start)));
        let epsilons = outcomes.iter().filter_map(|outcome| epsilon(trial, outcome));
        self.epsilon = epsilons.fold(self.epsilon, f64::max);
    }

    /// The key and the name of what is measured.
    fn measure(trial: &TrainingTrial) -> (&'static str, &'static str) {
        match trial.test.loss() {
            Loss::Squared => ("r2", "R²"),
            _ => ("accuracy", "accuracy"),
        }
    }

    fn report(&self, trial: &TrainingTrial, title: String) -> Report {
        let exit = match self.violations.is_empty() {
            true => Exit::Done,
            false => Exit::Internal,
        };
        Report {
            json: self.object(trial, exit),
            text: title + &self.table(trial),
            exit: exit.code(),
        }
    }

    fn object(&self, trial: &TrainingTrial, exit: Exit) -> Value {
        let plan: &Plan = &trial.plan;
        let of = |values: &[f64]| {
            json!({
                "mean": mean(values), "standard_error": standard_error(values), "worst": worst(values),
                "each": values,
            })
        };
        json!({
            "parties": plan.parties(), "runs": self.plan.len(), "endings": self.endings,
            "measure": Self::measure(trial).0, "test_rows": trial.test.len(),
            "this_plan": of(&self.plan), "trusted_server": of(&self.central),
            "local_noise": of(&self.local), "without_noise": self.without_noise,
            "iterations": { "planned": plan.draft().releases(), "run": self.iterations },
            "model_sha256": self.models,
            "runs_with_the_same_bits": self.same_bits,
            "epsilon": self.epsilon, "delta": plan.draft().privacy.delta,
            "epsilon_claimed": plan.epsilon_claimed(), "threat": quote::threat(plan),
            "claims": plan.calibration().claims, "standard_error": plan.calibration().predicted.standard_error,
            "central": plan.calibration().predicted.central, "local": plan.calibration().predicted.local,
            "violations": self.violations, "digest": plan.digest_hex(), "exit_code": exit.code(),
        })
    }

    fn table(&self, trial: &TrainingTrial) -> String {
        let measure = format!("{} on {} rows", Self::measure(trial).1, trial.test.len());
        let mut models = Table::with_headings([&measure[..], "mean", "±", "worst"]);
        let mut row = |what: &str, values: &[f64]| {
            let error = standard_error(values).map_or("–".into(), number);
            models.row([what.into(), number(mean(values)), error, number(worst(values))]);
        };
        row("this plan", &self.plan);
        row("a trusted server's noise", &self.central);
        row("local noise alone", &self.local);
        row("without noise", &[self.without_noise]);
        let mut table = Table::new();
        for (ending, nodes) in &self.endings {
            table.row([format!("nodes {ending}"), nodes.to_string()]);
        }
        let claimed = trial.plan.epsilon_claimed().map_or("–".into(), number);
        table
            .row([
                "trainings with one model".into(),
                format!("{} of {}", self.same_bits, self.plan.len()),
            ])
            .row(["ε claimed".into(), claimed])
            .row(["largest ε as it turned out".into(), at_most(self.epsilon)])
            .row(["invariants broken".into(), self.violations.len().to_string()]);
        format!("{}\n{}", models.render(), table.render())
    }
}

/// What a training has cost a node: its last iteration, which had the fewest parties, as often as
/// it contributed.
fn epsilon(trial: &TrainingTrial, outcome: &Outcome) -> Option<f64> {
    let (training, logs) = (outcome.training.as_ref()?, outcome.logs.as_ref()?);
    let plan = outcome.plan(&trial.plan);
    let logs = audited(outcome, logs);
    let mu = trial.gate.answer(&plan, &logs, |verdict| verdict.audit.mu);
    let together = releases::together(mu, training.spent);
    gaussian::epsilon(plan.draft().privacy.delta, together).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_over_trainings_is_its_standard_error() {
        assert_eq!(standard_error(&[0.8]), None);
        // Variance 1/3 · (0.01 + 0.01 + 0.01 + 0.01) over four trainings.
        let error = standard_error(&[0.7, 0.9, 0.7, 0.9]).expect("of four");
        assert!((error - (0.04f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12, "{error}");
    }
}
