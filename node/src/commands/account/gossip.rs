//! `undertone account gossip`: what nodes of a gossip averaging learn of each other.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use thiserror::Error;
use undertone_accountant::account::gossip;
use undertone_accountant::account::gossip::distribution::{self, Distribution, Targets};
use undertone_accountant::account::gossip::threat::{
    GossipError, ObserversNoise, ObserversView, Sensitivity, Threat,
};
use undertone_accountant::account::gossip::weights::{Scheme, Weights as Matrix};

use crate::commands::account::answer::{bounded, read_input, report};
use crate::commands::account::gossip_run;
use crate::planning::plot;
use crate::reporting::failure::Failure;
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, at_most, precise};

/// The flags of a question about a graph, not about a run.
const OF_A_GRAPH: [&str; 8] = [
    "graph",
    "weights",
    "rounds",
    "target",
    "observers",
    "view",
    "observers_noise",
    "plot",
];

/// Flags of `account gossip`.
#[derive(Args, Debug)]
pub struct GossipArgs {
    /// A run instead of a graph
    ///
    /// Edges of each round, who colludes, reads what and takes part.
    #[arg(long, value_name = "RUN.json", conflicts_with_all = OF_A_GRAPH)]
    execution: Option<PathBuf>,
    /// Δ of one contribution (of a run; default 1)
    #[arg(long, value_name = "D", requires = "execution", allow_negative_numbers = true)]
    sensitivity: Option<f64>,
    /// δ in (0, 1) (of a run; default 1e-6)
    #[arg(long, value_name = "D", requires = "execution", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// The graph: one edge `u v` a line
    ///
    /// Nodes count from 0; `#` comments.
    #[arg(long, value_name = "EDGES.txt", required_unless_present = "execution")]
    graph: Option<PathBuf>,
    /// How weights follow from the degrees d
    #[arg(long, value_enum, value_name = "W", required_unless_present = "execution")]
    weights: Option<Weights>,
    /// The number of rounds
    #[arg(long, value_name = "T", required_unless_present = "execution")]
    rounds: Option<usize>,
    /// Whose contributions are protected
    ///
    /// May be left out with `--observers all`, which then asks about everybody.
    #[arg(long, value_name = "J")]
    target: Option<usize>,
    /// Who looks, together; or `all`: each by itself
    ///
    /// With `all`, for the distribution over all pairs.
    #[arg(long, value_name = "I,…|all", value_parser = looking, required_unless_present = "execution")]
    observers: Option<Looking>,
    /// What observers see in each round
    #[arg(long, value_enum, value_name = "V", default_value_t = Seen::Sum)]
    view: Seen,
    /// Whether observers know their own noise
    #[arg(long, value_enum, value_name = "K", default_value_t = Knowledge::Unknown)]
    observers_noise: Knowledge,
    /// Draw what `--observers all` finds, as SVG
    #[arg(long, value_name = "PAIRS.svg")]
    plot: Option<PathBuf>,
}

/// The observers, as `--observers` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Looking {
    /// Every node by itself.
    Each,
    /// These nodes, which share their views with each other.
    Together(Vec<usize>),
}

/// A word of `--observers` that names no node.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{0}\" is not a node: give numbers from 0, or all")]
struct NotANode(String);

fn looking(text: &str) -> Result<Looking, NotANode> {
    if text == "all" {
        return Ok(Looking::Each);
    }
    let node = |word: &str| word.trim().parse().map_err(|_| NotANode(word.to_owned()));
    text.split(',')
        .map(node)
        .collect::<Result<_, _>>()
        .map(Looking::Together)
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

/// A question about a graph, all of whose flags are there.
struct Question<'a> {
    graph: &'a Path,
    scheme: Scheme,
    rounds: usize,
    view: ObserversView,
    noise: ObserversNoise,
}

pub(super) fn run(arguments: &GossipArgs) -> Result<Report, Failure> {
    if let Some(path) = &arguments.execution {
        let (sensitivity, delta) = (
            arguments.sensitivity.unwrap_or(1.0),
            arguments.delta.unwrap_or(1e-6),
        );
        return gossip_run::run(path, sensitivity, delta);
    }
    let question = arguments.question()?;
    let text = read_input(question.graph, "--graph")?;
    match required(arguments.observers.as_ref(), "--observers")? {
        Looking::Together(observers) => {
            if arguments.plot.is_some() {
                return Err(Failure::usage("--plot draws the distribution over all pairs")
                    .field("--plot")
                    .hint("ask for --observers all"));
            }
            let Some(target) = arguments.target else {
                return Err(Failure::usage("--target is missing")
                    .field("--target")
                    .hint("name the node whose contributions are protected"));
            };
            let threat = Threat {
                observers,
                rounds: question.rounds,
                view: question.view,
                noise: question.noise,
            };
            let answer = gossip::account(&text, question.scheme, &threat, target)
                .map_err(|error| question.refused(error))?;
            report(&answer, describe(question.rounds, &answer))
        }
        Looking::Each => {
            arguments.plot.as_deref().map_or(Ok(()), plot::check)?;
            let answer = question
                .over_all_pairs(&text, arguments.target)
                .map_err(|error| question.refused(error))?;
            if let Some(path) = &arguments.plot {
                plot::pairs(&answer, path)?;
            }
            report(&answer, describe_all(&answer))
        }
    }
}

/// A flag that clap asks for unless there is an execution.
fn required<T>(given: Option<T>, flag: &str) -> Result<T, Failure> {
    given.ok_or_else(|| Failure::usage(format!("{flag} is missing")).field(flag))
}

impl GossipArgs {
    fn question(&self) -> Result<Question<'_>, Failure> {
        Ok(Question {
            graph: required(self.graph.as_deref(), "--graph")?,
            scheme: match required(self.weights, "--weights")? {
                Weights::Metropolis => Scheme::Metropolis,
                Weights::MaxDegree => Scheme::MaxDegree,
                Weights::ClosedNeighbourhood => Scheme::ClosedNeighbourhood,
            },
            rounds: required(self.rounds, "--rounds")?,
            view: match self.view {
                Seen::Sum => ObserversView::Sum,
                Seen::Messages => ObserversView::Messages,
            },
            noise: match self.observers_noise {
                Knowledge::Unknown => ObserversNoise::Unknown,
                Knowledge::Known => ObserversNoise::Known,
            },
        })
    }
}

impl Question<'_> {
    fn refused(&self, error: GossipError) -> Failure {
        match error {
            GossipError::Edges(error) => {
                Failure::input(format!("{}: {error}", self.graph.display())).field(self.graph.display())
            }
            other => Failure::usage(other.to_string()).field(other.flag()),
        }
    }

    fn over_all_pairs(&self, text: &str, target: Option<usize>) -> Result<Distribution, GossipError> {
        let weights = Matrix::of(&gossip::edges::connected(text)?, self.scheme);
        let targets = target.map_or(Targets::All, Targets::One);
        let mut progress = Progress::start();
        let mut show = |done: usize, all: usize| progress.count("observers", done as u64, all as u64);
        let answer =
            distribution::all_pairs(&weights, self.rounds, (self.view, self.noise), targets, &mut show);
        progress.end();
        answer
    }
}

fn describe(rounds: usize, answer: &Sensitivity) -> String {
    let mut table = Table::new();
    table
        .row([
            "squared sensitivity, contribution 1 in every round".into(),
            bounded(answer.lower),
        ])
        .row([
            "squared sensitivity, any contributions (upper bound)".into(),
            bounded(answer.upper),
        ])
        .row([
            "the same, of a round".into(),
            bounded(answer.upper / rounds as f64),
        ]);
    format!(
        "{}\n  μ² of noise σ and sensitivity Δ a round: Δ²/σ² times that.\n",
        table.render()
    )
}

fn describe_all(answer: &Distribution) -> String {
    let mut table = Table::with_headings(["of the pairs", "squared sensitivity at most", "times T/n"]);
    let (rounds, central) = (answer.rounds as f64, answer.rounds as f64 / answer.nodes as f64);
    for &(percent, value) in &answer.quantiles {
        table.row([format!("{percent} %"), at_most(value), precise(value / central)]);
    }
    let worst = answer.largest_pair.map_or(String::new(), |(observer, target)| {
        format!(
            "The largest is what node {observer} learns of node {target}: {}, of {} that it can be at most.\n",
            at_most(answer.largest),
            precise(rounds)
        )
    });
    let doubt = match answer.not_computed {
        0 => String::new(),
        pairs => format!(
            "{pairs} pairs were too nearly dependent to be computed and count with {}.\n",
            precise(rounds)
        ),
    };
    format!(
        "{} pairs of an observer and another node, {} nodes, T = {}; what nodes learn on average: {}\n\n\
         {}\n{worst}{doubt}μ² of noise σ and sensitivity Δ a round: Δ²/σ² times these.\n",
        answer.pairs,
        answer.nodes,
        answer.rounds,
        at_most(answer.mean),
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observers_are_nodes_or_all() {
        assert_eq!(looking("all"), Ok(Looking::Each));
        assert_eq!(looking("3, 1"), Ok(Looking::Together(vec![3, 1])));
        assert!(
            looking("").is_err()
                && looking("1,,2").is_err()
                && looking("-1").is_err()
                && looking("every").is_err()
        );
    }
}
