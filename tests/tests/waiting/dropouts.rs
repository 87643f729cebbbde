//! A plan that tolerates two departures, with real processes: two of eight are killed, and the rest
//! holds its exact mean.

use serde_json::{Value, json};
use undertone_tests::{Signal, assert_close, follow_in, killed, receipt, signal_if_alive};

const NODES: usize = 8;
const DIMENSION: usize = 1000;

fn name(party: usize) -> String {
    format!("party-{party}")
}

/// Two departed, and the six's noise is what stays.
fn assert_receipt(receipt: &Value, alive: &[String]) {
    assert_eq!(
        (&receipt["departed"], &receipt["included"]),
        (&json!(["party-2", "party-5"]), &json!(alive))
    );
    let number = |key: &str| receipt[key].as_f64().expect("a number");
    assert_close(
        &receipt["standard_error"],
        number("independent_std") / 6f64.sqrt(),
        1e-9,
        "σ*/√6",
    );
    assert!(
        number("epsilon") > 0.0 && number("epsilon") <= number("epsilon_claimed"),
        "{receipt}"
    );
    receipt::assert_mu_follows(receipt);
}

fn two_leave(first: Signal, second: Signal) {
    killed::in_time(150, |pace_ms| two_leave_rounds_of(pace_ms, first, second));
}

/// False: one of them was through with mixing when the signal came.
fn two_leave_rounds_of(pace_ms: u64, first: Signal, second: Signal) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    // Only a silent party's deadlines are waited for; the others' rounds end long before, on a
    // machine with other work, too.
    let (round_ms, settle_ms) = if second == Signal::SIGSTOP {
        (2000 + pace_ms, 4000)
    } else {
        (30_000, 30_000)
    };
    let run = format!(
        "[privacy]\ndropouts = 2\n[mechanism]\nrounds = 5\n[run]\npace_ms = {pace_ms}\njoin_ms = 60000\nround_ms = {round_ms}\n\
         settle_ms = {settle_ms}\n"
    );
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = format!("local --nodes {NODES} --dimension {DIMENSION} --run run.toml --output kept --json");
    let (running, mut events) = follow_in(folder.path(), line.split(' '));
    let pids = events.spawned(NODES);
    for (victim, round, how) in [(2, 2, first), (5, 4, second)] {
        let party = name(victim);
        events.until("that round", |e| {
            e["event"] == "round" && e["party"] == *party && e["round"] == round
        });
        signal_if_alive(pids[victim].1, how);
    }
    if second == Signal::SIGSTOP {
        for _ in 0..NODES - 2 {
            events.until("six ends", |e| {
                e["event"] == "finished" && e["party"] != "party-2" && e["party"] != "party-5"
            });
        }
        // A stopped process would hold `local` for ever.
        signal_if_alive(pids[5].1, Signal::SIGKILL);
    }
    let (reported, ended) = (events.rest(), running.wait());
    if [2, 5]
        .iter()
        .any(|&victim| !killed::in_mixing(&reported, &name(victim)))
    {
        return false;
    }
    let object: Value = ended.json_of(5);
    let alive: Vec<String> = (0..NODES)
        .filter(|party| ![2, 5].contains(party))
        .map(name)
        .collect();
    assert_eq!(
        (&object["outcome"], &object["agreed"], &object["included"]),
        (&"degraded".into(), &true.into(), &json!(alive))
    );
    let kept = folder.path().join("kept");
    let mean = |party: &str| std::fs::read(kept.join(party).join("mean.npy")).expect("a mean");
    let bits = mean(&alive[0]);
    for party in &alive {
        assert_eq!(object["exit_codes"][party], 5, "{object}");
        assert!(mean(party) == bits, "{party} holds other bits");
        assert_receipt(&receipt::of_local(&kept, party), &alive);
    }
    // χ² of 1000 degrees, 5 standard deviations: a chance below 1e-6.
    let number = |key: &str| object[key].as_f64().expect("a number");
    let ratio = (number("rms_error") / number("standard_error")).powi(2);
    assert!(
        (ratio - 1.0).abs() <= 5.0 * (2.0 / DIMENSION as f64).sqrt(),
        "{ratio} times the accounted variance"
    );
    true
}

#[test]
fn two_killed_of_eight_are_rolled_back() {
    two_leave(Signal::SIGKILL, Signal::SIGKILL);
}

#[test]
fn one_killed_and_one_silent_of_eight_are_rolled_back() {
    two_leave(Signal::SIGKILL, Signal::SIGSTOP);
}
