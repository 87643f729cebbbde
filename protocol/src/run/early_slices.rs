//! Early slices: those of parties that sealed their finals before this node had heard every START.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// The slices from parties that sealed before START was here.
#[derive(Default)]
pub(super) struct EarlySlices(BTreeMap<(Party, u32), Vec<EarlySlice>>);

impl EarlySlices {
    /// Keeps a slice of an author and a number, if there is room.
    pub(super) fn keep(&mut self, of: (Party, u32), slice: EarlySlice) {
        let versions = self.0.entry(of).or_default();
        if versions.len() < EARLY_VERSIONS {
            versions.push(slice);
        }
    }

    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = EarlySlice> {
        self.0.into_values().flatten()
    }
}
