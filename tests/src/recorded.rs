//! Runs whose every frame is recorded: all parties in one thread, over a network that delays each
//! frame by a seeded time. The seed decides everything, so a recording can be compared to the byte.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::wire::Bytes;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::ticket::Recalled;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::{Input, Output};
use undertone_protocol::run::machine::Identity;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::sealing::run_key::{PairKey, RunKey};
use undertone_protocol::task::machine::Task;
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::simulated::{contributions, real_gate};

/// No recorded run takes longer by the machines' clocks.
const LONGEST_MS: u64 = 600_000;

/// A frame that a machine sent.
pub struct Frame {
    /// The graph that it travelled on.
    pub network: Network,
    /// The party that sent it.
    pub from: Party,
    /// The party that it was sent to.
    pub to: Party,
    /// The frame's bytes, without their length before them.
    pub bytes: Arc<[u8]>,
}

/// The frames of a run, and how it ended.
pub struct Recording {
    /// Every frame, in the order in which machines sent them.
    pub frames: Vec<Frame>,
    /// Each party's outcome; none of the one that was killed.
    pub outcomes: Vec<Option<Outcome>>,
}

/// A party that dies when it has sent this many shares: its connections close and its address
/// refuses new ones.
#[derive(Clone, Copy)]
pub struct Kill {
    /// The party that dies.
    pub party: Party,
    /// How many of its shares it has sent by then.
    pub shares: usize,
}

impl Recording {
    /// Runs a plan to its end.
    pub fn of(plan: &Arc<Plan>, seed: u64, kill: Option<Kill>) -> Self {
        let mut recorder = Recorder::new(plan, seed, kill);
        recorder.run();
        Recording {
            frames: recorder.frames,
            outcomes: recorder.outcomes,
        }
    }
}

struct Recorder {
    plan: Arc<Plan>,
    tasks: Vec<Task>,
    delays: ChaCha8Rng,
    kill: Option<Kill>,
    alive: Vec<bool>,
    /// By time and order, which input reaches whom.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    inputs: BTreeMap<usize, (Party, Input)>,
    order: usize,
    /// When the last frame from one to another on a graph arrives: a connection keeps its order.
    arrivals: BTreeMap<(bool, Party, Party), u64>,
    now_ns: u64,
    frames: Vec<Frame>,
    outcomes: Vec<Option<Outcome>>,
}

impl Recorder {
    fn new(plan: &Arc<Plan>, seed: u64, kill: Option<Kill>) -> Self {
        let machine = |(party, value)| machine(plan, seed, party, value);
        let tasks = contributions(plan).into_iter().enumerate().map(machine).collect();
        Recorder {
            tasks,
            delays: ChaCha8Rng::seed_from_u64(seed),
            kill,
            alive: vec![true; plan.parties()],
            queue: BinaryHeap::new(),
            inputs: BTreeMap::new(),
            order: 0,
            arrivals: BTreeMap::new(),
            now_ns: 0,
            frames: vec![],
            outcomes: vec![None; plan.parties()],
            plan: plan.clone(),
        }
    }

    fn run(&mut self) {
        let draft = self.plan.draft();
        let graphs = [
            (Network::Private, draft.private_graph.clone()),
            (Network::Public, draft.public_graph.clone()),
        ];
        for party in 0..self.tasks.len() {
            for (network, graph) in &graphs {
                for &peer in graph.neighbours(party) {
                    let network = *network;
                    self.schedule(0, party, Input::Connected { network, peer });
                }
            }
        }
        while let Some(Reverse((at, order))) = self.queue.pop() {
            let (party, input) = self.inputs.remove(&order).expect("every order has its input");
            if self.alive[party] {
                assert!(at < LONGEST_MS * 1_000_000, "somebody waits for ever");
                self.now_ns = at;
                self.feed(party, input);
            }
            let ended = |party: Party| !self.alive[party] || self.outcomes[party].is_some();
            if (0..self.tasks.len()).all(ended) {
                return;
            }
        }
        panic!("everybody waits for nothing");
    }

    fn schedule(&mut self, at_ns: u64, party: Party, input: Input) {
        self.inputs.insert(self.order, (party, input));
        self.queue.push(Reverse((at_ns, self.order)));
        self.order += 1;
    }

    fn feed(&mut self, party: Party, input: Input) {
        let now = Time::from_nanos(self.now_ns);
        self.tasks[party]
            .handle(now, input)
            .expect("the recorder asks for nothing that it should not");
        loop {
            match self.tasks[party].poll_output() {
                Output::Wait { until } => {
                    if until < Time::FAR {
                        let at = until.as_nanos().max(self.now_ns + 1);
                        self.schedule(at, party, Input::Tick);
                    }
                    return;
                }
                output => self.carry_out(party, output),
            }
            if !self.alive[party] {
                return;
            }
        }
    }

    fn carry_out(&mut self, party: Party, output: Output) {
        match output {
            Output::Public { to, frame } => self.send(Network::Public, party, to, frame),
            Output::Private { to, frame, share } => {
                self.send(Network::Private, party, to, frame);
                if let Some(share) = share {
                    self.schedule(self.now_ns, party, Input::Left { share });
                    self.count_share(party);
                }
            }
            Output::Recall(left) => {
                // Every share leaves at once.
                let recalled = Recalled { left, back: vec![] };
                let now = Time::from_nanos(self.now_ns);
                self.tasks[party]
                    .handle(now, Input::Recalled(recalled))
                    .expect("it was asked for");
            }
            Output::Spend => self.schedule(self.now_ns, party, Input::Spent(Ok(()))),
            Output::Reveal => {
                let now = Time::from_nanos(self.now_ns);
                let counted = self.tasks[party].handle(now, Input::Revealed(Ok(())));
                counted.expect("it was asked for");
            }
            Output::Audit(logs) => {
                let verdict = real_gate(self.tasks[party].plan(), &logs);
                self.schedule(self.now_ns, party, Input::Verdict(verdict));
            }
            Output::Finished(outcome) => self.outcomes[party] = Some(*outcome),
            // Recorded runs are of means.
            Output::Contribute { .. } | Output::Event(_) | Output::Wait { .. } => {}
        }
    }

    fn send(&mut self, network: Network, from: Party, to: Party, bytes: Arc<[u8]>) {
        let frame = Bytes::from_owner(bytes.clone());
        self.frames.push(Frame {
            network,
            from,
            to,
            bytes,
        });
        let private = network == Network::Private;
        let input = if private {
            Input::Private { from, frame }
        } else {
            Input::Public { from, frame }
        };
        let at = self.now_ns + self.delays.random_range(100_000..=1_000_000);
        let last = self.arrivals.entry((private, from, to)).or_insert(0);
        *last = at.max(*last);
        let at = *last;
        self.schedule(at, to, input);
    }

    /// The one that is to be killed dies with its last share on the way.
    fn count_share(&mut self, party: Party) {
        let Some(kill) = self.kill.as_mut().filter(|kill| kill.party == party) else {
            return;
        };
        kill.shares -= 1;
        if kill.shares > 0 {
            return;
        }
        self.alive[party] = false;
        let later = self.now_ns + 2_000_000;
        for other in (0..self.tasks.len()).filter(|&other| other != party) {
            let peer = party;
            for network in [Network::Private, Network::Public] {
                self.schedule(later, other, Input::Disconnected { network, peer });
            }
            self.schedule(later, other, Input::Unreachable { peer });
        }
    }
}

/// Bytes of a party's own, others for each purpose.
fn secret(party: Party, purpose: u8) -> [u8; 32] {
    let [low, high, ..] = party.to_le_bytes();
    let mut bytes = [low.wrapping_add(purpose); 32];
    bytes[16] = bytes[16].wrapping_add(high);
    bytes
}

/// A party's machine, with noise, incarnation and nonce of the seed.
fn machine(plan: &Arc<Plan>, seed: u64, party: Party, contribution: Clipped) -> Task {
    let calibration = plan.calibration();
    let rng = ChaCha8Rng::seed_from_u64(seed * 1000 + party as u64);
    let dimension = plan.draft().dimension();
    let mut noise = LatticeNoise::new(rng, *plan.lattice(), dimension, calibration.correlated_std);
    let value = noise.noisy(calibration.independent_std, contribution);
    let identity = Identity {
        party,
        key: simulated_keypair(party),
        run_key: RunKey::from_secret(secret(party, 0)),
        pair_key: PairKey::from_secret(secret(party, 101)),
        seal_seed: [1; 32],
        nonce_secret: secret(party, 0),
        epoch: 0,
    };
    Task::new(plan.clone(), identity, value, Box::new(noise), Time::ZERO)
}
