//! Runs of real processes in which signals come at random, over all mechanisms: whatever is killed,
//! stopped or told to leave, and whenever, nobody publishes above the budget and no two hold
//! different means as agreed.
//!
//! A short form runs with the tests; the long one is
//! `cargo test -p undertone-tests --test soak -- --ignored --nocapture`, with `SOAK_RUNS` and
//! `SOAK_SEED` for other numbers than 200 and 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use undertone_tests::{Signal, alone, follow_in, read_json, run_in, signal_if_alive};

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
    let mut agreed: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
    let mut ends = vec![];
    for party in (0..scenario.parties).map(|party| format!("party-{party}")) {
        let code = object["exit_codes"][&party].as_i64().expect("a code");
        assert!(
            [0, 4, 5, 6, 137, 143].contains(&code),
            "{party} exited with {code}"
        );
        let (mean, path) = (
            kept.join(&party).join("mean.npy"),
            kept.join(&party).join("receipt.json"),
        );
        assert!(code != 0 || mean.exists(), "{party} is done without a mean");
        if !path.exists() {
            ends.push("gone".to_owned());
            assert!(
                !mean.exists(),
                "{party} has a mean of which no receipt says anything"
            );
            continue;
        }
        let receipt = read_json(&path);
        ends.push(receipt["outcome"].as_str().expect("an outcome").to_owned());
        let (epsilon, claimed) = (receipt["epsilon"].as_f64(), receipt["epsilon_claimed"].as_f64());
        if mean.exists() {
            assert!(
                epsilon.is_some_and(|epsilon| epsilon <= claimed.expect("a claim") * (1.0 + 1e-9)),
                "{party} published above the budget: {receipt}"
            );
        }
        if mean.exists() && receipt["agreed"] == true {
            let bytes = std::fs::read(&mean).expect("readable");
            agreed.insert(bytes, receipt["included"].clone());
        }
        let plan = kept.join("plan.json");
        let checked = run_in(folder, [Path::new("receipt"), &path, Path::new("--plan"), &plan]);
        assert_eq!(checked.code, 0, "{party}: {}{}", checked.stdout, checked.stderr);
    }
    let averaged = scenario.text.contains("consensus");
    assert!(
        averaged || agreed.len() <= 1,
        "two means are agreed: {:?}",
        agreed.values()
    );
    if let (false, Some(ratio)) = (agreed.is_empty() || averaged, ratio(object)) {
        // χ² of 200 degrees: 6 standard deviations.
        assert!(
            (ratio - 1.0).abs() < 6.0 * (2.0_f64 / 200.0).sqrt(),
            "the mean is off: {ratio}"
        );
    }
    ends
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

#[test]
fn random_signals_cost_no_budget_and_make_no_two_means() {
    let _alone = alone();
    let counts = soak(0..MECHANISMS.len() as u64);
    assert!(
        counts.contains_key("degraded"),
        "the mix reaches something: {counts:?}"
    );
}

#[test]
#[ignore = "half an hour; for changes of protocols, network and processes"]
fn random_signals_in_many_runs() {
    let _alone = alone();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (runs, seed) = (number("SOAK_RUNS", 200), number("SOAK_SEED", 0));
    println!("{:?}", soak(seed..seed + runs));
}
