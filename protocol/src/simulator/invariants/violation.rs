//! An invariant that does not hold.

use thiserror::Error;

/// An invariant that does not hold. It holds no values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invariant {invariant}: {text}")]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// The observed violation.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, text: impl Into<String>) -> Self {
        Violation {
            invariant,
            text: text.into(),
        }
    }
}
