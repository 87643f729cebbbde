//! Four nodes, and wires on which nothing arrives unless a test lets it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, Answer, Log, ShareId, Verdict};
use crate::messages::signature::Signature;
use crate::messages::wire::{self, Bytes};
use crate::mixing::exchange::{Action, ArrivedShare, ExchangeStart, ShareExchange};
use crate::mixing::noise::LatticeNoise;
use crate::mixing::noisy::Noisy;
use crate::mixing::offence::MixingOffence;
use crate::mixing::parameters::MixingParameters;
use crate::mixing::ticket::{Ticket, Tickets};
use crate::plan::checked::Plan;
use crate::simulator::cluster::tests::{inputs, plan};
use crate::simulator::invariants::violation::Violation;
use crate::simulator::invariants::{mass, weight};
use crate::simulator::ledger::{self, Balance, Draws, Ledger, Recording};
use crate::time::Time;
use crate::topology::party::Party;

pub(super) const ROUND_MS: u64 = 160;

pub(super) enum Message {
    Share(Arc<[u8]>, ShareId),
    Answer(ShareId, Verdict),
}

/// Four nodes and the wires between them; nothing arrives unless a test lets it.
pub(super) struct World {
    pub(super) plan: Arc<Plan>,
    pub(super) nodes: Vec<ShareExchange>,
    pub(super) tickets: Vec<Tickets>,
    pub(super) ledgers: Vec<Ledger>,
    pub(super) balance: Balance,
    pub(super) wires: BTreeMap<(Party, Party), VecDeque<Message>>,
    pub(super) down: BTreeSet<(Party, Party)>,
    pub(super) offences: Vec<MixingOffence>,
    pub(super) now: Time,
}

fn pair(a: Party, b: Party) -> (Party, Party) {
    (a.min(b), a.max(b))
}

impl World {
    pub(super) fn new() -> Self {
        Self::with("")
    }

    pub(super) fn with(lines: &str) -> Self {
        let plan = plan(
            4,
            &format!("{lines}\n[run]\nround_ms = {ROUND_MS}\npace_ms = 0"),
            3,
        );
        let mut world = World {
            nodes: Vec::new(),
            tickets: Vec::new(),
            ledgers: Vec::new(),
            balance: Balance::default(),
            wires: BTreeMap::new(),
            down: BTreeSet::new(),
            offences: Vec::new(),
            now: Time::ZERO,
            plan: plan.clone(),
        };
        for (me, value) in inputs(&plan).into_iter().enumerate() {
            let rng = ChaCha8Rng::seed_from_u64(me as u64);
            let draws = Draws::default();
            let noise = LatticeNoise::new(rng, *plan.lattice(), 2, plan.calibration().correlated_std);
            let noise = Box::new(Recording::new(noise, draws.clone(), 1));
            let weight = plan.lattice().weight(plan.draft().weight_units(me));
            let others = (0..4).filter(|&other| other != me).collect();
            world
                .ledgers
                .push(Ledger::new(plan.mechanism(me), value.clone(), weight, draws));
            let parameters = MixingParameters::of(&plan, me);
            let start = ExchangeStart {
                start: Time::ZERO,
                now: Time::ZERO,
                absent: BTreeSet::new(),
                connected: others,
            };
            let mixing = parameters.begin(Noisy::with_noise_in(value), LatticeWeight(weight), noise);
            world.nodes.push(ShareExchange::new(parameters, mixing, start));
            world.tickets.push(Tickets::default());
            world.collect(me);
        }
        world
    }

    /// Puts what a node wants to send on the wires.
    pub(super) fn collect(&mut self, me: Party) {
        for action in self.nodes[me].take_actions() {
            match action {
                Action::Recall(shares) => {
                    let recalled = self.tickets[me].recall(&shares);
                    self.nodes[me].recalled(&recalled);
                    return self.advance(me);
                }
                Action::Share { to, frame, id } if !self.down.contains(&pair(me, to)) => {
                    self.wires
                        .entry((me, to))
                        .or_default()
                        .push_back(Message::Share(frame, id));
                }
                Action::Answer { id, verdict } if !self.down.contains(&pair(me, id.from)) => {
                    self.wires
                        .entry((me, id.from))
                        .or_default()
                        .push_back(Message::Answer(id, verdict));
                }
                Action::Offence { offence, .. } => self.offences.push(offence),
                _ => {}
            }
        }
        assert_eq!(self.check(me), []);
    }

    /// Mass and weight after an event at a node, as the simulator looks at them, which must be what
    /// all sums made anew come to.
    pub(super) fn check(&mut self, me: Party) -> Vec<Violation> {
        let node = |party: Party| Some((&self.nodes[party], &self.ledgers[party]));
        let found: Vec<_> = (0..self.nodes.len())
            .map(|party| self.balance.event(party, party == me, node))
            .collect();
        let nodes = self.nodes.iter().zip(&self.ledgers).enumerate();
        let anew = ledger::check(
            &nodes
                .map(|(party, (node, ledger))| (party, node, ledger))
                .collect::<Vec<_>>(),
        );
        assert_eq!(
            found
                .into_iter()
                .find(|found| !found.is_empty())
                .unwrap_or_default(),
            anew
        );
        anew
    }

    /// Lets the first message of a wire through.
    pub(super) fn deliver(&mut self, from: Party, to: Party) -> bool {
        let Some(message) = self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        match message {
            Message::Share(frame, id) => {
                if self.leaves(id) {
                    self.hand_over(from, to, &frame);
                }
            }
            Message::Answer(id, verdict) => {
                let answer = Answer {
                    verdict,
                    signature: Signature([0; 64]),
                };
                self.nodes[to].answer(from, id, answer);
            }
        }
        self.advance(from);
        self.advance(to);
        true
    }

    /// The transport takes a share.
    pub(super) fn leaves(&mut self, id: ShareId) -> bool {
        let taken = self.tickets[id.from].of(id).take();
        if taken {
            self.nodes[id.from].left(id);
        }
        taken
    }

    pub(super) fn hand_over(&mut self, from: Party, to: Party, frame: &Arc<[u8]>) {
        match wire::read_private(frame) {
            Ok(wire::PrivateFrame::Share {
                id, weight, values, ..
            }) => {
                let values = Bytes::from_owner(frame.clone()).slice(values);
                self.nodes[to].share(from, id, ArrivedShare { weight, values });
            }
            other => panic!("{other:?}"),
        }
        self.collect(to);
    }

    pub(super) fn advance(&mut self, me: Party) {
        self.nodes[me].advance(self.now);
        self.collect(me);
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_millis(ms);
        (0..4).for_each(|me| self.advance(me));
    }

    /// Breaks a connection; of each direction's first message a byte may have left.
    pub(super) fn cut(&mut self, a: Party, b: Party, taken: bool) {
        for wire in [(a, b), (b, a)] {
            let messages = self.wires.remove(&wire).unwrap_or_default();
            if let Some(&Message::Share(_, id)) = messages.front().filter(|_| taken) {
                self.leaves(id);
            }
        }
        self.down.insert(pair(a, b));
        self.nodes[a].disconnected(b);
        self.nodes[b].disconnected(a);
        self.advance(a);
        self.advance(b);
    }

    pub(super) fn join(&mut self, a: Party, b: Party) {
        if self.down.remove(&pair(a, b)) {
            self.nodes[a].connected(b);
            self.nodes[b].connected(a);
            self.advance(a);
            self.advance(b);
        }
    }

    pub(super) fn deliver_all(&mut self) {
        while (0..16).any(|wire| self.deliver(wire / 4, wire % 4)) {}
    }

    pub(super) fn first_share(&mut self, from: Party, to: Party) -> (Arc<[u8]>, Ticket) {
        match self.wires.get(&(from, to)).and_then(VecDeque::front) {
            Some(Message::Share(frame, id)) => (frame.clone(), self.tickets[from].of(*id)),
            _ => panic!("no share on the wire from {from} to {to}"),
        }
    }

    /// Returns the party to which `from` sends in a round.
    pub(super) fn to(&self, round: u32, from: Party) -> Party {
        self.plan.schedule().sends_to(round, from)[0]
    }

    pub(super) fn id(&self, round: u32, from: Party) -> ShareId {
        ShareId {
            round,
            from,
            to: self.to(round, from),
        }
    }

    /// Signs all logs, agrees on some of them, and settles those who publish. Returns the sum of
    /// their finals.
    pub(super) fn settle(
        mut self,
        members: &BTreeSet<Party>,
        publishers: &BTreeSet<Party>,
    ) -> Result<(), String> {
        let own: Vec<LatticeVector> = self.ledgers.iter().map(|ledger| ledger.own_value()).collect();
        let logs: Vec<Log> = self.nodes.iter_mut().map(|node| node.close(Vec::new())).collect();
        for (party, log) in logs.iter().enumerate() {
            log.check(party, 4, self.plan.schedule())
                .map_err(|error| error.to_string())?;
        }
        let agreed: AgreedLogs = members
            .iter()
            .map(|&party| (party, logs[party].clone()))
            .collect();
        let settled = self
            .nodes
            .into_iter()
            .enumerate()
            .filter(|(party, _)| publishers.contains(party));
        let finals: Vec<_> = settled
            .map(|(_, node)| node.settle(&agreed, publishers))
            .collect::<Result<_, _>>()
            .map_err(|liar| format!("{liar} lies"))?;
        let values = mass::check(
            finals.iter().map(|it| &it.portion().value),
            publishers.iter().map(|&party| &own[party]),
        );
        let own_weights = publishers.iter().map(|&party| self.ledgers[party].own_weight());
        let weights = weight::check(finals.iter().map(|it| it.portion().weight), own_weights);
        values.and(weights).map_err(|violation| violation.to_string())
    }
}
