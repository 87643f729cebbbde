mod mixings;
mod unopened;

use std::cell::Cell;
use std::rc::Rc;

use super::ending::of_circles;
use super::*;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::{Network, Notice};
use crate::messages::wire::PublicFrame;
use crate::mixing::noisy::Noisy;
use crate::run::outcome::{GateVerdict, TrainingOutcome};
use crate::sealing::mask::MaskKey;
use crate::simulator::cluster::tests::plan;
use crate::task::machine::TaskMachine;
use crate::task::tests::ensemble::{Ensemble, Travelling, contribution, rounds_plan, task_of, task_with};

const PARTIES: usize = 6;
const RELEASES: u64 = 4;

/// A stream of means of all, and one of sums over neighbourhoods.
fn stream_plan(circle: &str, run: &str) -> Arc<Plan> {
    let lines = format!(
        "releases = {RELEASES}\n[mechanism]\nsums = \"{circle}\"\n\
         [topology]\nprivate = \"complete\"\n[run]\nsettle_ms = 2000\n{run}"
    );
    // Of six parties three rounds of masks are enough for everybody to have some with everybody.
    plan(
        PARTIES,
        &lines,
        if circle == "everybody" { 3 } else { RELEASES as u32 },
    )
}

fn pairwise() -> Arc<Plan> {
    rounds_plan("pairwise", RELEASES as u32, "")
}

fn of<'e>(ensemble: &'e Ensemble<'_>, party: Party) -> &'e Training {
    match ensemble.tasks[party].computation() {
        TaskMachine::Training(training) => training,
        _ => panic!("a training"),
    }
}

/// The number of the run and the notice that a public frame carries, if it carries one.
fn notice(sent: &Travelling<'_>) -> Option<(u32, Notice)> {
    let (number, inner) = wire::of_iteration(sent.frame).ok()?;
    match wire::read_public(&inner).ok()? {
        PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. } => Some((number, signed.notice)),
        _ => None,
    }
}

fn refuse(reason: &str) -> GateVerdict {
    GateVerdict {
        publish: None,
        reason: reason.to_owned(),
    }
}

fn phases(ensemble: &Ensemble<'_>, party: Party) -> Vec<Phase> {
    let reported = ensemble.events.iter().filter_map(|(_, who, event)| match event {
        Event::Phase(phase) if *who == party => Some(*phase),
        _ => None,
    });
    reported.collect()
}

fn count(ensemble: &Ensemble<'_>, party: Party, is: impl Fn(&Event) -> bool) -> usize {
    let events = ensemble.events.iter();
    events
        .filter(|(_, who, event)| *who == party && is(event))
        .count()
}

#[test]
fn a_whole_training_tells_each_phase_once_and_spends_each_iteration() {
    use Phase::{Done, Gathering, Mixing, Publishing, Settling};
    for (plan, mixings, circles) in [
        (pairwise(), 0, false),
        (rounds_plan("inca", RELEASES as u32, ""), 1, false),
        (stream_plan("everybody", ""), 0, false),
        (stream_plan("neighbours", ""), 0, true),
    ] {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.play();
        ensemble.deliver();
        for party in 0..PARTIES {
            assert_eq!(
                phases(&ensemble, party),
                [Gathering, Mixing, Settling, Publishing, Done]
            );
            for iteration in 1..=RELEASES {
                let reported = count(&ensemble, party, |event| *event == Event::Iteration(iteration));
                assert_eq!(reported, 1);
            }
            assert_eq!(count(&ensemble, party, |event| *event == Event::Complete), 1);
            assert_eq!(ensemble.complaints(party), [] as [String; 0]);
            let outcome = ensemble.outcome(party);
            assert_eq!((&outcome.ending, outcome.started.len()), (&Ending::Done, PARTIES));
            assert_eq!(
                (outcome.training.is_some(), outcome.gossip.is_some()),
                (!circles, circles)
            );
            match (&outcome.training, &outcome.gossip) {
                (Some(training), _) => {
                    assert_eq!((training.iterations, training.spent), (RELEASES, RELEASES));
                    assert_eq!((training.mixings, &training.stopped), (mixings, &None));
                    assert!(training.departed.is_empty() && training.corrected.is_empty());
                    assert!(training.rejected.is_empty());
                    assert_eq!(training.result, ensemble.training(0).result);
                }
                (None, gossip) => {
                    let gossip = gossip.as_ref().expect("a stream");
                    let releases = RELEASES as u32;
                    assert_eq!((gossip.rounds, gossip.spent), (releases, releases));
                    assert_eq!(gossip.estimates.len(), 2 * RELEASES as usize);
                    assert!(outcome.logs.is_none() && outcome.sum.is_none() && outcome.verdict.is_none());
                }
            }
            assert!(!ensemble.tasks[party].keeps_secrets(), "no release follows");
        }
        // Of the first one everybody has it; where noise is mixed first it waits for that.
        let asked: Vec<u32> = ensemble
            .asked
            .iter()
            .filter(|it| it.0 == 0)
            .map(|it| it.1)
            .collect();
        assert_eq!(asked, [2, 3, 4]);
    }
}

/// The sums are exact: what is asked from is what all have contributed.
#[test]
fn contributions_are_computed_from_the_mean_before_them() {
    for kind in ["pairwise", "inca"] {
        let plan = rounds_plan(kind, RELEASES as u32, "");
        let mut ensemble = Ensemble::new(&plan);
        let of_plan = plan.clone();
        ensemble.source = Box::new(move |party, iteration, _| {
            let own = [f64::from(iteration), 0.25 * party as f64];
            Some(of_plan.lattice().encode(own.into_iter()))
        });
        ensemble.play();
        let near = |released: &[f64], mean: [f64; 2]| {
            let off = released.iter().zip(mean).map(|(a, b)| (a - b).abs());
            released.len() == 2 && off.fold(0.0, f64::max) < 1e-3
        };
        for (party, iteration, released) in &ensemble.asked {
            let before = match iteration {
                2 => [0.25, -0.05],
                later => [f64::from(later - 1), 0.625],
            };
            assert!(near(released, before), "{party} before {iteration}: {released:?}");
        }
        let last = ensemble.training(3).result.clone().expect("a mean");
        assert!(near(&last, [RELEASES as f64, 0.625]), "{last:?}");
    }
}

/// Once its sealed vector is out others may open it, whether this node learns of it or not.
#[test]
fn a_sealed_vector_that_others_may_have_opened_is_spent() {
    for (plan, mixings) in [(pairwise(), 0), (rounds_plan("inca", RELEASES as u32, ""), 1)] {
        for iteration in [1, 2, 3] {
            let number = iteration + mixings;
            let mut ensemble = Ensemble::new(&plan);
            // No secret and no share of one reaches party 0 in this iteration.
            ensemble.arrives = Box::new(move |sent| {
                let tells = |(run, notice): &(u32, Notice)| {
                    *run == number && matches!(notice, Notice::Key { .. } | Notice::Share { .. })
                };
                sent.to != 0 || !notice(sent).is_some_and(|it| tells(&it))
            });
            ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
            let (outcome, training) = (ensemble.outcome(0), ensemble.training(0));
            let before = u64::from(iteration) - 1;
            assert_eq!((training.iterations, training.spent), (before, before + 1));
            assert_eq!(training.result.is_some(), iteration > 1);
            let stopped = training.stopped.clone().expect("it stopped");
            assert!(stopped.starts_with("an iteration was not opened: "), "{stopped}");
            assert_eq!(outcome.ending, Ending::Degraded);
            assert!(!ensemble.tasks[0].keeps_secrets());
        }
    }
}

/// A sealed vector is not opened, nor spent, where the agreed set is without its author's log.
#[test]
fn a_sealed_vector_that_nobody_opens_is_not_spent() {
    let plan = pairwise();
    for iteration in [1, 2] {
        let mut ensemble = Ensemble::new(&plan);
        // The others go no further, so that party 0 hears what they have agreed on.
        ensemble.source = Box::new(|party, at, _| (at <= iteration).then(|| contribution(&plan, party, at)));
        ensemble.arrives = Box::new(move |sent| {
            let log = |(run, notice): &(u32, Notice)| {
                let settling = crate::messages::stage::Stage::Settling;
                *run == iteration && matches!(notice, Notice::Item { stage, .. } if *stage == settling)
            };
            sent.from != 0 || !notice(sent).is_some_and(|it| log(&it))
        });
        ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
        let training = ensemble.training(0);
        let before = u64::from(iteration) - 1;
        let stopped = training.stopped.clone().expect("it stopped");
        assert_eq!(
            (training.iterations, training.spent),
            (before, before),
            "{stopped}"
        );
        assert!(stopped.contains("does not hold this node's"), "{stopped}");
    }
}

/// A sum that is further out than values and noise can be makes no mean, and is an iteration all
/// the same: it was opened, and has cost everybody.
#[test]
fn a_rejected_sum_uses_up_its_iteration() {
    for (plan, stream) in [
        (pairwise(), false),
        (stream_plan("everybody", ""), true),
        (rounds_plan("inca", RELEASES as u32, ""), false),
    ] {
        let mut ensemble = Ensemble::new(&plan);
        let of_plan = plan.clone();
        ensemble.source = Box::new(move |party, iteration, _| {
            let mut value = contribution(&of_plan, party, iteration);
            if (party, iteration) == (3, 2) {
                let residues = value.residues_mut().expect("residues");
                MaskKey::once([7; 32]).add_to(residues).expect("short");
            }
            Some(value)
        });
        ensemble.play();
        for party in 0..PARTIES {
            let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
            assert_eq!((training.iterations, training.spent), (RELEASES, RELEASES));
            assert_eq!((&training.rejected, &training.stopped), (&vec![2], &None));
            assert_eq!(outcome.ending, Ending::Degraded, "one mean is lacking");
            if stream {
                let rows = training.result.clone().expect("rows");
                let row = |at: usize| &rows[2 * at..2 * at + 2];
                assert_eq!((rows.len(), row(1)), (8, row(0)), "nothing is added");
                assert_ne!(row(2), row(1));
            }
        }
        // The next contributions are computed from the last mean that there is.
        let released = |iteration: u32| {
            let mut asked = ensemble.asked.iter();
            asked
                .find(|it| it.1 == iteration)
                .map(|it| it.2.clone())
                .expect("asked")
        };
        assert_eq!(released(3), released(2));
    }
}

/// Each rejected sum costs everybody a release, and its author stays: the third in a row is the
/// last. One that is of use in between begins the count again.
#[test]
fn a_training_ends_with_the_third_rejected_sum_in_a_row() {
    for plan in [rounds_plan("pairwise", 6, ""), rounds_plan("inca", 6, "")] {
        for (corrupted, last, rejected) in [
            (&[1, 2, 3, 4][..], 3, &[1, 2, 3][..]),
            (&[2, 3, 4], 4, &[2, 3, 4]),
            (&[1, 2, 4, 5], 6, &[1, 2, 4, 5]),
        ] {
            let mut ensemble = Ensemble::new(&plan);
            let of_plan = plan.clone();
            let corrupt = |value: &mut LatticeVector| {
                let residues = value.residues_mut().expect("residues");
                MaskKey::once([7; 32]).add_to(residues).expect("short");
            };
            ensemble.source = Box::new(move |party, iteration, _| {
                let mut value = contribution(&of_plan, party, iteration);
                if party == 3 && corrupted.contains(&iteration) {
                    corrupt(&mut value);
                }
                Some(value)
            });
            if corrupted.contains(&1) {
                let mut value = contribution(&plan, 3, 1);
                corrupt(&mut value);
                ensemble.tasks[3] = task_with(&plan, 3, value);
            }
            ensemble.play();
            for party in 0..PARTIES {
                let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
                assert_eq!(
                    (training.iterations, training.spent),
                    (last, last),
                    "{corrupted:?}"
                );
                assert_eq!(training.rejected, rejected);
                let stopped = training.stopped.clone().unwrap_or_default();
                assert_eq!(stopped.contains("3 sums in a row"), last < 6, "{stopped}");
                assert_eq!(training.result.is_some(), rejected[0] > 1 || last == 6);
                assert_eq!(outcome.ending, Ending::Degraded);
            }
        }
    }
}

/// Rows of zeros that no sum has moved are nobody's result.
#[test]
fn a_stream_of_rejected_sums_has_no_result() {
    let plan = stream_plan("everybody", "");
    let corrupted = |iteration| {
        let mut value = contribution(&plan, 3, iteration);
        let residues = value.residues_mut().expect("residues");
        MaskKey::once([7; 32]).add_to(residues).expect("short");
        value
    };
    let mut ensemble = Ensemble::new(&plan);
    ensemble.source = Box::new(|party, iteration, _| {
        Some(match party {
            3 => corrupted(iteration),
            _ => contribution(&plan, party, iteration),
        })
    });
    ensemble.tasks[3] = task_with(&plan, 3, corrupted(1));
    ensemble.play();
    let training = ensemble.training(0);
    assert_eq!((&training.rejected, &training.result), (&vec![1, 2, 3], &None));
}

#[test]
fn who_departs_is_named_with_its_first_iteration_and_corrected_once() {
    for (plan, mixings) in [(pairwise(), 0), (rounds_plan("inca", RELEASES as u32, ""), 1)] {
        for iteration in 1..=RELEASES {
            let mut ensemble = Ensemble::new(&plan);
            // As soon as somebody has come to that run; the first begins with START.
            let number = iteration as u32 + mixings;
            ensemble.until(|ensemble| {
                let training = of(ensemble, 0);
                training.number == number && !training.run.started().is_empty()
            });
            ensemble.kill(5);
            ensemble.play();
            for party in 0..PARTIES - 1 {
                let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
                assert_eq!(training.iterations, RELEASES, "{:?}", training.stopped);
                let last = training.departed.get(&5).copied().expect("it departed");
                // What it had said by then may count.
                assert!(
                    last == iteration || last == iteration + 1,
                    "{last}, not {iteration}"
                );
                assert_eq!(training.departed.len(), 1);
                assert_eq!(training.corrected, [last], "once, and never again");
                assert_eq!((&outcome.ending, training.rejected.len()), (&Ending::Degraded, 0));
                assert_eq!(training.departed, ensemble.training(0).departed);
                assert_eq!(outcome.started.len(), PARTIES, "those of START");
            }
        }
    }
}

fn early(ensemble: &Ensemble<'_>, peer: Party) -> (usize, usize) {
    let frames = of(ensemble, 0).early.get(&peer);
    let bytes = frames.into_iter().flatten().map(Bytes::len).sum();
    (frames.map_or(0, Vec::len), bytes)
}

#[test]
fn frames_of_the_next_run_are_kept_up_to_a_bound_for_each_neighbour() {
    let plan = pairwise();
    let public = |number: u32, from: Party, bytes: usize| Input::Public {
        from,
        frame: Bytes::from_owner(wire::iteration_frame(number, &vec![7; bytes])),
    };
    let mut ensemble = Ensemble::new(&plan);
    (0..5000).for_each(|_| ensemble.feed(0, public(2, 1, 16)));
    assert_eq!(early(&ensemble, 1), (EARLY_FRAMES, 16 * EARLY_FRAMES));
    for bytes in [EARLY_BYTES - 100, 101, 100, 1, 0] {
        ensemble.feed(0, public(2, 2, bytes));
    }
    assert_eq!(
        early(&ensemble, 2),
        (3, EARLY_BYTES),
        "to the byte, and nothing beyond"
    );
    ensemble.feed(0, public(2, 3, EARLY_BYTES + 1));
    assert_eq!(early(&ensemble, 3).1, 0);
    for number in [0, 3, 4, u32::MAX] {
        ensemble.feed(0, public(number, 4, 16));
        assert_eq!(early(&ensemble, 4).0, 0, "of run {number} nothing is kept");
    }
}

/// Early messages for the next run count once it begins: nothing is asked for twice.
#[test]
fn what_came_early_is_taken_once_its_run_begins() {
    for plan in [pairwise(), stream_plan("neighbours", "")] {
        let late = Rc::new(Cell::new(true));
        let is_late = late.clone();
        let held: Rc<std::cell::RefCell<Vec<(Network, Party, Bytes)>>> = Rc::default();
        let kept = held.clone();
        let mut ensemble = Ensemble::new(&plan);
        ensemble.arrives = Box::new(move |sent| {
            // Party 0 hears no secret of the first iteration until the others are in the second.
            let tells = notice(sent).is_some_and(|(run, said)| {
                run == 1 && matches!(said, Notice::Key { .. } | Notice::Share { .. })
            });
            let stays = is_late.get() && tells && sent.to == 0;
            if stays {
                let frame = sent.frame.clone();
                kept.borrow_mut().push((sent.network, sent.from, frame));
            }
            !stays
        });
        ensemble.until(|ensemble| (1..PARTIES).all(|party| of(ensemble, party).number == 2));
        ensemble.deliver();
        assert_eq!(of(&ensemble, 0).number, 1);
        // Their vectors, or their logs, which nobody signs before this node's vectors are there.
        let early: usize = of(&ensemble, 0).early.values().map(Vec::len).sum();
        let sealed = of(&ensemble, 0).early_sealed.len();
        match plan.reads_circles() {
            true => assert_eq!((early, sealed), (0, PARTIES - 1)),
            false => assert!(early >= PARTIES - 1 && sealed == 0, "{early}"),
        }
        late.set(false);
        for (_, from, frame) in held.take() {
            ensemble.feed(0, Input::Public { from, frame });
        }
        assert_eq!(of(&ensemble, 0).number, 2);
        assert!(of(&ensemble, 0).early.is_empty() && of(&ensemble, 0).early_sealed.is_empty());
        let now = ensemble.now;
        ensemble.play();
        for party in 0..PARTIES {
            assert_eq!(ensemble.outcome(party).ending, Ending::Done);
        }
        assert_eq!(ensemble.now, now, "nobody had to wait for anything");
    }
}

#[test]
fn a_contribution_is_taken_in_its_iteration_only() {
    let refused = Err(InputError::NotAsked("Contribution"));
    for (kind, first) in [("pairwise", 1), ("inca", 0)] {
        let plan = rounds_plan(kind, RELEASES as u32, "");
        let value = contribution(&plan, 0, 1);
        let given = |iteration: u32| Input::Contribution {
            iteration,
            value: Noisy::with_noise_in(value.clone()),
        };
        let mut ensemble = Ensemble::new(&plan);
        ensemble.source = Box::new(|party, _, _| (party != 0).then(|| contribution(&plan, party, 1)));
        assert_eq!(of(&ensemble, 0).iteration(), first);
        for iteration in 0..3 {
            assert_eq!(ensemble.tasks[0].handle(Time::ZERO, given(iteration)), refused);
        }
        ensemble.until(|ensemble| !ensemble.asked.iter().all(|it| it.0 != 0));
        assert_eq!(of(&ensemble, 0).iteration(), 2);
        let now = ensemble.now;
        for iteration in [0, 1, 3] {
            assert_eq!(ensemble.tasks[0].handle(now, given(iteration)), refused);
        }
        ensemble.feed(0, given(2));
        assert_eq!(ensemble.tasks[0].handle(now, given(2)), refused, "once");
    }
}

/// The digest of a run covers the plan, the run, and the values that all go by.
#[test]
fn a_digest_has_the_plan_the_run_and_the_released_values_in_it() {
    let (plan, other) = (pairwise(), rounds_plan("pairwise", 3, ""));
    let all = [
        digest_of(&plan, 2, &[1.0, 2.0]),
        digest_of(&other, 2, &[1.0, 2.0]),
        digest_of(&plan, 3, &[1.0, 2.0]),
        digest_of(&plan, 2, &[1.0, 2.5]),
        digest_of(&plan, 2, &[2.0, 1.0]),
        digest_of(&plan, 2, &[1.0]),
        digest_of(&plan, 2, &[]),
        digest_of(&plan, 2, &[0.0]),
        digest_of(&plan, 2, &[-0.0]),
        *plan.digest(),
    ];
    let different: BTreeSet<&Digest> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn a_stream_that_is_paced_waits_and_who_leaves_meanwhile_keeps_its_rows() {
    let plan = stream_plan("everybody", "round_ms = 8000\npace_ms = 700");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.until(|ensemble| ensemble.has_said(0, &Event::Iteration(2)));
    let started = ensemble.run(0).plan().digest().len();
    assert_eq!(started, 32);
    let (next, _) = of(&ensemble, 0).paced.as_ref().expect("it waits");
    let start = of(&ensemble, 0).record.began.1.expect("it began");
    assert_eq!(
        *next,
        start.plus_millis(1400),
        "the third round begins after two paces"
    );
    ensemble.feed(0, Input::Leave);
    let (outcome, training) = (ensemble.outcome(0), ensemble.training(0));
    assert_eq!((training.iterations, training.spent), (2, 2));
    assert_eq!(training.stopped.as_deref(), Some("this node was told to leave"));
    assert_eq!(
        (&outcome.ending, outcome.started.len()),
        (&Ending::Degraded, PARTIES)
    );
    assert_eq!(training.result.as_ref().map(Vec::len), Some(4));
    // Whoever does not leave goes on at that very moment.
    let mut ensemble = Ensemble::new(&plan);
    ensemble.play();
    let start = ensemble.outcome(0).started_at.expect("it began");
    for iteration in 2..=RELEASES {
        let reported = ensemble.said_at(0, &Event::Iteration(iteration));
        assert_eq!(
            reported,
            start.plus_millis(700 * (iteration - 1)),
            "iteration {iteration}"
        );
    }
}

#[test]
fn missed_messages_are_counted_from_the_first_to_the_last_round() {
    let training = |iterations: u64, departed: &[(Party, u64)]| TrainingOutcome {
        iterations,
        mixings: 0,
        spent: iterations + 1,
        corrected: vec![],
        rejected: vec![],
        unopened: Default::default(),
        departed: departed.iter().copied().collect(),
        stopped: Some("why".into()),
        result: Some(vec![1.0, 2.0]),
    };
    let gossip = of_circles(training(5, &[(1, 1), (2, 3), (3, 5), (4, 6)]));
    let missed: Vec<_> = gossip
        .missed
        .iter()
        .map(|(who, it)| (*who, it.first, it.count))
        .collect();
    assert_eq!(missed, [(1, 1, 5), (2, 3, 3), (3, 5, 1), (4, 6, 0)]);
    assert_eq!((gossip.rounds, gossip.spent), (5, 6));
    assert_eq!(
        (gossip.stopped.as_deref(), gossip.estimates),
        (Some("why"), vec![1.0, 2.0])
    );
}

/// A round's vectors wait one round ahead at most, one of each neighbour.
#[test]
fn a_vector_of_the_next_round_waits_for_it_and_no_other_does() {
    let plan = stream_plan("neighbours", "");
    let ring = plan.circle_ring().expect("a ring");
    let mut ensemble = Ensemble::new(&plan);
    ensemble.until(|ensemble| of(ensemble, 0).run.holdings().is_some());
    let frame = |round: u32, from: Party| {
        let id = ShareId { round, from, to: 0 };
        let frame = wire::sealed_frame(&[5; 32], id, &vec![0; 2 * ring.width()]);
        Input::Private {
            from,
            frame: Bytes::from_owner(frame),
        }
    };
    for round in [0, 3, 4, u32::MAX] {
        ensemble.feed(0, frame(round, 1));
        assert!(of(&ensemble, 0).early_sealed.is_empty(), "round {round}");
    }
    let before = ensemble.complaints(0).len();
    for from in [1, 1, 2] {
        ensemble.feed(0, frame(2, from));
    }
    assert_eq!(of(&ensemble, 0).early_sealed.len(), 2);
    assert_eq!(ensemble.complaints(0).len(), before);
}

#[test]
fn a_task_is_never_fed_before_its_first_input() {
    for plan in [pairwise(), stream_plan("neighbours", "")] {
        let mut task = task_of(&plan, 2);
        let mut outputs = vec![];
        loop {
            match task.poll_output() {
                Output::Wait { until } => break assert!(until > Time::ZERO && until < Time::FAR),
                output => outputs.push(output),
            }
        }
        let ready = outputs
            .iter()
            .filter(|it| matches!(it, Output::Event(Event::Ready(1))));
        assert_eq!((ready.count(), outputs.len()), (1, 2), "and the phase");
    }
}
