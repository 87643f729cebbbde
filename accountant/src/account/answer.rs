//! The types that the answers of `undertone account` share. The command line prints them as tables
//! and, under `--json`, as node/guide/formats.md names them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::GaussianError;
use crate::losses::loss::scaled;

/// The reasons why an account is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AccountError {
    /// Not exactly two of ε, δ and the loss μ.
    #[error("give exactly two of --epsilon, --delta and --mu, found {found}")]
    Two {
        /// How many of the three were given.
        found: usize,
    },
    /// An ε, δ or μ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// A standard deviation or sensitivity out of range.
    #[error("{flag} must be zero or a positive number, found {found}")]
    Scale {
        /// The flag of the command line at fault.
        flag: &'static str,
        /// The number that was given.
        found: f64,
    },
    /// The execution file is refused.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// Checks that a standard deviation or sensitivity is zero or a positive number.
pub(crate) fn check_scale(flag: &'static str, found: f64) -> Result<(), AccountError> {
    if found >= 0.0 && found.is_finite() {
        Ok(())
    } else {
        Err(AccountError::Scale { flag, found })
    }
}

/// Squared losses for sensitivities of 1 turned into those for the file's sensitivities, or for
/// this one where it has none.
pub(super) fn with_sensitivity(
    execution: &Execution,
    losses: BTreeMap<Party, f64>,
    sensitivity: f64,
) -> BTreeMap<Party, f64> {
    let of_party = |party: Party| execution.sensitivity().map_or(sensitivity, |each| each[party]);
    losses
        .into_iter()
        .map(|(party, square)| (party, scaled(of_party(party), square)))
        .collect()
}

/// For fields that are written only where they are true.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Writes a number; JSON has no infinity, so that is null.
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

/// Writes a number a party, null for infinity.
pub(crate) fn finite_values<S: Serializer>(
    values: &BTreeMap<Party, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        values
            .iter()
            .map(|(party, value)| (party.to_string(), value.is_finite().then_some(*value))),
    )
}
