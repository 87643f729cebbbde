//! Notices that are kept.

use std::fmt;
use std::sync::Arc;

use crate::messages::notice::{Incarnation, ItemHash, ItemSet, Notice, SetHash, SignedNotice};
use crate::messages::row::Row;
use crate::messages::signature::Signature;
use crate::topology::party::Party;

/// A notice that is kept.
#[derive(Clone)]
pub struct Held {
    /// The author's sequence number.
    pub sequence: u64,
    /// The frame in which it travels.
    pub frame: Arc<[u8]>,
    /// The notice itself.
    pub notice: Notice,
    /// Its author's signature.
    pub(super) signature: Signature,
    /// The start of the author's node that a READY is of.
    pub(super) incarnation: Option<Incarnation>,
    /// The number of earlier notices in its slot.
    pub(super) replaced: u32,
}

/// Without the frame, which has every byte of what the notice does not print.
impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({}, {:?})", self.sequence, self.notice)
    }
}

impl Held {
    pub(super) fn new(signed: SignedNotice, frame: Arc<[u8]>) -> Self {
        Held {
            sequence: signed.sequence,
            incarnation: signed.notice.incarnation(),
            frame,
            signature: signed.signature,
            notice: signed.notice,
            replaced: 0,
        }
    }

    /// Hash and length of the item that it announces, if it does.
    pub fn item(&self) -> Option<(ItemHash, u64)> {
        match self.notice {
            Notice::Item { hash, bytes, .. } => Some((hash, bytes)),
            _ => None,
        }
    }
}

/// A vote that is held.
#[derive(Clone, Copy, Debug)]
pub struct HeldVote<'a> {
    /// The member that signed the vote.
    pub signer: Party,
    /// Whether it was signed before the signer's half-time.
    pub early: bool,
    /// The set of items that is voted for, once it is here.
    pub set: Option<&'a ItemSet>,
    /// The set's hash: sets are counted by it.
    pub hash: SetHash,
}

/// A list that is held.
#[derive(Clone, Copy, Debug)]
pub struct HeldList<'a> {
    /// The member that signed the list.
    pub author: Party,
    /// The parties whose items the author holds.
    pub held: &'a Row,
    /// The versions that the author holds, of parties that have signed more than one item.
    pub versions: &'a ItemSet,
}

impl HeldList<'_> {
    /// The items of the list, as far as one can tell here: of a party that has signed several, only
    /// the one that the list names; of another, the one that there is, which is `known` here, and a
    /// hash of nothing while it is not.
    pub fn items(
        &self,
        signed_several: impl Fn(Party) -> bool,
        known: impl Fn(Party) -> Option<ItemHash>,
    ) -> ItemSet {
        let item = |party| {
            let place = self.versions.binary_search_by_key(&party, |entry| entry.0);
            let hash = match place {
                Ok(place) => self.versions[place].1,
                // Nobody can tell which of the versions the list's author holds.
                Err(_) if signed_several(party) => return None,
                Err(_) => known(party).unwrap_or([0; 32]),
            };
            Some((party, hash))
        };
        self.held.parties().filter_map(item).collect()
    }
}
