//! `dissemination = "consensus"`: real processes that average their finals, also when one of them
//! vanishes while they do.

use std::path::Path;

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_tests::{Ended, Signal, follow_in, read_npy, receipt, run_in, signal_if_alive, simulated};

const DIMENSION: usize = 200;

fn local(folder: &Path, nodes: usize, run: &str) -> Ended {
    std::fs::write(folder.join("run.toml"), run).expect("writable");
    let line = format!("local --json --nodes {nodes} --dimension {DIMENSION} --run run.toml --output kept");
    run_in(folder, line.split(' '))
}

fn ring(run: &str) -> String {
    format!(
        "version = 1\n[mechanism]\nrounds = 5\n[topology]\npublic = \"ring\"\n[run]\ndissemination = \"consensus\"\n{run}\n"
    )
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is {}", object[key]))
}

/// How far two of these parties' means are apart in any coordinate.
fn largest_difference(kept: &Path, parties: &[String]) -> f64 {
    let means: Vec<Vec<f64>> = parties
        .iter()
        .map(|party| read_npy(&kept.join(party).join("mean.npy")).2)
        .collect();
    let spread = |i: usize| {
        let of = means.iter().map(|mean| mean[i]);
        of.clone().fold(f64::MIN, f64::max) - of.fold(f64::MAX, f64::min)
    };
    (0..means[0].len()).map(spread).fold(0.0, f64::max)
}

#[test]
fn ten_nodes_on_a_ring_end_within_nu_of_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = local(
        folder.path(),
        10,
        &ring("accuracy = 1e-4\nround_ms = 30000\nsettle_ms = 30000\njoin_ms = 60000"),
    )
    .json_of(0);
    assert_eq!(
        (&object["finished"], &object["agreed"], &object["outcome"]),
        (&json!(10), &Value::Null, &json!("done"))
    );
    let (accuracy, error) = (number(&object, "accuracy"), number(&object, "standard_error"));
    assert!(
        accuracy > 0.0 && accuracy <= 1e-4 && number(&object, "accuracy_of_mean") <= 0.5e-4,
        "{object}"
    );
    let names: Vec<String> = (0..10).map(|party| format!("party-{party}")).collect();
    let apart = largest_difference(&folder.path().join("kept"), &names);
    // Averages, not copies: they differ, and by less than was verified.
    assert!(
        apart > 0.0 && apart <= accuracy * error * (1.0 + 1e-9),
        "{apart} of {error}"
    );
    let ratio = (number(&object, "rms_error") / error).powi(2);
    assert!(
        (ratio - 1.0).abs() <= 5.0 * (2.0 / DIMENSION as f64).sqrt(),
        "{ratio} times the accounted variance"
    );
    for name in &names {
        let receipt = receipt::of_local(&folder.path().join("kept"), name);
        assert_eq!(
            (&receipt["outcome"], &receipt["agreed"]),
            (&json!("done"), &Value::Null)
        );
        assert!(number(&receipt, "accuracy") <= 1e-4);
        receipt::assert_mu_follows(&receipt);
    }
}

/// Killed, or stopped for good, as it begins to publish. The others' mean is of all if its rounds
/// were done, or its final had left; else the others flood theirs, and have their exact mean.
fn vanishes(how: Signal) {
    // Long vectors, so that there is time for the signal; longer ones, if it came only after the
    // victim's end.
    let caught = [20_000, 200_000, 1_000_000]
        .into_iter()
        .any(|dimension| vanishes_from(dimension, how));
    assert!(caught, "the victim had always ended before {how}");
}

/// False: the victim ended before the signal came.
fn vanishes_from(dimension: usize, how: Signal) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    // Long enough that nobody but the victim misses one.
    let deadline = 2000.max(dimension / 20);
    let run = ring(&format!("round_ms = {deadline}\nsettle_ms = {deadline}"));
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = format!("local --json --nodes 8 --dimension {dimension} --run run.toml --output kept");
    let (running, mut events) = follow_in(folder.path(), line.split(' '));
    let pids = events.spawned(8);
    events.until("publishing", |e| {
        e["party"] == "party-3" && e["phase"] == "publishing"
    });
    let mut caught = signal_if_alive(pids[3].1, how);
    if caught && how != Signal::SIGKILL {
        // The others end; then it is killed, for `local` waits for all.
        let mut ended = 0;
        while ended < 7 {
            events.until("an end", |e| e["event"] == "finished" && e["party"] != "party-3");
            ended += 1;
        }
        caught = signal_if_alive(pids[3].1, Signal::SIGKILL);
    }
    let reported = events.rest();
    let ended = running.wait();
    let object = ended.json();
    if !caught || object["exit_codes"]["party-3"] != 137 {
        // It was through, or on its way out: nobody misses it.
        assert_eq!(
            (ended.code, &object["finished"], &object["agreed"]),
            (0, &json!(8), &Value::Null),
            "{object}"
        );
        return false;
    }
    assert_eq!(ended.code, 5, "{object}");
    let others: Vec<String> = (0..8)
        .filter(|party| *party != 3)
        .map(|party| format!("party-{party}"))
        .collect();
    let receipts: Vec<Value> = others
        .iter()
        .map(|name| receipt::of_local(&folder.path().join("kept"), name))
        .collect();
    let included = &receipts[0]["included"];
    let count = included.as_array().expect("names").len();
    assert!(count == 8 || count == 7, "{included}");
    for receipt in &receipts {
        assert_eq!(&receipt["included"], included, "all averaged the same finals");
        let averaged = receipt["agreed"].is_null() && number(receipt, "accuracy") <= 1e-3;
        let flooded = receipt["agreed"] == true && receipt["accuracy"].is_null();
        assert!(averaged || flooded, "{receipt}");
        receipt::assert_mu_follows(receipt);
    }
    let apart = largest_difference(&folder.path().join("kept"), &others);
    assert!(apart <= 1e-3 * number(&object, "standard_error"), "{apart}");
    println!(
        "{how:?}, {dimension} numbers: {count} of 8 in the mean; agreed {}; {} events",
        receipts[0]["agreed"],
        reported.len()
    );
    true
}

#[test]
fn a_kill_while_publishing_costs_nobody_the_mean() {
    vanishes(Signal::SIGKILL);
}

#[test]
fn a_party_that_falls_silent_while_publishing_costs_nobody_the_mean() {
    vanishes(Signal::SIGSTOP);
}

#[test]
fn what_cannot_be_averaged_is_refused_with_its_field() {
    let folder = tempfile::tempdir().expect("a folder");
    local(folder.path(), 8, &ring("accuracy = 0.0")).refused_at(2, "run.accuracy");
    local(folder.path(), 8, &ring("accuracy = -1.0")).refused_at(2, "run.accuracy");
    let reported = local(folder.path(), 8, &ring("accuracy = 1e-12")).refused_at(2, "run.accuracy");
    assert!(
        reported["error"]["message"]
            .as_str()
            .expect("a sentence")
            .contains("raise it, or use dissemination = \"flood\""),
        "{reported}"
    );
    let pieces = "version = 1\n[topology]\npublic = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"], [\"party-2\", \"party-3\"]] }\n\
                  [run]\ndissemination = \"consensus\"\n";
    let reported = local(folder.path(), 4, pieces).refused_at(2, "topology.public");
    assert!(
        reported["error"]["message"]
            .as_str()
            .expect("a sentence")
            .contains("add edges"),
        "{reported}"
    );
}

/// The plan chooses by bytes; a simulated run counts them. Returns (dissemination, predicted and
/// counted public bytes of a party).
fn counted(parties: usize, dimension: usize, dissemination: &str) -> (String, f64, f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = format!(
        "version = 1\nname = \"many\"\n[data]\nnoise_ok = true\nshape = [{dimension}]\n[mechanism]\ncorrelated = \"gaussian\"\nrounds = 5\n[topology]\n\
         public = {{ kind = \"random-regular\", degree = 4 }}\n[run]\ndissemination = \"{dissemination}\"\n"
    );
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = format!("simulate run.toml --parties {parties} --json");
    let object = run_in(folder.path(), line.split(' ')).json_of(0);
    assert_eq!(object["violations"], json!([]), "{object}");
    assert_eq!(object["finished"], json!(parties), "{object}");
    let chosen = object["dissemination"].as_str().expect("a word").to_owned();
    (
        chosen,
        number(&object, "predicted_bytes_per_party"),
        number(&object, "public_bytes_per_party"),
    )
}

#[test]
fn the_plan_chooses_what_sends_fewer_bytes() {
    let (few, predicted, sent) = counted(6, 2000, "auto");
    let (averaged, more, sent_more) = counted(6, 2000, "consensus");
    assert_eq!((few.as_str(), averaged.as_str()), ("flood", "consensus"));
    assert!(
        predicted < more && sent < sent_more,
        "{predicted} {more} {sent} {sent_more}"
    );
    // Too many to simulate in a test: what their plans say.
    let settings = "[mechanism]\nrounds = 5\n[topology]\npublic = { kind = \"random-regular\", degree = 4 }\n[run]\ndissemination";
    let planned = |choice: &str| simulated::plan(250, 100_000, &format!("{settings} = \"{choice}\""));
    let (flood, auto) = (planned("flood"), planned("auto"));
    assert!(flood.slices().is_none() && auto.slices().is_some());
    let bytes = |plan: &Plan| plan.calibration().predicted.bytes_per_party;
    assert!(bytes(&auto) < bytes(&flood), "{} {}", bytes(&auto), bytes(&flood));
}
