//! `undertone benchmark`: a local run beside what its own bytes take over the same transport, in one go.
//!
//! The baseline moves the run's private bytes over Noise and its public bytes over plaintext between as many other processes, each to the
//! next one around a ring, with the same streams and frames of a share's length. Runs and baselines alternate, so that a machine whose
//! speed drifts slows both.

mod disseminations;
mod private_rounds;
mod simulated;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use libp2p::Multiaddr;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::cli::Report;
use crate::failure::{Exit, Failure};
use crate::network::bench::{Client, Server};
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
    /// Compare averaging over random-regular graphs of degree 4 with the flood of finals over the same graphs, in turns
    #[arg(long, conflicts_with = "relay")]
    disseminations: bool,
    /// Count the network rounds of PPSC's private phase in the simulator, for these numbers of parties (default 8,16,50,100) and several
    /// private graphs, against the longest chain of exchanges with common parties
    #[arg(long, value_name = "N,…", num_args = 0.., value_delimiter = ',', default_missing_values = ["8", "16", "50", "100"], conflicts_with_all = ["relay", "disseminations"])]
    private_rounds: Option<Vec<usize>>,
    /// With --disseminations: not in processes but in the simulator, one run each with so many parties
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "disseminations", conflicts_with_all = ["nodes", "runs"])]
    simulated: Option<Vec<usize>>,
    /// With --simulated: seeds inputs, graphs, schedule, network and noise
    #[arg(long, value_name = "S", default_value_t = 0, requires = "simulated")]
    seed: u64,
    /// Processes of the baseline (default: one for each party)
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(2..))]
    baseline_processes: Option<u32>,
    /// Be one of the baseline's processes: which one, of how many, the length of a frame, private bytes, public bytes
    #[arg(long, hide = true, num_args = 5)]
    relay: Option<Vec<u64>>,
}

impl BenchmarkArgs {
    /// Of the baseline.
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

/// Runs it.
pub fn run(arguments: BenchmarkArgs) -> Result<Report, Failure> {
    if let Some(sizes) = &arguments.private_rounds {
        return private_rounds::run(sizes);
    }
    if let Some(parties) = &arguments.simulated {
        return simulated::run(parties, arguments.dimension, arguments.seed);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    if let Some(numbers) = &arguments.relay {
        return runtime.block_on(relay(numbers));
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
        let baseline_s = runtime
            .block_on(baseline(
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

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the benchmark failed: {what}"))
}

fn local(arguments: &BenchmarkArgs) -> Result<Value, Failure> {
    local_with(arguments.nodes, arguments.dimension, &[])
}

/// The final object of `local`, which must end well.
fn local_with(nodes: usize, dimension: usize, more: &[&str]) -> Result<Value, Failure> {
    let output = Command::new(std::env::current_exe().map_err(failed)?)
        .args([
            "local",
            "--json",
            "--nodes",
            &nodes.to_string(),
            "--dimension",
            &dimension.to_string(),
        ])
        .args(more)
        .stderr(Stdio::null())
        .output()
        .map_err(failed)?;
    let object: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
    if object["exit_code"] == 0 {
        Ok(object)
    } else {
        Err(failed(format!("the run ended with {}", object["exit_code"])))
    }
}

/// A share's length, near enough: what a party sends in a round.
fn share_bytes(object: &Value, private_bytes: u64) -> usize {
    let shares = object["rounds"].as_u64().unwrap_or(1) * object["parties"].as_u64().unwrap_or(1);
    (private_bytes / shares.max(1)).clamp(1, 1 << 30) as usize
}

/// Of the pair whose server is process `index`.
fn seed(index: u64) -> [u8; 31] {
    let digest = Sha256::digest(format!("undertone benchmark {index}: no secret, loopback only"));
    let mut seed = [0; 31];
    seed.copy_from_slice(&digest[..31]);
    seed
}

/// One of the baseline's processes: it serves the one before it and sends to the one after it. It says where it listens, is told where the
/// next one does, says that it is connected, is told to begin, and says when its bytes have arrived.
async fn relay(numbers: &[u64]) -> Result<Report, Failure> {
    let &[index, processes, frame, private_bytes, public_bytes] = numbers else {
        return Err(failed("five numbers"));
    };
    let server = Server::start(seed(index), frame as usize).await.map_err(failed)?;
    let [private, public] = server.addresses();
    println!("{private} {public}");
    tokio::spawn(server.run());
    let next = addresses(&told().await?)?;
    let client = Client::connect(seed((index + 1) % processes), next, frame as usize)
        .await
        .map_err(failed)?;
    println!("connected");
    told().await?;
    client
        .transfer(private_bytes, public_bytes)
        .await
        .map_err(failed)?;
    println!("arrived");
    // Until nobody needs it any more: it may still be receiving.
    told().await?;
    std::process::exit(0)
}

/// The next line from the parent; empty once it is gone.
async fn told() -> Result<String, Failure> {
    let read = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(read)
        .await
        .map_err(failed)?
        .map_err(failed)?
        .unwrap_or_default())
}

fn addresses(line: &str) -> Result<[Multiaddr; 2], Failure> {
    let mut addresses = line.trim().split(' ').map(str::parse::<Multiaddr>);
    match (addresses.next(), addresses.next()) {
        (Some(Ok(private)), Some(Ok(public))) => Ok([private, public]),
        _ => Err(failed("a process of the baseline has no addresses")),
    }
}

/// A process of the baseline, as its parent sees it.
struct Relay {
    /// Killed when this is dropped.
    _child: Child,
    told: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Relay {
    fn spawn(numbers: [u64; 5]) -> Result<Relay, Failure> {
        let mut command = tokio::process::Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["benchmark", "--relay"])
            .args(numbers.map(|number| number.to_string()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(told), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("no pipes"));
        };
        Ok(Relay {
            _child: child,
            told,
            says: BufReader::new(stdout).lines(),
        })
    }

    async fn tell(&mut self, line: &str) -> Result<(), Failure> {
        self.told
            .write_all(format!("{line}\n").as_bytes())
            .await
            .map_err(failed)
    }

    async fn expect(&mut self, line: &str) -> Result<(), Failure> {
        let said = self.says.next_line().await.map_err(failed)?;
        if said.as_deref() == Some(line) {
            Ok(())
        } else {
            Err(failed(format!("a process of the baseline said {said:?}")))
        }
    }
}

/// From the word to begin until the last process has said that its bytes arrived. `bytes`: private and public, of all together.
async fn baseline(processes: u64, bytes: [u64; 2], frame: usize) -> Result<Duration, Failure> {
    // Each an even part; the first ones carry the remainder.
    let part = |bytes: u64, index: u64| bytes / processes + u64::from(index < bytes % processes);
    let numbers = |index| {
        [
            index,
            processes,
            frame.max(8) as u64,
            part(bytes[0], index),
            part(bytes[1], index),
        ]
    };
    let mut relays = (0..processes)
        .map(|index| Relay::spawn(numbers(index)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut listening = Vec::new();
    for relay in &mut relays {
        let line = relay.says.next_line().await.map_err(failed)?.unwrap_or_default();
        listening.push(addresses(&line)?);
    }
    for (index, relay) in relays.iter_mut().enumerate() {
        let [private, public] = &listening[(index + 1) % listening.len()];
        relay.tell(&format!("{private} {public}")).await?;
    }
    for relay in &mut relays {
        relay.expect("connected").await?;
    }
    let begun = Instant::now();
    for relay in &mut relays {
        relay.tell("begin").await?;
    }
    for relay in &mut relays {
        relay.expect("arrived").await?;
    }
    Ok(begun.elapsed())
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
