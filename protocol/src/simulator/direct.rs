//! Mixing and settling of very many parties, without the talk around them: the machines of all
//! parties on an ideal network, where every frame arrives at once and in order, the agreement on
//! logs and on finals comes to what everybody who is left would sign, and nobody signs. For
//! measured errors over many runs: flooding among 200 parties is a million messages a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::RngExt;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::commitment;
use crate::messages::log::{AgreedLogs, Answer, ShareId};
use crate::messages::signature::Signature;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::exchange::{Action, ArrivedShare, ExchangeStart, ShareExchange};
use crate::mixing::noise::LatticeNoise;
use crate::mixing::noisy::Noisy;
use crate::mixing::parameters::MixingParameters;
use crate::mixing::portion::{Portion, Resting};
use crate::mixing::ticket::Recalled;
use crate::plan::checked::Plan;
use crate::publishing::result::Sum;
use crate::run::outcome::{Ending, GateVerdict, Outcome, SealedFinal};
use crate::simulator::cluster::Gate;
use crate::simulator::invariants::trace::Trace;
use crate::simulator::invariants::violation::Violation;
use crate::simulator::invariants::{mass, weight};
use crate::simulator::scenario::{PrivatePhase, Report};
use crate::simulator::stream::stream;
use crate::time::Time;
use crate::topology::party::Party;

/// A party that leaves for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The party.
    pub party: Party,
    /// The round, 1…T; where nothing is mixed before anything leaves it.
    pub round: u32,
    /// Whether its share of that round still leaves.
    pub sends: bool,
}

enum Message {
    Share {
        from: Party,
        to: Party,
        frame: Arc<[u8]>,
    },
    Answer {
        to: Party,
        id: ShareId,
        answer: Answer,
    },
}

/// One run; `inputs` as for [`Simulation::new`](crate::simulator::cluster::Simulation::new). The
/// same arguments give the same report, whose events, bytes and trace are empty.
///
/// # Panics
/// If there is not one input a party.
pub fn direct(
    plan: &Plan,
    inputs: Vec<LatticeVector>,
    gate: &Gate<'_>,
    seed: u64,
    leaving: &[Leaving],
) -> Report {
    assert_eq!(inputs.len(), plan.parties(), "one input a party");
    let nonces: Vec<[u8; 32]> = (0..plan.parties())
        .map(|party| commitment::nonce(&stream(seed, "nonce", party).random(), 0))
        .collect();
    let plan = plan.with_draw(commitment::seed(plan.digest(), nonces.iter().enumerate()));
    let mut world = World::new(&plan, inputs, seed, leaving);
    world.mix();
    world.publish(&plan, gate)
}

struct World {
    nodes: Vec<Option<ShareExchange>>,
    noised: Vec<LatticeVector>,
    weights: Vec<LatticeWeight>,
    leaving: BTreeMap<Party, Leaving>,
    departed: BTreeSet<Party>,
    wires: VecDeque<Message>,
    shares_left: Vec<bool>,
    violations: Vec<Violation>,
}

impl World {
    fn new(plan: &Plan, inputs: Vec<LatticeVector>, seed: u64, leaving: &[Leaving]) -> Self {
        let (calibration, draft) = (plan.calibration(), plan.draft());
        let mut world = World {
            nodes: Vec::new(),
            noised: Vec::new(),
            weights: Vec::new(),
            leaving: leaving.iter().map(|leaving| (leaving.party, *leaving)).collect(),
            departed: BTreeSet::new(),
            wires: VecDeque::new(),
            shares_left: vec![false; plan.parties()],
            violations: Vec::new(),
        };
        let parameters = MixingParameters::of(plan, 0);
        for (me, mut value) in inputs.into_iter().enumerate() {
            let rng = stream(seed, "noise", me);
            let mut noise = LatticeNoise::new(
                rng,
                *plan.lattice(),
                draft.dimension(),
                calibration.correlated_std,
            );
            noise.add_independent(calibration.independent_std, &mut value);
            let weight = LatticeWeight(plan.lattice().weight(plan.weight_units(me)));
            let parameters = parameters.of_another(plan, me);
            let connected = draft.private_graph.neighbours(me).iter().copied().collect();
            let start = ExchangeStart {
                start: Time::ZERO,
                now: Time::ZERO,
                absent: BTreeSet::new(),
                connected,
            };
            let mixing = parameters.begin(Noisy::with_noise_in(value.clone()), weight, Box::new(noise));
            world
                .nodes
                .push(Some(ShareExchange::new(parameters, mixing, start)));
            world.noised.push(value);
            world.weights.push(weight);
        }
        if !plan.mixes() {
            leaving.iter().for_each(|leaving| world.leave(leaving.party));
        }
        world
    }

    fn mix(&mut self) {
        (0..self.nodes.len()).for_each(|party| self.collect(party));
        loop {
            while let Some(message) = self.wires.pop_front() {
                self.deliver(message);
            }
            // What is left waits for nobody but those who are gone.
            let before: Vec<u32> = self.nodes.iter().flatten().map(ShareExchange::round).collect();
            (0..self.nodes.len()).for_each(|party| self.advance(party));
            let after: Vec<u32> = self.nodes.iter().flatten().map(ShareExchange::round).collect();
            if self.wires.is_empty() && before == after {
                break;
            }
        }
        for (party, node) in self.nodes.iter().enumerate() {
            if node.as_ref().is_some_and(|node| !node.is_quiet(Time::ZERO)) {
                self.violations.push(Violation::new(
                    "liveness",
                    format!("party {party} never finished its rounds"),
                ));
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Share { from, to, frame } => {
                let Some(node) = &mut self.nodes[to] else { return };
                if let Ok(PrivateFrame::Share {
                    id, weight, values, ..
                }) = wire::read_private(&frame)
                {
                    node.share(
                        from,
                        id,
                        ArrivedShare {
                            weight,
                            values: Bytes::from_owner(frame).slice(values),
                        },
                    );
                }
                self.collect(to);
                self.advance(to);
            }
            Message::Answer { to, id, answer } => {
                if let Some(node) = &mut self.nodes[to] {
                    node.answer(id.to, id, answer);
                }
                self.advance(to);
            }
        }
    }

    fn advance(&mut self, party: Party) {
        if let Some(node) = &mut self.nodes[party] {
            node.advance(Time::ZERO);
        }
        self.collect(party);
    }

    /// Puts what a node wants to send on the wires, unless it leaves first.
    fn collect(&mut self, party: Party) {
        let Some(node) = &mut self.nodes[party] else {
            return;
        };
        let (actions, mut leaves, mut recalled) = (node.take_actions(), false, false);
        for action in actions {
            match action {
                Action::Round(round) => {
                    leaves |= self
                        .leaving
                        .get(&party)
                        .is_some_and(|leaving| leaving.round <= round);
                }
                Action::Share { to, frame, id } => {
                    let stays = !leaves || self.leaving[&party].sends;
                    if stays && self.nodes[to].is_some() {
                        self.nodes[party].iter_mut().for_each(|node| node.left(id));
                        self.shares_left[party] = true;
                        self.wires.push_back(Message::Share {
                            from: party,
                            to,
                            frame,
                        });
                    }
                }
                Action::Recall(back) => {
                    // Whatever left was told at once.
                    let answer = Recalled { left: vec![], back };
                    self.nodes[party]
                        .iter_mut()
                        .for_each(|node| node.recalled(&answer));
                    recalled = true;
                }
                Action::Answer { id, verdict } if !leaves => {
                    let answer = Answer {
                        verdict,
                        signature: Signature([0; 64]),
                    };
                    self.wires.push_back(Message::Answer {
                        to: id.from,
                        id,
                        answer,
                    });
                }
                Action::Fault(fault) => self.violations.push(Violation::new("driver", fault.to_string())),
                Action::Offence { offence, .. } => {
                    self.violations
                        .push(Violation::new("driver", offence.to_string()));
                }
                Action::Answer { .. } => {}
            }
        }
        if leaves {
            self.leave(party);
        } else if recalled {
            self.advance(party);
        }
    }

    fn leave(&mut self, party: Party) {
        self.nodes[party] = None;
        self.departed.insert(party);
        let others = self.nodes.iter_mut().flatten();
        others.for_each(|node| node.unreachable(party, true));
    }

    /// Logs, gate, finals, sum.
    fn publish(mut self, plan: &Plan, gate: &Gate<'_>) -> Report {
        let unreachable: Vec<Party> = self.departed.iter().copied().collect();
        let nodes = self.nodes.iter_mut().enumerate();
        let logs: AgreedLogs = nodes
            .filter_map(|(party, node)| Some((party, node.as_mut()?.close(unreachable.clone()))))
            .collect();
        let verdict = gate(plan, &logs);
        let publishers = verdict.publish.clone().unwrap_or_default();
        let mut finals: Vec<Resting<LatticeVector, LatticeWeight>> = Vec::new();
        for (party, node) in self.nodes.iter_mut().enumerate() {
            let Some(node) = node.take().filter(|_| publishers.contains(&party)) else {
                continue;
            };
            match node.settle(&logs, &publishers) {
                Ok(final_state) => finals.push(Portion {
                    value: final_state.portion().value.pack(),
                    weight: final_state.portion().weight,
                }),
                Err(liar) => self.violations.push(Violation::new(
                    "mass",
                    format!("party {liar} lied to party {party}"),
                )),
            }
        }
        let sum = Sum::of(plan.lattice(), finals.into_iter().map(Some));
        if let Some(sum) = sum.as_ref().filter(|_| plan.draft().exchange.rolls_back()) {
            let own = publishers.iter().map(|&party| self.weights[party]);
            self.violations
                .extend(mass::check([&sum.value], publishers.iter().map(|&party| &self.noised[party])).err());
            self.violations.extend(weight::check([sum.weight], own).err());
        }
        let sum = sum.map(|sum| sum.weighed(plan, &publishers));
        let logs = Arc::new(logs);
        let outcome = |party: Party| {
            outcome(
                plan,
                &logs,
                &verdict,
                sum.clone().filter(|_| publishers.contains(&party)),
            )
        };
        let outcomes = (0..plan.parties())
            .map(|party| logs.contains_key(&party).then(|| outcome(party)))
            .collect();
        Report {
            outcomes,
            finished_at: vec![None; plan.parties()],
            noised: self.noised,
            private: PrivatePhase::default(),
            shares_left: self.shares_left,
            events: Vec::new(),
            trace: Trace::default(),
            violations: self.violations,
            bytes: vec![(0, 0); plan.parties()],
            purposes: BTreeMap::new(),
        }
    }
}

fn outcome(plan: &Plan, logs: &Arc<AgreedLogs>, verdict: &GateVerdict, sum: Option<Sum>) -> Outcome {
    let included = if sum.is_some() {
        verdict.publish.clone().unwrap_or_default()
    } else {
        BTreeSet::new()
    };
    let ending = match &sum {
        None => Ending::Withheld {
            reason: verdict.reason.clone(),
        },
        Some(_) if included.len() == plan.parties() => Ending::Done,
        Some(_) => Ending::Degraded,
    };
    let is_opened = if sum.is_some() {
        SealedFinal::Opened
    } else {
        SealedFinal::Closed
    };
    Outcome {
        out_of_range: false,
        training: None,
        gossip: None,
        ending,
        started: (0..plan.parties()).collect(),
        started_at: Some(Time::ZERO),
        schedule_seed: plan.seed_at_start(),
        records: plan.records_at_start().clone(),
        logs: Some(logs.clone()),
        own_log: None,
        verdict: Some(verdict.clone()),
        agreed: sum.is_some(),
        included,
        sum,
        accuracy: None,
        sealed: plan.draft().run.sealed.then_some(is_opened),
        opened_for: Vec::new(),
        unopened: Vec::new(),
        tally: Default::default(),
    }
}
