mod flooded;
mod world;

use proptest::prelude::*;

use super::*;
use crate::messages::log::{AgreedLogs, Fate, SentEntry, fates};
use crate::messages::signature::Signature;
use crate::messages::wire;
use crate::mixing::exchange::tests::world::{Message, ROUND_MS, World};
use crate::mixing::ticket::Recalled;
use crate::simulator::cluster::tests::inputs;
use crate::simulator::ledger::{Draws, Ledger};

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
    assert_eq!(world.offences, []);
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
fn an_answer_names_a_round_in_which_the_share_can_have_been_added() {
    for (applied, possible) in [
        (0, false),
        (1, false),
        (2, true),
        (3, true),
        (4, false),
        (u32::MAX, false),
    ] {
        let mut world = World::new();
        world.pass(ROUND_MS);
        let (to, id) = (world.to(2, 0), world.id(2, 0));
        world.nodes[0].left(id);
        let answer = Answer {
            verdict: Verdict::Accepted { applied },
            signature: Signature([0; 64]),
        };
        world.nodes[0].answer(to, id, answer);
        assert_eq!(
            world.nodes[0].outgoing[&id].answer.is_some(),
            possible,
            "{applied} of 3"
        );
        let mut actions = world.nodes[0].take_actions().into_iter();
        let offence = actions.any(|action| matches!(action, Action::Offence { peer, .. } if peer == to));
        assert_eq!(offence, !possible, "{applied} of 3");
    }
}

#[test]
fn who_leaves_calls_back_what_is_queued_and_has_then_given_nothing_away() {
    let mut world = World::new();
    let id = world.id(1, 0);
    let node = &mut world.nodes[0];
    node.take_actions();
    assert!(node.recall_all(), "a share is given out");
    let actions = node.take_actions();
    assert!(
        matches!(&actions[..], [Action::Recall(ids)] if *ids == [id]),
        "{actions:?}"
    );
    assert!(node.recall_all(), "the answer is due");
    node.recalled(&Recalled {
        left: vec![],
        back: vec![id],
    });
    assert!(!node.recall_all() && !node.anything_left());
    // Had a byte of it left, all would be different.
    let mut world = World::new();
    let node = &mut world.nodes[0];
    assert!(node.recall_all());
    node.recalled(&Recalled {
        left: vec![id],
        back: vec![],
    });
    assert!(!node.recall_all() && node.anything_left());
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
    // Shares that are not due.
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
            ArrivedShare {
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
    // Shares that are due, with weights or values that no honest one has.
    for (case, weight, values) in [
        (0, LatticeWeight(i128::MAX), good.clone()),
        (1, LatticeWeight(weight.0 + 1), good.clone()),
        (2, weight, off_grid.into()),
    ] {
        let mut world = World::new();
        world.nodes[to].share(from, id, ArrivedShare { weight, values });
        world.collect(to);
        assert_eq!(world.nodes[to].received[&(1, 0)], Verdict::Refused, "case {case}");
        assert_eq!(world.offences.len(), 1);
    }
    let answer = |verdict| Answer {
        verdict,
        signature: Signature([0; 64]),
    };
    // Answers to what was not sent, and answers that cannot be.
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
        world.nodes[other].unreachable(0, true);
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
        world.nodes[0].state().portion().weight,
        world.ledgers[0].own_weight(),
        "all of its own is back"
    );
}

#[test]
fn pace_and_waking_are_kept() {
    let mut world = World::with("[mechanism]\nrollback = true");
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.parameters.pace_ms = 20);
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

/// A world in which all is over, the logs of all, and who got the first share of party 0: that log
/// does not list it if `denied`.
fn closed(denied: bool) -> (World, AgreedLogs, Party) {
    let mut world = World::new();
    world.deliver_all();
    let receiver = world.to(1, 0);
    let logs = world.nodes.iter_mut().enumerate();
    let mut logs: AgreedLogs = logs
        .map(|(party, node)| (party, node.close(Vec::new())))
        .collect();
    if denied {
        let received = &mut logs.get_mut(&receiver).expect("there").received;
        received.retain(|entry| (entry.round, entry.from) != (1, 0));
    }
    (world, logs, receiver)
}

#[test]
fn a_receiver_that_denies_what_it_signed_for_is_named() {
    let (mut world, logs, liar) = closed(true);
    assert_eq!(
        world.nodes.swap_remove(0).settle(&logs, &everybody()).err(),
        Some(liar)
    );
}

#[test]
fn who_denied_what_it_signed_for_is_rolled_back_like_anybody_who_is_left_out() {
    let finals = [false, true].map(|denied| {
        let (mut world, logs, liar) = closed(denied);
        let others: BTreeSet<Party> = everybody().into_iter().filter(|&party| party != liar).collect();
        let Ok(last) = world.nodes.swap_remove(0).settle(&logs, &others) else {
            panic!("nothing of the liar's has to be taken back");
        };
        let last = last.portion();
        (last.value.steps().collect::<Vec<i128>>(), last.weight.0)
    });
    assert_eq!(finals[0], finals[1]);
}

#[test]
fn a_share_that_was_accepted_after_the_log_was_signed_can_still_be_taken_back() {
    let mut world = World::new();
    let (to, id) = (world.to(1, 0), world.id(1, 0));
    let (_, ticket) = world.first_share(0, to);
    world.cut(0, to, true);
    assert!(ticket.left());
    world.pass(4 * ROUND_MS);
    let logs = world.nodes.iter_mut().enumerate();
    let logs: AgreedLogs = logs
        .map(|(party, node)| (party, node.close(Vec::new())))
        .collect();
    let late = Answer {
        verdict: Verdict::Accepted { applied: 3 },
        signature: Signature([0; 64]),
    };
    world.nodes[0].answer(to, id, late);
    let back: i128 = fates(&logs, 3)
        .into_iter()
        .filter(|(other, fate)| other.from == 0 && matches!(fate, Fate::Returned { seen: true, .. }))
        .map(|(other, _)| world.nodes[0].outgoing[&other].weight.0)
        .sum();
    assert!(back >= world.nodes[0].outgoing[&id].weight.0);
    let before = world.nodes[0].state().portion().weight.0;
    let Ok(last) = world.nodes.swap_remove(0).settle(&logs, &everybody()) else {
        panic!("its log says nothing of the answer, and it can be taken back");
    };
    assert_eq!(last.portion().weight.0, before + back);
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
                signature: Signature([0; 64]),
            };
            world.nodes[0].answer(to, id, answer);
        }
        let out = world.nodes[0].outgoing[&id].weight.0;
        let before = world.nodes[0].state().portion().weight.0;
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
        let Ok(final_state) = world.nodes.swap_remove(0).settle(&logs, &survivors) else {
            panic!("nobody lies")
        };
        assert_eq!(
            final_state.portion().weight.0,
            before + back + if refused { out } else { 0 }
        );
    }
}

/// An event that may happen to four nodes; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Operation {
    Deliver(usize),
    Pass(u64),
    Cut(usize, bool),
    Join(usize),
    Lose(usize),
    Close(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0usize..16).prop_map(Operation::Deliver),
        2 => (0u64..ROUND_MS).prop_map(Operation::Pass),
        1 => (0usize..16, any::<bool>()).prop_map(|(wire, taken)| Operation::Cut(wire, taken)),
        1 => (0usize..16).prop_map(Operation::Join),
        1 => (0usize..16).prop_map(Operation::Lose),
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
                Operation::Lose(wire) if wire / 4 != wire % 4 => {
                    world.nodes[wire / 4].unreachable(wire % 4, true);
                }
                Operation::Close(me) if world.nodes[me].is_quiet(world.now) => {
                    drop(world.nodes[me].close(Vec::new()));
                }
                _ => {}
            }
        }
        world.pass(4 * ROUND_MS);
        let of = |mask: u8| (0..4).filter(|party| mask >> party & 1 == 1).collect::<BTreeSet<Party>>();
        let members = of(members | publishers);
        prop_assert_eq!(world.settle(&members, &of(publishers)), Ok(()));
    }
}
