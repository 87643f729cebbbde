//! `undertone account gossip --execution`: what a coalition learned in a run of gossip averaging.

use std::path::Path;

use undertone_accountant::account::gossip::execution::{self, GossipAccount, GossipAccountError};

use crate::commands::account::answer::{bounded, read_input, refuse_execution, report};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, precise};

pub(super) fn run(path: &Path, sensitivity: f64, delta: f64) -> Result<Report, Failure> {
    let text = read_input(path, "--execution")?;
    let answer = execution::run(&text, sensitivity, delta).map_err(|error| refused(path, error))?;
    report(&answer, describe(&answer))
}

fn refused(path: &Path, error: GossipAccountError) -> Failure {
    match error {
        GossipAccountError::Account(error) => refuse_execution(path, error),
        other @ GossipAccountError::NearlyDependent => {
            Failure::input(format!("{}: {other}", path.display())).field(path.display())
        }
    }
}

fn describe(answer: &GossipAccount) -> String {
    let mut table = Table::with_headings([
        "honest party",
        "μ, all of its contributions",
        "at least",
        "one of them",
    ]);
    for (party, loss) in &answer.losses {
        let root = |square: f64| bounded(square.sqrt());
        table.row([
            party.to_string(),
            root(loss.upper),
            precise(loss.lower.sqrt()),
            root(loss.one),
        ]);
    }
    let reported = |error: Option<f64>| error.map_or("nobody is there in the end".into(), precise);
    format!(
        "{}\n  all contributions of a party change: μ = {}, ε = {} at δ = {:e}\n  \
         estimates of the sum of all rounds' means: standard deviation by noise {}; by uneven weights at \
         most {} times half of the range of a value\n",
        table.render(),
        bounded(answer.mu),
        bounded(answer.epsilon),
        answer.delta,
        reported(answer.noise_error),
        reported(answer.weight_error)
    )
}
