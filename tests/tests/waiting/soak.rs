//! Runs of real processes in which signals come at random, over all mechanisms: whatever is killed,
//! stopped or told to leave, and whenever, nobody publishes above the budget and no two hold
//! different means as agreed.
//!
//! The same holds over a network that loses packets and falls apart for a while.
//!
//! A short form runs with the tests; the long one is
//! `cargo test -p undertone-tests --test waiting -- soak --ignored --nocapture`, with `SOAK_RUNS`
//! and `SOAK_SEED` for other numbers than 200 and 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use undertone_tests::survivors::{self, Survivor};
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Parties, Running, Signal, follow_at, follow_in, left_out, signal_if_alive, undertone};

/// What each run has beside a table of its mechanism.
const RUN: &str = "version = 1\n[data]\nnoise_ok = true\n";

/// Short deadlines: a party that is stopped costs the others these.
const TIMES: &str = "pace_ms = 40\njoin_ms = 8000\nround_ms = 800\nsettle_ms = 1600\n";

/// Mechanisms, topologies and ways of publishing, each with the fewest parties that it takes.
const MECHANISMS: [(usize, &str); 9] = [
    (5, "[run]\n"),
    (5, "[run]\nsealed = false\n"),
    (5, "[mechanism]\nrounds = 6\ncorrelated = \"gaussian\"\n[run]\n"),
    (5, "[mechanism]\nkind = \"pairwise\"\n[run]\n"),
    (5, "[mechanism]\nkind = \"ppsc\"\n[run]\n"),
    (
        5,
        "[mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"\n[run]\n",
    ),
    (5, "[topology]\npublic = \"ring\"\n[run]\n"),
    (
        8,
        "[topology]\npublic = \"ring\"\n[mechanism]\nrounds = 5\n[run]\nsealed = false\ndissemination = \"consensus\"\n",
    ),
    (6, "[privacy]\ncoalitions = \"static\"\n[run]\n"),
];

/// One run: who gets which signals after how many milliseconds.
struct Scenario {
    parties: usize,
    text: String,
    signals: Vec<(u64, usize, Signal)>,
}

impl Scenario {
    fn draw(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (least, mechanism) = MECHANISMS[seed as usize % MECHANISMS.len()];
        let parties = rng.random_range(least..=8);
        let mut signals = vec![];
        for _ in 0..rng.random_range(1..=3) {
            let (at, party) = (rng.random_range(0..800), rng.random_range(0..parties));
            let kinds = [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGSTOP];
            let kind = *kinds.choose(&mut rng).expect("three");
            signals.push((at, party, kind));
            if kind == Signal::SIGSTOP {
                signals.push((at + rng.random_range(10..3000), party, Signal::SIGCONT));
            }
        }
        signals.sort_by_key(|(at, party, _)| (*at, *party));
        Scenario {
            parties,
            text: format!("{RUN}{mechanism}{TIMES}"),
            signals,
        }
    }

    /// Plays it; what `local` said of it in the end, or none if the plan was refused.
    fn play(&self, folder: &Path) -> Value {
        std::fs::write(folder.join("run.toml"), &self.text).expect("writable");
        let line = format!(
            "local --nodes {} --dimension 200 --run run.toml --output kept --json",
            self.parties
        );
        let (running, mut events) = follow_in(folder, line.split(' '));
        let pids: Vec<i32> = events
            .spawned(self.parties)
            .into_iter()
            .map(|(_, pid)| pid)
            .collect();
        // Nobody sends: it only paces the signals.
        let (_sender, pace) = channel::<()>();
        let mut now = 0;
        for (at, party, signal) in &self.signals {
            let _ = pace.recv_timeout(Duration::from_millis(at - now));
            now = *at;
            signal_if_alive(pids[*party], *signal);
        }
        events.rest();
        running.wait().json()
    }
}

/// What must hold of a run, whatever happened; how each party ended.
fn check(scenario: &Scenario, folder: &Path, object: &Value) -> Vec<String> {
    let kept = folder.join("kept");
    let party = |name: String| Survivor {
        code: object["exit_codes"][&name].as_i64().expect("a code"),
        mean: kept.join(&name).join("mean.npy"),
        receipt: kept.join(&name).join("receipt.json"),
        name,
    };
    let parties: Vec<_> = (0..scenario.parties)
        .map(|i| party(format!("party-{i}")))
        .collect();
    let averaged = scenario.text.contains("consensus");
    let left = survivors::check(folder, &kept.join("plan.json"), &parties, averaged);
    if let (false, Some(ratio)) = (left.agreed == 0 || averaged, ratio(object)) {
        // χ² of 200 degrees: 6 standard deviations.
        assert!(
            (ratio - 1.0).abs() < 6.0 * (2.0_f64 / 200.0).sqrt(),
            "the mean is off: {ratio}"
        );
    }
    left.ends
}

/// The error's variance over the accounted one.
fn ratio(object: &Value) -> Option<f64> {
    Some((object["rms_error"].as_f64()? / object["standard_error"].as_f64()?).powi(2))
}

/// How many parties ended how.
fn soak(seeds: std::ops::Range<u64>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let scenario = Scenario::draw(seed);
        let folder = tempfile::tempdir().expect("a folder");
        println!(
            "seed {seed}: {} parties, {:?}",
            scenario.parties, scenario.signals
        );
        let object = scenario.play(folder.path());
        let ends = check(&scenario, folder.path(), &object);
        println!("  {ends:?}");
        ends.into_iter()
            .for_each(|end| *counts.entry(end).or_insert(0) += 1);
    }
    counts
}

/// Five packets of a hundred are lost.
const WEATHER: Weather = Weather {
    loss_percent: 5,
    delay: Duration::ZERO,
};

/// For how long hosts that are parted hear nothing of each other.
const PARTED: Duration = Duration::from_secs(3);

/// Deadlines that outlast a parting and what the kernel waits before it sends again, and deadlines
/// that do not.
const NETWORK_TIMES: [&str; 2] = [
    "pace_ms = 40\njoin_ms = 60000\nround_ms = 10000\nsettle_ms = 20000\n",
    "pace_ms = 40\njoin_ms = 60000\nround_ms = 1000\nsettle_ms = 2000\n",
];

/// A run on hosts of their own, parted at a random moment; how each party ended.
fn play_parted(seed: u64) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (hosts, mechanism) = MECHANISMS[seed as usize % MECHANISMS.len()];
    let times = NETWORK_TIMES.choose(&mut rng).expect("two");
    let side: Vec<usize> = (0..rng.random_range(1..=hosts / 2)).collect();
    let (phase, after) = (
        ["gathering", "mixing"][rng.random_range(0..2)],
        Duration::from_millis(rng.random_range(0..300)),
    );
    println!("seed {seed}: {hosts} hosts, {side:?} parted {after:?} after {phase} begins, {times:?}");
    let net = Testnet::new(hosts, WEATHER);
    let parties = Parties::at(hosts, |host| net.listeners(host));
    parties.write_inputs(&[200]);
    let named = RUN.replace("[data]\n", "name = \"parted\"\n[data]\nshape = [200]\n");
    parties.plan("plan", &format!("{named}{mechanism}{times}"));
    let command = |party: usize| {
        let mut command = net.command(party, undertone());
        command
            .args(parties.join("plan", party))
            .current_dir(parties.folder());
        command
    };
    let pipe = parties.path("events");
    let mut first = command(0);
    first.arg("--events").arg(&pipe);
    let (first, mut events) = follow_at(first, &pipe);
    let others = (1..hosts).map(|party| Running::start(command(party), None));
    let running: Vec<Running> = std::iter::once(first).chain(others).collect();
    events.until(phase, |event| event["phase"] == phase);
    // Nobody sends: it only paces the network.
    let (_sender, pace) = channel::<()>();
    let _ = pace.recv_timeout(after);
    net.part(&side);
    let _ = pace.recv_timeout(PARTED);
    net.heal();
    events.rest();
    let ended = parties
        .names()
        .iter()
        .zip(running)
        .map(|(name, running)| Survivor {
            code: running.wait().code.into(),
            mean: parties.path(&format!("plan-{name}.npy")),
            receipt: parties.path(&format!("plan-{name}.receipt.json")),
            name: name.clone(),
        });
    let ended: Vec<Survivor> = ended.collect();
    let averaged = mechanism.contains("consensus");
    survivors::check(parties.folder(), &parties.path("plan.json"), &ended, averaged).ends
}

/// How many parties ended how.
fn soak_parted(seeds: std::ops::Range<u64>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let ends = play_parted(seed);
        println!("  {ends:?}");
        ends.into_iter()
            .for_each(|end| *counts.entry(end).or_insert(0) += 1);
    }
    counts
}

#[test]
fn a_network_that_falls_apart_costs_no_budget_and_makes_no_two_means() {
    if let Err(missing) = possible() {
        return left_out("a network that falls apart", &missing);
    }
    let counts = soak_parted(0..4);
    assert!(counts.contains_key("done"), "nobody is done: {counts:?}");
}

#[test]
#[ignore = "half an hour; for changes of protocols, network and processes"]
fn a_network_that_falls_apart_in_many_runs() {
    possible().expect("root, ip and nft");
    let (runs, seed) = (number("SOAK_RUNS", 100), number("SOAK_SEED", 0));
    println!("{:?}", soak_parted(seed..seed + runs));
}

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_signals_cost_no_budget_and_make_no_two_means() {
    let counts = soak(0..MECHANISMS.len() as u64);
    assert!(
        counts.contains_key("degraded"),
        "the mix reaches something: {counts:?}"
    );
}

#[test]
#[ignore = "half an hour; for changes of protocols, network and processes"]
fn random_signals_in_many_runs() {
    let (runs, seed) = (number("SOAK_RUNS", 200), number("SOAK_SEED", 0));
    println!("{:?}", soak(seed..seed + runs));
}
