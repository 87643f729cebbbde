//! The processes of a local cluster: started, watched, waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::contact::Contact;
use undertone_protocol::plan::peers::{Peer, Peers};

use crate::commands::local::folders::{Folders, party_folder, result_name};
use crate::commands::local::parties::LocalParty;
use crate::network::held_port::HeldPort;
use crate::party::events::Events;
use crate::party::identity::Identity;
use crate::party::signals::{self, StopSignals};
use crate::planning::deadlines;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::logging::{GlobalFlags, LogFormat};
use crate::reporting::process;
use crate::reporting::progress::Progress;
use crate::reporting::table::bytes;

/// A cluster whose keys and addresses are chosen.
pub(super) struct Cluster {
    nodes: Vec<NodeFiles>,
    peers: Peers,
    /// Ports of the nodes, or the first of them: other clusters choose theirs meanwhile.
    _held: Vec<HeldPort>,
}

/// The files and settings that every node of a cluster is given.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    /// The program that hands over its part of every round.
    pub(super) program: Option<PathBuf>,
    /// The file whose layout its result is written in.
    pub(super) template: Option<PathBuf>,
    /// Whether tables are taken as they are.
    pub(super) anyway: bool,
}

struct NodeFiles {
    identity: PathBuf,
    input: PathBuf,
    handed: Handed,
    state: PathBuf,
    output: PathBuf,
}

/// How a node's process ended.
#[derive(Debug)]
pub(super) struct NodeEnd {
    /// The process's exit code; None if somebody killed it, by a second signal to leave as well.
    pub(super) code: Option<i32>,
    /// The node's final object, if it got as far.
    pub(super) result: Option<Value>,
}

/// Makes keys, picks ports and a folder for each party.
pub(super) fn prepare(parties: &[LocalParty], folders: &Folders, handed: Handed) -> Result<Cluster, Failure> {
    let unwritable = |e: std::io::Error| {
        Failure::storage(&e, format!("{}: {e}", folders.output.display())).field("--output")
    };
    let (ports, held) = free_ports(2 * parties.len())?;
    let mut ports = ports.into_iter();
    let (mut nodes, mut peers) = (vec![], vec![]);
    for party in parties {
        let mut address = || format!("/ip4/127.0.0.1/tcp/{}", ports.next().expect("two ports a party"));
        let (private, public) = (address(), address());
        let identity = folders.scratch.path().join(format!("{}.key", party.name));
        let key = Identity::generate(party.name.clone(), Some(private.clone()), Some(public.clone()));
        key.create(&identity)?;
        let parse = |text: String| text.parse().map_err(|e| Failure::usage(format!("{e}")));
        peers.push(Peer {
            name: party.name.clone(),
            id: key.peer_id(),
            contact: Contact {
                at: vec![parse(private)?],
                public: Some(parse(public)?),
                relay: false,
            },
            recovery: None,
        });
        let output = party_folder(&folders.output, &party.name);
        std::fs::create_dir_all(&output).map_err(unwritable)?;
        let state = folders.scratch.path().join(format!("{}.state", party.name));
        nodes.push(NodeFiles {
            identity,
            input: party.input.clone(),
            handed: handed.clone(),
            state,
            output,
        });
    }
    let peers = Peers::new(peers).map_err(|e| Failure::usage(e.to_string()).field("--nodes"))?;
    Ok(Cluster {
        nodes,
        peers,
        _held: held,
    })
}

/// Maximum number of ports held at once: fewer than a process may open files on most systems. Our
/// choice.
const MOST_HELD: usize = 256;

/// Ports that nobody has, and what holds them, or the first of them. They are below the
/// range from which the system gives ports to outgoing connections (on Linux from 32768), so that
/// the cluster's own connections do not take them before its nodes listen; and neighbouring ones,
/// so that two clusters that start at the same moment hardly ever choose the same.
fn free_ports(count: usize) -> Result<(Vec<u16>, Vec<HeldPort>), Failure> {
    const FROM: Range<u16> = 10_240..32_000;
    let start = rand::rng().random_range(FROM);
    let around = (start..FROM.end).chain(FROM.start..start);
    let mut held = vec![];
    let take = |port: u16| {
        let taken = HeldPort::take(port)?;
        held.extend(Some(taken).filter(|_| held.len() < MOST_HELD));
        Some(port)
    };
    let ports: Vec<u16> = around.filter_map(take).take(count).collect();
    if ports.len() < count {
        return Err(Failure::usage("not enough free ports on 127.0.0.1")
            .hint("stop what listens there, or use fewer nodes"));
    }
    Ok((ports, held))
}

impl Cluster {
    pub(super) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Starts all nodes and waits for all of them.
    pub(super) fn run(
        self,
        plan: &Plan,
        events: &Events,
        progress: &mut Progress,
        shared: &GlobalFlags,
    ) -> Result<BTreeMap<String, NodeEnd>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
        runtime.block_on(self.watch(plan, events, progress, shared))
    }

    async fn watch(
        self,
        plan: &Plan,
        events: &Events,
        progress: &mut Progress,
        shared: &GlobalFlags,
    ) -> Result<BTreeMap<String, NodeEnd>, Failure> {
        let mut stops = StopSignals::listen();
        let (lines, mut reported) = mpsc::channel(1024);
        let mut nodes = Nodes::default();
        // A process for each node; their events come together in one channel, which closes with
        // the last of them.
        for (party, files) in self.nodes.iter().enumerate() {
            let name = name_of(plan, party).to_owned();
            let child = start(files, plan, shared)
                .map_err(|e| Failure::usage(format!("a node cannot be started: {e}")))?;
            events.emit(&name, "spawned", json!({ "pid": child.id() }));
            nodes.pids.insert(name.clone(), child.id());
            tokio::spawn(follow(name, child, lines.clone()));
        }
        drop(lines);
        let mut picture = Picture::new(plan);
        let patience = deadlines::start(plan).saturating_add(deadlines::rounds(plan));
        let mut quiet_since = Instant::now();
        loop {
            let beyond = if nodes.ends.is_empty() { AT_WORK } else { MARGIN };
            let (name, line) = tokio::select! {
                reported = reported.recv() => match reported {
                    Some(reported) => reported,
                    None => break,
                },
                () = sleep_until(quiet_since + patience + beyond) => {
                    progress.milestone("Nodes that say nothing any more are killed");
                    nodes.tell_all(Signal::SIGKILL);
                    quiet_since = Instant::now();
                    continue;
                }
                said = nodes.ended_early(&mut stops) => {
                    progress.milestone(said);
                    continue;
                }
            };
            // Events are passed on under the node's name; ends are kept.
            match line {
                NodeLine::Event(event) => {
                    picture.see(&name, &event, progress);
                    let kind = event["event"].as_str().unwrap_or("").to_owned();
                    let fields = event.as_object().cloned().unwrap_or_default();
                    let own = ["t_ms", "party", "event"];
                    let fields = fields
                        .into_iter()
                        .filter(|(key, _)| !own.contains(&key.as_str()))
                        .collect();
                    events.emit(&name, &kind, Value::Object(fields));
                }
                NodeLine::Ended(end) => {
                    if end.code.is_none() {
                        progress.milestone(&format!("{name} was killed"));
                    }
                    nodes.ends.insert(name, end);
                }
            }
            quiet_since = Instant::now();
        }
        progress.milestone(&picture.line("done"));
        Ok(nodes.ends)
    }
}

/// Rounds above which mixing is shown as a bar. Our choice: fewer are over before it is read.
const SHOWN_AS_BAR: u32 = 10;

/// Beyond the plan's deadlines, once a node has ended: nobody that works is silent for longer. Our
/// choice.
const MARGIN: Duration = Duration::from_secs(10);

/// Before any node has ended, all of them may be at work on long vectors, and say nothing.
const AT_WORK: Duration = Duration::from_secs(1800);

/// How often nodes that are left are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How often in a row all that are left must be stopped until nobody waits for them: a whole group
/// that is suspended and goes on does so one after another. Our choice.
const LOOKS: u32 = 4;

/// The time that a node has to end by itself after a second signal, so that nothing stays half
/// written. Our choice.
const WRITING: Duration = Duration::from_millis(500);

/// The processes of all nodes.
#[derive(Default)]
struct Nodes {
    pids: BTreeMap<String, Option<u32>>,
    ends: BTreeMap<String, NodeEnd>,
    /// How often in a row all that have not ended were found stopped.
    stopped: u32,
    leaving: bool,
    /// The time at which nodes are killed that were asked to end a second time, and have not.
    killed_at: Option<Instant>,
}

impl Nodes {
    /// Ends nodes that nobody need wait for; returns what was done.
    async fn ended_early(&mut self, stops: &mut StopSignals) -> &'static str {
        loop {
            let killed_at = self.killed_at;
            tokio::select! {
                () = sleep(LOOK), if !self.ends.is_empty() => {
                    let all = self.alive().all(process::is_stopped);
                    self.stopped = if all { self.stopped + 1 } else { 0 };
                    if self.stopped == LOOKS {
                        self.tell_all(Signal::SIGKILL);
                        return "Nodes that are stopped are killed: all others have ended";
                    }
                }
                () = sleep_until(killed_at.unwrap_or_else(Instant::now)), if killed_at.is_some() => {
                    self.killed_at = None;
                    self.tell_all(Signal::SIGKILL);
                }
                _ = stops.next() => {
                    self.tell_all(signals::LEAVE);
                    if std::mem::replace(&mut self.leaving, true) {
                        self.killed_at = Some(Instant::now() + WRITING);
                        return "Ending at once: the nodes are killed";
                    }
                    return "Leaving: the nodes are told, and end as they can";
                }
            }
        }
    }

    /// Those that have not ended.
    fn alive(&self) -> impl Iterator<Item = u32> {
        let alive = self
            .pids
            .iter()
            .filter(|(name, _)| !self.ends.contains_key(*name));
        alive.filter_map(|(_, pid)| *pid)
    }

    /// Sends this to all nodes that have not ended.
    fn tell_all(&self, signal: Signal) {
        for pid in self.alive() {
            // One that has ended meanwhile needs no message.
            let _ = kill(Pid::from_raw(pid as i32), signal);
        }
    }
}

fn start(files: &NodeFiles, plan: &Plan, shared: &GlobalFlags) -> std::io::Result<Child> {
    let plan_file = files
        .output
        .parent()
        .map(|folder| folder.join("plan.json"))
        .unwrap_or_default();
    let log = File::create(files.output.join("node.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("join").arg(plan_file);
    command
        .arg("--identity")
        .arg(&files.identity)
        .arg("--input")
        .arg(&files.input)
        .arg("--state")
        .arg(&files.state);
    if let Some(program) = &files.handed.program {
        command.arg("--program").arg(program);
    }
    if files.handed.anyway {
        command.arg("--anyway");
    }
    if let Some(template) = &files.handed.template {
        command.arg("--template").arg(template);
    }
    command.arg("--output").arg(files.output.join(result_name(
        plan,
        &files.input,
        files.handed.program.is_some(),
    )));
    command.arg("--receipt").arg(files.output.join("receipt.json"));
    // The plan is the parent's own, on this machine: no policy beyond its claims, which were
    // computed a moment ago.
    command.args([
        "--digest",
        &plan.digest_hex(),
        "--checked",
        "--min-colluders",
        "0",
        "--max-delta",
        "1",
    ]);
    command.args([
        "--events",
        "-",
        "--json",
        "--log",
        if shared.log == LogFormat::Json {
            "json"
        } else {
            "text"
        },
    ]);
    (0..shared.verbose).for_each(|_| {
        command.arg("-v");
    });
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
}

/// Returns the name of a party of the plan.
fn name_of(plan: &Plan, party: usize) -> &str {
    &plan.draft().members[party].name
}

enum NodeLine {
    Event(Value),
    Ended(NodeEnd),
}

/// Reads a node's lines until it ends: events, then its final object.
async fn follow(name: String, mut child: Child, lines: mpsc::Sender<(String, NodeLine)>) {
    let mut result = None;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = reader.next_line().await {
            match serde_json::from_str::<Value>(&line) {
                Ok(value) if value.get("event").is_some() => {
                    let _ = lines.send((name.clone(), NodeLine::Event(value))).await;
                }
                Ok(value) => result = Some(value),
                Err(_) => {}
            }
        }
    }
    let code = match child.wait().await {
        Ok(status) => status.code().filter(|&code| !signals::ended_by_signal(code)),
        Err(_) => Some(Exit::Internal.code()),
    };
    let _ = lines
        .send((name, NodeLine::Ended(NodeEnd { code, result })))
        .await;
}

/// The state of all nodes from their events, for the progress line.
struct Picture {
    parties: usize,
    rounds: u32,
    ready: usize,
    /// The party that the node waits for that spoke last.
    awaited: String,
    /// How far its slices are.
    slices: String,
    phase: BTreeMap<String, String>,
    round: BTreeMap<String, u64>,
    counts: BTreeMap<String, [u64; 4]>,
    /// The latest iteration of a training, or release of a stream, that some node has opened.
    iteration: u64,
    releases: u64,
    /// Whether it is a stream's.
    streams: bool,
    shown: Option<&'static str>,
}

const PHASES: [&str; 5] = ["gathering", "mixing", "settling", "publishing", "done"];

impl Picture {
    fn new(plan: &Plan) -> Self {
        Picture {
            parties: plan.parties(),
            rounds: plan.mixing_rounds(),
            ready: 0,
            awaited: String::new(),
            slices: String::new(),
            phase: BTreeMap::new(),
            round: BTreeMap::new(),
            counts: BTreeMap::new(),
            shown: None,
            iteration: 0,
            releases: plan.draft().releases(),
            streams: plan.draft().computation.stream().is_some(),
        }
    }

    fn see(&mut self, name: &str, event: &Value, progress: &mut Progress) {
        match event["event"].as_str() {
            Some("phase") => {
                let phase = event["phase"].as_str().unwrap_or("").to_owned();
                self.ready += usize::from(phase == "gathering");
                self.phase.insert(name.to_owned(), phase);
                self.awaited.clear();
                self.slices.clear();
            }
            Some("ready" | "waiting") => {
                self.awaited = event["waiting_for"].as_str().unwrap_or("").to_owned();
                self.slices = event["slices"].as_str().unwrap_or("").to_owned();
            }
            Some("round") => {
                self.round
                    .insert(name.to_owned(), event["round"].as_u64().unwrap_or(0));
            }
            Some("iteration") => self.iteration = self.iteration.max(event["k"].as_u64().unwrap_or(0)),
            Some("fault") => progress.milestone(&format!("{name}: {}", event["text"].as_str().unwrap_or(""))),
            _ => {}
        }
        // Counts of a node only grow; those of its last events come after its shares were answered.
        if let Some(accepted) = event["accepted"].as_u64() {
            let read = |key: &str| event[key].as_u64().unwrap_or(0);
            self.counts.insert(
                name.to_owned(),
                [
                    accepted,
                    read("returned"),
                    read("unanswered"),
                    read("private_bytes") + read("public_bytes"),
                ],
            );
        }
        self.draw(progress);
    }

    /// A phase's line changes in place while it lasts, and stays when the next begins.
    fn draw(&mut self, progress: &mut Progress) {
        let furthest = self
            .phase
            .values()
            .filter_map(|phase| PHASES.iter().position(|p| p == phase))
            .max()
            .unwrap_or(0);
        let phase = PHASES[furthest];
        let line = self.line(phase);
        if let Some(shown) = self.shown.filter(|shown| *shown != phase) {
            progress.milestone(&self.line(shown));
        }
        self.shown = Some(phase);
        match self.counted(phase) {
            Some((what, done, all)) => progress.count(what, done, all),
            None => progress.show(&line),
        }
    }

    /// Returns the numbers of a progress bar, where work is counted: releases of a training or a
    /// stream, or rounds.
    fn counted(&self, phase: &str) -> Option<(&'static str, u64, u64)> {
        let round = self.round.values().max().copied().unwrap_or(0);
        match phase {
            _ if self.iteration > 0 && self.releases > self.iteration => {
                let what = if self.streams { "stream" } else { "training" };
                Some((what, self.iteration, self.releases))
            }
            "mixing" if round > 0 && self.rounds > SHOWN_AS_BAR => {
                Some(("mixing", round, u64::from(self.rounds)))
            }
            _ => None,
        }
    }

    fn line(&self, phase: &str) -> String {
        let total = |i: usize| self.counts.values().map(|c| c[i]).sum::<u64>();
        let place = |phase: &str| PHASES.iter().position(|p| *p == phase);
        let there = self.phase.values().filter(|p| place(p) >= place(phase)).count();
        let stage = match phase {
            "gathering" => {
                let line = format!("gathering   {} of {} parties ready", self.ready, self.parties);
                return match &self.awaited[..] {
                    "" => line,
                    // What is missing then is a signature.
                    names if self.ready >= self.parties => format!("{line}; the start waits for {names}"),
                    names => format!("{line}, waiting for {names}"),
                };
            }
            "mixing" => format!(
                "round {} of {}",
                self.round.values().max().unwrap_or(&0),
                self.rounds
            ),
            _ => {
                let waiting = match &self.awaited[..] {
                    "" => String::new(),
                    names => format!(", waiting for {names}"),
                };
                let slices = match &self.slices[..] {
                    "" => String::new(),
                    slices => format!(", {slices}"),
                };
                format!("{there} of {} parties{slices}{waiting}", self.parties)
            }
        };
        if self.releases > 1 && self.iteration > 0 {
            let (iteration, releases) = (self.iteration, self.releases);
            let (what, each) = match self.streams {
                true => ("stream", "release"),
                false => ("training", "iteration"),
            };
            return format!("{what:<11} {each} {iteration} of {releases}, {}", bytes(total(3)));
        }
        let shares = format!(
            "shares {} accepted / {} returned / {} unanswered",
            total(0),
            total(1),
            total(2)
        );
        format!("{phase:<11} {stage}, {shares}, {}", bytes(total(3)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn chosen_ports_are_nobody_elses_until_they_are_let_go() {
        let (ports, held) = free_ports(8).expect("ports");
        let is_taken = |port: &u16| HeldPort::take(*port).is_none();
        assert!(ports.len() == 8 && ports.iter().all(is_taken));
        for port in &ports {
            let node = TcpListener::bind(("127.0.0.1", *port));
            assert!(node.is_ok(), "its nodes can listen there meanwhile");
        }
        drop(held);
        assert!(!ports.iter().any(is_taken), "and others afterwards");
    }
}
