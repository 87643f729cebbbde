//! Notices that are kept.

use std::fmt;
use std::sync::Arc;

use crate::messages::notice::{Incarnation, ItemHash, ItemSet, Notice, SignedNotice, item_hash};
use crate::messages::wire;
use crate::topology::party::Party;

/// A notice that is kept.
#[derive(Clone)]
pub struct Held {
    /// The author's sequence number.
    pub sequence: u64,
    /// The frame in which it travels.
    pub frame: Arc<[u8]>,
    /// What the notice says.
    pub notice: Notice,
    /// SHA-256 of a vote's set: sets are counted by it.
    pub(super) set_hash: ItemHash,
    /// The start of the author's node that a READY is of.
    pub(super) incarnation: Option<Incarnation>,
    /// How many notices were here before it.
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
        let set_hash = match &signed.notice {
            Notice::Vote { set, .. } => item_hash(&wire::set_to_bytes(set)),
            _ => [0; 32],
        };
        Held {
            sequence: signed.sequence,
            incarnation: signed.notice.incarnation(),
            frame,
            notice: signed.notice,
            set_hash,
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
    /// The set of items that is voted for.
    pub set: &'a ItemSet,
    /// SHA-256 of the set.
    pub hash: ItemHash,
}
