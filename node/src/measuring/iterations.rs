//! `benchmark --iterations`: a training beside means, in turns: what an iteration takes, and what a
//! whole run for each would.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use undertone_protocol::plan::run_file::parsed::RunFile;

use crate::measuring::failed::failed;
use crate::measuring::{local_run, synthetic};
use crate::reporting::failure::Failure;
use crate::reporting::output;
use crate::reporting::report::Report;
use crate::reporting::table::Table;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Layout};

/// Rows of each party.
const ROWS: usize = 1000;

/// The size of a measured training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainingSize {
    pub(crate) nodes: usize,
    pub(crate) parameters: usize,
    pub(crate) iterations: u64,
}

/// A training, and the mean before it.
struct Pair {
    mean_s: f64,
    training_s: f64,
    iterations_ms: Vec<f64>,
}

/// Runs a mean and a training `runs` times, in turns.
pub(crate) fn run(size: TrainingSize, runs: usize) -> Result<Report, Failure> {
    let folder = tempfile::tempdir().map_err(failed)?;
    prepare(folder.path(), size)?;
    let mut pairs = vec![];
    for run in 1..=runs {
        output::tell(format_args!("run {run} of {runs} …"));
        let mean = local_run::run(size.nodes, size.parameters, &[])?;
        let training = training(folder.path())?;
        let seconds = |object: &Value| object["wall_s"].as_f64().unwrap_or(f64::NAN);
        pairs.push(Pair {
            mean_s: seconds(&mean),
            training_s: seconds(&training),
            iterations_ms: iterations(&folder.path().join("events"))?,
        });
    }
    Ok(report(size, &pairs))
}

/// Least squares with as many columns as parameters. Its noise is nobody's business here.
fn run_file(size: TrainingSize) -> String {
    format!(
        "version = 1\ntask = \"regression\"\nname = \"benchmark\"\n[data]\nshape = [{}]\nnoise_ok = true\n\
         [model]\nloss = \"squared\"\nclip = 1.0\nintercept = false\niterations = {}\n",
        size.parameters + 1,
        size.iterations
    )
}

fn prepare(folder: &Path, size: TrainingSize) -> Result<(), Failure> {
    let text = run_file(size);
    let refused = |e: &dyn std::fmt::Display| Failure::usage(e.to_string()).field("--iterations");
    let run = RunFile::parse(&text, size.nodes).map_err(|e| refused(&e))?;
    let model = run
        .computation
        .model()
        .ok_or_else(|| failed("the run file fits no model"))?;
    std::fs::write(folder.join("run.toml"), text).map_err(failed)?;
    let tables = folder.join("tables");
    std::fs::create_dir(&tables).map_err(failed)?;
    let layout = Layout::npy(vec![ROWS, model.columns], Dtype::F64);
    for party in 0..size.nodes {
        let values = synthetic::table(model, ROWS, 1, party as u64);
        formats::write(&tables.join(format!("party-{party}.npy")), &layout, &values)?;
    }
    Ok(())
}

fn training(folder: &Path) -> Result<Value, Failure> {
    let path = |name: &str| {
        let path = folder.join(name);
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| failed("the temporary folder's name is not UTF-8"))
    };
    let (tables, run, events) = (path("tables")?, path("run.toml")?, path("events")?);
    local_run::ended(&["--inputs", &tables, "--run", &run, "--events", &events])
}

/// Milliseconds between any two iterations of one party, in order of size.
pub(crate) fn iterations(events: &Path) -> Result<Vec<f64>, Failure> {
    let text = std::fs::read_to_string(events).map_err(failed)?;
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    let mut found = vec![];
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).map_err(failed)?;
        let (Some(party), Some(at)) = (event["party"].as_str(), event["t_ms"].as_f64()) else {
            continue;
        };
        if event["event"] == "iteration"
            && let Some(last) = before.insert(party.to_owned(), at)
        {
            found.push(at - last);
        }
    }
    std::fs::remove_file(events).map_err(failed)?;
    found.sort_by(f64::total_cmp);
    Ok(found)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(size: TrainingSize, pairs: &[Pair]) -> Report {
    let TrainingSize {
        nodes,
        parameters,
        iterations,
    } = size;
    let of = |of: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(of).collect());
    let (mean_s, training_s) = (of(&|pair| pair.mean_s), of(&|pair| pair.training_s));
    let ratio = of(&|pair| pair.training_s / (pair.mean_s * iterations as f64));
    let all: Vec<f64> = pairs.iter().flat_map(|pair| pair.iterations_ms.clone()).collect();
    let worst = all.iter().copied().fold(f64::NAN, f64::max);
    let iteration = median(all);
    let json = json!({
        "nodes": nodes, "parameters": parameters, "iterations": iterations, "runs": pairs.len(),
        "mean_wall_s": mean_s, "training_wall_s": training_s, "ratio": ratio,
        "iteration_ms": { "median": iteration, "worst": worst }, "exit_code": 0,
    });
    let mut table = Table::new();
    table
        .row(["a mean, START to the result".into(), format!("{mean_s:.3} s")])
        .row([
            format!("{iterations} iterations, START to the result"),
            format!("{training_s:.3} s"),
        ])
        .row([
            format!("over {iterations} means (median of the pairs)"),
            format!("{ratio:.3}"),
        ])
        .row(["an iteration, median".into(), format!("{iteration:.1} ms")])
        .row(["an iteration, worst".into(), format!("{worst:.1} ms")]);
    let title = format!(
        "{nodes} processes, {parameters} parameters, {} runs\n",
        pairs.len()
    );
    Report::done(json, title + &table.render())
}
