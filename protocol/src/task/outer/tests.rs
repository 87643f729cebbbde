mod hostile;

use super::*;
use crate::mixing::noisy::Noisy;
use crate::run::outcome::Ending;
use crate::task::machine::TaskMachine;
use crate::task::tests::ensemble::{Ensemble, plan_of_text};
use crate::topology::multi_gossip::HandOver;

const PARTIES: usize = 5;
const ITERATIONS: u64 = 3;
const ROUND_MS: u64 = 700;
const SETTLE_MS: u64 = 1100;

fn outer_plan() -> Arc<Plan> {
    plan_with("", "ring")
}

/// With these lines of outer iterations, on this private graph.
fn plan_with(outer: &str, private: &str) -> Arc<Plan> {
    let text = format!(
        "task = \"linear-equations\"\nname = \"outer\"\n[data]\nshape = [3]\n\
         [recursion]\niterations = {ITERATIONS}\ngossip_iterations = 4\npairwise_std = 10.0\n{outer}\n\
         [mechanism]\naccept_exact_sum = true\n\
         [topology]\nprivate = \"{private}\"\npublic = \"ring\"\n\
         [run]\nround_ms = {ROUND_MS}\nsettle_ms = {SETTLE_MS}"
    );
    plan_of_text((PARTIES, Some(1)), &text, 4)
}

/// Parties whose own step changes nothing.
fn ensemble(plan: &Arc<Plan>) -> Ensemble<'static> {
    let of_plan = plan.clone();
    let mut ensemble = Ensemble::new(plan);
    ensemble.source =
        Box::new(move |_, _, released| Some(of_plan.lattice().encode(released.iter().copied())));
    ensemble
}

fn of<'e>(ensemble: &'e Ensemble<'_>, party: Party) -> &'e Outer {
    match ensemble.tasks[party].computation() {
        TaskMachine::Outer(outer) => outer,
        _ => panic!("outer iterations"),
    }
}

fn name(stage: &OuterStage) -> &'static str {
    match stage {
        OuterStage::Gathering => "gathering",
        OuterStage::Gossip(_) => "gossip",
        OuterStage::Averaging => "averaging",
        OuterStage::Stepping => "stepping",
        OuterStage::Over => "over",
    }
}

/// Somebody who is at a stage of an outer iteration, from 1.
fn somebody_at(ensemble: &mut Ensemble<'_>, iteration: u64, stage: &str) -> Party {
    let at = |ensemble: &Ensemble<'_>| {
        (0..PARTIES).find(|&party| {
            let outer = of(ensemble, party);
            outer.done + 1 == iteration && name(&outer.stage) == stage
        })
    };
    ensemble.until(|ensemble| at(ensemble).is_some());
    at(ensemble).expect("it was just there")
}

#[test]
fn the_iteration_under_way_is_spent_and_no_other() {
    let plan = outer_plan();
    for iteration in 1..=ITERATIONS {
        for stage in ["gossip", "averaging", "stepping"] {
            let mut ensemble = ensemble(&plan);
            let party = somebody_at(&mut ensemble, iteration, stage);
            ensemble.feed(party, Input::Leave);
            let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
            assert_eq!(
                (training.iterations, training.spent),
                (iteration - 1, iteration),
                "told to leave in {stage}"
            );
            assert_eq!(outcome.ending, Ending::Degraded);
            let stopped = training.stopped.as_deref();
            assert_eq!(stopped, Some("this node was told to leave"));
            assert!(!outcome.agreed && ensemble.has_said(party, &Event::Complete));
        }
    }
    let mut ensemble = ensemble(&plan);
    ensemble.play();
    ensemble.deliver();
    for party in 0..PARTIES {
        ensemble.feed(party, Input::Tick);
        let (outcome, training) = (ensemble.outcome(party), ensemble.training(party));
        assert_eq!((training.iterations, training.spent), (ITERATIONS, ITERATIONS));
        assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Done, true));
        assert_eq!((&training.stopped, outcome.started.len()), (&None, PARTIES));
        let completes = ensemble.events.iter();
        let completes = completes.filter(|(_, who, event)| *who == party && *event == Event::Complete);
        assert_eq!(completes.count(), 1);
        let iterations = ensemble.events.iter().filter_map(|(_, who, event)| match event {
            Event::Iteration(iteration) if *who == party => Some(*iteration),
            _ => None,
        });
        assert_eq!(iterations.collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(ensemble.complaints(party), [] as [String; 0]);
    }
}

/// Each iteration ends at the mean of what all began it with, at every node: whatever was handed
/// over cancels, and public averaging is exact.
#[test]
fn every_iteration_comes_to_the_mean_of_all_states() {
    let plan = outer_plan();
    let mut ensemble = ensemble(&plan);
    ensemble.play();
    let mut asked: Vec<(Party, u32)> = ensemble
        .asked
        .iter()
        .map(|(party, at, _)| (*party, *at))
        .collect();
    asked.sort_unstable();
    let each_once: Vec<_> = (0..PARTIES)
        .flat_map(|party| [2, 3, 4].map(|at| (party, at)))
        .collect();
    assert_eq!(asked, each_once, "for the iterate after each iteration");
    for (party, iteration, mean) in &ensemble.asked {
        let near = (mean[0] - 0.2).abs() < 1e-4 && (mean[1] + 0.05).abs() < 1e-4;
        assert!(near, "{party} is at {mean:?} before iterate {iteration}");
    }
    for party in 0..PARTIES {
        let result = ensemble.training(party).result.clone().expect("an iterate");
        assert!(
            (result[0] - 0.2).abs() < 1e-4 && (result[1] + 0.05).abs() < 1e-4,
            "{result:?}"
        );
    }
}

/// The theorem's bound over all iterations takes the exchanges of each for drawn anew.
#[test]
fn each_iteration_has_exchanges_of_its_own_that_both_ends_know() {
    let plan = outer_plan();
    let ensemble = ensemble(&plan);
    let edges = |party: Party, outer: u64| -> Vec<(u32, Party, Party)> {
        let own = of(&ensemble, party).own_edges(outer);
        own.iter().map(|edge| (edge.round, edge.out, edge.into)).collect()
    };
    // Whoever has to hand over in any iteration is connected from START on.
    let links = plan.private_links();
    for outer in 0..4 {
        for party in 0..PARTIES {
            let own = edges(party, outer);
            assert!(own.is_sorted_by_key(|edge| edge.0));
            for edge in &own {
                let other = if edge.1 == party { edge.2 } else { edge.1 };
                assert!(links.joins(party, other), "{edge:?} in iteration {outer}");
                assert!(edges(other, outer).contains(edge), "{edge:?} of {party}");
            }
        }
    }
    let all = |outer: u64| (0..PARTIES).map(|party| edges(party, outer)).collect::<Vec<_>>();
    for (one, other) in [(0, 1), (1, 2), (0, 2), (2, 3)] {
        assert_ne!(all(one), all(other), "iterations {one} and {other}");
    }
}

/// Messages on their way when connections broke go out again on the next ones, in this iteration or
/// in one before.
#[test]
fn broken_connections_cost_nothing() {
    // One public round an iteration lets a node be ahead of one that it shares no public edge with.
    let averaging = "averaging = { kind = \"paper\", rounds = 1 }";
    for plan in [outer_plan(), plan_with(averaging, "complete")] {
        for (network, party) in [Network::Private, Network::Public]
            .into_iter()
            .flat_map(|network| (0..PARTIES).map(move |party| (network, party)))
        {
            for inputs in [0, 30, 60, 120] {
                all_end_although_cut_off(&plan, (network, party), inputs);
            }
        }
    }
}

/// Nothing arrives at a party on a graph from so many inputs on, until its connections there break
/// and come back.
fn all_end_although_cut_off(plan: &Arc<Plan>, (network, party): (Network, Party), inputs: usize) {
    let mut ensemble = ensemble(plan);
    ensemble.until(|ensemble| ensemble.run(party).has_handed_over());
    for _ in 0..inputs {
        if ensemble.outcomes.is_empty() {
            ensemble.step();
        }
    }
    ensemble.arrives = Box::new(move |sent| !(sent.network == network && sent.to == party));
    ensemble.deliver();
    ensemble.arrives = Box::new(|_| true);
    let links = match network {
        Network::Private => plan.private_links(),
        Network::Public => plan.public_links(),
    };
    let ends = links
        .neighbours(party)
        .iter()
        .flat_map(|&peer| [(party, peer), (peer, party)]);
    let ends: Vec<(Party, Party)> = ends.collect();
    for &(one, peer) in &ends {
        ensemble.feed(one, Input::Disconnected { network, peer });
    }
    for &(one, peer) in &ends {
        ensemble.feed(one, Input::Connected { network, peer });
    }
    ensemble.play();
    for (who, outcome) in &ensemble.outcomes {
        let stopped = outcome.training.as_ref().and_then(|it| it.stopped.clone());
        assert_eq!(
            stopped, None,
            "{who}, with {party} cut off from {network:?} after {inputs}"
        );
    }
}

/// One public round by hand: x ← x + c·Σ (their x − x), each round with its own c.
#[test]
fn a_public_round_moves_by_its_own_step_towards_all_neighbours_at_once() {
    let plan = outer_plan();
    let mut rounds = PublicRounds::of(&plan, 0);
    assert_eq!(rounds.neighbours, [1, 4]);
    let steps = [0.25, 0.5];
    rounds.steps = steps.to_vec();
    rounds.state = vec![1.0, 10.0];
    for round in 0..4u32 {
        assert!(rounds.waits_for().eq([1, 4]) && !rounds.is_complete());
        rounds.heard.insert((round, 1), vec![3.0, 2.0]);
        assert!(rounds.waits_for().eq([4]) && !rounds.is_complete());
        rounds.heard.insert((round + 1, 4), vec![0.0, 0.0]);
        assert!(!rounds.is_complete(), "that is of the next round");
        rounds.heard.remove(&(round + 1, 4));
        rounds.heard.insert((round, 4), vec![-5.0, 6.0]);
        assert!(rounds.is_complete());
        let before = rounds.state.clone();
        rounds.move_on();
        let step = steps[round as usize % 2];
        let expected = [
            before[0] + step * (3.0 - before[0]) + step * (-5.0 - before[0]),
            before[1] + step * (2.0 - before[1]) + step * (6.0 - before[1]),
        ];
        assert_eq!((&rounds.state[..], rounds.now), (&expected[..], round + 1));
        assert!(rounds.heard.is_empty());
    }
    rounds.heard.insert((rounds.now + 1, 1), vec![0.0, 0.0]);
    rounds.heard.insert((rounds.now, 1), vec![0.0, 0.0]);
    rounds.move_on();
    assert_eq!(rounds.heard.len(), 1, "what is of the next round stays");
}

#[test]
fn a_contribution_is_taken_when_it_was_asked_for_and_only_then() {
    let plan = outer_plan();
    let value = plan.lattice().zeros(2);
    let contribution = |iteration: u32| Input::Contribution {
        iteration,
        value: Noisy::with_noise_in(value.clone()),
    };
    let refused = Err(InputError::NotAsked("Contribution"));
    let mut ensemble = ensemble(&plan);
    ensemble.source = Box::new(|party, _, _| {
        let step = plan.lattice().zeros(2);
        (party != 0).then_some(step)
    });
    for iteration in [1, 2] {
        assert_eq!(
            ensemble.tasks[0].handle(Time::ZERO, contribution(iteration)),
            refused
        );
    }
    assert_eq!(of(&ensemble, 0).iteration(), 1);
    ensemble.until(|ensemble| name(&of(ensemble, 0).stage) == "stepping");
    assert_eq!(of(&ensemble, 0).iteration(), 2);
    for iteration in [1, 3] {
        let now = ensemble.now;
        assert_eq!(ensemble.tasks[0].handle(now, contribution(iteration)), refused);
    }
    // Whom it waits for from here on has a whole patience more.
    ensemble.now = ensemble.now.plus_millis(9000);
    ensemble.feed(0, contribution(2));
    assert_eq!(of(&ensemble, 0).moved, ensemble.now);
    assert_eq!((of(&ensemble, 0).done, of(&ensemble, 0).iteration()), (1, 3));
    for (party, frame) in [(PARTIES, Bytes::new()), (usize::MAX, Bytes::new())] {
        let now = ensemble.now;
        for input in [
            Input::Private {
                from: party,
                frame: frame.clone(),
            },
            Input::Public {
                from: party,
                frame: frame.clone(),
            },
        ] {
            assert_eq!(ensemble.tasks[0].handle(now, input), Err(InputError::Peer(party)));
        }
    }
}

#[test]
fn who_leaves_before_start_has_begun_nothing() {
    let plan = outer_plan();
    let mut ensemble = ensemble(&plan);
    ensemble.feed(0, Input::Leave);
    let outcome = ensemble.outcome(0);
    assert!(matches!(outcome.ending, Ending::Aborted { .. }) && outcome.training.is_none());
    assert!(!ensemble.has_said(0, &Event::Complete));
    assert_eq!(name(&of(&ensemble, 0).stage), "over");
}
