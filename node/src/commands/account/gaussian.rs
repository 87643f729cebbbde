//! `undertone account gaussian`: ε, δ and μ of a Gaussian mechanism from two of them.

use clap::Args;
use undertone_accountant::account::gaussian::{self, GaussianAccount};

use crate::commands::account::answer::{refuse, report};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, at_most, precise};

/// Flags of `account gaussian`.
#[derive(Args, Debug)]
pub struct GaussianArgs {
    /// ε ≥ 0
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ in (0, 1)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// μ: sensitivity over noise
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    mu: Option<f64>,
}

pub(super) fn run(arguments: &GaussianArgs) -> Result<Report, Failure> {
    let answer = gaussian::gaussian(arguments.epsilon, arguments.delta, arguments.mu).map_err(refuse)?;
    let GaussianAccount {
        epsilon,
        delta,
        mu,
        noise_multiplier,
        ..
    } = answer;
    let mut table = Table::new();
    table
        .row(["ε".into(), at_most(epsilon)])
        .row(["δ".into(), format!("{delta:e}")])
        .row(["μ".into(), at_most(mu)])
        .row(["noise multiplier".into(), precise(noise_multiplier)]);
    report(&answer, table.render())
}
