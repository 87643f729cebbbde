//! STARTs of others: which one a node joins, and whether they begin without it.

use std::collections::BTreeSet;

use crate::agreement::flood::Flood;
use crate::agreement::gathering::Gathering;
use crate::agreement::gathering::signed::HeldStart;
use crate::messages::notice::Seat;
use crate::topology::party::Party;

impl Gathering {
    /// The seats that a party's START of this number names, if they are known, and this node and
    /// its signer are among them.
    pub(super) fn proposal<'a>(&self, flood: &'a Flood, number: u8, party: Party) -> Option<&'a [Seat]> {
        let (seats, incarnation) = flood.start(number, party)?;
        let seats = flood.seats(&seats)?;
        let names = |seat: &Seat| seats.binary_search(seat).is_ok();
        let named = names(&self.me) && names(&Seat { party, incarnation });
        // A later START is over some of those of the one before.
        let before = self.signed.as_ref().map(|signed| &signed.seats);
        let within = |seat: &Seat| before.is_none_or(|before| before.binary_search(seat).is_ok());
        let fits = seats.len() >= self.attendance.min_parties && seats.iter().all(within);
        (named && fits).then_some(seats)
    }

    /// The START of somebody else to join: it names this start of this node, and every READY that
    /// it names is held and newest. If there are several, the one that most parties signed. A node
    /// that has signed one signs no other of its number, so joining beats proposing.
    pub(super) fn joined(&self, flood: &Flood, number: u8) -> Option<Vec<Seat>> {
        let current = |seat: &Seat| flood.ready(seat.party) == Some(seat.incarnation);
        // Every distinct one is looked at once, however many have signed it.
        let mut candidates: Vec<(HeldStart<'_>, Option<&[Seat]>, usize)> = Vec::new();
        for party in flood.starters(number) {
            let (Some(said), Some(seats)) = (
                HeldStart::of(flood, number, party),
                self.proposal(flood, number, party),
            ) else {
                continue;
            };
            if let Some((_, _, signers)) = candidates.iter_mut().find(|(other, ..)| *other == said) {
                *signers += 1;
                continue;
            }
            let same = || said.commitments.copied() == self.commitments(flood, number, seats);
            let joinable = seats.iter().all(current) && self.is_given_up_by(flood, seats) && same();
            candidates.push((said, joinable.then_some(seats), 1));
        }
        let joinable = candidates
            .into_iter()
            .filter_map(|(_, seats, signers)| Some((seats?, signers)));
        // The first of equal ones is taken.
        let most = joinable.rev().max_by_key(|(_, signers)| *signers);
        most.map(|(seats, _)| seats.to_vec())
    }

    /// Whether each of these seats has given up the START that this node signed last, if it has
    /// signed one. Without that a liar could have one node join a START over members that began
    /// with the one before, or over itself before it has committed to a nonce.
    fn is_given_up_by(&self, flood: &Flood, seats: &[Seat]) -> bool {
        let signed = self.signed.as_ref();
        signed.is_none_or(|signed| seats.iter().all(|seat| signed.has_given_up(flood, seat)))
    }

    /// More parties than may lie that have signed a START of this number or a later one without
    /// this node. An honest one is among them: it begins with a part of that set, if at all.
    pub(super) fn left_out(&self, flood: &Flood, from: u8) -> Option<Vec<Party>> {
        let without = |number: u8| {
            flood.starters(number).filter(move |&party| {
                let seats = flood
                    .start(number, party)
                    .and_then(|(hash, _)| flood.seats(&hash));
                seats.is_some_and(|seats| seats.binary_search(&self.me).is_err())
            })
        };
        let by: BTreeSet<Party> = (from..self.attendance.numbers).flat_map(without).collect();
        (by.len() > self.attendance.colluding).then(|| by.into_iter().collect())
    }
}
