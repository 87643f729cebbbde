use super::*;
use crate::messages::log::{Answer, Verdict};
use crate::messages::signature::Signature;
use crate::mixing::noisy::Noisy;
use crate::run::outcome::{Ending, GossipOutcome, MissedMessages};
use crate::simulator::cluster::tests::plan;
use crate::task::machine::TaskMachine;
use crate::task::tests::ensemble::{Ensemble, contribution};

const PARTIES: usize = 4;
const ROUND_MS: u64 = 1000;

/// A stream of `releases`, of parties on a ring.
fn stream(releases: u32, rounds: u32) -> Arc<Plan> {
    let releases = match releases {
        1 => String::new(),
        more => format!("releases = {more}\n"),
    };
    let lines = format!(
        "{releases}[mechanism]\nsums = \"open\"\n[topology]\nprivate = \"ring\"\n\
         [run]\nround_ms = {ROUND_MS}\n"
    );
    plan(PARTIES, &lines, rounds)
}

fn of<'e>(ensemble: &'e Ensemble<'_>, party: Party) -> &'e GossipTask {
    match ensemble.tasks[party].computation() {
        TaskMachine::Gossip(gossip) => gossip,
        _ => panic!("gossip"),
    }
}

fn gossip<'e>(ensemble: &'e Ensemble<'_>, party: Party) -> &'e GossipOutcome {
    ensemble.outcome(party).gossip.as_deref().expect("gossip")
}

fn reported(ensemble: &Ensemble<'_>, party: Party) -> Vec<Event> {
    let events = ensemble.events.iter().filter(|(_, who, _)| *who == party);
    let progress = |event: &Event| matches!(event, Event::Round(_) | Event::Iteration(_) | Event::Complete);
    let events = events.map(|(.., event)| event.clone());
    events.filter(progress).collect()
}

#[test]
fn every_round_and_every_release_is_reported_once_and_all_is_spent() {
    use Event::{Complete, Iteration, Round};
    for (releases, rounds, expected) in [
        (
            3,
            3,
            vec![
                Round(1),
                Iteration(1),
                Round(2),
                Iteration(2),
                Round(3),
                Iteration(3),
                Complete,
            ],
        ),
        // One value in many rounds has no iterations.
        (1, 3, vec![Round(1), Round(2), Round(3), Complete]),
    ] {
        let mut ensemble = Ensemble::new(&stream(releases, rounds));
        ensemble.play();
        ensemble.deliver();
        for party in 0..PARTIES {
            let outcome = ensemble.outcome(party);
            assert_eq!((&outcome.ending, outcome.started.len()), (&Ending::Done, PARTIES));
            let gossip = gossip(&ensemble, party);
            assert_eq!(
                (gossip.rounds, gossip.spent, &gossip.stopped),
                (rounds, releases, &None)
            );
            assert!(gossip.missed.is_empty());
            let rows = if releases == 1 { 1 } else { rounds as usize };
            assert_eq!(gossip.estimates.len(), 2 * rows);
            assert_eq!(reported(&ensemble, party), expected);
            assert_eq!(ensemble.complaints(party), [] as [String; 0]);
        }
        let mut asked: Vec<(Party, u32)> = ensemble.asked.iter().map(|it| (it.0, it.1)).collect();
        asked.sort_unstable();
        let each = (0..PARTIES).flat_map(|party| (2..=releases).map(move |at| (party, at)));
        assert_eq!(asked, each.collect::<Vec<_>>(), "each later release, once");
        for (party, iteration, released) in &ensemble.asked {
            let row = 2 * (*iteration as usize - 2);
            let before = &gossip(&ensemble, *party).estimates[row..row + 2];
            assert_eq!(&released[..], before, "the latest estimate");
        }
    }
}

#[test]
fn what_is_no_message_of_a_neighbour_is_an_offence() {
    let plan = stream(3, 3);
    let mut ensemble = Ensemble::new(&plan);
    // Nothing arrives at party 0: it waits in round 1.
    ensemble.arrives = Box::new(|sent| sent.network != Network::Private || sent.to != 0);
    ensemble.until(|ensemble| of(ensemble, 0).stage == GossipStage::Rounds);
    ensemble.deliver();
    let bytes = 2 * plan.lattice().wire_bytes as usize;
    let values = vec![0; bytes];
    let id = |round: u32, from: Party, to: Party| ShareId { round, from, to };
    let whole = LatticeWeight(CarriedWeight::WHOLE.units());
    let message = |digest: &[u8; 32], id: ShareId, weight: LatticeWeight, bytes: usize| {
        Bytes::from_owner(wire::message_frame(digest, id, weight, &vec![0; bytes]))
    };
    let digest = plan.digest();
    let answer = Answer {
        verdict: Verdict::Refused,
        signature: Signature([0; 64]),
    };
    let wrong = [
        Bytes::new(),
        Bytes::from_owner(wire::share_frame(digest, id(1, 1, 0), whole, &values)),
        Bytes::from_owner(wire::sealed_frame(digest, id(1, 1, 0), &values)),
        Bytes::from_owner(wire::answer_frame(digest, id(1, 0, 1), &answer)),
        message(&[3; 32], id(1, 1, 0), whole, bytes),
        message(digest, id(1, 3, 0), whole, bytes),
        message(digest, id(1, 1, 0), LatticeWeight(0), bytes),
        message(digest, id(1, 1, 0), whole, bytes + 1),
        message(digest, id(4, 1, 0), whole, bytes),
    ];
    for (at, frame) in wrong.into_iter().enumerate() {
        ensemble.feed(0, Input::Private { from: 1, frame });
        let complaints = ensemble.complaints(0);
        assert_eq!(complaints.len(), at + 1, "{complaints:?}");
        assert!(complaints[at].starts_with("1: "));
        assert!(
            of(&ensemble, 0).rounds.waits_for().any(|peer| peer == 1),
            "case {at} was taken"
        );
    }
    let complaints = ensemble.complaints(0).len();
    let frame = message(digest, id(1, 1, 0), whole, bytes);
    ensemble.feed(0, Input::Private { from: 1, frame });
    assert_eq!(ensemble.complaints(0).len(), complaints);
    assert!(of(&ensemble, 0).rounds.waits_for().eq([3]));
    for party in [PARTIES, usize::MAX] {
        let input = Input::Private {
            from: party,
            frame: Bytes::new(),
        };
        let now = ensemble.now;
        assert_eq!(ensemble.tasks[0].handle(now, input), Err(InputError::Peer(party)));
    }
}

#[test]
fn who_departs_is_missed_from_then_on_and_counted() {
    let plan = stream(5, 5);
    for round in 1..=5u32 {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| ensemble.has_said(2, &Event::Round(round)));
        ensemble.kill(2);
        ensemble.play();
        ensemble.deliver();
        for party in [1, 3] {
            let (outcome, gossip) = (ensemble.outcome(party), gossip(&ensemble, party));
            let Some(&MissedMessages { first, count }) = gossip.missed.get(&2) else {
                // Its last message was out.
                assert_eq!((round, &outcome.ending), (5, &Ending::Done));
                continue;
            };
            assert_eq!((gossip.rounds, gossip.spent, gossip.missed.len()), (5, 5, 1));
            assert_eq!(first + count, 6, "to the end");
            // A message that was on its way is lost with the connection.
            assert!(first + 1 >= round && first <= round + 1, "{first}, not {round}");
            assert_eq!(outcome.ending, Ending::Degraded);
            assert!(ensemble.has_said(party, &Event::Complete));
        }
        // Who is no neighbour of it misses nothing.
        assert_eq!(
            (&ensemble.outcome(0).ending, gossip(&ensemble, 0).missed.len()),
            (&Ending::Done, 0)
        );
        assert!(ensemble.now < Time::from_millis(ROUND_MS), "no deadline passed");
    }
}

#[test]
fn who_leaves_has_spent_the_release_of_its_round() {
    let plan = stream(5, 5);
    for round in 1..=5u32 {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| ensemble.has_said(0, &Event::Round(round)));
        ensemble.feed(0, Input::Leave);
        let (outcome, gossip) = (ensemble.outcome(0), gossip(&ensemble, 0));
        assert_eq!((gossip.rounds, gossip.spent), (round - 1, round));
        assert_eq!(gossip.estimates.len(), 2 * (round as usize - 1));
        assert_eq!(gossip.stopped.as_deref(), Some("this node was told to leave"));
        assert_eq!(outcome.ending, Ending::Degraded);
        assert!(
            ensemble.has_said(0, &Event::Complete),
            "who left early is missed anyway"
        );
    }
    let mut ensemble = Ensemble::new(&plan);
    ensemble.feed(0, Input::Leave);
    let outcome = ensemble.outcome(0);
    assert!(matches!(outcome.ending, Ending::Aborted { .. }) && outcome.gossip.is_none());
    assert!(!ensemble.has_said(0, &Event::Complete));
}

/// A message that was lost with its connection goes out on the next one; nobody who is not there is
/// sent anything.
#[test]
fn a_broken_connection_costs_nothing() {
    let plan = stream(4, 4);
    for round in 1..=4u32 {
        let mut ensemble = Ensemble::new(&plan);
        ensemble.until(|ensemble| ensemble.has_said(0, &Event::Round(round)));
        let network = Network::Private;
        let lost = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = lost.clone();
        ensemble.arrives = Box::new(move |sent| {
            let between = [(0, 1), (1, 0)].contains(&(sent.from, sent.to)) && sent.network == network;
            counted.set(counted.get() + u32::from(between));
            !between
        });
        ensemble.deliver();
        let on_the_way = lost.get();
        for (party, peer) in [(0, 1), (1, 0)] {
            ensemble.feed(party, Input::Disconnected { network, peer });
        }
        ensemble.deliver();
        assert_eq!(lost.get(), on_the_way, "nothing is sent to who is not connected");
        ensemble.arrives = Box::new(|_| true);
        for (party, peer) in [(0, 1), (1, 0)] {
            ensemble.feed(party, Input::Connected { network, peer });
        }
        ensemble.play();
        for party in 0..PARTIES {
            assert_eq!(ensemble.outcome(party).ending, Ending::Done, "round {round}");
        }
        assert!(ensemble.now < Time::from_millis(ROUND_MS), "no deadline passed");
    }
}

#[test]
fn a_release_is_taken_in_its_round_only() {
    let plan = stream(4, 4);
    let given = |iteration: u32| Input::Contribution {
        iteration,
        value: Noisy::with_noise_in(contribution(&plan, 0, iteration)),
    };
    let refused = Err(InputError::NotAsked("Contribution"));
    let mut ensemble = Ensemble::new(&plan);
    ensemble.source = Box::new(|party, at, _| (party != 0).then(|| contribution(&plan, party, at)));
    assert_eq!(of(&ensemble, 0).iteration(), 1);
    for iteration in [0, 1, 2] {
        assert_eq!(ensemble.tasks[0].handle(Time::ZERO, given(iteration)), refused);
    }
    ensemble.until(|ensemble| ensemble.has_said(0, &Event::Round(2)));
    ensemble.deliver();
    let now = ensemble.now;
    for iteration in [1, 3] {
        assert_eq!(ensemble.tasks[0].handle(now, given(iteration)), refused);
    }
    let asked = ensemble.asked.iter().filter(|it| it.0 == 0).count();
    assert_eq!(
        (asked, of(&ensemble, 0).iteration()),
        (1, 2),
        "once, though it was woken often"
    );
    let progress = ensemble.tasks[0].progress();
    assert_eq!((progress.phase, progress.round), (Phase::Mixing, 2));
    ensemble.feed(0, given(2));
    assert_eq!(ensemble.tasks[0].handle(now, given(2)), refused, "once");
    ensemble.feed(0, Input::Leave);
    assert_eq!(ensemble.tasks[0].handle(now, given(3)), refused, "it is over");
    assert_eq!(ensemble.tasks[0].progress().phase, Phase::Done);
}

/// Who is not in START sends nothing: it is not waited for.
#[test]
fn nobody_waits_for_who_has_not_started() {
    let lines = "releases = 3\n[mechanism]\nsums = \"open\"\n[topology]\nprivate = \"ring\"\n\
                 [run]\njoin_ms = 500\nmin_parties = 3\n";
    let mut ensemble = Ensemble::without(&plan(PARTIES, lines, 3), &[2]);
    ensemble.play();
    let start = ensemble.outcome(1).started_at.expect("it began");
    assert_eq!(ensemble.now, start, "no deadline passed");
    for party in [1, 3] {
        let missed = &gossip(&ensemble, party).missed;
        let all = MissedMessages { first: 1, count: 3 };
        assert_eq!(missed.iter().collect::<Vec<_>>(), [(&2, &all)]);
        assert_eq!(ensemble.outcome(party).started.len(), 3);
    }
}

/// A neighbour whose last message did not come may still need this node, until it is known to be
/// unreachable.
#[test]
fn who_lacks_a_last_message_is_needed_until_its_author_is_gone() {
    let plan = stream(3, 3);
    let mut ensemble = Ensemble::new(&plan);
    ensemble.until(|ensemble| ensemble.has_said(0, &Event::Round(3)));
    ensemble.silent.insert(1);
    ensemble.arrives = Box::new(|sent| sent.from != 1);
    ensemble.until(|ensemble| ensemble.outcomes.contains_key(&0));
    let missed = gossip(&ensemble, 0).missed.contains_key(&1);
    assert_eq!(ensemble.has_said(0, &Event::Complete), !missed);
    ensemble.feed(0, Input::Unreachable { peer: 1 });
    ensemble.play();
    ensemble.deliver();
    assert!(ensemble.has_said(0, &Event::Complete));
    assert!(missed, "its last message is lacking");
}
