//! Accounts for an execution that another implementation of INCA has run: which states the
//! coalition saw, and what its noise then costs.
//!
//! `cargo run -p undertone-accountant --example own_execution`

use std::error::Error;

use undertone_accountant::account::inca::inca;
use undertone_accountant::losses::loss::Noise;

/// Four parties in two rounds: `out[t][i]` are the parties that party i sends to in round t + 1.
/// Party 3 is corrupted, and publishes like everybody else.
const EXECUTION: &str = r#"{
    "parties": 4, "rounds": 2, "injection": "incremental",
    "out": [[[1], [2], [3], [0]], [[2], [3], [0], [1]]],
    "corrupted": [3]
}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let (sensitivity, delta) = (2.0, 1e-6);
    for independent_std in [2.0, 4.0, 8.0] {
        let noise = Noise {
            independent_std,
            correlated_std: 16.0,
        };
        let losses = inca(EXECUTION, noise, sensitivity, delta)?;
        println!("own noise {independent_std}: epsilon {:.3}", losses.epsilon);
    }
    Ok(())
}
