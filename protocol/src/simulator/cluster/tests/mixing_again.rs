//! Precomputed noise that is mixed again: after a mixing in vain, by those whose logs were agreed
//! on.

use std::cell::{Cell, RefCell};

use super::trainings::{ITERATIONS, PARTIES, ended, simulation, train_by, training_plan};
use super::*;
use crate::messages::log::ShareId;
use crate::messages::signature::Digest;

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

/// Messages of the first mixing change nothing when their sender repeats them in the second:
/// shares, answers, logs and votes, its own and forwarded ones. Nothing of it is taken.
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

/// Lets nobody go on before so many mixings are over, and then whoever [`gate`] does.
fn in_vain(times: usize) -> impl Fn(&Plan, &AgreedLogs) -> GateVerdict {
    let judged = Cell::new(0);
    move |plan, logs| {
        judged.set(judged.get() + 1);
        match judged.get() > times * PARTIES {
            true => gate(plan, logs),
            false => refuse(plan, logs),
        }
    }
}

/// Shares that were said again in the second mixing are in nobody's way when the third one begins
/// earlier elsewhere.
#[test]
fn what_was_said_again_takes_no_place_of_the_next() {
    let plan = training_plan("inca");
    for seed in 0..8 {
        let conditions = Conditions {
            replays: Some(2),
            ..Conditions::new(seed)
        };
        let report = train_by(&plan, &in_vain(2), conditions);
        assert_eq!(report.violations, [], "seed {seed}");
        for (who, outcome, training) in ended(&report) {
            assert_eq!(
                (&outcome.ending, training.mixings),
                (&Ending::Done, 3),
                "seed {seed}, {who}: {:?}",
                training.stopped
            );
        }
    }
}

/// Shares on their way, by what they are signed for: their values.
type SignedShares = BTreeMap<Digest, BTreeMap<ShareId, Vec<u8>>>;

/// All shares of mixings that are all in vain.
fn shares_in_vain(faults: Vec<Fault>) -> SignedShares {
    let (plan, shares) = (training_plan("inca"), RefCell::new(SignedShares::new()));
    let nothing = vec![plan.lattice().zeros(plan.draft().dimension()); PARTIES];
    let conditions = Conditions::new(1).with_faults(faults);
    let mut simulation = Simulation::new(plan, nothing, &refuse, conditions);
    simulation.wire = Some(Box::new(|sending| {
        let frame = Bytes::from_owner(sending.frame.clone());
        let read = wire::read_private(&frame).ok();
        if let (
            Network::Private,
            Some(PrivateFrame::Share {
                digest, id, values, ..
            }),
        ) = (sending.network, read)
        {
            let mut shares = shares.borrow_mut();
            shares
                .entry(digest)
                .or_default()
                .insert(id, frame[values].to_vec());
        }
        lying::Sent::AsItIs
    }));
    assert_eq!(simulation.run().violations, []);
    shares.into_inner()
}

/// In each mixing everything is signed for a digest with its number and parties in it, and no share
/// has noise of an earlier one.
#[test]
fn each_mixing_has_noise_and_a_digest_of_its_own() {
    let whole = shares_in_vain(vec![]);
    assert_eq!(whole.len(), 3);
    let mixings: Vec<_> = whole.values().collect();
    for (at, one) in mixings.iter().enumerate() {
        for other in &mixings[..at] {
            let fresh = one.iter().all(|(id, values)| other[id] != *values);
            assert!(one.len() > PARTIES && fresh);
        }
    }
    let dead = Fault::Crash {
        party: 6,
        at: Time::from_millis(4),
    };
    let fewer = shares_in_vain(vec![dead]);
    let same = fewer.keys().filter(|digest| whole.contains_key(*digest));
    assert_eq!(
        (fewer.len(), same.count()),
        (3, 1),
        "the first one's is the plan's"
    );
}

/// Delayed messages arrive once more when two iterations are over: the shares of each mixing, and
/// the answers to them. Nobody is blamed for it, and nothing changes.
#[test]
fn what_comes_long_after_its_mixing_accuses_nobody() {
    let plan = training_plan("inca");
    for times in [0, 1] {
        let calm = train_by(&plan, &in_vain(times), Conditions::new(3));
        let third = |(_, _, event): &&(Time, Party, Event)| matches!(event, Event::Iteration(3));
        let over = calm.events.iter().find(third).expect("three iterations").0;
        let late = Cell::new(0);
        let gate = in_vain(times);
        let mut simulation = simulation(&plan, &gate, Conditions::new(3));
        simulation.wire = Some(Box::new(|sending| match sending.network {
            Network::Private => {
                late.set(late.get() + 1);
                let frame = sending.frame;
                lying::Sent::Later(vec![(0, frame.clone()), (over.as_millis(), frame.clone())])
            }
            Network::Public => lying::Sent::AsItIs,
        }));
        let report = simulation.run();
        assert_eq!(report.violations, [], "{times} in vain");
        assert!(late.get() > 2 * PARTIES, "{}", late.get());
        let results = |report: &Report| -> Vec<_> {
            let ended = ended(report).into_iter();
            ended
                .map(|(who, _, it)| (who, it.mixings, it.result.clone()))
                .collect()
        };
        assert_eq!(results(&report), results(&calm));
    }
}

/// A party that fell silent in the first mixing, with no log, is not waited for in the second.
#[test]
fn nobody_waits_for_who_has_no_log_of_a_mixing_in_vain() {
    let plan = training_plan("inca");
    let (one, other) = pair(&plan);
    let party = (0..PARTIES).find(|party| ![one, other].contains(party));
    let party = party.expect("more than two parties");
    let mut again = 0;
    for seed in 0..6 {
        let silent = Fault::Silence {
            party,
            at: Time::from_millis(4 + seed % 3),
        };
        let conditions = Conditions::new(seed).with_faults(vec![cut(&plan, pair(&plan)), silent]);
        let report = train_by(&plan, &gate, conditions);
        assert_eq!(report.violations, [], "seed {seed}");
        let first = |is: &dyn Fn(&Event) -> bool| {
            let reported = report
                .events
                .iter()
                .find(|(_, who, event)| *who == one && is(event));
            reported.map(|(at, ..)| *at)
        };
        let begun = first(&|event| matches!(event, Event::Fault(text) if text.contains("attempt 2 of 3")));
        let over = first(&|event| matches!(event, Event::Iteration(1)));
        if let (Some(begun), Some(over)) = (begun, over) {
            again += 1;
            let stage = begun.plus_millis(plan.draft().run.settle_ms);
            assert!(over < stage, "seed {seed}: from {begun:?} to {over:?}");
        }
    }
    assert!(again >= 3, "{again}");
}

/// Noise is not mixed again where fewer parties are left than may go on: another mixing would be in
/// vain, too.
#[test]
fn too_few_mix_no_noise_again() {
    let plan = training_plan("inca");
    let dead = (plan.draft().run.min_parties - 1..PARTIES).map(|party| Fault::Crash {
        party,
        at: Time::from_millis(4),
    });
    let report = train_by(&plan, &gate, Conditions::new(3).with_faults(dead.collect()));
    assert_eq!(report.violations, []);
    assert!(ended(&report).iter().all(|(.., training)| training.mixings == 1));
}

/// Around a hub the others owe it a share in several rounds, and some are owed nothing by it before
/// they have sent two: whoever begins the next mixing a little late has them all.
#[test]
fn who_is_late_for_the_next_mixing_loses_no_share() {
    let edges: Vec<String> = (1..PARTIES)
        .map(|party| (party, party % (PARTIES - 1) + 1))
        .flat_map(|(party, next)| [(0, party), (party, next)])
        .map(|(one, other)| format!("[\"party-{one}\", \"party-{other}\"]"))
        .collect();
    let text = format!(
        "task = \"regression\"\nname = \"training\"\n[data]\nshape = [3]\n[model]\nloss = \"logistic\"\n\
         iterations = {ITERATIONS}\n[run]\niteration_ms = 4000\n[mechanism]\nkind = \"inca\"\n\
         [privacy]\ncolluding = 1\n[topology]\nprivate = {{ kind = \"edges\", edges = [{}] }}",
        edges.join(", ")
    );
    let raw = RawRunFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let plan = plan_from(raw, PARTIES, Some(20), 8);
    let calm = train_by(&plan, &in_vain(1), Conditions::new(0));
    for (late, before_ns) in (0..PARTIES).flat_map(|party| [500_000, 2_500_000].map(|ns| (party, ns))) {
        let begins = |(_, who, event): &&(Time, Party, Event)| {
            *who == late && matches!(event, Event::Fault(text) if text.contains("attempt 2"))
        };
        let again = calm.events.iter().find(begins).expect("it mixes again").0;
        let fault = Fault::Suspend {
            party: late,
            at: Time::from_nanos(again.as_nanos() - before_ns),
            for_ms: 30,
        };
        let report = train_by(&plan, &in_vain(1), Conditions::new(0).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "{late}");
        let mixings = ended(&report).iter().map(|(.., training)| training.mixings).max();
        assert_eq!(mixings, Some(2), "{late}");
    }
}
