//! The record of a training so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::outcome::Outcome;
use crate::time::Time;
use crate::topology::party::Party;

/// A training ends once so many sums in a row are rejected. Our choice: a rejected sum costs every
/// party a release, and nobody can prove whose vector or mask was wrong, so that its author stays
/// and can corrupt the next one as well; once or twice may be a value that overflowed.
pub(super) const MOST_REJECTED: u32 = 3;

/// The record of the training so far.
#[derive(Default)]
pub(super) struct TrainingRecord {
    pub(super) corrected: Vec<u64>,
    pub(super) rejected: Vec<u64>,
    /// Iterations that were not opened, and whose secrets were lacking.
    pub(super) unopened: BTreeMap<u64, Vec<Party>>,
    /// The number of the latest sums that were rejected without a break.
    pub(super) rejected_in_a_row: u32,
    /// Whether any sum was of use.
    pub(super) any_of_use: bool,
    pub(super) departed: BTreeMap<Party, u64>,
    /// The parties whose contributions others opened, in any iteration.
    pub(super) opened_for: BTreeSet<Party>,
    /// Iterations of which this node's own contribution may be read in a sum.
    pub(super) spent: u64,
    /// The parties that began, and the moment when this node held every START.
    pub(super) began: (BTreeSet<Party>, Option<Time>),
    /// The outcome of the last iteration that was opened here.
    pub(super) last: Option<Box<Outcome>>,
    pub(super) finished: bool,
}
