use std::collections::VecDeque;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::*;
use crate::lattice::grid::Lattice;
use crate::mixing::noise::LatticeNoise;
use crate::mixing::ticket::{Ticket, Tickets};
use crate::plan::checked::Plan;
use crate::simulator::cluster::tests::{inputs, plan};
use crate::simulator::invariants::{mass, weight};
use crate::simulator::ledger::{self, Balance, Draws, Ledger, Recording};

const ROUND_MS: u64 = 160;

enum Message {
    Share(Arc<[u8]>, ShareId),
    Answer(ShareId, Verdict),
}

/// Four nodes and the wires between them; nothing arrives unless a test lets it.
struct World {
    plan: Arc<Plan>,
    nodes: Vec<Exchange>,
    tickets: Vec<Tickets>,
    ledgers: Vec<Ledger>,
    balance: Balance,
    wires: BTreeMap<(Party, Party), VecDeque<Message>>,
    down: BTreeSet<(Party, Party)>,
    offences: Vec<String>,
    now: Time,
}

fn pair(a: Party, b: Party) -> (Party, Party) {
    (a.min(b), a.max(b))
}

impl World {
    fn new() -> Self {
        Self::with("")
    }

    fn with(lines: &str) -> Self {
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
            let noise = Box::new(Recording::new(noise, draws.clone()));
            let weight = plan.lattice().weight(plan.draft().weight_units(me));
            let others = (0..4).filter(|&other| other != me).collect();
            world
                .ledgers
                .push(Ledger::new(plan.mechanism(me), value.clone(), weight, draws));
            let course = Course::of(&plan, me);
            let opening = Opening {
                start: Time::ZERO,
                now: Time::ZERO,
                absent: BTreeSet::new(),
                connected: others,
            };
            let mixing = course.begin(value, LatticeWeight(weight), noise);
            world.nodes.push(Exchange::new(course, mixing, opening));
            world.tickets.push(Tickets::default());
            world.collect(me);
        }
        world
    }

    /// Puts what a node wants to send on the wires.
    fn collect(&mut self, me: Party) {
        for deed in self.nodes[me].take_deeds() {
            match deed {
                Deed::Recall(shares) => {
                    let recalled = self.tickets[me].recall(&shares);
                    self.nodes[me].recalled(&recalled);
                    return self.advance(me);
                }
                Deed::Share { to, frame, id } if !self.down.contains(&pair(me, to)) => {
                    self.wires
                        .entry((me, to))
                        .or_default()
                        .push_back(Message::Share(frame, id));
                }
                Deed::Answer { id, verdict } if !self.down.contains(&pair(me, id.from)) => {
                    self.wires
                        .entry((me, id.from))
                        .or_default()
                        .push_back(Message::Answer(id, verdict));
                }
                Deed::Offence { text, .. } => self.offences.push(text),
                _ => {}
            }
        }
        assert_eq!(self.check(me), []);
    }

    /// Mass and weight after an event at a node, as the simulator looks at them, which must be what
    /// all sums made anew come to.
    fn check(&mut self, me: Party) -> Vec<crate::simulator::invariants::violation::Violation> {
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
    fn deliver(&mut self, from: Party, to: Party) -> bool {
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
                    signature: crate::messages::signature::Signature([0; 64]),
                };
                self.nodes[to].answer(from, id, answer);
            }
        }
        self.advance(from);
        self.advance(to);
        true
    }

    /// The transport takes a share.
    fn leaves(&mut self, id: ShareId) -> bool {
        let taken = self.tickets[id.from].of(id).take();
        if taken {
            self.nodes[id.from].left(id);
        }
        taken
    }

    fn hand_over(&mut self, from: Party, to: Party, frame: &Arc<[u8]>) {
        match wire::read_private(frame) {
            Ok(wire::PrivateFrame::Share {
                id, weight, values, ..
            }) => {
                let values = Bytes::from_owner(frame.clone()).slice(values);
                self.nodes[to].share(from, id, Arrival { weight, values });
            }
            other => panic!("{other:?}"),
        }
        self.collect(to);
    }

    fn advance(&mut self, me: Party) {
        self.nodes[me].advance(self.now);
        self.collect(me);
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_millis(ms);
        (0..4).for_each(|me| self.advance(me));
    }

    /// Breaks a connection; of each direction's first message a byte may have left.
    fn cut(&mut self, a: Party, b: Party, taken: bool) {
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

    fn join(&mut self, a: Party, b: Party) {
        if self.down.remove(&pair(a, b)) {
            self.nodes[a].connected(b);
            self.nodes[b].connected(a);
            self.advance(a);
            self.advance(b);
        }
    }

    fn deliver_all(&mut self) {
        while (0..16).any(|wire| self.deliver(wire / 4, wire % 4)) {}
    }

    fn first_share(&mut self, from: Party, to: Party) -> (Arc<[u8]>, Ticket) {
        match self.wires.get(&(from, to)).and_then(VecDeque::front) {
            Some(Message::Share(frame, id)) => (frame.clone(), self.tickets[from].of(*id)),
            _ => panic!("no share on the wire from {from} to {to}"),
        }
    }

    /// To whom a party sends in a round.
    fn to(&self, round: u32, from: Party) -> Party {
        self.plan.schedule().sends_to(round, from)[0]
    }

    fn id(&self, round: u32, from: Party) -> ShareId {
        ShareId {
            round,
            from,
            to: self.to(round, from),
        }
    }

    /// Signs all logs, agrees on some of them, and settles those who publish. Returns the sum of
    /// their finals.
    fn settle(mut self, members: &BTreeSet<Party>, publishers: &BTreeSet<Party>) -> Result<(), String> {
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
            finals.iter().map(|last| &last.value),
            publishers.iter().map(|&party| &own[party]),
        );
        let own_weights = publishers.iter().map(|&party| self.ledgers[party].own_weight());
        let weights = weight::check(finals.iter().map(|last| last.weight), own_weights);
        values.and(weights).map_err(|violation| violation.to_string())
    }
}

fn everybody() -> BTreeSet<Party> {
    (0..4).collect()
}

#[test]
fn without_faults_rounds_end_at_once_and_finals_are_exact() {
    let mut world = World::new();
    world.deliver_all();
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.is_over() && node.is_quiet(Time::ZERO))
    );
    assert!(world.nodes.iter().all(|node| node.tally()
        == Tally {
            accepted: 3,
            ..Tally::default()
        }));
    assert_eq!(world.offences, [] as [String; 0]);
    assert_eq!(world.settle(&everybody(), &everybody()), Ok(()));
}

#[test]
fn a_node_that_holds_more_than_it_injected_is_seen_at_its_next_event() {
    let mut world = World::new();
    let other = inputs(&world.plan).swap_remove(2);
    let weight = world.ledgers[1].own_weight().0;
    world.ledgers[1] = Ledger::new(world.plan.mechanism(1), other, 2 * weight, Draws::default());
    let violations: Vec<&str> = world
        .check(1)
        .iter()
        .map(|violation| violation.invariant)
        .collect();
    assert_eq!(violations, ["mass", "weight"]);
}

#[test]
fn a_share_that_has_not_left_by_the_end_of_its_round_is_back_for_good() {
    let mut world = World::new();
    let (from, to) = (0, world.to(1, 0));
    let (_, ticket) = world.first_share(from, to);
    world.pass(ROUND_MS);
    assert!(!ticket.take(), "recalled");
    assert_eq!(world.nodes[0].tally().returned, 1);
    world.cut(from, to, false);
    world.join(from, to);
    let sent_again = world
        .wires
        .get(&(from, to))
        .into_iter()
        .flatten()
        .filter(|message| match message {
            Message::Share(frame, _) => {
                matches!(wire::read_private(frame), Ok(wire::PrivateFrame::Share { id, .. }) if id.round == 1)
            }
            Message::Answer(..) => false,
        });
    assert_eq!(sent_again.count(), 0);
    assert_eq!(
        world.nodes[0].close(Vec::new()).sent[0],
        SentEntry {
            round: 1,
            to,
            left: false,
            answer: None
        }
    );
}

#[test]
fn a_share_that_left_is_held_aside_sent_again_bit_for_bit_and_accepted_late() {
    let mut world = World::new();
    let (from, to) = (0, world.to(1, 0));
    let (frame, ticket) = world.first_share(from, to);
    world.cut(from, to, true);
    assert!(ticket.left());
    world.pass(ROUND_MS);
    assert_eq!(
        world.nodes[0].tally(),
        Tally {
            unanswered: 2,
            ..Tally::default()
        },
        "that one, and the one of round 2"
    );
    world.join(from, to);
    let (again, same) = world.first_share(from, to);
    assert_eq!((again, same.left()), (frame, true));
    world.deliver(from, to);
    assert_eq!(
        world.nodes[to].received[&(1, 0)],
        Verdict::Accepted { applied: 2 }
    );
    world.deliver(to, from);
    world.pass(4 * ROUND_MS);
    assert_eq!(world.settle(&everybody(), &everybody()), Ok(()));
}

#[test]
fn a_repeated_share_is_answered_alike_and_counted_once() {
    let mut world = World::new();
    let (from, to) = (0, world.to(1, 0));
    let (frame, _) = world.first_share(from, to);
    world.deliver(from, to);
    let before = world.wires[&(to, from)].len();
    world.hand_over(from, to, &frame);
    assert_eq!(
        world.wires[&(to, from)].len(),
        before + 1,
        "answered again; mass is checked at every event"
    );
}

#[test]
fn after_the_log_is_signed_shares_are_refused_and_go_back_in_settling() {
    let mut world = World::new();
    let (from, to) = (0, world.to(1, 0));
    let (frame, _) = world.first_share(from, to);
    world.cut(from, to, true);
    world.pass(4 * ROUND_MS);
    world.nodes[to].close(Vec::new());
    world.hand_over(from, to, &frame);
    assert_eq!(world.nodes[to].received[&(1, 0)], Verdict::Refused);
    assert_eq!(world.settle(&everybody(), &everybody()), Ok(()));
}

#[test]
fn hostile_shares_and_answers_change_nothing() {
    let mut world = World::new();
    let (from, to) = (0, world.to(1, 0));
    let (frame, _) = world.first_share(from, to);
    let Ok(wire::PrivateFrame::Share {
        id, weight, values, ..
    }) = wire::read_private(&frame)
    else {
        unreachable!("it is one")
    };
    let good = Bytes::from_owner(frame.clone()).slice(values);
    let mut off_grid = good.to_vec();
    off_grid[0] ^= 1;
    let cases = [
        ShareId { round: 0, ..id },
        ShareId { round: 99, ..id },
        ShareId { from: to, ..id },
        ShareId {
            from: usize::MAX,
            ..id
        },
        ShareId { to: from, ..id },
    ];
    for (count, id) in cases.into_iter().enumerate() {
        world.nodes[to].share(
            from,
            id,
            Arrival {
                weight,
                values: good.clone(),
            },
        );
        world.collect(to);
        assert_eq!(world.offences.len(), count + 1);
    }
    assert!(
        world.nodes[to].received.is_empty(),
        "what is not due is not even refused"
    );
    for (case, weight, values) in [
        (0, LatticeWeight(i128::MAX), good.clone()),
        (1, LatticeWeight(weight.0 + 1), good.clone()),
        (2, weight, off_grid.into()),
    ] {
        let mut world = World::new();
        world.nodes[to].share(from, id, Arrival { weight, values });
        world.collect(to);
        assert_eq!(world.nodes[to].received[&(1, 0)], Verdict::Refused, "case {case}");
        assert_eq!(world.offences.len(), 1);
    }
    let answer = |verdict| Answer {
        verdict,
        signature: crate::messages::signature::Signature([0; 64]),
    };
    let before = world.offences.len();
    world.nodes[from].answer(to, id, answer(Verdict::Refused));
    world.collect(from);
    assert_eq!(world.offences.len(), before + 1, "it has not left");
    assert!(world.leaves(id));
    world.hand_over(from, to, &frame);
    world.nodes[from].answer(to, id, answer(Verdict::Accepted { applied: 4 }));
    world.nodes[from].answer(to, id, answer(Verdict::Accepted { applied: 1 }));
    world.nodes[from].answer(to, id, answer(Verdict::Refused));
    world.collect(from);
    assert_eq!(
        world.offences.len(),
        before + 3,
        "an impossible round, then a second answer"
    );
}

#[test]
fn the_gone_are_not_waited_for_nor_again_those_that_missed_a_deadline() {
    let mut world = World::new();
    for other in 1..4 {
        world.nodes[other].gone(0, true);
        world.cut(0, other, false);
    }
    world.deliver_all();
    assert!((1..4).all(|me| world.nodes[me].is_over()), "gone: nobody waits");
    let mut world = World::new();
    (1..4).for_each(|other| world.cut(0, other, false));
    world.deliver_all();
    let waiting = world.plan.schedule().receives_from(1, 1 + world.to(1, 0) % 3);
    assert!(
        (1..4).any(|me| world.nodes[me].round() == 1),
        "silent: its neighbours wait ({waiting:?})"
    );
    world.pass(ROUND_MS);
    world.deliver_all();
    let late = (1..4)
        .map(|me| world.nodes[me].missed.contains(&0))
        .filter(|missed| *missed)
        .count();
    assert!(late > 0);
}

#[test]
fn a_suspended_node_makes_up_its_round_ends_in_order() {
    let mut world = World::new();
    (1..4).for_each(|other| world.cut(0, other, false));
    world.now = world.now.plus_millis(10 * ROUND_MS);
    world.advance(0);
    assert!(world.nodes[0].is_over());
    assert_eq!(
        world.nodes[0].tally(),
        Tally {
            returned: 3,
            ..Tally::default()
        }
    );
    assert_eq!(
        world.nodes[0].state().weight,
        world.ledgers[0].own_weight(),
        "all of its own is back"
    );
}

#[test]
fn pace_and_waking_are_kept() {
    let mut world = World::with("[mechanism]\nrollback = true");
    world.nodes.iter_mut().for_each(|node| node.course.pace_ms = 20);
    world.deliver_all();
    assert!(world.nodes.iter().all(|node| node.round() == 1), "too early");
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.wake(world.now) <= Time::from_millis(20))
    );
    world.pass(20);
    assert!(world.nodes.iter().all(|node| node.round() == 2));
    assert_eq!(world.nodes[0].deadline(2), Time::from_millis(2 * ROUND_MS));
}

#[test]
fn a_receiver_that_denies_what_it_signed_for_is_named() {
    let mut world = World::new();
    world.deliver_all();
    let liar = world.to(1, 0);
    let mut logs: AgreedLogs = world
        .nodes
        .iter_mut()
        .enumerate()
        .map(|(party, node)| (party, node.close(Vec::new())))
        .collect();
    logs.get_mut(&liar)
        .expect("there")
        .received
        .retain(|entry| (entry.round, entry.from) != (1, 0));
    assert_eq!(
        world.nodes.swap_remove(0).settle(&logs, &everybody()).err(),
        Some(liar)
    );
}

#[test]
fn without_roll_back_only_refused_shares_of_departed_parties_go_back() {
    for refused in [false, true] {
        let mut world = World::with("[mechanism]\nrollback = false");
        let (id, to) = (world.id(1, 0), world.to(1, 0));
        world.cut(0, to, true);
        world.pass(4 * ROUND_MS);
        if refused {
            let answer = Answer {
                verdict: Verdict::Refused,
                signature: crate::messages::signature::Signature([0; 64]),
            };
            world.nodes[0].answer(to, id, answer);
        }
        let out = world.nodes[0].outgoing[&id].weight.0;
        let before = world.nodes[0].state().weight.0;
        let survivors: BTreeSet<Party> = (0..4).filter(|&party| party != to).collect();
        let logs: AgreedLogs = survivors
            .iter()
            .map(|&party| (party, world.nodes[party].close(Vec::new())))
            .collect();
        let mut back = 0;
        for (other, fate) in fates(&logs, 3) {
            if other.from == 0 && matches!(fate, Fate::Returned { seen: true, .. }) {
                back += world.nodes[0].outgoing[&other].weight.0;
            }
        }
        let Ok(last) = world.nodes.swap_remove(0).settle(&logs, &survivors) else {
            panic!("nobody lies")
        };
        assert_eq!(last.weight.0, before + back + if refused { out } else { 0 });
    }
}

/// What may happen to four nodes; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Operation {
    Deliver(usize),
    Pass(u64),
    Cut(usize, bool),
    Join(usize),
    Gone(usize),
    Close(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0usize..16).prop_map(Operation::Deliver),
        2 => (0u64..ROUND_MS).prop_map(Operation::Pass),
        1 => (0usize..16, any::<bool>()).prop_map(|(wire, taken)| Operation::Cut(wire, taken)),
        1 => (0usize..16).prop_map(Operation::Join),
        1 => (0usize..16).prop_map(Operation::Gone),
        1 => (0usize..4).prop_map(Operation::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Mass and weight are checked at every event (in `collect`), and after roll-back for whoever
    /// publishes.
    #[test]
    fn mass_is_conserved_whatever_happens(
        operations in proptest::collection::vec(operation(), 0..150),
        members in 1u8..16,
        publishers in 1u8..16,
    ) {
        let mut world = World::new();
        for operation in operations {
            match operation {
                Operation::Deliver(wire) => drop(world.deliver(wire / 4, wire % 4)),
                Operation::Pass(ms) => world.pass(ms),
                Operation::Cut(wire, taken) if wire / 4 != wire % 4 => world.cut(wire / 4, wire % 4, taken),
                Operation::Join(wire) => world.join(wire / 4, wire % 4),
                Operation::Gone(wire) if wire / 4 != wire % 4 => world.nodes[wire / 4].gone(wire % 4, true),
                Operation::Close(me) if world.nodes[me].is_quiet(world.now) => drop(world.nodes[me].close(Vec::new())),
                _ => {}
            }
        }
        world.pass(4 * ROUND_MS);
        let of = |mask: u8| (0..4).filter(|party| mask >> party & 1 == 1).collect::<BTreeSet<Party>>();
        let members = of(members | publishers);
        prop_assert_eq!(world.settle(&members, &of(publishers)), Ok(()));
    }
}

struct Silent(Lattice);

impl NoiseSource<LatticeVector> for Silent {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        self.0.zeros(2).pack()
    }
}

/// Every peer sends the most that is accepted. `leaves`: whether this node's own shares leave in
/// their rounds, or all come back. `late`: everything arrives in the last round only.
fn flooded_by_peers(plan: &Plan, leaves: bool, late: bool) {
    let (lattice, me) = (*plan.lattice(), 0);
    let course = Course::of(plan, me);
    let rounds = course.rounds();
    // As much of its own as a party ever has, in one direction.
    let own = lattice.own_reach as f64 * lattice.step();
    let value = lattice.encode([own, -own].into_iter());
    let opening = Opening {
        start: Time::ZERO,
        now: Time::ZERO,
        absent: BTreeSet::new(),
        connected: (1..plan.parties()).collect(),
    };
    let weight = LatticeWeight(lattice.weight(plan.draft().weight_units(me)));
    let mixing = course.begin(value, weight, Box::new(Silent(lattice)));
    let mut node = Exchange::new(course.clone(), mixing, opening);
    let most = |round: u32| {
        let grid = lattice.round_grid(round);
        let bound = lattice.share_bound(round) / grid * grid;
        let bytes = [bound, -bound]
            .map(|steps| steps.to_le_bytes()[..lattice.wire_bytes as usize].to_vec())
            .concat();
        lattice
            .share(bytes.clone().into(), 2, round)
            .expect("what is at the bound is accepted");
        bytes
    };
    let due: Vec<(u32, Party)> = course.due().collect();
    for round in 1..=rounds {
        for deed in node.take_deeds() {
            match deed {
                Deed::Share { id, .. } if leaves => node.left(id),
                Deed::Fault(text) | Deed::Offence { text, .. } => panic!("round {round}: {text}"),
                _ => {}
            }
        }
        let now_due = due
            .iter()
            .filter(|(due, _)| if late { round == rounds } else { *due == round });
        for &(due, from) in now_due {
            let id = ShareId {
                round: due,
                from,
                to: me,
            };
            node.share(
                from,
                id,
                Arrival {
                    weight: LatticeWeight(0),
                    values: most(due).into(),
                },
            );
        }
        let end = node.deadline(round);
        node.advance(end);
        if !leaves {
            let asked = node.take_deeds().into_iter().find_map(|deed| match deed {
                Deed::Recall(back) => Some(back),
                _ => None,
            });
            let back = asked.expect("its shares are given out");
            node.recalled(&Recalled { left: vec![], back });
            node.advance(end);
        }
        assert_eq!(node.round(), round + 1);
    }
    for deed in node.take_deeds() {
        assert!(!matches!(deed, Deed::Fault(_) | Deed::Offence { .. }), "{deed:?}");
    }
    assert_eq!(node.tally().returned, if leaves { 0 } else { rounds as usize });
    let sums: Vec<u128> = node.state().value.steps().map(i128::unsigned_abs).collect();
    assert!(
        sums.iter().all(|&sum| sum > lattice.own_reach as u128),
        "{sums:?}"
    );
    let last = node.mixing.finish(&BTreeSet::new());
    let mut bytes = vec![0; 2 * lattice.final_bytes as usize];
    lattice
        .write_final(&last.value, &mut bytes)
        .expect("the final fits as well");
}

#[test]
fn whatever_peers_send_within_the_bound_every_share_of_an_honest_node_fits() {
    for (parties, rounds) in [(4, 3), (8, 7), (5, 1), (8, 12)] {
        let plan = plan(parties, "", rounds);
        flooded_by_peers(&plan, true, false);
        flooded_by_peers(&plan, true, true);
        // The most that a node can ever hold: all that comes in, and all of its own.
        flooded_by_peers(&plan, false, false);
        flooded_by_peers(&plan, false, true);
    }
}
