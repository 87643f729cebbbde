//! Noise ahead that is mixed again: after a mixing in vain, by those whose logs were agreed on.

use super::trainings::{ITERATIONS, PARTIES, ended, train_by, training_plan};
use super::*;

/// Lets nobody go on unless every share between those who are left arrived, and nobody where too
/// few are left: a stand-in for the connectivity that the real gate asks for.
fn gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let due: usize = (1..=plan.rounds())
        .flat_map(|round| logs.keys().map(move |&from| (round, from)))
        .map(|(round, from)| {
            let to = plan.exchanges().sends_to(round, from).iter();
            to.filter(|to| logs.contains_key(to)).count()
        })
        .sum();
    let received = logs.values().flat_map(|log| &log.received);
    let whole = received.filter(|entry| logs.contains_key(&entry.from)).count() == due;
    let enough = logs.len() >= plan.draft().run.min_parties;
    GateVerdict {
        publish: (whole && enough).then(|| logs.keys().copied().collect()),
        reason: "a share is missing".into(),
    }
}

fn refuse(_: &Plan, _: &AgreedLogs) -> GateVerdict {
    GateVerdict {
        publish: None,
        reason: "it is in vain".into(),
    }
}

/// A connection that is down for the first round of the first mixing, and up again before that of
/// the second ends.
fn cut(plan: &Plan, ends: (Party, Party)) -> Fault {
    let round_ms = plan.draft().run.round_ms;
    Fault::Cut {
        network: Network::Private,
        ends,
        at: Time::from_millis(2),
        for_ms: round_ms + round_ms / 2,
    }
}

/// A pair of which one sends the other a share in the first round.
fn pair(plan: &Plan) -> (Party, Party) {
    (0, plan.exchanges().sends_to(1, 0)[0])
}

#[test]
fn a_mixing_in_vain_is_followed_by_one_that_is_not() {
    let plan = training_plan("inca");
    assert_eq!(plan.most_mixings(), 3);
    let first = train_by(&plan, &gate, Conditions::new(3));
    let mut again = 0;
    for seed in 0..12 {
        let conditions = Conditions::new(seed).with_faults(vec![cut(&plan, pair(&plan))]);
        let report = train_by(&plan, &gate, conditions);
        assert_eq!(report.violations, [], "seed {seed}");
        let ended = ended(&report);
        assert_eq!(ended.len(), PARTIES);
        for (who, outcome, training) in &ended {
            assert_eq!(
                outcome.ending,
                Ending::Done,
                "seed {seed}, {who}: {:?}",
                training.stopped
            );
            assert_eq!((training.iterations, training.spent), (ITERATIONS, ITERATIONS));
            assert_eq!(training.mixings, ended[0].2.mixings, "all alike");
            assert!(training.rejected.is_empty() && training.departed.is_empty());
            assert_eq!(training.result, ended[0].2.result);
        }
        again += usize::from(ended[0].2.mixings == 2);
    }
    assert!(again >= 6, "the cut is within the first mixing: {again}");
    assert!(
        super::trainings::ended(&first)
            .iter()
            .all(|(.., it)| it.mixings == 1)
    );
}

/// A kill in the first mixing, with a share that is missing, too: the second one is of the others.
#[test]
fn who_is_killed_in_a_mixing_in_vain_is_not_in_the_next() {
    let plan = training_plan("inca");
    let (one, other) = pair(&plan);
    let party = (0..PARTIES).find(|party| ![one, other].contains(party));
    let party = party.expect("more than two parties");
    let mut again = 0;
    for seed in 0..12 {
        let dead = Fault::Crash {
            party,
            at: Time::from_millis(4 + seed % 3),
        };
        let conditions = Conditions::new(seed).with_faults(vec![cut(&plan, pair(&plan)), dead]);
        let report = train_by(&plan, &gate, conditions);
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors: Vec<_> = ended(&report)
            .into_iter()
            .filter(|(who, ..)| *who != party)
            .collect();
        assert_eq!(survivors.len(), PARTIES - 1, "seed {seed}");
        for (who, _, training) in &survivors {
            assert_eq!(
                training.iterations, ITERATIONS,
                "seed {seed}, {who}: {:?}",
                training.stopped
            );
            assert_eq!(training.result, survivors[0].2.result);
            assert_eq!(training.mixings, survivors[0].2.mixings);
            assert!(training.rejected.is_empty(), "{:?}", training.rejected);
        }
        again += usize::from(survivors[0].2.mixings > 1);
    }
    assert!(again >= 6, "{again}");
}

#[test]
fn mixings_that_are_all_in_vain_end_it_before_any_value_is_touched() {
    let plan = training_plan("inca");
    let report = train_by(&plan, &refuse, Conditions::new(1));
    assert_eq!(report.violations, []);
    let ended = ended(&report);
    assert_eq!(ended.len(), PARTIES);
    for (_, outcome, training) in ended {
        assert!(matches!(&outcome.ending, Ending::Aborted { reason } if reason.contains("it is in vain")));
        assert_eq!((training.mixings, training.spent, training.iterations), (3, 0, 0));
        assert_eq!((&training.result, outcome.sealed), (&None, None));
    }
    let third = |text: &str| text.contains("attempt 3 of 3");
    let again = |(_, _, event): &&(Time, Party, Event)| matches!(event, Event::Fault(text) if third(text));
    assert_eq!(report.events.iter().filter(again).count(), PARTIES);
}

/// What somebody has said in the first mixing, it says again in the second: shares, answers, logs
/// and votes, its own and those that it has passed on. Nothing of it is taken.
#[test]
fn nothing_of_a_mixing_in_vain_is_taken_in_the_next() {
    let plan = training_plan("inca");
    let run = |replays: Option<Party>| {
        let conditions = Conditions {
            replays,
            ..Conditions::new(7).with_faults(vec![cut(&plan, pair(&plan))])
        };
        let report = train_by(&plan, &gate, conditions);
        assert_eq!(report.violations, []);
        let offences = report.events.iter();
        let offences = offences.filter(|(_, _, event)| matches!(event, Event::Offence { .. }));
        let results: Vec<_> = ended(&report)
            .into_iter()
            .map(|(who, outcome, it)| (who, outcome.ending.clone(), it.mixings, it.result.clone()))
            .collect();
        (results, offences.count())
    };
    let (calm, none) = run(None);
    assert!(
        calm.iter()
            .all(|(_, ending, mixings, _)| (ending, *mixings) == (&Ending::Done, 2))
    );
    let (replayed, offences) = run(Some(2));
    assert_eq!(replayed, calm);
    assert!(offences > none + 20, "{offences} and {none}");
}
