//! The settings in a run file beside its computation.

use crate::plan::exchange::choice::Exchange;
use crate::plan::run_file::settings::{Data, Privacy, RunSettings};

/// The settings that every computation has.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    /// The data that each party contributes to a sum.
    pub(crate) data: &'a Data,
    /// The target: ε, δ, and against whom.
    pub(crate) privacy: &'a Privacy,
    /// The way in which values travel and cancel.
    pub(crate) exchange: &'a Exchange,
    /// The run's time-outs and sizes.
    pub(crate) run: &'a RunSettings,
}
