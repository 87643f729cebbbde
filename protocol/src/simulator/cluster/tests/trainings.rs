//! Trainings: one model everywhere, whoever departs and whenever.

use super::*;
use crate::lattice::payload::Payload;
use crate::mixing::noisy::Noisy;
use crate::run::outcome::TrainingOutcome;

pub(super) const PARTIES: usize = 8;
const ROWS: u64 = 20;
const FEATURES: usize = 3;
pub(super) const ITERATIONS: u64 = 6;

/// A training by masks of pairs, and one by precomputed noise.
pub(super) fn training_plans() -> [Arc<Plan>; 2] {
    ["pairwise", "inca"].map(training_plan)
}

pub(super) fn training_plan(kind: &str) -> Arc<Plan> {
    let text = format!(
        "task = \"regression\"\nname = \"training\"\n[data]\nshape = [{FEATURES}]\n[model]\nloss = \"logistic\"\n\
         iterations = {ITERATIONS}\n[run]\niteration_ms = 4000\n[mechanism]\nkind = \"{kind}\""
    );
    let raw = RawRunFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    plan_from(raw, PARTIES, Some(ROWS), 4)
}

/// The sum of a party's clipped gradients at a model, rounded row by row.
fn contribution(plan: &Plan, party: Party, model: &[f64]) -> LatticeVector {
    let settings = plan.draft().computation.model().expect("a training");
    let mut rng = stream(5, "rows", party);
    let mut sum = plan.lattice().zeros(settings.parameters());
    for _ in 0..ROWS {
        let features: Vec<f64> = (0..FEATURES).map(|_| rng.random_range(-0.5..0.5)).collect();
        let target = f64::from(features[0] > features[1]);
        let mut gradient = vec![0.0; model.len()];
        let row = (&features[..], target);
        settings
            .loss()
            .clipped_gradient(model, row, settings.clip, &mut gradient);
        sum.add(&plan.lattice().encode(gradient.into_iter()));
    }
    sum
}

/// Lets no fewer publish than the plan says, as the real gate does.
fn gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let enough = logs.len() >= plan.draft().run.min_parties;
    GateVerdict {
        publish: permissive_gate(plan, logs).publish.filter(|_| enough),
        reason: "too few are left".into(),
    }
}

pub(super) fn train(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    train_by(plan, &gate, conditions)
}

pub(super) fn train_by(plan: &Arc<Plan>, gate: &Gate<'_>, conditions: Conditions) -> Report {
    simulation(plan, gate, conditions).run()
}

pub(super) fn simulation<'a>(
    plan: &'a Arc<Plan>,
    gate: &'a Gate<'a>,
    conditions: Conditions,
) -> Simulation<'a> {
    let start = vec![0.0; plan.draft().dimension()];
    let first = (0..PARTIES)
        .map(|party| contribution(plan, party, &start))
        .collect();
    let simulation = Simulation::new(plan.clone(), first, gate, conditions);
    simulation.contributing(|party, _, model| contribution(plan, party, model))
}

pub(super) fn ended(report: &Report) -> Vec<(Party, &Outcome, &TrainingOutcome)> {
    let outcomes = report.outcomes.iter().enumerate();
    let ended = outcomes.filter_map(|(party, outcome)| {
        let outcome = outcome.as_ref()?;
        Some((party, outcome, outcome.training.as_ref()?))
    });
    ended.collect()
}

#[test]
fn everybody_comes_to_one_model() {
    training_plans().iter().for_each(one_model_of);
}

fn one_model_of(plan: &Arc<Plan>) {
    for seed in 0..5 {
        let report = train(plan, Conditions::new(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        let ended = ended(&report);
        assert_eq!(ended.len(), PARTIES);
        for (_, outcome, training) in &ended {
            assert_eq!(outcome.ending, Ending::Done);
            assert_eq!((training.iterations, training.spent), (ITERATIONS, ITERATIONS));
            assert!(training.corrected.is_empty() && training.departed.is_empty());
            assert!(training.rejected.is_empty(), "{:?}", training.rejected);
            assert_eq!(training.result, ended[0].2.result);
            assert!(
                training
                    .result
                    .as_ref()
                    .is_some_and(|model| model.iter().any(|theta| *theta != 0.0))
            );
        }
    }
}

/// When each iteration was opened first, in a training without faults.
fn span(plan: &Arc<Plan>, seed: u64) -> (Time, Time) {
    let report = train(plan, Conditions::new(seed));
    let started = report
        .outcomes
        .iter()
        .flatten()
        .filter_map(|outcome| outcome.started_at);
    let finished = report.finished_at.iter().flatten().copied();
    (
        started.min().expect("it starts"),
        finished.min().expect("it ends"),
    )
}

#[test]
fn a_kill_in_the_middle_leaves_one_model_of_the_others() {
    let plans = training_plans();
    let mut departures = BTreeSet::new();
    for seed in 0..28 {
        // Loud and silent with each.
        let plan = &plans[seed as usize / 2 % 2];
        let (started, finished) = span(plan, seed);
        let mut rng = stream(seed, "kill", 0);
        let at = Time::from_nanos(rng.random_range(started.as_nanos()..finished.as_nanos()));
        let party = rng.random_range(0..PARTIES);
        let fault = match seed % 2 {
            0 => Fault::Crash { party, at },
            _ => Fault::Silence { party, at },
        };
        let report = train(plan, Conditions::new(seed).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors: Vec<_> = ended(&report)
            .into_iter()
            .filter(|(who, ..)| *who != party)
            .collect();
        assert_eq!(survivors.len(), PARTIES - 1, "seed {seed}");
        for (who, outcome, training) in &survivors {
            assert_eq!(
                training.iterations, ITERATIONS,
                "seed {seed}, {who}: {:?}",
                training.stopped
            );
            assert_eq!(training.result, survivors[0].2.result);
            // Noise that did not cancel would be out of range, and its sum rejected by all.
            assert!(training.rejected.is_empty(), "{:?}", training.rejected);
            assert_eq!(training.departed, survivors[0].2.departed);
            assert!(training.departed.keys().all(|unreachable| *unreachable == party));
            assert_eq!(outcome.ending == Ending::Done, training.departed.is_empty());
        }
        departures.extend(survivors[0].2.departed.values().copied());
    }
    assert!(departures.len() >= 4, "at many moments: {departures:?}");
}

/// A node that is cut off in the middle keeps the model that it had, which the others leave behind:
/// it does not call that one agreed.
#[test]
fn who_falls_out_of_a_training_calls_no_model_agreed() {
    let mut prefixes = 0;
    for (seed, plan) in training_plans().iter().enumerate() {
        let (started, finished) = span(plan, seed as u64);
        for part in [3, 5, 7] {
            let fault = Fault::Partition {
                group: BTreeSet::from([3]),
                at: Time::from_nanos(started.as_nanos() + finished.since(started) / 10 * part),
                for_ms: 1_000_000,
            };
            let report = train(plan, Conditions::new(seed as u64).with_faults(vec![fault]));
            assert_eq!(report.violations, []);
            for (who, outcome, training) in ended(&report) {
                let whole = training.iterations == ITERATIONS;
                assert_eq!(outcome.agreed, whole, "{who} after {}", training.iterations);
                assert_eq!(training.stopped.is_none(), whole);
                prefixes += usize::from(!whole && training.result.is_some());
            }
        }
    }
    assert!(prefixes > 0, "nobody fell out and kept a model");
}

#[test]
fn more_departures_than_planned_end_it_with_the_model_so_far() {
    training_plans().iter().for_each(more_departures_than_planned_in);
}

fn more_departures_than_planned_in(plan: &Arc<Plan>) {
    let mut stopped = 0;
    for seed in 0..12 {
        let (started, finished) = span(plan, seed);
        let mut rng = stream(seed, "kills", 0);
        // Before the last iteration: after it nobody needs anybody.
        let late = started.as_nanos() + finished.since(started) / 5 * 4;
        let mut moment = || Time::from_nanos(rng.random_range(started.as_nanos()..late));
        let faults = vec![
            Fault::Crash {
                party: 2,
                at: moment(),
            },
            Fault::Crash {
                party: 5,
                at: moment(),
            },
        ];
        let report = train(plan, Conditions::new(seed).with_faults(faults));
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors: Vec<_> = ended(&report)
            .into_iter()
            .filter(|(who, ..)| ![2, 5].contains(who))
            .collect();
        assert_eq!(survivors.len(), PARTIES - 2);
        for (who, outcome, training) in &survivors {
            let whole = training.iterations == ITERATIONS;
            assert_eq!(whole, training.stopped.is_none(), "seed {seed}, {who}");
            assert_ne!(outcome.ending, Ending::Done, "seed {seed}, {who}");
            assert_eq!(training.result.is_some(), training.iterations > 0);
            stopped += usize::from(!whole);
        }
    }
    assert!(stopped >= 6 * 6, "most end before their time: {stopped}");
}

/// Frames of iterations that there are not, and of none, change nothing and are no error.
#[test]
fn frames_of_any_iteration_do_no_harm() {
    training_plans().iter().for_each(frames_of_any_iteration_of);
}

fn frames_of_any_iteration_of(plan: &Arc<Plan>) {
    let value = contribution(plan, 0, &vec![0.0; plan.draft().dimension()]);
    let noise = noise_of(plan, 1, 0, &mut value.clone());
    let mut task = Task::new(
        plan.clone(),
        identity_of(1, 0),
        Noisy::with_noise_in(value),
        Box::new(noise),
        Time::ZERO,
    );
    let inner = [wire::VERSION, 1, 0, 0, 0];
    let mut frames: Vec<Vec<u8>> = [0, 1, 2, 3, u32::MAX]
        .map(|iteration| wire::iteration_frame(iteration, &inner).to_vec())
        .into();
    frames.extend([
        vec![],
        vec![wire::VERSION],
        vec![wire::VERSION, 10, 1],
        vec![wire::VERSION, 99],
    ]);
    for (at, frame) in (1..).zip(frames.iter().cycle().take(200_000)) {
        let frame = Bytes::copy_from_slice(frame);
        let input = Input::Public { from: 1, frame };
        task.handle(Time::from_nanos(at), input)
            .expect("peers make no errors");
        while !matches!(task.poll_output(), Output::Wait { .. }) {}
    }
    assert_eq!(task.run_number(), 1);
    let early = Input::Contribution {
        iteration: 2,
        value: Noisy::with_noise_in(contribution(
            task.plan(),
            0,
            &vec![0.0; task.plan().draft().dimension()],
        )),
    };
    task.handle(Time::from_nanos(1 << 40), early)
        .expect_err("nobody asked for it");
}

/// The contents of rows show in no frame's length, in no moment and in no set. Two data sets that
/// differ in one row, of which one makes no finite gradient, look alike.
#[test]
fn one_row_changes_nothing_that_can_be_seen_but_sums() {
    training_plans().iter().for_each(one_row_more_in);
}

fn one_row_more_in(plan: &Arc<Plan>) {
    let seen = |corrupted: bool| {
        let contribution = |party: Party, model: &[f64]| {
            let mut value = contribution(plan, party, model);
            if party == 3 && !corrupted {
                let one = vec![0.3; model.len()];
                value.add(&plan.lattice().encode(one.into_iter()));
            }
            value
        };
        let start = vec![0.0; plan.draft().dimension()];
        let first = (0..PARTIES).map(|party| contribution(party, &start)).collect();
        let fault = Fault::Crash {
            party: 6,
            at: Time::from_millis(30),
        };
        let conditions = Conditions::new(11).with_faults(vec![fault]);
        let simulation = Simulation::new(plan.clone(), first, &gate, conditions);
        let report = simulation
            .contributing(|party, _, model| contribution(party, model))
            .run();
        assert_eq!(report.violations, []);
        let ended = ended(&report);
        let sets: Vec<_> = ended
            .iter()
            .map(|(who, _, it)| (*who, it.departed.clone(), it.iterations))
            .collect();
        let models: Vec<_> = ended.iter().map(|(.., it)| it.result.clone()).collect();
        ((report.bytes, report.finished_at, sets), models)
    };
    let (with, without) = (seen(false), seen(true));
    assert_eq!(with.0, without.0);
    assert_ne!(with.1, without.1, "the rows do differ");
}
