//! A seeded, ordered simulator: all nodes of a run in one thread, over a network that delays, loses
//! connections, duplicates, and with nodes that crash, fall silent or are suspended. It drives the
//! very machine that a node drives, on real lattice vectors with real noise, and checks the
//! [invariants](crate::simulator::invariants) at every event. The same seed gives the same trace.
//!
//! Each direction of each connection is an ordered stream; different connections and the two graphs
//! reorder freely. What is on its way on a connection that breaks is lost. Segments that are lost
//! are sent again, as TCP does: what is behind them waits.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, ShareId};
use crate::messages::notice::Network;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::noise::LatticeNoise;
use crate::mixing::noisy::Noisy;
use crate::mixing::ticket::Tickets;
use crate::plan::checked::Plan;
use crate::plan::peers::simulated_keypair;
use crate::run::interface::{Input, Output};
use crate::run::machine::Identity;
use crate::run::outcome::{Event, GateVerdict, Outcome};
use crate::sealing::run_key::{PairKey, RunKey};
use crate::simulator::checks::Checks;
use crate::simulator::invariants::accused;
use crate::simulator::invariants::begun::Begun;
use crate::simulator::invariants::trace::Trace;
use crate::simulator::invariants::violation::Violation;
use crate::simulator::invariants::{agreed, mass, weight};
use crate::simulator::ledger::{Balance, Draws, Ledger, Recording, mixed_of, mixings_of};
use crate::simulator::network::{Links, Queued};
use crate::simulator::scenario::{Conditions, Fault, PrivatePhase, Purpose, Report};
use crate::simulator::stream::stream;
use crate::simulator::trainees::Trainees;
use crate::task::machine::Task;
use crate::time::Time;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// A stand-in for the real gate.
pub type Gate<'a> = dyn Fn(&Plan, &AgreedLogs) -> GateVerdict + 'a;

/// A gate that lets every member of the agreed set publish. For tests of what is not privacy.
pub fn permissive_gate(_: &Plan, logs: &AgreedLogs) -> GateVerdict {
    GateVerdict {
        publish: Some(logs.keys().copied().collect()),
        reason: String::new(),
    }
}

enum Status {
    Up,
    Suspended(VecDeque<Occurrence>),
    Down,
}

struct Node {
    task: Task,
    status: Status,
    ledger: Ledger,
    tickets: Tickets,
    outcome: Option<(Time, Outcome)>,
    /// Whether nobody needs it any more, as far as it knows.
    complete: bool,
    /// The moment when the latest wanted tick is due.
    tick: Time,
    /// The nanoseconds by which its clock is ahead.
    ahead: u64,
    shares_left: bool,
    bytes: (u64, u64),
}

impl Node {
    fn new(task: Task, status: Status, ledger: Ledger) -> Self {
        Node {
            task,
            status,
            ledger,
            tickets: Tickets::default(),
            outcome: None,
            complete: false,
            tick: Time::FAR,
            ahead: 0,
            shares_left: false,
            bytes: (0, 0),
        }
    }
}

enum Occurrence {
    Input {
        party: Party,
        input: Input,
    },
    Deliver {
        network: Network,
        from: Party,
        to: Party,
        epoch: u64,
        frame: Arc<[u8]>,
    },
    Handover {
        from: Party,
        to: Party,
        epoch: u64,
        frame: Arc<[u8]>,
        share: ShareId,
    },
    Connect {
        network: Network,
        ends: (Party, Party),
    },
    Break {
        network: Network,
        ends: (Party, Party),
        refuses: Option<Party>,
    },
    Fault(Fault),
    Resume(Party),
    /// A node that has ended waits no longer for anybody.
    Depart(Party),
}

/// A run of all parties.
pub struct Simulation<'a> {
    plan: Arc<Plan>,
    gate: &'a Gate<'a>,
    conditions: Conditions,
    rng: ChaCha8Rng,
    nodes: Vec<Node>,
    noised: Vec<LatticeVector>,
    links: Links,
    queue: BinaryHeap<Queued<Occurrence>>,
    order: u64,
    now: Time,
    events: Vec<(Time, Party, Event)>,
    private: PrivatePhase,
    trace: Trace,
    violations: Vec<Violation>,
    liar: Option<Party>,
    /// The messages sent so far, iteration by iteration.
    checks: BTreeMap<u32, Checks>,
    begun: Begun,
    trainees: Trainees<'a>,
    balance: Balance,
    outer: Option<Arc<Schedule>>,
    purposes: BTreeMap<Purpose, u64>,
    /// Some node's mixing state has become its final: sums over states end here.
    settled: bool,
    /// The inputs and outputs of each node, if a test asks for them.
    #[cfg(test)]
    journals: Vec<journal::Journal>,
    /// The hook by which a test sees and replaces each frame that is to travel.
    #[cfg(test)]
    wire: Option<lying::Wire<'a>>,
}

/// A party's own noise on its value, and the source of its correlated noise.
fn noise_of(plan: &Plan, seed: u64, party: Party, value: &mut LatticeVector) -> LatticeNoise<ChaCha8Rng> {
    let calibration = plan.calibration();
    let rng = stream(seed, "noise", party);
    let dimension = plan.mixed_coordinates();
    let mut noise = LatticeNoise::new(rng, *plan.lattice(), dimension, calibration.correlated_std);
    noise.add_independent(calibration.independent_std, value);
    noise
}

fn identity_of(seed: u64, party: Party) -> Identity {
    Identity {
        party,
        key: simulated_keypair(party),
        run_key: RunKey::draw(&mut stream(seed, "run key", party)),
        pair_key: PairKey::draw(&mut stream(seed, "pair key", party)),
        seal_seed: stream(seed, "seal", party).random(),
        nonce_secret: stream(seed, "nonce", party).random(),
        epoch: 0,
    }
}

impl<'a> Simulation<'a> {
    /// Prepares a run of a plan whose members are
    /// [simulated](crate::plan::peers::Peers::simulated). `inputs`: each party's clipped and
    /// rounded vector (or sum of rows), without noise.
    ///
    /// # Panics
    /// If there is not one input a party.
    pub fn new(
        plan: Arc<Plan>,
        inputs: Vec<LatticeVector>,
        gate: &'a Gate<'a>,
        conditions: Conditions,
    ) -> Self {
        assert_eq!(inputs.len(), plan.parties(), "one input a party");
        let (mut nodes, mut noised) = (Vec::new(), Vec::new());
        for (party, mut value) in inputs.into_iter().enumerate() {
            let noise = noise_of(&plan, conditions.seed, party, &mut value);
            let draws = Draws::default();
            let recording = Recording::new(noise, draws.clone(), mixings_of(&plan));
            let identity = identity_of(conditions.seed, party);
            // Each node knows its own number of records, and learns those of others from START.
            let own = plan.records_at_start().get(&party).map(|&count| (party, count));
            let task = Task::new(
                Arc::new(plan.with_records(&own.into_iter().collect())),
                identity,
                Noisy::with_noise_in(value.clone()),
                Box::new(recording),
                Time::ZERO,
            );
            let weight = plan.lattice().weight(plan.weight_units(party));
            let ledger = Ledger::new(plan.mechanism(party), mixed_of(&plan, &value), weight, draws);
            let status = match conditions.absent.contains(&party) {
                true => Status::Down,
                false => Status::Up,
            };
            nodes.push(Node::new(task, status, ledger));
            noised.push(value);
        }
        let liar = conditions
            .equivocation
            .as_ref()
            .map(|equivocation| equivocation.party)
            .or(conditions.false_reveal)
            .or(conditions.revealing.map(|(liar, _)| liar))
            .or(conditions.other_word.as_ref().map(|(liar, _)| *liar));
        let outer = Self::schedule_of_outer(&plan).map(Arc::new);
        let links = Links::new(&plan.private_links(), &plan.public_links());
        let mut simulation = Simulation {
            rng: stream(conditions.seed, "network", 0),
            plan,
            gate,
            conditions,
            nodes,
            noised,
            links,
            queue: BinaryHeap::new(),
            order: 0,
            now: Time::ZERO,
            events: Vec::new(),
            private: PrivatePhase::default(),
            trace: Trace::default(),
            violations: Vec::new(),
            liar,
            checks: BTreeMap::new(),
            begun: Begun::except(liar),
            trainees: Trainees::default(),
            balance: Balance::default(),
            outer,
            purposes: BTreeMap::new(),
            settled: false,
            #[cfg(test)]
            journals: Vec::new(),
            #[cfg(test)]
            wire: None,
        };
        simulation.prepare();
        simulation
    }

    fn prepare(&mut self) {
        for (network, ends) in self.links.edges() {
            let at = self.after_latency();
            self.schedule(at, Occurrence::Connect { network, ends });
        }
        for fault in self.conditions.faults.clone() {
            self.schedule(fault.at(), Occurrence::Fault(fault));
        }
        (0..self.nodes.len()).for_each(|party| self.drain(party));
    }

    fn schedule(&mut self, at: Time, what: Occurrence) {
        self.order += 1;
        self.queue.push(Queued {
            at,
            order: self.order,
            what,
        });
    }

    fn after_latency(&mut self) -> Time {
        let (from, to) = self.conditions.latency_us;
        self.now + self.rng.random_range(from * 1000..=to * 1000)
    }

    /// Returns when a node's own work (its disk, its gate) is over: after about a message's
    /// latency, or at once.
    fn after_work(&mut self) -> Time {
        if self.conditions.instant {
            self.now
        } else {
            self.after_latency()
        }
    }

    /// Runs until nothing more happens.
    pub fn run(mut self) -> Report {
        self.play();
        self.finish()
    }

    fn play(&mut self) {
        while let Some(Queued { at, what, .. }) = self.queue.pop() {
            if at > self.conditions.until {
                break;
            }
            self.now = at;
            self.happen(what);
        }
    }

    fn happen(&mut self, what: Occurrence) {
        match what {
            Occurrence::Connect { network, ends } => self.connect(network, ends),
            Occurrence::Break {
                network,
                ends,
                refuses,
            } => self.break_link(network, ends, refuses),
            Occurrence::Fault(fault) => self.go_wrong(fault),
            Occurrence::Resume(party) => {
                let status = &mut self.nodes[party].status;
                if let Status::Suspended(backlog) = status {
                    let backlog = std::mem::take(backlog);
                    *status = Status::Up;
                    backlog.into_iter().for_each(|what| self.schedule(self.now, what));
                }
            }
            Occurrence::Input { party, .. }
            | Occurrence::Depart(party)
            | Occurrence::Deliver { to: party, .. }
            | Occurrence::Handover { from: party, .. } => match &mut self.nodes[party].status {
                Status::Up => self.reach(what),
                Status::Suspended(backlog) => backlog.push_back(what),
                Status::Down => {}
            },
        }
    }

    /// Something reaches a node that is up.
    fn reach(&mut self, what: Occurrence) {
        match what {
            Occurrence::Input {
                party,
                input: Input::Tick,
            } if self.clock(party) < self.nodes[party].tick => {}
            Occurrence::Input { party, input } => self.feed(party, input),
            Occurrence::Depart(party) => self.depart(party),
            Occurrence::Deliver {
                network,
                from,
                to,
                epoch,
                frame,
            } if self.links.epoch(network, from, to) == Some(epoch) => {
                let input = match network {
                    Network::Public => Input::Public {
                        from,
                        frame: Bytes::from_owner(frame),
                    },
                    Network::Private => {
                        match wire::read_private(&frame) {
                            Ok(PrivateFrame::Share { .. }) => self.private.last_arrived = Some(self.now),
                            Ok(PrivateFrame::Answer { .. }) => self.private.last_answered = Some(self.now),
                            _ => {}
                        }
                        Input::Private {
                            from,
                            frame: Bytes::from_owner(frame),
                        }
                    }
                };
                self.feed(to, input);
            }
            Occurrence::Handover {
                from,
                to,
                epoch,
                frame,
                share,
            } if self.links.epoch(Network::Private, from, to) == Some(epoch)
                && self.nodes[from].tickets.of(share).take() =>
            {
                self.nodes[from].shares_left = true;
                self.private.first_left.get_or_insert(self.now);
                self.transmit(Network::Private, from, to, frame);
                self.feed(from, Input::Left { share });
            }
            _ => {}
        }
    }

    /// Puts a frame on its way, if there is one; how many bytes of it travel.
    fn transmit(&mut self, network: Network, from: Party, to: Party, frame: Arc<[u8]>) -> u64 {
        let Some(epoch) = self.links.epoch(network, from, to) else {
            return 0;
        };
        #[cfg(test)]
        let Some(frame) = self.on_the_wire((network, epoch), (from, to), frame) else {
            return 0;
        };
        let travels = frame.len() as u64;
        let bytes = &mut self.nodes[from].bytes;
        match network {
            Network::Private => bytes.0 += travels,
            Network::Public => bytes.1 += travels,
        }
        let twice = self.conditions.duplicates > 0.0 && self.rng.random_bool(self.conditions.duplicates);
        for _ in 0..1 + usize::from(twice) {
            let at = self.after_latency() + self.delay(network, (from, to), frame.len());
            let at = self.links.in_order(network, from, to, at);
            self.schedule(
                at,
                Occurrence::Deliver {
                    network,
                    from,
                    to,
                    epoch,
                    frame: frame.clone(),
                },
            );
        }
        travels
    }

    fn feed(&mut self, party: Party, input: Input) {
        let (what, bytes): (&str, &[u8]) = match &input {
            Input::Public { frame, .. } => ("public", frame),
            Input::Private { frame, .. } => ("private", frame),
            Input::Connected { .. } => ("connected", &[]),
            Input::Disconnected { .. } => ("disconnected", &[]),
            Input::Unreachable { .. } => ("unreachable", &[]),
            Input::Refused { .. } => ("refused", &[]),
            Input::Declined { .. } => ("declined", &[]),
            Input::Unanswered { .. } => ("unanswered", &[]),
            Input::Left { .. } => ("left", &[]),
            Input::Recalled(_) => ("recalled", &[]),
            Input::Leave => ("leave", &[]),
            Input::Spent(_) => ("spent", &[]),
            Input::Revealed(_) => ("revealed", &[]),
            Input::Contribution { .. } => ("contribution", &[]),
            Input::Verdict(_) => ("verdict", &[]),
            Input::Tick => ("tick", &[]),
        };
        self.trace.push(self.now, &format!("{party} {what}"), bytes);
        if let Input::Verdict(verdict) = &input {
            self.checks_of_present(party).verdict(party, verdict);
            self.settled = true;
        }
        let public = matches!(input, Input::Public { .. });
        self.hand_in(party, input);
        self.drain(party);
        self.check_sums(party, !public);
    }

    fn hand_in(&mut self, party: Party, input: Input) {
        #[cfg(test)]
        if let Some(journal) = self.journals.get_mut(party) {
            journal.handled(self.now + self.nodes[party].ahead, &input);
        }
        let now = self.clock(party);
        if let Err(error) = self.nodes[party].task.handle(now, input) {
            self.violations.push(Violation::new("driver", error.to_string()));
        }
    }

    fn poll_output(&mut self, party: Party) -> Output {
        let output = self.nodes[party].task.poll_output();
        #[cfg(test)]
        if let Some(journal) = self.journals.get_mut(party) {
            journal.said(&output);
        }
        output
    }

    fn drain(&mut self, party: Party) {
        if matches!(self.nodes[party].status, Status::Down) {
            return;
        }
        loop {
            match self.poll_output(party) {
                Output::Public { to, frame } => {
                    let (iteration, inner) =
                        wire::of_iteration(&Bytes::from_owner(frame.clone())).expect("our own frame");
                    let (purpose, violations) = self.checks_of(iteration).public(&inner);
                    self.broken_in_public(violations);
                    self.replay(Network::Public, (party, to), &frame);
                    let Some(frame) = self.really_sent(party, to, frame) else {
                        continue;
                    };
                    if self.revealed_late(party, to, &frame) {
                        continue;
                    }
                    let travels = self.transmit(Network::Public, party, to, frame);
                    if let Some(purpose) = purpose {
                        *self.purposes.entry(purpose).or_insert(0) += travels;
                    }
                }
                Output::Recall(shares) => {
                    // Asked and answered within this event.
                    let recalled = self.nodes[party].tickets.recall(&shares);
                    self.hand_in(party, Input::Recalled(recalled));
                }
                Output::Private { to, frame, share } => {
                    let Some(frame) = self.other_word(party, to, frame) else {
                        continue;
                    };
                    let plan = self.nodes[party].task.plan().clone();
                    let outer = self.outer.clone();
                    let schedule = outer.as_deref().unwrap_or(plan.schedule());
                    let violations = self.checks_of_mixing(party).private(schedule, &frame);
                    self.violations.extend(violations);
                    self.replay(Network::Private, (party, to), &frame);
                    self.send_private(party, to, frame, share);
                }
                Output::Spend => self.spend(party),
                // Asked and answered within this event.
                Output::Reveal => self.hand_in(party, Input::Revealed(Ok(()))),
                Output::Audit(_) if self.conditions.no_verdict == Some(party) => {}
                Output::Audit(logs) => {
                    let verdict = (self.gate)(self.nodes[party].task.plan(), &logs);
                    let at = self.after_work();
                    self.schedule(
                        at,
                        Occurrence::Input {
                            party,
                            input: Input::Verdict(verdict),
                        },
                    );
                }
                Output::Contribute { iteration, released } => self.contribute(party, iteration, &released),
                Output::Event(event) => self.reported(party, event),
                Output::Finished(outcome) => self.ended(party, *outcome),
                Output::Wait { until } => {
                    self.wake(party, until);
                    break;
                }
            }
        }
        let node = &mut self.nodes[party];
        if node.outcome.is_some() && std::mem::take(&mut node.complete) {
            // What waits in the transport's queue leaves first.
            let flushed = self.now + self.longest_wait();
            self.schedule(flushed, Occurrence::Depart(party));
        }
    }

    /// The longest that a share waits in the transport's queue, in nanoseconds.
    fn longest_wait(&self) -> u64 {
        match self.conditions.instant {
            true => 0,
            false => self.conditions.latency_us.1 * 500,
        }
    }

    fn send_private(&mut self, from: Party, to: Party, frame: Arc<[u8]>, share: Option<ShareId>) {
        let Some(epoch) = self.links.epoch(Network::Private, from, to) else {
            return;
        };
        match share {
            None => {
                self.transmit(Network::Private, from, to, frame);
            }
            Some(share) => {
                // The transport's own queue: a share leaves a moment after it was given out, or is
                // recalled before.
                let longest = self.longest_wait();
                let moment = self.rng.random_range(0..=longest);
                self.schedule(
                    self.now + moment,
                    Occurrence::Handover {
                        from,
                        to,
                        epoch,
                        frame,
                        share,
                    },
                );
            }
        }
    }
}

mod checking;
mod clocks;
mod faults;
mod gossiping;
mod lying;
mod training;

#[cfg(test)]
mod averaging_tests;
#[cfg(test)]
mod journal;
#[cfg(test)]
pub(crate) mod tests;
