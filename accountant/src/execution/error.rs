//! The reasons why an execution is refused, and the checks of every list of parties in one.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

use crate::mechanism::unfit::Unfit;

/// The reasons why an execution is refused. Always the file's fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExecutionError {
    /// Not JSON, or not these keys.
    #[error("execution file, line {line}, column {column}: {message}")]
    Syntax {
        /// The line at fault, from 1.
        line: usize,
        /// The column at fault, from 1.
        column: usize,
        /// The parser's message: what it expected.
        message: String,
    },
    /// An entry that contradicts the rest.
    #[error("execution file, {place}: {problem}")]
    Invalid {
        /// The key, with its indices.
        place: String,
        /// The problem, and how to fix it.
        problem: String,
    },
}

impl ExecutionError {
    /// Returns the error for a text that serde refused.
    pub(crate) fn syntax(error: &serde_json::Error) -> Self {
        ExecutionError::Syntax {
            line: error.line(),
            column: error.column(),
            message: error.to_string(),
        }
    }
}

impl From<Unfit> for ExecutionError {
    fn from(unfit: Unfit) -> Self {
        invalid(unfit.place(), unfit.to_string())
    }
}

/// The refusal of an entry.
pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> ExecutionError {
    ExecutionError::Invalid {
        place: place.into(),
        problem: problem.into(),
    }
}

/// Checks that there is a party at all.
pub(crate) fn check_some(parties: usize) -> Result<(), ExecutionError> {
    if parties == 0 {
        return Err(invalid("parties", "must be at least 1"));
    }
    Ok(())
}

/// Checks that `party` is one of 0 … `parties` − 1.
pub(crate) fn check_party(
    parties: usize,
    place: impl Fn() -> String,
    party: Party,
) -> Result<(), ExecutionError> {
    if party < parties {
        return Ok(());
    }
    Err(invalid(
        place(),
        format!(
            "party {party} is out of range: parties count from 0 to {}",
            parties - 1
        ),
    ))
}

/// The set of a list of parties, each in range and none twice.
pub(crate) fn party_set(
    parties: usize,
    place: &str,
    list: &[Party],
) -> Result<BTreeSet<Party>, ExecutionError> {
    let mut set = BTreeSet::new();
    for (index, &party) in list.iter().enumerate() {
        check_party(parties, || format!("{place}[{index}]"), party)?;
        if !set.insert(party) {
            return Err(invalid(
                format!("{place}[{index}]"),
                format!("party {party} is listed twice"),
            ));
        }
    }
    Ok(set)
}
