//! How a measurement fails that should not: by our bug.

use crate::reporting::failure::{Exit, Failure};

/// The failure of a benchmark, for this reason.
pub(super) fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the benchmark failed: {what}"))
}
