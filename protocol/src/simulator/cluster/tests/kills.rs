//! The cost of a killed party, loud or silent, at every moment.

use super::*;

/// When the last node finished, in nanoseconds.
fn slowest(report: &Report) -> u64 {
    let ends = report.finished_at.iter().flatten();
    ends.max().expect("somebody finished").as_nanos()
}

/// Kills one party at a random moment of its mixing in each of many runs. All others must end
/// degraded, agreed, with the exact sum of their x̃. Returns in how many runs they did, and by how
/// many ms the slowest run ended later than one without a kill.
pub(super) fn kills(plan: &Arc<Plan>, runs: u64, loud: bool) -> (u64, u64) {
    let (mut good, mut done, mut latest) = (0, 0, 0);
    let (start, end, finished) = milestones(plan);
    for seed in 0.. {
        if done == runs {
            break;
        }
        let mut rng = stream(seed, "kill", 0);
        let (party, at) = (
            rng.random_range(0..plan.parties()),
            Time::from_nanos(rng.random_range(start..end)),
        );
        let fault = if loud {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        };
        let report = Simulation::new(
            plan.clone(),
            inputs(plan),
            &class_gate,
            Conditions::new(seed).with_faults(vec![fault]),
        )
        .run();
        assert_eq!(report.violations, [], "seed {seed}");
        if report
            .events
            .iter()
            .any(|(_, who, event)| (*who, event) == (party, &Event::Phase(Phase::Settling)))
        {
            continue;
        }
        done += 1;
        let survivors = others(plan, &[party]);
        let exact = report.sum_over(&survivors);
        let as_it_should = |other: &Party| {
            report.outcomes[*other].as_ref().is_some_and(|outcome| {
                outcome.ending == Ending::Degraded
                    && outcome.agreed
                    && outcome.included == survivors
                    && outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref()
            })
        };
        if survivors.iter().all(as_it_should) {
            good += 1;
        } else {
            println!(
                "seed {seed}: party {party} killed at {} us, loud: {loud}",
                at.as_nanos() / 1000
            );
        }
        let slowest = slowest(&report);
        latest = latest.max(slowest.saturating_sub(finished) / 1_000_000);
    }
    (good, latest)
}

#[test]
fn a_loud_kill_in_mixing_costs_milliseconds_and_nothing_else() {
    let (good, latest) = kills(&plan(8, "", 7), 60, true);
    assert_eq!(good, 60);
    assert!(latest < 200, "{latest} ms later");
}

#[test]
fn a_kill_among_residues_costs_its_own_value_only() {
    for plan in [plan(8, UNIFORM, 3), plan(8, UNIFORM_PPSC, 14)] {
        assert_eq!(kills(&plan, 20, true).0, 20);
        assert_eq!(kills(&plan, 10, false).0, 10, "silently");
    }
}

#[test]
fn a_silent_kill_in_mixing_costs_the_deadlines_and_nothing_else() {
    let (good, latest) = kills(&plan(8, "", 7), 60, false);
    assert_eq!(good, 60);
    // Seven rounds of 2 s, three quarters of settling.
    assert!((16_000..18_000).contains(&latest), "{latest} ms later");
}

#[test]
fn a_loud_kill_after_mixing_costs_milliseconds_mostly() {
    let plan = plan(8, "", 7);
    let (_, settling, finished) = milestones(&plan);
    let mut quick = 0;
    for seed in 0..40 {
        let mut rng = stream(seed, "late kill", 0);
        let (party, at) = (
            rng.random_range(0..8),
            Time::from_nanos(rng.random_range(settling..finished)),
        );
        let report = simulate(
            &plan,
            Conditions::new(seed).with_faults(vec![Fault::Crash { party, at }]),
        );
        assert_eq!(report.violations, [], "seed {seed}");
        for other in others(&plan, &[party]) {
            let outcome = report.outcomes[other].as_ref().expect("no violation of liveness");
            assert!(outcome.agreed, "seed {seed}");
            assert!(
                outcome.included.is_superset(&others(&plan, &[party])),
                "seed {seed}"
            );
        }
        let slowest = slowest(&report);
        quick += u32::from(slowest < finished + 500_000_000);
    }
    // A body that only some got holds the vote up to three quarters of the stage.
    assert!(quick >= 38, "{quick} of 40");
}

#[test]
fn two_kills_leave_one_agreed_set_or_everybody_withholds() {
    let plan = plan(8, "", 7);
    let (start, end, finished) = milestones(&plan);
    let mut withheld = 0;
    for seed in 0..40 {
        let mut rng = stream(seed, "two kills", 0);
        let first = rng.random_range(0..8);
        let dead = [first, (first + rng.random_range(1..8)) % 8];
        let mut at = || Time::from_nanos(rng.random_range(start..end));
        let faults = vec![
            Fault::Crash {
                party: dead[0],
                at: at(),
            },
            Fault::Silence {
                party: dead[1],
                at: at(),
            },
        ];
        let faults = if seed % 2 == 0 {
            faults
        } else {
            dead.map(|party| Fault::Crash { party, at: at() }).to_vec()
        };
        let report = Simulation::new(
            plan.clone(),
            inputs(&plan),
            &class_gate,
            Conditions::new(seed).with_faults(faults),
        )
        .run();
        assert_eq!(report.violations, [], "seed {seed}");
        for other in others(&plan, &dead) {
            let outcome = report.outcomes[other].as_ref().expect("no violation of liveness");
            match &outcome.ending {
                Ending::Withheld { .. } => withheld += 1,
                Ending::Degraded => assert!(outcome.agreed, "seed {seed}"),
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        if seed % 2 == 1 {
            let slowest = report
                .finished_at
                .iter()
                .flatten()
                .max()
                .expect("somebody finished")
                .as_nanos();
            assert!(
                slowest < finished + 1_000_000_000,
                "seed {seed}: two loud kills are refused at once {dead:?}"
            );
        }
    }
    assert!(
        withheld > 150,
        "two departures are more than the class tolerates: {withheld}"
    );
}

#[test]
fn a_kill_in_multi_gossip_costs_its_own_value_only() {
    for plan in ppsc_plans() {
        let (good, latest) = kills(&plan, 20, true);
        assert_eq!(good, 20);
        assert!(latest < 200, "{latest} ms later");
        assert_eq!(kills(&plan, 10, false).0, 10, "silently");
    }
}

#[test]
fn static_runs_survive_kills_duplicates_and_absence() {
    let pairings = format!("{STATIC}\n[mechanism]\nkind = \"ppsc\"");
    for plan in [plan(8, STATIC, 5), plan(8, &pairings, 14)] {
        assert_eq!(kills(&plan, 6, true).0, 6);
        assert_eq!(kills(&plan, 4, false).0, 4);
        let absent = Conditions {
            absent: BTreeSet::from([3]),
            duplicates: 0.2,
            ..Conditions::new(5)
        };
        let report = simulate(&plan, absent);
        assert_eq!(report.violations, []);
        let rest = others(&plan, &[3]);
        for &party in &rest {
            let outcome = report.outcomes[party].as_ref().expect("finished");
            assert_eq!((&outcome.ending, &outcome.included), (&Ending::Degraded, &rest));
        }
    }
}
