//! `undertone account inca`: what an adversary learned in an INCA execution.

use std::path::PathBuf;

use clap::Args;
use undertone_accountant::account::inca::{self, InferredLosses};
use undertone_accountant::losses::loss::Noise;

use crate::commands::account::answer::{bounded, read_input, refuse_execution, report, table_of_losses};
use crate::telling::failure::Failure;
use crate::telling::report::Report;

/// Flags of `account inca`.
#[derive(Args, Debug)]
pub struct IncaArgs {
    /// The execution: who sent what to whom, what became of it, who colludes
    #[arg(value_name = "EXECUTION.json")]
    execution: PathBuf,
    /// σ*, in the data's unit
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    independent_std: f64,
    /// σ_Δ, in the data's unit
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    correlated_std: f64,
    /// Δ of every party, where the file has none
    #[arg(long, value_name = "D", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// δ in (0, 1)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
}

pub(super) fn run(arguments: &IncaArgs) -> Result<Report, Failure> {
    let text = read_input(&arguments.execution, "EXECUTION.json")?;
    let noise = Noise {
        independent_std: arguments.independent_std,
        correlated_std: arguments.correlated_std,
    };
    let answer = inca::inca(&text, noise, arguments.sensitivity, arguments.delta)
        .map_err(|error| refuse_execution(&arguments.execution, error))?;
    let InferredLosses {
        mu,
        epsilon,
        delta,
        losses,
        ..
    } = &answer;
    let text = format!(
        "{}\n  largest: μ = {}, ε = {} at δ = {delta:e}\n",
        table_of_losses(losses).render(),
        bounded(*mu),
        bounded(*epsilon)
    );
    report(&answer, text)
}
