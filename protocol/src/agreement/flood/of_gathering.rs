//! What is held of gathering.

use crate::agreement::flood::Flood;
use crate::agreement::flood::slot::Slot;
use crate::messages::commitment::{Commitment, Commitments, Nonce};
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

    /// Whether a party's newest word is that it leaves.
    pub fn has_withdrawn(&self, party: Party) -> bool {
        self.get(Slot::Ready(party))
            .is_some_and(|held| matches!(held.notice, Notice::Withdraw { .. }))
    }

    /// What each party says of neighbours that it does not reach.
    pub fn unreached(&self) -> impl Iterator<Item = (Party, &[Unreached])> {
        let all = Slot::Unreached(0)..=Slot::Unreached(Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::Unreached(author), Notice::Unreached { parties }) => Some((*author, &parties[..])),
                _ => None,
            })
    }

    /// What a party's newest READY commits to.
    pub fn commitment(&self, party: Party) -> Option<&Commitment> {
        match &self.get(Slot::Ready(party))?.notice {
            Notice::Commit { commitment, .. } => Some(commitment),
            _ => None,
        }
    }

    /// The commitments that a party's START names, and the nonce that it reveals.
    pub fn reveal(&self, party: Party) -> Option<(&Commitments, &Nonce)> {
        match &self.get(Slot::Start(party))?.notice {
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

    /// How many parties have a READY.
    pub fn ready_parties(&self) -> usize {
        self.ready
    }

    /// Every party with a START, in order.
    pub fn starters(&self) -> impl Iterator<Item = Party> {
        let all = Slot::Start(0)..=Slot::Start(Party::MAX);
        self.held.range(all).map(|(slot, _)| slot.kind().1)
    }

    /// What a party's START names who takes part by, and the start of its node that has signed it.
    pub fn start(&self, party: Party) -> Option<(SetHash, Incarnation)> {
        match self.get(Slot::Start(party))?.notice {
            Notice::Start { incarnation, seats }
            | Notice::Reveal {
                incarnation, seats, ..
            } => Some((seats, incarnation)),
            _ => None,
        }
    }
}
