//! Private frames that a peer may not send, and shares before there is a schedule.

use super::*;
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::{Answer, ShareId};
use crate::messages::signature::Signature;
use crate::mixing::exchange::ArrivedShare;
use crate::mixing::noisy::Noisy;
use crate::task::tests::ensemble::{Ensemble, identity};

fn share(digest: &[u8; 32], id: ShareId, bytes: usize) -> Bytes {
    Bytes::from_owner(wire::share_frame(digest, id, LatticeWeight(0), &vec![0; bytes]))
}

fn fed(run: &mut Run, from: Party, frame: Bytes) -> Vec<String> {
    run.handle(run.now, Input::Private { from, frame })
        .expect("a party");
    offences(&drain(run))
}

#[test]
fn private_frames_of_other_plans_kinds_and_shares_are_offences() {
    let plan = plan(3, "", 2);
    let bytes = 2 * plan.lattice().wire_bytes as usize;
    let id = ShareId {
        round: 1,
        from: 1,
        to: 0,
    };
    let answer = |digest: &[u8; 32], id: ShareId| {
        let signature = Signature([0; 64]);
        let verdict = Verdict::Refused;
        Bytes::from_owner(wire::answer_frame(digest, id, &Answer { verdict, signature }))
    };
    let digest = plan.digest();
    let (mut run, _) = up_to_start(&plan);
    let sealed = Bytes::from_owner(wire::sealed_frame(digest, id, &vec![0; bytes]));
    let message = Bytes::from_owner(wire::message_frame(digest, id, LatticeWeight(0), &vec![0; bytes]));
    let to_one = ShareId {
        round: 1,
        from: 0,
        to: 1,
    };
    for (at, (frame, said)) in [
        (Bytes::new(), ""),
        (Bytes::from_static(&[1, 2, 3]), ""),
        (message, "a message of gossip"),
        (sealed, "a vector for a circle"),
        (share(&[9; 32], id, bytes), "plan"),
        (answer(&[9; 32], to_one), "plan"),
        // About somebody else's share, and of somebody else.
        (
            answer(digest, ShareId { from: 2, ..to_one }),
            "an answer about somebody else's share",
        ),
        (
            answer(digest, ShareId { to: 2, ..to_one }),
            "an answer about somebody else's share",
        ),
        (answer(digest, to_one), "signature"),
    ]
    .into_iter()
    .enumerate()
    {
        let reported = fed(&mut run, 1, frame);
        assert!(
            reported.len() == 1 && reported[0].starts_with("1: ") && reported[0].contains(said),
            "{at}: {reported:?}"
        );
    }
}

#[test]
fn a_share_is_kept_before_its_run_begins_if_it_is_due_and_of_its_length() {
    let plan = plan(3, "", 2);
    let bytes = 2 * plan.lattice().wire_bytes as usize;
    let from = plan.schedule().receives_from(1, 0)[0];
    let id = ShareId {
        round: 1,
        from,
        to: 0,
    };
    let undue = (1..=2).find(|&round| !plan.schedule().receives_from(round, 0).contains(&from));
    let (mut run, _) = up_to_start(&plan);
    let other = 3 - from;
    let mut refused = vec![
        (from, id, bytes - 1),
        (from, id, bytes + 1),
        (from, id, 0),
        (other, id, bytes),
        (from, ShareId { to: other, ..id }, bytes),
        (from, ShareId { round: 0, ..id }, bytes),
        (from, ShareId { round: 3, ..id }, bytes),
    ];
    refused.extend(undue.map(|round| (from, ShareId { round, ..id }, bytes)));
    for (by, id, bytes) in refused {
        let frame = share(plan.digest(), id, bytes);
        assert_eq!(fed(&mut run, by, frame).len(), 1, "{id:?} of {by}, {bytes} bytes");
        assert!(run.early().is_empty());
    }
    for _ in 0..2 {
        assert_eq!(
            fed(&mut run, from, share(plan.digest(), id, bytes)),
            [] as [String; 0]
        );
        assert_eq!(run.early().len(), 1);
    }
}

/// Before START has drawn the schedule here others may have begun: a draw may have a neighbour send
/// in each round, so that one share a round is kept and nobody is accused.
#[test]
fn shares_that_come_before_the_draw_are_kept_one_a_round_and_accuse_nobody() {
    let lines = "[run]\nsealed = true\n[privacy]\ncoalitions = \"static\"";
    let plan = plan(8, lines, 5);
    let bytes = 2 * plan.lattice().wire_bytes as usize;
    let mut ensemble = Ensemble::new(&plan);
    // Party 0 hears nobody's START.
    ensemble.arrives =
        Box::new(|sent| sent.to != 0 || !matches!(notice_of(sent), Some(Notice::Reveal { .. })));
    ensemble.until(|ensemble| (1..8).all(|party| stage_of(ensemble.run(party)) == "mixing"));
    ensemble.arrives = Box::new(|_| true);
    for &peer in &plan.draft().private_graph.neighbours(0)[..2] {
        let fed = |ensemble: &mut Ensemble<'_>, id: ShareId| {
            let frame = share(plan.digest(), id, bytes);
            let complaints = ensemble.complaints(0).len();
            ensemble.feed(0, Input::Private { from: peer, frame });
            ensemble.complaints(0).len() == complaints
        };
        let id = |round: u32| ShareId {
            round,
            from: peer,
            to: 0,
        };
        for round in [0, 6] {
            assert!(!fed(&mut ensemble, id(round)), "there is no such round");
        }
        let of_peer = |ensemble: &Ensemble<'_>| {
            let early = ensemble.run(0).early();
            early.keys().filter(|it| it.from == peer).count()
        };
        assert!(
            (1..=5).all(|round| fed(&mut ensemble, id(round))),
            "accused {peer}"
        );
        assert_eq!(of_peer(&ensemble), 5, "of {peer}");
    }
}

#[test]
fn the_drawn_schedule_throws_out_what_it_has_not() {
    let lines = "[run]\nsealed = true\n[privacy]\ncoalitions = \"static\"";
    let plan = plan(8, lines, 5);
    let bytes = 2 * plan.lattice().wire_bytes as usize;
    let noise = Box::new(Quiet(*plan.lattice()));
    let value = inputs(&plan).swap_remove(0);
    let mut run = Run::new(
        plan.clone(),
        identity(0),
        Noisy::with_noise_in(value),
        noise,
        Time::ZERO,
    );
    drain(&mut run);
    let drawn = plan.with_draw(77);
    let neighbours = plan.draft().private_graph.neighbours(0).to_vec();
    let mut expected = (0, 0);
    for &from in &neighbours {
        for round in 1..=2 {
            let id = ShareId { round, from, to: 0 };
            let values = Bytes::from(vec![0; bytes]);
            let weight = LatticeWeight(0);
            let early = run.phase.early().expect("a run that gathers");
            early.0.insert(id, ArrivedShare { weight, values });
            match drawn.exchanges().sends_to(round, from).contains(&0) {
                true => expected.0 += 1,
                false => expected.1 += 1,
            }
        }
    }
    run.gather(GatheringStep::Begin {
        number: 0,
        parties: (0..plan.parties()).collect(),
        seed: Some(77),
    });
    assert_eq!((run.early().len(), offences(&drain(&mut run)).len()), expected);
    assert!(expected.0 > 0 && expected.1 > 0);
    assert_eq!(run.plan().seed_at_start(), Some(77));
    assert_eq!(run.config.mixing.schedule.rounds(), 5);
    assert_eq!(run.public_state.rules.schedule.rounds(), 5, "logs are read by it");
    // From now on it is the schedule that says what is due.
    let id = |round| ShareId {
        round,
        from: neighbours[0],
        to: 0,
    };
    for round in 1..=5 {
        let due = drawn.exchanges().sends_to(round, neighbours[0]).contains(&0);
        assert_eq!(run.config.may_be_due(id(round)), due);
    }
}
