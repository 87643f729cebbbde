//! What figures and tables are computed from.

use std::path::Path;

/// How much is drawn for a figure, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    /// Runs for each point; none: as many as take seconds.
    pub(crate) runs: Option<u64>,
    /// Seeds them.
    pub(crate) seed: u64,
}

/// What figures and tables are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grounds<'a> {
    /// For those that are drawn.
    pub(crate) draws: Draws,
    /// For those that need data, the folder with them.
    pub(crate) data: Option<&'a Path>,
}
