//! The sets that held notices name by their hashes: this node's own, and those that it got from
//! others, once each.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::notice::{Notice, SetHash};
use crate::messages::set::Set;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

/// Maximum number of others' sets held of START, and of each stage, beyond one for each party that
/// may lie: an honest party signs one, and nearly always the one that the others sign. Our guess.
pub(super) const SPARE_SETS: usize = 8;

/// The notices that name a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetPurpose {
    /// The STARTs of this number.
    Start(u8),
    /// The votes of this stage.
    Stage(Stage),
}

/// Sets by hash. Those of others are bounded in number, whatever is signed.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedSets {
    pub(super) own: BTreeMap<SetHash, Set>,
    /// The signers of each set, by the notices that are held.
    pub(super) signers: BTreeMap<(SetPurpose, SetHash), BTreeSet<Party>>,
    pub(super) pulled: BTreeMap<SetHash, (SetPurpose, Set)>,
    /// The number of parties that may lie.
    pub(super) colluding: usize,
}

/// Returns the purpose and the hash of the set that a notice names.
fn naming(notice: &Notice) -> Option<(SetPurpose, SetHash)> {
    match notice {
        Notice::Start { number, seats, .. } | Notice::Reveal { number, seats, .. } => {
            Some((SetPurpose::Start(*number), *seats))
        }
        Notice::Vote { stage, set, .. } => Some((SetPurpose::Stage(*stage), *set)),
        _ => None,
    }
}

impl NamedSets {
    /// A notice of this author is held from now on.
    pub(super) fn note(&mut self, author: Party, notice: &Notice) {
        if let Some(named) = naming(notice) {
            self.signers.entry(named).or_default().insert(author);
        }
    }

    /// A notice of this author is held no longer.
    pub(super) fn forget(&mut self, author: Party, notice: &Notice) {
        let Some(named) = naming(notice) else { return };
        if let Some(signers) = self.signers.get_mut(&named) {
            signers.remove(&author);
            if signers.is_empty() {
                self.signers.remove(&named);
            }
        }
    }
}
