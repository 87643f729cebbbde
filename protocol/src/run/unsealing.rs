//! The way from agreed logs to a set of sealed finals that nothing is corrected in any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::messages::log::AgreedLogs;
use crate::messages::notice::ItemSet;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

/// How far a run has come since its logs were agreed.
pub(super) struct Unsealing {
    /// The agreed logs: they name what is sealed.
    pub(super) logs: Arc<AgreedLogs>,
    /// Who may be opened, as far as it is known.
    pub(super) members: BTreeSet<Party>,
    /// The agreed items of each stage of corrections that is over.
    pub(super) corrections: Vec<ItemSet>,
    /// With masks of pairs: of each stage of corrections that has begun, who owes the keys of masks
    /// with whom.
    pub(super) masks: Vec<BTreeMap<Party, Vec<Party>>>,
}

impl Unsealing {
    /// The logs were agreed just now.
    pub(super) fn of(logs: Arc<AgreedLogs>) -> Self {
        Unsealing {
            logs,
            members: BTreeSet::new(),
            corrections: Vec::new(),
            masks: Vec::new(),
        }
    }

    /// The number of the next correction, from 1.
    pub(super) fn next(&self) -> u32 {
        // As many as parties may depart, and one.
        self.corrections.len() as u32 + 1
    }

    /// The stage of the corrections that are not agreed yet.
    pub(super) fn stage(&self) -> Stage {
        Stage::Correction(self.next())
    }
}
