//! `undertone account inca`: what an adversary learned in an INCA execution.

use std::path::PathBuf;

use clap::Args;
use undertone_accountant::account::inca::{self, InferredLosses};
use undertone_accountant::losses::loss::Noise;

use crate::commands::account::answer::{
    Correlated, bounded, read_input, refuse_execution, report, table_of_losses,
};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `account inca`.
#[derive(Args, Debug)]
pub struct IncaArgs {
    /// The execution: who sent what to whom, what became of it, who colludes
    #[arg(value_name = "EXECUTION.json")]
    execution: PathBuf,
    /// σ*, in the data's unit
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    independent_std: f64,
    /// What cancels: gaussian noise, or uniform over residues (values then come in whole before
    /// round 1, whatever injection the file names)
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    correlated: Correlated,
    /// σ_Δ, in the data's unit (gaussian only)
    #[arg(
        long,
        value_name = "S",
        allow_negative_numbers = true,
        required_if_eq("correlated", "gaussian")
    )]
    correlated_std: Option<f64>,
    /// Δ of every party, where the file has none
    #[arg(long, value_name = "D", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// δ in (0, 1)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
}

pub(super) fn run(arguments: &IncaArgs) -> Result<Report, Failure> {
    let text = read_input(&arguments.execution, "EXECUTION.json")?;
    let IncaArgs {
        independent_std,
        sensitivity,
        delta,
        ..
    } = *arguments;
    let answer = match arguments
        .correlated
        .std("--correlated-std", arguments.correlated_std)?
    {
        Some(correlated_std) => {
            let noise = Noise {
                independent_std,
                correlated_std,
            };
            inca::inca(&text, noise, sensitivity, delta)
        }
        None => inca::inca_uniform(&text, independent_std, sensitivity, delta),
    };
    let answer = answer.map_err(|error| refuse_execution(&arguments.execution, error))?;
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
