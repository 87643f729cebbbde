//! Presence of parties while a node gathers: nobody signs START over a READY whose author has left
//! since.
//!
//! - A READY is void once its author withdraws it, or once a neighbour's connection is lost and its
//!   address refuses a new one. It takes a newer READY, or the author's own repetition of this one
//!   (it was the network that failed), to be counted again.
//! - A party that has said no READY and whose address refuses connections is away as well, and so
//!   is one for which nothing answers: power off, a firewall, an address that is no more.
//! - Each node says every [`PULSE_MS`] to its public neighbours that it is here, less often where
//!   these are many ([`pulse_ms`]). Of whom it hears nothing for three and a half times as long
//!   over a connection that stands, it may be stopped: its READY does not count until it speaks
//!   again, and it is waited for. After twice that time nothing answers for it: START gives up who
//!   is silent for as long, too.
//! - A public neighbour that is not connected may be stopped or about to refuse, and one that has
//!   just connected may have started anew: its READY, which others have passed on, counts only once
//!   it says the same itself over the connection that stands, or once `join_ms` is over. Somebody
//!   who reaches both proposes earlier.
//! - Of a party that is no neighbour, what its neighbours say counts: all who are ready and not
//!   called away themselves, and more than `colluding` of them, about the very READY that is here.
//!   So nobody is left out at the word of liars alone, and a liar who keeps silent about a
//!   neighbour that is gone only has it waited for.
//!
//! All of this decides only which START a node *proposes*; whoever signed one signs no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::agreeing::Electorate;
use crate::agreement::flood::Flood;
use crate::messages::notice::{Found, Incarnation, Network, Unreached};
use crate::time::Time;
use crate::topology::party::Party;

/// The interval at which a node that gathers says that it is here. Our choice: a message of about
/// 150 bytes a second and neighbour.
pub const PULSE_MS: u64 = 1000;

/// The interval per public neighbour of the node, which counts where it exceeds [`PULSE_MS`] in
/// sum. Our choice: signing, sending and checking it takes some 100 µs, so that a machine on which
/// all parties run spends a few hundredths of its time on it.
const PULSE_MS_PER_NEIGHBOUR: u64 = 40;

/// Returns the interval at which a node with this many public neighbours says that it is here.
pub fn pulse_ms(neighbours: usize) -> u64 {
    PULSE_MS.max(PULSE_MS_PER_NEIGHBOUR.saturating_mul(neighbours as u64))
}

/// A party with so many public neighbours of which nothing was heard for this long, three pulses
/// and some delay, is silent. Our choice: a busy machine holds up a process for less.
pub fn silent_ms(neighbours: usize) -> u64 {
    pulse_ms(neighbours).saturating_mul(7) / 2
}

/// The standing of a party before START.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The party is ready, and there as far as anybody knows.
    Ready,
    /// The party is not ready yet, and its address does not refuse connections.
    Awaited,
    /// The party is ready by what others pass on, and is not connected to this node, or has not
    /// said so itself since it is.
    Apart,
    /// The party was ready and says nothing any more.
    Silent,
    /// The party has never been there: its address refuses connections.
    Absent,
    /// The party was there, and has withdrawn or is lost: its address refuses connections.
    Unreachable,
    /// The party has said that it takes no part.
    Declined,
    /// The party does not answer: neither that it is there nor that it is not.
    Unanswered,
}

impl Standing {
    /// Whether such a party cannot be reached: it is waited for until the grace is over.
    pub fn is_away(self) -> bool {
        matches!(
            self,
            Standing::Absent | Standing::Unreachable | Standing::Declined | Standing::Unanswered
        )
    }

    /// The name of its kind, as messages say it of one party or of several.
    pub fn phrase(self) -> &'static str {
        match self {
            Standing::Ready => "ready",
            Standing::Awaited => "not ready yet",
            Standing::Apart => "ready, but not connected with this node",
            Standing::Silent => "ready, then silent",
            Standing::Absent => "never connected, its address refuses connections",
            Standing::Unreachable => "was connected, then left or was lost",
            Standing::Declined => "takes no part",
            Standing::Unanswered => "nothing answers at its address",
        }
    }
}

/// The presence of parties, as far as this node finds it itself.
pub struct Presence {
    electorate: Electorate,
    /// Neighbours of this node that are not everybody's: others depend on its word about them.
    vouched: Vec<Party>,
    /// The moment when each public neighbour that is connected was last heard.
    heard: BTreeMap<Party, Time>,
    /// Public neighbours that are connected and have not said their READY since.
    unconfirmed: BTreeSet<Party>,
    /// Neighbours that were not reached when that was tried last, and were not connected since.
    unreached: BTreeMap<Party, Found>,
    /// Neighbours that were connected at some time.
    came: BTreeSet<Party>,
    /// The neighbours that have said that they take no part.
    declining: BTreeSet<Party>,
    /// Starts of neighbours that are over.
    over: BTreeMap<Party, Incarnation>,
}

impl Presence {
    /// Knows nobody yet.
    pub fn new(electorate: Electorate) -> Self {
        let mut presence = Presence {
            electorate,
            vouched: Vec::new(),
            heard: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            unreached: BTreeMap::new(),
            came: BTreeSet::new(),
            declining: BTreeSet::new(),
            over: BTreeMap::new(),
        };
        let Electorate {
            parties,
            ref private,
            ref public,
            ..
        } = presence.electorate;
        // Everybody finds out itself about a party that is everybody's neighbour.
        let is_everybodys = |party: &Party| {
            let alone = [private, public].map(|graph| graph.neighbours(*party).len() + 1);
            alone.contains(&parties) || presence.neighbours(*party).len() + 1 == parties
        };
        let near = (0..parties).filter(|&party| presence.is_neighbour(party));
        let vouched = near.filter(|party| !is_everybodys(party)).collect();
        presence.vouched = vouched;
        presence
    }

    /// A neighbour is connected (again). It may have started anew: a READY of it that is held is
    /// perhaps of a process that is gone, until it says that READY itself.
    pub fn connected(&mut self, network: Network, peer: Party, now: Time) {
        self.unreached.remove(&peer);
        self.came.insert(peer);
        // Whoever connects after all has changed its mind.
        self.declining.remove(&peer);
        // READYs travel over public connections: a private one shows only that the peer is up.
        if network == Network::Public {
            self.heard.insert(peer, now);
            self.unconfirmed.insert(peer);
        }
    }

    /// A public connection is lost: what is not heard over it says nothing.
    pub fn disconnected(&mut self, peer: Party) {
        self.heard.remove(&peer);
    }

    /// A public neighbour has said something. `said`: its own READY, which is held now. True: the
    /// neighbour was missed.
    pub fn heard(&mut self, peer: Party, now: Time, said: Option<Incarnation>) -> bool {
        let before = self.heard.get_mut(&peer).map(|at| std::mem::replace(at, now));
        let silent = before.is_some_and(|at| now >= self.falls_silent(peer, at));
        // A node that repeats its READY is still there: it was the network that failed.
        let over = said.is_some() && self.over.get(&peer) == said.as_ref();
        if over {
            self.over.remove(&peer);
        }
        let confirmed = said.is_some() && self.unconfirmed.remove(&peer);
        silent || over || confirmed
    }

    /// A neighbour's address refuses connections. `lost`: the READY that is held of one that was
    /// connected before.
    pub fn refused(&mut self, peer: Party, lost: Option<Incarnation>) {
        self.unreached.insert(peer, Found::Refuses);
        // Only this start of its node is over: a newer READY counts.
        if let Some(incarnation) = lost {
            self.over.insert(peer, incarnation);
        }
    }

    /// A neighbour says that it takes no part; returns all that have said so and not come since.
    pub fn declined(&mut self, peer: Party) -> &BTreeSet<Party> {
        self.refused(peer, None);
        self.declining.insert(peer);
        &self.declining
    }

    /// Notes that nothing answers at a neighbour's address, nor over a connection.
    pub fn unanswered(&mut self, peer: Party) {
        self.unreached.insert(peer, Found::Nothing);
    }

    /// Returns the interval at which this node says that it is here.
    pub fn pulse_ms(&self) -> u64 {
        pulse_ms(self.electorate.public.neighbours(self.electorate.me).len())
    }

    /// Returns the time for which nothing may be heard of a party until it counts as silent.
    pub fn silent_ms(&self, party: Party) -> u64 {
        silent_ms(self.electorate.public.neighbours(party).len())
    }

    /// Returns the moment when a neighbour that was heard then is silent, if it says nothing since.
    fn falls_silent(&self, peer: Party, heard: Time) -> Time {
        heard.plus_millis(self.silent_ms(peer))
    }

    /// Returns the moment when nothing answers any more for a neighbour that was heard then.
    fn is_given_up(&self, peer: Party, heard: Time) -> Time {
        heard.plus_millis(self.silent_ms(peer).saturating_mul(2))
    }

    fn is_apart(&self, party: Party) -> bool {
        let is_heard = self.heard.contains_key(&party) && !self.unconfirmed.contains(&party);
        self.electorate.public.joins(self.electorate.me, party) && !is_heard
    }

    fn is_neighbour(&self, party: Party) -> bool {
        let me = self.electorate.me;
        self.electorate.private.joins(me, party) || self.electorate.public.joins(me, party)
    }

    /// All who exchange anything with a party.
    fn neighbours(&self, party: Party) -> BTreeSet<Party> {
        let (private, public) = (&self.electorate.private, &self.electorate.public);
        let both = private.neighbours(party).iter().chain(public.neighbours(party));
        both.copied().collect()
    }

    /// Returns a party's standing by this node's own findings.
    fn found(&self, flood: &Flood, party: Party, now: Time) -> Standing {
        let ready = flood.ready(party);
        if ready.is_some() && party == self.electorate.me {
            return Standing::Ready;
        }
        let is_over = ready.is_some() && self.over.get(&party) == ready.as_ref();
        if is_over || (ready.is_none() && flood.has_withdrawn(party)) {
            return Standing::Unreachable;
        }
        if self.declining.contains(&party) {
            return Standing::Declined;
        }
        match self.unreached.get(&party) {
            Some(Found::Refuses) if ready.is_none() && !self.came.contains(&party) => {
                return Standing::Absent;
            }
            Some(Found::Refuses) => return Standing::Unreachable,
            Some(Found::Nothing) => return Standing::Unanswered,
            Some(Found::Silent) | None => {}
        }
        // A connection may stand although the node at its other end is stopped.
        let heard = self.heard.get(&party);
        if heard.is_some_and(|&at| now >= self.is_given_up(party, at)) {
            return Standing::Unanswered;
        }
        match ready {
            None => Standing::Awaited,
            Some(_) if heard.is_some_and(|&at| now >= self.falls_silent(party, at)) => Standing::Silent,
            Some(_) if self.is_apart(party) => Standing::Apart,
            Some(_) => Standing::Ready,
        }
    }

    /// Returns the standing of every party, in plan order.
    pub fn standings(&self, flood: &Flood, now: Time) -> Vec<Standing> {
        let parties = 0..self.electorate.parties;
        let mut all: Vec<Standing> = parties.map(|party| self.found(flood, party, now)).collect();
        let called = self.called(flood, &all);
        for (party, found) in called {
            all[party] = match found {
                Found::Silent => Standing::Silent,
                Found::Nothing => Standing::Unanswered,
                Found::Refuses if flood.ready(party).is_some() => Standing::Unreachable,
                Found::Refuses => Standing::Absent,
            };
        }
        all
    }

    /// Parties whose neighbours say alike that they do not reach them: the greatest set of which
    /// each one is called by all of its ready neighbours outside of the set; with what they find.
    /// If they differ, whom one of them may still hear is silent, and who refuses one is not there.
    fn called(&self, flood: &Flood, found: &[Standing]) -> BTreeMap<Party, Found> {
        let mut calls: BTreeMap<Party, BTreeMap<Party, Found>> = BTreeMap::new();
        for (caller, unreached) in flood.unreached() {
            let about = |entry: &&Unreached| {
                // This node sees its own neighbours, and words about an older READY say nothing of
                // this one.
                entry.party != self.electorate.me
                    && !self.is_neighbour(entry.party)
                    && entry.ready == flood.ready(entry.party)
            };
            for entry in unreached.iter().filter(about) {
                calls.entry(entry.party).or_default().insert(caller, entry.found);
            }
        }
        let mut called: BTreeSet<Party> = calls.keys().copied().collect();
        loop {
            let holds = |party: &Party| {
                let near = self.neighbours(*party);
                let says = |caller: &Party| calls[party].contains_key(caller);
                // The word of a party that is away itself may be out of date.
                let counts = |caller: &&Party| found[**caller] == Standing::Ready && !called.contains(caller);
                near.iter().filter(counts).all(says)
                    && near.iter().filter(counts).count() > self.electorate.colluding
            };
            // Each party that is taken out counts as a witness again, which may clear others.
            match called.iter().copied().find(|party| !holds(party)) {
                Some(party) => called.remove(&party),
                None => break,
            };
        }
        let found = |party: Party| {
            let says = |found: Found| calls[&party].values().any(|said| *said == found);
            let first = [Found::Silent, Found::Refuses]
                .into_iter()
                .find(|found| says(*found));
            (party, first.unwrap_or(Found::Nothing))
        };
        called.into_iter().map(found).collect()
    }

    /// Returns this node's statement about unreachable neighbours, for parties that cannot see for
    /// themselves. `early`: of those who never came it says nothing yet.
    pub fn unreached(&self, flood: &Flood, now: Time, early: bool) -> Vec<Unreached> {
        let entry = |party: Party| {
            let ready = flood.ready(party);
            let found = match self.found(flood, party, now) {
                // The withdrawal itself is flooded to everybody.
                _ if flood.has_withdrawn(party) => None,
                _ if early && ready.is_none() => None,
                Standing::Absent | Standing::Unreachable | Standing::Declined => Some(Found::Refuses),
                Standing::Unanswered => Some(Found::Nothing),
                Standing::Silent => Some(Found::Silent),
                Standing::Ready | Standing::Apart | Standing::Awaited => None,
            };
            found.map(|found| Unreached { party, ready, found })
        };
        self.vouched.iter().copied().filter_map(entry).collect()
    }

    /// Returns the next moment when somebody falls silent, or nothing answers any more for one, if
    /// nothing is heard.
    pub fn wake(&self, now: Time) -> Time {
        let falls = self
            .heard
            .iter()
            .flat_map(|(&peer, &at)| [self.falls_silent(peer, at), self.is_given_up(peer, at)]);
        falls.filter(|&at| at > now).min().unwrap_or(Time::FAR)
    }
}

#[cfg(test)]
mod tests;
