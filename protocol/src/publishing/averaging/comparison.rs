//! How far a node is with comparing its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::publishing::averaging::averaged::{Averaged, VerifiedMean};
use crate::time::Time;
use crate::topology::party::Party;

/// What a node that has ended still does with its result.
#[derive(Default)]
pub(super) struct Comparing {
    /// This node's mean as it was when it ended, if it was of all of E and within ν/2.
    pub(super) mean: Option<Arc<VerifiedMean>>,
    /// Until it is given out.
    pub(super) result: Option<Averaged>,
    pub(super) ended_at: Time,
    /// Whose sums were compared with this node's, and whether they are near.
    pub(super) compared: BTreeMap<Party, bool>,
    /// How many sums this node has told.
    pub(super) told: u8,
    /// Whose ends these took into account.
    pub(super) heard: BTreeSet<Party>,
    /// Since when there has been another.
    pub(super) unheard_since: Option<Time>,
}
