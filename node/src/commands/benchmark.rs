//! `undertone benchmark`: a local run beside what its own bytes take over the same transport, in
//! one go.
//!
//! The baseline moves the run's private bytes over Noise and its public bytes over plaintext
//! between as many other processes, each to the next one around a ring, with the same streams and
//! frames of a share's length. Runs and baselines alternate, so that a machine whose speed drifts
//! slows both.

use clap::Args;
use serde_json::{Value, json};

use crate::measuring::iterations::{self, TrainingSize};
use crate::measuring::{local_run, relays};
use crate::reporting::failure::Failure;
use crate::reporting::output;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, bytes};

/// Flags of `benchmark`.
#[derive(Args, Debug)]
pub struct BenchmarkArgs {
    /// Parties of the local run
    #[arg(long, value_name = "N", default_value_t = 8)]
    nodes: usize,
    /// Coordinates
    #[arg(long, value_name = "D", default_value_t = 1_000_000)]
    dimension: usize,
    /// Runs, each with its baseline
    #[arg(long, value_name = "R", default_value_t = 3)]
    runs: usize,
    /// In turns with means: trainings of so many iterations, --dimension parameters each
    #[arg(
        long,
        value_name = "K",
        value_parser = clap::value_parser!(u64).range(1..=10_000),
        conflicts_with = "relay"
    )]
    iterations: Option<u64>,
    /// Processes of the baseline (default: one for each party)
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(2..))]
    baseline_processes: Option<u32>,
    /// Be one of the baseline's processes: which one, of how many, the length of a frame, private
    /// bytes, public bytes
    #[arg(long, hide = true, num_args = 5)]
    relay: Option<Vec<u64>>,
}

impl BenchmarkArgs {
    /// How many processes the baseline has.
    fn processes(&self) -> u64 {
        self.baseline_processes.map_or(self.nodes as u64, u64::from)
    }
}

/// A run and its baseline.
struct Sample {
    wall_s: f64,
    baseline_s: f64,
    private_bytes: u64,
    public_bytes: u64,
    peak_memory: u64,
    cpu_s: f64,
}

/// Measures what was asked for, or is one of the baseline's processes.
pub fn run(arguments: BenchmarkArgs) -> Result<Report, Failure> {
    if let Some(iterations) = arguments.iterations {
        let size = TrainingSize {
            nodes: arguments.nodes,
            parameters: arguments.dimension,
            iterations,
        };
        return iterations::run(size, arguments.runs.max(1));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    if let Some(numbers) = &arguments.relay {
        match runtime.block_on(relays::relay(numbers))? {}
    }
    let mut samples = vec![];
    for run in 1..=arguments.runs.max(1) {
        output::tell(format_args!("run {run} of {} …", arguments.runs.max(1)));
        let object = local(&arguments)?;
        let number = |key: &str| object[key].as_u64().unwrap_or(0);
        let (private_bytes, public_bytes) = (number("private_bytes"), number("public_bytes"));
        let frame = local_run::share_bytes(&object, private_bytes);
        let baseline_s = runtime
            .block_on(relays::baseline(
                arguments.processes(),
                [private_bytes, public_bytes],
                frame,
            ))?
            .as_secs_f64();
        samples.push(Sample {
            wall_s: object["wall_s"].as_f64().unwrap_or(f64::NAN),
            baseline_s,
            private_bytes,
            public_bytes,
            peak_memory: number("peak_memory_bytes"),
            cpu_s: object["cpu_s"].as_f64().unwrap_or(f64::NAN),
        });
    }
    Ok(report(&arguments, &samples))
}

fn local(arguments: &BenchmarkArgs) -> Result<Value, Failure> {
    local_run::run(arguments.nodes, arguments.dimension, &[])
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn memory(peak: u64, vectors: f64) -> String {
    if vectors > 0.0 {
        format!("{} = 48 MiB + {vectors:.1} × the vector", bytes(peak))
    } else {
        bytes(peak)
    }
}

fn report(arguments: &BenchmarkArgs, samples: &[Sample]) -> Report {
    let wall_s = median(samples, |s| s.wall_s);
    let baseline_s = median(samples, |s| s.baseline_s);
    let ratio = median(samples, |s| s.wall_s / s.baseline_s);
    let peak = median(samples, |s| s.peak_memory as f64);
    let vector = arguments.dimension as f64 * 8.0;
    let vectors = (peak - (48 << 20) as f64).max(0.0) / vector;
    let cpu_s = median(samples, |s| s.cpu_s);
    let (private, public) = (samples[0].private_bytes, samples[0].public_bytes);
    let json = json!({
        "nodes": arguments.nodes, "dimension": arguments.dimension, "runs": samples.len(),
        "baseline_processes": arguments.processes(),
        "wall_s": wall_s, "baseline_s": baseline_s, "ratio": ratio, "cpu_s": cpu_s,
        "private_bytes": private, "public_bytes": public,
        "peak_memory_bytes": peak, "vectors_above_48_mib": vectors,
        "exit_code": 0,
    });
    let mut table = Table::new();
    table
        .row(["START to the result".into(), format!("{wall_s:.3} s")])
        .row([
            format!(
                "its bytes ({} private, {} public), {} processes",
                bytes(private),
                bytes(public),
                arguments.processes()
            ),
            format!("{baseline_s:.3} s"),
        ])
        .row(["ratio (median of the pairs)".into(), format!("{ratio:.2}")])
        .row([
            "processor time of all nodes, start to end".into(),
            format!("{cpu_s:.2} s"),
        ])
        .row(["largest node's peak memory".into(), memory(peak as u64, vectors)]);
    let title = format!(
        "{} processes, {} coordinates, {} runs\n",
        arguments.nodes,
        arguments.dimension,
        samples.len()
    );
    Report::done(json, title + &table.render())
}
