//! A node that is told to leave, at each stage of each kind of run: what it says of that, and what
//! it has cost.

use std::cell::Cell;

use super::{PAIRWISE, READABLE, RunPhase, SEALED, among, circles_plan, stage_of};
use crate::messages::notice::{Notice, Recipient};
use crate::messages::signing::Signer;
use crate::messages::stage::{Phase, Stage};
use crate::messages::wire::{self, Bytes, PublicFrame};
use crate::plan::peers::simulated_keypair;
use crate::run::interface::Input;
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::task::tests::ensemble::{Ensemble, rounds_plan};

/// The ending of a run for party 0 that is told to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing private has left it.
    Aborted,
    /// Its final is withheld; its sealed final is out, or none is.
    Withheld(Option<SealedFinal>),
}

use Left::{Aborted, Withheld};

const OUT: Left = Withheld(Some(SealedFinal::Unknown));

/// Brings party 0 to a stage that it stays at until it is told to leave.
fn advanced_to<'a>(lines: &str, stage: &'static str) -> Ensemble<'a> {
    let mut ensemble = Ensemble::new(&among(5, lines));
    bring(&mut ensemble, stage);
    ensemble
}

fn bring(ensemble: &mut Ensemble<'_>, stage: &'static str) {
    match stage {
        "gathering" => return,
        "spending" => drop(ensemble.unspent.insert(0)),
        "mixing, clogged" => drop(ensemble.clogged.insert(0)),
        // It waits for a share of somebody whose transport hands none out.
        "mixing" => ensemble.clogged.extend(1..5),
        "auditing" => {
            ensemble.judge = Box::new(|party, plan, logs| {
                let verdict = crate::simulator::cluster::permissive_gate(plan, logs);
                (party != 0).then_some(verdict)
            })
        }
        _ => {}
    }
    let wanted = stage.split(',').next().expect("a name");
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == wanted);
    // Nobody says anything more; what was given out has left.
    if stage.starts_with("mixing") {
        ensemble.deliver();
    }
    assert_eq!(stage_of(ensemble.run(0)), wanted);
}

#[track_caller]
fn left(ensemble: &mut Ensemble<'_>) -> Left {
    ensemble.feed(0, Input::Leave);
    ensemble.deliver();
    let outcome = ensemble.outcome(0);
    let why = "this node was told to leave";
    match &outcome.ending {
        Ending::Aborted { reason } => {
            assert_eq!((reason.as_str(), outcome.sealed), (why, None));
            Aborted
        }
        Ending::Withheld { reason } => {
            let out = "; its sealed final has left, and the others may open it";
            assert_eq!(
                reason.strip_prefix(why),
                Some(if outcome.sealed.is_some() { out } else { "" })
            );
            Withheld(outcome.sealed)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_left_decides_what_leaving_costs() {
    let unsealed = Withheld(None);
    for (lines, stages) in [
        (
            READABLE,
            &[
                ("gathering", Aborted),
                ("spending", Aborted),
                ("mixing, clogged", Aborted),
                ("mixing", unsealed),
                ("settling", unsealed),
                ("auditing", unsealed),
            ][..],
        ),
        (
            SEALED,
            &[
                ("gathering", Aborted),
                ("spending", Aborted),
                ("mixing, clogged", Aborted),
                ("mixing", unsealed),
                ("settling", OUT),
                ("auditing", OUT),
                ("opening", OUT),
            ],
        ),
        // No share travels: what leaves is sealed, with the log.
        (
            PAIRWISE,
            &[
                ("gathering", Aborted),
                ("spending", Aborted),
                ("settling", OUT),
                ("auditing", OUT),
                ("opening", OUT),
            ],
        ),
    ] {
        for &(stage, expected) in stages {
            let mut ensemble = advanced_to(lines, stage);
            assert_eq!(left(&mut ensemble), expected, "{lines:?} in {stage}");
            assert!(matches!(ensemble.run(0).phase, RunPhase::Over));
            assert!(!ensemble.run(0).keeps_secrets());
            // Once more does nothing: an ensemble ends nobody twice.
            ensemble.feed(0, Input::Leave);
        }
    }
}

/// A correction is out, or waited for: the sealed final may be opened all the same.
#[test]
fn who_leaves_while_others_correct_has_left_its_sealed_final() {
    for lines in [SEALED, PAIRWISE] {
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.until(|ensemble| ["mixing", "settling"].contains(&stage_of(ensemble.run(0))));
        ensemble.kill(4);
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "correcting");
        assert_eq!(left(&mut ensemble), OUT, "{lines:?}");
    }
}

/// A vector that is sealed for a reader is out once a reader can be reached.
#[test]
fn who_leaves_a_circle_has_left_its_vectors() {
    for (stage, sealed) in [
        ("mixing", true),
        ("settling", true),
        ("opening", true),
        ("spending", false),
    ] {
        let mut ensemble = Ensemble::new(&circles_plan(""));
        if stage == "mixing" {
            // No vector arrives at party 0.
            ensemble.arrives =
                Box::new(|sent| sent.network != crate::messages::notice::Network::Private || sent.to != 0);
        } else if stage == "spending" {
            ensemble.unspent.insert(0);
        }
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == stage);
        ensemble.feed(0, Input::Leave);
        let outcome = ensemble.outcome(0);
        let gossip = outcome.gossip.as_ref().expect("a stream");
        assert_eq!(gossip.spent, u32::from(sealed), "in {stage}");
        let withheld = matches!(outcome.ending, Ending::Withheld { .. });
        assert_eq!((withheld, gossip.rounds), (sealed, 0), "in {stage}");
    }
}

/// Shares of noise alone tell nothing: who leaves a mixing of precomputed noise has given nothing
/// away.
#[test]
fn who_leaves_a_mixing_of_precomputed_noise_has_given_nothing_away() {
    for stage in ["mixing", "settling", "auditing"] {
        let mut ensemble = Ensemble::new(&rounds_plan("inca", 2, ""));
        bring(&mut ensemble, stage);
        ensemble.feed(0, Input::Leave);
        ensemble.deliver();
        let (outcome, training) = (ensemble.outcome(0), ensemble.training(0));
        let reason = "this node was told to leave".to_owned();
        assert_eq!(outcome.ending, Ending::Aborted { reason }, "in {stage}");
        assert_eq!((training.spent, training.iterations), (0, 0));
    }
}

/// Who has published its final already has that in its result.
#[test]
fn who_leaves_while_publishing_is_in_the_result_of_what_it_holds() {
    let mut ensemble = advanced_to(READABLE, "publishing");
    ensemble.feed(0, Input::Leave);
    let outcome = ensemble.outcome(0);
    assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Degraded, false));
    assert!(outcome.included.contains(&0) && outcome.included.len() < 5);
    assert!(outcome.sum.is_some(), "of what is here");
    // What has ended stays as it ended.
    let mut ensemble = Ensemble::new(&among(5, READABLE));
    ensemble.play();
    ensemble.feed(0, Input::Leave);
    assert_eq!(ensemble.outcome(0).ending, Ending::Done);
    let mut ensemble = Ensemble::new(&among(5, SEALED));
    ensemble.play();
    ensemble.feed(0, Input::Leave);
    assert_eq!(ensemble.outcome(0).sealed, Some(SealedFinal::Opened));
}

/// Shares that are called back and had left after all: it ends once that is known.
#[test]
fn who_leaves_waits_for_what_became_of_its_shares() {
    let mut ensemble = advanced_to(READABLE, "mixing");
    // Nothing is told of shares that are out: it is asked for.
    let now = ensemble.now;
    ensemble.tasks[0].handle(now, Input::Leave).expect("never wrong");
    let mut ended = false;
    loop {
        match ensemble.tasks[0].poll_output() {
            crate::run::interface::Output::Wait { .. } => break,
            crate::run::interface::Output::Finished(outcome) => {
                ended = true;
                assert!(matches!(outcome.ending, Ending::Withheld { .. }));
            }
            // Its neighbours are told that it needs nothing more.
            crate::run::interface::Output::Public { .. } if ended => {}
            crate::run::interface::Output::Event(Event::Phase(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(ended, "all of its shares were known to have left");
}

/// Whether a frame says that its author has ended.
fn says_finished(frame: &Bytes) -> bool {
    let said = wire::read_public(frame);
    matches!(said, Ok(PublicFrame::Notice(signed)) if signed.notice == Notice::Finished)
}

/// Kinds of runs of one result.
const KINDS: [&str; 3] = [READABLE, SEALED, PAIRWISE];

#[test]
fn nobody_leaves_before_its_neighbours_have_ended_and_none_waits_longer() {
    for lines in KINDS {
        let dark = Cell::new(true);
        let mut ensemble = Ensemble::new(&among(5, lines));
        // What opens, and votes for finals, are lost on their way to 1.
        ensemble.arrives = Box::new(|sent| {
            let said = wire::read_public(sent.frame);
            let is_lost = |notice: &Notice| match notice {
                Notice::Key { .. } => true,
                Notice::Vote { stage, .. } => *stage == Stage::Publishing,
                _ => false,
            };
            let lost = matches!(&said, Ok(PublicFrame::Notice(signed)) if is_lost(&signed.notice));
            sent.to != 1 || !dark.get() || !lost
        });
        ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
        dark.set(false);
        ensemble.deliver();
        let left = |ensemble: &Ensemble<'_>| (0..5).any(|party| ensemble.has_said(party, &Event::Complete));
        while !ensemble.outcomes.contains_key(&1) {
            assert!(!left(&ensemble), "{lines}");
            ensemble.step();
        }
        assert_eq!(ensemble.outcome(1).ending, Ending::Done, "{lines}");
        let now = ensemble.now;
        ensemble.deliver();
        assert!(
            (0..5).all(|party| ensemble.has_said(party, &Event::Complete)),
            "{lines}"
        );
        assert_eq!(ensemble.now, now);
    }
}

#[test]
fn who_never_says_that_it_has_ended_costs_its_neighbours_one_stage() {
    for lines in KINDS {
        let plan = among(5, lines);
        let mut ensemble = Ensemble::new(&plan);
        ensemble.arrives = Box::new(|sent| sent.from != 1 || !says_finished(sent.frame));
        ensemble.play();
        ensemble.deliver();
        assert!(ensemble.has_said(1, &Event::Complete), "{lines}");
        ensemble.until(|ensemble| ensemble.has_said(0, &Event::Complete));
        let ended = ensemble.said_at(0, &Event::Phase(Phase::Done));
        let waited = ended.plus_millis(plan.draft().run.settle_ms);
        assert_eq!(ensemble.said_at(0, &Event::Complete), waited, "{lines}");
    }
}

/// Who lies that it has ended is not waited for, and harms nobody else; who says so in another's
/// name is not believed.
#[test]
fn who_says_too_early_that_it_has_ended_harms_only_itself() {
    let plan = among(5, SEALED);
    let said = |author, key, sequence| {
        let mut signer = Signer::new(author, *plan.digest(), simulated_keypair(key), sequence);
        let signed = signer.sign(Recipient::Party(0), Notice::Finished).expect("signs");
        Bytes::from_owner(wire::notice_frame(&signed))
    };
    let mut ensemble = Ensemble::new(&plan);
    ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "settling");
    for sequence in 0..100 {
        let frame = said(1, 1, 1 << 40 | sequence << 8);
        ensemble.feed(0, Input::Public { from: 1, frame });
    }
    assert_eq!(ensemble.complaints(0), [""; 0]);
    for (author, key) in [(2, 1), (3, 2)] {
        let frame = said(author, key, 1 << 41);
        ensemble.feed(0, Input::Public { from: 2, frame });
    }
    assert_eq!(ensemble.complaints(0).len(), 2, "{:?}", ensemble.complaints(0));
    ensemble.arrives = Box::new(|sent| !says_finished(sent.frame));
    ensemble.play();
    assert_eq!(ensemble.outcome(0).ending, Ending::Done);
    ensemble.deliver();
    assert!(!ensemble.has_said(0, &Event::Complete), "2 has not ended");
}

/// As many as the plan needs are enough; with one fewer nobody waits for the rest.
#[test]
fn a_decline_ends_the_run_once_fewer_than_its_least_are_left() {
    let plan = among(6, READABLE);
    let least = plan.draft().run.min_parties;
    assert!(least < 6);
    let mut ensemble = Ensemble::new(&plan);
    for left in (least - 1..6).rev() {
        ensemble.feed(0, Input::Declined { peer: left });
        assert_eq!(
            ensemble.outcomes.contains_key(&0),
            left < least,
            "{left} are left"
        );
    }
    let Ending::Aborted { reason } = &ensemble.outcome(0).ending else {
        panic!("{:?}", ensemble.outcome(0).ending)
    };
    assert!(reason.contains("declined"), "{reason}");
}

#[test]
fn nobody_waits_after_the_end_for_who_is_gone_or_was_not_in_start() {
    for lines in KINDS {
        let mut ensemble = Ensemble::new(&among(5, lines));
        ensemble.arrives = Box::new(|sent| sent.from != 1 || !says_finished(sent.frame));
        ensemble.play();
        ensemble.deliver();
        assert!(!ensemble.has_said(0, &Event::Complete), "{lines}: 1 may need it");
        let now = ensemble.now;
        ensemble.kill(1);
        assert_eq!(ensemble.said_at(0, &Event::Complete), now, "{lines}");
    }
    let mut ensemble = Ensemble::without(&among(5, "[run]\nsealed = false\njoin_ms = 500"), &[4]);
    ensemble.play();
    let now = ensemble.now;
    ensemble.deliver();
    assert_eq!(ensemble.said_at(0, &Event::Complete), now);
}

/// Give-ups of as many as may lie and depart leave a START that may still come to a set: one more
/// ends it, unless something is sealed.
#[test]
fn a_start_is_left_once_more_have_given_it_up_than_may_lie_and_depart() {
    for (lines, stage, leaves) in [(SEALED, "mixing", true), (PAIRWISE, "settling", false)] {
        let plan = among(5, lines);
        let privacy = &plan.draft().privacy;
        let most = privacy.colluding + privacy.dropouts;
        assert!(most > privacy.colluding && most < 4);
        let mut ensemble = Ensemble::new(&plan);
        bring(&mut ensemble, stage);
        for giver in 1..=most + 1 {
            let start = ensemble.run(0).public_state.flood.start(0, giver);
            let incarnation = start.expect("it began").1;
            let (number, next) = (0, None);
            let notice = Notice::GiveUp {
                number,
                incarnation,
                next,
            };
            let mut signer = Signer::new(giver, *plan.digest(), simulated_keypair(giver), 1 << 40);
            let signed = signer.sign(Recipient::All, notice).expect("signs");
            let frame = Bytes::from_owner(wire::notice_frame(&signed));
            ensemble.feed(0, Input::Public { from: giver, frame });
            assert_eq!(ensemble.complaints(0), [""; 0], "{lines}");
            let left = ensemble.outcomes.contains_key(&0);
            assert_eq!(left, leaves && giver > most, "{lines}: {giver} gave it up");
        }
    }
}

#[test]
fn a_party_that_leaves_before_the_start_has_given_nothing_away() {
    let plan = super::plan(3, "", 4);
    let mut run = super::run_of(&plan, 0);
    run.handle(super::at(1), Input::Leave).expect("never wrong");
    let finished = super::drain(&mut run)
        .into_iter()
        .find_map(|output| match output {
            crate::run::interface::Output::Finished(outcome) => Some(outcome),
            _ => None,
        });
    assert!(matches!(
        finished.expect("it ends at once").ending,
        Ending::Aborted { .. }
    ));
    run.handle(super::at(2), Input::Leave)
        .expect("once more does nothing");
    assert!(super::drain(&mut run).is_empty());
}
