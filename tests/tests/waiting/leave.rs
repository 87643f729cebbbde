//! Parties that are told to leave, and one whose result cannot be written: what they exit with, and
//! what the others get.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::{Followed, Parties, Running, Signal, follow_in, read_json, signal, signal_if_alive};

/// A deadline so long that a run in which anybody waits for one fails by the harness's watchdog,
/// not by a tight limit here.
const RUN: &str = "version = 1\nname = \"leave\"\n[data]\nnoise_ok = true\nshape = [50]\n[run]\njoin_ms = 60000\ngrace_ms = 60000\nround_ms = 60000\nsettle_ms = 60000\npace_ms = 150\n";

/// Parties of one plan on this machine, each a process that is followed.
struct Cluster {
    parties: Parties,
    nodes: Vec<(Running, Followed)>,
}

impl Cluster {
    /// Six are planned, the first `joining` of them join.
    fn start(joining: usize) -> Self {
        Cluster::of(Parties::new(6), joining, |_, own| own.to_owned())
    }

    /// `output`: where a party writes its mean.
    fn of(parties: Parties, joining: usize, output: impl Fn(usize, &str) -> String) -> Self {
        parties.write_inputs(&[50]);
        parties.plan("run", RUN);
        let join = |party: usize| {
            let own = format!("run-{}.npy", parties.names()[party]);
            let arguments = parties.join("run", party).into_iter();
            follow_in(
                parties.folder(),
                arguments.map(|word| if word == own { output(party, &own) } else { word }),
            )
        };
        let nodes = (0..joining).map(join).collect();
        Cluster { parties, nodes }
    }

    fn until(&mut self, party: usize, what: &str, wanted: impl Fn(&Value) -> bool) {
        self.nodes[party].1.until(what, wanted);
    }

    /// Each node's exit code and final object.
    fn ends(self) -> (Parties, Vec<(i32, Value)>) {
        let end = |(running, followed): (Running, Followed)| {
            followed.rest();
            let ended = running.wait();
            (ended.code, ended.json())
        };
        (self.parties, self.nodes.into_iter().map(end).collect())
    }
}

#[test]
fn who_leaves_before_the_start_has_given_nothing_away() {
    for how in [Signal::SIGINT, Signal::SIGTERM] {
        // Alone, it would wait a minute for the others.
        let mut cluster = Cluster::start(1);
        cluster.until(0, "gathering", |e| {
            e["event"] == "phase" && e["phase"] == "gathering"
        });
        signal(cluster.nodes[0].0.pid(), how);
        let (parties, ends) = cluster.ends();
        let (code, object) = &ends[0];
        assert_eq!(
            (*code, &object["outcome"], &object["exit_code"]),
            (4, &json!("aborted"), &json!(4)),
            "{object}"
        );
        assert!(
            object["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains("leave")),
            "{object}"
        );
        assert_eq!(object["epsilon"], json!(0.0), "nothing has left");
        assert_eq!(
            read_json(&parties.path("run-alice.receipt.json"))["outcome"],
            "aborted"
        );
    }
}

#[test]
fn who_leaves_while_mixing_withholds_and_the_others_do_not_wait() {
    let mut cluster = Cluster::start(6);
    cluster.until(2, "round 2", |e| e["event"] == "round" && e["round"] == 2);
    signal(cluster.nodes[2].0.pid(), Signal::SIGTERM);
    let (parties, ends) = cluster.ends();
    let (code, object) = &ends[2];
    assert_eq!(
        (*code, &object["outcome"]),
        (6, &json!("withheld")),
        "shares have left: {object}"
    );
    // Its log has not, and nobody has anything of it to open: shares alone tell nothing.
    assert_eq!(object["epsilon"], json!(0.0), "{object}");
    let reason = object["reason"].as_str().expect("a reason");
    assert!(reason.contains("a new plan costs nothing extra"), "{reason}");
    assert!(!parties.path("run-carol.npy").exists());
    let receipt = read_json(&parties.path("run-carol.receipt.json"));
    assert_eq!(
        (&receipt["execution"]["published"], &receipt["epsilon_opened"]),
        (&json!([]), &json!(0.0))
    );
    for (party, (code, object)) in ends.iter().enumerate().filter(|(party, _)| *party != 2) {
        assert_eq!(
            (*code, &object["departed"]),
            (5, &json!(["carol"])),
            "party {party}: {object}"
        );
        // One deadline of this plan is a minute.
        assert!(
            object["wall_s"].as_f64().is_some_and(|seconds| seconds < 30.0),
            "party {party} waited: {object}"
        );
    }
}

#[test]
fn who_cannot_write_its_mean_still_serves_the_others() {
    let lost = |party: usize, own: &str| {
        if party == 1 {
            "lost/mean.npy".to_owned()
        } else {
            own.to_owned()
        }
    };
    let parties = Parties::new(6);
    // The folder is there when the node looks for it, and gone when the run is over.
    std::fs::create_dir(parties.path("lost")).expect("a folder");
    let mut cluster = Cluster::of(parties, 6, lost);
    cluster.until(1, "round 1", |e| e["event"] == "round" && e["round"] == 1);
    std::fs::remove_dir(cluster.parties.path("lost")).expect("it is empty");
    let (parties, ends) = cluster.ends();
    let (code, object) = &ends[1];
    assert_eq!(
        (*code, &object["exit_code"], &object["finished"]),
        (2, &json!(2), &json!(0)),
        "{object}"
    );
    assert_eq!(object["agreed"], true, "{object}");
    let said = object["error"]["message"]
        .as_str()
        .expect("it says what happened");
    assert!(
        said.contains("lost/mean.npy") && said.contains("cannot be written"),
        "{said}"
    );
    assert!(
        parties.path("run-bob.receipt.json").exists(),
        "what can be written is"
    );
    let first = std::fs::read(parties.path("run-alice.npy")).expect("a mean");
    for (party, (code, object)) in ends.iter().enumerate().filter(|(party, _)| *party != 1) {
        assert_eq!(
            (*code, &object["outcome"]),
            (0, &json!("done")),
            "party {party}: {object}"
        );
        let name = &parties.names()[party];
        assert!(
            std::fs::read(parties.path(&format!("run-{name}.npy"))).expect("a mean") == first,
            "{name} holds other bits"
        );
    }
}

/// A cluster of five whose deadlines are a minute, in its third round; its nodes' process ids.
fn local(folder: &Path) -> (Running, Followed, Vec<i32>) {
    let line = "local --nodes 5 --dimension 10 --pace-ms 300 --round-ms 60000 --json";
    let (running, mut followed) = follow_in(folder, line.split(' '));
    let pids = followed.spawned(5).into_iter().map(|(_, pid)| pid).collect();
    followed.until("round 3", |e| e["event"] == "round" && e["round"] == 3);
    (running, followed, pids)
}

/// The exit code, and each node's.
fn codes(running: Running, followed: Followed) -> (i32, Vec<Value>) {
    followed.rest();
    let ended = running.wait();
    let object = ended.json();
    let codes = object["exit_codes"].as_object().expect("each node's code");
    (ended.code, codes.values().cloned().collect())
}

#[test]
fn a_cluster_that_gets_one_signal_leaves_in_an_orderly_way() {
    for how in [Signal::SIGINT, Signal::SIGTERM] {
        for group in [-1, 1] {
            let folder = tempfile::tempdir().expect("a folder");
            let (running, followed, _) = local(folder.path());
            // As a terminal or a supervisor tells the whole group, or somebody the one process.
            signal(group * running.pid(), how);
            let withheld = (6, vec![json!(6); 5]);
            assert_eq!(codes(running, followed), withheld, "{how}, {group}");
        }
    }
}

#[test]
fn a_node_that_gets_two_signals_counts_as_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (running, followed, pids) = local(folder.path());
    // Two of one kind might arrive as one.
    signal(pids[2], Signal::SIGINT);
    signal(pids[2], Signal::SIGTERM);
    let (code, codes) = codes(running, followed);
    assert_eq!((code, &codes[2]), (5, &json!(137)), "{codes:?}");
}

/// Names in a folder of files that are begun and not finished.
fn unfinished(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.contains(".tmp")).collect()
}

/// Told a second time at the very moment at which it writes its receipt, a node leaves that and its
/// signature, or neither, and nothing beside them.
#[test]
fn a_node_that_gets_two_signals_leaves_nothing_half_written() {
    let mut caught = 0;
    for _ in 0..8 {
        let mut cluster = Cluster::start(1);
        cluster.until(0, "gathering", |e| e["phase"] == "gathering");
        let (running, followed) = cluster.nodes.remove(0);
        let folder = cluster.parties.folder();
        signal(running.pid(), Signal::SIGTERM);
        let receipt = cluster.parties.path("run-alice.receipt.json");
        while unfinished(folder).is_empty() && !receipt.exists() {}
        caught += usize::from(signal_if_alive(running.pid(), Signal::SIGTERM) && !receipt.exists());
        followed.rest();
        let ended = running.wait();
        assert!([4, 143].contains(&ended.code), "{ended:?}");
        assert_eq!(unfinished(folder), [] as [&str; 0]);
        let signature = cluster.parties.path("run-alice.receipt.json.sig");
        assert_eq!(receipt.exists(), signature.exists(), "{ended:?}");
    }
    println!("told in the middle of it {caught} times of 8");
}

#[test]
fn a_cluster_that_gets_two_signals_ends_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (running, followed, pids) = local(folder.path());
    // Nodes that cannot leave.
    pids.iter().for_each(|&pid| signal(pid, Signal::SIGSTOP));
    signal(running.pid(), Signal::SIGINT);
    signal(running.pid(), Signal::SIGTERM);
    assert_eq!(codes(running, followed), (5, vec![json!(137); 5]));
}
