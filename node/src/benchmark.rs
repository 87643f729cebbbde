//! `undertone benchmark`: a local run beside what its own bytes take over the same transport, in one go.
//!
//! The baseline moves the run's private bytes over Noise and its public bytes over plaintext between two other processes, with the same
//! streams and frames of a share's length. Runs and baselines alternate, so that a machine whose speed drifts slows both.

mod disseminations;

use std::process::{Command, Stdio};

use clap::Args;
use libp2p::Multiaddr;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::Report;
use crate::failure::{Exit, Failure};
use crate::network::bench::{Server, transfer};
use crate::table::{Table, bytes};

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
    /// Compare averaging over a random-regular public graph of degree 4 with the flood of finals over the same graph, in turns
    #[arg(long, conflicts_with = "serve")]
    disseminations: bool,
    /// Serve one transfer (the baseline's other process)
    #[arg(long, hide = true, value_name = "FRAME")]
    serve: Option<usize>,
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

/// Runs it.
pub fn run(arguments: BenchmarkArgs) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    if let Some(frame) = arguments.serve {
        return runtime.block_on(serve(frame));
    }
    if arguments.disseminations {
        return disseminations::run(arguments.nodes, arguments.dimension, arguments.runs.max(1));
    }
    let mut samples = vec![];
    for run in 1..=arguments.runs.max(1) {
        eprintln!("run {run} of {} …", arguments.runs.max(1));
        let object = local(&arguments)?;
        let number = |key: &str| object[key].as_u64().unwrap_or(0);
        let (private_bytes, public_bytes) = (number("private_bytes"), number("public_bytes"));
        let frame = share_bytes(&object, private_bytes);
        let baseline_s = runtime.block_on(baseline(private_bytes, public_bytes, frame))?;
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

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the benchmark failed: {what}"))
}

fn local(arguments: &BenchmarkArgs) -> Result<Value, Failure> {
    local_with(arguments.nodes, arguments.dimension, &[])
}

/// The final object of `local`, which must end well.
fn local_with(nodes: usize, dimension: usize, more: &[&str]) -> Result<Value, Failure> {
    let output = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["local", "--json", "--nodes", &nodes.to_string(), "--dimension", &dimension.to_string()])
        .args(more)
        .stderr(Stdio::null())
        .output()
        .map_err(failed)?;
    let object: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
    if object["exit_code"] == 0 { Ok(object) } else { Err(failed(format!("the run ended with {}", object["exit_code"]))) }
}

/// A share's length, near enough: what a party sends in a round.
fn share_bytes(object: &Value, private_bytes: u64) -> usize {
    let shares = object["rounds"].as_u64().unwrap_or(1) * object["parties"].as_u64().unwrap_or(1);
    (private_bytes / shares.max(1)).clamp(1, 1 << 30) as usize
}

fn seed() -> [u8; 31] {
    let digest = Sha256::digest(b"undertone benchmark: no secret, loopback only");
    let mut seed = [0; 31];
    seed.copy_from_slice(&digest[..31]);
    seed
}

async fn serve(frame: usize) -> Result<Report, Failure> {
    let server = Server::start(seed(), frame).await.map_err(failed)?;
    let [private, public] = server.addresses();
    println!("{private} {public}");
    server.run().await;
    Ok(Report::done(json!({}), String::new()))
}

async fn baseline(private_bytes: u64, public_bytes: u64, frame: usize) -> Result<f64, Failure> {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut child = tokio::process::Command::new(std::env::current_exe().map_err(failed)?)
        .args(["benchmark", "--serve", &frame.max(8).to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take().ok_or_else(|| failed("no standard output"))?;
    let line = BufReader::new(stdout).lines().next_line().await.map_err(failed)?.unwrap_or_default();
    let mut addresses = line.split(' ').map(str::parse::<Multiaddr>);
    let (Some(Ok(private)), Some(Ok(public))) = (addresses.next(), addresses.next()) else { return Err(failed("no addresses")) };
    let time = transfer(seed(), [private, public], private_bytes, public_bytes, frame).await.map_err(failed)?;
    Ok(time.as_secs_f64())
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn memory(peak: u64, vectors: f64) -> String {
    if vectors > 0.0 { format!("{} = 48 MiB + {vectors:.1} × the vector", bytes(peak)) } else { bytes(peak) }
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
        "wall_s": wall_s, "baseline_s": baseline_s, "ratio": ratio, "cpu_s": cpu_s,
        "private_bytes": private, "public_bytes": public,
        "peak_memory_bytes": peak, "vectors_above_48_mib": vectors,
        "exit_code": 0,
    });
    let mut table = Table::new();
    table
        .row(["START to the result".into(), format!("{wall_s:.3} s")])
        .row([
            format!("its bytes ({} private, {} public), two processes", bytes(private), bytes(public)),
            format!("{baseline_s:.3} s"),
        ])
        .row(["ratio (median of the pairs)".into(), format!("{ratio:.2}")])
        .row(["processor time of all nodes, start to end".into(), format!("{cpu_s:.2} s")])
        .row(["largest node's peak memory".into(), memory(peak as u64, vectors)]);
    let title = format!("{} processes, {} coordinates, {} runs\n", arguments.nodes, arguments.dimension, samples.len());
    Report::done(json, title + &table.render())
}
