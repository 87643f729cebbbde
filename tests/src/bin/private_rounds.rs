//! `cargo run --release -p undertone-tests --bin private_rounds -- 8 16`: prints the network rounds
//! of PPSC's private phase, each message one unit of time, against the longest chain of exchanges.

use undertone_tests::private_rounds::measured;

fn main() {
    println!("parties, private graph: rounds to the last share, to its answer, critical path, ratio");
    for parties in std::env::args().skip(1) {
        for row in measured(parties.parse().expect("a number of parties")) {
            println!(
                "{parties}, {}: {}, {}, {}, {:.2}",
                row.graph,
                row.to_last_share,
                row.to_last_answer,
                row.critical_path,
                row.ratio()
            );
        }
    }
}
