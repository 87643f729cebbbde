//! The noise that really comes out of runs is the planned and accounted one. Seeds are fixed. Each
//! check compares a sum of N squares of independent normal variates with its expectation and fails
//! beyond 5 of its standard deviations √(2N): were the noise right, another seed would fail with a
//! chance below 6e-7.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone::party::driver::Finish;
use undertone::party::receipt::Account;
use undertone_accountant::calibration::utility::realised;
use undertone_accountant::gate::decision::gate;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::messages::wire::{self, PrivateFrame};
use undertone_protocol::mixing::exchange::{Action, ExchangeStart, ShareExchange};
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::parameters::MixingParameters;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, Event, Outcome};
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::{inputs, kills, others, plan, simulate};

/// Squares of what should be standard normal variates.
#[derive(Default)]
struct Squares {
    sum: f64,
    count: f64,
}

impl Squares {
    fn add(&mut self, deviations: impl IntoIterator<Item = f64>) {
        for deviation in deviations {
            self.sum += deviation * deviation;
            self.count += 1.0;
        }
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let (ratio, allowed) = (self.sum / self.count, 5.0 * (2.0 / self.count).sqrt());
        println!(
            "{what}: variance {ratio:.4} times the accounted one, within ± {allowed:.4} of 1; {} squares",
            self.count
        );
        assert!((ratio - 1.0).abs() <= allowed, "{what}: {ratio}, ± {allowed}");
    }
}

/// The mean that a node would write, the error that is accounted for it, and Σ bᵢxᵢ.
fn result(plan: &Plan, outcome: &Outcome) -> (Vec<f64>, f64, Vec<f64>) {
    let sum = outcome.sum.as_ref().expect("a result");
    let publishers = outcome
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.publish.clone())
        .expect("it passed the gate");
    let logs = outcome.logs.as_ref().expect("agreed logs");
    let realised = realised(plan, logs, &publishers, &outcome.included).expect("logs that fit the plan");
    let mean = sum
        .value
        .to_f64(plan.lattice().step() / plan.lattice().weight_to_f64(sum.weight.0));
    let inputs = inputs(plan);
    let truth = (0..mean.len())
        .map(|i| realised.weights.iter().zip(&inputs).map(|(b, x)| b * x[i]).sum())
        .collect();
    (mean, realised.standard_error, truth)
}

fn add_error(plan: &Plan, report: &Report, party: Party, squares: &mut Squares) {
    let (mean, error, truth) = result(plan, report.outcomes[party].as_ref().expect("finished"));
    squares.add(
        mean.iter()
            .zip(&truth)
            .map(|(found, true_mean)| (found - true_mean) / error),
    );
}

const LINES: &str =
    "[mechanism]\ncorrelated = \"gaussian\"\nrounds = 5\n[run]\nround_ms = 200\nsettle_ms = 1600";

fn eight() -> Arc<Plan> {
    plan(8, 400, LINES)
}

#[test]
fn independent_noise_has_its_planned_scale_for_every_party() {
    let plan = eight();
    let sigma = plan.calibration().independent_std;
    let inputs = inputs(&plan);
    let mut each: Vec<Squares> = (0..8).map(|_| Squares::default()).collect();
    for seed in 0..10 {
        let report = simulate(&plan, Conditions::new(seed));
        for (party, noised) in report.noised.iter().enumerate() {
            let values = noised.to_f64(plan.lattice().step());
            each[party].add(
                values
                    .iter()
                    .zip(&inputs[party])
                    .map(|(found, own)| (found - own) / sigma),
            );
        }
    }
    each.iter()
        .enumerate()
        .for_each(|(party, squares)| squares.check(&format!("party {party}")));
}

/// The first share that a machine hands out, times k + 1: c₀x̃ + Z₀η, of which x̃ is known here.
#[test]
fn correlated_noise_leaves_the_machine_with_its_planned_scale() {
    const DIMENSION: usize = 20_000;
    for (injection, terms) in [("incremental", 1.0), ("early", 4.0)] {
        let plan = plan(
            4,
            DIMENSION,
            &format!("[mechanism]\nrounds = 4\ninjection = \"{injection}\""),
        );
        let (lattice, calibration) = (plan.lattice(), plan.calibration());
        for (me, own) in inputs(&plan).into_iter().enumerate() {
            let rng = ChaCha8Rng::seed_from_u64(me as u64);
            let mut noise = LatticeNoise::new(rng, *lattice, DIMENSION, calibration.correlated_std);
            let (contribution, _) = Clipped::of(&plan, me, own);
            let noised = noise.noisy(calibration.independent_std, contribution);
            let known = noised.vector().to_f64(lattice.step());
            let start = ExchangeStart {
                start: Time::ZERO,
                now: Time::ZERO,
                absent: BTreeSet::new(),
                connected: others(&plan, &[me]),
            };
            let weight = LatticeWeight(lattice.weight(plan.draft().weight_units(me)));
            let parameters = MixingParameters::of(&plan, me);
            let mixing = parameters.begin(noised, weight, Box::new(noise));
            let mut exchange = ShareExchange::new(parameters, mixing, start);
            let share = |action: Action| {
                if let Action::Share { frame, .. } = action {
                    Some(frame)
                } else {
                    None
                }
            };
            let frame = exchange
                .take_actions()
                .into_iter()
                .find_map(share)
                .expect("a share of round 1");
            let Ok(PrivateFrame::Share { values, .. }) = wire::read_private(&frame) else {
                panic!("it is a share")
            };
            let share = lattice
                .share(frame[values].to_vec().into(), DIMENSION, 1)
                .expect("on its grid")
                .unpack();
            let c = if injection == "early" { 1.0 } else { 1.0 / 5.0 };
            let scale = calibration.correlated_std * f64::sqrt(terms);
            let mut squares = Squares::default();
            squares.add(
                share
                    .to_f64(2.0 * lattice.step())
                    .iter()
                    .zip(&known)
                    .map(|(sent, x)| (sent - c * x) / scale),
            );
            squares.check(&format!("party {me}, {injection}"));
        }
    }
}

#[test]
fn two_runs_on_the_same_inputs_differ_by_root_two_standard_errors() {
    let plan = eight();
    let mut squares = Squares::default();
    for seed in 0..10 {
        let [one, two] = [2 * seed, 2 * seed + 1].map(|seed| simulate(&plan, Conditions::new(seed)));
        let [one, two] =
            [one, two].map(|report| result(&plan, report.outcomes[3].as_ref().expect("finished")));
        assert_eq!(one.1, two.1, "one error is accounted for both");
        squares.add(
            one.0
                .iter()
                .zip(&two.0)
                .map(|(a, b)| (a - b) / (2f64.sqrt() * one.1)),
        );
    }
    squares.check("the difference of two runs");
}

#[test]
fn without_faults_the_result_has_the_accounted_variance() {
    for lines in [
        LINES.to_string(),
        LINES.replace("rounds", "fanout = 2\nrounds"),
        LINES.replace("rounds", "injection = \"early\"\nrounds"),
    ] {
        let plan = plan(8, 400, &lines);
        let mut squares = Squares::default();
        for seed in 0..10 {
            let report = simulate(&plan, Conditions::new(seed));
            let predicted = plan.calibration().predicted.standard_error;
            let (_, error, _) = result(&plan, report.outcomes[0].as_ref().expect("finished"));
            assert!((error / predicted - 1.0).abs() < 1e-9, "the quote's number");
            add_error(&plan, &report, 0, &mut squares);
        }
        squares.check("no fault");
    }
}

#[test]
fn after_a_departure_the_result_has_the_accounted_variance() {
    let plan = eight();
    let mut squares = Squares::default();
    for seed in 0..12 {
        let (faults, dead) = kills(&plan, seed, &[seed % 2 == 0]);
        let report = simulate(&plan, Conditions::new(seed).with_faults(faults));
        let survivor = (0..8).find(|party| !dead.contains(party)).expect("somebody");
        assert_eq!(
            report.outcomes[survivor].as_ref().map(|o| o.included.clone()),
            Some(others(&plan, &dead))
        );
        add_error(&plan, &report, survivor, &mut squares);
    }
    squares.check("a departure in mixing");
}

/// A party whose log is agreed and that falls silent before its final leaves.
fn vanishes_late(plan: &Arc<Plan>, seed: u64, party: Party) -> Report {
    let calm = simulate(plan, Conditions::new(seed));
    let publishing =
        |(_, who, event): &&(Time, Party, Event)| *who == party && *event == Event::Phase(Phase::Publishing);
    let begins = calm.events.iter().find(publishing).expect("it publishes").0;
    let fault = Fault::Silence {
        party,
        at: Time::from_nanos(begins.as_nanos() - 1),
    };
    simulate(plan, Conditions::new(seed).with_faults(vec![fault]))
}

/// The noise of a party that vanishes late stays in the others' finals.
#[test]
fn after_a_late_vanish_the_result_has_the_accounted_variance() {
    for lines in [
        LINES.to_string(),
        LINES.replace("rounds", "rollback = false\nrounds"),
    ] {
        let plan = plan(6, 400, &lines);
        let (mut squares, mut larger) = (Squares::default(), 0);
        for seed in 0..12 {
            let party = seed as usize % 6;
            let report = vanishes_late(&plan, seed, party);
            let survivor = (party + 1) % 6;
            let outcome = report.outcomes[survivor].as_ref().expect("finished");
            assert_eq!(outcome.ending, Ending::Degraded);
            let rest: BTreeSet<Party> = others(&plan, &[party]);
            assert_eq!(
                (&outcome.included, outcome.agreed),
                (&rest, true),
                "its log is in, its final is not"
            );
            assert!(
                outcome
                    .logs
                    .as_ref()
                    .is_some_and(|logs| logs.contains_key(&party))
            );
            let (_, error, _) = result(&plan, outcome);
            larger += u32::from(error > plan.calibration().predicted.standard_error * 1.2);
            add_error(&plan, &report, survivor, &mut squares);
        }
        squares.check("a final that is missing");
        assert!(larger >= 10, "noise is left behind: {larger} of 12");
    }
}

/// With roll-back the agreed logs say what the finals' weights add up to, missing finals or not.
#[test]
fn a_weight_that_the_logs_contradict_makes_no_mean() {
    let plan = plan(8, 40, "[mechanism]\ncorrelated = \"gaussian\"\nrounds = 6\n");
    for seed in 0..4 {
        let mut report = vanishes_late(&plan, seed, 2);
        let outcome = report.outcomes[3].take().expect("finished");
        let gate = outcome.logs.as_ref().map(|logs| gate(&plan, logs));
        let mut finish = Finish {
            links: serde_json::Value::Null,
            outcome,
            gate,
            draws: 0,
            iteration_ms: serde_json::Value::Null,
            silence: Default::default(),
            left_out: false,
            wall_s: 0.0,
            private_bytes: 0,
            public_bytes: 0,
        };
        let account = |finish: &Finish| Account::of(&plan, 3, finish).expect("logs that fit the plan");
        let honest = account(&finish);
        assert!(honest.finished() && honest.outcome() == "degraded");

        let weight = finish.outcome.sum.as_ref().expect("a sum").weight.0;
        for lie in [weight / 1_000_000, -weight / 8, weight] {
            let sum = finish.outcome.sum.as_mut().expect("a sum");
            sum.weight.0 = weight + lie;
            let account = account(&finish);
            assert!(!account.finished(), "a weight of {lie} more");
            assert!(account.mean(&plan, &finish.outcome).is_none());
            let reason = account.reason().expect("it says why");
            assert!(reason.contains("the finals' weights"), "{reason}");
        }
    }
}
