//! Connections that come anew, parties that are gone or were never there, and when a waiting node
//! looks again.

use std::cell::Cell;
use std::rc::Rc;

use super::{PAIRWISE, READABLE, SEALED, among, at, circles_plan, refuse, stage_of};
use crate::messages::log::{ShareId, Verdict};
use crate::messages::notice::{Network, Notice};
use crate::messages::signing::Signer;
use crate::messages::wire::{self, Bytes};
use crate::plan::peers::simulated_keypair;
use crate::run::interface::Input;
use crate::run::outcome::Ending;
use crate::task::tests::ensemble::Ensemble;
use crate::time::Time;
use crate::topology::party::Party;

/// Shares and vectors travel on the private graph: what is lost with a public connection is none of
/// them.
#[test]
fn only_a_new_private_connection_brings_what_was_not_answered_again() {
    for plan in [among(5, READABLE), circles_plan("")] {
        let sent = Rc::new(Cell::new(0));
        let counted = sent.clone();
        let mut ensemble = Ensemble::new(&plan);
        // Nothing private arrives, so that nothing is answered.
        ensemble.arrives = Box::new(move |on_its_way| {
            let private = on_its_way.network == Network::Private;
            counted.set(counted.get() + u32::from(private && on_its_way.from == 0));
            !private
        });
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
        ensemble.deliver();
        let to = (1..plan.parties()).collect::<Vec<Party>>();
        let first = sent.replace(0);
        assert!(first > 0);
        for (network, again) in [(Network::Public, 0), (Network::Private, first)] {
            for &peer in &to {
                ensemble.feed(0, Input::Disconnected { network, peer });
                ensemble.feed(0, Input::Connected { network, peer });
            }
            assert_eq!(sent.replace(0), again, "{network:?}");
        }
    }
}

/// A log names who is gone, of those who are in START.
#[test]
fn a_log_calls_nobody_who_is_not_in_start() {
    for lines in [
        "[run]\nsealed = false\njoin_ms = 500",
        "[run]\nsealed = true\njoin_ms = 500",
    ] {
        let mut ensemble = Ensemble::without(&among(5, lines), &[4]);
        ensemble.until(|ensemble| ["mixing", "settling"].contains(&stage_of(ensemble.run(0))));
        (0..4).for_each(|party| ensemble.feed(party, Input::Unreachable { peer: 4 }));
        ensemble.play();
        for party in 0..4 {
            let log = ensemble.outcome(party).own_log.as_ref().expect("it settled");
            assert_eq!(log.unreachable, [] as [Party; 0], "{lines}");
        }
    }
}

/// Who owes a vector signs no log before it has come: a node that is gone with it is named at once.
#[test]
fn a_log_of_a_circle_calls_gone_who_owes_a_vector() {
    let mut ensemble = Ensemble::new(&circles_plan(""));
    ensemble.arrives = Box::new(|sent| sent.network != Network::Private || sent.from != 5);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.kill(5);
    ensemble.until(|ensemble| (0..5).all(|party| ensemble.run(party).record.own_log.is_some()));
    for party in 0..5 {
        let log = ensemble.run(party).record.own_log.as_ref().expect("it settled");
        assert_eq!(log.unreachable, [5]);
    }
}

/// Nobody else wakes it: while a node waits for something that a clock ends, it wants to be woken
/// by then.
#[test]
fn who_waits_wants_to_be_woken_when_its_stage_ends_at_the_latest() {
    let ends = |stage: &str, round_ms: u64, settle_ms: u64| match stage {
        "mixing" => 3 * round_ms,
        "settling" => 3 * round_ms + 2 * settle_ms,
        "auditing" => 3 * round_ms + 32 * settle_ms,
        _ => 3 * round_ms + 40 * settle_ms,
    };
    for lines in [READABLE, SEALED, PAIRWISE] {
        let plan = among(5, lines);
        let (round_ms, settle_ms) = (plan.draft().run.round_ms, plan.draft().run.settle_ms);
        let mut ensemble = Ensemble::new(&plan);
        // Everybody's shares, and what opens, are lost: all stages last until their clocks end.
        ensemble.arrives = Box::new(|sent| sent.network == Network::Public && !super::tells_a_secret(sent));
        let mut seen = std::collections::BTreeSet::new();
        while !(0..5).all(|party| ensemble.outcomes.contains_key(&party)) {
            ensemble.step();
            for party in 0..5 {
                let run = ensemble.run(party);
                let stage = stage_of(run);
                let Some(start) = run.record.started_at.filter(|_| !run.record.finished) else {
                    continue;
                };
                if [
                    "mixing",
                    "settling",
                    "auditing",
                    "correcting",
                    "publishing",
                    "opening",
                ]
                .contains(&stage)
                {
                    seen.insert(stage);
                    let latest = start.plus_millis(ends(stage, round_ms, settle_ms));
                    assert!(run.wake() <= latest.max(ensemble.now), "{lines:?} in {stage}");
                }
            }
        }
        assert!(seen.contains("settling") && seen.len() >= 2, "{seen:?}");
    }
    // A vector is waited for until the first half of settling is over.
    let plan = circles_plan("");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| sent.network == Network::Public);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.deliver();
    let run = ensemble.run(0);
    let start = run.record.started_at.expect("it began");
    assert_eq!(run.wake(), start.plus_millis(plan.draft().run.settle_ms));
}

/// A share of who is gone does not come: its round goes on without it at once.
#[test]
fn who_is_gone_while_shares_travel_is_waited_for_in_no_round() {
    let plan = among(5, READABLE);
    let mut ensemble = Ensemble::new(&plan);
    ensemble.clogged.insert(4);
    ensemble.until(|ensemble| (0..5).all(|party| stage_of(ensemble.run(party)) == "mixing"));
    ensemble.deliver();
    assert!(
        (0..4).any(|party| stage_of(ensemble.run(party)) == "mixing"),
        "for 4"
    );
    ensemble.kill(4);
    ensemble.play();
    let waited = ensemble.now.as_millis();
    assert!(waited < plan.draft().run.round_ms, "{waited} ms");
    assert_eq!(ensemble.outcome(0).included, (0..4).collect());
}

/// An answer about no vector of this node is its author's offence, and changes nothing.
#[test]
fn an_answer_about_no_vector_is_an_offence() {
    let plan = circles_plan("");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| sent.network == Network::Public);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
    ensemble.deliver();
    let signer = Signer::new(1, *plan.digest(), simulated_keypair(1), 0);
    for (at, (round, verdict, offends)) in [
        (2, Verdict::Accepted { applied: 1 }, true),
        (1, Verdict::Accepted { applied: 2 }, true),
        (1, Verdict::Refused, true),
        (1, Verdict::Accepted { applied: 1 }, false),
        (1, Verdict::Accepted { applied: 1 }, false),
    ]
    .into_iter()
    .enumerate()
    {
        let id = ShareId {
            round,
            from: 0,
            to: 1,
        };
        let answer = signer.answer(id, verdict).expect("it signs");
        let frame = Bytes::from_owner(wire::answer_frame(plan.digest(), id, &answer));
        let before = ensemble.complaints(0).len();
        ensemble.feed(0, Input::Private { from: 1, frame });
        let more = ensemble.complaints(0).len() - before;
        assert_eq!(more, usize::from(offends), "case {at}");
    }
}

/// A share that is not due is an offence of whoever has begun with the same START. Another START
/// has another schedule: nothing is said of who may have begun with that.
#[test]
fn a_share_that_is_not_due_accuses_only_who_has_begun_with_the_same_start() {
    for begun in [true, false] {
        let plan = among(5, "[run]\nsealed = false\njoin_ms = 500");
        let mut ensemble = Ensemble::without(&plan, if begun { &[] } else { &[4] });
        ensemble.clogged.extend(1..5);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "mixing");
        ensemble.deliver();
        let lattice = plan.lattice();
        let id = ShareId {
            round: 77,
            from: 4,
            to: 0,
        };
        let values = vec![0; 2 * lattice.wire_bytes as usize];
        let frame = wire::share_frame(plan.digest(), id, crate::lattice::grid::LatticeWeight(0), &values);
        let frame = Bytes::from_owner(frame);
        let before = ensemble.complaints(0).len();
        ensemble.feed(0, Input::Private { from: 4, frame });
        assert_eq!(ensemble.complaints(0).len() - before, usize::from(begun));
    }
}

/// Others need not wait for a node that leaves before START: it takes back that it is ready.
#[test]
fn who_leaves_before_start_takes_back_that_it_is_ready() {
    let withdrawn = Rc::new(Cell::new(0));
    let counted = withdrawn.clone();
    let mut ensemble = Ensemble::new(&among(5, READABLE));
    ensemble.arrives = Box::new(move |sent| {
        let withdraws = matches!(super::notice_of(sent), Some(Notice::Withdraw { .. }));
        counted.set(counted.get() + u32::from(withdraws && sent.from == 0));
        // No START is signed meanwhile.
        !matches!(super::notice_of(sent), Some(Notice::Start { .. }))
    });
    let peers = 1..5;
    peers.for_each(|peer| {
        for network in [Network::Private, Network::Public] {
            ensemble.feed(0, Input::Connected { network, peer });
        }
    });
    ensemble.feed(0, Input::Leave);
    assert_eq!(withdrawn.get(), 4, "to each neighbour");
    assert!(matches!(ensemble.outcome(0).ending, Ending::Aborted { .. }));
}

/// Who has ended waits for nobody, though others' words are still lacking; and what it exchanged is
/// told with its end.
#[test]
fn who_has_ended_waits_for_nobody_and_tells_what_it_exchanged() {
    for (lines, stage) in [
        (READABLE, "settling"),
        (SEALED, "settling"),
        (PAIRWISE, "settling"),
    ] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
        ensemble.silent.extend(1..5);
        ensemble.play();
        assert_eq!(ensemble.run(0).awaited(), [] as [Party; 0], "{lines}");
    }
    // The gate never answers, or says no.
    for refuses in [false, true] {
        let mut ensemble = Ensemble::new(&among(5, READABLE));
        ensemble.judge = Box::new(move |_, _, _| refuses.then(|| refuse("why")));
        ensemble.play();
        let outcome = ensemble.outcome(0);
        assert!(matches!(outcome.ending, Ending::Withheld { .. }));
        assert_eq!(outcome.tally.accepted, 3, "three rounds");
        assert!(ensemble.now >= if refuses { Time::ZERO } else { at(1) });
    }
}
