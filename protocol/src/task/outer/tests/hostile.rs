//! The forbidden messages of peers, and the time that they are waited for.

use super::*;
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::{Answer, ShareId, Verdict};
use crate::messages::signature::Signature;
use crate::plan::peers::simulated_keypair;

/// Party 0 waits for the state of its neighbour 1 in the first public round.
fn waiting_for_one(plan: &Arc<Plan>) -> Ensemble<'static> {
    let mut ensemble = ensemble(plan);
    ensemble.arrives = Box::new(|sent| {
        let later = wire::of_iteration(sent.frame).is_ok_and(|(number, _)| number > 1);
        !(sent.network == Network::Public && later && (sent.from, sent.to) == (1, 0))
    });
    let waits = |ensemble: &Ensemble<'_>| {
        let outer = of(ensemble, 0);
        name(&outer.stage) == "averaging" && outer.rounds.waits_for().eq([1])
    };
    ensemble.until(waits);
    ensemble
}

/// A state of party 1 in the first round, or something else than that.
struct Stated {
    author: Party,
    number: u32,
    round: u32,
    values: Vec<u8>,
}

fn good() -> Stated {
    Stated {
        author: 1,
        number: 2,
        round: 0,
        values: state(&[0.5, -0.5]),
    }
}

fn of_values(values: Vec<u8>) -> Stated {
    Stated { values, ..good() }
}

fn of_author(author: Party) -> Stated {
    Stated { author, ..good() }
}

/// A state of this round, in a frame of this number.
fn of_round(round: u32, number: u32) -> Stated {
    Stated {
        round,
        number,
        ..good()
    }
}

fn state(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn stated(plan: &Plan, said: &Stated) -> Bytes {
    let signer = Signer::new(said.author, *plan.digest(), simulated_keypair(said.author), 0);
    let signed = signer.round(said.round, &said.values);
    let inner = wire::round_frame(&signed.expect("it signs"), &said.values);
    Bytes::from_owner(wire::iteration_frame(said.number, &inner))
}

fn waits_for_one(ensemble: &Ensemble<'_>) -> bool {
    of(ensemble, 0).rounds.waits_for().eq([1])
}

#[test]
fn a_state_that_no_honest_neighbour_says_is_an_offence_and_is_not_taken() {
    let plan = outer_plan();
    let with_nan = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let with_nan = with_nan
        .into_iter()
        .flat_map(|wrong| [[0.5, wrong], [wrong, 0.5]]);
    let wrong = with_nan.map(|values| state(&values));
    let lengths = [&[][..], &[0.5], &[0.5; 3]].map(state);
    let wrong = wrong.chain(lengths).chain([vec![0; 17]]);
    let mut offences: Vec<(Party, Stated)> = wrong.map(|values| (1, of_values(values))).collect();
    offences.extend([
        (1, of_round(0, 3)),
        (1, of_round(1, 2)),
        // Somebody else's, and of somebody who is no neighbour.
        (1, of_author(4)),
        (2, of_author(2)),
    ]);
    let mut ensemble = waiting_for_one(&plan);
    for (at, (from, said)) in offences.into_iter().enumerate() {
        let before = ensemble.complaints(0).len();
        let frame = stated(&plan, &said);
        ensemble.feed(0, Input::Public { from, frame });
        let reported = ensemble.complaints(0);
        assert_eq!(reported.len(), before + 1, "offence {at}: {reported:?}");
        assert!(reported[before].starts_with(&format!("{from}: ")));
        assert!(waits_for_one(&ensemble), "offence {at} was taken");
    }
    // Under the name of party 1, signed by another key.
    let mut frame = stated(&plan, &of_author(4)).to_vec();
    let genuine = stated(&plan, &good());
    let differ = frame.iter().zip(&genuine[..]).position(|(a, b)| a != b);
    let author = differ.expect("the author");
    frame[author] = genuine[author];
    let (from, frame) = (1, Bytes::from(frame));
    ensemble.feed(0, Input::Public { from, frame });
    assert!(waits_for_one(&ensemble), "a forged state was taken");
}

#[test]
fn a_state_of_this_round_or_the_next_is_taken_once_and_no_other() {
    let plan = outer_plan();
    let mut ensemble = waiting_for_one(&plan);
    let feed = |ensemble: &mut Ensemble<'_>, said: &Stated| {
        let (from, frame) = (1, stated(&plan, said));
        ensemble.feed(0, Input::Public { from, frame });
    };
    for round in [2, 3, u32::MAX - 2] {
        feed(&mut ensemble, &of_round(round, round + 2));
    }
    assert!(of(&ensemble, 0).rounds.heard.keys().all(|(round, _)| *round <= 1));
    for values in [[9.0, 9.0], [7.0, 7.0]] {
        let values = state(&values);
        feed(
            &mut ensemble,
            &Stated {
                values,
                ..of_round(1, 3)
            },
        );
    }
    assert_eq!(of(&ensemble, 0).rounds.heard.get(&(1, 1)), Some(&vec![9.0, 9.0]));
    assert_eq!(ensemble.complaints(0), [] as [String; 0], "it is no offence");
    feed(&mut ensemble, &good());
    assert!(of(&ensemble, 0).rounds.now > 0, "the good one is taken");
}

/// After its last round a node says that it has ended, and nothing else.
#[test]
fn the_last_word_carries_no_state() {
    let plan = outer_plan();
    let mut ensemble = ensemble(&plan);
    let rounds = of(&ensemble, 0).rounds.in_an_iteration() as u32;
    let last = ITERATIONS as u32 * rounds;
    ensemble.arrives = Box::new(move |sent| {
        let number = wire::of_iteration(sent.frame).map_or(0, |(number, _)| number);
        !(sent.network == Network::Public && number == last + 2 && (sent.from, sent.to) == (1, 0))
    });
    ensemble.play();
    ensemble.deliver();
    assert!(!ensemble.has_said(0, &Event::Complete) && ensemble.has_said(2, &Event::Complete));
    let word = |values: Vec<u8>| {
        let said = Stated {
            author: 1,
            number: last + 2,
            round: last,
            values,
        };
        Input::Public {
            from: 1,
            frame: stated(&plan, &said),
        }
    };
    ensemble.feed(0, word(state(&[0.5, 0.5])));
    assert!(ensemble.complaints(0)[0].starts_with("1: a state of another length"));
    assert!(!ensemble.has_said(0, &Event::Complete));
    ensemble.feed(0, word(vec![]));
    assert!(ensemble.has_said(0, &Event::Complete));
}

/// A party that waits for a share in the first iteration, and which hand-over it waits for.
fn waiting_for_a_share(plan: &Arc<Plan>) -> (Ensemble<'static>, Party, HandOver) {
    let mut ensemble = ensemble(plan);
    ensemble.now = Time::from_millis(5000);
    let is_due = |party: &Party| {
        of(&ensemble, *party)
            .own_edges(0)
            .iter()
            .any(|edge| edge.into == *party)
    };
    let me = (0..PARTIES).find(is_due).expect("somebody hands over");
    ensemble.arrives = Box::new(move |sent| !(sent.network == Network::Private && sent.to == me));
    let waits = |ensemble: &Ensemble<'_>| match &of(ensemble, me).stage {
        OuterStage::Gossip(turn) => turn.due.front().copied().filter(|edge| edge.into == me),
        _ => None,
    };
    ensemble.until(|ensemble| waits(ensemble).is_some());
    let edge = waits(&ensemble).expect("it waits");
    let OuterStage::Gossip(turn) = &of(&ensemble, me).stage else {
        panic!("it waits");
    };
    assert_eq!(turn.waits_for(me), Some(edge.out));
    (ensemble, me, edge)
}

/// A share of this number, from `by` to `to`, as `from` sends it.
struct Sent {
    digest: [u8; 32],
    from: Party,
    number: u32,
    by_to: (Party, Party),
    bytes: usize,
    fill: u8,
}

impl Sent {
    fn input(&self) -> Input {
        let id = ShareId {
            round: self.number,
            from: self.by_to.0,
            to: self.by_to.1,
        };
        let values = vec![self.fill; self.bytes];
        let frame = wire::share_frame(&self.digest, id, LatticeWeight(0), &values);
        let (from, frame) = (self.from, Bytes::from_owner(frame));
        Input::Private { from, frame }
    }
}

/// The share that is waited for, and the numbers of others of the same neighbour: undue ones of the
/// first iteration, and those that are due in later ones.
fn shares(plan: &Plan, outer: &Outer, edge: HandOver) -> (Sent, Vec<u32>, Vec<u32>) {
    let iterations = outer.settings().gossip_iterations;
    let is_due = |at: u64, round: u32| {
        let mut own = outer.own_edges(at).into_iter();
        own.any(|other| (other.out, other.into, other.round) == (edge.out, edge.into, round))
    };
    let undue = (1..=iterations).filter(|&round| !is_due(0, round)).collect();
    let later = (1..ITERATIONS).flat_map(|at| (1..=iterations).map(move |round| (at, round)));
    let later = later.filter(|&(at, round)| is_due(at, round));
    let sent = Sent {
        digest: *plan.digest(),
        from: edge.out,
        number: edge.round,
        by_to: (edge.out, edge.into),
        bytes: 2 * plan.lattice().wire_bytes as usize,
        fill: 0,
    };
    let number = |(at, round)| at as u32 * iterations + round;
    (sent, undue, later.map(number).collect())
}

#[test]
fn a_share_that_is_not_due_is_an_offence_and_is_not_kept() {
    let plan = outer_plan();
    let (mut ensemble, me, edge) = waiting_for_a_share(&plan);
    let (good, undue, _) = shares(&plan, of(&ensemble, me), edge);
    let beyond = of(&ensemble, me).settings().gossip_iterations * ITERATIONS as u32 + edge.round;
    let third = (0..PARTIES).find(|party| ![me, edge.out].contains(party));
    let third = third.expect("another");
    let numbers = undue.into_iter().chain([0, beyond, u32::MAX]);
    let mut refused: Vec<Input> = numbers.map(|number| Sent { number, ..good }.input()).collect();
    for bytes in [good.bytes - 1, good.bytes + 1, 0] {
        refused.push(Sent { bytes, ..good }.input());
    }
    for by_to in [(third, me), (edge.out, third)] {
        refused.push(Sent { by_to, ..good }.input());
    }
    let digest = [7; 32];
    refused.push(Sent { digest, ..good }.input());
    let answer = Answer {
        verdict: Verdict::Refused,
        signature: Signature([0; 64]),
    };
    let id = ShareId {
        round: edge.round,
        from: me,
        to: edge.out,
    };
    let (from, frame) = (edge.out, wire::answer_frame(plan.digest(), id, &answer));
    let frame = Bytes::from_owner(frame);
    refused.push(Input::Private { from, frame });
    for (at, input) in refused.into_iter().enumerate() {
        ensemble.feed(me, input);
        let kept = of(&ensemble, me).shares.len();
        assert_eq!((ensemble.complaints(me).len(), kept), (at + 1, 0), "refusal {at}");
    }
}

#[test]
fn shares_of_later_iterations_wait_and_the_awaited_one_is_taken_at_once() {
    let plan = outer_plan();
    let (mut ensemble, me, edge) = waiting_for_a_share(&plan);
    let (good, _, later) = shares(&plan, of(&ensemble, me), edge);
    for (count, &number) in (1..).zip(&later) {
        for fill in [7, 9] {
            ensemble.feed(me, Sent { number, fill, ..good }.input());
            let kept = &of(&ensemble, me).shares;
            assert_eq!(kept.len(), count, "number {number}");
            let first = |values: &Bytes| values.iter().all(|byte| *byte == 7);
            assert!(kept.values().all(first), "the first one counts");
        }
    }
    ensemble.feed(me, good.input());
    let kept = of(&ensemble, me).shares.len();
    assert_eq!((ensemble.complaints(me).len(), kept), (0, later.len()));
    if let OuterStage::Gossip(turn) = &of(&ensemble, me).stage {
        let awaited = turn.due.front().map(|next| (next.out, next.round));
        assert_ne!(awaited, Some((edge.out, edge.round)), "it was taken");
    }
}

/// A node that is behind by more than its neighbours can be is not waited for with memory.
#[test]
fn a_node_is_as_many_iterations_ahead_as_the_public_graph_lets_it_be() {
    let plan = outer_plan();
    let ensemble = ensemble(&plan);
    let outer = of(&ensemble, 0);
    // Five parties on a ring, whose Laplacian has two different eigenvalues above 0.
    assert_eq!((outer.rounds.in_an_iteration(), outer.window()), (2, 3));
}

#[test]
fn who_is_waited_for_ends_it_at_once_if_it_is_gone_and_else_after_a_round_and_a_stage() {
    let plan = outer_plan();
    let (mut ensemble, me, edge) = waiting_for_a_share(&plan);
    let moved = of(&ensemble, me).moved;
    assert_eq!(moved, Time::from_millis(5000), "START, or its own last word");
    let bystander = (0..PARTIES).find(|party| ![me, edge.out].contains(party));
    let peer = bystander.expect("another");
    ensemble.feed(me, Input::Unreachable { peer });
    assert!(
        !ensemble.outcomes.contains_key(&me),
        "nobody waits for {peer} here"
    );
    let patience = moved.plus_millis(ROUND_MS + SETTLE_MS);
    ensemble.now = Time::from_nanos(patience.as_nanos() - 1);
    ensemble.feed(me, Input::Tick);
    assert!(!ensemble.outcomes.contains_key(&me));
    ensemble.now = patience;
    ensemble.feed(me, Input::Tick);
    let stopped = ensemble.training(me).stopped.clone();
    assert_eq!(
        stopped,
        Some(format!("party-{} was waited for in vain", edge.out))
    );
    assert_eq!(ensemble.outcome(me).ending, Ending::Degraded);

    // It wakes up for that by itself.
    let (mut ensemble, me, _) = waiting_for_a_share(&plan);
    ensemble.silent.extend((0..PARTIES).filter(|party| *party != me));
    ensemble.play();
    assert_eq!(ensemble.now, patience);

    let (mut ensemble, me, edge) = waiting_for_a_share(&plan);
    ensemble.kill(edge.out);
    let stopped = ensemble.training(me).stopped.clone();
    assert_eq!(stopped, Some(format!("party-{} is gone", edge.out)));

    // Who is back on either graph is waited for again.
    let (mut ensemble, me, edge) = waiting_for_a_share(&plan);
    let bystander = (0..PARTIES).find(|party| ![me, edge.out].contains(party));
    let peer = bystander.expect("another");
    for network in [Network::Private, Network::Public] {
        ensemble.feed(me, Input::Unreachable { peer });
        assert!(of(&ensemble, me).unreachable.contains(&peer));
        ensemble.feed(me, Input::Connected { network, peer });
        assert!(of(&ensemble, me).unreachable.is_empty());
    }
}
