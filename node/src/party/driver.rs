//! One task owns the machine: it hands it what the network, the gate and the clock say, and does
//! what the machine wants.
//!
//! The network lives on worker threads and never waits for the machine; long vectors (noise,
//! splitting, encoding) are worked on here.

mod reporting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libp2p::PeerId;
use libp2p::identity::Keypair;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use undertone_accountant::gate::decision;
use undertone_accountant::gate::verdict::Verdict;
use undertone_protocol::agreement::shelf::Shelf;
use undertone_protocol::messages::log::{AgreedLogs, ShareId};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::wire::Bytes;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::mixing::portion::Noise;
use undertone_protocol::mixing::ticket::Tickets;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::interface::{Input, Output};
use undertone_protocol::run::machine::Identity;
use undertone_protocol::run::outcome::{GateVerdict, Outcome, SliceProgress};
use undertone_protocol::sealing::run_key::{PairKey, RunKey};
use undertone_protocol::task::machine::Task;
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::network::config::{HubConfig, NetworkError};
use crate::network::event::{LinkWay, NetworkEvent};
use crate::network::handle::Handle;
use crate::network::hub::Hub;
use crate::network::queue::Frame;
use crate::network::run_network::RunNetwork;
use crate::party::contributor::Contributor;
use crate::party::events::Events;
use crate::party::iteration_times::IterationTimes;
use crate::party::links::{self, Links};
use crate::party::reaching::run_configuration;
use crate::party::run_clock::RunClock;
use crate::party::silence::{Silence, SilenceLog};
use crate::party::spent::Costs;
use crate::reporting::failure::Failure;
use crate::reporting::logging::EVENTS;

/// The number of one peer's offences that are reported; a peer that goes on is ignored without a
/// word.
const OFFENCES_REPORTED: u32 = 20;

/// How long queued frames may take to leave at the end.
const FLUSH: Duration = Duration::from_millis(500);

/// A node's part in a run, ready to begin.
pub struct Part {
    /// The plan that all members agreed on.
    pub plan: Arc<Plan>,
    /// The party of the plan that this node is.
    pub me: Party,
    /// The key that it signs with.
    pub key: Keypair,
    /// The party's contribution, x̃: its clipped value with its own noise, on the lattice.
    pub value: Noisy,
    /// The source of its correlated noise.
    pub noise: Noise,
    /// Where the plan is marked as spent.
    pub costs: Box<dyn Costs>,
    /// The destination of the run's events.
    pub events: Events,
    /// Where it keeps everybody's finals.
    pub shelf: Shelf,
    /// In a training: what contributes to its later iterations.
    pub contributor: Option<Box<dyn Contributor>>,
}

/// How the run ended, with what the gate computed.
#[derive(Debug)]
pub struct Finish {
    /// The outcome that the machine of the run reports.
    pub outcome: Outcome,
    /// The gate's account of the agreed logs, if it came to that.
    pub gate: Option<Verdict>,
    /// How often this node has revealed its number for the draw of the plan's schedule; 0 where
    /// nothing is drawn at START.
    pub draws: u64,
    /// Whether the others begin without this node.
    pub left_out: bool,
    /// Seconds from START to the result.
    pub wall_s: f64,
    /// Milliseconds from one iteration of a training to the next, as `{median, worst}`; else null.
    pub iteration_ms: Value,
    /// Rounds to which the party contributed nothing, for its owner alone.
    pub silence: Silence,
    /// Which way each neighbour's connections took.
    pub links: Value,
    /// Bytes that this node sent on the private graph.
    pub private_bytes: u64,
    /// Bytes that this node sent on the public graph.
    pub public_bytes: u64,
}

/// The interval between reports on the parties that a stage waits for: a stage that nothing holds
/// up takes less.
const LOOK: Duration = Duration::from_secs(1);

struct Driver {
    plan: Arc<Plan>,
    me: Party,
    task: Task,
    tickets: Tickets,
    clock: RunClock,
    network: Handle,
    peers: BTreeMap<PeerId, Party>,
    costs: Box<dyn Costs>,
    events: Events,
    audits: mpsc::Sender<Verdict>,
    /// Works away from the network's thread.
    contributor: Option<Arc<Mutex<Box<dyn Contributor>>>>,
    silence: SilenceLog,
    links: Links,
    contributions: mpsc::Sender<(u32, Noisy)>,
    gate: Option<Verdict>,
    iteration_times: IterationTimes,
    finish: Option<(Outcome, Time)>,
    /// How often this node has revealed its number for the plan's draw, this start included.
    draws: u64,
    /// The others begin without it.
    left_out: bool,
    /// Whether it has signed a START that it has not given up.
    has_signed: bool,
    complete: bool,
    /// The parties that the present stage waits for, as last reported.
    awaited: (Vec<Party>, Option<SliceProgress>),
    offences: BTreeMap<Party, u32>,
    strangers: BTreeSet<PeerId>,
}

/// Takes part in the run, with a network of its own: that of [`hub_configuration`], or one that
/// listens elsewhere than the plan says, behind a proxy. `finished` is called once with the result,
/// before this node lingers for the others' sake; if it fails, the node still lingers, and this
/// fails afterwards. If `leave` comes before the run's end, this node ends its part at once and
/// closes its connections, so that its neighbours find it gone and do not wait for it.
///
/// [`hub_configuration`]: crate::party::reaching::hub_configuration
pub async fn drive_alone(
    hub: HubConfig,
    part: Part,
    leave: impl Future<Output = ()>,
    finished: impl FnMut(&Finish) -> Result<(), Failure>,
) -> Result<Finish, Failure> {
    let run = run_configuration(&part.plan, part.me);
    let (network, inbox) = RunNetwork::start(hub, run).await.map_err(refused)?;
    let result = drive_with(network.handle(), inbox, part, leave, finished).await;
    network.shutdown(FLUSH).await;
    result
}

/// Takes part in the run over a hub that has other runs too, as [`drive_alone`] does.
pub async fn drive_on(
    hub: &Hub,
    part: Part,
    leave: impl Future<Output = ()>,
    finished: impl FnMut(&Finish) -> Result<(), Failure>,
) -> Result<Finish, Failure> {
    let (attachment, inbox) = hub
        .attach(run_configuration(&part.plan, part.me))
        .map_err(refused)?;
    let result = drive_with(attachment.handle(), inbox, part, leave, finished).await;
    attachment.shutdown(FLUSH).await;
    result
}

async fn drive_with(
    network: Handle,
    mut inbox: mpsc::Receiver<NetworkEvent>,
    part: Part,
    leave: impl Future<Output = ()>,
    mut finished: impl FnMut(&Finish) -> Result<(), Failure>,
) -> Result<Finish, Failure> {
    let (audits, mut audited) = mpsc::channel(1);
    let (contributions, mut contributed) = mpsc::channel(1);
    let mut driver = Driver::new(part, network, (audits, contributions));
    let mut linger: Option<Time> = None;
    let mut finish: Option<Finish> = None;
    let mut undelivered: Option<Failure> = None;
    let mut concluding = None;
    let (mut leave, mut leaving) = (std::pin::pin!(leave), false);
    let mut looking = tokio::time::interval(LOOK);
    looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let until = driver.carry_out().await;
        // The result is there: it is written at once. Others may still need our answers.
        if let Some(result) = driver.result() {
            concluding = driver.conclude(&result.outcome);
            undelivered = finished(&result).err();
            linger = Some(driver.task.others_end(&result.outcome, driver.now()));
            finish = Some(result);
        }
        // Nobody needs our answers any more, or we were asked to leave.
        if linger.is_some_and(|end| leaving || driver.complete || driver.now() >= end) {
            break;
        }
        // Whatever comes first: a frame, an audit, a request to leave, a deadline.
        let until = linger.map_or(until, |end| end.min(until));
        let wake = driver.clock.when(until);
        tokio::select! {
            event = inbox.recv() => match event {
                Some(event) => driver.network_event(event),
                None => break,
            },
            // One that comes after the machine gave up waiting changes nothing.
            Some(gate) = audited.recv(), if linger.is_none() => driver.audited(gate),
            Some((iteration, value)) = contributed.recv(), if linger.is_none() => {
                driver.feed(Input::Contribution { iteration, value });
            }
            () = &mut leave, if !leaving => {
                leaving = true;
                driver.feed(Input::Leave);
            }
            _ = looking.tick(), if linger.is_none() => driver.tell_awaited(),
            () = tokio::time::sleep_until(wake.into()) => driver.feed(Input::Tick),
        }
    }
    if let Some(concluding) = concluding {
        // It has a time limit of its own; the runtime reports a panic in it.
        let _ = concluding.await;
    }
    let mut finish = finish.ok_or_else(|| {
        Failure::new(
            crate::reporting::failure::Exit::Internal,
            "the network ended before the run",
        )
    })?;
    (finish.private_bytes, finish.public_bytes) =
        (driver.network.private_bytes(), driver.network.public_bytes());
    match undelivered {
        Some(failure) => Err(failure),
        None => Ok(finish),
    }
}

fn refused(error: NetworkError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        NetworkError::PortInUse { .. } => failure.field("members.private or members.public"),
        _ => failure,
    }
}

/// A number larger than those of earlier starts of this node, as long as its clock does not run
/// backwards.
fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() as u64) << 16
}

impl Driver {
    fn new(
        part: Part,
        network: Handle,
        (audits, contributions): (mpsc::Sender<Verdict>, mpsc::Sender<(u32, Noisy)>),
    ) -> Self {
        let Part {
            plan,
            me,
            key,
            value,
            noise,
            costs,
            events,
            shelf,
            contributor,
        } = part;
        let members = plan.draft().members.iter().enumerate();
        let peers = members.map(|(party, member)| (member.id, party)).collect();
        let identity = Identity {
            party: me,
            key,
            run_key: RunKey::draw(&mut rand::rng()),
            pair_key: PairKey::draw(&mut rand::rng()),
            seal_seed: rand::random(),
            nonce_secret: rand::random(),
            epoch: epoch(),
        };
        let task = Task::new(plan.clone(), identity, value, noise, Time::ZERO).shelving(&shelf);
        Driver {
            plan,
            me,
            task,
            tickets: Tickets::default(),
            clock: RunClock::start(),
            network,
            peers,
            costs,
            events,
            audits,
            silence: contributor.as_ref().map(|it| it.silence()).unwrap_or_default(),
            links: Links::default(),
            contributor: contributor.map(|contributor| Arc::new(Mutex::new(contributor))),
            contributions,
            gate: None,
            finish: None,
            draws: 0,
            left_out: false,
            has_signed: false,
            iteration_times: IterationTimes::default(),
            complete: false,
            awaited: (vec![], None),
            offences: BTreeMap::new(),
            strangers: BTreeSet::new(),
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn name(&self, party: Party) -> &str {
        &self.plan.draft().members[party].name
    }

    fn names(&self, parties: &[Party]) -> Vec<&str> {
        parties.iter().map(|&party| self.name(party)).collect()
    }

    fn feed(&mut self, input: Input) {
        if let Err(error) = self.task.handle(self.now(), input) {
            tracing::error!(%error, "an input that the machine did not ask for");
        }
    }

    /// Does what the machine wants; returns when it wants to be woken.
    async fn carry_out(&mut self) -> Time {
        loop {
            match self.task.poll_output() {
                Output::Wait { until } => return until,
                Output::Public { to, frame } => self.send(Network::Public, to, Frame::new(frame)),
                Output::Private { to, frame, share } => {
                    let frame = self.private_frame(frame, share);
                    self.send(Network::Private, to, frame);
                }
                Output::Recall(shares) => {
                    let recalled = self.tickets.recall(&shares);
                    self.feed(Input::Recalled(recalled));
                }
                Output::Spend => {
                    // The first run marks the plan, whether or not it has an iteration.
                    let result = match self.task.run_number() {
                        1 => self.costs.spend(),
                        _ => self.costs.spend_iteration(self.task.iteration()),
                    };
                    self.feed(Input::Spent(result.map_err(|failure| failure.to_string())));
                }
                Output::Reveal => {
                    let result = self.costs.reveal().map(|draws| self.draws = draws);
                    self.feed(Input::Revealed(result.map_err(|failure| failure.to_string())));
                }
                Output::Contribute { iteration, released } => self.release(iteration, released),
                Output::Audit(logs) => self.audit(logs),
                Output::Event(event) => self.tell(event),
                Output::Finished(outcome) => self.finish = Some((*outcome, self.now())),
            }
        }
    }

    /// A share's frame has its ticket, and its round as a token.
    fn private_frame(&mut self, bytes: Arc<[u8]>, share: Option<ShareId>) -> Frame {
        match share {
            None => Frame::new(bytes),
            Some(share) => Frame {
                bytes,
                ticket: Some(Arc::new(self.tickets.of(share))),
                token: u64::from(share.round),
            },
        }
    }

    /// A share of this round has begun to leave towards a peer.
    fn left(&mut self, peer: &PeerId, round: u64) {
        if let (Some(to), Ok(round)) = (self.party(peer), u32::try_from(round)) {
            let from = self.me;
            self.feed(Input::Left {
                share: ShareId { round, from, to },
            });
        }
    }

    fn send(&self, graph: Network, to: Party, frame: Frame) {
        if let Err(error) = self.network.send(graph, self.plan.draft().members[to].id, frame) {
            tracing::warn!(peer = self.name(to), %graph, %error, "a frame was not sent");
        }
    }

    fn audit(&self, logs: Arc<AgreedLogs>) {
        let (plan, audits) = (self.task.plan().clone(), self.audits.clone());
        tokio::task::spawn_blocking(move || {
            // The receiver lives as long as the driver; without it nobody wants the answer.
            let _ = audits.blocking_send(decision::gate(&plan, &logs));
        });
    }

    /// A later contribution is wanted. A stream's leaves without another mark: what it costs is
    /// written before there is one, or this party leaves.
    fn release(&mut self, iteration: u32, released: Arc<[f64]>) {
        if self.plan.draft().averages()
            && let Err(failure) = self.costs.spend_iteration(iteration)
        {
            tracing::error!(iteration, "no release leaves any more: {failure}");
            return self.feed(Input::Leave);
        }
        self.contribute(iteration, released);
    }

    fn contribute(&self, iteration: u32, released: Arc<[f64]>) {
        let Some(contributor) = self.contributor.clone() else {
            return tracing::error!(iteration, "a contribution is wanted, and there is none");
        };
        let contributions = self.contributions.clone();
        tokio::task::spawn_blocking(move || {
            let mut contributor = contributor.lock().unwrap_or_else(PoisonError::into_inner);
            // The receiver lives as long as the driver; without it nobody wants the value.
            let _ = contributions.blocking_send((iteration, contributor.contribution(iteration, &released)));
        });
    }

    /// Reports the result of the training to the source of its contributions.
    fn conclude(&mut self, outcome: &Outcome) -> Option<JoinHandle<()>> {
        let contributor = self.contributor.take()?;
        let training = outcome.training.as_ref();
        let mut result = training.and_then(|training| training.result.clone());
        let dimension = self.plan.draft().dimension();
        if let (true, Some(rows)) = (self.plan.draft().sums_everybody(), &mut result) {
            // Of a stream's rows the last.
            rows.drain(..rows.len().saturating_sub(dimension));
        }
        let gossip = outcome.gossip.as_ref();
        let last = gossip.and_then(|gossip| gossip.estimates.rchunks(dimension).next().map(<[f64]>::to_vec));
        let result = result.or(last);
        Some(tokio::task::spawn_blocking(move || {
            let mut contributor = contributor.lock().unwrap_or_else(PoisonError::into_inner);
            contributor.conclude(result.as_deref());
        }))
    }

    fn audited(&mut self, gate: Verdict) {
        let (mut publish, mut reason) = (gate.publish.clone(), gate.reason.clone());
        if let Err(failure) = self.costs.settle(gate.audit.mu) {
            self.fault(&failure.message);
            // A sealed final has left: withholding its secret would keep it from nobody.
            if !self.plan.draft().run.sealed {
                (publish, reason) = (None, failure.message);
            }
        }
        let verdict = GateVerdict { publish, reason };
        // Of a training's iterations the one that costs most stands for all.
        let costs_more = |earlier: &Verdict| earlier.publish.is_some() && earlier.audit.mu > gate.audit.mu;
        if !(self.plan.draft().releases() > 1 && self.gate.as_ref().is_some_and(costs_more)) {
            self.gate = Some(gate);
        }
        self.feed(Input::Verdict(verdict));
    }

    /// How it ended, once, when the machine has finished.
    fn result(&mut self) -> Option<Finish> {
        let (outcome, at) = self.finish.take()?;
        let wall_s = outcome
            .started_at
            .map_or(0.0, |start| at.since(start) as f64 / 1e9);
        let (private_bytes, public_bytes) = (self.network.private_bytes(), self.network.public_bytes());
        Some(Finish {
            outcome,
            gate: self.gate.take(),
            draws: self.draws,
            left_out: self.left_out,
            wall_s,
            iteration_ms: self.iteration_times.json(),
            silence: self.silence.so_far(),
            links: self.links.json(&self.plan),
            private_bytes,
            public_bytes,
        })
    }

    fn network_event(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Connected { graph, peer, way } => self.edge(graph, peer, Some(way)),
            NetworkEvent::Disconnected { graph, peer } => self.edge(graph, peer, None),
            NetworkEvent::Unreachable { peer } => {
                if let Some(party) = self.party(&peer) {
                    tracing::info!(target: EVENTS, peer = self.name(party), "peer lost");
                    self.peer_event(party, "unreachable");
                    self.feed(Input::Unreachable { peer: party });
                }
            }
            NetworkEvent::Refused { peer, place } => {
                if let Some(peer) = self.party(&peer) {
                    self.tell_refused(peer, &place);
                    self.feed(Input::Refused { peer });
                }
            }
            NetworkEvent::Declined { peer } => {
                if let Some(peer) = self.party(&peer) {
                    self.peer_event(peer, "takes no part");
                    self.feed(Input::Declined { peer });
                }
            }
            NetworkEvent::Unanswered { peer, place, fault } => {
                if let Some(peer) = self.party(&peer) {
                    self.tell_unanswered(peer, &place, &fault);
                    self.feed(Input::Unanswered { peer });
                }
            }
            NetworkEvent::Absent { graph, peer } => {
                if let Some(party) = self.party(&peer) {
                    self.peer_event(party, &format!("{graph} answers, has no such run"));
                }
            }
            NetworkEvent::Frame { graph, peer, bytes } => {
                let Some(from) = self.party(&peer) else { return };
                let (bytes, permit) = bytes.into_parts();
                let frame = Bytes::from(bytes);
                self.feed(match graph {
                    Network::Private => Input::Private { from, frame },
                    Network::Public => Input::Public { from, frame },
                });
                drop(permit);
            }
            NetworkEvent::Left { peer, token, .. } => self.left(&peer, token),
            NetworkEvent::Offence {
                graph,
                peer,
                address,
                offence,
            } => {
                let party = peer.and_then(|peer| self.party(&peer));
                let who = match (party, address) {
                    (Some(party), _) => self.name(party).to_owned(),
                    (None, Some(address)) => address.to_string(),
                    (None, None) => "somebody".to_owned(),
                };
                self.offence(party, &format!("{who}, {graph} graph: {offence}"));
            }
            NetworkEvent::Stranger { graph, peer, address } => {
                if self.strangers.len() < OFFENCES_REPORTED as usize && self.strangers.insert(peer) {
                    self.fault(&format!(
                        "{peer} at {address} is not in the plan and was refused on the {graph} graph"
                    ));
                }
            }
            NetworkEvent::ListenFailed { graph, reason } => {
                self.fault(&format!("listening on the {graph} graph: {reason}"))
            }
        }
    }

    fn party(&self, peer: &PeerId) -> Option<Party> {
        self.peers.get(peer).copied()
    }

    /// An edge has come up on this way, or is down.
    fn edge(&mut self, graph: Network, peer: PeerId, way: Option<LinkWay>) {
        let Some(peer) = self.party(&peer) else { return };
        tracing::debug!(peer = self.name(peer), %graph, ?way, "edge");
        let input = match way {
            Some(way) => {
                self.links.note(peer, graph, way);
                let over = match way {
                    LinkWay::Relayed(_) => format!(" {}", links::in_words(&self.plan, way)),
                    LinkWay::Plain | LinkWay::Encrypted => String::new(),
                };
                self.peer_event(peer, &format!("{graph} connected{over}"));
                Input::Connected { network: graph, peer }
            }
            None => {
                self.peer_event(peer, &format!("{graph} disconnected"));
                Input::Disconnected { network: graph, peer }
            }
        };
        self.feed(input);
    }
}

#[cfg(test)]
mod tests;
