//! `undertone account`: the accountant on explicit questions.

mod compose;
mod gossip;
mod ppsc;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use undertone_accountant::account::{self, AccountError, GaussianAccount, InferredLosses};
use undertone_accountant::gaussian::GaussianError;
use undertone_accountant::loss::Noise;
use undertone_protocol::mixing::Party;

use crate::cli::Report;
use crate::failure::{Exit, Failure};
use crate::plan_command::read_text;
use crate::table::{Table, at_most, number};

/// What to account for.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// The exact Gaussian trade-off: any two of ε, δ, μ give the third (Balle & Wang 2018)
    Gaussian(GaussianArgs),
    /// What an adversary learns from an execution of INCA, each honest party's loss
    Inca(IncaArgs),
    /// What PPSC's multi-gossip gives away: the revealed sums, and losses with and without them
    Ppsc(ppsc::PpscArgs),
    /// What observers of noisy gossip averaging learn of one node: bounds on the squared sensitivity over all rounds
    Gossip(gossip::GossipArgs),
    /// The loss of several releases together: μ² adds, adaptively, and is converted to ε once
    Compose(compose::ComposeArgs),
}

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

/// Runs it.
pub fn run(command: AccountCommand) -> Result<Report, Failure> {
    match command {
        AccountCommand::Gaussian(arguments) => gaussian(&arguments),
        AccountCommand::Inca(arguments) => inca(&arguments),
        AccountCommand::Ppsc(arguments) => ppsc::run(&arguments),
        AccountCommand::Gossip(arguments) => gossip::run(&arguments),
        AccountCommand::Compose(arguments) => compose::run(&arguments),
    }
}

fn gaussian(arguments: &GaussianArgs) -> Result<Report, Failure> {
    let answer = account::gaussian(arguments.epsilon, arguments.delta, arguments.mu).map_err(refuse)?;
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
        .row(["noise multiplier".into(), number(noise_multiplier)]);
    report(&answer, table.render())
}

fn inca(arguments: &IncaArgs) -> Result<Report, Failure> {
    let text = read_input(&arguments.execution, "EXECUTION.json")?;
    let noise = Noise {
        independent_std: arguments.independent_std,
        correlated_std: arguments.correlated_std,
    };
    let answer = account::inca(&text, noise, arguments.sensitivity, arguments.delta)
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

/// The loss of each honest party.
fn table_of_losses(losses: &BTreeMap<Party, f64>) -> Table {
    let mut table = Table::with_headings(["honest party", "loss μ"]);
    for (party, square) in losses {
        table.row([party.to_string(), bounded(square.sqrt())]);
    }
    table
}

/// A loss for people, never shown below what it is.
fn bounded(value: f64) -> String {
    if value.is_finite() {
        at_most(value)
    } else {
        "unbounded".into()
    }
}

/// An execution file or edge list: unusable input if it cannot be read.
fn read_input(path: &Path, field: &str) -> Result<String, Failure> {
    read_text(path, field).map_err(|failure| Failure {
        exit: Exit::InputUnusable,
        ..failure
    })
}

/// What the accountant refuses of an execution: the file, with its place, or a flag.
fn refuse_execution(path: &Path, error: AccountError) -> Failure {
    match error {
        AccountError::Execution(error) => {
            Failure::input(format!("{}: {error}", path.display())).field(path.display())
        }
        other => refuse(other),
    }
}

fn report(answer: &impl Serialize, text: String) -> Result<Report, Failure> {
    let json = serde_json::to_value(answer).map_err(|e| Failure::new(Exit::Internal, e.to_string()))?;
    Ok(Report::done(json, text))
}

fn refuse(error: AccountError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match &error {
        AccountError::Scale { flag, .. } => failure.field(flag),
        AccountError::Two { .. } => failure.field("--epsilon, --delta, --mu"),
        AccountError::Gaussian(GaussianError::Epsilon { .. }) => failure.field("--epsilon"),
        AccountError::Gaussian(GaussianError::Delta { .. }) => failure.field("--delta"),
        AccountError::Gaussian(GaussianError::Mu { .. }) => failure.field("--mu"),
        _ => failure,
    }
}
