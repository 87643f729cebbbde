//! The reports of a run at its end, and on the way there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{PAIRWISE, READABLE, RunPhase, SEALED, among, circles_plan, refuse, run_of, stage_of};
use crate::lattice::grid::LatticeWeight;
use crate::messages::stage::{Phase, Stage};
use crate::plan::checked::Plan;
use crate::publishing::interface::Published;
use crate::publishing::result::Sum;
use crate::run::interface::Output;
use crate::run::machine::Run;
use crate::run::outcome::{Ending, Event, GateVerdict, SealedFinal};
use crate::simulator::cluster::permissive_gate;
use crate::simulator::cluster::tests::plan;
use crate::task::tests::ensemble::{Ensemble, rounds_plan};
use crate::topology::party::Party;

/// A run that the gate lets these publish in, and that comes to a sum of others.
#[derive(Clone, Copy)]
struct Concluded<'p> {
    plan: &'p Arc<Plan>,
    publishers: &'p [Party],
    included: &'p [Party],
    agreed: bool,
    withheld: bool,
}

impl Concluded<'_> {
    /// Returns the ending, whether there is a sum, whether it is reported as out of range, and the
    /// number of faults. The weight, and a coordinate, are off by the given amounts.
    fn ends(&self, (weight, coordinate): (i128, i128)) -> (Ending, bool, bool, usize) {
        let mut run = run_of(self.plan, 0);
        super::drain(&mut run);
        run.record.verdict = Some(GateVerdict {
            publish: Some(self.publishers.iter().copied().collect()),
            reason: String::new(),
        });
        if self.withheld {
            run.parts().1.withhold("the first reason");
            run.parts().1.withhold("a later one");
        }
        let (draft, lattice) = (self.plan.draft(), self.plan.lattice());
        let included: BTreeSet<Party> = self.included.iter().copied().collect();
        let units = included.iter().map(|&party| draft.weight_units(party));
        let own: i128 = units.map(|units| lattice.weight(units)).sum();
        let sum = Sum {
            value: lattice.vector([coordinate, 0].into_iter()),
            weight: LatticeWeight(own + weight),
        };
        run.parts().1.conclude(Published {
            sum: Some(sum),
            ..Published::without_sum(included, self.agreed)
        });
        let outputs = super::drain(&mut run);
        let faults = outputs
            .iter()
            .filter(|it| matches!(it, Output::Event(Event::Fault(_))));
        let outcome = outputs.iter().find_map(|it| match it {
            Output::Finished(outcome) => Some(outcome),
            _ => None,
        });
        let outcome = outcome.expect("it ends");
        // The plan says what residues weigh.
        let units = self.included.len() as i128 * (1 << 20);
        let weighs = |sum: &Sum| lattice.ring().is_none() || sum.weight.0 == units;
        assert!(outcome.sum.as_ref().is_none_or(weighs), "{:?}", outcome.sum);
        let (ending, out_of_range) = (outcome.ending.clone(), outcome.out_of_range);
        (ending, outcome.sum.is_some(), out_of_range, faults.count())
    }
}

#[test]
fn a_sum_ends_well_if_it_is_agreed_of_everybody_and_weighs_what_its_parties_do() {
    let readable = among(4, READABLE);
    let uniform = plan(4, "[mechanism]\ncorrelated = \"uniform\"", 3);
    let paper = plan(4, "[mechanism]\nrollback = false", 3);
    let all = [0, 1, 2, 3];
    let some = &all[..3];
    let of = |plan, publishers, included| Concluded {
        plan,
        publishers,
        included,
        agreed: true,
        withheld: false,
    };
    let whole = of(&readable, &all, &all);
    let residues = of(&uniform, &all, &all);
    let reach = uniform.lattice().own_reach;
    let done = (Ending::Done, true, false, 0);
    let fewer = (Ending::Degraded, true, false, 0);
    let lost = (Ending::Degraded, false, false, 1);
    let far = (Ending::Degraded, false, true, 1);
    let unagreed = Concluded {
        agreed: false,
        ..whole
    };
    for (at, (case, off, expected)) in [
        (whole, (0, 0), &done),
        (unagreed, (0, 0), &fewer),
        (of(&readable, some, some), (0, 0), &fewer),
        // Weights travel with states: of all who may publish they are known to the bit.
        (whole, (1, 0), &lost),
        (whole, (-1, 0), &lost),
        (of(&readable, some, some), (1, 0), &lost),
        // Where finals are missing it is only known that something is left.
        (of(&readable, &all, some), (1, 0), &fewer),
        (of(&readable, &all, some), (i128::MIN / 4, 0), &lost),
        (of(&readable, &all, &[]), (0, 0), &lost),
        // Without roll-back weight stays where it was lost.
        (of(&paper, &all, &all), (1, 0), &done),
        // Residues are within the plan's reach if all noise is in.
        (residues, (77, reach), &done),
        (residues, (0, reach + 1), &far),
        (residues, (0, -reach - 1), &far),
        (of(&uniform, &all, some), (0, reach + 1), &fewer),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(&case.ends(off), expected, "case {at}");
    }
    let withheld = Concluded {
        withheld: true,
        ..whole
    };
    let reason = "the first reason".to_owned();
    assert_eq!(
        withheld.ends((0, 0)),
        (Ending::Withheld { reason }, false, false, 0)
    );
}

/// Progress names the phase, the round, and the awaited parties at each stage.
#[test]
fn progress_names_the_stage_the_round_and_who_is_waited_for() {
    use Phase::{Done, Gathering, Mixing, Publishing, Settling};
    for (lines, expected) in [
        (
            READABLE,
            vec![
                ("gathering", Gathering, 0),
                ("spending", Gathering, 0),
                ("mixing", Mixing, 1),
                ("settling", Settling, 4),
                ("auditing", Settling, 4),
                ("publishing", Publishing, 4),
            ],
        ),
        (
            SEALED,
            vec![
                ("gathering", Gathering, 0),
                ("mixing", Mixing, 1),
                ("settling", Settling, 4),
                ("opening", Publishing, 4),
            ],
        ),
        (
            PAIRWISE,
            vec![("settling", Settling, 1), ("opening", Publishing, 1)],
        ),
    ] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        for (stage, phase, round) in expected {
            ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
            let progress = ensemble.run(0).progress();
            assert_eq!(
                (progress.phase, progress.round),
                (phase, round),
                "{lines:?} {stage}"
            );
        }
        ensemble.play();
        let (progress, outcome) = (ensemble.run(0).progress(), ensemble.outcome(0));
        assert_eq!((progress.phase, progress.tally), (Done, outcome.tally));
        assert_eq!(
            (progress.ready, progress.round),
            (5, 3 * u32::from(lines != PAIRWISE) + 1)
        );
        // Three shares out and three in, where any are.
        let shares = 3 * usize::from(lines != PAIRWISE);
        assert_eq!((progress.received, outcome.tally.accepted), (shares, shares));
        assert_eq!(ensemble.run(0).awaited(), [] as [Party; 0]);
    }
}

#[test]
fn whose_item_or_secret_is_lacking_is_waited_for() {
    for (lines, stage) in [
        (READABLE, "settling"),
        (READABLE, "publishing"),
        (SEALED, "settling"),
        (PAIRWISE, "opening"),
    ] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
        // Only its own and what came by now is here.
        let awaited = ensemble.run(0).awaited();
        assert!(
            !awaited.is_empty() && !awaited.contains(&0),
            "{stage}: {awaited:?}"
        );
        ensemble.silent.insert(2);
        ensemble.deliver();
        if !ensemble.outcomes.contains_key(&0) && stage_of(ensemble.run(0)) == stage {
            assert_eq!(ensemble.run(0).awaited(), [2], "{lines:?} {stage}");
        }
    }
    let mut ensemble = Ensemble::new(&among(5, PAIRWISE));
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
    ensemble.kill(4);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "correcting");
    let awaited = ensemble.run(0).awaited();
    assert!(!awaited.contains(&0) && awaited.iter().all(|party| (1..4).contains(party)));
}

/// Nothing that opens or hides anything outlives its use: broken into later, a node gives nothing
/// away.
#[test]
fn secrets_are_kept_while_they_are_needed_and_no_longer() {
    for lines in [READABLE, SEALED, PAIRWISE] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        assert!(ensemble.run(0).keeps_secrets());
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
        assert_eq!(ensemble.run(0).keeps_secrets(), lines != READABLE, "{lines:?}");
        ensemble.play();
        (0..5).for_each(|party| assert!(!ensemble.run(party).keeps_secrets(), "{lines:?}"));
    }
    // A refusal ends it as well, and so does a party's own departure from the set.
    let mut ensemble = Ensemble::new(&among(5, SEALED));
    ensemble.judge = Box::new(|_, _, _| Some(refuse("why")));
    ensemble.play();
    for party in 0..5 {
        assert!(!ensemble.run(party).keeps_secrets());
        assert_eq!(
            ensemble.outcome(party).sealed,
            Some(SealedFinal::Closed),
            "nobody opens it"
        );
    }
}

/// A member that the gate leaves out withholds its correction and its secret; the others correct
/// what it was in.
#[test]
fn who_is_left_out_by_the_gate_opens_nothing_and_is_in_no_sum() {
    for lines in [READABLE, SEALED, PAIRWISE] {
        let plan = among(6, lines);
        let mut ensemble = Ensemble::new(&plan);
        // What it withholds does not leave it.
        ensemble.arrives = Box::new(|sent| {
            let gives = |stage| stage == Stage::Publishing;
            assert!(
                sent.from != 5 || !super::announces(sent, gives),
                "a final of who withholds"
            );
            true
        });
        ensemble.judge = Box::new(|_, plan, logs| {
            let mut verdict = permissive_gate(plan, logs);
            verdict.reason = "left out".into();
            verdict
                .publish
                .iter_mut()
                .for_each(|publish| publish.retain(|party| *party != 5));
            Some(verdict)
        });
        ensemble.play();
        let reason = "left out".to_owned();
        let out = ensemble.outcome(5);
        assert_eq!(out.ending, Ending::Withheld { reason });
        assert!(out.sum.is_none());
        if lines != READABLE {
            assert_eq!(out.sealed, Some(SealedFinal::Closed));
        }
        let rest: BTreeSet<Party> = (0..5).collect();
        for party in 0..5 {
            let outcome = ensemble.outcome(party);
            assert_eq!(
                (&outcome.ending, &outcome.included),
                (&Ending::Degraded, &rest),
                "{lines:?}"
            );
            let sum = outcome.sum.as_ref().expect("a sum");
            let mean = sum.value.to_f64(plan.lattice().step());
            assert!(
                (mean[0] - 1.0).abs() < 1e-2 && (mean[1] + 0.25).abs() < 1e-2,
                "{mean:?}"
            );
            let opened = (lines != READABLE).then_some(SealedFinal::Opened);
            assert_eq!(outcome.sealed, opened);
        }
    }
}

/// Two departures one after the other: each is corrected once, and what is opened is exact.
#[test]
fn a_second_departure_is_corrected_besides_the_first() {
    for lines in [SEALED, PAIRWISE] {
        let lines = lines.replace("[run]\n", "[privacy]\ndropouts = 2\n[run]\n");
        let plan = among(8, &lines);
        // Somebody who owes a correction for 7.
        let next = plan.schedule().sends_to(1, 7)[0];
        let mut ensemble = Ensemble::new(&plan);
        // The log of 7 comes to nobody, though it has exchanged all of its shares.
        ensemble.arrives = Box::new(|sent| sent.from != 7 || !super::is_log(sent));
        ensemble.until(|ensemble| stage_of(ensemble.run(7)) == "settling");
        ensemble.kill(7);
        // The log of the other one is in, and its correction is not.
        ensemble.arrives = Box::new(move |sent| sent.from != next || !super::is_correction(sent));
        ensemble.until(|ensemble| stage_of(ensemble.run(next)) == "correcting");
        ensemble.kill(next);
        ensemble.play();
        let rest: BTreeSet<Party> = (0..7).filter(|party| *party != next).collect();
        let expected = 0.1 * rest.iter().sum::<Party>() as f64;
        for &party in &rest {
            let outcome = ensemble.outcome(party);
            assert_eq!(
                (&outcome.ending, &outcome.included),
                (&Ending::Degraded, &rest),
                "{lines}"
            );
            let sum = outcome.sum.as_ref().expect("a sum");
            let sum = sum.value.to_f64(plan.lattice().step());
            assert!(
                (sum[0] - expected).abs() < 1e-2 && (sum[1] + 0.3).abs() < 1e-2,
                "{sum:?}"
            );
            assert_eq!(outcome.opened_for, [] as [Party; 0]);
        }
    }
}

/// The members of a set that vanish before they tell their secret are opened by their holders, and
/// named.
#[test]
fn who_vanishes_after_the_set_is_agreed_is_opened_by_others() {
    for lines in [SEALED, PAIRWISE] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.arrives = Box::new(|sent| sent.from != 4 || !super::tells_a_secret(sent));
        ensemble.until(|ensemble| stage_of(ensemble.run(4)) == "opening");
        ensemble.kill(4);
        ensemble.play();
        for party in 0..4 {
            let outcome = ensemble.outcome(party);
            assert_eq!(
                (&outcome.ending, outcome.included.len()),
                (&Ending::Done, 5),
                "{lines:?}"
            );
            assert_eq!(outcome.opened_for, [4]);
            assert!(ensemble.has_said(party, &Event::Opened(vec![4])));
        }
    }
}

/// A run that could not be followed goes on into no other one.
#[test]
fn only_a_run_that_was_opened_or_has_mixed_is_followed_by_another() {
    let digest = [9; 32];
    let plan = rounds_plan("pairwise", 3, "");
    let mut run = run_of(&plan, 0);
    assert!(run.successor(digest, None).is_none(), "it gathers");
    assert!(
        run.again(digest, Box::new(super::Quiet(*plan.lattice())))
            .is_none()
    );
    let counted = |run: &mut Run, number: u32| {
        run.config.number = number;
        run.config.may_go_on()
    };
    assert_eq!(
        [1, 2, 3, 4].map(|number| counted(&mut run, number)),
        [true, true, false, false]
    );
    // Mixings count as runs, as many as the plan may have.
    let plan = rounds_plan("inca", 3, "");
    let mut run = run_of(&plan, 0);
    let mixings = plan.most_mixings();
    assert_eq!(mixings, 3);
    assert_eq!(
        [5, 6, 7].map(|number| counted(&mut run, number)),
        [true, false, false]
    );
    // Nobody whose log is in no agreed set mixes again, nor who has mixed.
    run.phase = RunPhase::Mixed(Box::new(crate::run::phase::MixedPhase {
        members: [1, 2].into(),
        seals: None,
        noise: None,
    }));
    assert!(
        run.again(digest, Box::new(super::Quiet(*plan.lattice())))
            .is_none()
    );
    assert!(run.successor(digest, None).is_none(), "there is no noise");
}

/// The set of a round of circles: of those whose vectors and logs are all there, if enough are.
#[test]
fn a_round_of_circles_closes_over_whoever_lacks_nothing() {
    let plan = circles_plan("");
    let mut ensemble = Ensemble::new(&plan);
    // Nobody gets the vector of 5, nor it anybody's.
    ensemble.arrives = Box::new(|sent| {
        let private = sent.network == crate::messages::notice::Network::Private;
        !(private && (sent.from == 5 || sent.to == 5))
    });
    ensemble.until(|ensemble| ensemble.outcomes.contains_key(&5));
    let left = ensemble.outcome(5).gossip.clone().expect("a stream");
    assert_eq!((left.rounds, left.spent), (0, 0), "nobody opens its vectors");
    ensemble.until(|ensemble| ensemble.has_said(0, &Event::Iteration(1)));
    let set = (0..5).collect();
    assert!(ensemble.has_said(0, &Event::Closed { round: 1, set }));
    // What a party sees is the mean of those whose messages are in.
    ensemble.play();
    for party in 0..5 {
        let gossip = ensemble.outcome(party).gossip.as_ref().expect("a stream");
        let row = &gossip.estimates[..2];
        assert!(
            (row[0] - 0.2).abs() < 1e-2 && (row[1] + 0.05).abs() < 1e-2,
            "{row:?}"
        );
    }
}

/// Who is not in START, or is gone by the time that the plan is spent, is waited for in no round.
#[test]
fn nobody_waits_for_shares_of_who_is_not_there() {
    let lines = "[run]\nsealed = false\njoin_ms = 500";
    let mut ensemble = Ensemble::without(&among(5, lines), &[4]);
    ensemble.play();
    let start = ensemble.outcome(0).started_at.expect("it began");
    let round_ms = ensemble.run(0).plan().draft().run.round_ms;
    assert!(ensemble.now < start.plus_millis(round_ms), "{:?}", ensemble.now);

    let mut ensemble = Ensemble::new(&among(5, READABLE));
    ensemble.unspent.extend(0..5);
    ensemble.until(|ensemble| (0..5).all(|party| stage_of(ensemble.run(party)) == "spending"));
    ensemble.kill(4);
    for party in 0..4 {
        ensemble.feed(party, crate::run::interface::Input::Spent(Ok(())));
    }
    ensemble.play();
    assert!(ensemble.now.as_millis() < round_ms, "{:?}", ensemble.now);
    let rest: BTreeSet<Party> = (0..4).collect();
    assert_eq!(ensemble.outcome(0).included, rest);
}

/// That a sealed final is out of this node's hands is told once, by what others say alone.
#[test]
fn a_sealed_final_has_left_once_others_name_its_log() {
    for lines in [SEALED, PAIRWISE] {
        let sealed = |ensemble: &Ensemble<'_>| {
            let events = ensemble.events.iter();
            let reported = events.filter(|(_, who, event)| *who == 0 && matches!(event, Event::Sealed(_)));
            reported.count()
        };
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.play();
        assert_eq!(sealed(&ensemble), 1, "{lines}");
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
        ensemble.silent.extend(1..5);
        ensemble.play();
        assert_eq!(sealed(&ensemble), 0, "its own list and vote say nothing");
    }
}
