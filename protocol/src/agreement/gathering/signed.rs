//! A START that this node has signed, and what its members have said of it.
//!
//! # One set at most
//! Let H be an honest node, c = `colluding`, D = `dropouts`.
//!
//! *H begins one set at most.* It begins only with the set of the number that it is at, and leaves
//! that number only by giving it up ([`Notice::GiveUp`]). [`Gathering`](super::Gathering) is used
//! up by beginning, and signs START(a + 1) only over a `Signed` that is given up; the number only
//! grows. So it never begins with a number that it has given up, and after it has begun it gives
//! nothing up. Each of its keys therefore masks one vector.
//!
//! *If S′ of number a + 1 begins anywhere, no honest member of S′ ever begins S of number a.* S′
//! begins only with START(a + 1, S′) of each of its members; an honest one signs that after it gave
//! a up. So the honest nodes that have begun S are outside S′. |S′| ≥ `min_parties` = n − D at
//! least, so they are at most D. With the colluders they are at most D + c, and a quorum takes more
//! than (n + c)/2 > D + c of the n members, since n − D > (n + c)/2 is what `min_parties` has to
//! exceed. So none of them ever agrees on a set, and what they sealed stays closed.
//!
//! *A node that has begun S hears of it.* Once START(a + 1) of more than c members is here, an
//! honest one is among them. Once more than c + D members have given a up, more than D honest ones
//! have, so that S has no agreed set of `min_parties`. The run then stops before it seals anything
//! ([`Run`]).
//!
//! *A START(a + 1) is joined only once give-ups of a of all of its members are here.* So it is over
//! no member that may have begun S, and a member has committed to its nonce of that number before
//! anybody shows another.
//!
//! A liar that says two READYs to two halves has them sign two sets, and both are given up. The
//! next START is over all who gave up, whichever set they signed, without it
//! ([`reunited`](super::Gathering)).
//!
//! Not covered: a liar that has nodes sign different sets of the last number as well, with READYs
//! or give-ups that reach them within the time of one flood before they sign; that ends the run for
//! all. And a liar that shows its START of S to one node only, at the moment at which the others
//! give up. That node begins, alone, and has no result. If `dropouts` has no room for both, nobody
//! has.
//!
//! [`Run`]: crate::run::machine::Run

use std::collections::BTreeMap;

use crate::agreement::flood::Flood;
use crate::messages::commitment::{Commitments, commitment};
use crate::messages::notice::{Incarnation, Seat, SetHash};
use crate::messages::signature::Digest;
use crate::time::Time;
use crate::topology::party::Party;

/// The START of a party as it is held: the set that it names, and the commitments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldStart<'a> {
    pub(super) seats: SetHash,
    pub(super) commitments: Option<&'a Commitments>,
}

impl<'a> HeldStart<'a> {
    pub(super) fn of(flood: &'a Flood, number: u8, party: Party) -> Option<Self> {
        Some(HeldStart {
            seats: flood.start(number, party)?.0,
            commitments: flood.reveal(number, party).map(|(commitments, _)| commitments),
        })
    }
}

/// A START that this node has signed.
pub(super) struct Signed {
    /// The number of this START within the run.
    pub(super) number: u8,
    /// Its members, ascending by party.
    pub(super) seats: Vec<Seat>,
    /// The hash that its notice names them by.
    pub(super) hash: SetHash,
    /// The hash of their commitments, where it draws the schedule.
    pub(super) commitments: Option<Commitments>,
    /// The moment when it was signed.
    pub(super) at: Time,
    /// The moment when this node gave it up.
    pub(super) given_up: Option<Time>,
    /// Refused STARTs were asked for again.
    pub(super) recalled: bool,
    /// Members that were not yet seen to have signed it: once one has, that stays
    /// ([`flood`](crate::agreement::flood)).
    pending: BTreeMap<Party, Incarnation>,
    /// The largest number of members whose START this node has held so far.
    starts: usize,
    /// The moment when `starts` last grew; at first, when this START was signed.
    news: Time,
    /// The plan's digest, where START draws the schedule.
    draws: Option<Digest>,
}

impl Signed {
    /// A START that is signed now. `draws`: the plan's digest, where it draws the schedule.
    pub(super) fn new(
        number: u8,
        (seats, hash): (Vec<Seat>, SetHash),
        commitments: Option<Commitments>,
        draws: Option<Digest>,
        now: Time,
    ) -> Self {
        Signed {
            number,
            pending: seats.iter().map(|seat| (seat.party, seat.incarnation)).collect(),
            seats,
            hash,
            commitments,
            at: now,
            given_up: None,
            recalled: false,
            starts: 0,
            news: now,
            draws,
        }
    }

    /// Whether a party's START, as it is held, is this one.
    pub(super) fn is(&self, said: &HeldStart<'_>) -> bool {
        self.hash == said.seats && self.commitments.as_ref() == said.commitments
    }

    /// Whether this start of a party's node has signed the same, and reveals the nonce that it
    /// committed to.
    pub(super) fn has_signed(&self, flood: &Flood, seat: Seat) -> bool {
        let same = HeldStart::of(flood, self.number, seat.party).is_some_and(|said| self.is(&said));
        let by_it = flood.start(self.number, seat.party);
        // An earlier start of its node may have signed the same, and runs no longer.
        same && by_it.is_some_and(|(_, by)| by == seat.incarnation) && !self.lies(flood, seat.party)
    }

    /// Whether a party's nonce is not the one that it committed to. Its commitment is the one that
    /// its START names: none is replaced once this node has signed.
    fn lies(&self, flood: &Flood, party: Party) -> bool {
        // A party free to reveal any nonce could choose the schedule after it has seen all others.
        self.draws.as_ref().is_some_and(|digest| {
            !flood.reveal(self.number, party).is_some_and(|(_, nonce)| {
                flood.commitment(self.number, party) == Some(&commitment(digest, party, nonce))
            })
        })
    }

    /// Whether this start of a member's node has given this START up.
    pub(super) fn has_given_up(&self, flood: &Flood, seat: &Seat) -> bool {
        flood.given_up(self.number, seat.party) == Some(seat.incarnation)
    }

    /// Returns up to `most` members that have not signed the same, ascending.
    pub(super) fn lacking(&mut self, flood: &Flood, most: usize) -> Vec<Party> {
        let (mut lacking, mut seen) = (Vec::new(), Vec::new());
        // In a large run this is asked with each START that comes: who was seen to have signed is
        // dropped.
        for (&party, &incarnation) in &self.pending {
            if lacking.len() == most {
                break;
            }
            match self.has_signed(flood, Seat { party, incarnation }) {
                true => seen.push(party),
                false => lacking.push(party),
            }
        }
        seen.iter().for_each(|party| {
            self.pending.remove(party);
        });
        lacking
    }

    /// Whether this party is a member that is not yet known to have signed the same.
    pub(super) fn lacks(&self, flood: &Flood, party: Party) -> bool {
        self.pending
            .get(&party)
            .is_some_and(|&incarnation| !self.has_signed(flood, Seat { party, incarnation }))
    }

    /// Returns the moment when a START of a member last came that was not here before. A give-up is
    /// no such news: who waited longer for it would still begin with a member that wakes meanwhile,
    /// and without the one that has given up.
    pub(super) fn last_news(&mut self, flood: &Flood, now: Time) -> Time {
        let has_started = |seat: &&Seat| {
            let start = flood.start(self.number, seat.party);
            start.is_some_and(|(_, by)| by == seat.incarnation)
        };
        let starts = self.seats.iter().filter(has_started).count();
        // Replaced STARTs of one member must not prolong the wait for ever.
        if starts > self.starts {
            (self.starts, self.news) = (starts, now);
        }
        self.news
    }

    /// Returns the moment when a START of a member last came, as far as it was looked at.
    pub(super) fn known_news(&self) -> Time {
        self.news
    }

    /// Other members that have signed this START and not given it up, ascending.
    pub(super) fn kept(&self, flood: &Flood, me: Party) -> Vec<Party> {
        let keeps = |seat: &&Seat| self.has_signed(flood, **seat) && !self.has_given_up(flood, seat);
        let kept = self.seats.iter().filter(keeps).map(|seat| seat.party);
        kept.filter(|party| *party != me).collect()
    }

    /// Members that have signed this START and given it up, and how many have signed it, without
    /// known liars.
    pub(super) fn survivors(&self, flood: &Flood) -> (Vec<Seat>, usize) {
        // A known liar would have the next START fail as well.
        let counts = |seat: &&Seat| self.has_signed(flood, **seat) && !flood.lies(seat.party);
        let signed = self.seats.iter().filter(counts);
        let signed: Vec<Seat> = signed.copied().collect();
        let count = signed.len();
        let both = signed.into_iter().filter(|seat| self.has_given_up(flood, seat));
        (both.collect(), count)
    }
}
