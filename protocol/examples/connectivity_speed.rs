//! Measures two times on one core. One is that of drawing a schedule of all parties in which no
//! pair meets twice. The other is that of showing that no few parties separate the others.
//!
//! `cargo run --release -p undertone-protocol --example connectivity_speed [PARTIES ROUNDS K]`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use undertone_protocol::topology::connectivity::{at_least, connectivity};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    match given[..] {
        [parties, rounds, wanted] => measure(parties, rounds, wanted),
        _ => {
            measure(200, 22, 42);
            measure(1000, 24, 42);
            measure(5000, 12, 12);
        }
    }
}

fn measure(parties: usize, rounds: usize, wanted: usize) {
    let complete = Graph::complete(parties);
    let begun = Instant::now();
    let schedule = Schedule::apart(&complete, rounds, 1).expect("everybody has neighbours");
    let drawn = begun.elapsed();
    let met = schedule.meetings();
    let begun = Instant::now();
    let enough = at_least(&met, wanted).is_ok();
    let asked = begun.elapsed();
    let begun = Instant::now();
    let kappa = connectivity(&met).kappa;
    let exact = begun.elapsed();
    println!(
        "{parties} parties, {rounds} rounds: drawn in {drawn:.3?}; at least {wanted}: {enough}, in {asked:.3?}; \
         κ = {kappa}, in {exact:.3?}"
    );
}
