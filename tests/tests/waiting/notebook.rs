//! Five labs on hosts of their own that train by the notebook of the Python package, as the guide's
//! page has it; one kernel is restarted, and one lab dies.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::documents::block::{Block, Mark};
use undertone_tests::journey::{Journey, blocks_where};
use undertone_tests::python::{environment_with_wheel, python};
use undertone_tests::testnet::possible;
use undertone_tests::{Running, Signal, alone, digits, left_out, read_json, signal};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

/// The page's blocks, in order.
fn steps() -> Vec<String> {
    let of_this = |block: &Block| match &block.mark {
        Some(Mark::NotRun(reason)) => reason.contains("notebook.rs runs it"),
        _ => false,
    };
    blocks_where("api.md", of_this)
}

/// A step of the page as a lab does it: with its name and its address.
fn own(labs: &Journey, lab: usize, step: &str) -> String {
    let [at, _] = labs.net.listeners(lab);
    let step = step.replace("/dns/alice.example/tcp/7001", &at);
    step.replace("alice", NAMES[lab])
}

/// All labs have keys, a plan, tables and daemons that are ready.
fn started(labs: &Journey) -> Vec<Daemon> {
    let [key, plan, configure, node] = steps().try_into().expect("four steps");
    for (lab, name) in NAMES.iter().enumerate() {
        labs.done(lab, &own(labs, lab, &key));
        labs.mail(lab, [0], &[&format!("{name}.lines")]);
    }
    labs.done(0, &plan);
    labs.mail(0, 1..NAMES.len(), &["peers.toml", "plan.json"]);
    let rows = digits::all();
    let daemon = |lab: usize| {
        let own_rows: Vec<&str> = rows.iter().skip(lab).step_by(12).map(String::as_str).collect();
        let folder = labs.folder(lab);
        let table = folder.join(format!("{}.csv", NAMES[lab]));
        std::fs::write(table, own_rows.join("\n") + "\n").expect("writable");
        labs.done(lab, &own(labs, lab, &configure));
        let running = labs.start(lab, &format!("exec {}", own(labs, lab, &node)));
        Daemon::of(running, NAMES[lab], &folder, &folder.join("state"))
    };
    (0..NAMES.len()).map(daemon).collect()
}

/// The notebook in a kernel of a lab.
fn kernel(labs: &Journey, lab: usize, python: &Path) -> Running {
    let mut kernel = labs.net.command(lab, python);
    kernel
        .args(["-W", "error"])
        .arg(top().join("tests/python/notebook.py"))
        .arg(top().join("node/python/examples/labs.ipynb"))
        .env("LAB", NAMES[lab])
        .current_dir(labs.folder(lab));
    Running::start(kernel, None)
}

/// Waits until a run has this many means; the run.
fn until(daemon: &Daemon, digest: &str, means: u64) -> Value {
    // Nobody sends: it only paces the asking.
    let (_sender, pace) = channel::<()>();
    loop {
        let run = daemon.http.get(&format!("/v1/runs/{digest}"));
        if run.status == 200 {
            let run = run.json();
            let over = ["ended", "interrupted"]
                .iter()
                .any(|state| run["state"] == *state);
            if over || run["iteration"].as_u64().is_some_and(|known| known >= means) {
                return run;
            }
        }
        let _ = pace.recv_timeout(Duration::from_millis(20));
    }
}

#[test]
fn labs_train_by_a_notebook_although_a_kernel_restarts_and_a_lab_dies() {
    let Some(python) = python() else {
        return left_out("labs", "no Python with ensurepip, numpy and pandas");
    };
    if let Err(missing) = possible() {
        return left_out("labs", &missing);
    }
    let _alone = alone();
    let labs = Journey::new(&NAMES);
    let environment = tempfile::tempdir().expect("a folder");
    let python = environment_with_wheel(&python, environment.path());
    let mut daemons = started(&labs);
    let verified = labs.done(0, "undertone verify plan.json --json").json();
    let digest = verified["digest"].as_str().expect("a digest");
    let begin = |lab: usize| kernel(&labs, lab, &python);
    let mut kernels: Vec<Running> = (0..NAMES.len()).map(begin).collect();
    // The second lab's kernel is killed after round 5, and comes back to the session.
    until(&daemons[0], digest, 5);
    signal(kernels[1].pid(), Signal::SIGKILL);
    kernels.remove(1).wait();
    kernels.insert(1, begin(1));
    // The last lab dies in round 10, with its daemon.
    let run = until(&daemons[0], digest, 10);
    assert!(run["iteration"].as_u64() < Some(20), "{run}");
    daemons.pop().expect("five").kill();
    signal(kernels[4].pid(), Signal::SIGKILL);
    kernels.pop().expect("five").wait();
    for (lab, kernel) in kernels.into_iter().enumerate() {
        let ended = labs.succeeded(lab, kernel);
        println!("{}: {}", NAMES[lab], ended.stdout);
        for said in ["degraded: ", "round 20 of 20, without erin"] {
            assert!(ended.stdout.contains(said), "{}: {}", NAMES[lab], ended.stdout);
        }
        let said = ended.stdout.split_once("degraded: ").expect("found above").1;
        let right: f64 = said
            .split('%')
            .next()
            .and_then(|right| right.parse().ok())
            .expect("a share");
        assert!(right > 50.0, "guessing is right one time in ten: {right} %");
    }
    // The kernel that came back handed over its parts again.
    let run = daemons[1].http.get(&format!("/v1/runs/{digest}")).json_of(200);
    let spans = run["contributed_nothing"].as_array().expect("spans");
    assert!(
        spans
            .iter()
            .all(|span| (5..12).contains(&span["first"].as_u64().unwrap_or(0))
                && span["last"].as_u64().is_some_and(|last| last < 12)),
        "{run}"
    );
    for (lab, name) in NAMES.iter().enumerate().take(4) {
        let weights = |lab: usize| labs.read(lab, &format!("{}.weights.npy", NAMES[lab]));
        assert!(weights(lab) == weights(0), "{name} has another model");
        let file = format!("{name}.receipt.json");
        labs.done(lab, &format!("undertone receipt {file} --plan plan.json --json"));
        let receipt = read_json(&labs.folder(lab).join(file));
        assert_eq!(receipt["iterations"]["spent"], 20);
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}
