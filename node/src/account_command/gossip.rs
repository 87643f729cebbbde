//! `undertone account gossip`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use undertone_accountant::gossip::{self, GossipError, ObserversNoise, Scheme, Sensitivity, Threat, View};

use super::{bounded, read_input, report};
use crate::cli::Report;
use crate::failure::Failure;
use crate::table::Table;

/// Flags of `account gossip`.
#[derive(Args, Debug)]
pub struct GossipArgs {
    /// The graph: one edge `u v` a line, nodes count from 0, `#` comments
    #[arg(long, value_name = "EDGES.txt")]
    graph: PathBuf,
    /// How weights follow from the degrees d
    #[arg(long, value_enum)]
    weights: Weights,
    /// T
    #[arg(long, value_name = "T")]
    rounds: usize,
    /// Whose contributions are protected
    #[arg(long, value_name = "J")]
    target: usize,
    /// Who looks, together
    #[arg(long, value_name = "I,…", value_delimiter = ',', required = true)]
    observers: Vec<usize>,
    /// What observers see in each round
    #[arg(long, value_enum, default_value_t = Seen::Sum)]
    view: Seen,
    /// Whether observers know the noise that they add themselves
    #[arg(long, value_enum, default_value_t = Knowledge::Unknown)]
    observers_noise: Knowledge,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Weights {
    /// 1/(1 + max(dᵢ, dⱼ))
    Metropolis,
    /// 1/max(dᵢ, dⱼ)
    MaxDegree,
    /// 1/(1 + dᵢ), row-stochastic
    ClosedNeighbourhood,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Seen {
    /// The weighted sum over their neighbourhood, by secure summation
    Sum,
    /// Their own messages
    Messages,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Knowledge {
    /// It counts as noise
    Unknown,
    /// It hides nothing from them
    Known,
}

pub(super) fn run(arguments: &GossipArgs) -> Result<Report, Failure> {
    let edges = read_input(&arguments.graph, "--graph")?;
    let scheme = match arguments.weights {
        Weights::Metropolis => Scheme::Metropolis,
        Weights::MaxDegree => Scheme::MaxDegree,
        Weights::ClosedNeighbourhood => Scheme::ClosedNeighbourhood,
    };
    let threat = Threat {
        observers: &arguments.observers,
        rounds: arguments.rounds,
        view: match arguments.view {
            Seen::Sum => View::Sum,
            Seen::Messages => View::Messages,
        },
        noise: match arguments.observers_noise {
            Knowledge::Unknown => ObserversNoise::Unknown,
            Knowledge::Known => ObserversNoise::Known,
        },
    };
    let answer = gossip::account(&edges, scheme, &threat, arguments.target).map_err(|error| match error {
        GossipError::Edges(error) => {
            Failure::input(format!("{}: {error}", arguments.graph.display())).field(arguments.graph.display())
        }
        other => Failure::usage(other.to_string()).field(other.flag()),
    })?;
    report(&answer, describe(arguments, &answer))
}

fn describe(arguments: &GossipArgs, answer: &Sensitivity) -> String {
    let mut table = Table::new();
    table
        .row(["squared sensitivity, contribution 1 in every round".into(), bounded(answer.lower)])
        .row(["squared sensitivity, any contributions (upper bound)".into(), bounded(answer.upper)])
        .row(["the same, of a round".into(), bounded(answer.upper / arguments.rounds as f64)]);
    format!("{}\n  μ² of noise σ and sensitivity Δ a round: Δ²/σ² times that.\n", table.render())
}
