//! `benchmark --disseminations`: both ways to publish, over the same graph and with the same seed,
//! one after the other.

use std::io::Write;

use serde_json::{Value, json};

use crate::measuring::failed::failed;
use crate::measuring::local_run;
use crate::telling::failure::Failure;
use crate::telling::output;
use crate::telling::report::Report;
use crate::telling::table::{Table, bytes};

pub(super) const WAYS: [&str; 2] = ["flood", "consensus"];

/// Runs each way of publishing `runs` times, in turns.
pub(crate) fn run(nodes: usize, dimension: usize, runs: usize) -> Result<Report, Failure> {
    let mut samples: [Vec<Value>; 2] = Default::default();
    for run in 0..runs {
        for (way, samples) in WAYS.iter().zip(&mut samples) {
            output::tell(format_args!("run {} of {runs}, {way} …", run + 1));
            let mut file = tempfile::Builder::new()
                .suffix(".toml")
                .tempfile()
                .map_err(failed)?;
            write!(file, "{}", run_file(nodes, way)).map_err(failed)?;
            let path = file
                .path()
                .to_str()
                .ok_or_else(|| failed("the temporary folder's name is not UTF-8"))?
                .to_owned();
            samples.push(local_run::run(
                nodes,
                dimension,
                &["--run", &path, "--seed", &run.to_string()],
            )?);
        }
    }
    Ok(report(nodes, dimension, &samples))
}

/// Neighbours of a party on either graph; where there are too few parties, everybody.
pub(super) const DEGREE: usize = 4;

/// Fixed rounds and Gaussian noise, which alone can be averaged in public: both runs have the same
/// plan but for how finals spread.
pub(super) fn run_file(nodes: usize, way: &str) -> String {
    let graph = if nodes > DEGREE + 1 {
        format!("{{ kind = \"random-regular\", degree = {DEGREE} }}")
    } else {
        "\"complete\"".into()
    };
    format!(
        "version = 1\nname = \"benchmark\"\n[mechanism]\ncorrelated = \"gaussian\"\nrounds = 5\n\
         [topology]\nprivate = {graph}\npublic = {graph}\n\
         [run]\ndissemination = \"{way}\"\nround_ms = 10000\nsettle_ms = 20000\njoin_ms = 120000\n"
    )
}

fn median(samples: &[Value], key: &str) -> f64 {
    let mut values: Vec<f64> = samples.iter().filter_map(|sample| sample[key].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(nodes: usize, dimension: usize, samples: &[Vec<Value>; 2]) -> Report {
    let per_node = |samples: &[Value]| median(samples, "public_bytes") / nodes as f64;
    let mut object =
        json!({ "nodes": nodes, "dimension": dimension, "runs": samples[0].len(), "exit_code": 0 });
    let mut table = Table::with_headings([
        "finals spread by",
        "START to the result",
        "public bytes of a node",
        "processor time",
    ]);
    for (way, samples) in WAYS.iter().zip(samples) {
        let (wall_s, public, cpu_s) = (
            median(samples, "wall_s"),
            per_node(samples),
            median(samples, "cpu_s"),
        );
        object[way] = json!({
            "wall_s": wall_s,
            "public_bytes_per_node": public,
            "cpu_s": cpu_s,
            "accuracy": samples[0]["accuracy"],
            "largest_difference": samples[0]["largest_difference"],
        });
        table.row([
            (*way).into(),
            format!("{wall_s:.3} s"),
            bytes(public as u64),
            format!("{cpu_s:.2} s"),
        ]);
    }
    let title = format!(
        "{nodes} processes, {dimension} coordinates, medians of {} runs each\n",
        samples[0].len()
    );
    Report::done(object, title + &table.render())
}
