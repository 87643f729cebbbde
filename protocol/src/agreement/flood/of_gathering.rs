//! The held notices of gathering.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::Flood;
use crate::agreement::flood::held::Held;
use crate::agreement::flood::slot::Slot;
use crate::messages::commitment::{Commitment, Commitments, Nonce};
use crate::messages::held_kind::Kind;
use crate::messages::notice::{Incarnation, Notice, Seat, SetHash, Unreached};
use crate::topology::party::Party;

impl Flood {
    /// The incarnation of a party's newest READY.
    pub fn ready(&self, party: Party) -> Option<Incarnation> {
        self.get(Slot::Ready(party))?.incarnation
    }

    /// The run key of a party's newest READY, which letters to it and from it are made with.
    pub fn run_key(&self, party: Party) -> Option<&[u8; 32]> {
        let (key, _) = self.get(Slot::Ready(party))?.notice.keys()?;
        Some(key)
    }

    /// The pair key of a party's newest READY, if it has one.
    pub fn pair_key(&self, party: Party) -> Option<&[u8; 32]> {
        let (_, pair) = self.get(Slot::Ready(party))?.notice.keys()?;
        pair
    }

    /// Returns the number of records of each of these parties by its newest READY, of those that
    /// announce one.
    pub fn records_of(&self, parties: &BTreeSet<Party>) -> BTreeMap<Party, u32> {
        let said = |&party: &Party| Some((party, self.get(Slot::Ready(party))?.notice.records()?));
        parties.iter().filter_map(said).collect()
    }

    /// Whether a party's newest word is that it leaves.
    pub fn has_withdrawn(&self, party: Party) -> bool {
        self.get(Slot::Ready(party))
            .is_some_and(|held| matches!(held.notice, Notice::Withdraw { .. }))
    }

    /// Returns each party's statement about neighbours that it does not reach.
    pub fn unreached(&self) -> impl Iterator<Item = (Party, &[Unreached])> {
        let all = Slot::Unreached(0)..=Slot::Unreached(Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::Unreached(author), Notice::Unreached { parties }) => Some((*author, &parties[..])),
                _ => None,
            })
    }

    /// The notice in which a party commits to its nonce for the START of this number: its newest
    /// READY, or that it gave up the START before.
    pub fn committing_notice(&self, number: u8, party: Party) -> Option<&Held> {
        self.get(match number.checked_sub(1) {
            None => Slot::Ready(party),
            Some(before) => Slot::GiveUp(before, party),
        })
    }

    /// The commitment to a party's nonce for the START of this number.
    pub fn commitment(&self, number: u8, party: Party) -> Option<&Commitment> {
        match &self.committing_notice(number, party)?.notice {
            Notice::Commit { commitment, .. } => Some(commitment),
            // A give-up commits to the next nonce at once, so that the next START needs no flood
            // more.
            Notice::GiveUp { next, .. } => next.as_ref(),
            _ => None,
        }
    }

    /// The commitments that a party's START of this number names, and the nonce that it reveals.
    pub fn reveal(&self, number: u8, party: Party) -> Option<(&Commitments, &Nonce)> {
        match &self.get(Slot::Start(number, party))?.notice {
            Notice::Reveal {
                commitments, nonce, ..
            } => Some((commitments, nonce)),
            _ => None,
        }
    }

    /// Every party with a READY, in order.
    pub fn readies(&self) -> Vec<Seat> {
        let seat = |party| {
            Some(Seat {
                party,
                incarnation: self.ready(party)?,
            })
        };
        (0..self.members.len()).filter_map(seat).collect()
    }

    /// Returns the number of parties with a READY.
    pub fn ready_parties(&self) -> usize {
        self.ready
    }

    /// Every party with a START of this number, in order.
    pub fn starters(&self, number: u8) -> impl Iterator<Item = Party> {
        let all = Slot::Start(number, 0)..=Slot::Start(number, Party::MAX);
        self.held.range(all).map(|(slot, _)| slot.kind().1)
    }

    /// Every party with a START of a higher number than this, in order.
    pub fn starters_after(&self, number: u8) -> BTreeSet<Party> {
        let all = Slot::Start(number, Party::MAX)..=Slot::Start(u8::MAX, Party::MAX);
        self.held
            .range(all)
            .map(|(slot, _)| slot.kind())
            // The range may begin with a slot of this number.
            .filter(|(kind, _)| *kind > Kind::Start(number))
            .map(|(_, party)| party)
            .collect()
    }

    /// The start of a party's node that has given up the START of this number, if one has.
    pub fn given_up(&self, number: u8, party: Party) -> Option<Incarnation> {
        match self.get(Slot::GiveUp(number, party))?.notice {
            Notice::GiveUp { incarnation, .. } => Some(incarnation),
            _ => None,
        }
    }

    /// The hash that a party's START of this number names its members by, and the start of its node
    /// that has signed it.
    pub fn start(&self, number: u8, party: Party) -> Option<(SetHash, Incarnation)> {
        match self.get(Slot::Start(number, party))?.notice {
            Notice::Start {
                incarnation, seats, ..
            }
            | Notice::Reveal {
                incarnation, seats, ..
            } => Some((seats, incarnation)),
            _ => None,
        }
    }
}
