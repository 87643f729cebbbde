//! `undertone account ppsc`: what an adversary learned in a PPSC execution.

use std::path::PathBuf;

use clap::Args;
use undertone_accountant::account::ppsc::{self, PpscAccount};

use crate::commands::account::answer::{
    Correlated, bounded, read_input, refuse_execution, report, table_of_losses,
};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `account ppsc`.
#[derive(Args, Debug)]
pub struct PpscArgs {
    /// The execution: the edges of each iteration, what became of the exchanges, who colludes
    #[arg(value_name = "EXECUTION.json")]
    execution: PathBuf,
    /// What cancels: gaussian noise, or uniform over residues
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    correlated: Correlated,
    /// σ_γ of each exchange, in the data's unit (gaussian only)
    #[arg(
        long,
        value_name = "S",
        allow_negative_numbers = true,
        required_if_eq("correlated", "gaussian")
    )]
    pairwise_std: Option<f64>,
    /// σ* of what each party adds to its value first, in the data's unit; without it the sums are
    /// public
    #[arg(long, value_name = "S", default_value_t = 0.0, allow_negative_numbers = true)]
    independent_std: f64,
    /// Δ of every party
    #[arg(long, value_name = "D", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// δ in (0, 1)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
}

pub(super) fn run(arguments: &PpscArgs) -> Result<Report, Failure> {
    let text = read_input(&arguments.execution, "EXECUTION.json")?;
    let PpscArgs {
        independent_std,
        sensitivity,
        delta,
        ..
    } = *arguments;
    let answer = match arguments
        .correlated
        .std("--pairwise-std", arguments.pairwise_std)?
    {
        Some(pairwise_std) => ppsc::account(&text, pairwise_std, independent_std, sensitivity, delta),
        None => ppsc::account_uniform(&text, independent_std, sensitivity, delta),
    };
    let answer = answer.map_err(|error| refuse_execution(&arguments.execution, error))?;
    let text = describe(&answer);
    report(&answer, text)
}

fn describe(answer: &PpscAccount) -> String {
    let mut text = table_of_losses(&answer.losses).render();
    text += &format!(
        "\n  one value changes: μ = {}, ε = {} at δ = {:e}\n  values change, every revealed sum stays: \
         μ = {}\n",
        bounded(answer.mu),
        bounded(answer.epsilon),
        answer.delta,
        bounded(answer.same_sum_mu)
    );
    let list = |component: &Vec<usize>| {
        component
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let components: Vec<String> = answer.components.iter().map(list).collect();
    text += &format!(
        "  components of the exchanges that were used: {}\n",
        components.join(" | ")
    );
    if answer.sum_revealed {
        text += "  Sum revealed: the exact sum of some honest values is known. \
                 --independent-std says what hides it.\n";
    }
    text
}
