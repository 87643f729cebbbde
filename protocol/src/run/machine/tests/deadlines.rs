//! When stages begin and end: by the plan's clock, which all nodes read alike, whenever each of
//! them came to a stage.

use super::{PAIRWISE, READABLE, RunPhase, SEALED, among, circles_plan, refuse, stage_of};
use crate::plan::checked::Plan;
use crate::run::interface::Input;
use crate::run::machine::Run;
use crate::run::outcome::{Ending, Event};
use crate::simulator::cluster::permissive_gate;
use crate::task::tests::ensemble::{Ensemble, rounds_plan};
use crate::time::Time;
use std::sync::Arc;

const ROUND_MS: u64 = 1500;
const SETTLE_MS: u64 = 3200;

fn timed(lines: &str) -> String {
    match lines.strip_prefix("[run]\n") {
        Some(rest) => format!("[run]\nround_ms = {ROUND_MS}\nsettle_ms = {SETTLE_MS}\n{rest}"),
        None => format!("[run]\nround_ms = {ROUND_MS}\nsettle_ms = {SETTLE_MS}\n{lines}"),
    }
}

/// When the present stage is half over, in milliseconds after START.
#[track_caller]
fn half(run: &Run) -> u64 {
    let (now, unreachable) = (Time::ZERO, Default::default());
    let at = match (&run.phase, run.phase.agreement()) {
        (_, Some(agreement)) => agreement.wake(now, &unreachable),
        // What was opened at once has no deadline left.
        (RunPhase::Opening(phase), _) => phase.opening.wake(now, &unreachable),
        _ => panic!("no stage with halves: {}", stage_of(run)),
    };
    at.since(run.record.started_at.expect("it began")) / 1_000_000
}

fn deaf<'a>(plan: &Arc<Plan>, stage: &'static str) -> Ensemble<'a> {
    let mut ensemble = Ensemble::new(plan);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
    ensemble
}

#[test]
fn settling_begins_when_mixing_ends_at_the_latest() {
    // Logs of sealed finals take as long as publishing would besides.
    for (lines, mixing, stages) in [(READABLE, 3, 1), (SEALED, 3, 2), (PAIRWISE, 0, 2)] {
        let plan = among(5, &timed(lines));
        let ensemble = deaf(&plan, "settling");
        let expected = mixing * ROUND_MS + stages * SETTLE_MS / 2;
        assert_eq!(half(ensemble.run(0)), expected, "{lines:?}");
    }
    // Vectors of circles are waited for in the first half, then lists are due in the second.
    let plan = circles_plan("");
    let settle_ms = plan.draft().run.settle_ms;
    let mut ensemble = deaf(&plan, "settling");
    assert_eq!(half(ensemble.run(0)), settle_ms + settle_ms / 2);
    // A node that waits for its mark places it there, too.
    let mut unspent = Ensemble::new(&plan);
    unspent.unspent.insert(0);
    unspent.until(|ensemble| stage_of(ensemble.run(0)) == "spending");
    let run = unspent.run(0);
    let start = run.record.started_at.expect("it began");
    assert_eq!(run.settling_half(), start.plus_millis(settle_ms + settle_ms / 2));
    let circle = |run: &Run| run.phase.transfers()?.circle.as_ref().map(|circle| circle.wake());
    let start = ensemble.run(0).record.started_at.expect("it began");
    assert_eq!(circle(ensemble.run(0)), Some(start.plus_millis(settle_ms)));
    // A later round's clock begins where vectors are no longer waited for.
    ensemble.until(|ensemble| ensemble.run(0).config.number == 2 && stage_of(ensemble.run(0)) == "settling");
    assert_eq!(half(ensemble.run(0)), settle_ms / 2);
    let start = ensemble.run(0).record.started_at.expect("it began");
    assert_eq!(circle(ensemble.run(0)), Some(start));
}

/// Nodes whose gates answer at different moments end the next stages together.
#[test]
fn later_stages_begin_by_the_plans_clock_and_not_at_each_nodes_own_moment() {
    for (lines, next, settled) in [
        (READABLE, "publishing", 3 * ROUND_MS + SETTLE_MS),
        (SEALED, "opening", 3 * ROUND_MS + 2 * SETTLE_MS),
        (PAIRWISE, "opening", 2 * SETTLE_MS),
    ] {
        let plan = among(5, &timed(lines));
        // The verdict comes in time, just in time, and late.
        for (after, begins) in [
            (100, settled),
            (settled - 1, settled),
            (settled + 50, settled + 50),
        ] {
            let mut ensemble = Ensemble::new(&plan);
            ensemble.judge = Box::new(|party, plan, logs| (party != 0).then(|| permissive_gate(plan, logs)));
            if next == "opening" {
                // Nothing is opened at party 0 while this looks at it.
                ensemble.arrives = Box::new(|sent| sent.to != 0 || !super::tells_a_secret(sent));
            }
            ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "auditing");
            let run = ensemble.run(0);
            let start = run.record.started_at.expect("it began");
            let RunPhase::Auditing(phase) = &run.phase else {
                panic!("it waits for a verdict")
            };
            let (until, logs) = (phase.until, &phase.logs);
            assert_eq!(until.since(ensemble.now) / 1_000_000, 30 * SETTLE_MS);
            let verdict = permissive_gate(&plan, logs);
            ensemble.now = start.plus_millis(after);
            let now = ensemble.now;
            ensemble.tasks[0]
                .handle(now, Input::Verdict(verdict))
                .expect("asked for");
            let run = ensemble.run(0);
            assert_eq!(stage_of(run), next);
            assert_eq!(half(run), begins + SETTLE_MS / 2, "{lines:?} at {after}");
        }
    }
}

/// Each stage of corrections takes as long as one of publishing, one after the other.
#[test]
fn corrections_and_the_opening_after_them_have_a_stage_each() {
    for (lines, mixing) in [(SEALED, 3), (PAIRWISE, 0)] {
        let plan = among(5, &timed(lines));
        let settled = mixing * ROUND_MS + 2 * SETTLE_MS;
        let mut ensemble = Ensemble::new(&plan);
        ensemble.arrives = Box::new(|sent| sent.to != 0 || !super::tells_a_secret(sent));
        ensemble.until(|ensemble| ["mixing", "settling"].contains(&stage_of(ensemble.run(0))));
        ensemble.kill(4);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "correcting");
        assert_eq!(half(ensemble.run(0)), settled + SETTLE_MS / 2, "{lines:?}");
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "opening");
        assert_eq!(
            half(ensemble.run(0)),
            settled + SETTLE_MS + SETTLE_MS / 2,
            "{lines:?}"
        );
    }
}

/// A later release begins in the middle of its iteration, half of which is for contributions.
#[test]
fn a_later_release_settles_in_the_second_half_of_its_iteration() {
    for kind in ["pairwise", "inca"] {
        let plan = rounds_plan(kind, 3, "");
        let settle_ms = plan.draft().run.settle_ms;
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| ensemble.run(0).config.number == 2);
        let (begun, start) = (ensemble.now, ensemble.run(0).started_at().expect("it will"));
        assert_eq!(start, begun.plus_millis(settle_ms));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
        assert_eq!(half(ensemble.run(0)), settle_ms / 2, "{kind}");
    }
}

#[test]
fn a_gate_that_never_answers_is_waited_for_and_then_withheld_from() {
    let plan = among(5, &timed(READABLE));
    let mut ensemble = Ensemble::new(&plan);
    ensemble.judge = Box::new(|party, plan, logs| (party != 0).then(|| permissive_gate(plan, logs)));
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "auditing");
    let RunPhase::Auditing(phase) = &ensemble.run(0).phase else {
        panic!("it waits")
    };
    let until = phase.until;
    ensemble.now = Time::from_nanos(until.as_nanos() - 1);
    ensemble.feed(0, Input::Tick);
    assert!(!ensemble.outcomes.contains_key(&0));
    ensemble.now = until;
    ensemble.feed(0, Input::Tick);
    let reason = "no verdict on what happened came in time".to_owned();
    assert_eq!(ensemble.outcome(0).ending, Ending::Withheld { reason });
    assert_eq!(stage_of(ensemble.run(0)), "over");
}

/// A stage without agreement ends at the plan's clock, and says what to raise.
#[test]
fn a_stage_that_nobody_else_takes_part_in_ends_by_the_clock() {
    for (lines, mixing, stages) in [(READABLE, 3, 1), (SEALED, 3, 2), (PAIRWISE, 0, 2)] {
        let plan = among(5, &timed(lines));
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
        let start = ensemble.run(0).record.started_at.expect("it began");
        ensemble.silent.extend(1..5);
        ensemble.play();
        let ended = ensemble.said_at(0, &Event::Phase(crate::messages::stage::Phase::Done));
        assert_eq!(
            ended,
            start.plus_millis(mixing * ROUND_MS + stages * SETTLE_MS),
            "{lines:?}"
        );
        let reason = "no set of logs was agreed on in time; if all were up, raise run.settle_ms".to_owned();
        assert_eq!(ensemble.outcome(0).ending, Ending::Withheld { reason });
    }
    // Of a correction, too, and of what is not opened.
    let plan = among(5, &timed(PAIRWISE));
    for (stage, stages) in [("correcting", 3), ("opening", 4)] {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.arrives = Box::new(|sent| sent.to != 0 || !super::tells_a_secret(sent));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
        let start = ensemble.run(0).record.started_at.expect("it began");
        ensemble.kill(4);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
        ensemble.silent.extend(1..5);
        ensemble.play();
        let ended = ensemble.said_at(0, &Event::Phase(crate::messages::stage::Phase::Done));
        assert_eq!(ended, start.plus_millis(stages * SETTLE_MS), "{stage}");
        let outcome = ensemble.outcome(0);
        match stage {
            "correcting" => {
                let Ending::Withheld { reason } = &outcome.ending else {
                    panic!("{:?}", outcome.ending)
                };
                assert!(reason.starts_with("no set of corrections"), "{reason}");
            }
            _ => {
                assert_eq!((&outcome.ending, outcome.unopened.len()), (&Ending::Degraded, 3));
                assert!(outcome.sum.is_none() && outcome.agreed);
            }
        }
        assert_eq!(
            outcome.sealed,
            Some(crate::run::outcome::SealedFinal::Unknown),
            "{stage}"
        );
    }
}

/// A verdict on whom the logs do not name, or on nobody, lets nobody through.
#[test]
fn a_verdict_on_nobody_or_on_strangers_is_a_refusal() {
    let of = |publish: Option<&[usize]>| crate::run::outcome::GateVerdict {
        publish: publish.map(|publish| publish.iter().copied().collect()),
        ..refuse("why")
    };
    for publish in [None, Some(&[][..]), Some(&[0, 1, 9]), Some(&[4, 0])] {
        let plan = among(5, READABLE);
        let mut ensemble = Ensemble::without(&plan, &[4]);
        let verdict = of(publish);
        ensemble.judge = Box::new(move |_, _, _| Some(verdict.clone()));
        ensemble.play();
        for party in 0..4 {
            let reason = "why".to_owned();
            assert_eq!(
                ensemble.outcome(party).ending,
                Ending::Withheld { reason },
                "{publish:?}"
            );
            assert_eq!(ensemble.outcome(party).verdict.as_ref(), Some(&of(publish)));
            let publishes = Event::Phase(crate::messages::stage::Phase::Publishing);
            assert!(!ensemble.has_said(party, &publishes), "it ends at once");
        }
    }
}
