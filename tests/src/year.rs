//! Many runs in a row through real daemons: what each run leaves in memory and on disk, and how
//! long a daemon takes to start after all of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::daemon::{Daemon, gauge};
use crate::{Parties, Signal, signal};

const RUN: &str = "version = 1\nname = \"year\"\n[data]\nnoise_ok = true\nshape = [2]\n[privacy]\nepsilon = 0.01\n[run]\njoin_ms = 60000\n";

/// A data set that ten thousand such runs fit into; they are accepted unasked.
const CONFIGURATION: &str = "keep_days = 1\n[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 100.0\ndelta = 1e-4\n\
                             [policy]\nmax_epsilon = 3.0\nvouched = IDS\n[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"ward\"\n";

/// Runs that go on at a time: fewer than a daemon takes.
const AT_ONCE: usize = 4;

/// A daemon as it is at some moment.
#[derive(Clone, Debug, Default)]
pub struct Stand {
    /// Runs that have ended.
    pub runs: usize,
    /// Resident bytes.
    pub memory: f64,
    /// Open files.
    pub open_files: f64,
    /// Files and folders in the state folder and beside the key, and their bytes.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of the files that only grow: ledger, receipts, marks.
    pub growing: [u64; 3],
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ledger, receipts, marks] = self.growing;
        write!(
            f,
            "{:>6} runs: {:.2} MB of memory, {} open files; {} files, {:.2} MB (ledger {ledger}, receipts {receipts}, marks {marks})",
            self.runs,
            self.memory / 1e6,
            self.open_files,
            self.files,
            self.bytes as f64 / 1e6,
        )
    }
}

/// Three daemons on loopback, of which the first proposes runs that all accept.
#[derive(Debug)]
pub struct Year {
    parties: Parties,
    daemons: Vec<Daemon>,
    ended: Vec<String>,
}

impl Default for Year {
    fn default() -> Self {
        Year::begin()
    }
}

impl Year {
    /// Starts the daemons.
    pub fn begin() -> Self {
        let parties = Parties::new(3);
        parties.write_inputs(&[2]);
        for name in parties.names() {
            let data = parties.path(&format!("{name}.data"));
            std::fs::create_dir_all(&data).expect("the folder is writable");
            std::fs::copy(parties.path(&format!("{name}.npy")), data.join("ward.npy")).expect("writable");
        }
        let mut year = Year {
            parties,
            daemons: vec![],
            ended: vec![],
        };
        year.daemons = (0..3).map(|party| year.start(party)).collect();
        year
    }

    fn start(&self, party: usize) -> Daemon {
        let ids: Vec<&str> = self.parties.lines().iter().map(|lines| id_of(lines)).collect();
        let configuration = CONFIGURATION.replace("IDS", &format!("{ids:?}"));
        Daemon::start(&self.parties, party, &configuration)
    }

    /// Carries out so many runs, some at a time; each must be done at every party.
    pub fn run(&mut self, runs: usize) {
        let mut left = runs;
        while left > 0 {
            let batch = left.min(AT_ONCE);
            let digests: Vec<String> = (0..batch).map(|_| self.propose()).collect();
            for digest in &digests {
                for daemon in &self.daemons {
                    let path = format!("/v1/runs/{digest}");
                    daemon.http.events(&format!("{path}/events"), &[], |_| false);
                    let run = daemon.http.get(&path).json_of(200);
                    assert_eq!(run["outcome"], "done", "{run}");
                }
            }
            self.ended.extend(digests);
            left -= batch;
        }
    }

    fn propose(&self) -> String {
        let proposed = self.daemons[0].propose(RUN, "").json_of(201);
        for daemon in &self.daemons[1..] {
            let said = &proposed["members"][&daemon.name];
            let offers = || daemon.http.get("/v1/offers?limit=1").text();
            // A run may be over before its last member has answered.
            let taken = said == "accepted" || said == "over";
            assert!(taken, "{} says {said}: {}", daemon.name, offers());
        }
        proposed["digest"].as_str().expect("a digest").to_owned()
    }

    /// Has the daemons delete what is older than a day, after it was made two days older: all runs
    /// but those that they have in memory.
    pub fn delete_old(&self) {
        for (party, daemon) in self.daemons.iter().enumerate() {
            let known = daemon.http.get("/v1/runs").json_of(200);
            let known: Vec<&str> = known["runs"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|run| run["digest"].as_str())
                .collect();
            let runs = self.state(party).join("runs");
            let old: Vec<PathBuf> = folders(&runs)
                .into_iter()
                .filter(|run| !known.iter().any(|digest| run.ends_with(digest)))
                .collect();
            old.iter().for_each(|run| make_old(&run.join("run.json")));
            signal(daemon.pid(), Signal::SIGHUP);
            until("the old runs are deleted", || old.iter().all(|run| !run.exists()));
        }
    }

    /// The present state of a party's daemon.
    pub fn stand(&self, party: usize) -> Stand {
        let (daemon, state) = (&self.daemons[party], self.state(party));
        let key = self.parties.path(&format!("{}.key.spent", daemon.name));
        let size = |path: PathBuf| path.metadata().map_or(0, |found| found.len());
        let (files, bytes) = [state.as_path(), &key]
            .into_iter()
            .map(under)
            .fold((0, 0), |(files, bytes), (more, longer)| {
                (files + more, bytes + longer)
            });
        Stand {
            runs: self.ended.len(),
            memory: gauge(daemon, "process_resident_memory_bytes"),
            open_files: gauge(daemon, "process_open_fds"),
            files,
            bytes,
            growing: [
                size(state.join("ledger")),
                size(state.join("receipts")),
                size(key.join("marks")),
            ],
        }
    }

    /// Kills a party's daemon (SIGKILL) and starts it again; from its start to its first answer.
    pub fn restart(&mut self, party: usize) -> Duration {
        self.restart_on(party, |_| {})
    }

    /// Kills a party's daemon (SIGKILL), changes its state folder, and starts it again.
    pub fn restart_on(&mut self, party: usize, change: impl FnOnce(&Path)) -> Duration {
        self.daemons.remove(party).kill();
        change(&self.state(party));
        let begun = Instant::now();
        let daemon = self.start(party);
        let took = begun.elapsed();
        self.daemons.insert(party, daemon);
        took
    }

    /// Every run is charged, its plan spent, and its receipt there, by the API.
    pub fn check(&self, party: usize) {
        let (daemon, runs) = (&self.daemons[party], self.ended.len());
        let status = daemon.http.get("/v1/status").json_of(200);
        assert_eq!(status["budgets"][0]["runs"], runs, "{}", status["budgets"]);
        for digest in &self.ended {
            let receipt = daemon
                .http
                .get(&format!("/v1/runs/{digest}/receipt"))
                .json_of(200);
            assert_eq!(receipt["digest"], digest.as_str());
            let signature = daemon.http.get(&format!("/v1/runs/{digest}/receipt.sig"));
            assert_eq!(signature.status, 200);
        }
        let ready = daemon.http.get("/readyz").json_of(200);
        assert_eq!(ready["damaged"], Value::Array(vec![]), "{ready}");
    }

    /// The parties, whose folders a test may look into.
    pub fn parties(&self) -> &Parties {
        &self.parties
    }

    /// A party's daemon.
    pub fn daemon(&self, party: usize) -> &Daemon {
        &self.daemons[party]
    }

    /// Digests of the runs so far, the oldest first.
    pub fn ended(&self) -> &[String] {
        &self.ended
    }

    /// The state folder of a party.
    pub fn state(&self, party: usize) -> PathBuf {
        self.parties
            .path(&format!("{}.state", self.parties.names()[party]))
    }
}

fn id_of(lines: &str) -> &str {
    let id = lines.lines().find_map(|line| line.strip_prefix("id = \""));
    id.and_then(|id| id.strip_suffix('"'))
        .expect("a peer list has ids")
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

/// The files and folders in a folder, and their bytes.
fn under(folder: &Path) -> (usize, u64) {
    let mut found = (0, 0);
    for entry in folders(folder) {
        // A file may go meanwhile.
        let Ok(metadata) = entry.symlink_metadata() else {
            continue;
        };
        found.0 += 1;
        if metadata.is_dir() {
            let (files, bytes) = under(&entry);
            found = (found.0 + files, found.1 + bytes);
        } else {
            found.1 += metadata.len();
        }
    }
    found
}

/// Writes a run's record as it would be of a run that ended two days ago.
pub fn make_old(record: &Path) {
    let text = std::fs::read_to_string(record).expect("a record");
    let line = text.lines().next().expect("its JSON");
    let mut object: Value = serde_json::from_str(line).expect("JSON");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    object["status"]["ended_ms"] = (now.as_millis() as u64 - 2 * 24 * 3600 * 1000).into();
    let line = object.to_string();
    let sum: String = Sha256::digest(line.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    std::fs::write(record, format!("{line}\n{sum}\n")).expect("writable");
}

/// Waits until this holds.
pub fn until(what: &str, done: impl Fn() -> bool) {
    let (begun, patience) = (Instant::now(), Duration::from_secs(60));
    while !done() {
        assert!(begun.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::yield_now();
    }
}
