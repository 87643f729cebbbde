//! Iterations of which a secret is lacking: what a party can do that tells its own late, or never.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::messages::notice::{Disclosed, Recipient};
use crate::messages::signing::Signer;
use crate::plan::peers::simulated_keypair;

/// Whether a notice would make a party's secret known, to whoever it reaches.
fn tells_secret_of(of: Party, author: Party, notice: &Notice) -> bool {
    match notice {
        Notice::Key { .. } => author == of,
        Notice::Share { of: owner, .. } => *owner as Party == of,
        _ => false,
    }
}

/// The author of the notice that a frame carries.
fn author(sent: &Travelling<'_>) -> Option<Party> {
    let (_, inner) = wire::of_iteration(sent.frame).ok()?;
    match wire::read_public(&inner).ok()? {
        PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. } => Some(signed.author),
        _ => None,
    }
}

/// An ensemble in which nothing that makes party 5's secret of a run known arrives, before `back`
/// says so; with what was held back.
fn holding_back<'a>(
    plan: &Arc<Plan>,
    run: u32,
    back: Rc<Cell<bool>>,
) -> (Ensemble<'a>, Rc<RefCell<Vec<Bytes>>>) {
    let mut ensemble = Ensemble::new(plan);
    let held: Rc<RefCell<Vec<Bytes>>> = Rc::default();
    let keep = held.clone();
    ensemble.arrives = Box::new(move |sent| {
        let tells = notice(sent).is_some_and(|(number, notice)| {
            number == run && author(sent).is_some_and(|author| tells_secret_of(5, author, &notice))
        });
        if tells && !back.get() {
            keep.borrow_mut().push(sent.frame.clone());
            return false;
        }
        true
    });
    (ensemble, held)
}

fn survivors(ensemble: &Ensemble<'_>) -> bool {
    (0..5).all(|party| ensemble.outcomes.contains_key(&party))
}

/// It costs one iteration, and everybody else goes on without it, to the same mean.
#[test]
fn the_next_iteration_is_without_whose_secret_is_not_known() {
    for (plan, mixings) in [
        (pairwise(), 0),
        (stream_plan("everybody", ""), 0),
        (rounds_plan("inca", RELEASES as u32, ""), 1),
    ] {
        for iteration in 1..RELEASES {
            let run = iteration as u32 + mixings;
            let (mut ensemble, _) = holding_back(&plan, run, Rc::default());
            ensemble.until(survivors);
            for party in 0..5 {
                let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
                assert_eq!(training.stopped, None, "iteration {iteration} at {party}");
                assert_eq!((training.iterations, training.spent), (RELEASES, RELEASES));
                assert_eq!(training.unopened, [(iteration, vec![5])].into());
                assert_eq!(training.departed, [(5, iteration)].into());
                assert!(training.rejected.is_empty() && training.corrected.is_empty());
                assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Degraded, true));
                assert_eq!(outcome.included, (0..5).collect());
                assert_eq!(training.result, ensemble.training(0).result);
                assert!(training.result.is_some());
                let reported = ensemble.complaints(party).join("\n");
                assert!(reported.contains("'s secret has "), "{reported}");
                assert!(!ensemble.tasks[party].keeps_secrets());
            }
        }
    }
}

/// After the last iteration nothing follows: a node that lacks a secret keeps the mean before it.
#[test]
fn nothing_is_agreed_on_after_the_last_iteration() {
    let plan = pairwise();
    let (mut ensemble, _) = holding_back(&plan, RELEASES as u32, Rc::default());
    ensemble.until(survivors);
    for party in 0..5 {
        let training = ensemble.training(party);
        assert_eq!((training.iterations, training.spent), (RELEASES - 1, RELEASES));
        let stopped = training.stopped.clone().unwrap_or_default();
        assert!(stopped.contains("'s secret has "), "{stopped}");
        assert!(!ensemble.outcome(party).agreed, "others may hold another mean");
    }
}

/// Party 5 tells its secret to party 1 alone, which passes it on, at some moment of the stages that
/// follow the entry into opening: nobody honest is left behind. Those who have it in time make the
/// sum count, for all of them; later it counts for none, not even for party 1.
#[test]
fn a_secret_that_comes_late_counts_for_all_or_for_nobody() {
    let plan = pairwise();
    let settle_ms = plan.draft().run.settle_ms;
    for (eighths, counts) in [
        (4, true),
        (5, true),
        (7, true),
        (9, true),
        (11, true),
        // From half of the second stage on lists are out that lack it.
        (13, false),
        (15, false),
    ] {
        let back: Rc<Cell<bool>> = Rc::default();
        let (mut ensemble, held) = holding_back(&plan, 2, back.clone());
        let opens = |ensemble: &Ensemble<'_>| ensemble.run(1).half_of_opening().is_some();
        ensemble.until(|ensemble| !held.borrow().is_empty() && opens(ensemble));
        let half = ensemble.run(1).half_of_opening().expect("it opens");
        let due = half.plus_millis(settle_ms * (eighths - 4) / 8);
        // Without time passing beyond that: whoever wants to be woken later is not.
        ensemble.until_time(due);
        back.set(true);
        let key = held.borrow()[0].clone();
        if !ensemble.outcomes.contains_key(&1) {
            ensemble.feed(1, Input::Public { from: 5, frame: key });
        }
        ensemble.until(survivors);
        for party in 0..5 {
            let training = ensemble.training(party);
            assert_eq!(training.stopped, None, "{eighths} eighths at {party}");
            assert_eq!(training.iterations, RELEASES);
            assert_eq!(
                training.unopened.is_empty(),
                counts,
                "{eighths} eighths at {party}"
            );
            assert_eq!(training.result, ensemble.training(0).result);
            let others = (0..5).filter(|other| training.departed.contains_key(other));
            assert_eq!(others.count(), 0, "nobody honest is left out");
        }
    }
}

/// A signed secret that its author has not dealt proves the author a liar: that is said of it, and
/// of nobody else.
#[test]
fn a_wrong_secret_is_named_with_its_author() {
    let plan = pairwise();
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| {
        !notice(sent).is_some_and(|(number, notice)| {
            let wrong = matches!(&notice, Notice::Key { secret, .. } if secret.0 == [1; 32]);
            let reported = author(sent).is_some_and(|author| tells_secret_of(5, author, &notice));
            number == 2 && reported && !wrong
        })
    });
    ensemble.until(|ensemble| of(ensemble, 0).number == 2 && ensemble.run(0).awaited() == [5]);
    let digest = *ensemble.run(0).digest();
    let mut liar = Signer::new(5, digest, simulated_keypair(5), u64::MAX >> 1);
    let wrong = Notice::Key {
        round: plan.sealed_round(),
        secret: Disclosed([1; 32]),
    };
    let signed = liar.sign(Recipient::All, wrong).expect("it signs");
    let frame = wire::iteration_frame(2, &wire::notice_frame(&signed));
    let frame = Bytes::from_owner(frame);
    for party in 0..5 {
        let frame = frame.clone();
        ensemble.feed(party, Input::Public { from: 5, frame });
    }
    ensemble.until(survivors);
    for party in 0..5 {
        let training = ensemble.training(party);
        assert_eq!((&training.stopped, training.iterations), (&None, RELEASES));
        let reported = ensemble.complaints(party).join("\n");
        let named = "signed a secret that is not the one that it dealt";
        assert!(reported.contains(named), "{reported}");
        let names: Vec<&str> = (0..5).map(|it| plan.draft().members[it].name.as_str()).collect();
        let blamed = names
            .iter()
            .any(|name| reported.contains(&format!("{name} {named}")));
        assert!(!blamed, "{reported}");
    }
}
