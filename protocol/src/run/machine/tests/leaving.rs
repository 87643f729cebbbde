//! A node that is told to leave, at each stage of each kind of run: what it says of that, and what
//! it has cost.

use super::{Machine, PAIRWISE, READABLE, SEALED, among, circles_plan, stage_of};
use crate::run::interface::Input;
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::task::tests::ensemble::{Ensemble, rounds_plan};

/// How a run ends for party 0 that is told to leave.
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
fn brought_to<'a>(lines: &str, stage: &'static str) -> Ensemble<'a> {
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
            let mut ensemble = brought_to(lines, stage);
            assert_eq!(left(&mut ensemble), expected, "{lines:?} in {stage}");
            assert!(matches!(ensemble.run(0).machine, Machine::Over));
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

/// Shares of noise alone tell nothing: who leaves a mixing ahead has given nothing away.
#[test]
fn who_leaves_a_mixing_of_noise_ahead_has_given_nothing_away() {
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
    let mut ensemble = brought_to(READABLE, "publishing");
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
    let mut ensemble = brought_to(READABLE, "mixing");
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
            crate::run::interface::Output::Event(Event::Phase(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(ended, "all of its shares were known to have left");
}
