//! Coalitions that are chosen before the schedule is drawn: how long a thousand of them take for 200 parties, and the error that they let a plan
//! reach.
//!
//! `cargo run --release -p undertone-accountant --example static_speed`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use undertone_accountant::gaussian;
use undertone_accountant::static_coalitions::{Draws, failure_bound, searched};
use undertone_protocol::graph::Graph;
use undertone_protocol::schedule::Schedule;

fn main() {
    let draws = |rounds, dropouts| Draws { graph: Graph::complete(200), fanout: 1, rounds, colluding: 20, dropouts };
    let start = Instant::now();
    let worst = draws(20, 0).worst_of(0..1000, 300.0);
    println!(
        "n = 200, T = 20, k = 1: 1000 schedules with coalitions of 20 in {:.1} s, worst mu2 {worst:.5}",
        start.elapsed().as_secs_f64()
    );

    // The mark: epsilon 0.2, delta 1e-5, 20 static colluders, 20 parties gone for good, Δ = 1, with roll-back: the error is σ*²/180.
    let budget = gaussian::mu(0.2, 1e-5).expect("in range");
    println!("a trusted server: MSE {:.5}", (1.0 / (200.0 * budget)).powi(2));
    for rounds in [8, 10, 12] {
        let draws = draws(rounds, 20);
        let calm = Draws { dropouts: 0, ..draws.clone() };
        for ratio in [1000.0, 3000.0, 10_000.0] {
            let square = draws.worst_of(0..40, ratio).max(calm.worst_of(0..40, ratio));
            let schedule = Schedule::draw(&draws.graph, 1, rounds, 0).expect("enough neighbours");
            let (known, _) =
                if ratio == 1000.0 && rounds == 10 { searched(schedule.out(), 20, ratio, 1, 20) } else { (f64::NAN, vec![]) };
            let mu = budget * (known / square).sqrt();
            let epsilon = if mu.is_finite() { gaussian::epsilon(1e-5, mu).expect("in range") } else { f64::NAN };
            println!(
                "T = {rounds:2}, ratio {ratio:6}: sigma*2 = {:8.3}, sigma_D2 = {:10.1}, MSE with 20 gone {:.5}; searched epsilon {epsilon:.3}",
                square / budget.powi(2),
                ratio * square / budget.powi(2),
                square / budget.powi(2) / 180.0
            );
        }
    }
    println!("0 failures in 1000 fresh draws leave p < {:.2e}", failure_bound(0, 1000));
}
