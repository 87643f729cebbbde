//! Parties that die, fall silent, or never come: real processes, real signals.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use undertone_tests::{
    Followed, Running, Signal, assert_close, follow_in, killed, read_json, receipt, signal, signal_if_alive,
};

const NODES: usize = 8;
const ROUNDS: u64 = 6;
const DIMENSION: usize = 1000;
/// Long enough for a signal to reach a party some rounds before the end.
const PACE_MS: u64 = 150;
/// Long enough for it to reach a party within the round that it is meant for.
const SLOW_PACE_MS: u64 = 1000;

/// A local run of 8 nodes that is being watched, with the process of each.
struct Cluster {
    folder: tempfile::TempDir,
    running: Running,
    events: Followed,
}

/// How a run with a kill ended.
struct End {
    folder: tempfile::TempDir,
    object: Value,
    events: Vec<Value>,
}

impl Cluster {
    /// `run`: keys of the run file's [run] table.
    fn start(run: &str) -> Self {
        Cluster::of(DIMENSION, PACE_MS, run)
    }

    fn of(dimension: usize, pace_ms: u64, run: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text =
            format!("version = 1\n[mechanism]\nrounds = {ROUNDS}\n[run]\npace_ms = {pace_ms}\n{run}\n");
        std::fs::write(folder.path().join("run.toml"), text).expect("writable");
        let line =
            format!("local --nodes {NODES} --dimension {dimension} --run run.toml --output kept --json");
        let (running, events) = follow_in(folder.path(), line.split(' '));
        Cluster {
            folder,
            running,
            events,
        }
    }

    /// All process ids, in plan order.
    fn pids(&mut self) -> Vec<i32> {
        self.events
            .spawned(NODES)
            .into_iter()
            .map(|(_, pid)| pid)
            .collect()
    }

    /// Waits until this party begins this round.
    fn until_round(&mut self, party: usize, round: u64) {
        let name = name(party);
        self.events.until("that round", |e| {
            e["event"] == "round" && e["party"] == *name && e["round"] == round
        });
    }

    fn end(self, code: i32) -> End {
        let (end, found) = self.any_end();
        assert_eq!(found, code, "{}", end.object);
        end
    }

    /// Waits for the end; with the exit code.
    fn any_end(self) -> (End, i32) {
        let events = self.events.rest();
        let ended = self.running.wait();
        let end = End {
            folder: self.folder,
            object: ended.json(),
            events,
        };
        (end, ended.code)
    }
}

fn name(party: usize) -> String {
    format!("party-{party}")
}

impl End {
    fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    /// Milliseconds from the first node that mixes to the last of these that ends.
    fn duration_ms(&self, parties: &[usize]) -> u64 {
        let at = |event: &Value| event["t_ms"].as_u64().expect("t_ms");
        let start = self
            .events
            .iter()
            .find(|e| e["phase"] == "mixing")
            .map(at)
            .expect("mixing begins");
        let ends = parties.iter().map(|&party| {
            let name = name(party);
            self.events
                .iter()
                .find(|e| e["event"] == "finished" && e["party"] == *name)
                .map(at)
                .expect("a survivor finishes")
        });
        ends.max().expect("survivors") - start
    }
}

fn survivors(victims: &[usize]) -> Vec<usize> {
    (0..NODES).filter(|party| !victims.contains(party)).collect()
}

/// The survivors of one departure: same bits, same set, exit 5, receipts that say who departed and
/// what that costs.
fn check_survivors(end: &End, victim: usize, victims_code: i32) {
    let object = &end.object;
    let alive = survivors(&[victim]);
    let names: Vec<String> = alive.iter().map(|&party| name(party)).collect();
    for party in 0..NODES {
        let code = if party == victim { victims_code } else { 5 };
        assert_eq!(object["exit_codes"][name(party)], code, "{object}");
    }
    assert_eq!(
        (&object["finished"], &object["outcome"], &object["agreed"]),
        (&7.into(), &"degraded".into(), &true.into())
    );
    assert_eq!(object["included"], json!(names));
    let mean = |party: &str| {
        std::fs::read(end.kept().join(party).join("mean.npy")).expect("a survivor holds a mean")
    };
    let first = mean(&names[0]);
    assert!(
        names.iter().all(|party| mean(party) == first),
        "the survivors hold the same bits"
    );
    assert!(!end.kept().join(name(victim)).join("mean.npy").exists());
    for party in &names {
        check_receipt(&receipt::of_local(&end.kept(), party), victim, &names);
    }
    // The exact mean of the seven plus their η*: χ² of 1000 degrees, 5 standard deviations, a
    // chance below 1e-6.
    let number = |key: &str| object[key].as_f64().expect("a number");
    let ratio = (number("rms_error") / number("standard_error")).powi(2);
    assert!(
        (ratio - 1.0).abs() <= 5.0 * (2.0 / DIMENSION as f64).sqrt(),
        "the error's variance is {ratio} times the accounted one"
    );
}

fn check_receipt(receipt: &Value, victim: usize, names: &[String]) {
    let victim = name(victim);
    assert_eq!(
        (&receipt["outcome"], &receipt["agreed"]),
        (&"degraded".into(), &true.into())
    );
    let reason = receipt["reason"].as_str().expect("it says what it is");
    assert!(
        reason.contains(&format!("7 of 8 parties, without {victim}"))
            && reason.contains("raise run.round_ms and run.settle_ms"),
        "{reason}"
    );
    assert_eq!(
        (&receipt["included"], &receipt["departed"]),
        (&json!(names), &json!([victim]))
    );
    let reported = receipt["faults"]
        .as_array()
        .expect("sentences")
        .iter()
        .filter_map(Value::as_str)
        .any(|text| text.contains(&victim));
    assert!(reported, "the faults tell of {victim}: {}", receipt["faults"]);
    let sigma = receipt["independent_std"].as_f64().expect("σ*");
    assert_close(&receipt["standard_error"], sigma / 7_f64.sqrt(), 1e-9, "σ*/√7");
    assert_close(&receipt["total_weight"], 7.0, 1e-9, "total weight");
    let number = |key: &str| receipt[key].as_f64().expect("a number");
    assert!(
        number("epsilon") > 0.0 && number("epsilon") <= number("epsilon_claimed"),
        "ε as it turned out is within the claim"
    );
    assert!(
        receipt["weights"][&victim]
            .as_f64()
            .is_none_or(|weight| weight == 0.0),
        "{}",
        receipt["weights"]
    );
    receipt::assert_mu_follows(receipt);
}

/// Deadlines that nobody waits for when a process is killed. The earliest one after the kill is the
/// end of its round, a multiple of this; half-time of settling, from which lists are flooded, and
/// three quarters come later still.
const FAR_MS: u64 = 100_000;

/// Kills a party as it begins a round; the others end without waiting for any deadline.
fn killed_in(round: u64, victim: usize) {
    let pace_ms = if round == ROUNDS { SLOW_PACE_MS } else { PACE_MS };
    killed::in_time(pace_ms, |pace_ms| killed_in_rounds_of(pace_ms, round, victim));
}

/// False: the victim was through with mixing when it was killed.
fn killed_in_rounds_of(pace_ms: u64, round: u64, victim: usize) -> bool {
    let mut cluster = Cluster::of(
        DIMENSION,
        pace_ms,
        &format!("join_ms = {FAR_MS}\nround_ms = {FAR_MS}\nsettle_ms = {FAR_MS}"),
    );
    let pids = cluster.pids();
    cluster.until_round(victim, round);
    signal_if_alive(pids[victim], Signal::SIGKILL);
    let (end, code) = cluster.any_end();
    if !killed::in_mixing(&end.events, &name(victim)) {
        return false;
    }
    assert_eq!(code, 5, "{}", end.object);
    check_survivors(&end, victim, 137);
    let took = end.duration_ms(&survivors(&[victim]));
    println!(
        "killed in round {round}: {took} ms from START to the last survivor's end, of which {} are the pace",
        ROUNDS * pace_ms
    );
    // The pace, a stage's grace for who is found gone (1/32 of it, twice at most), and what a
    // machine with other work adds to that, against 100 s.
    assert!(took < FAR_MS, "{took} ms: somebody waited for a deadline");
    true
}

#[test]
fn a_kill_in_the_first_round_costs_accuracy_only() {
    killed_in(1, 3);
}

#[test]
fn a_kill_in_the_middle_costs_accuracy_only() {
    killed_in(3, 0);
}

#[test]
fn a_kill_in_the_last_round_costs_accuracy_only() {
    killed_in(ROUNDS, 7);
}

/// The plan tolerates one departure: of two, the survivors stay within the budget or withhold.
#[test]
fn after_two_kills_nobody_publishes_above_the_budget() {
    killed::in_time(PACE_MS, two_killed_in_rounds_of);
}

/// False: one of them was through with mixing when it was killed.
fn two_killed_in_rounds_of(pace_ms: u64) -> bool {
    // One departure too many to leave before the deadlines: they are waited for.
    let deadlines = format!(
        "join_ms = {FAR_MS}\nround_ms = {}\nsettle_ms = 4000",
        2000 + pace_ms
    );
    let mut cluster = Cluster::of(DIMENSION, pace_ms, &deadlines);
    let pids = cluster.pids();
    for (victim, round) in [(2, 2), (5, 4)] {
        cluster.until_round(victim, round);
        signal_if_alive(pids[victim], Signal::SIGKILL);
    }
    let (
        End {
            folder,
            object,
            events,
        },
        ended,
    ) = cluster.any_end();
    if [2, 5]
        .iter()
        .any(|&victim| !killed::in_mixing(&events, &name(victim)))
    {
        return false;
    }
    let kept = folder.path().join("kept");
    let claimed = object["epsilon_claimed"].as_f64().expect("a number");
    let mut worst = 5;
    for party in survivors(&[2, 5]).into_iter().map(name) {
        let code = object["exit_codes"][&party].as_i64().expect("a code");
        worst = worst.max(code);
        let receipt = receipt::of_local(&kept, &party);
        let epsilon = receipt["epsilon"]
            .as_f64()
            .expect("what has left has a loss, never none");
        assert!(
            (0.0..=claimed).contains(&epsilon),
            "{party}: ε = {epsilon}, the plan claims {claimed}"
        );
        // What nobody opens has told nothing; what has left and was opened has a loss.
        assert_eq!(epsilon == 0.0, code == 6, "{receipt}");
        match code {
            5 => assert!(kept.join(&party).join("mean.npy").exists()),
            6 => check_withheld(&kept, &party, &receipt),
            other => panic!("{party} exited with {other}: {object}"),
        }
        assert!(
            events
                .iter()
                .any(|e| e["event"] == "finished" && e["party"] == *party && e["exit_code"] == code)
        );
    }
    assert_eq!((i64::from(ended), &object["exit_code"]), (worst, &worst.into()));
    true
}

fn check_withheld(kept: &Path, party: &str, receipt: &Value) {
    assert!(
        !kept.join(party).join("mean.npy").exists(),
        "{party} withholds: no mean"
    );
    assert_eq!(receipt["outcome"], "withheld");
    assert_eq!(receipt["execution"]["published"], json!([]), "by contract");
    assert!(
        receipt["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "it says why"
    );
}

/// A party that is suspended costs the others the plan's deadlines; when it wakes up it withholds.
#[test]
fn a_party_that_falls_silent_costs_the_deadlines() {
    // A round's deadline is long enough for a machine with other work: the victim is to be the only
    // one that misses it.
    let (round_ms, settle_ms) = (2000, 4000);
    let mut cluster = Cluster::start(&format!("round_ms = {round_ms}\nsettle_ms = {settle_ms}"));
    let pids = cluster.pids();
    let victim = 4;
    cluster.until_round(victim, 2);
    signal(pids[victim], Signal::SIGSTOP);
    // It goes on only after the others have ended: none of them waits for it beyond deadlines of
    // theirs.
    for _ in 0..NODES - 1 {
        cluster.events.until("seven ends", |e| e["event"] == "finished");
    }
    signal(pids[victim], Signal::SIGCONT);
    let end = cluster.end(6);
    check_survivors(&end, victim, 6);
    check_withheld(
        &end.kept(),
        &name(victim),
        &read_json(&end.kept().join(name(victim)).join("receipt.json")),
    );
    // Meanwhile they told whom they waited for.
    let waited = |e: &Value| e["event"] == "waiting" && e["waiting_for"] == *name(victim);
    for party in survivors(&[victim]).into_iter().map(name) {
        let reported = end.events.iter().any(|e| e["party"] == *party && waited(e));
        assert!(reported, "{party} said of nobody that it waited for");
    }
    // Mixing, settling, publishing, and the time for which a node that is done answers the others.
    let deadlines = ROUNDS * round_ms + 3 * settle_ms;
    let took = end.duration_ms(&survivors(&[victim]));
    println!("one suspended: {took} ms from START to the last survivor's end, deadlines {deadlines} ms");
    assert!(took < 2 * deadlines, "{took} ms, deadlines {deadlines} ms");
}

/// Nobody waits for a party that stays suspended once all others have ended.
#[test]
fn local_ends_soon_after_the_last_survivor() {
    let mut cluster = Cluster::start("round_ms = 1000\nsettle_ms = 2000");
    let pids = cluster.pids();
    let victim = 4;
    cluster.until_round(victim, 2);
    signal(pids[victim], Signal::SIGSTOP);
    for _ in 0..NODES - 1 {
        cluster.events.until("seven ends", |e| e["event"] == "finished");
    }
    let survivors = Instant::now();
    let end = cluster.end(5);
    let waited = survivors.elapsed();
    // Two seconds, and as much for a machine with other work.
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    check_survivors(&end, victim, 137);
}

/// Two of eight never come: six are fewer than `min_parties`.
#[test]
fn too_few_to_start_and_nothing_private_leaves() {
    // Long vectors, so that what all handshakes take together is less than one share.
    let dimension = 20_000;
    let mut cluster = Cluster::of(dimension, PACE_MS, "join_ms = 2000");
    for (_, pid) in cluster.events.spawned(2) {
        // The first two that are started, before the last is: nobody can hold all READYs.
        signal(pid, Signal::SIGKILL);
    }
    let end = cluster.end(4);
    let object = &end.object;
    let alive: Vec<String> = survivors(&[0, 1]).into_iter().map(name).collect();
    for party in &alive {
        assert_eq!(object["exit_codes"][party], 4, "{object}");
        assert!(!end.kept().join(party).join("mean.npy").exists());
        let receipt = read_json(&end.kept().join(party).join("receipt.json"));
        assert_eq!(
            (&receipt["outcome"], &receipt["epsilon"], &receipt["mu"]),
            (&"aborted".into(), &0.0.into(), &0.0.into())
        );
    }
    assert_eq!(
        (&object["finished"], &object["outcome"], &object["epsilon"]),
        (&0.into(), &"aborted".into(), &0.0.into())
    );
    assert!(
        end.events
            .iter()
            .all(|e| e["event"] != "round" && e["phase"] != "mixing"),
        "nobody mixed"
    );
    let plan = read_json(&end.kept().join("plan.json"));
    let share = dimension as u64
        * plan["mechanism"]["wire_bytes"]
            .as_u64()
            .expect("bytes a coordinate");
    let sent = object["private_bytes"].as_u64().expect("bytes");
    assert!(
        sent < share,
        "{sent} bytes left on the private graph in all; one share is {share}"
    );
}
