//! Early slices: those of parties that sealed their finals before this node had heard every START,
//! and those whose next party is not connected yet.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::messages::notice::SignedNotice;
use crate::messages::wire::Bytes;
use crate::topology::party::Party;

/// A slice that came before START was here.
pub(super) struct EarlySlice {
    /// The neighbour that sent it.
    pub(super) from: Party,
    pub(super) frame: Bytes,
    /// Its author's announcement, whose signature is good.
    pub(super) signed: SignedNotice,
    /// The range of the frame that holds the item.
    pub(super) bytes: Range<usize>,
}

/// The most versions of an author's slice that are kept until START is here: an honest author has
/// one.
const EARLY_VERSIONS: usize = 2;

/// The slices that came, or are to leave, too early.
#[derive(Default)]
pub(super) struct EarlySlices {
    came: BTreeMap<(Party, u32), Vec<EarlySlice>>,
    /// Frames for neighbours that were not connected when these were due.
    unsent: BTreeMap<Party, Vec<Arc<[u8]>>>,
}

impl EarlySlices {
    /// Keeps a slice of an author and a number, if there is room.
    pub(super) fn keep(&mut self, of: (Party, u32), slice: EarlySlice) {
        let versions = self.came.entry(of).or_default();
        if versions.len() < EARLY_VERSIONS {
            versions.push(slice);
        }
    }

    /// All that came.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = EarlySlice> + use<> {
        std::mem::take(&mut self.came).into_values().flatten()
    }

    /// Keeps a frame until its next party is connected.
    pub(super) fn hold(&mut self, to: Party, frame: Arc<[u8]>) {
        self.unsent.entry(to).or_default().push(frame);
    }

    /// The frames that were kept for a party.
    pub(super) fn take_unsent(&mut self, to: Party) -> Vec<Arc<[u8]>> {
        self.unsent.remove(&to).unwrap_or_default()
    }
}
