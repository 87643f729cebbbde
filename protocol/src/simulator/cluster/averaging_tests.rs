//! Publishing by averaging, under the same faults and invariants as the flood.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::messages::stage::Phase;
use crate::publishing::result::Accuracy;
use crate::run::outcome::Ending;
use crate::simulator::cluster::tests::{inputs, plan};
use crate::simulator::invariants::trace;
use crate::simulator::scenario::random_faults;
use crate::simulator::stream::stream;

const RING: &str = "[topology]\npublic = \"ring\"\n[run]\ndissemination = \"consensus\"";
const COMPLETE: &str = "[run]\ndissemination = \"consensus\"";
const REGULAR: &str =
    "[topology]\npublic = { kind = \"random-regular\", degree = 4 }\n[run]\ndissemination = \"consensus\"";

/// Stages of some hundred messages' ways. Whoever falls silent leaves the others to signed rounds
/// until the stage ends: those of the default 4 s are seven times as many, and tell nothing more.
const SHORT: &str = "round_ms = 300\nsettle_ms = 600";

fn simulate(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    Simulation::new(plan.clone(), inputs(plan), &permissive_gate, conditions).run()
}

fn everybody(plan: &Plan) -> BTreeSet<Party> {
    (0..plan.parties()).collect()
}

/// Each average's largest difference from the exact sum, in steps, with what its node says of it.
fn distances(report: &Report, included: &BTreeSet<Party>) -> Vec<(f64, Accuracy)> {
    let exact = report.sum_over(included).expect("somebody");
    let distance = |outcome: &Outcome| {
        let (sum, accuracy) = outcome.sum.as_ref().zip(outcome.accuracy)?;
        let distance = crate::simulator::invariants::mass::largest_difference(&sum.value, &exact);
        Some((distance, accuracy))
    };
    report.outcomes.iter().flatten().filter_map(distance).collect()
}

fn all_done(plan: &Arc<Plan>, report: &Report) {
    assert_eq!(report.violations, []);
    for outcome in &report.outcomes {
        let outcome = outcome.as_ref().expect("finished");
        assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Done, false));
        assert_eq!(outcome.included, everybody(plan));
    }
    let nu = plan.draft().run.accuracy;
    assert_eq!(distances(report, &everybody(plan)).len(), plan.parties());
    for (distance, accuracy) in distances(report, &everybody(plan)) {
        assert!(
            distance <= accuracy.steps && accuracy.standard_errors <= nu / 2.0 && accuracy.apart <= nu,
            "{accuracy:?}"
        );
        // The same in the result's own unit: predicted standard error 1, weights 1.
        let result = distance * plan.lattice().step() / plan.parties() as f64;
        assert!(
            result <= accuracy.standard_errors * 1.000001,
            "{result} {accuracy:?}"
        );
    }
}

#[test]
fn without_faults_all_end_within_nu_of_the_exact_mean() {
    for (parties, lines) in [(8, COMPLETE), (10, RING), (12, REGULAR), (5, RING)] {
        let plan = plan(parties, lines, 6);
        for seed in 0..3 {
            let report = simulate(&plan, Conditions::new(seed));
            all_done(&plan, &report);
            assert!(
                report
                    .events
                    .iter()
                    .all(|(_, _, event)| !matches!(event, Event::Fault(_) | Event::Offence { .. }))
            );
            assert_eq!(
                report
                    .events
                    .iter()
                    .filter(|(_, _, event)| *event == Event::Complete)
                    .count(),
                parties
            );
        }
    }
}

#[test]
fn messages_that_come_twice_do_no_harm() {
    let plan = plan(10, RING, 5);
    let report = simulate(
        &plan,
        Conditions {
            duplicates: 0.3,
            ..Conditions::new(4)
        },
    );
    all_done(&plan, &report);
}

/// When the first node begins to publish, and when the last finishes, in a run without faults.
fn publishing(plan: &Arc<Plan>, latency_us: (u64, u64)) -> (u64, u64) {
    let report = simulate(
        plan,
        Conditions {
            latency_us,
            ..Conditions::new(0)
        },
    );
    let times = |phase| {
        let at = report
            .events
            .iter()
            .filter(move |(_, _, event)| *event == Event::Phase(phase));
        at.map(|(at, _, _)| at.as_nanos()).collect::<Vec<_>>()
    };
    let first = times(Phase::Publishing).into_iter().min().expect("publishes");
    (first, times(Phase::Done).into_iter().max().expect("ends"))
}

/// One party vanishes at a random moment of publishing. Returns how many of the others' results
/// were agreed, were of all but the vanished, and were neither.
fn vanish(lines: &str, parties: usize, runs: u64, loud: bool) -> (u32, u32, u32) {
    let plan = plan(parties, &format!("{lines}\n{SHORT}"), 5);
    let (begin, end) = publishing(&plan, (100, 1000));
    let mut counts = (0, 0, 0);
    for seed in 0..runs {
        let mut rng = stream(seed, "vanish", 0);
        let (party, at) = (
            rng.random_range(0..parties),
            Time::from_nanos(rng.random_range(begin..end)),
        );
        let fault = if loud {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        };
        let report = simulate(&plan, Conditions::new(seed).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "seed {seed}");
        let mut without = everybody(&plan);
        without.remove(&party);
        for (other, outcome) in report
            .outcomes
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != party)
        {
            let outcome = outcome
                .as_ref()
                .unwrap_or_else(|| panic!("seed {seed}: party {other} never ended"));
            match &outcome.included {
                included if outcome.sum.is_some() && (outcome.agreed || outcome.accuracy.is_some()) => {
                    assert!(
                        *included == everybody(&plan) || *included == without,
                        "seed {seed}"
                    );
                    counts.0 += 1;
                }
                included if *included == without && outcome.sum.is_some() => counts.1 += 1,
                included => {
                    let faults = report
                        .events
                        .iter()
                        .filter(|(_, who, event)| *who == other && matches!(event, Event::Fault(_)));
                    println!(
                        "seed {seed}: party {other}, {party} vanished at {at:?} of {begin}..{end}: {included:?} {:?} {}",
                        outcome.ending,
                        outcome.sum.is_some()
                    );
                    faults.for_each(|fault| println!("  {fault:?}"));
                    counts.2 += 1;
                }
            }
        }
    }
    counts
}

#[test]
fn a_party_that_vanishes_while_publishing_costs_nobody_the_result() {
    for loud in [true, false] {
        for (lines, parties) in [(COMPLETE, 8), (RING, 8), (REGULAR, 10)] {
            let (agreed, without, neither) = vanish(lines, parties, 4, loud);
            assert_eq!(
                neither, 0,
                "loud {loud}, {lines}: {agreed} agreed, {without} without it"
            );
            assert!(
                agreed > 9 * without,
                "loud {loud}, {lines}: {agreed} agreed, {without} without it"
            );
        }
    }
}

/// Who misses a message has the finals flooded: all end with the very same exact sum, which is
/// agreed on, and not with averages.
#[test]
fn after_a_kill_in_the_rounds_all_hold_the_exact_sum() {
    let plan = plan(8, &format!("{RING}\n{SHORT}"), 5);
    let report = simulate(&plan, Conditions::new(3));
    let opens = |(at, who, event): &(Time, Party, Event)| {
        (*who == 2 && *event == Event::Phase(Phase::Publishing)).then_some(*at)
    };
    let opened = report.events.iter().find_map(opens).expect("it publishes");
    let ended = report.finished_at[2].expect("it ends");
    let mut flooded = 0;
    for part in 1..8 {
        let at = opened.as_nanos() + (ended.as_nanos() - opened.as_nanos()) * part / 8;
        let (party, at) = (2, Time::from_nanos(at));
        let conditions = Conditions::new(3).with_faults(vec![Fault::Crash { party, at }]);
        let report = simulate(&plan, conditions);
        assert_eq!(report.violations, [], "{part}");
        let outcomes: Vec<&Outcome> = report.outcomes.iter().flatten().collect();
        assert_eq!(outcomes.len(), 7, "{part}");
        let all_agreed = outcomes.iter().all(|outcome| outcome.agreed);
        let all_averaged = outcomes.iter().all(|outcome| outcome.accuracy.is_some());
        assert!(all_agreed || all_averaged, "{part}");
        if all_agreed {
            flooded += 1;
            let first = outcomes[0];
            let exact = report.sum_over(&first.included).expect("somebody");
            for outcome in outcomes {
                assert_eq!(outcome.included, first.included, "{part}");
                let sum = outcome.sum.as_ref().map(|sum| &sum.value);
                assert!(outcome.accuracy.is_none() && sum == first.sum.as_ref().map(|sum| &sum.value));
                // Roll-back gives the sum of who is in it, where nobody but it is missing.
                assert!(sum.is_some_and(|sum| *sum == exact) || outcome.included.len() < 8);
            }
        }
    }
    assert!(flooded > 0, "the kill always came too early or too late");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let plan = plan(5, &format!("{RING}\n{SHORT}"), 5);
    let (begin, _) = publishing(&plan, (100, 1000));
    let run = |seed| {
        let fault = Fault::Silence {
            party: 3,
            at: Time::from_nanos(begin + 2_000_000),
        };
        simulate(
            &plan,
            Conditions {
                duplicates: 0.2,
                ..Conditions::new(seed).with_faults(vec![fault])
            },
        )
    };
    let trace = run(5).trace;
    assert_eq!(trace::check(&trace, &run(5).trace), Ok(()));
    assert!(trace::check(&trace, &run(6).trace).is_err());
}

fn soak(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let (parties, lines) = [(8, COMPLETE), (8, RING), (9, REGULAR)][seed as usize % 3];
        let plan = plan(parties, &format!("{lines}\n{SHORT}\njoin_ms = 3000"), 5);
        let latency_us = [(100, 1000), (100, 20_000)][seed as usize / 3 % 2];
        let (begin, end) = publishing(&plan, latency_us);
        // Most while publishing, some at any time.
        let from = if seed % 7 == 0 { 0 } else { begin };
        let mut faults = random_faults(
            seed,
            &plan,
            1 + seed as usize % 3,
            (end - from).div_ceil(1_000_000),
        );
        faults.iter_mut().for_each(|fault| {
            let at = fault.at() + from;
            *fault = fault.clone().moved_to(at);
        });
        let conditions = Conditions {
            duplicates: 0.05,
            latency_us,
            ..Conditions::new(seed).with_faults(faults.clone())
        };
        let report = simulate(&plan, conditions);
        assert_eq!(report.violations, [], "seed {seed}: {faults:?}");
        for outcome in report.outcomes.iter().flatten() {
            let name = match &outcome.ending {
                Ending::Done => "done",
                Ending::Degraded if outcome.agreed => "agreed",
                Ending::Degraded => "degraded",
                Ending::Withheld { .. } => "withheld",
                _ => "aborted",
            };
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn invariants_hold_in_any_mix_of_faults() {
    let counts = soak(0..36);
    println!("{counts:?}");
    // It is a test only if runs end in every way.
    assert!(
        ["done", "agreed", "degraded", "aborted"]
            .iter()
            .all(|name| counts.contains_key(name)),
        "{counts:?}"
    );
}

#[test]
#[ignore = "minutes: cargo test --release -- --ignored averaging"]
fn invariants_hold_in_a_long_soak() {
    soak(1000..6000);
}
