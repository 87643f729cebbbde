//! What figures that rest on chance are drawn from.

/// How much is drawn for a figure, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    /// Runs for each point; none: as many as take seconds.
    pub(crate) runs: Option<u64>,
    /// Seeds them.
    pub(crate) seed: u64,
}
