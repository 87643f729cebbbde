//! The sets that parties sign: who takes part, and which items count. A notice names a set by its
//! hash, so that what everybody signs travels once and not n times.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::messages::notice::{ItemSet, Seat};
use crate::messages::wire;
use crate::topology::party::Party;

/// SHA-256 of a set's bytes.
pub type SetHash = [u8; 32];

/// A set that a notice names, ascending by party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Set {
    /// Who takes part: what a START is over.
    Seats(Vec<Seat>),
    /// Which items count: what a vote is for.
    Items(ItemSet),
}

impl Set {
    /// What notices name it by.
    pub fn hash(&self) -> SetHash {
        Sha256::digest(wire::set_to_bytes(self)).into()
    }

    /// Whether it names parties of a plan with so many only, each once and in order.
    pub fn is_of(&self, parties: usize) -> bool {
        match self {
            Set::Seats(seats) => ascending(seats, parties, |seat| seat.party),
            Set::Items(items) => ascending(items, parties, |item| item.0),
        }
    }
}

/// Whether each entry is of a later party than the one before, and of one of the plan's.
pub fn ascending<T>(entries: &[T], parties: usize, party: impl Fn(&T) -> Party) -> bool {
    entries.windows(2).all(|pair| party(&pair[0]) < party(&pair[1]))
        && entries.last().is_none_or(|last| party(last) < parties)
}
