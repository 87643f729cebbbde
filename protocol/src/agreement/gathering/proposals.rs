//! STARTs of others: which one a node joins, and whether they begin without it.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::Flood;
use crate::agreement::gathering::signed::HeldStart;
use crate::agreement::gathering::{Gathering, GatheringStep, Unstarted};
use crate::messages::notice::{Seat, SetHash};
use crate::topology::party::Party;

fn parties_of(seats: &[Seat]) -> BTreeSet<Party> {
    seats.iter().map(|seat| seat.party).collect()
}

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
        // Whoever has said two things would be joined by some.
        for party in flood.starters(number).filter(|&party| !flood.lies(party)) {
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
            let joinable = seats.iter().all(current)
                && self.is_given_up_by(flood, seats)
                && same()
                && self.doubted(flood).is_disjoint(&parties_of(seats));
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
        let numbers = from..self.attendance.numbers;
        // A liar that signs STARTs of several numbers counts once.
        let by: BTreeSet<Party> = numbers
            .flat_map(|number| self.without_me(flood, number))
            .collect();
        (by.len() > self.attendance.colluding).then(|| by.into_iter().collect())
    }

    /// Members of the START that this node signed last, more than may lie, that have signed one of
    /// the same number without it, so that too few are left for this one or a later one.
    pub(super) fn excluded(&self, flood: &Flood) -> Option<Vec<Party>> {
        let signed = self.signed.as_ref()?;
        let is_member = |party: &Party| signed.seats.iter().any(|seat| seat.party == *party);
        let by: Vec<Party> = self
            .without_me(flood, signed.number)
            .into_iter()
            .filter(is_member)
            .collect();
        let is_too_few = signed.seats.len() - by.len() < self.attendance.min_parties;
        (by.len() > self.attendance.colluding && is_too_few).then_some(by)
    }

    /// The run ends, since not all have signed the START that this node signed last: `lacking` have
    /// not, and `kept` have not given it up with it.
    pub(super) fn not_common(&self, flood: &Flood, lacking: Vec<Party>, kept: Vec<Party>) -> GatheringStep {
        let number = self.signed.as_ref().map_or(0, |signed| signed.number);
        let (two, once): (Vec<Party>, Vec<Party>) = lacking
            .into_iter()
            .partition(|&party| flood.signed_two_starts(number, party));
        let (other, silent) = once
            .into_iter()
            .partition(|&party| flood.start(number, party).is_some());
        GatheringStep::Abort(Unstarted::NotCommon {
            silent,
            other,
            two,
            kept,
        })
    }

    /// Parties whose START of this number is over seats without this node's, ascending.
    fn without_me(&self, flood: &Flood, number: u8) -> Vec<Party> {
        let without = |party: &Party| {
            let start = flood.start(number, *party);
            let seats = start.and_then(|(hash, _)| flood.seats(&hash));
            seats.is_some_and(|seats| seats.binary_search(&self.me).is_err())
        };
        flood.starters(number).filter(without).collect()
    }

    /// Members of the START that this node signed last, and has given up, that have given up that
    /// number as well, whatever START they signed. A party that said one READY to some and another
    /// one to others had them sign two sets: they go on together, without it.
    pub(super) fn reunited(&self, flood: &Flood) -> Vec<Seat> {
        let Some(signed) = &self.signed else {
            return vec![];
        };
        let doubted = self.doubted(flood);
        let gave_up = |seat: &&Seat| signed.has_given_up(flood, seat);
        // Whoever said two READYs would split the next START, too.
        let is_one = |seat: &&Seat| !doubted.contains(&seat.party) && !flood.lies(seat.party);
        let seats = signed.seats.iter().filter(gave_up).filter(is_one);
        seats.copied().collect()
    }

    /// Members of the START that this node signed last whom more parties than may lie name by
    /// another start of its node, in a START of the same number.
    fn doubted(&self, flood: &Flood) -> BTreeSet<Party> {
        let Some(signed) = &self.signed else {
            return BTreeSet::new();
        };
        let mut sets: BTreeMap<SetHash, usize> = BTreeMap::new();
        for party in flood.starters(signed.number) {
            let start = flood.start(signed.number, party);
            *sets
                .entry(start.map_or(signed.hash, |(hash, _)| hash))
                .or_default() += 1;
        }
        let mut others: BTreeMap<Party, usize> = BTreeMap::new();
        for (hash, signers) in sets {
            let seats = flood.seats(&hash).unwrap_or_default().iter();
            let is_other = |seat: &&Seat| {
                let place = signed.seats.binary_search_by_key(&seat.party, |own| own.party);
                place.is_ok_and(|place| signed.seats[place] != **seat)
            };
            for seat in seats.filter(is_other) {
                *others.entry(seat.party).or_default() += signers;
            }
        }
        // Liars alone must not have a member doubted.
        others.retain(|_, signers| *signers > self.attendance.colluding);
        others.into_keys().collect()
    }
}
