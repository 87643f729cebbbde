//! Corrections of what was sealed: who is left out of a set of them, and who is too many.

use std::collections::BTreeSet;

use super::{PAIRWISE, SEALED, among, is_correction, is_log, refuse, stage_of, tells_a_secret};
use crate::messages::notice::Notice;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::run::interface::Input;
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::simulator::cluster::permissive_gate;
use crate::task::tests::ensemble::{Ensemble, Travelling, rounds_plan};
use crate::topology::party::Party;

/// The author of a notice, and it, of whichever run.
fn said(sent: &Travelling<'_>) -> Option<(Party, Notice)> {
    let (_, inner) = wire::of_iteration(sent.frame).ok()?;
    match wire::read_public(&inner).ok()? {
        PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. } => {
            Some((signed.author, signed.notice))
        }
        _ => None,
    }
}

/// Party 7 of eight dies before its log is anywhere, and the correction of 1 reaches nobody else.
fn uncorrected<'a>(lines: &str, dropouts: usize) -> Ensemble<'a> {
    let lines = lines.replace("[run]\n", &format!("[privacy]\ndropouts = {dropouts}\n[run]\n"));
    let plan = among(8, &lines);
    let owes = owes(&plan);
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| sent.from != 7 || !is_log(sent));
    ensemble.until(|ensemble| stage_of(ensemble.run(7)) == "settling");
    ensemble.kill(7);
    ensemble.arrives = Box::new(move |sent| {
        let own_key = |(author, notice)| author == owes && matches!(notice, Notice::Key { .. });
        assert!(
            !said(sent).is_some_and(own_key),
            "who is left out keeps its secret"
        );
        sent.from != owes || !is_correction(sent)
    });
    ensemble
}

/// A party that owes a correction for 7.
fn owes(plan: &crate::plan::checked::Plan) -> Party {
    plan.schedule().sends_to(1, 7).first().copied().unwrap_or(1)
}

/// The others go on without it, to an exact sum; nothing opens what it has sealed, and it says so.
#[test]
fn who_is_left_out_of_a_set_of_corrections_stays_closed_and_the_others_go_on() {
    for lines in [SEALED, PAIRWISE] {
        let mut ensemble = uncorrected(lines, 2);
        let plan = ensemble.run(0).plan().clone();
        let out = owes(&plan);
        ensemble.play();
        let rest: BTreeSet<Party> = (0..7).filter(|party| *party != out).collect();
        let outcome = ensemble.outcome(out);
        let reason = "the agreed set of corrections does not hold this node's".to_owned();
        assert_eq!(outcome.ending, Ending::Withheld { reason }, "{lines}");
        assert_eq!(outcome.sealed, Some(SealedFinal::Closed), "{lines}");
        assert!(outcome.sum.is_none());
        let expected = 0.1 * rest.iter().sum::<Party>() as f64;
        for &party in &rest {
            let outcome = ensemble.outcome(party);
            assert_eq!(
                (&outcome.ending, &outcome.included),
                (&Ending::Degraded, &rest),
                "{lines}"
            );
            assert_eq!(outcome.sealed, Some(SealedFinal::Opened));
            let sum = outcome.sum.as_ref().expect("a sum");
            let sum = sum.value.to_f64(plan.lattice().step());
            assert!((sum[0] - expected).abs() < 1e-2, "{sum:?}");
        }
    }
}

/// The gate looks again at who is left once somebody owes no correction any more. If these are too
/// few nothing is opened, of anybody, and all know it.
#[test]
fn where_the_gate_refuses_who_is_left_after_corrections_everything_stays_closed() {
    for lines in [SEALED, PAIRWISE] {
        let mut ensemble = uncorrected(lines, 2);
        let out = owes(ensemble.run(0).plan());
        ensemble.judge = Box::new(|_, plan, logs| match logs.len() {
            7 => Some(permissive_gate(plan, logs)),
            _ => Some(refuse("too few are left")),
        });
        let mut opens = std::mem::replace(&mut ensemble.arrives, Box::new(|_| true));
        ensemble.arrives = Box::new(move |sent| {
            assert!(!tells_a_secret(sent), "{} to {}", sent.from, sent.to);
            opens(sent)
        });
        ensemble.play();
        for party in 0..7 {
            let outcome = ensemble.outcome(party);
            let Ending::Withheld { reason } = &outcome.ending else {
                panic!("{:?}", outcome.ending)
            };
            assert_eq!(reason == "too few are left", party != out, "{reason}");
            assert_eq!(outcome.sealed, Some(SealedFinal::Closed), "{lines}");
            assert!(outcome.sum.is_none() && !ensemble.run(party).keeps_secrets());
            assert_eq!(
                outcome.verdict.as_ref().map(|verdict| verdict.publish.is_none()),
                Some(true)
            );
        }
    }
}

/// The set is agreed without it: that nobody opens what it has sealed is known before its gate has
/// answered.
#[test]
fn who_is_left_out_of_a_set_of_corrections_knows_at_once_that_it_stays_closed() {
    let mut ensemble = uncorrected(PAIRWISE, 2);
    let out = owes(ensemble.run(0).plan());
    ensemble.judge = Box::new(move |party, plan, logs| {
        (party != out || logs.len() == 7).then(|| permissive_gate(plan, logs))
    });
    ensemble.until(|ensemble| stage_of(ensemble.run(out)) == "correcting");
    ensemble.until(|ensemble| stage_of(ensemble.run(out)) == "auditing");
    ensemble.feed(out, Input::Leave);
    let outcome = ensemble.outcome(out);
    assert!(matches!(outcome.ending, Ending::Withheld { .. }));
    assert_eq!(outcome.sealed, Some(SealedFinal::Closed));
}

fn is_about_opened(sent: &Travelling<'_>) -> bool {
    let stage = match said(sent) {
        Some((_, Notice::List { stage, .. } | Notice::Vote { stage, .. })) => stage,
        _ => return false,
    };
    stage == Stage::Opened
}

/// Most releases pay nothing for those of which a secret comes late.
#[test]
fn nobody_says_what_was_opened_where_every_secret_comes_in_time() {
    let mut ensemble = Ensemble::new(&rounds_plan("pairwise", 3, ""));
    ensemble.arrives = Box::new(|sent| {
        assert!(!is_about_opened(sent), "{} to {}", sent.from, sent.to);
        true
    });
    ensemble.play();
    for party in 0..6 {
        assert_eq!(ensemble.training(party).iterations, 3);
        assert_eq!(ensemble.complaints(party), [""; 0]);
    }
}

/// Where a release follows they agree on whom they go on without; after the last one nobody is
/// asked, and it ends when opening does.
#[test]
fn a_lacking_secret_is_agreed_on_unless_nothing_follows() {
    for (number, agree) in [(2, true), (3, false)] {
        let plan = rounds_plan("pairwise", 3, "");
        let settle_ms = plan.draft().run.settle_ms;
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| {
            ensemble.run(0).config.number == number && stage_of(ensemble.run(0)) == "settling"
        });
        ensemble.arrives = Box::new(|sent| !super::tells_a_secret(sent));
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "opening");
        let half = ensemble.run(0).half_of_opening().expect("it opens");
        let end = half.plus_millis(settle_ms / 2);
        ensemble.until_time(end);
        let told = ensemble.complaints(0);
        let agrees = told
            .iter()
            .any(|text| text.contains("agree on whom they go on without"));
        assert_eq!(agrees, agree, "{told:?}");
        let over = ensemble.outcomes.contains_key(&0);
        assert_eq!(over, !agree, "release {number}");
        if agree {
            // Nobody's secret is known to all: that stage ends in nothing, one later.
            ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
            let ended = ensemble.said_at(0, &Event::Phase(crate::messages::stage::Phase::Done));
            assert_eq!(ended, end.plus_millis(settle_ms));
        }
        assert_eq!(ensemble.training(0).iterations, u64::from(number) - 1);
    }
}
