//! The sets that held notices name by their hashes: this node's own, and those that it got from
//! others, once each.

use std::collections::BTreeMap;

use crate::messages::notice::SetHash;
use crate::messages::set::Set;
use crate::messages::stage::Stage;

/// So many sets of others are held of START, and of each stage, beyond one for each party that may
/// lie: an honest party signs one, and nearly always the one that the others sign. Our guess.
pub(super) const SPARE_SETS: usize = 8;

/// What the notices are for that name a set: START, or a stage.
pub(super) type SetPurpose = Option<Stage>;

/// Sets by hash. Those of others are bounded in number, whatever is signed.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedSets {
    pub(super) own: BTreeMap<SetHash, Set>,
    pub(super) pulled: BTreeMap<SetHash, (SetPurpose, Set)>,
    /// So many parties may lie.
    pub(super) colluding: usize,
}
