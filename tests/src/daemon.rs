//! A daemon of one party, as an operator would run it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::http::{Http, Reply};
use crate::{Ended, Parties, Running, Signal, run_in, signal, undertone};

/// From its start to `/readyz`, on a machine that does other things.
const READY: Duration = Duration::from_secs(60);

/// `undertone node` with configuration NAME.node.toml in the parties' folder.
#[derive(Debug)]
pub struct Daemon {
    /// The party whose daemon it is.
    pub name: String,
    /// A client of the daemon's API, with its token.
    pub http: Http,
    folder: PathBuf,
    running: Running,
}

impl Daemon {
    /// Starts the daemon of a party and waits until it is ready. `configuration` is added to what
    /// every daemon here has: its own state folder and a socket in it.
    pub fn start(parties: &Parties, party: usize, configuration: &str) -> Self {
        Daemon::start_by(Command::new(undertone()), parties, party, configuration)
    }

    /// Starts the daemon of a party with its API at a TCP address, by a command that starts
    /// `undertone`.
    pub fn start_at(command: Command, parties: &Parties, party: usize, api: SocketAddr) -> Self {
        Daemon::start_at_with(command, parties, party, (api, ""))
    }

    /// Starts the daemon of a party with its API at a TCP address, where browsers get to, and with
    /// more configuration.
    pub fn start_with(parties: &Parties, party: usize, api: SocketAddr, configuration: &str) -> Self {
        Daemon::start_at_with(Command::new(undertone()), parties, party, (api, configuration))
    }

    fn start_at_with(
        command: Command,
        parties: &Parties,
        party: usize,
        (api, more): (SocketAddr, &str),
    ) -> Self {
        let configuration = format!("[api]\nlisten = \"{api}\"\n{more}");
        let running = Daemon::run_by(command, parties, party, &configuration);
        let (name, state) = (
            &parties.names()[party],
            parties.path(&format!("{}.state", parties.names()[party])),
        );
        Daemon::answering(running, name, parties.folder(), &state, api.to_string())
    }

    /// Starts it by a command that starts `undertone` somewhere, such as on a host of a testnet.
    pub fn start_by(command: Command, parties: &Parties, party: usize, configuration: &str) -> Self {
        let running = Daemon::run_by(command, parties, party, configuration);
        Daemon::follow(parties, party, running)
    }

    fn run_by(mut command: Command, parties: &Parties, party: usize, configuration: &str) -> Running {
        let file = Daemon::configure(parties, party, configuration);
        command
            .args(["node", "--config", &file, "-vv"])
            .current_dir(parties.folder());
        Running::start(command, None)
    }

    /// Waits until a daemon is ready that somebody started with the configuration of
    /// [`Daemon::configure`].
    pub fn follow(parties: &Parties, party: usize, running: Running) -> Self {
        let name = &parties.names()[party];
        Daemon::of(
            running,
            name,
            parties.folder(),
            &parties.path(&format!("{name}.state")),
        )
    }

    /// Waits until a daemon with any configuration is ready whose API is the socket in its state
    /// folder.
    pub fn of(running: Running, name: &str, folder: &Path, state: &Path) -> Self {
        let address = format!("unix:{}", state.join("api.sock").display());
        Daemon::answering(running, name, folder, state, address)
    }

    fn answering(running: Running, name: &str, folder: &Path, state: &Path, address: String) -> Self {
        let mut daemon = Daemon {
            name: name.into(),
            http: Http { address, token: None },
            folder: folder.into(),
            running,
        };
        daemon.until_ready();
        let token = std::fs::read_to_string(state.join("api.token")).expect("the daemon made its token");
        daemon.http.token = Some(token.trim_end().to_owned());
        daemon
    }

    /// Writes NAME.node.toml, and makes the data folder that it names; its name.
    pub fn configure(parties: &Parties, party: usize, configuration: &str) -> String {
        let name = &parties.names()[party];
        let head = format!(
            "version = 1\nidentity = \"{name}.key\"\nstate = \"{name}.state\"\ndata = \"{name}.data\"\n"
        );
        std::fs::create_dir_all(parties.path(&format!("{name}.data")))
            .expect("the test's folder is writable");
        let file = format!("{name}.node.toml");
        parties.write(&file, &(head + configuration));
        file
    }

    /// Waits until it is ready.
    pub fn until_ready(&self) {
        // Nobody sends: it only paces the asking.
        let (_sender, pace) = channel::<()>();
        let begun = Instant::now();
        let mut last = String::from("no answer");
        while begun.elapsed() < READY {
            match self.http.try_ask("GET", "/readyz", &[], &[]) {
                Ok(reply) if reply.status == 200 => return,
                Ok(reply) => last = reply.text(),
                Err(e) => last = e.to_string(),
            }
            let _ = pace.recv_timeout(Duration::from_millis(20));
        }
        panic!(
            "the daemon of {} is not ready within {READY:?}: {last}",
            self.name
        );
    }

    /// The run that a daemon which was started again takes up, once it has.
    pub fn taken_up(&self, digest: &str) -> serde_json::Value {
        let begun = Instant::now();
        loop {
            let run = self.http.get(&format!("/v1/runs/{digest}")).json_of(200);
            if run["state"] != "withdrawn" || begun.elapsed() > READY {
                return run;
            }
        }
    }

    /// Waits until it is not ready any more, since it looks at its disk once a second; what it
    /// says.
    pub fn until_unready(&self) -> Reply {
        let begun = Instant::now();
        while begun.elapsed() < READY {
            let reply = self.http.get("/readyz");
            if reply.status != 200 {
                return reply;
            }
        }
        panic!("the daemon of {} is ready still", self.name);
    }

    /// Runs one of its clients with `--json`.
    pub fn client<const N: usize>(&self, arguments: [&str; N]) -> Ended {
        let file = format!("{}.node.toml", self.name);
        run_in(
            &self.folder,
            arguments.into_iter().chain(["--config", &file, "--json"]),
        )
    }

    /// Hands in a plan, and takes part in it with what the query names or with a vector. The
    /// answer of the first of the two that was refused, else of the second.
    pub fn submit(&self, plan: &[u8], query: &str, vector: Option<(&str, &[u8])>) -> Reply {
        self.contributed(
            "/v1/runs",
            self.http.hand_in("application/json", plan),
            query,
            vector,
        )
    }

    /// Makes a plan of a run file and offers it, as [`Daemon::submit`] takes part.
    pub fn propose(&self, run: &str, query: &str) -> Reply {
        let made = self.http.hand_in("application/toml", run.as_bytes());
        self.contributed("/v1/offers", made, query, None)
    }

    fn contributed(&self, place: &str, plan: Reply, query: &str, vector: Option<(&str, &[u8])>) -> Reply {
        if plan.status != 201 {
            return plan;
        }
        let digest = plan.json()["digest"].as_str().expect("a digest").to_owned();
        self.http
            .bring("PUT", &format!("{place}/{digest}?{query}"), vector)
    }

    /// The daemon's process id.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Kills it, and waits until it is gone; returns its output.
    pub fn kill(self) -> Ended {
        signal(self.running.pid(), Signal::SIGKILL);
        self.running.wait()
    }

    /// Asks it to end, and waits for that: returns its output, and how long it took.
    pub fn end(self) -> (Ended, Duration) {
        let begun = Instant::now();
        signal(self.running.pid(), Signal::SIGTERM);
        let ended = self.running.wait();
        (ended, begun.elapsed())
    }
}

/// An operator who reads the log alone knows what became of a run, and of which run each line is.
pub fn log_tells_of_a_run(log: &str, digest: &str) {
    let lines = |text: &str| -> Vec<String> {
        let found = log.lines().filter(|line| line.contains(text));
        found.map(String::from).collect()
    };
    for text in [
        "a plan was offered",
        "a plan was accepted",
        "the run's charge",
        "run over",
        "an offered plan was refused",
    ] {
        assert!(!lines(text).is_empty(), "{text} is not in\n{log}");
    }
    let phases = lines(" phase ");
    assert!(phases.len() >= 4, "{log}");
    for line in phases
        .iter()
        .chain(&lines("a plan was accepted"))
        .chain(&lines("the run's charge"))
    {
        assert!(line.contains(&format!("digest=\"{digest}\"")), "{line}");
    }
}

/// Returns the value of a gauge in a daemon's metrics.
pub fn gauge(daemon: &Daemon, name: &str) -> f64 {
    let page = daemon.http.get("/metrics").text();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in\n{page}"))
}
