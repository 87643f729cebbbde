//! Simulated trainings: how good models are, beside those of the same gradients with the noise of a
//! trusted server, and with local noise.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::{Peer, Peers, PeersError};
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::scenario::{Conditions, Report as Simulated};

use crate::commands::local::parties;
use crate::commands::simulate::numbered::{Counted, RunsAsked, check_kills, claimed};
use crate::commands::simulate::totals::audited;
use crate::measuring::synthetic;
use crate::measuring::tables::Tables;
use crate::measuring::trial::{Contributions, Trial};
use crate::party::model_file;
use crate::party::rows::Rows;
use crate::planning::make;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;
use crate::reporting::table::{Table, at_most, precise};

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

/// The settings of simulated trainings.
pub(super) struct SimulatedTrainings {
    /// How many there are, where rows are made up.
    pub(super) parties: Option<usize>,
    /// A table of each party.
    pub(super) inputs: Option<PathBuf>,
    /// Rows that no party has.
    pub(super) test: Option<PathBuf>,
    pub(super) runs: RunsAsked,
}

impl SimulatedTrainings {
    /// Simulates trainings of a run file's plan.
    pub(super) fn run(&self, path: &Path, raw: RawRunFile) -> Result<Report, Failure> {
        let trial = self.trial(path, raw)?;
        let mut totals = Qualities {
            without_noise: trial.quality(&trial.with_noise(0.0, 0)?),
            ..Qualities::default()
        };
        let (predicted, weight) = (
            &trial.plan.calibration().predicted,
            trial.plan.draft().total_weight(),
        );
        self.runs.each(|seed, silent| {
            let faults = trial.kills_anywhere(self.runs.kills, seed, silent);
            let simulated = trial.simulate(Conditions::new(seed).with_faults(faults));
            totals.add(&trial, &simulated);
            let of_noise = |error: f64| Ok(trial.quality(&trial.with_noise(error * weight, seed)?));
            totals.central.push(of_noise(predicted.central)?);
            totals.local.push(of_noise(predicted.local)?);
            Ok(())
        })?;
        Ok(totals.report(&trial, self.runs.title(&trial.plan, "trainings")))
    }

    fn trial(&self, path: &Path, mut raw: RawRunFile) -> Result<Trial<Tables>, Failure> {
        raw.data.unit = raw.data.unit.or(Some(Unit::Record));
        let mut read = vec![];
        if let Some(folder) = &self.inputs {
            read = parties::read(folder, self.parties, &raw)?;
            parties::shape(&mut raw, &mut read)?;
        }
        let count = self.parties.unwrap_or(read.len());
        raw.data.shape.get_or_insert(vec![100]);
        let mut run = raw
            .resolve(count, Defaults::Local)
            .map_err(|e| make::run_failure(path, &e))?;
        run.supported().map_err(|e| make::run_failure(path, &e))?;
        check_kills(self.runs.kills, count)?;
        let unfit = || Failure::new(Exit::Internal, "the run file fits no model");
        let (model, unit) = (run.computation.model().cloned().ok_or_else(unfit)?, run.data.unit);
        let tables: Vec<PartyTable> = match self.inputs {
            Some(_) => read.into_iter().map(of_file).collect(),
            None => (0..count)
                .map(|party| made_up(&model, self.runs.seed, party))
                .collect(),
        };
        let test = match &self.test {
            Some(path) => model_file::rows(&model, path)?,
            None => {
                let values = synthetic::table(&model, TEST_ROWS, self.runs.seed, 1 << 32);
                Rows::prepare(&model, &values, Path::new("made up"))?
            }
        };
        if unit == Unit::Record {
            let counts = tables.iter().map(|table| (table.name.clone(), table.rows));
            run.data
                .records
                .get_or_insert(RecordCounts::named(counts.collect()));
        }
        let plan = Arc::new(make::make(run, &peers(&tables)?, self.runs.seed)?);
        let tables: Vec<(&Path, &[f64])> = tables
            .iter()
            .map(|table| (table.path.as_path(), &table.values[..]))
            .collect();
        let tables = Tables::of(&plan, &tables, test)?;
        Ok(Trial::new(plan, tables))
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

/// Simulated peers with these tables' names.
fn peers(tables: &[PartyTable]) -> Result<Peers, Failure> {
    let refuse = |e: PeersError| Failure::usage(e.to_string()).field("--parties");
    let simulated = Peers::simulated(tables.len()).map_err(refuse)?;
    let named = simulated.as_slice().iter().zip(tables).map(|(peer, table)| Peer {
        name: table.name.clone(),
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
    counted: Counted,
    /// Iterations of each training.
    iterations: Vec<u64>,
    /// SHA-256 of each training's model.
    models: Vec<String>,
    /// Trainings whose nodes, those that came as far, hold one model.
    same_bits: u64,
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
    fn add(&mut self, trial: &Trial<Tables>, simulated: &Simulated) {
        self.counted.add(simulated);
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
        let start = trial.of.start(&trial.plan);
        self.plan.push(trial.quality(model.unwrap_or(&start)));
        let epsilons = outcomes.iter().filter_map(|outcome| epsilon(trial, outcome));
        self.counted.epsilon = epsilons.fold(self.counted.epsilon, f64::max);
    }

    /// The key and the name of what is measured.
    fn measure(trial: &Trial<Tables>) -> (&'static str, &'static str) {
        match trial.of.test.loss() {
            Loss::Squared => ("r2", "R²"),
            _ => ("accuracy", "accuracy"),
        }
    }

    fn report(&self, trial: &Trial<Tables>, title: String) -> Report {
        let plan: &Plan = &trial.plan;
        let of = |values: &[f64]| {
            json!({
                "mean": mean(values), "standard_error": standard_error(values), "worst": worst(values),
                "each": values,
            })
        };
        let own = json!({
            "measure": Self::measure(trial).0, "test_rows": trial.of.test.len(),
            "this_plan": of(&self.plan), "trusted_server": of(&self.central),
            "local_noise": of(&self.local), "without_noise": self.without_noise,
            "iterations": { "planned": plan.draft().releases(), "run": self.iterations },
            "model_sha256": self.models,
            "runs_with_the_same_bits": self.same_bits,
            "standard_error": plan.calibration().predicted.standard_error,
        });
        self.counted.report(plan, own, title + &self.table(trial))
    }

    fn table(&self, trial: &Trial<Tables>) -> String {
        let measure = format!("{} on {} rows", Self::measure(trial).1, trial.of.test.len());
        let mut models = Table::with_headings([&measure[..], "mean", "±", "worst"]);
        let mut row = |what: &str, values: &[f64]| {
            let error = standard_error(values).map_or("–".into(), precise);
            models.row([what.into(), precise(mean(values)), error, precise(worst(values))]);
        };
        row("this plan", &self.plan);
        row("a trusted server's noise", &self.central);
        row("local noise alone", &self.local);
        row("without noise", &[self.without_noise]);
        let mut table = self.counted.table();
        table
            .row([
                "trainings with one model".into(),
                format!("{} of {}", self.same_bits, self.plan.len()),
            ])
            .row(["ε claimed".into(), claimed(&trial.plan)])
            .row(["largest ε as it turned out".into(), at_most(self.counted.epsilon)])
            .row(self.counted.violations());
        format!("{}\n{}", models.render(), table.render())
    }
}

/// Returns the ε of a training for a node: that of its last iteration, which had the fewest
/// parties, as often as the node contributed.
fn epsilon(trial: &Trial<Tables>, outcome: &Outcome) -> Option<f64> {
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
