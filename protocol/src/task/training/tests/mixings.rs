//! Precomputed noise: mixings that were in vain, and who goes on with one that was not.

use super::*;
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::AgreedLogs;
use crate::messages::stage::Stage;
use crate::simulator::cluster::permissive_gate;

/// The gate refuses the first mixings of everybody, this many times.
fn in_vain<'a>(times: u32) -> impl Fn(Party, &Plan, &AgreedLogs) -> Option<GateVerdict> + 'a {
    let judged: [Cell<u32>; PARTIES] = Default::default();
    move |party, plan, logs| {
        judged[party].set(judged[party].get() + 1);
        Some(match judged[party].get() > times {
            true => permissive_gate(plan, logs),
            false => refuse("in vain"),
        })
    }
}

/// A share of a mixing that is not this one, for party 0.
fn share_of_another(plan: &Plan, digest: &Digest, from: Party, (round, bytes): (u32, usize)) -> Input {
    let id = ShareId { round, from, to: 0 };
    let frame = wire::share_frame(digest, id, LatticeWeight(0), &vec![0; bytes]);
    let frame = Bytes::from_owner(frame);
    assert!(plan.precomputes_noise());
    Input::Private { from, frame }
}

#[test]
fn shares_of_the_next_mixing_wait_for_it_unless_there_is_none() {
    let plan = rounds_plan("inca", 2, "");
    assert_eq!(plan.most_mixings(), 3);
    let bytes = plan.mixed_coordinates() * plan.lattice().wire_bytes as usize;
    for mixing in 1..=3u32 {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.judge = Box::new(in_vain(9));
        ensemble.until(|ensemble| {
            let training = of(ensemble, 0);
            training.mixings == mixing && training.run.holdings().is_some()
        });
        let due = plan.exchanges().receives_from(1, 0);
        let undue = (1..PARTIES)
            .find(|party| !due.contains(party))
            .expect("fewer are due");
        let before = ensemble.complaints(0).len();
        for (from, place) in [
            (due[0], (1, bytes - 1)),
            (due[0], (1, bytes + 1)),
            (undue, (1, bytes)),
        ] {
            ensemble.feed(0, share_of_another(&plan, &[9; 32], from, place));
        }
        // One that is due, from somebody else.
        let (from, due_of) = (undue, due[0]);
        let Input::Private { frame, .. } = share_of_another(&plan, &[9; 32], due_of, (1, bytes)) else {
            unreachable!("it is a private frame")
        };
        ensemble.feed(0, Input::Private { from, frame });
        assert_eq!(ensemble.complaints(0).len(), before + 4, "no share of any mixing");
        assert!(of(&ensemble, 0).early_shares.is_empty());
        for _ in 0..3 {
            ensemble.feed(0, share_of_another(&plan, &[9; 32], due[0], (1, bytes)));
        }
        let kept = of(&ensemble, 0).early_shares.len();
        assert_eq!(kept, usize::from(mixing < 3), "attempt {mixing} of 3");
        // What was said in an attempt that is over is nobody's fault.
        let before = ensemble.complaints(0).len();
        if mixing > 1 {
            let vain = of(&ensemble, 0).vain.clone();
            assert_eq!(vain.len(), mixing as usize - 1);
            ensemble.feed(0, share_of_another(&plan, &vain[0], due[0], (1, bytes)));
            assert_eq!(ensemble.complaints(0).len(), before);
            assert_eq!(of(&ensemble, 0).early_shares.len(), kept);
        }
    }
}

#[test]
fn a_mixing_in_vain_is_repeated_as_often_as_the_plan_says() {
    let plan = rounds_plan("inca", 2, "");
    for vain in 0..=3 {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.judge = Box::new(in_vain(vain));
        ensemble.play();
        for party in 0..PARTIES {
            let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
            assert_eq!(training.mixings, 3.min(vain + 1));
            let expected = if vain < 3 { 2 } else { 0 };
            assert_eq!(
                (training.iterations, training.spent),
                (expected, expected),
                "{vain} in vain"
            );
            assert_eq!(of(&ensemble, party).iteration(), expected as u32);
            if vain == 3 {
                let reason = "in vain; no value was touched, and another plan costs nothing".to_owned();
                assert_eq!(outcome.ending, Ending::Aborted { reason });
                assert!(outcome.logs.is_none() && outcome.verdict.is_none());
                assert!(!ensemble.tasks[party].keeps_secrets());
            } else {
                assert_eq!(outcome.ending, Ending::Done);
            }
            assert!(of(&ensemble, party).noise.is_none(), "nobody draws again");
        }
    }
}

/// Those whom the gate leaves out of a mixing have no noise that cancels: they end there, and the
/// others go on without them.
#[test]
fn who_is_left_out_of_a_mixing_goes_into_no_iteration() {
    let plan = rounds_plan("inca", 2, "");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.judge = Box::new(|_, plan, logs| {
        let mut verdict = permissive_gate(plan, logs);
        verdict.reason = "left out".into();
        if let Some(publish) = &mut verdict.publish {
            publish.remove(&0);
        }
        Some(verdict)
    });
    ensemble.play();
    let (outcome, training) = (ensemble.outcome(0), ensemble.training(0));
    assert_eq!((training.iterations, training.spent, training.mixings), (0, 0, 1));
    assert_eq!(of(&ensemble, 0).number, 1, "no successor");
    assert!(
        matches!(&outcome.ending, Ending::Aborted { reason } if reason.starts_with("left out; no value"))
    );
    for party in 1..PARTIES {
        let training = ensemble.training(party);
        assert_eq!(
            (training.iterations, training.spent),
            (2, 2),
            "{:?}",
            training.stopped
        );
        assert_eq!(training.departed, [(0, 1)].into());
    }
}

/// A second mixing does not wait for who is known to be gone, though its log of the first counts.
#[test]
fn another_mixing_waits_for_nobody_who_is_gone() {
    let plan = rounds_plan("inca", 2, "round_ms = 3000");
    let dead = Rc::new(Cell::new(false));
    let mut ensemble = Ensemble::new(&plan);
    let judge = in_vain(1);
    let waits = dead.clone();
    // Nobody's gate answers before the party is dead.
    ensemble.judge = Box::new(move |party, plan, logs| waits.get().then(|| judge(party, plan, logs))?);
    let audited = |ensemble: &Ensemble<'_>| {
        (0..PARTIES).all(|party| ensemble.run(party).progress().phase == Phase::Settling)
            && ensemble.run(0).holdings().is_some()
    };
    ensemble.until(audited);
    ensemble.deliver();
    dead.set(true);
    ensemble.kill(5);
    for party in 0..PARTIES - 1 {
        ensemble.feed(party, Input::Verdict(refuse("in vain")));
    }
    let again = ensemble.now;
    assert_eq!(of(&ensemble, 0).mixings, 2);
    assert!(of(&ensemble, 0).run.started().contains(&5), "its log counts");
    assert_eq!(
        of(&ensemble, 0).run.started_at(),
        Some(again),
        "its rounds begin now"
    );
    ensemble.until(|ensemble| !of(ensemble, 0).run.precomputes_noise() || ensemble.outcomes.contains_key(&0));
    assert!(ensemble.outcomes.is_empty(), "{:?}", ensemble.outcome(0).ending);
    assert!(
        ensemble.now < again.plus_millis(3000),
        "no round had to pass: {:?}",
        ensemble.now
    );
}

/// A party whose log is in no agreed set takes no part in another mixing: nobody would exchange
/// with it.
#[test]
fn who_has_no_log_of_a_mixing_in_vain_does_not_mix_again() {
    let plan = rounds_plan("inca", 2, "");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.judge = Box::new(in_vain(1));
    ensemble.arrives = Box::new(|sent| {
        let log = |(number, said): &(u32, Notice)| *number == 1 && said.is_item_of(Stage::Settling);
        sent.from != 0 || !notice(sent).is_some_and(|said| log(&said))
    });
    ensemble.play();
    let training = ensemble.training(0);
    assert_eq!((training.mixings, training.iterations, training.spent), (1, 0, 0));
    for party in 1..PARTIES {
        let training = ensemble.training(party);
        assert_eq!(
            (training.mixings, training.iterations),
            (2, 2),
            "{:?}",
            training.stopped
        );
        assert_eq!(training.departed, [(0, 1)].into());
    }
}

/// The judge of a release sees the logs of the mixing, of those who are left: its own say nothing
/// of shares.
#[test]
fn a_release_is_judged_by_the_logs_of_the_mixing() {
    let plan = rounds_plan("inca", 2, "");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.judge = Box::new(|_, plan, logs| {
        assert!(
            logs.values()
                .all(|log| !log.received.is_empty() && !log.sent.is_empty())
        );
        Some(permissive_gate(plan, logs))
    });
    ensemble.until(|ensemble| of(ensemble, 0).number == 2);
    ensemble.kill(5);
    ensemble.play();
    let logs = ensemble.outcome(0).logs.clone().expect("agreed");
    assert_eq!(logs.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// Others may want something of a node until the deadlines of all mixings that may follow START,
/// and then for a stage. Nobody does of one from which nothing private has left.
#[test]
fn others_may_need_a_node_until_the_last_of_all_deadlines() {
    let plan = rounds_plan("inca", 2, "");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.play();
    let (task, outcome) = (&ensemble.tasks[0], ensemble.outcome(0));
    let start = outcome.started_at.expect("it began");
    let run = &plan.draft().run;
    let once = u64::from(plan.mixing_rounds()) * run.round_ms + 2 * run.settle_ms;
    let deadlines = start.plus_millis(3 * once);
    assert_eq!(task.others_end(outcome, start), deadlines);
    let stage = task.others_end(outcome, deadlines).since(deadlines);
    assert!(stage >= run.settle_ms * 1_000_000);
    let reason = String::new();
    for ending in [
        Ending::Aborted {
            reason: reason.clone(),
        },
        Ending::Spent { reason },
    ] {
        let over = Outcome {
            ending,
            ..outcome.clone()
        };
        assert_eq!(task.others_end(&over, start), start);
    }
}
