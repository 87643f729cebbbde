//! SIGHUP while a run goes on: peers, policy and budgets are read again, what may not change stays,
//! and nothing ends.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, Signal, alone, signal};

const RUN: &str = "version = 1\nname = \"reload\"\n[data]\nnoise_ok = true\nshape = [4]\n[privacy]\nepsilon = 1.0\n\
                   delta = 1e-6\n[run]\njoin_ms = 60000\n";

fn configuration(policy: f64, budget: f64, more: &str) -> String {
    format!(
        "[policy]\nmax_epsilon = {policy:?}\n[[data_set]]\nname = \"ward\"\nepsilon = {budget:?}\ndelta = 1e-6\n{more}"
    )
}

/// Writes the configuration anew, tells the daemon, and waits until it has read it; its status.
fn reload(parties: &Parties, daemon: &Daemon, configuration: &str, outcome: &str) -> Value {
    let line = format!("undertone_reloads_total{{outcome=\"{outcome}\"}} ");
    let count = || {
        let page = daemon.http.get("/metrics").text();
        let lines = page.lines();
        lines
            .filter_map(|found| found.strip_prefix(&line))
            .map(str::to_owned)
            .next()
    };
    let before = count().expect("it is counted from 0 on");
    Daemon::configure(parties, 0, configuration);
    signal(daemon.pid(), Signal::SIGHUP);
    // Nobody sends: it only paces the asking.
    let (_sender, pace) = channel::<()>();
    let begun = Instant::now();
    while count().as_ref() == Some(&before) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{outcome}: {configuration}"
        );
        let _ = pace.recv_timeout(Duration::from_millis(20));
    }
    daemon.http.get("/v1/status").json_of(200)
}

fn budget(status: &Value) -> f64 {
    status["budgets"][0]["epsilon"].as_f64().expect("a budget")
}

#[test]
fn a_daemon_reads_its_configuration_again_and_runs_go_on() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write_inputs(&[4]);
    let going = parties.plan("going", &RUN.replace("epsilon = 1.0", "epsilon = 0.5"));
    parties.plan("plan", RUN);
    let daemon = Daemon::start(&parties, 0, &configuration(0.5, 0.6, ""));
    let submit = |plan: &str| daemon.client(["submit", plan, "--input", "alice.npy"]);
    submit("going.json").json_of(0);
    // Policy first, then the budget, is in the way.
    submit("plan.json").refused(3, "max_epsilon");
    let status = reload(&parties, &daemon, &configuration(1.0, 0.7, ""), "done");
    assert_eq!(budget(&status), 0.7);
    submit("plan.json").refused(6, "ward");
    // A peer more, one less, and one that moved.
    let erin = parties.new_identity("erin");
    let peers = parties.peer_list();
    let without_dave = peers.rsplit_once("[[peer]]").expect("four of them").0;
    let moved = without_dave.replace(&format!("/tcp/{}\"", parties.ports(1)[0]), "/tcp/9\"");
    parties.write("peers.toml", &format!("{moved}{erin}"));
    let status = reload(&parties, &daemon, &configuration(1.0, 3.0, ""), "done");
    let peers = status["peers"].as_array().expect("peers");
    let names: Vec<_> = peers.iter().filter_map(|peer| peer["name"].as_str()).collect();
    assert_eq!(names, ["bob", "carol", "erin"]);
    let bobs = peers[0]["private"]["address"].as_str().expect("an address");
    assert!(bobs.ends_with("/tcp/9"), "{bobs}");
    parties.write("peers.toml", &parties.peer_list());
    // What may not change changes nothing, though all else of the file would be fine.
    for wrong in [
        configuration(2.0, 2.9, ""),
        configuration(2.0, 3.0, "file = \"ward.npy\"\n"),
        configuration(2.0, 3.0, "").replace("ward", "wards"),
        configuration(2.0, 3.0, "").replace("[policy]", "[policy]\nmax_runs = 3"),
        "nonsense".to_owned(),
    ] {
        let status = reload(&parties, &daemon, &wrong, "refused");
        assert_eq!(
            (budget(&status), &status["peers"][2]["name"]),
            (3.0, &"erin".into())
        );
    }
    let status = reload(&parties, &daemon, &configuration(1.0, 4.0, ""), "done");
    assert_eq!(budget(&status), 4.0);
    assert_eq!(status["peers"][2]["name"], "dave");
    assert_eq!(status["runs"][0]["digest"], going.as_str());
    assert_eq!(status["runs"][0]["state"], "gathering", "{status:#}");
    submit("plan.json").json_of(0);
    daemon.client(["withdraw", &going]).json_of(0);
    newest_alone(&daemon);
    let ended = daemon.end().0;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for reported in [
        "smaller epsilon",
        "another file",
        "is gone",
        "max_runs",
        "stays as it was",
    ] {
        assert!(ended.stderr.contains(reported), "{reported}: {}", ended.stderr);
    }
}

/// One of two runs is over: a limit leaves out that one only.
fn newest_alone(daemon: &Daemon) {
    let shown = |limit: &str| {
        let status = daemon.client(["status", "--limit", limit]).json_of(0);
        status["runs"].as_array().expect("runs").len()
    };
    assert_eq!((shown("0"), shown("1"), shown("9")), (1, 2, 2));
    let listed = daemon.http.get("/v1/runs?limit=0").json_of(200);
    assert_eq!(listed["runs"].as_array().expect("runs").len(), 1);
    daemon.http.get("/v1/status?limit=few").refused(400, "limit");
}
