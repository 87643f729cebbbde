//! `undertone account`: the accountant on explicit questions.

mod answer;
mod compose;
mod connectivity;
mod gaussian;
mod gossip;
mod gossip_run;
mod inca;
mod ppsc;
mod static_coalitions;
mod training;

use clap::Subcommand;

use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// What to account for.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// The exact Gaussian trade-off: any two of ε, δ, μ give the third (Balle & Wang 2018)
    Gaussian(gaussian::GaussianArgs),
    /// What an adversary learns from an execution of INCA, each honest party's loss
    Inca(inca::IncaArgs),
    /// What PPSC's multi-gossip gives away: the revealed sums, and losses with and without them
    Ppsc(ppsc::PpscArgs),
    /// What observers of noisy gossip averaging learn of one node: bounds on the squared
    /// sensitivity over all rounds; or what a coalition learned of everybody in one run
    Gossip(gossip::GossipArgs),
    /// How many parties it takes to separate the others, and among how many values each party's own
    /// is hidden then, whoever colludes
    Connectivity(connectivity::ConnectivityArgs),
    /// The chance that a schedule drawn after coalitions and departures are fixed leaves the others
    /// in several pieces, and how many rounds make it small
    Static(static_coalitions::StaticArgs),
    /// The loss of several releases together: μ² adds, adaptively, and is converted to ε once
    Compose(compose::ComposeArgs),
    /// What a training's iterations may cost each, and what those that were published have cost
    Training(training::TrainingArgs),
}

/// Answers what the command asks.
pub fn run(command: AccountCommand) -> Result<Report, Failure> {
    match command {
        AccountCommand::Gaussian(arguments) => gaussian::run(&arguments),
        AccountCommand::Inca(arguments) => inca::run(&arguments),
        AccountCommand::Ppsc(arguments) => ppsc::run(&arguments),
        AccountCommand::Gossip(arguments) => gossip::run(&arguments),
        AccountCommand::Connectivity(arguments) => connectivity::run(&arguments),
        AccountCommand::Static(arguments) => static_coalitions::run(&arguments),
        AccountCommand::Compose(arguments) => compose::run(&arguments),
        AccountCommand::Training(arguments) => training::run(&arguments),
    }
}
