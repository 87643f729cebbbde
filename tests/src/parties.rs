//! Parties on this machine as people would set them up: a key each, one peer list, a run file, a
//! plan.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::ports::Ports;
use crate::{Ended, run_in, write_npy};

/// A folder with keys NAME.key, inputs NAME.npy, and the files that the parties share.
#[derive(Debug)]
pub struct Parties {
    folder: tempfile::TempDir,
    names: Vec<String>,
    lines: Vec<String>,
    /// Ports of this machine that identities were given, held as long as anybody may listen there.
    held: Mutex<Vec<Ports>>,
}

/// Private and public, on this machine.
fn addresses(ports: [u16; 2]) -> [String; 2] {
    ports.map(|port| format!("/ip4/127.0.0.1/tcp/{port}"))
}

const NAMES: [&str; 16] = [
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kim", "laura",
    "mike", "nina", "olga", "paul",
];

/// Makes `plan.json` of `run.toml` and `peers.toml`, and says so as one object.
pub const PLAN: [&str; 7] = [
    "plan",
    "run.toml",
    "--peers",
    "peers.toml",
    "--out",
    "plan.json",
    "--json",
];

impl Parties {
    /// Keys for this many parties (alice, bob, …) on this machine, made by `identity new`, and
    /// their peer list.
    pub fn new(count: usize) -> Self {
        let ports = Ports::hold(2 * count);
        let parties = Parties::at(count, |party| addresses([ports[2 * party], ports[2 * party + 1]]));
        parties.keep(ports);
        parties
    }

    /// Keys and a peer list with the private and public addresses that each party is given.
    pub fn at(count: usize, addresses: impl Fn(usize) -> [String; 2]) -> Self {
        let mut parties = Parties {
            folder: tempfile::tempdir().expect("a folder"),
            names: vec![],
            lines: vec![],
            held: Mutex::default(),
        };
        for (party, name) in NAMES[..count].iter().enumerate() {
            let lines = parties.identity_at(name, addresses(party));
            parties.names.push((*name).to_owned());
            parties.lines.push(lines);
        }
        parties.write("peers.toml", &parties.peer_list());
        parties
    }

    /// The folder with keys, inputs and shared files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Names in plan order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The lines that `identity new` printed for each party.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// `peers.toml` as a person would paste it together.
    pub fn peer_list(&self) -> String {
        format!("version = 1\n{}", self.lines.concat())
    }

    /// The two ports of a party: private, public.
    pub fn ports(&self, party: usize) -> [u16; 2] {
        let port = |key: &str| {
            let line = self.lines[party]
                .lines()
                .find(|line| line.starts_with(key))
                .expect("both addresses are listed");
            let digits = line.trim_end_matches('"').rsplit('/').next().expect("/tcp/PORT");
            digits.parse().expect("a port")
        };
        [port("private"), port("public")]
    }

    /// `identity new` with addresses on this machine; what it printed.
    pub fn new_identity(&self, name: &str) -> String {
        let ports = Ports::hold(2);
        let lines = self.identity_at(name, addresses([ports[0], ports[1]]));
        self.keep(ports);
        lines
    }

    fn keep(&self, ports: Ports) {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(ports);
    }

    fn identity_at(&self, name: &str, [private, public]: [String; 2]) -> String {
        let key = format!("{name}.key");
        let ended = self.run([
            "identity",
            "new",
            "--out",
            &key,
            "--name",
            name,
            "--private",
            &private,
            "--public",
            &public,
        ]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the test's folder is writable");
    }

    /// Writes each party's input NAME.npy; returns them.
    pub fn write_inputs(&self, shape: &[usize]) -> Vec<Vec<f64>> {
        let dimension: usize = shape.iter().product();
        let scale = 0.9 / (dimension as f64).sqrt();
        let input = |(party, name): (usize, &String)| {
            let values: Vec<f64> = (0..dimension)
                .map(|i| scale * ((i * 7 + party * 13) as f64).sin())
                .collect();
            write_npy(&self.path(&format!("{name}.npy")), shape, &values);
            values
        };
        self.names.iter().enumerate().map(input).collect()
    }

    /// Runs `undertone` in the folder.
    pub fn run<const N: usize>(&self, arguments: [&str; N]) -> Ended {
        run_in(self.folder(), arguments)
    }

    /// Writes RUN as run file NAME.toml and makes plan NAME.json of it; its digest.
    pub fn plan(&self, name: &str, run: &str) -> String {
        let (run_file, plan_file) = (format!("{name}.toml"), format!("{name}.json"));
        self.write(&run_file, run);
        let quote = self
            .run([
                "plan",
                &run_file,
                "--peers",
                "peers.toml",
                "--out",
                &plan_file,
                "--json",
            ])
            .json_of(0);
        quote["digest"].as_str().expect("a digest").to_owned()
    }

    /// The arguments with which a party joins plan NAME.json: it writes NAME-PARTY.npy and
    /// NAME-PARTY.receipt.json.
    pub fn join(&self, plan: &str, party: usize) -> Vec<String> {
        let name = &self.names[party];
        let argument = |text: &str| text.replace("PLAN", plan).replace("NAME", name);
        let line = "join PLAN.json --identity NAME.key --input NAME.npy --output PLAN-NAME.npy --receipt PLAN-NAME.receipt.json --json";
        line.split(' ').map(argument).collect()
    }
}
