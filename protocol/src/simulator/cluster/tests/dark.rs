//! Edges on which frames vanish, or are late, while nothing closes.

use super::*;
use crate::messages::notice::Notice;

/// Both directions of an edge, on both graphs or on one, from a moment on.
fn black_hole(network: Option<Network>, (a, b): (Party, Party), at: Time, for_ms: u64) -> Vec<Fault> {
    let hole = |(from, to)| Fault::BlackHole {
        network,
        from,
        to,
        at,
        for_ms,
    };
    [(a, b), (b, a)].map(hole).to_vec()
}

#[test]
fn what_vanished_in_a_black_hole_arrives_once_it_is_gone() {
    let plan = plan(6, SEALED, 3);
    let at = Time::from_millis(1);
    for for_ms in [0, 150, 1_000] {
        let faults = black_hole(None, (0, 1), at, for_ms);
        let report = simulate(&plan, Conditions::new(1).with_faults(faults));
        assert_eq!(report.violations, []);
        for (outcome, finished) in report.outcomes.iter().zip(&report.finished_at) {
            let outcome = outcome.as_ref().expect("everybody finishes");
            assert_eq!((&outcome.ending, outcome.included.len()), (&Ending::Done, 6));
            // A share on that edge is waited for.
            let waited = *finished > Some(Time::from_millis(for_ms));
            assert!(waited, "{for_ms} ms of darkness");
        }
    }
}

#[test]
fn segments_that_are_lost_delay_what_is_behind_them() {
    let plan = plan(6, SEALED, 3);
    let report = |share| {
        let loss = Fault::Loss {
            from: None,
            to: 2,
            share,
            at: Time::ZERO,
            for_ms: u64::MAX,
        };
        let report = simulate(&plan, Conditions::new(3).with_faults(vec![loss]));
        assert_eq!(report.violations, [], "{share}");
        report.finished_at.into_iter().flatten().max()
    };
    let without = report(0.0);
    assert!(without < Some(Time::from_millis(100)));
    assert!(report(0.2) > Some(Time::from_millis(200)));
}

const PARTIES: usize = 6;

/// A mechanism, and how its runs are simulated.
struct World {
    name: &'static str,
    plan: Arc<Plan>,
    run: fn(&Arc<Plan>, Conditions) -> Report,
}

fn one_mean(name: &'static str, lines: &str, rounds: u32) -> World {
    World {
        name,
        plan: plan(PARTIES, lines, rounds),
        run: |plan, conditions| {
            Simulation::new(plan.clone(), inputs(plan), &permissive_gate, conditions).run()
        },
    }
}

fn means() -> Vec<World> {
    vec![
        one_mean("sealed", SEALED, 3),
        one_mean("sealed ppsc", SEALED_PPSC, 14),
        one_mean("pairwise", PAIRWISE, 3),
        one_mean(
            "static",
            "[privacy]\ncoalitions = \"static\"\n[run]\nsealed = true",
            5,
        ),
        one_mean("open", "[mechanism]\ncorrelated = \"uniform\"", 3),
        one_mean(
            "open ppsc",
            "[mechanism]\ncorrelated = \"uniform\"\nkind = \"ppsc\"",
            14,
        ),
        one_mean("open gaussian", "", 5),
    ]
}

/// Who has not the exact sum of all, and how it ended instead.
fn lacking(report: &Report) -> Vec<String> {
    let mut lacking: Vec<String> = report.violations.iter().map(|it| format!("{it:?}")).collect();
    let exact = report.sum_over(&(0..PARTIES).collect());
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let Some(outcome) = outcome else {
            lacking.push(format!("{party} never ended"));
            continue;
        };
        let whole = outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref();
        if !(whole && outcome.agreed && outcome.ending == Ending::Done) {
            lacking.push(format!("{party}: {:?}, {:?}", outcome.ending, outcome.included));
        }
    }
    lacking
}

/// When a phase began first in a run without faults, or ended.
fn phases(report: &Report) -> Vec<(&'static str, Time, Time)> {
    let began = |phase: Phase| {
        let reported = report.events.iter();
        let began = reported.filter_map(|(at, _, event)| (*event == Event::Phase(phase)).then_some(*at));
        began.min().expect("every phase")
    };
    let [mixing, settling, publishing, done] =
        [Phase::Mixing, Phase::Settling, Phase::Publishing, Phase::Done].map(began);
    let ready = |event: &Event| matches!(event, Event::Ready(ready) if *ready == PARTIES);
    let ready = report
        .events
        .iter()
        .filter(|(_, _, event)| ready(event))
        .map(|(at, ..)| *at)
        .max();
    let ready = ready.expect("all are ready").min(mixing);
    vec![
        ("after READY", ready, mixing),
        ("in mixing", mixing, settling),
        ("in settling", settling, publishing),
        ("in opening", publishing, done),
    ]
}

/// Each phase, edge and network in turn.
fn dark_edges(world: &World, seeds: std::ops::Range<u64>) -> Vec<String> {
    let mut failed = vec![];
    for seed in seeds {
        let healthy = (world.run)(&world.plan, Conditions::new(seed));
        for (phase, from, to) in phases(&healthy) {
            let mut rng = stream(seed, "dark", 0);
            let at = Time::from_nanos(rng.random_range(from.as_nanos()..=to.as_nanos()));
            let (a, b) = (seed as usize % PARTIES, (seed as usize + 2) % PARTIES);
            for network in [None, Some(Network::Public), Some(Network::Private)] {
                let faults = black_hole(network, (a, b), at, u64::MAX);
                let conditions = Conditions::new(seed).with_faults(faults);
                let lacking = lacking(&(world.run)(&world.plan, conditions));
                if !lacking.is_empty() {
                    let (name, edge) = (world.name, (a, b));
                    failed.push(format!(
                        "{name}, seed {seed}, {edge:?} {network:?} {phase}: {lacking:?}"
                    ));
                }
            }
        }
    }
    failed
}

#[test]
fn a_dark_edge_costs_nobody_its_mean() {
    let failed: Vec<String> = means().iter().flat_map(|world| dark_edges(world, 0..3)).collect();
    assert!(failed.is_empty(), "{} cases\n{}", failed.len(), failed.join("\n"));
}

/// A party's end of several sums: why it stopped, how many it had, and what they came
/// to, if that is the same for all.
fn several(outcome: &Outcome) -> (Option<&String>, u64, Option<&Vec<f64>>) {
    match (&outcome.training, outcome.gossip.as_deref()) {
        (Some(training), _) => {
            let (stopped, result) = (training.stopped.as_ref(), training.result.as_ref());
            (stopped, training.iterations, result)
        }
        (None, Some(gossip)) => (gossip.stopped.as_ref(), gossip.rounds.into(), None),
        (None, None) => panic!("{:?}", outcome.ending),
    }
}

/// Who has not all sums of a sequence, or others than the first party.
fn lacking_sums(plan: &Plan, report: &Report) -> Vec<String> {
    let mut lacking: Vec<String> = report.violations.iter().map(|it| format!("{it:?}")).collect();
    let outcomes: Vec<&Outcome> = report.outcomes.iter().flatten().collect();
    for (party, outcome) in outcomes.iter().enumerate() {
        let (stopped, sums, result) = several(outcome);
        let whole = sums == plan.draft().releases() && outcome.ending == Ending::Done;
        if !whole || stopped.is_some() || result != several(outcomes[0]).2 {
            lacking.push(format!("{party}: {:?} after {sums}, {stopped:?}", outcome.ending));
        }
    }
    if outcomes.len() < plan.parties() {
        lacking.push("somebody never ended".into());
    }
    lacking
}

/// Sequences of sums.
fn sequences() -> Vec<World> {
    let world = |name, plan: &Arc<Plan>, run| World {
        name,
        plan: plan.clone(),
        run,
    };
    let trainings = trainings::training_plans();
    let rounds = rounds::plans_of("");
    vec![
        world("training, pairwise", &trainings[0], trainings::train),
        world("training, inca", &trainings[1], trainings::train),
        world("rounds, pairwise", &rounds[0], rounds::honest),
        world("rounds, inca", &rounds[1], rounds::honest),
        world("stream", &streams::summed(""), streams::run),
        world("circles", &circles::circles(circles::GRAPHS[0], ""), circles::run),
    ]
}

/// An edge that goes dark at a random moment of a sequence. What is sealed for a circle travels
/// over the private edge alone: whoever lacks it is out, so these lose a public edge.
fn dark_edges_of_sequences(seeds: std::ops::Range<u64>) -> Vec<String> {
    let mut failed = vec![];
    for (world, seed) in seeds.flat_map(|seed| sequences().into_iter().map(move |world| (world, seed))) {
        let healthy = (world.run)(&world.plan, Conditions::new(seed));
        let started = healthy.outcomes.iter().flatten().filter_map(|it| it.started_at);
        let finished = healthy.finished_at.iter().flatten();
        let [from, to] = [started.min(), finished.max().copied()].map(|at| at.expect("it runs").as_nanos());
        let mut rng = stream(seed, "dark", 1);
        let parties = world.plan.parties();
        let (a, b) = (seed as usize % parties, (seed as usize + 3) % parties);
        for moment in [0, 1, 2] {
            let at = Time::from_nanos(rng.random_range(from..=to));
            let network = match world.plan.reads_circles() {
                true => Some(Network::Public),
                false => [None, Some(Network::Public), Some(Network::Private)][moment],
            };
            let faults = black_hole(network, (a, b), at, u64::MAX);
            let report = (world.run)(&world.plan, Conditions::new(seed).with_faults(faults));
            let lacking = lacking_sums(&world.plan, &report);
            if !lacking.is_empty() {
                let (name, at) = (world.name, at.as_millis());
                failed.push(format!(
                    "{name}, seed {seed}, {a}-{b} {network:?} at {at} ms: {lacking:?}"
                ));
            }
        }
    }
    failed
}

#[test]
fn a_dark_edge_costs_nobody_an_iteration() {
    let failed = dark_edges_of_sequences(0..3);
    assert!(failed.is_empty(), "{} cases\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn losses_cost_nobody_its_mean() {
    let mut failed = vec![];
    for (world, seed) in means().iter().zip(0..) {
        for share in [0.1, 0.25, 0.4] {
            let loss = Fault::Loss {
                from: None,
                to: seed as usize % PARTIES,
                share,
                at: Time::ZERO,
                for_ms: u64::MAX,
            };
            let lacking = lacking(&(world.run)(
                &world.plan,
                Conditions::new(seed).with_faults(vec![loss]),
            ));
            if !lacking.is_empty() {
                failed.push(format!("{}, {share} are lost: {lacking:?}", world.name));
            }
        }
    }
    assert!(failed.is_empty(), "{} cases\n{}", failed.len(), failed.join("\n"));
}

/// Returns the number and the bytes of frames that say that their author has ended, with all public
/// bytes of a run without faults. The last entry is the moment when the last party ended.
fn said_finished(world: &World, parties: usize) -> (usize, u64, u64, Time) {
    let said = std::cell::Cell::new((0, 0));
    let conditions = Conditions::new(1);
    let first = inputs(&world.plan);
    let mut simulation = Simulation::new(world.plan.clone(), first, &permissive_gate, conditions);
    simulation.wire = Some(Box::new(|sending| {
        let bytes = Bytes::from_owner(sending.frame.clone());
        let (_, frame) = wire::of_iteration(&bytes).expect("our own frame");
        let finished = matches!(
            wire::read_public(&frame),
            Ok(wire::PublicFrame::Notice(signed)) if signed.notice == Notice::Finished
        );
        if sending.network == Network::Public && finished {
            let (frames, all) = said.get();
            said.set((frames + 1, all + bytes.len() as u64));
        }
        lying::Sent::AsItIs
    }));
    let report = simulation.run();
    assert_eq!(report.violations, [], "{}", world.name);
    let public = report.bytes.iter().map(|(_, public)| public).sum::<u64>();
    let ended = report.finished_at.iter().flatten().max().expect("all end");
    let (frames, all) = said.get();
    (
        frames / parties,
        all / parties as u64,
        public / parties as u64,
        *ended,
    )
}

#[test]
fn saying_so_costs_each_neighbour_one_short_frame() {
    for parties in [6, 20] {
        let plan = plan(parties, SEALED, 3);
        let world = World {
            name: "sealed",
            plan,
            run: simulate,
        };
        let (frames, bytes, ..) = said_finished(&world, parties);
        assert_eq!(frames, parties - 1);
        assert!(bytes <= 72 * frames as u64, "{bytes}");
    }
}

/// `cargo test -p undertone-protocol --lib -- --ignored --nocapture what_saying_so_costs`
#[test]
#[ignore = "a figure, not a check"]
fn what_saying_so_costs_a_hundred_parties() {
    for (parties, graph) in [
        (6, ""),
        (20, ""),
        (100, ""),
        (100, "public = { kind = \"random-regular\", degree = 8 }"),
    ] {
        let plan = plan(parties, &format!("{SEALED}\n[topology]\n{graph}"), 3);
        let world = World {
            name: "sealed",
            plan,
            run: simulate,
        };
        let (frames, bytes, public, ended) = said_finished(&world, parties);
        println!(
            "{parties} parties {graph}: {public} bytes each in public, {frames} frames of {bytes} bytes in all \
             say that their author has ended; the last ends at {} us",
            ended.as_nanos() / 1000
        );
    }
}
