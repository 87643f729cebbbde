//! The ledger of a daemon in whole runs: a charge that cannot be written lets nothing leave, and a
//! run that turned out dearer than its claim is charged with what it turned out to cost.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, Running, left_out};

const RUN: &str = "version = 1\nname = \"budget\"\n[run]\njoin_ms = 60000\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 3.0\ndelta = 1e-5\n";

/// Daemons of all parties, each with its vector as ward.npy in its data folder; `start` starts one.
fn daemons(parties: &Parties, dimension: usize, start: impl Fn(usize) -> Daemon) -> Vec<Daemon> {
    parties.write_inputs(&[dimension]);
    let one = |(party, name): (usize, &String)| {
        Daemon::configure(parties, party, WARD);
        std::fs::copy(
            parties.path(&format!("{name}.npy")),
            parties.path(&format!("{name}.data/ward.npy")),
        )
        .expect("writable");
        start(party)
    };
    parties.names().iter().enumerate().map(one).collect()
}

fn submit(daemon: &Daemon, plan: &Path) {
    let plan = std::fs::read(plan).expect("a plan");
    daemon.submit(&plan, "data_file=ward.npy", None).json_of(201);
}

/// The run, once it is over.
fn ended(daemon: &Daemon, digest: &str) -> Value {
    daemon
        .http
        .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
    daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200)
}

fn budget(daemon: &Daemon) -> Value {
    daemon.http.get("/v1/status").json_of(200)["budgets"][0].clone()
}

/// No file of this process may grow beyond `bytes` from now on: to it that is a disk that is full,
/// and needs no disk of its own.
fn limit_files(pid: i32, bytes: &str) {
    let limited = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:")])
        .output()
        .expect("prlimit");
    assert!(
        limited.status.success(),
        "{}",
        String::from_utf8_lossy(&limited.stderr)
    );
}

/// A daemon that a file at its limit does not end: writing fails instead.
fn survives_full_files(parties: &Parties, party: usize) -> Daemon {
    let script = format!(
        "trap '' XFSZ; exec \"$0\" node --config {}.node.toml",
        parties.names()[party]
    );
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .arg(undertone_tests::undertone())
        .current_dir(parties.folder());
    Daemon::follow(parties, party, Running::start(command, None))
}

/// The run was refused for its charge, and not even one share left.
fn assert_uncharged(refused: &Value, share: u64) {
    assert_eq!(
        (&refused["exit_code"], &refused["charged"]),
        (&6.into(), &Value::Null),
        "{refused}"
    );
    let reason = refused["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("the charge cannot be written") && reason.contains("ledger"),
        "{refused}"
    );
    assert!(
        refused["private_bytes"].as_u64() < Some(share),
        "a share of {share} bytes left: {refused}"
    );
}

#[test]
fn a_charge_that_does_not_fit_on_the_disk_lets_no_share_leave_and_the_daemon_goes_on() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        return left_out("a full disk at the charge", "there is no prlimit (util-linux)");
    }
    let parties = Parties::new(4);
    // One share is longer than all handshakes together.
    let dimension = 20_000;
    let run = format!("{RUN}[data]\nnoise_ok = true\nshape = [{dimension}]\n");
    let digests = ["first", "second"].map(|name| parties.plan(name, &run));
    let daemons = daemons(&parties, dimension, |party| survives_full_files(&parties, party));
    let (alice, others) = daemons.split_first().expect("four");
    let ledger = parties.path("alice.state/ledger");
    let before = std::fs::read(&ledger).expect("a ledger");
    submit(alice, &parties.path("first.json"));
    // It has taken room for its result.
    let gathering = |event: &Value| event["phase"] == "gathering";
    let events = format!("/v1/runs/{}/events", digests[0]);
    alice.http.events(&events, &[], gathering);
    // Room for a part of the line: what was written of it is taken back.
    limit_files(alice.pid(), &(before.len() + 30).to_string());
    others
        .iter()
        .for_each(|daemon| submit(daemon, &parties.path("first.json")));

    let share = dimension as u64 * wire_bytes(&parties.path("first.json"));
    assert_uncharged(&ended(alice, &digests[0]), share);
    for daemon in others {
        let run = ended(daemon, &digests[0]);
        assert_eq!(
            (&run["outcome"], &run["included"]),
            (&"degraded".into(), &json!(["bob", "carol", "dave"])),
            "{run}"
        );
    }
    assert_eq!(
        std::fs::read(&ledger).expect("a ledger"),
        before,
        "nothing was charged, and no half of a line is left"
    );
    let marks = std::fs::read_to_string(parties.path("alice.key.spent/marks")).unwrap_or_default();
    assert!(!marks.contains(&digests[0]), "{marks}");
    alice.until_unready().refused(503, "cannot be written");
    let spent = budget(alice);
    assert_eq!(
        (&spent["runs"], &spent["reserved_mu_squared"]),
        (&0.into(), &0.0.into()),
        "{spent}"
    );

    limit_files(alice.pid(), "unlimited");
    alice.until_ready();
    daemons
        .iter()
        .for_each(|daemon| submit(daemon, &parties.path("second.json")));
    for daemon in &daemons {
        let run = ended(daemon, &digests[1]);
        assert_eq!(
            (&run["outcome"], run["charged"].as_f64() > Some(0.0)),
            (&"done".into(), true),
            "{run}"
        );
    }
    assert_eq!(budget(alice)["runs"], 1);
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

fn wire_bytes(plan: &Path) -> u64 {
    undertone_tests::read_json(plan)["mechanism"]["wire_bytes"]
        .as_u64()
        .expect("bytes a coordinate")
}

/// After twelve rounds a party that two others have left withholds. It does not know what they
/// published: it states the plan's budget, of which the claim is short by a millionth.
#[test]
fn a_withheld_run_costs_no_more_than_its_claim_and_stays_charged() {
    let parties = Parties::new(4);
    let run = format!(
        "{RUN}round_ms = 1000\nsettle_ms = 2000\npace_ms = 300\n[data]\nnoise_ok = true\nshape = [8]\n[mechanism]\nrounds = 12\n"
    );
    let digest = parties.plan("plan", &run);
    let mut daemons = daemons(&parties, 8, |party| Daemon::start(&parties, party, WARD));
    daemons
        .iter()
        .for_each(|daemon| submit(daemon, &parties.path("plan.json")));
    let alice = daemons.remove(0);
    // Nine rounds of the pace are left for the two kills.
    let path = format!("/v1/runs/{digest}/events");
    alice.http.events(&path, &[], |event| {
        event["event"] == "round" && event["round"] == 3
    });
    let charged = alice.http.get(&format!("/v1/runs/{digest}")).json_of(200)["charged"]
        .as_f64()
        .expect("charged by now");
    daemons.drain(1..).for_each(|daemon| drop(daemon.kill()));

    let run = ended(&alice, &digest);
    assert_eq!(
        (&run["outcome"], &run["exit_code"]),
        (&"withheld".into(), &6.into()),
        "{run}"
    );
    let receipt = alice.http.get(&format!("/v1/runs/{digest}/receipt")).json_of(200);
    let mu = receipt["mu"].as_f64().expect("what has left has a loss");
    // Shares have left, and the claim is about whatever may become of them.
    assert!(
        mu > 0.0 && mu * mu <= charged * (1.0 + 1e-5),
        "{mu}² and {charged}"
    );
    let raised = run["charged"].as_f64().expect("charged");
    assert!(
        (charged..=charged * (1.0 + 1e-5)).contains(&raised),
        "{raised} after {charged}"
    );
    let (epsilon, claimed) = (run["epsilon"].as_f64(), run["epsilon_claimed"].as_f64());
    assert!(
        epsilon > Some(0.0) && epsilon <= claimed.map(|claimed| claimed * (1.0 + 1e-5)),
        "{run}"
    );
    let spent = budget(&alice);
    let difference = spent["mu_squared"].as_f64().expect("spent") - raised;
    assert!(difference.abs() <= 1e-12 * raised, "{spent} for {raised}");
    assert_eq!(alice.end().0.code, 0);
    let again = Daemon::start(&parties, 0, WARD);
    assert_eq!(budget(&again), spent, "the same after a restart");
}

const ROWS: &str =
    "[[data_set]]\nname = \"ward\"\nfile = \"ward.csv\"\nunit = \"record\"\nepsilon = 3.0\ndelta = 1e-5\n";

const TRAINING: &str = "version = 1\ntask = \"regression\"\nname = \"risk\"\n[data]\nshape = [3]\nrecords = 200\nnoise_ok = true\n[model]\n\
                        loss = \"logistic\"\niterations = 4000\n[privacy]\nepsilon = 2.0\ndelta = 1e-5\n[run]\niteration_ms = 3000\n";

/// Waits until a daemon has opened iteration `k` of a training.
fn until_iteration(daemon: &Daemon, digest: &str, k: u64) {
    let reached = |event: &Value| event["event"] == "iteration" && event["k"].as_u64() >= Some(k);
    let path = format!("/v1/runs/{digest}/events");
    daemon.http.events(&path, &[], reached);
}

/// The daemons of five parties with 200 rows each, and a training that they have all been given.
fn five_in_a_training(parties: &Parties) -> (Vec<Daemon>, String) {
    let digest = parties.plan("plan", TRAINING);
    let row = |at: usize| format!("{},{},{}\n", at % 7, at % 5, usize::from(at % 7 > 3));
    let table: String = (0..200).map(row).collect();
    let one = |(party, name): (usize, &String)| {
        let daemon = Daemon::start(parties, party, ROWS);
        parties.write(&format!("{name}.data/ward.csv"), &table);
        let plan = std::fs::read(parties.path("plan.json")).expect("a plan");
        daemon.submit(&plan, "data_file=ward.csv", None).json_of(201);
        daemon
    };
    (parties.names().iter().enumerate().map(one).collect(), digest)
}

/// Five daemons train. What each has on its disk is never less than has left: a crash costs the
/// iterations that are charged ahead, and an end before the last iteration gives the rest back.
#[test]
fn a_training_is_charged_as_it_goes() {
    let parties = Parties::new(5);
    let (mut daemons, digest) = five_in_a_training(&parties);
    let alice = daemons.remove(0);
    let (bob, carol) = (daemons.remove(0), daemons.remove(0));
    until_iteration(&bob, &digest, 25);
    bob.kill();
    until_iteration(&alice, &digest, 60);
    let running = budget(&alice);
    // One more than may leave: all stop, with the model so far.
    carol.kill();
    let run = ended(&alice, &digest);
    assert_eq!(
        (&run["outcome"], &run["exit_code"]),
        (&"degraded".into(), &5.into()),
        "{run}"
    );
    let plan = undertone_tests::read_json(&parties.path("plan.json"));
    let claims = plan["claims"].as_array().expect("claims").iter();
    let headline = claims.filter(|claim| claim["holds_as_headline"] == true);
    let mu = headline
        .filter_map(|claim| claim["mu"].as_f64())
        .fold(0.0, f64::max);
    let iterations_of = |mu_squared: &Value| mu_squared.as_f64().expect("charged") / (mu * mu) * 4000.0;
    let whole = iterations_of(&running["mu_squared"]) + iterations_of(&running["reserved_mu_squared"]);
    assert!((whole - 4000.0).abs() < 1e-3, "{running}");
    let receipt = alice.http.get(&format!("/v1/runs/{digest}/receipt")).json_of(200);
    let spent = receipt["iterations"]["spent"].as_f64().expect("a number");
    let charged = iterations_of(&run["charged"]);
    assert!(
        (60.0..4000.0).contains(&spent) && (charged - spent).abs() < 1e-3,
        "{charged} for {spent}"
    );
    let after = budget(&alice);
    assert!(
        (iterations_of(&after["mu_squared"]) - spent).abs() < 1e-3,
        "{after}"
    );
    assert_eq!(after["reserved_mu_squared"], 0.0, "the rest is free again");
    let model = alice.http.get(&format!("/v1/runs/{digest}/result"));
    assert_eq!(model.status, 200, "{}", model.text());
    // Whoever was killed has spent what is on disk: no less than left, in tens.
    let again = Daemon::start(&parties, 1, ROWS);
    let on_disk = iterations_of(&budget(&again)["mu_squared"]);
    let tens = (on_disk / 10.0).round();
    assert!(
        (3.0..400.0).contains(&tens) && (on_disk - 10.0 * tens).abs() < 1e-3,
        "{on_disk}"
    );
    for daemon in daemons.into_iter().chain([alice, again]) {
        assert_eq!(daemon.end().0.code, 0);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", from.display());
}

/// A state folder of before the last run comes back from a backup: what that run cost is beside the
/// key.
#[test]
fn a_state_folder_from_a_backup_is_refused_until_it_has_adopted_what_was_spent_since() {
    let parties = Parties::new(3);
    let run = format!("{RUN}[data]\nnoise_ok = true\nshape = [8]\n");
    let digests = ["first", "second"].map(|name| parties.plan(name, &run));
    let start = |party| Daemon::start(&parties, party, WARD);
    let mut daemons = daemons(&parties, 8, start);
    let (state, backup) = (parties.path("alice.state"), parties.path("backup"));
    let mut charged = vec![];
    for (plan, digest) in ["first.json", "second.json"].iter().zip(&digests) {
        daemons
            .iter()
            .for_each(|daemon| submit(daemon, &parties.path(plan)));
        for daemon in &daemons {
            assert_eq!(ended(daemon, digest)["outcome"], "done");
        }
        charged.push(budget(&daemons[0]));
        if !backup.exists() {
            assert_eq!(daemons.remove(0).end().0.code, 0);
            copy_folder(&state, &backup);
            daemons.insert(0, start(0));
        }
    }
    assert_eq!((&charged[0]["runs"], &charged[1]["runs"]), (&1.into(), &2.into()));
    let node = ["node", "--config", "alice.node.toml", "--json"];
    let adopt = ["ledger", "adopt", "--config", "alice.node.toml", "--json"];
    parties.run(adopt).refused(2, "in use");
    assert_eq!(daemons.remove(0).end().0.code, 0);
    assert_eq!(parties.run(adopt).json_of(0)["adopted"], json!([]));

    std::fs::remove_dir_all(&state).expect("it was there");
    copy_folder(&backup, &state);
    let refusal = parties.run(node).refused_at(2, "state").to_string();
    assert!(
        refusal.contains(&digests[1]) && refusal.contains("undertone ledger adopt"),
        "{refusal}"
    );
    let adopted = parties.run(adopt).json_of(0);
    assert_eq!(adopted["adopted"][0]["digest"], digests[1], "{adopted}");
    assert_eq!(adopted["adopted"].as_array().map(Vec::len), Some(1), "{adopted}");
    let alice = start(0);
    let spent = budget(&alice);
    for key in ["runs", "mu_squared", "epsilon_spent", "runs_left"] {
        assert_eq!(spent[key], charged[1][key], "{key}");
    }
    for daemon in daemons.into_iter().chain([alice]) {
        assert_eq!(daemon.end().0.code, 0);
    }
}
