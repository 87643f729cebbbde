//! `cargo run --release -p undertone-tests --bin year [RUNS]`: so many runs in a row (default
//! 5,000) through three daemons on loopback. Prints memory, files, bytes, and how long a killed
//! daemon takes to start again. `undertone` must have been built with the same profile.

use std::time::Instant;

use undertone_tests::year::Year;

/// Runs between two lines.
const EVERY: usize = 250;

fn main() {
    let runs = std::env::args().nth(1).map_or(Ok(5000), |runs| runs.parse());
    let runs: usize = runs.expect("a number of runs");
    let (begun, mut year, mut done) = (Instant::now(), Year::begin(), 0);
    println!("idle: {}", year.stand(0));
    while done < runs {
        let next = EVERY.min(runs - done);
        year.run(next);
        year.delete_old();
        done += next;
        println!("{:>6.0} s", begun.elapsed().as_secs_f64());
        for party in 0..3 {
            println!("  {}", year.stand(party));
        }
    }
    for party in 0..3 {
        println!("killed and started again: ready after {:?}", year.restart(party));
        println!("  {}", year.stand(party));
    }
    year.run(4);
    (0..3).for_each(|party| year.check(party));
    println!("{} runs are charged, and have their receipts", year.ended().len());
}
