//! A node that is slow, not dead: the others do not wait for it beyond the deadlines, and it ends
//! with their result or with none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Ending;
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::{mixing_time, plan, simulate};
use undertone_tests::{Signal, alone, follow_in, read_json, receipt, signal};

const ROUND_MS: u64 = 200;
const SETTLE_MS: u64 = 800;
const SEEDS: u64 = 10;

/// The fate of the slow one, and of the others.
#[derive(Debug, Default)]
struct Tally {
    slow: BTreeMap<&'static str, u32>,
    others: BTreeMap<&'static str, u32>,
    /// Shares that were accepted in a later round than their own.
    late: u32,
    /// The most rounds that one of those was late.
    latest: u32,
}

fn ending(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Degraded => "degraded",
        Ending::Withheld { .. } => "withheld",
        other => panic!("a plan that began ends otherwise: {other:?}"),
    }
}

/// One party is suspended for a while at some moment of mixing.
fn suspended(plan: &Arc<Plan>, moments: &Range<u64>, seed: u64, for_ms: u64, tally: &mut Tally) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let party = rng.random_range(0..plan.parties());
    let at = Time::from_nanos(rng.random_range(moments.clone()));
    let report = simulate(
        plan,
        Conditions::new(seed).with_faults(vec![Fault::Suspend { party, at, for_ms }]),
    );
    let what = format!(
        "seed {seed}: party {party} for {for_ms} ms at {} ms",
        at.as_millis()
    );
    check_one_result(&report, party, &what, tally);
    // T × round_ms, then a stage each for settling and publishing; a message's way or two.
    let start = report
        .outcomes
        .iter()
        .flatten()
        .filter_map(|outcome| outcome.started_at)
        .max()
        .expect("everybody starts");
    let deadlines = u64::from(plan.rounds()) * ROUND_MS + 2 * SETTLE_MS + 20;
    for other in (0..plan.parties()).filter(|&other| other != party) {
        let end = report.finished_at[other].expect("finished");
        assert!(
            end <= start.plus_millis(deadlines),
            "{what}: party {other} waited"
        );
    }
}

/// Everybody who holds a result holds the same set and bits; nobody but the slow one withholds.
fn check_one_result(report: &Report, slow: Party, what: &str, tally: &mut Tally) {
    let mut results = vec![];
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: party {party} never ends"));
        let ends = if party == slow {
            &mut tally.slow
        } else {
            &mut tally.others
        };
        *ends.entry(ending(&outcome.ending)).or_insert(0) += 1;
        if let Some(sum) = &outcome.sum {
            assert!(
                outcome.agreed,
                "{what}: party {party} holds a result that is not agreed on"
            );
            results.push((&outcome.included, sum));
        } else {
            assert_eq!(
                party, slow,
                "{what}: party {party} withholds: {:?}",
                outcome.ending
            );
        }
    }
    let (set, sum) = results[0];
    assert!(
        results
            .iter()
            .all(|(other, bits)| *other == set && bits.value == sum.value),
        "{what}: two results"
    );
    assert!(
        report.sum_over(set).as_ref() == Some(&sum.value),
        "{what}: not the exact sum over the set"
    );
    let logs = report
        .outcomes
        .iter()
        .flatten()
        .find_map(|outcome| outcome.logs.clone())
        .expect("logs were agreed on");
    for entry in logs
        .values()
        .flat_map(|log| &log.received)
        .filter(|entry| entry.applied > entry.round)
    {
        tally.late += 1;
        tally.latest = tally.latest.max(entry.applied - entry.round);
    }
}

#[test]
fn a_suspended_node_holds_nobody_up_and_ends_with_the_same_bits_or_none() {
    let lines = |more: &str| {
        format!("{more}[run]\nround_ms = {ROUND_MS}\nsettle_ms = {SETTLE_MS}\njoin_ms = 2000\npace_ms = 20")
    };
    let mut tally = Tally::default();
    for more in [
        "[mechanism]\nrounds = 6\n",
        "[privacy]\ndropouts = 2\n[mechanism]\nrounds = 5\n",
    ] {
        let plan = plan(8, 3, &lines(more));
        let moments = mixing_time(&plan, 0);
        for seed in 0..SEEDS {
            // Within a round, for two rounds, for most of mixing, into settling, for ever as far as
            // the run is concerned.
            for for_ms in [60, 2 * ROUND_MS, 700, 1700, 5000] {
                suspended(&plan, &moments, seed, for_ms, &mut tally);
            }
        }
    }
    println!("{tally:?}");
    assert_eq!(tally.others.get("withheld"), None, "{tally:?}");
    for end in ["done", "withheld"] {
        assert!(
            tally.slow.contains_key(end),
            "the mix reaches everything: {tally:?}"
        );
    }
    assert!(
        tally.late > 0 && tally.latest > 1,
        "some shares are late by several rounds: {tally:?}"
    );
}

const NODES: usize = 8;

fn name(party: usize) -> String {
    format!("party-{party}")
}

/// Real processes: SIGSTOP for two rounds' deadlines, then SIGCONT.
#[test]
fn a_stopped_process_that_goes_on_after_two_rounds_costs_the_others_deadlines_at_most() {
    let _alone = alone();
    let (round_ms, settle_ms, rounds, victim) = (1000_u64, 3000_u64, 6_u64, 5_usize);
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "[mechanism]\nrounds = {rounds}\n[run]\npace_ms = 100\nround_ms = {round_ms}\nsettle_ms = {settle_ms}\n"
    );
    std::fs::write(folder.path().join("run.toml"), text).expect("writable");
    let line = format!("local --nodes {NODES} --dimension 500 --run run.toml --output kept --json");
    let (running, mut events) = follow_in(folder.path(), line.split(' '));
    let pids = events.spawned(NODES);
    let slow = name(victim);
    events.until("round 2", |e| {
        e["event"] == "round" && e["party"] == *slow && e["round"] == 2
    });
    signal(pids[victim].1, Signal::SIGSTOP);
    // The others' clocks are ours: its receivers of rounds 3 and 4 wait for both deadlines.
    let mut in_round_5 = BTreeSet::new();
    while in_round_5.len() < NODES - 1 {
        let event = events.until("round 5", |e| {
            e["event"] == "round" && e["party"] != *slow && e["round"] == 5
        });
        in_round_5.insert(event["party"].as_str().expect("a name").to_owned());
    }
    signal(pids[victim].1, Signal::SIGCONT);
    let events = events.rest();
    let object = running.wait().json();
    let kept = folder.path().join("kept");
    let others: Vec<String> = (0..NODES).filter(|&party| party != victim).map(name).collect();
    let mean = |party: &str| std::fs::read(kept.join(party).join("mean.npy"));
    let first = mean(&others[0]).expect("a mean");
    for party in &others {
        assert!(
            [0, 5].contains(&object["exit_codes"][party].as_i64().expect("a code")),
            "{object}"
        );
        assert!(mean(party).expect("a mean") == first, "{party} holds other bits");
    }
    match object["exit_codes"][&slow].as_i64() {
        Some(0 | 5) => assert!(
            mean(&slow).expect("a mean") == first,
            "the slow one holds other bits"
        ),
        Some(6) => assert!(mean(&slow).is_err(), "who withholds has no mean"),
        other => panic!("the slow one exited with {other:?}: {object}"),
    }
    check_receipts(&kept, &others);
    let at = |event: &Value| event["t_ms"].as_u64().expect("t_ms");
    let start = events
        .iter()
        .find(|e| e["phase"] == "mixing")
        .map(at)
        .expect("mixing begins");
    let ends = events
        .iter()
        .filter(|e| e["event"] == "finished" && e["party"] != *slow)
        .map(at);
    // Mixing, settling, publishing, and for as long as that a node that is done answers the others.
    let (took, deadlines) = (
        ends.max().expect("ends") - start,
        rounds * round_ms + 3 * settle_ms,
    );
    println!(
        "stopped for two rounds: {took} ms from START to the last of the others, deadlines {deadlines} ms; {}",
        object["exit_codes"]
    );
    // The slow one was back long before: this tells waiting for deadlines, each once, from waiting
    // for each of it anew.
    assert!(took < 2 * deadlines, "{took} ms");
}

fn check_receipts(kept: &Path, parties: &[String]) {
    let sets: Vec<Value> = parties
        .iter()
        .map(|party| receipt::of_local(kept, party)["included"].clone())
        .collect();
    assert!(sets.iter().all(|set| *set == sets[0]), "one set: {sets:?}");
    let summary = read_json(&kept.join("summary.json"));
    let (turned_out, claimed) = (summary["epsilon"].as_f64(), summary["epsilon_claimed"].as_f64());
    assert!(
        turned_out
            .zip(claimed)
            .is_some_and(|(found, claim)| found <= claim),
        "{summary}"
    );
}
