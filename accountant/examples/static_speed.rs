//! Coalitions that are chosen before the schedule is drawn: how long a thousand of them take for
//! 200 parties, and the error that they let a plan reach.
//!
//! `cargo run --release -p undertone-accountant --example static_speed`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use undertone_accountant::bounds::draws::Draws;
use undertone_accountant::bounds::draws::search::{Effort, searched};
use undertone_accountant::losses::gaussian;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

fn main() {
    let draws = |rounds, dropouts| Draws {
        graph: Graph::complete(200),
        fanout: 1,
        rounds,
        colluding: 20,
        dropouts,
    };
    for (what, draws) in [
        ("T = 20, coalitions of 20", draws(20, 0)),
        ("T = 10, 20 colluding and 20 departed", draws(10, 20)),
    ] {
        let start = Instant::now();
        let worst = (0..100)
            .map(|seed| draws.worst_without_share_faults(seed, 300.0))
            .fold(0.0, f64::max);
        let without = start.elapsed().as_secs_f64() * 10.0;
        let start = Instant::now();
        let with = draws.worst_of(0..1000, 300.0);
        println!(
            "n = 200, k = 1, {what}: 1000 draws with the worst fault of a share in {:.1} s, worst mu2 {with:.6}; without faults about \
             {without:.1} s on one core, worst of 100 {worst:.6}",
            start.elapsed().as_secs_f64()
        );
    }

    // The mark: epsilon 0.2, delta 1e-5, 20 static colluders, 20 parties gone for good, Δ = 1, with
    // roll-back: the error is σ*²/180.
    let budget = gaussian::mu(0.2, 1e-5).expect("in range");
    println!("a trusted server: MSE {:.5}", (1.0 / (200.0 * budget)).powi(2));
    for rounds in [8, 10, 12] {
        let draws = draws(rounds, 20);
        for ratio in [100.0, 300.0, 1000.0, 3000.0, 10_000.0] {
            let square = draws.worst_of(0..40, ratio);
            let plain = (0..40)
                .map(|seed| draws.worst_without_share_faults(seed, ratio))
                .fold(0.0, f64::max);
            let schedule = Schedule::draw(&draws.graph, 1, rounds, 0).expect("enough neighbours");
            let effort = Effort {
                victims: 100,
                starts: 1,
                steps: 20,
                choices: usize::MAX,
            };
            let known = if rounds == 10 {
                searched(schedule.out(), 40, ratio, effort).square
            } else {
                f64::NAN
            };
            let mu = budget * (known / square).sqrt();
            let epsilon = if mu.is_finite() {
                gaussian::epsilon(1e-5, mu).expect("in range")
            } else {
                f64::NAN
            };
            let mse = |square: f64| square / budget.powi(2) / 180.0;
            println!(
                "T = {rounds:2}, ratio {ratio:6}: sigma*2 = {:8.3}, sigma_D2 = {:10.1}, MSE with 20 gone {:.5} (without a share's fault {:.5}); \
                 searched epsilon {epsilon:.3}",
                square / budget.powi(2),
                ratio * square / budget.powi(2),
                mse(square),
                mse(plain)
            );
        }
    }
}
