//! Four parties average a vector in memory: a run file, a calibrated plan, a simulated network.
//!
//! `cargo run -p undertone-accountant --example four_parties`

#![allow(clippy::disallowed_methods)] // Randomness is the operating system's.

use std::error::Error;
use std::sync::Arc;

use undertone_accountant::{calibrate, gate, verify};
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::run::outcome::GateVerdict;
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::scenario::Conditions;

const RUN: &str = "name = \"four\"\n[data]\nshape = [3]\n[privacy]\nepsilon = 2.0\n";

fn main() -> Result<(), Box<dyn Error>> {
    let draft = Draft::new(RunFile::parse(RUN, 4)?, &Peers::simulated(4)?, 1)?;
    let calibration = calibrate(&draft, &mut |_| {})?;
    let plan = Arc::new(Plan::assemble(draft, calibration, rand::random())?);
    // What every party does with a plan that somebody else made.
    verify(&plan)?;
    let vectors = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.0, 0.5, 0.0], [0.4, 0.1, 0.2]];
    let inputs = vectors
        .map(|vector| plan.lattice().encode(vector.into_iter()))
        .into();
    let judge = |plan: &Plan, logs: &AgreedLogs| {
        let verdict = gate(plan, logs);
        GateVerdict {
            publish: verdict.publish,
            reason: verdict.reason,
        }
    };
    let report = Simulation::new(plan.clone(), inputs, &judge, Conditions::new(rand::random())).run();
    let outcome = report.outcomes[0].as_ref().ok_or("party 0 never ended")?;
    let sum = outcome.sum.as_ref().ok_or("there is no result")?;
    let parties = outcome.included.len() as f64;
    println!(
        "mean    {:.3?}",
        sum.value.to_f64(plan.lattice().step() / parties)
    );
    println!(
        "error   {:.3} per coordinate",
        plan.calibration().predicted.standard_error
    );
    println!("epsilon {:.3?}", plan.epsilon_claimed());
    Ok(())
}
