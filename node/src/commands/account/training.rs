//! `undertone account training`: the budget of a training's iterations.

use clap::Args;
use undertone_accountant::account::training;

use crate::commands::account::answer::{refuse, report};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, at_most};

/// Flags of `account training`.
#[derive(Args, Debug)]
pub struct TrainingArgs {
    /// ε of the whole training
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: f64,
    /// δ in (0, 1)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
    /// How many iterations share it
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    iterations: u64,
    /// How many of them were published [default: all]
    #[arg(long, value_name = "k")]
    published: Option<u64>,
}

pub(super) fn run(arguments: &TrainingArgs) -> Result<Report, Failure> {
    let published = arguments.published.unwrap_or(arguments.iterations);
    if published > arguments.iterations {
        return Err(Failure::usage(format!(
            "{published} of {} iterations were published",
            arguments.iterations
        ))
        .field("--published")
        .hint("give at most --iterations"));
    }
    let answer = training::training(
        arguments.epsilon,
        arguments.delta,
        arguments.iterations,
        published,
    )
    .map_err(refuse)?;
    let mut table = Table::with_headings(["", "μ", "ε"]);
    table
        .row([
            "one iteration".into(),
            at_most(answer.mu_iteration),
            at_most(answer.epsilon_iteration),
        ])
        .row([
            format!("{published} of {}", answer.iterations),
            at_most(answer.mu),
            at_most(answer.epsilon),
        ])
        .row([
            "the budget".into(),
            at_most(answer.mu_total),
            at_most(arguments.epsilon),
        ]);
    report(&answer, table.render())
}
