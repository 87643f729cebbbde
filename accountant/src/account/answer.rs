//! What the answers of `undertone account` share: what the command line prints as tables and, under
//! `--json`, as CONTRACTS names them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use undertone_protocol::topology::party::Party;

use crate::execution::error::ExecutionError;
use crate::losses::gaussian::GaussianError;

/// Why an account was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AccountError {
    /// Not exactly two of ε, δ and μ.
    #[error("give exactly two of --epsilon, --delta and --mu, found {found}")]
    Two {
        /// How many were given.
        found: usize,
    },
    /// A number out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// A standard deviation or sensitivity out of range.
    #[error("{flag} must be zero or a positive number, found {found}")]
    Scale {
        /// The flag.
        flag: &'static str,
        /// What was given.
        found: f64,
    },
    /// The execution file.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// That a standard deviation or sensitivity is zero or a positive number.
pub(crate) fn check_scale(flag: &'static str, found: f64) -> Result<(), AccountError> {
    if found >= 0.0 && found.is_finite() {
        Ok(())
    } else {
        Err(AccountError::Scale { flag, found })
    }
}

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// JSON has no infinity: null.
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

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
