//! Before START: parties that are not there, that leave again, that stop; and one key for one run
//! of a plan, whoever takes part with it.

use std::net::TcpListener;
use std::time::Instant;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Followed, Parties, Running, Signal, follow_in, run_in, signal, start_in};

/// `join_ms` is so long that whoever waits for it fails by the harness's watchdog.
const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"starting\"\n[data]\nnoise_ok = true\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 600000\n";

/// An unreachable party is waited for no longer than where daemons propose.
const GRACE: &str = "grace_ms = 2000\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 3.0\ndelta = 1e-5\n";

/// Daemons that accept whatever alice proposes.
fn daemons(parties: &Parties) -> Vec<Daemon> {
    parties.write_inputs(&[8]);
    let id = |name: &String| {
        parties
            .run(["identity", "show", &format!("{name}.key"), "--json"])
            .json_of(0)["id"]
            .to_string()
    };
    let ids: Vec<String> = parties.names().iter().map(id).collect();
    let policy = format!("[policy]\nmax_epsilon = 1.0\nvouched = [{}]\n", ids.join(", "));
    let rule = format!("{policy}{WARD}[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"ward\"\n");
    let start = |(party, name): (usize, &String)| {
        Daemon::configure(parties, party, "");
        let data = parties.path(&format!("{name}.data/ward.npy"));
        std::fs::copy(parties.path(&format!("{name}.npy")), data).expect("writable");
        Daemon::start(parties, party, &rule)
    };
    parties.names().iter().enumerate().map(start).collect()
}

/// The last word about whom a party's run waits for.
fn waits_for(daemon: &Daemon, digest: &str, names: &Value) {
    let seen = daemon
        .http
        .events(&format!("/v1/runs/{digest}/events"), &[], |event| {
            event["waiting_for"] == *names
        });
    assert!(
        seen.iter().any(|(.., event)| event["waiting_for"] == *names),
        "{names}: {seen:?}"
    );
}

#[test]
fn one_dead_daemon_of_five_costs_seconds() {
    let parties = Parties::new(5);
    let mut daemons = daemons(&parties);
    parties.write("run.toml", RUN);
    daemons.remove(4).kill();
    let begun = Instant::now();
    let submitted = daemons[0].client(["submit", "--propose", "run.toml", "--data-set", "ward", "--wait"]);
    let took = begun.elapsed().as_secs_f64();
    let object = submitted.json_of(5);
    assert_eq!(object["outcome"], "degraded", "{object}");
    assert_eq!(
        object["included"],
        json!(["alice", "bob", "carol", "dave"]),
        "{object}"
    );
    // It takes seconds; whoever waited for it would take `join_ms`.
    assert!(took < 60.0, "{took} s");
}

#[test]
fn who_withdraws_before_the_start_is_started_without() {
    let parties = Parties::new(5);
    let daemons = daemons(&parties);
    let digest = parties.plan("plan", &format!("{RUN}{GRACE}"));
    let plan = std::fs::read(parties.path("plan.json")).expect("a plan");
    let submit = |daemon: &Daemon| {
        daemon.submit(&plan, "data_file=ward.npy", None).json_of(201);
    };
    daemons[..4].iter().for_each(submit);
    waits_for(&daemons[0], &digest, &json!("erin"));
    let status = daemons[0].client(["status", &digest]);
    assert_eq!(status.json_of(0)["waiting_for"], json!(["erin"]));
    // It stays a daemon that answers: its own word has to do.
    daemons[3].client(["withdraw", &digest]).json_of(0);
    waits_for(&daemons[0], &digest, &json!("dave, erin"));
    submit(&daemons[4]);
    for daemon in daemons.iter().filter(|daemon| daemon.name != "dave") {
        let object = daemon.client(["watch", &digest]).json_of(5);
        assert_eq!(
            object["included"],
            json!(["alice", "bob", "carol", "erin"]),
            "{object}"
        );
    }
}

/// Processes of the plan's first parties; each is followed.
struct Joined {
    parties: Parties,
    nodes: Vec<(Running, Followed)>,
}

impl Joined {
    /// Four of five join, and wait for nobody but the other. `grace`: a line of the run file, how
    /// long those who are there wait for somebody who refuses.
    fn of_five(grace: &str) -> Self {
        Joined::of(5, 4, grace)
    }

    /// The first so many of these parties join.
    fn of(parties: usize, joining: usize, grace: &str) -> Self {
        let parties = Parties::new(parties);
        parties.write_inputs(&[8]);
        parties.plan("plan", &format!("{RUN}{grace}"));
        let mut joined = Joined {
            parties,
            nodes: vec![],
        };
        (0..joining).for_each(|party| joined.add(party));
        let others = joined.parties.names()[joining..].join(", ");
        joined.wait_for(&others);
        joined
    }

    /// Until each of those who have joined waits for these.
    fn wait_for(&mut self, names: &str) {
        for (_, followed) in &mut self.nodes {
            followed.until(names, |event| event["waiting_for"] == names);
        }
    }

    fn add(&mut self, party: usize) {
        let node = follow_in(self.parties.folder(), self.parties.join("plan", party));
        self.nodes.push(node);
    }

    fn ends(self) -> Vec<(i32, Value)> {
        let end = |(running, followed): (Running, Followed)| {
            followed.rest();
            let ended = running.wait();
            (ended.code, ended.json())
        };
        self.nodes.into_iter().map(end).collect()
    }
}

#[test]
fn who_was_ready_and_leaves_is_started_without() {
    for how in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut joined = Joined::of_five(GRACE);
        let (leaver, _) = joined.nodes.remove(3);
        signal(leaver.pid(), how);
        leaver.wait();
        joined.add(4);
        for (code, object) in joined.ends() {
            assert_eq!(code, 5, "{how}: {object}");
            assert_eq!(object["departed"], json!(["dave"]), "{how}: {object}");
        }
    }
}

#[test]
fn one_of_six_that_is_stopped_before_the_start_costs_the_others_seconds() {
    let mut joined = Joined::of(6, 5, GRACE);
    let (stopped, _) = joined.nodes.remove(3);
    // It was ready, and says nothing more: the others sign a START with it, and then one without.
    signal(stopped.pid(), Signal::SIGSTOP);
    let begun = Instant::now();
    joined.add(5);
    for (code, object) in joined.ends() {
        assert_eq!(code, 5, "{object}");
        assert_eq!(object["departed"], json!(["dave"]), "{object}");
    }
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    signal(stopped.pid(), Signal::SIGKILL);
    stopped.wait();
}

/// A stopped machine: its system takes connections, and nobody answers on them.
#[test]
fn for_whom_nothing_answers_costs_the_grace_and_is_named() {
    let parties = Parties::new(5);
    parties.write_inputs(&[8]);
    // Long enough for each of the four to find it out itself, however slowly its process runs.
    parties.plan("plan", &format!("{RUN}grace_ms = 8000\n"));
    let places: Vec<String> = parties.lines()[4]
        .lines()
        .filter_map(|line| {
            let address = line.split_once("/ip4/")?.1.trim_end_matches('"');
            Some(address.replace("/tcp/", ":"))
        })
        .collect();
    let _stopped: Vec<TcpListener> = places
        .iter()
        .map(|place| TcpListener::bind(place).expect("erin's ports are free"))
        .collect();
    let begun = Instant::now();
    let nodes: Vec<Running> = (0..4)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    for node in nodes {
        let ended = node.wait();
        let object = ended.json_of(5);
        assert_eq!(object["departed"], json!(["erin"]), "{object}");
        for said in [
            "erin: nothing answers at 127.0.0.1:",
            "`undertone doctor` says more",
            "the run begins without some parties: nothing answers at its address: erin",
        ] {
            assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
        }
    }
    // Some seconds; whoever waited for it would take `join_ms`.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn who_was_ready_and_starts_again_takes_part() {
    // Nobody is to start without erin while dave comes back, however slowly.
    let mut joined = Joined::of_five("grace_ms = 600000\n");
    let (leaver, _) = joined.nodes.remove(3);
    signal(leaver.pid(), Signal::SIGKILL);
    leaver.wait();
    // Who has not noticed may still start with the process that is gone. From here on both come as
    // they like.
    joined.wait_for("dave, erin");
    joined.add(3);
    joined.add(4);
    for (code, object) in joined.ends() {
        assert_eq!((code, &object["outcome"]), (0, &json!("done")), "{object}");
    }
}

#[test]
fn a_plan_is_spent_once_by_its_key_whoever_runs_it() {
    let parties = Parties::new(4);
    parties.write_inputs(&[8]);
    let digest = parties.plan("plan", RUN);
    let nodes: Vec<(Running, Followed)> = (0..4)
        .map(|party| follow_in(parties.folder(), parties.join("plan", party)))
        .collect();
    for (running, followed) in nodes {
        followed.rest();
        running.wait().json_of(0);
    }
    let marks = std::fs::read_to_string(parties.path("alice.key.spent/marks")).expect("beside the key");
    assert!(marks.contains(&digest), "{marks}");
    // Another state folder, then the daemon: each knows.
    let mut again = parties.join("plan", 0);
    again.extend(["--state".to_owned(), "elsewhere".to_owned()]);
    run_in(parties.folder(), &again).refused(6, "");
    let alice = Daemon::start(&parties, 0, "");
    alice
        .client(["submit", "plan.json", "--input", "alice.npy"])
        .refused(6, "");
    // While it has the key, nobody joins beside it.
    parties.plan("fresh", RUN);
    let refused = run_in(parties.folder(), parties.join("fresh", 0)).refused_at(2, "--identity");
    assert!(refused.to_string().contains("undertone submit"), "{refused}");
}

#[test]
fn a_node_that_is_stopped_for_good_is_killed_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = "name = \"stopped\"\n[data]\nnoise_ok = true\nshape = [8]\n[run]\njoin_ms = 5000\nround_ms = 1000\nsettle_ms = 2000\npace_ms = 200\n";
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = "local --nodes 5 --dimension 8 --run run.toml --json";
    let (running, mut followed) = follow_in(folder.path(), line.split(' '));
    let pids = followed.spawned(5);
    followed.until("round 2", |e| e["event"] == "round" && e["round"] == 2);
    signal(pids[2].1, Signal::SIGSTOP);
    followed.rest();
    let ended = running.wait();
    let object = ended.json();
    assert_eq!(
        (ended.code, &object["exit_codes"]["party-2"]),
        (5, &json!(137)),
        "{object}"
    );
    assert_eq!(object["finished"], 4, "{object}");
}
