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
    /// The Gaussian trade-off: two of ε, δ, μ give the third
    ///
    /// It is exact (Balle & Wang 2018).
    Gaussian(gaussian::GaussianArgs),
    /// Each honest party's loss in an execution of INCA
    #[command(
        override_usage = "undertone account inca [OPTIONS] --independent-std <S> --delta <D>\n       <EXECUTION.json>"
    )]
    Inca(inca::IncaArgs),
    /// The sums that PPSC's multi-gossip reveals, and losses
    ///
    /// With these sums, and without them.
    Ppsc(ppsc::PpscArgs),
    /// Bounds on the loss of gossip averaging to observers
    ///
    /// Bounds on one node's squared sensitivity over all rounds; or what a coalition learned of
    /// everybody in one run.
    Gossip(gossip::GossipArgs),
    /// How many parties it takes to separate the others
    ///
    /// And among how many values each party's own is hidden then, whoever colludes.
    #[command(
        override_usage = "undertone account connectivity [OPTIONS]\n       <--graph <EDGES.txt>|--schedule <T>>"
    )]
    Connectivity(connectivity::ConnectivityArgs),
    /// The chance that a schedule drawn late hides too little
    ///
    /// A schedule that is drawn after coalitions and departures are fixed may leave the others in
    /// several pieces; this also says how many rounds make that chance small.
    #[command(
        override_usage = "undertone account static [OPTIONS] --parties <N> --removed <S>\n       --rounds <T>"
    )]
    Static(static_coalitions::StaticArgs),
    /// The loss of several releases together
    ///
    /// μ² adds, adaptively, and is converted to ε once.
    #[command(
        override_usage = "undertone account compose [OPTIONS] --delta <D>\n       [RECEIPT.json|PLAN.json]..."
    )]
    Compose(compose::ComposeArgs),
    /// The cost of a training's iterations
    ///
    /// The loss that each may have, and the loss of those that were published.
    #[command(
        override_usage = "undertone account training [OPTIONS] --epsilon <E> --delta <D>\n       --iterations <K>"
    )]
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
