//! Nodes that do not run for a while: all of them, or one alone.

use super::*;
use crate::messages::notice::Notice;
use crate::messages::wire::{self, PublicFrame};
use crate::simulator::cluster::lying::Sent;

const PARTIES: usize = 6;

/// The phases of a run of one result in which a node may fall asleep.
const PHASES: [Phase; 3] = [Phase::Mixing, Phase::Settling, Phase::Publishing];

/// When the first node of a run without faults comes to a phase.
fn begins(plan: &Arc<Plan>, seed: u64, wanted: Phase) -> Time {
    let report = simulate(plan, Conditions::new(seed));
    let events = report.events.iter();
    let phases = events.filter(|(_, _, event)| *event == Event::Phase(wanted));
    let begins = phases.map(|(at, ..)| *at).min();
    begins.expect("everybody comes to each phase")
}

fn plans() -> [Arc<Plan>; 4] {
    [
        plan(PARTIES, SEALED, 3),
        plan(PARTIES, SEALED_PPSC, 14),
        plan(PARTIES, PAIRWISE, 3),
        plan(PARTIES, "[run]\nsealed = false", 3),
    ]
}

#[test]
fn all_who_sleep_past_every_deadline_and_wake_together_have_the_mean() {
    for plan in plans() {
        for (seed, phase) in (0..12).zip(PHASES.into_iter().cycle()) {
            let mut rng = stream(seed, "sleep", 0);
            let at = begins(&plan, seed, phase);
            let at = Time::from_nanos(at.as_nanos() + rng.random_range(0..500_000));
            let faults = (0..PARTIES).map(|party| {
                let for_ms = 300_000 + rng.random_range(0..500);
                Fault::Suspend { party, at, for_ms }
            });
            let conditions = Conditions::new(seed).with_faults(faults.collect());
            let report = simulate(&plan, conditions);
            assert_eq!(report.violations, [], "seed {seed}");
            for party in 0..PARTIES {
                let outcome = outcome(&report, party);
                assert!(outcome.sum.is_some(), "{seed}, {phase:?}: party {party}");
                assert_eq!(outcome.included.len(), PARTIES, "{seed}, {phase:?}");
            }
        }
    }
}

#[test]
fn one_that_sleeps_while_others_settle_seals_nothing() {
    for (number, plan) in plans().into_iter().take(2).enumerate() {
        for seed in 0..8 {
            let (party, at) = (seed as usize % PARTIES, begins(&plan, seed, Phase::Mixing));
            let for_ms = 120_000 + 1000 * seed;
            let sleep = Fault::Suspend { party, at, for_ms };
            let woken = at.plus_millis(for_ms);
            let conditions = Conditions::new(seed).with_faults(vec![sleep]);
            let mut simulation = Simulation::new(plan.clone(), inputs(&plan), &class_gate, conditions);
            let sealed = std::cell::Cell::new(false);
            simulation.wire = Some(Box::new(|sending| {
                let is_own = matches!(wire::read_public(sending.frame),
                    Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. })
                        if signed.author == party && matches!(signed.notice, Notice::Item { .. }));
                sealed.set(sealed.get() || is_own);
                Sent::AsItIs
            }));
            let report = simulation.run();
            assert_eq!(report.violations, [], "{number}, seed {seed}");
            let late = outcome(&report, party);
            assert_eq!(late.sealed, None, "{number}, {seed}: {late:?}");
            assert!(!sealed.get(), "{number}, {seed}: its log or final left");
            let ended = report.finished_at[party].expect("it ends");
            if ended >= woken.plus_millis(10_000) {
                for (at, who, event) in &report.events {
                    if *who == party {
                        eprintln!("{:>9} {who} {event:?}", at.as_millis());
                    }
                }
            }
            assert!(ended < woken.plus_millis(10_000), "{number}, {seed}: {ended:?}");
            assert!(matches!(
                late.ending,
                Ending::Withheld { .. } | Ending::Aborted { .. }
            ));
            assert!(opened(&report, &others(&plan, &[party])).is_some(), "{seed}");
        }
    }
}

/// A party whose clock alone is wrong goes by the others' again.
#[test]
fn one_whose_clock_jumps_past_every_deadline_is_in_the_mean() {
    for plan in plans() {
        for (seed, phase) in (0..12).zip(PHASES.into_iter().cycle()) {
            let party = seed as usize % PARTIES;
            let jump = Fault::ClockJump {
                party,
                at: begins(&plan, seed, phase),
                by_ms: 3_600_000,
            };
            let report = simulate(&plan, Conditions::new(seed).with_faults(vec![jump]));
            assert_eq!(report.violations, [], "seed {seed}");
            for party in 0..PARTIES {
                let outcome = outcome(&report, party);
                assert!(
                    outcome.sum.is_some(),
                    "{seed}, {phase:?}: party {party}: {outcome:?}"
                );
            }
        }
    }
}
