//! Uniform correlated noise as people use it: real processes over residues, a party that dies among
//! them, and what is refused before anything moves.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::{
    PLAN, Parties, Signal, alone, assert_close, follow_in, killed, read_json, receipt, run_in, signal,
    signal_if_alive,
};

const DIMENSION: usize = 1000;

/// Deadlines that nobody comes to, on a machine with other work, too.
const PATIENT: &str = "join_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

fn run_file(mechanism: &str, run: &str) -> String {
    format!("version = 1\n[mechanism]\ncorrelated = \"uniform\"\n{mechanism}\n[run]\n{run}{PATIENT}")
}

fn write_run(folder: &Path, mechanism: &str, run: &str) {
    std::fs::write(folder.join("run.toml"), run_file(mechanism, run)).expect("writable");
}

fn mean(kept: &Path, party: &str) -> Vec<u8> {
    std::fs::read(kept.join(party).join("mean.npy")).unwrap_or_else(|e| panic!("{party}: {e}"))
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {object}"))
}

/// The true error against the accounted one: χ² of so many degrees, five standard deviations.
fn assert_accounted(object: &Value) {
    let ratio = (number(object, "rms_error") / number(object, "standard_error")).powi(2);
    let allowed = 5.0 * (2.0 / DIMENSION as f64).sqrt();
    assert!(
        (ratio - 1.0).abs() <= allowed,
        "{ratio} times the accounted variance"
    );
}

/// Each value is hidden among so many, and it takes some parties to separate those who shared.
#[track_caller]
fn assert_connected(receipt: &Value, among: u64) {
    let connectivity = &receipt["connectivity"];
    assert_eq!(connectivity["among"], json!(among), "{connectivity}");
    let kappa = connectivity["kappa"].as_u64().expect("an integer");
    assert!((2..=among).contains(&kappa), "{connectivity}");
}

#[test]
fn a_local_cluster_averages_over_residues_at_the_floor() {
    let _alone = alone();
    for (mechanism, kind, rounds) in [
        ("", "inca", Some(3)),
        ("kind = \"ppsc\"", "ppsc", None),
        ("kind = \"pairwise\"", "pairwise", Some(4)),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        write_run(folder.path(), mechanism, "");
        let line = format!("local --nodes 8 --dimension {DIMENSION} --run run.toml --output kept --json");
        let object = run_in(folder.path(), line.split(' ')).json_of(0);
        assert_eq!(
            (&object["outcome"], &object["finished"]),
            (&json!("done"), &json!(8))
        );
        assert_accounted(&object);
        let over_floor = number(&object, "standard_error") / number(&object, "error_floor");
        assert!((over_floor - 1.080).abs() < 0.002, "{over_floor}");

        let kept = folder.path().join("kept");
        let plan = read_json(&kept.join("plan.json"));
        let said = &plan["mechanism"];
        assert_eq!(
            (&said["kind"], &said["correlated"]),
            (&json!(kind), &json!("uniform"))
        );
        let none = ["correlated_std", "pairwise_std", "injection"].map(|key| said[key].is_null());
        assert_eq!((none, &said["wire_bytes"]), ([true; 3], &json!(3)));
        if let Some(rounds) = rounds {
            assert_eq!(said["rounds"], rounds);
        }
        // Masks follow from keys: what two parties say to each other in private is that they are
        // there.
        let shares = 8.0 * 3.0 * DIMENSION as f64;
        assert_eq!(
            number(&object, "private_bytes") > shares,
            kind != "pairwise",
            "{object}"
        );
        for party in (0..8).map(|party| format!("party-{party}")) {
            assert_eq!(mean(&kept, &party), mean(&kept, "party-0"), "same bits");
            let receipt = receipt::of_local(&kept, &party);
            assert_close(
                &receipt["standard_error"],
                number(said, "independent_std") / 8f64.sqrt(),
                1e-9,
                "σ*/√8",
            );
            // Nobody departed: each value is hidden among seven, where the plan says six.
            assert_connected(&receipt, 7);
            assert!(
                number(&receipt, "epsilon") < 0.95 * number(&receipt, "epsilon_claimed"),
                "{receipt}"
            );
            receipt::assert_mu_follows(&receipt);
        }
    }
}

#[test]
fn a_kill_among_residues_costs_accuracy_only() {
    let _alone = alone();
    killed::in_time(300, one_is_killed_among_residues);
}

/// False: the victim was through with mixing when it was killed.
fn one_is_killed_among_residues(pace_ms: u64) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    write_run(folder.path(), "", &format!("pace_ms = {pace_ms}\n"));
    let line = format!("local --nodes 8 --dimension {DIMENSION} --run run.toml --output kept --json");
    let (running, mut events) = follow_in(folder.path(), line.split(' '));
    let (victim, pid) = events.spawned(8)[5].clone();
    events.until("its second round", |e| {
        e["event"] == "round" && e["party"] == *victim && e["round"] == 2
    });
    signal_if_alive(pid, Signal::SIGKILL);
    let (reported, ended) = (events.rest(), running.wait());
    if !killed::in_mixing(&reported, &victim) {
        return false;
    }
    let object = ended.json_of(5);
    assert_eq!(
        (&object["finished"], &object["agreed"]),
        (&json!(7), &json!(true)),
        "{object}"
    );
    assert_accounted(&object);
    let over_floor = number(&object, "standard_error") / number(&object, "error_floor");
    assert!((over_floor - 1.155).abs() < 0.002, "{over_floor}");
    let kept = folder.path().join("kept");
    for party in (0..8)
        .map(|party| format!("party-{party}"))
        .filter(|it| *it != victim)
    {
        assert_eq!(
            mean(&kept, &party),
            mean(&kept, object["included"][0].as_str().expect("a name"))
        );
        let receipt = receipt::of_local(&kept, &party);
        assert_eq!(receipt["departed"], json!([victim]));
        assert_connected(&receipt, 6);
        assert!(number(&receipt, "epsilon") <= 1.0);
        receipt::assert_mu_follows(&receipt);
    }
    true
}

/// A process that is killed as soon as its sealed final has left is in the mean of all others.
#[test]
fn a_kill_after_the_sealed_final_has_left_costs_nothing() {
    let _alone = alone();
    for mechanism in ["", "kind = \"ppsc\"\n", "kind = \"pairwise\"\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        write_run(folder.path(), mechanism, "");
        let line = format!("local --nodes 8 --dimension {DIMENSION} --run run.toml --output kept --json");
        let (running, mut events) = follow_in(folder.path(), line.split(' '));
        let (victim, pid) = events.spawned(8)[3].clone();
        events.until("its sealed final has left", |e| {
            e["event"] == "sealed" && e["party"] == *victim
        });
        signal(pid, Signal::SIGKILL);
        drop(events.rest());
        let object = running.wait().json_of(5);
        assert_eq!(
            (&object["agreed"], object["included"].as_array().map(Vec::len)),
            (&json!(true), Some(8)),
            "{object}"
        );
        assert_accounted(&object);
        let over_floor = number(&object, "standard_error") / number(&object, "error_floor");
        assert!((over_floor - 1.080).abs() < 0.002, "{over_floor}");
        let codes = object["exit_codes"].as_object().expect("codes");
        let killed: Vec<_> = codes.iter().filter(|(_, code)| **code != json!(0)).collect();
        assert!(killed.iter().all(|(party, _)| **party == victim), "{codes:?}");
        let kept = folder.path().join("kept");
        for party in (0..8)
            .map(|party| format!("party-{party}"))
            .filter(|it| *it != victim)
        {
            assert_eq!(
                mean(&kept, &party),
                mean(&kept, if victim == "party-0" { "party-1" } else { "party-0" })
            );
        }
    }
}

#[test]
fn what_does_not_go_with_uniform_noise_is_refused() {
    let parties = Parties::new(6);
    for (lines, code, field) in [
        ("injection = \"early\"", 2, "mechanism.injection"),
        ("fanout = 2", 2, "mechanism.fanout"),
        ("rollback = false", 2, "mechanism.rollback"),
        (
            "kind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true",
            2,
            "mechanism.independent_noise",
        ),
        ("rounds = 1", 2, "mechanism.rounds"),
        ("[run]\ndissemination = \"consensus\"", 2, "run.dissemination"),
        ("[topology]\nprivate = \"ring\"", 3, "topology.private"),
    ] {
        let text = format!(
            "version = 1\nname = \"test\"\n[data]\nshape = [8]\n[mechanism]\ncorrelated = \"uniform\"\n{lines}\n"
        );
        parties.write("run.toml", &text);
        let refused = parties.run(PLAN);
        refused.refused_at(code, field);
    }
    parties.write(
        "run.toml",
        "version = 1\nname = \"test\"\n[data]\nshape = [8]\n[mechanism]\ncorrelated = \"gaussian\"\ninjection = \"late\"\n",
    );
    let gaussian = parties.run(PLAN);
    gaussian.refused_at(2, "mechanism.injection");
}
