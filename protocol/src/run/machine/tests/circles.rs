//! Sealed vectors for readers: what is kept of them before their round begins, and what is sent.

use super::{RunPhase, circles_plan, stage_of};
use crate::messages::log::ShareId;
use crate::messages::notice::Network;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::run::interface::Input;
use crate::run::outcome::{Ending, Event};
use crate::task::tests::ensemble::{Ensemble, contribution};
use crate::topology::party::Party;

/// Early vectors are kept one for each neighbour, and of the ring's length only: memory that peers
/// may fill is bounded by the plan.
#[test]
fn a_vector_that_comes_before_its_round_is_kept_if_it_is_due_and_of_its_length() {
    let plan = circles_plan("");
    let bytes = 2 * plan.circle_ring().expect("a ring").width();
    let digest = *plan.digest();
    let frame = |digest: &[u8; 32], (from, to): (Party, Party), round: u32, bytes: usize| {
        let id = ShareId { round, from, to };
        Bytes::from_owner(wire::sealed_frame(digest, id, &vec![0; bytes]))
    };
    let mut ensemble = Ensemble::new(&plan);
    ensemble.unspent.insert(0);
    ensemble.arrives = Box::new(|sent| sent.network != Network::Private);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "spending");
    let kept = |ensemble: &Ensemble<'_>| ensemble.run(0).early().len();
    for (at, (from, frame)) in [
        (1, frame(&digest, (1, 0), 1, bytes - 1)),
        (1, frame(&digest, (1, 0), 1, bytes + 1)),
        (1, frame(&digest, (1, 0), 1, 0)),
        (1, frame(&digest, (1, 0), 1, 1 << 20)),
        (1, frame(&digest, (2, 0), 1, bytes)),
        (1, frame(&digest, (1, 2), 1, bytes)),
        (1, frame(&[7; 32], (1, 0), 1, bytes)),
    ]
    .into_iter()
    .enumerate()
    {
        ensemble.feed(0, Input::Private { from, frame });
        assert_eq!(
            (kept(&ensemble), ensemble.complaints(0).len()),
            (0, at + 1),
            "case {at}"
        );
    }
    let before = ensemble.complaints(0).len();
    for (from, expected) in [(1, 1), (1, 1), (3, 2)] {
        let frame = frame(&digest, (from, 0), 1, bytes);
        ensemble.feed(0, Input::Private { from, frame });
        assert_eq!(
            (kept(&ensemble), ensemble.complaints(0).len()),
            (expected, before)
        );
    }
    // Shares and messages of gossip are of other plans.
    let id = ShareId {
        round: 1,
        from: 1,
        to: 0,
    };
    let weight = crate::lattice::grid::LatticeWeight(0);
    for frame in [
        wire::share_frame(&digest, id, weight, &vec![0; bytes]),
        wire::message_frame(&digest, id, weight, &vec![0; bytes]),
    ] {
        let frame = Bytes::from_owner(frame);
        let run = &mut crate::run::machine::tests::run_of(&plan, 0);
        super::drain(run);
        run.handle(super::at(1), Input::Private { from: 1, frame })
            .expect("a party");
        assert_eq!(super::offences(&super::drain(run)).len(), 1);
    }
}

/// A sealed vector leaves for each of its readers, once, and again on a new connection bit for bit
/// until it is answered.
#[test]
fn a_vector_goes_to_each_reader_and_again_until_it_is_answered() {
    let plan = circles_plan("");
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::<(Party, Bytes)>::new()));
    let noted = sent.clone();
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(move |on_its_way| {
        let vector = matches!(
            wire::read_private(on_its_way.frame),
            Ok(PrivateFrame::Sealed { .. })
        ) && on_its_way.network == Network::Private;
        if vector && on_its_way.from == 0 {
            noted.borrow_mut().push((on_its_way.to, on_its_way.frame.clone()));
        }
        !(vector && on_its_way.from == 0 && on_its_way.to == 2)
    });
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.deliver();
    let first = sent.take();
    let readers: Vec<Party> = first.iter().map(|(to, _)| *to).collect();
    assert_eq!(readers, [1, 2, 3, 4, 5]);
    for (peer, again) in [(2, true), (3, false)] {
        let network = Network::Private;
        ensemble.feed(0, Input::Disconnected { network, peer });
        ensemble.feed(0, Input::Connected { network, peer });
        let second = sent.take();
        assert_eq!(second.len(), usize::from(again), "{peer}");
        assert!(second.iter().all(|one| first.contains(one)), "bit for bit");
    }
    // No two readers get the same, nor the same bytes as another's.
    let different: std::collections::BTreeSet<&[u8]> = first.iter().map(|(_, frame)| &frame[..]).collect();
    assert_eq!(different.len(), 5);
}

/// Who has left takes nothing more, and accuses nobody who sends it what was due.
#[test]
fn a_vector_for_a_node_that_has_left_is_no_offence() {
    let plan = circles_plan("");
    let bytes = 2 * plan.circle_ring().expect("a ring").width();
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| sent.network != Network::Private || sent.to != 0);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.feed(0, Input::Leave);
    assert!(matches!(ensemble.run(0).phase, RunPhase::Over));
    let before = ensemble.complaints(0).len();
    let (round, from, to) = (1, 1, 0);
    let frame = wire::sealed_frame(plan.digest(), ShareId { round, from, to }, &vec![0; bytes]);
    let frame = Bytes::from_owner(frame);
    ensemble.feed(0, Input::Private { from, frame });
    assert_eq!(ensemble.complaints(0).len(), before);
}

/// Nothing leaves without the noise of each reader's vector, and the run says why.
#[test]
fn a_contribution_without_the_noise_of_its_vectors_is_not_sealed() {
    let plan = circles_plan("");
    let mut ensemble = Ensemble::new(&plan);
    let of_plan = plan.clone();
    ensemble.source = Box::new(move |party, round, _| {
        let mut whole: Vec<i128> = contribution(&of_plan, party, round).steps().collect();
        whole.truncate(whole.len() - usize::from(party == 0));
        Some(of_plan.lattice().vector(whole.into_iter()))
    });
    ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
    let outcome = ensemble.outcome(0);
    let gossip = outcome.gossip.as_ref().expect("a stream");
    assert_eq!(
        (gossip.rounds, gossip.spent),
        (1, 1),
        "of the second round nothing left"
    );
    let stopped = gossip.stopped.as_deref();
    assert_eq!(stopped, Some("a contribution without the noise of each vector"));
    assert_eq!(outcome.ending, Ending::Degraded);
    assert!(matches!(ensemble.run(0).phase, RunPhase::Over));
}

/// A sum is of weights that the plan says: all of them while everybody is there.
#[test]
fn a_state_is_the_weighted_sum_of_the_messages() {
    let plan = circles_plan("");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.play();
    // Complete edges: each state is the mean of all, and the estimates add up.
    for party in 0..6 {
        let gossip = ensemble.outcome(party).gossip.as_ref().expect("a stream");
        assert_eq!(gossip.estimates.len(), 2 * plan.draft().releases() as usize);
        // Weights are multiples of 2^-16, and rounding is of steps.
        for (row, round) in gossip.estimates.chunks(2).zip(1..) {
            let near = |x: f64, mean: f64| (x - f64::from(round) * mean).abs() < 1e-2;
            assert!(
                near(row[0], 0.25) && near(row[1], -0.05),
                "round {round}: {row:?}"
            );
        }
    }
}

/// An answer goes to whom it is about over a connection, or waits until its vector comes again.
#[test]
fn a_vector_of_who_is_not_reached_is_answered_when_it_comes_again() {
    let plan = circles_plan("");
    let vector = std::rc::Rc::new(std::cell::RefCell::new(None));
    let answers = std::rc::Rc::new(std::cell::Cell::new(0));
    let (kept, counted) = (vector.clone(), answers.clone());
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(move |sent| {
        let is = |from, to| (sent.network, sent.from, sent.to) == (Network::Private, from, to);
        if is(1, 0) && matches!(wire::read_private(sent.frame), Ok(PrivateFrame::Sealed { .. })) {
            *kept.borrow_mut() = Some(sent.frame.clone());
            return false;
        }
        let answer = is(0, 1) && matches!(wire::read_private(sent.frame), Ok(PrivateFrame::Answer { .. }));
        counted.set(counted.get() + u32::from(answer));
        true
    });
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.deliver();
    let frame: Bytes = vector.take().expect("1 has sealed one for 0");
    let (network, peer, from) = (Network::Private, 1, 1);
    ensemble.feed(0, Input::Disconnected { network, peer });
    let comes = || Input::Private {
        from,
        frame: frame.clone(),
    };
    ensemble.feed(0, comes());
    assert_eq!(answers.get(), 0);
    ensemble.feed(0, Input::Connected { network, peer });
    ensemble.feed(0, comes());
    assert_eq!(answers.get(), 1);
}

/// Who is not in START is in no circle: nothing is sealed for it, and nothing of it is waited for.
/// Of five who are in START nobody may depart if the plan needs five.
#[test]
fn circles_are_of_those_who_are_in_start() {
    for dies in [false, true] {
        let plan = circles_plan("join_ms = 500");
        let mut ensemble = Ensemble::without(&plan, &[5]);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "spending");
        if dies {
            ensemble.kill(4);
        }
        let over = |ensemble: &Ensemble<'_>| ensemble.has_said(0, &Event::Iteration(1));
        ensemble.until(|ensemble| over(ensemble) || ensemble.outcomes.contains_key(&0));
        assert_eq!(over(&ensemble), !dies, "one more is below the plan's fewest");
        if !dies {
            let start = ensemble.run(1).started_at().expect("it began");
            assert!(ensemble.now < start.plus_millis(plan.draft().run.settle_ms / 2));
            let complaints = ensemble.complaints(0);
            assert!(
                complaints.len() == 1 && complaints[0].contains("never connected"),
                "{complaints:?}"
            );
        }
    }
}
