//! The sets that parties sign: who takes part, and which items count. A notice names a set by its
//! hash, so that what everybody signs travels once and not n times.

use serde::{Deserialize, Serialize};

use crate::messages::notice::{ItemSet, Seat};
use crate::topology::party::Party;

/// A set that a notice names, ascending by party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Set {
    /// The parties that take part, over which a START is.
    Seats(Vec<Seat>),
    /// The items that count, which a vote is for.
    Items(ItemSet),
}

impl Set {
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
