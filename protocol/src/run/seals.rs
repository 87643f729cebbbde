//! What a node seals its final with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::rngs::ChaCha20Rng;

use crate::messages::notice::ItemHash;
use crate::sealing::deal::Secret;
use crate::sealing::holders::{HolderOrder, Threshold};
use crate::sealing::pair_masks::PairMasks;
use crate::sealing::run_key::RunKey;
use crate::topology::party::Party;

/// What a node seals with, and reads letters with: from START on, once its members' keys are
/// fixed. Wiped when the run ends.
pub(super) struct Seals {
    pub(super) run_key: Arc<RunKey>,
    pub(super) rng: ChaCha20Rng,
    /// The run keys of START's members.
    pub(super) keys: BTreeMap<Party, [u8; 32]>,
    pub(super) threshold: Threshold,
    pub(super) order: HolderOrder,
    /// This node's masks with its neighbours in the mask graph; none where there is none, or once
    /// nothing is corrected any more.
    pub(super) masks: Option<PairMasks>,
    /// What this node's final is sealed with, once it is.
    pub(super) own: Option<Secret>,
    /// The log that this node's final left with, once it has, until others are seen to hold it.
    pub(super) left_with: Option<ItemHash>,
}

impl Seals {
    /// Wipes the keys of this release's masks; those of the next one follow from them first, if
    /// there may be one.
    pub(super) fn wipe_masks(&mut self, goes_on: bool) {
        match &mut self.masks {
            Some(masks) if goes_on => masks.advance(),
            _ => self.masks = None,
        }
    }

    /// Goes on to a release of these parties.
    pub(super) fn go_on(&mut self, started: &BTreeSet<Party>, threshold: Threshold) {
        self.keys.retain(|party, _| started.contains(party));
        self.masks.iter_mut().for_each(|masks| masks.retain(started));
        (self.threshold, self.own, self.left_with) = (threshold, None, None);
    }
}
