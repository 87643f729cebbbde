//! Shared parts of the answers of `undertone account`: reading, showing and refusing.

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;
use undertone_accountant::account::answer::AccountError;
use undertone_accountant::losses::gaussian::GaussianError;
use undertone_protocol::topology::party::Party;

use crate::planning::files::read_text;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;
use crate::reporting::table::{Table, at_most};

/// The noise that cancels in the sum of all finals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Correlated {
    /// Normal variates, whose standard deviation is given.
    #[default]
    Gaussian,
    /// Drawn evenly from residues: nothing is given.
    Uniform,
}

impl Correlated {
    /// The standard deviation that `flag` gives, none for uniform noise.
    pub(super) fn std(self, flag: &str, given: Option<f64>) -> Result<Option<f64>, Failure> {
        match (self, given) {
            (Correlated::Uniform, Some(_)) => {
                Err(Failure::usage("uniform noise has no standard deviation: leave it out").field(flag))
            }
            (Correlated::Gaussian, None) => Err(Failure::usage(format!(
                "{flag} is missing: it says how large the gaussian noise is"
            ))
            .field(flag)
            .hint("or --correlated uniform, for noise over residues")),
            (_, given) => Ok(given),
        }
    }
}

/// The loss of each honest party.
pub(super) fn table_of_losses(losses: &BTreeMap<Party, f64>) -> Table {
    let mut table = Table::with_headings(["honest party", "loss μ"]);
    for (party, square) in losses {
        table.row([party.to_string(), bounded(square.sqrt())]);
    }
    table
}

/// A loss for people, never shown below what it is.
pub(super) fn bounded(value: f64) -> String {
    if value.is_finite() {
        at_most(value)
    } else {
        "unbounded".into()
    }
}

/// An execution file or edge list: unusable input if it cannot be read.
pub(super) fn read_input(path: &Path, field: &str) -> Result<String, Failure> {
    read_text(path, field).map_err(|failure| Failure {
        exit: Exit::InputUnusable,
        ..failure
    })
}

/// Returns the failure for an execution that the accountant refuses. It names the file, with its
/// place, or a flag.
pub(super) fn refuse_execution(path: &Path, error: AccountError) -> Failure {
    match error {
        AccountError::Execution(error) => {
            Failure::input(format!("{}: {error}", path.display())).field(path.display())
        }
        other => refuse(other),
    }
}

pub(super) fn report(answer: &impl Serialize, text: String) -> Result<Report, Failure> {
    let json = serde_json::to_value(answer).map_err(|e| Failure::new(Exit::Internal, e.to_string()))?;
    Ok(Report::done(json, text))
}

pub(super) fn refuse(error: AccountError) -> Failure {
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
