//! `doctor` against real nodes: it lets a good testnet pass without disturbing it, and says what is
//! wrong with a bad one.

use serde_json::Value;
use undertone_tests::ports::Ports;
use undertone_tests::{Followed, Parties, Running, Signal, alone, follow_in, signal};

const RUN: &str = "version = 1\nname = \"examined\"\n[data]\nnoise_ok = true\nshape = [1000]\n[mechanism]\nrounds = 4\n[run]\njoin_ms = 60000\n";

/// Lets these parties join and wait for the others.
fn gather(parties: &Parties, who: std::ops::Range<usize>) -> Vec<(Running, Followed)> {
    let wait = |party| {
        let (running, mut events) = follow_in(parties.folder(), parties.join("plan", party));
        events.until("gathering", |e| {
            e["event"] == "phase" && e["phase"] == "gathering"
        });
        (running, events)
    };
    who.map(wait).collect()
}

fn texts(object: &Value) -> Vec<&str> {
    object
        .as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("a sentence"))
        .collect()
}

#[test]
fn a_good_testnet_passes_and_its_run_goes_on() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write_inputs(&[1000]);
    parties.plan("plan", RUN);
    let mut nodes = gather(&parties, 0..3);
    let object = parties
        .run(["doctor", "plan.json", "--identity", "dave.key", "--json"])
        .json_of(0);
    assert_eq!(
        (texts(&object["problems"]), texts(&object["notes"])),
        (vec![], vec![]),
        "{object}"
    );
    let peers = object["peers"].as_array().expect("a list");
    assert_eq!(peers.len(), 6, "three neighbours on two graphs");
    for peer in peers {
        assert_eq!(peer["plan"], "running", "{peer}");
        for (key, most) in [("rtt_ms", 3000.0), ("bytes_per_s", 1e12)] {
            assert!(
                peer[key]
                    .as_f64()
                    .is_some_and(|value| value > 0.0 && value < most),
                "{peer}"
            );
        }
        assert!(
            peer["clock_ms"].as_f64().is_some_and(|ms| ms.abs() < 3000.0),
            "it is the same clock: {peer}"
        );
    }
    for key in ["round_ms", "settle_ms"] {
        let found = &object[key];
        assert!(found["proposed"].as_f64() > found["needed"].as_f64(), "{found}");
        assert!(found["planned"].as_f64() > found["needed"].as_f64(), "{found}");
    }
    nodes.extend(gather(&parties, 3..4));
    for (running, _) in nodes {
        running.wait().json_of(0);
    }
}

#[test]
fn each_fault_is_named_with_what_to_do() {
    let _alone = alone();
    let parties = Parties::new(5);
    parties.write_inputs(&[1000]);
    parties.plan("plan", RUN);
    let nodes = gather(&parties, 0..4);
    // The doctor's plan: alice as she is (but she runs the other plan), bob at a wrong port,
    // carol's addresses swapped, dave under another id.
    let stranger = parties.new_identity("stranger");
    let id = |lines: &str| {
        lines
            .lines()
            .find(|line| line.starts_with("id"))
            .expect("an id")
            .to_owned()
    };
    let nowhere = Ports::hold(1);
    let mut lines = parties.lines().to_vec();
    lines[1] = lines[1].replace(
        &format!("/tcp/{}\"", parties.ports(1)[0]),
        &format!("/tcp/{}\"", nowhere[0]),
    );
    lines[2] = lines[2]
        .replace("private =", "swapped =")
        .replace("public =", "private =")
        .replace("swapped =", "public =");
    lines[3] = lines[3].replace(&id(&lines[3]), &id(&stranger));
    parties.write("peers.toml", &format!("version = 1\n{}", lines.concat()));
    parties.plan("bad", RUN);
    let ended = parties.run(["doctor", "bad.json", "--identity", "erin.key", "--json"]);
    for (running, _) in &nodes {
        signal(running.pid(), Signal::SIGKILL);
    }
    let object = ended.json_of(4);
    let problems = texts(&object["problems"]);
    let names = |needles: &[&str]| {
        problems
            .iter()
            .any(|text| needles.iter().all(|needle| text.contains(needle)))
    };
    assert!(
        names(&["alice runs another plan", "agree on one file"]),
        "{problems:#?}"
    );
    assert!(
        names(&[
            "bob refuses connections",
            &nowhere[0].to_string(),
            "correct the port"
        ]),
        "{problems:#?}"
    );
    assert!(
        names(&["addresses of carol are swapped", "exchange them"]),
        "{problems:#?}"
    );
    for graph in ["private", "public"] {
        assert!(
            names(&["answers at", graph, "not dave", "correct the id"]),
            "{problems:#?}"
        );
    }
}
