//! How long one pass over a class takes, and how much faster it is than factorising each of its
//! systems densely (a sample of them, evenly spaced, in the same run).
//!
//! `cargo run --release -p undertone-accountant --example exhaustive_speed`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::{Duration, Instant};

use undertone_accountant::class::setting::Setting;
use undertone_accountant::class::worst::Class;
use undertone_accountant::losses::loss::{Noise, squared_losses};
use undertone_accountant::losses::view::View;
use undertone_accountant::mechanism::inca::{InjectionSpec, NamedInjection};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

/// r = σ_Δ²/σ*², near what calibration finds.
const RATIO: f64 = 30.0;

/// Systems that are factorised densely.
const SAMPLE: usize = 200;

fn main() {
    println!(
        "parties colluding dropouts rollback  T  systems    prepare  one pass   with care  dense, each  dense/pass"
    );
    for (parties, colluding, rollback) in [
        (8, 1, false),
        (16, 1, false),
        (16, 1, true),
        (16, 2, true),
        (24, 1, true),
        (32, 1, true),
        (48, 1, true),
    ] {
        report(parties, colluding, rollback);
    }
}

fn report(parties: usize, colluding: usize, rollback: bool) {
    let rounds = 7;
    let schedule = Schedule::draw(&Graph::complete(parties), 1, rounds, 1).expect("enough neighbours");
    let setting = Setting {
        mechanism: InjectionSpec::Named(NamedInjection::Incremental).into(),
        out: schedule.out().to_vec(),
        sensitivity: vec![1.0; parties],
        weights: vec![1.0; parties],
        colluding,
        dropouts: 1,
        rollback,
        uniform: false,
    };
    let (class, prepare) = timed(|| Class::of(&setting).expect("a schedule"));
    let Some(class) = class else {
        println!("{parties:7} {colluding:9}        1 {rollback:8} {rounds:2}  too large");
        return;
    };
    let (worst, pass) = timed(|| class.screen(RATIO));
    let (careful, again) = timed(|| class.worst(RATIO).expect("a run").square);
    assert!(careful >= worst[0].square * (1.0 - 1e-9));
    let systems = class.cases();
    let executions = systems / class.coalitions();
    let (_, dense) = timed(|| {
        for index in 0..SAMPLE {
            let system = index * systems / SAMPLE;
            let execution = class
                .system(system % executions, system / executions)
                .expect("in the class");
            let losses = squared_losses(
                &View::of(&execution),
                Noise {
                    independent_std: 1.0,
                    correlated_std: RATIO.sqrt(),
                },
            );
            assert!(losses.iter().all(|loss| *loss <= careful * (1.0 + 1e-9)));
        }
    });
    let each = dense.as_secs_f64() / SAMPLE as f64;
    // The pass has both cores; so would the dense way.
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    println!(
        "{parties:7} {colluding:9}        1 {rollback:8} {rounds:2} {systems:8} {:9.3}s {:8.3}s {:10.3}s {:9.3}ms {:10.1}",
        prepare.as_secs_f64(),
        pass.as_secs_f64(),
        again.as_secs_f64(),
        each * 1e3,
        each * systems as f64 / cores / (prepare + pass).as_secs_f64(),
    );
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
