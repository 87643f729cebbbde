//! A disk that fills up while a run goes on costs neither its mean nor its receipt.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, alone, assert_mean_of, follow_in, left_out, read_npy, run_in, start_in};

/// Long enough for a mean of which no left-over page of the disk holds a tenth.
const DIMENSION: usize = 20_000;

const RUN: &str = "version = 1\nname = \"full\"\n[data]\nnoise_ok = true\nshape = [20000]\n[run]\njoin_ms = 60000\ngrace_ms = 60000\nround_ms = 60000\nsettle_ms = 60000\npace_ms = 400\n";

/// A small disk of its own at a folder.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&at).expect("the test's folder is writable");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs"])
            .arg(&at)
            .output();
        mount
            .is_ok_and(|mount| mount.status.success())
            .then_some(Disk(at))
    }

    /// Takes all the room that there is.
    fn fill(&self) {
        let path = self.0.join("filler");
        let mut filler = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .expect("a file");
        for block in [64 << 10, 4 << 10] {
            while filler.write_all(&vec![7; block]).is_ok() {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("it was filled");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn assert_mean(path: &Path, inputs: &[Vec<f64>], run: &Value) {
    let (_, _, mean) = read_npy(path);
    assert_eq!(mean.len(), DIMENSION);
    assert_mean_of(
        &mean,
        inputs,
        run["standard_error"].as_f64().expect("a standard error"),
    );
}

#[test]
fn a_daemon_has_taken_room_before_it_spends_a_plan() {
    let _alone = alone();
    let parties = Parties::new(3);
    let Some(disk) = Disk::mount(parties.path("alice.state")) else {
        return left_out("a full disk", "mount takes root");
    };
    let inputs = parties.write_inputs(&[DIMENSION]);
    let digest = parties.plan("full", RUN);
    let daemons = [0, 1, 2].map(|party| Daemon::start(&parties, party, ""));
    for daemon in &daemons {
        let vector = format!("{}.npy", daemon.name);
        daemon
            .client(["submit", "full.json", "--input", &vector])
            .json_of(0);
    }
    let alice = &daemons[0];
    let events = format!("/v1/runs/{digest}/events");
    alice
        .http
        .events(&events, &[], |event| event["phase"] == "mixing");
    disk.fill();
    alice.until_unready().refused(503, "make room");
    let run = alice.client(["watch", &digest]).json_of(0);
    assert_eq!(run["outcome"], "done", "{run}");
    let kept = |name: &str| parties.path(&format!("alice.state/runs/{digest}/{name}"));
    assert_mean(&kept("mean.npy"), &inputs, &run);
    assert!(kept("receipt.json").exists() && kept("receipt.json.sig").exists());
    // Without room there is no next run, and nothing is spent on it.
    parties.plan("next", RUN);
    let refused = alice.client(["submit", "next.json", "--input", "alice.npy"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    disk.empty();
    alice.until_ready();
}

#[test]
fn join_keeps_its_result_until_there_is_room() {
    let _alone = alone();
    let parties = Parties::new(3);
    let Some(disk) = Disk::mount(parties.path("small")) else {
        return left_out("a full disk", "mount takes root");
    };
    let inputs = parties.write_inputs(&[DIMENSION]);
    parties.plan("full", RUN);
    let others = [1, 2].map(|party| start_in(parties.folder(), parties.join("full", party)));
    let mut line = parties.join("full", 0);
    for argument in &mut line {
        if argument.starts_with("full-alice") {
            *argument = format!("small/{argument}");
        }
    }
    let (alice, mut reported) = follow_in(parties.folder(), line);
    reported.until("mixing", |event| event["phase"] == "mixing");
    // Somebody takes what is freed as soon as it is: the room that was kept, too.
    let (full, stop) = (
        std::sync::Arc::new(disk),
        std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)),
    );
    let filling = {
        let (full, stop) = (full.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                full.fill();
            }
        })
    };
    for other in others {
        other.wait().json_of(0);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    filling.join().expect("it fills");
    full.empty();
    let run = alice.wait().json_of(0);
    assert_eq!(run["outcome"], "done", "{run}");
    assert_mean(&parties.path("small/full-alice.npy"), &inputs, &run);
    let receipt = "small/full-alice.receipt.json";
    run_in(
        parties.folder(),
        ["receipt", receipt, "--plan", "full.json", "--json"],
    )
    .json_of(0);
}

/// A supervisor that starts it again, such as systemd, need not give up.
#[test]
fn a_daemon_that_finds_its_disk_full_exits_75_and_starts_once_there_is_room() {
    let _alone = alone();
    let parties = Parties::new(3);
    let Some(disk) = Disk::mount(parties.path("alice.state")) else {
        return left_out("a full disk at the start", "mount takes root");
    };
    let file = Daemon::configure(&parties, 0, "");
    disk.fill();
    let refused = parties
        .run(["node", "--config", &file, "--json"])
        .refused_at(75, "state");
    assert_eq!(refused["error"]["kind"], "try-again", "{refused}");
    disk.empty();
    assert_eq!(Daemon::start(&parties, 0, "").end().0.code, 0);
}
