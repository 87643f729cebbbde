//! This program and an older one, side by side: what node/CHANGELOG.md says of mixing versions.
//!
//! `cargo xtask mixed COMMIT` builds the older one from git and runs these tests. By hand:
//! `OLDER=/path/to/undertone cargo test -p undertone-tests --test mixed -- --ignored --nocapture`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::{Ended, Parties, Running, alone, run_in, undertone};

const RUN: &str =
    "version = 1\nname = \"NAME\"\n[run]\njoin_ms = 20000\n[data]\nnoise_ok = true\nshape = [8]\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 40.0\ndelta = 1e-4\n";

const PARTIES: usize = 3;

fn older() -> PathBuf {
    let path = std::env::var_os("OLDER").expect("OLDER names an older program");
    PathBuf::from(path).canonicalize().expect("OLDER is a file")
}

/// Three parties with a peer list and data, whose plans this program makes or the older one.
struct Group(Parties);

impl Group {
    fn new() -> Self {
        let parties = Parties::new(PARTIES);
        parties.write("peers.toml", &parties.peer_list());
        parties.write_inputs(&[8]);
        for name in parties.names() {
            let data = parties.path(&format!("{name}.data"));
            std::fs::create_dir_all(&data).expect("writable");
            std::fs::copy(parties.path(&format!("{name}.npy")), data.join("ward.npy")).expect("writable");
        }
        Group(parties)
    }

    fn by(&self, program: &PathBuf, words: &str) -> Ended {
        let mut command = Command::new(program);
        command.args(words.split(' ')).current_dir(self.0.folder());
        Running::start(command, None).wait()
    }

    /// Makes a plan by a program; its digest.
    fn plan(&self, program: &PathBuf, name: &str) -> String {
        self.0.write(&format!("{name}.toml"), &RUN.replace("NAME", name));
        let words = format!("plan {name}.toml --peers peers.toml --out {name}.json --json");
        let quote = self.by(program, &words).json_of(0);
        quote["digest"].as_str().expect("a digest").to_owned()
    }

    fn start(&self, program: &PathBuf, party: usize) -> Daemon {
        Daemon::start_by(Command::new(program), &self.0, party, WARD)
    }

    fn start_all(&self, program: &PathBuf) -> Vec<Daemon> {
        (0..PARTIES).map(|party| self.start(program, party)).collect()
    }

    /// All take part in a plan; each run as it ended.
    fn run(&self, daemons: &[Daemon], (plan, digest): (&str, &str)) -> Vec<Value> {
        let text = std::fs::read(self.0.path(&format!("{plan}.json"))).expect("a plan");
        for daemon in daemons {
            daemon.submit(&text, "data_set=ward", None).json_of(201);
        }
        let path = format!("/v1/runs/{digest}");
        let ended = |daemon: &Daemon| {
            daemon.http.events(&format!("{path}/events"), &[], |_| false);
            daemon.http.get(&path).json_of(200)
        };
        daemons.iter().map(ended).collect()
    }
}

fn end(daemons: Vec<Daemon>) {
    daemons.into_iter().for_each(|daemon| drop(daemon.end()));
}

fn spent(daemon: &Daemon) -> f64 {
    let budget = &daemon.http.get("/v1/status").json_of(200)["budgets"][0];
    budget["epsilon_spent"].as_f64().expect("a number")
}

/// This program knows what an older daemon has spent and received, and checks its receipt.
#[test]
#[ignore = "needs an older program: cargo xtask mixed COMMIT"]
fn state_that_an_older_daemon_wrote_is_read_and_gone_on_with() {
    let _alone = alone();
    let (group, older) = (Group::new(), older());
    let digest = group.plan(&older, "before");
    let daemons = group.start_all(&older);
    for run in group.run(&daemons, ("before", &digest)) {
        assert_eq!(run["outcome"], "done", "{run}");
    }
    let before: Vec<f64> = daemons.iter().map(spent).collect();
    let result = |daemon: &Daemon| {
        let path = format!("/v1/runs/{digest}/result");
        daemon
            .http
            .ask("GET", &path, &[("Accept", "application/x-npy")], b"")
            .body
    };
    let means: Vec<Vec<u8>> = daemons.iter().map(result).collect();
    end(daemons);

    let daemons = group.start_all(&undertone());
    for (daemon, (before, mean)) in daemons.iter().zip(before.iter().zip(&means)) {
        assert_eq!((spent(daemon), &result(daemon)), (*before, mean));
        let text = std::fs::read(group.0.path("before.json")).expect("a plan");
        daemon
            .submit(&text, "data_set=ward", None)
            .refused(409, "already taken part");
    }
    for (name, path) in [("receipt.json", "receipt"), ("receipt.json.sig", "receipt.sig")] {
        let body = daemons[0].http.get(&format!("/v1/runs/{digest}/{path}")).body;
        std::fs::write(group.0.path(name), body).expect("writable");
    }
    let words = "receipt receipt.json --plan before.json --json";
    assert_eq!(run_in(group.0.folder(), words.split(' ')).code, 0);
    let digest = group.plan(&undertone(), "after");
    for run in group.run(&daemons, ("after", &digest)) {
        assert_eq!(run["outcome"], "done", "{run}");
    }
    assert!(
        daemons
            .iter()
            .zip(&before)
            .all(|(daemon, before)| spent(daemon) > *before)
    );
    end(daemons);
}

/// Whether a text says that the version is the matter, which an operator can do something about.
fn names_the_version(text: &str) -> bool {
    text.contains("version")
}

/// An older daemon on the state of this one reads it, or is refused with a sentence.
#[test]
#[ignore = "needs an older program: cargo xtask mixed COMMIT"]
fn a_daemon_that_goes_back_reads_the_state_or_says_that_it_is_newer() {
    let _alone = alone();
    let (group, older) = (Group::new(), older());
    let digest = group.plan(&undertone(), "newer");
    let daemons = group.start_all(&undertone());
    group.run(&daemons, ("newer", &digest));
    let before = spent(&daemons[0]);
    end(daemons);
    // It holds the ledger against the marks, and changes nothing where neither lacks anything.
    let words = "ledger adopt --config alice.node.toml --json";
    let shown = group.by(&older, words);
    if shown.code == 0 {
        let daemon = group.start(&older, 0);
        println!("it reads the state: {} spent", spent(&daemon));
        assert_eq!(spent(&daemon), before);
        end(vec![daemon]);
    } else {
        let message = shown.json()["error"]["message"].to_string();
        println!("it is refused: {message}");
        assert!(names_the_version(&message), "{}", shown.stdout);
    }
}

/// In one run both have the mean, or neither, and who asks hears that versions differ.
#[test]
#[ignore = "needs an older program: cargo xtask mixed COMMIT"]
fn daemons_of_two_versions_have_one_mean_or_say_that_versions_differ() {
    let _alone = alone();
    let (group, older) = (Group::new(), older());
    let messages = |program: &PathBuf| group.by(program, "version --json").json_of(0)["messages"].clone();
    let (theirs, ours) = (messages(&older), messages(&undertone()));
    println!("messages of version {theirs} and {ours}");
    let digest = group.plan(&older, "both");
    let mut daemons = vec![group.start(&undertone(), 0)];
    daemons.extend((1..PARTIES).map(|party| group.start(&older, party)));
    let doctor = "doctor both.json --identity alice.key --timeout-ms 5000 --json";
    let found = group.by(&undertone(), doctor);
    let runs = group.run(&daemons, ("both", &digest));
    let outcomes: Vec<&Value> = runs.iter().map(|run| &run["outcome"]).collect();
    println!("{outcomes:?}");
    if theirs == ours {
        assert!(outcomes.iter().all(|outcome| **outcome == "done"), "{runs:#?}");
    } else {
        let problems = found.json()["problems"].to_string();
        assert!(names_the_version(&problems), "{}", found.stdout);
        let cost_nothing = |run: &Value| run["outcome"] == "aborted" && run["charged"].is_null();
        assert!(runs.iter().all(cost_nothing), "{runs:#?}");
        let reason = runs[0]["reason"].as_str().unwrap_or_default();
        assert!(names_the_version(reason), "{reason}");
    }
    end(daemons);
}

/// Plans that one makes the other reads, or says why not.
#[test]
#[ignore = "needs an older program: cargo xtask mixed COMMIT"]
fn plans_are_read_both_ways_or_refused_by_their_version() {
    let (group, older) = (Group::new(), older());
    group.plan(&older, "theirs");
    group.plan(&undertone(), "ours");
    for (program, plan) in [(&undertone(), "theirs"), (&older, "ours")] {
        let verified = group.by(program, &format!("verify {plan}.json --json"));
        println!("verify {plan}: exit {}", verified.code);
        if verified.code != 0 {
            let message = verified.json()["error"]["message"].to_string();
            assert!(names_the_version(&message), "{}", verified.stdout);
        }
    }
}
