//! What coalitions that know the schedule cost, over rounds and fan-out, for 200 parties with 20
//! colluding and 20 gone for good: ε = 0.2 and δ = 1e-5 against coalitions that were chosen before
//! the schedule, replace-one with Δ = 1.
//!
//! `cargo run --release -p undertone-accountant --example fanout_table`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use undertone_accountant::bounds::draws::Draws;
use undertone_accountant::bounds::draws::search::{Effort, searched, sufficient};
use undertone_accountant::losses::gaussian;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

const PARTIES: usize = 200;
const EPSILON: f64 = 0.2;
const DELTA: f64 = 1e-5;
/// The error that all choices of the first table have, with 20 gone.
const ERROR: f64 = 0.01;
/// Draws that F(r) is the worst of.
const SEEDS: std::ops::Range<u64> = 0..16;

fn main() {
    let start = Instant::now();
    let budget = gaussian::mu(EPSILON, DELTA).expect("in range");
    let left = (PARTIES - 20) as f64;
    println!(
        "n = {PARTIES}, 20 colluding, 20 gone, eps = {EPSILON} against static coalitions: at an MSE of {ERROR} with 20 gone, what a search finds for \
         coalitions of 40 that know the schedule; the MSE at which it finds eps = {EPSILON}, with the same sigma_D/sigma*; and how many who know the \
         schedule suffice to learn a value but for its own noise."
    );
    println!(
        " T  k  shares  sigma_D/sigma*  searched eps  MSE at searched eps {EPSILON}  coalitions tried  suffice"
    );
    for rounds in [6, 8, 10, 12, 20] {
        for fanout in [1, 2, 4, 6] {
            let draws = Draws {
                graph: Graph::complete(PARTIES),
                fanout,
                rounds,
                colluding: 20,
                dropouts: 20,
            };
            let mse = |square: f64| square / budget.powi(2) / left;
            let Some(ratio) = ratio_for(|ratio| mse(draws.worst_of(SEEDS, ratio)) - ERROR) else {
                println!(
                    "{rounds:2}  {fanout}  {:6}  no sigma_D reaches that error",
                    rounds * fanout
                );
                continue;
            };
            let schedule = Schedule::draw(&draws.graph, fanout, rounds, 0).expect("enough neighbours");
            let size = draws.colluding + draws.dropouts;
            // Where a victim has more contacts than fit, each start tries many.
            let victims = if 2 * rounds * fanout > size { 2 } else { PARTIES };
            let found = searched(
                schedule.out(),
                size,
                ratio,
                Effort {
                    victims,
                    starts: 2,
                    steps: 100,
                    choices: usize::MAX,
                },
            );
            let mu = (found.square / (ERROR * left)).sqrt();
            println!(
                "{rounds:2}  {fanout}  {:6}  {:14.1}  {:12.3}  {:27.4}  {:16}  {:7}",
                rounds * fanout,
                ratio.sqrt(),
                gaussian::epsilon(DELTA, mu).expect("in range"),
                mse(found.square),
                found.cases,
                sufficient(schedule.out())
            );
        }
    }
    println!("{:.0} s", start.elapsed().as_secs_f64());
}

/// The r, to 2 %, from which on a falling function is below zero; none up to 1e6.
fn ratio_for(above: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (1.0f64, 1e6f64);
    if above(high) > 0.0 {
        return None;
    }
    while high / low > 1.02 {
        let middle = (low * high).sqrt();
        if above(middle) > 0.0 {
            low = middle
        } else {
            high = middle
        }
    }
    Some(high)
}
