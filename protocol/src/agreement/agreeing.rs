//! Agreeing on a set of items, stage by stage: logs when settling, finals when publishing. One
//! machine for all.
//!
//! A node signs, once per stage, the set of all expected items as soon as it holds them. At
//! half-time each node that has not signed floods a list of what it holds. At three quarters it
//! signs (i) a set that more parties than collude signed early, if it holds all of it and the set
//! is large enough to be of use ([`Electorate::least`]), the one with most signatures, then the
//! smaller hash; else (ii) the items in the lists of more than half of the members. (A set that
//! lacks nothing but an item here is waited for until seven eighths.) It signs only what it holds
//! in full, never an empty set. A set is agreed when a quorum of the plan's members signed it: two
//! such sets would share a signer that follows the protocol, who signs once ([`Quorum`]).
//!
//! [`Quorum`]: crate::plan::quorum::Quorum
//!
//! What a coalition says alone decides nothing: among the early signers of a set that counts is one
//! outside of it, who signs early only what holds everybody that it expects. Nor does anybody wait
//! for an item that only its coalition may have.
//!
//! A party that signs two versions of its item is in no set that is signed before half-time by
//! anybody who has seen both; the set with most signatures decides which version counts, if any,
//! and who lacks that one pulls it. It can still split the vote and so stop a run: with so many
//! shown each of two versions that neither are a quorum, or with two at the last moment, or on a
//! sparse graph on which they meet late (as it can by lying about its values corrupt it). It cannot
//! make two sets.
//!
//! Who is not waited for, because it is gone: see [`unreachable`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::flood::Flood;
use crate::agreement::items::Items;
use crate::agreement::unreachable::{self, Calls, Enough, Heard};
use crate::messages::notice::{ItemHash, ItemSet, Notice, SetHash, item_hash};
use crate::messages::row::Row;
use crate::messages::stage::Stage;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The members, as far as votes go.
#[derive(Clone, Debug)]
pub struct Electorate {
    /// The party that this node acts for.
    pub me: Party,
    /// The number n of the plan's members.
    pub parties: usize,
    /// The most parties that collude.
    pub colluding: usize,
    /// The fewest signers that make a set agreed.
    pub quorum: usize,
    /// The fewest parties of a run.
    pub min_parties: usize,
    /// The graph of the parties that find each other unreachable by their shares.
    pub private: Arc<Graph>,
    /// The graph of the parties that find each other unreachable by their messages.
    pub public: Arc<Graph>,
}

impl Electorate {
    /// The fewest items of a set that a stage can come to anything with: a run needs its fewest
    /// parties, and finals may be lost until no quorum is left to sum them.
    pub fn least(&self, stage: Stage) -> usize {
        match stage {
            Stage::Settling | Stage::Sealed | Stage::Correction(_) | Stage::Opened => self.min_parties,
            // Nobody agrees on these.
            Stage::Keeping | Stage::Slice(_) | Stage::Sum(_) => self.min_parties,
            Stage::Publishing | Stage::Finals => self.quorum,
        }
    }
}

/// The deadlines of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Keepers of slices report.
    pub quarter: Time,
    /// Slices that some keeper has not reported are flooded.
    pub three_eighths: Time,
    /// Lists are flooded; nobody signs a complete set any more.
    pub half: Time,
    /// Everybody signs what can win.
    pub three_quarters: Time,
    /// An item that is only said to be there is not waited for any more.
    pub seven_eighths: Time,
    /// The stage is over.
    pub end: Time,
    /// A party that is found gone is called gone this much later: its item may still be on the way
    /// through others. Our guess: 1/32 of the stage, 125 ms of the default 4 s, several times a
    /// message's way through a wide-area network.
    grace_ms: u64,
}

impl Clock {
    /// A stage of `settle_ms` from `begin`.
    ///
    /// Settling counts from T × `round_ms` after START, publishing from the end of settling, which
    /// all nodes place alike to within a message's way; a node that passes the gate later than that
    /// counts from then. Time that mixing and settling left over is publishing's: long finals over
    /// slow links take it, and a party that is found gone does not cost it. One that falls silent
    /// while publishing costs the plan's deadlines.
    pub fn new(begin: Time, settle_ms: u64) -> Self {
        Clock {
            quarter: begin.plus_millis(settle_ms / 4),
            three_eighths: begin.plus_millis(settle_ms * 3 / 8),
            half: begin.plus_millis(settle_ms / 2),
            three_quarters: begin.plus_millis(settle_ms * 3 / 4),
            seven_eighths: begin.plus_millis(settle_ms * 7 / 8),
            end: begin.plus_millis(settle_ms),
            grace_ms: settle_ms / 32,
        }
    }

    /// Returns the moment when a party that was found unreachable at `since` is called so.
    pub fn call_at(&self, since: Time) -> Time {
        since.plus_millis(self.grace_ms)
    }
}

/// The inputs of a stage besides its own state.
pub struct StageSights<'a> {
    /// All notices that this node holds.
    pub flood: &'a Flood,
    /// The items of this stage that count as held.
    pub items: HeldItems<'a>,
    /// The parties that this node finds unreachable, with the moment since when.
    pub unreachable: &'a BTreeMap<Party, Time>,
    /// The calls of the logs held; empty in the second stage.
    pub in_logs: &'a Calls,
}

/// The items of a stage that count as held: those that are, and where each names another body, as
/// a log does what its party has sealed, only with that.
#[derive(Clone, Copy)]
pub struct HeldItems<'a> {
    items: &'a Items,
    beside: Option<(&'a dyn SealedBodies, &'a NamedBodies)>,
}

/// The bodies that items name.
pub trait SealedBodies {
    /// Whether the body that an author's item names by this hash counts as held.
    fn hold(&self, author: Party, named: &ItemHash) -> bool;
}

impl SealedBodies for Items {
    fn hold(&self, author: Party, named: &ItemHash) -> bool {
        self.version(author, named).is_some()
    }
}

/// The hash of the body that each item names, by the item's author and hash.
pub type NamedBodies = BTreeMap<(Party, ItemHash), ItemHash>;

impl<'a> HeldItems<'a> {
    /// Each item counts alone.
    pub fn alone(items: &'a Items) -> Self {
        HeldItems { items, beside: None }
    }

    /// Each counts with the body of `others` that `named` says.
    pub fn with(items: &'a Items, others: &'a dyn SealedBodies, named: &'a NamedBodies) -> Self {
        HeldItems {
            items,
            beside: Some((others, named)),
        }
    }

    fn is_whole(&self, author: Party, hash: &ItemHash) -> bool {
        // A log whose sealed final is not here could be agreed on and never opened.
        self.beside.is_none_or(|(others, named)| {
            let body = named.get(&(author, *hash));
            body.is_some_and(|body| others.hold(author, body))
        })
    }

    /// The hash of a party's item, of its first version, if that counts.
    pub fn get(&self, author: Party) -> Option<ItemHash> {
        let hash = self.items.get(author)?.hash;
        self.is_whole(author, &hash).then_some(hash)
    }

    /// All that count, as a set: the first versions.
    pub fn set(&self) -> ItemSet {
        let mut set = self.items.set();
        set.retain(|(author, hash)| self.is_whole(*author, hash));
        set
    }

    /// Whether every item of the set counts.
    pub fn hold_all(&self, set: &ItemSet) -> bool {
        self.items.hold_all(set) && set.iter().all(|(author, hash)| self.is_whole(*author, hash))
    }
}

impl StageSights<'_> {
    fn heard<'b>(&'b self, said: &'b Calls) -> Heard<'b> {
        Heard {
            in_logs: self.in_logs,
            said,
        }
    }
}

/// The next step that a stage of agreeing asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sign this notice and flood it.
    Say(Notice),
    /// Sign a vote for this set, which is early or not, and flood it.
    Vote {
        /// Whether it is signed before half-time, since the set is complete.
        early: bool,
        /// The set of items that is voted for.
        set: ItemSet,
    },
    /// A set is agreed, and all of its items are held.
    Agreed(ItemSet),
    /// The stage ended without an agreed set.
    Over,
}

/// One stage of one node.
pub struct Agreement {
    electorate: Electorate,
    stage: Stage,
    expected: BTreeSet<Party>,
    clock: Clock,
    /// The parties that this node has called unreachable, in its log or since.
    called: BTreeSet<Party>,
    listed: bool,
    voted: Option<ItemSet>,
    agreed: bool,
    over: bool,
}

impl Agreement {
    /// Begins a stage in which items of `expected` are waited for. `called`: whom this node's own
    /// log calls gone.
    pub fn new(
        electorate: Electorate,
        stage: Stage,
        expected: BTreeSet<Party>,
        clock: Clock,
        called: BTreeSet<Party>,
    ) -> Self {
        Agreement {
            electorate,
            stage,
            expected,
            clock,
            called,
            listed: false,
            voted: None,
            agreed: false,
            over: false,
        }
    }

    /// Returns the parties whose items are waited for.
    pub fn expected(&self) -> &BTreeSet<Party> {
        &self.expected
    }

    /// Whether this node has signed a set.
    pub fn has_voted(&self) -> bool {
        self.voted.is_some()
    }

    /// The next thing to do; call again until there is none.
    pub fn step(&mut self, now: Time, sights: &StageSights<'_>) -> Option<Step> {
        let said = sights.flood.calls(self.stage);
        // As a rule nobody is called gone: nothing follows from anybody's calls then.
        let calls =
            (!said.is_empty() || sights.in_logs.values().any(|called| !called.is_empty())).then_some(&said);
        let excluded = calls.map(|said| self.excluded(sights, said)).unwrap_or_default();
        if let Some(party) = self.next_call(now, sights, calls) {
            self.called.insert(party);
            return Some(Step::Say(Notice::Unreachable {
                stage: self.stage,
                party,
            }));
        }
        // A vote counts as a list as well: whoever signs one needs to send no list.
        if let Some(vote) = self.vote(now, sights, &excluded) {
            return Some(vote);
        }
        if now >= self.clock.half && !self.listed && self.voted.is_none() {
            self.listed = true;
            let mut set = sights.items.set();
            set.retain(|(party, _)| self.expected.contains(party) && !excluded.contains(party));
            return Some(Step::Say(self.list(sights, &set)));
        }
        if !self.agreed
            && let Some(set) = self.agreed(sights)
        {
            self.agreed = true;
            return Some(Step::Agreed(set));
        }
        // Looked at last, so that a set that is agreed at the very end counts.
        if now >= self.clock.end && !self.agreed && !self.over {
            self.over = true;
            return Some(Step::Over);
        }
        None
    }

    fn list(&self, sights: &StageSights<'_>, set: &ItemSet) -> Notice {
        // Of a party with one item the hash is known to all who hold it, and would only take room.
        let several = |entry: &&(Party, ItemHash)| sights.flood.signed_two(self.stage, entry.0);
        Notice::List {
            stage: self.stage,
            held: Row::of(self.electorate.parties, set.iter().map(|entry| entry.0)),
            versions: set.iter().filter(several).copied().collect(),
        }
    }

    /// Returns the moment to step again although nothing happened.
    pub fn wake(&self, now: Time, unreachable: &BTreeMap<Party, Time>) -> Time {
        let Clock {
            half,
            three_quarters,
            seven_eighths,
            end,
            ..
        } = self.clock;
        let clock = [half, three_quarters, seven_eighths, end];
        let calls = unreachable
            .iter()
            .filter(|(party, _)| self.expected.contains(party) && !self.called.contains(party));
        let calls = calls.map(|(_, since)| self.clock.call_at(*since));
        clock
            .into_iter()
            .chain(calls)
            .filter(|&at| at > now)
            .min()
            .unwrap_or(Time::FAR)
    }

    fn excluded(&self, sights: &StageSights<'_>, said: &Calls) -> BTreeSet<Party> {
        let neighbours = |party| self.electorate.private.neighbours(party).to_vec();
        let found = |party| sights.unreachable.contains_key(&party);
        let enough = Enough {
            quorum: self.electorate.quorum,
            colluding: self.electorate.colluding,
        };
        unreachable::excluded(&self.expected, sights.heard(said), found, neighbours, enough)
    }

    /// A party to call gone: found gone a while ago, or called gone by all of its neighbours; its
    /// item not held, no set signed.
    fn next_call(&self, now: Time, sights: &StageSights<'_>, said: Option<&Calls>) -> Option<Party> {
        let me = self.electorate.me;
        if !self.expected.contains(&me) || self.voted.is_some() || now >= self.clock.three_quarters {
            return None;
        }
        let found = |party: Party| {
            sights
                .unreachable
                .get(&party)
                .is_some_and(|since| now >= self.clock.call_at(*since))
        };
        let open = |party: &Party| {
            *party != me && !self.called.contains(party) && sights.items.get(*party).is_none()
        };
        let Some(said) = said else {
            let unreachable = sights.unreachable.keys().copied();
            return unreachable
                .filter(|party| self.expected.contains(party) && open(party))
                .find(|&party| found(party));
        };
        self.expected
            .iter()
            .copied()
            .filter(open)
            .find(|&party| found(party) || self.seconded(party, sights, said))
    }

    fn seconded(&self, party: Party, sights: &StageSights<'_>, said: &Calls) -> bool {
        let (private, public) = (
            self.electorate.private.neighbours(party),
            self.electorate.public.neighbours(party),
        );
        // A neighbour goes by what it finds itself.
        if private.contains(&self.electorate.me) || public.contains(&self.electorate.me) {
            return false;
        }
        let heard = sights.heard(said);
        let is_called = |party: Party| self.expected.iter().any(|&caller| heard.called(caller, party));
        let mut witnesses = private
            .iter()
            .chain(public)
            .copied()
            .filter(|caller| self.expected.contains(caller) && !is_called(*caller));
        // One of them at least is outside of the coalition.
        let mut count = 0;
        witnesses.all(|caller| {
            count += 1;
            heard.called(caller, party)
        }) && count > self.electorate.colluding
    }

    fn vote(&mut self, now: Time, sights: &StageSights<'_>, excluded: &BTreeSet<Party>) -> Option<Step> {
        if self.voted.is_some() {
            return None;
        }
        // Between half and three quarters lists are on their way: a set signed now could split the
        // vote.
        let (set, early) = if now < self.clock.half {
            (self.complete(sights, excluded)?, true)
        } else if now >= self.clock.three_quarters {
            (self.electable(now, sights, excluded)?, false)
        } else {
            return None;
        };
        self.voted = Some(set.clone());
        Some(Step::Vote { early, set })
    }

    /// Returns the moment when lists are due.
    pub fn half(&self) -> Time {
        self.clock.half
    }

    /// The deadlines.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The stage that it is of.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the expected parties whose items do not count as held yet, ascending; nobody once
    /// the stage is over.
    pub fn awaited(&self, items: HeldItems<'_>) -> Vec<Party> {
        let lacking = self.expected.iter().filter(|&&party| items.get(party).is_none());
        lacking.copied().filter(|_| !self.agreed && !self.over).collect()
    }

    /// The items of all who are expected and not excluded, if they are held and none of them was
    /// called gone by this node or has signed two.
    fn complete(&self, sights: &StageSights<'_>, excluded: &BTreeSet<Party>) -> Option<ItemSet> {
        let needed = self.expected.difference(excluded);
        let entry = |&party: &Party| {
            // Others may hold the other one of two versions: a set with either could split the
            // vote.
            let counts = !self.called.contains(&party) && !sights.flood.signed_two(self.stage, party);
            let hash = sights.items.get(party).filter(|_| counts)?;
            Some((party, hash))
        };
        let set: ItemSet = needed.map(entry).collect::<Option<_>>()?;
        (!set.is_empty()).then_some(set)
    }

    /// Returns the set to sign from three quarters of the stage on, if it is held in full.
    ///
    /// A set that counts by its early signers is held by one outside of the coalition, if that one
    /// still lives: it is waited for, for a while, so that an item which comes a little late does
    /// not split the vote.
    fn electable(&self, now: Time, sights: &StageSights<'_>, excluded: &BTreeSet<Party>) -> Option<ItemSet> {
        let admissible = |set: &ItemSet| {
            !set.is_empty()
                && set
                    .iter()
                    .all(|(party, _)| self.expected.contains(party) && !excluded.contains(party))
        };
        let least = self.electorate.least(self.stage);
        let patient = now < self.clock.seven_eighths;
        let counts = |set: &ItemSet| {
            let available = patient || sights.items.hold_all(set);
            set.len() >= least && admissible(set) && available
        };
        let votes = sights.flood.votes(self.stage);
        let mut early: BTreeMap<SetHash, (&ItemSet, usize)> = BTreeMap::new();
        for vote in votes.filter(|vote| vote.early) {
            if let Some(set) = vote.set.filter(|set| counts(set)) {
                early.entry(vote.hash).or_insert((set, 0)).1 += 1;
            }
        }
        let set = match most(early.into_values()) {
            Some((set, signers)) if signers > self.electorate.colluding => set.clone(),
            _ => self.listed_by_most(sights, excluded),
        };
        (!set.is_empty() && sights.items.hold_all(&set)).then_some(set)
    }

    fn listed_by_most(&self, sights: &StageSights<'_>, excluded: &BTreeSet<Party>) -> ItemSet {
        let flood = sights.flood;
        let votes = flood.votes(self.stage);
        let votes = votes.filter_map(|vote| Some((vote.signer, vote.set?.clone())));
        let lists = flood.lists(self.stage);
        // What is empty for whoever owes none is announced by nobody, nor is a known secret.
        let known = |party| {
            let announced = || match self.stage {
                Stage::Opened => Some(item_hash(&[])),
                stage => flood.item(stage, party).map(|item| item.0),
            };
            sights.items.get(party).or_else(announced)
        };
        let several = |party| flood.signed_two(self.stage, party);
        let lists = lists.map(|list| (list.author, list.items(several, known)));
        // A signed set counts as a list, and replaces the signer's list.
        let lists: BTreeMap<Party, ItemSet> = lists.chain(votes).collect();
        let mut counts: BTreeMap<(Party, ItemHash), usize> = BTreeMap::new();
        for entry in lists.into_values().flatten() {
            *counts.entry(entry).or_insert(0) += 1;
        }
        // Of two versions of an item only one can be on the lists of more than half.
        let elected = |((party, _), count): &((Party, ItemHash), usize)| {
            2 * count > self.electorate.parties && self.expected.contains(party) && !excluded.contains(party)
        };
        counts
            .into_iter()
            .filter(elected)
            .map(|(entry, _)| entry)
            .collect()
    }

    fn agreed(&self, sights: &StageSights<'_>) -> Option<ItemSet> {
        let (set, signers) = most_signed(sights.flood, self.stage)?;
        let agrees = |set: &&ItemSet| !set.is_empty() && sights.items.hold_all(set);
        let enough = signers >= self.electorate.quorum;
        set.filter(|_| enough).filter(agrees).cloned()
    }
}

/// The set with most signatures, then the smaller hash, if anybody has signed one and it is here.
pub fn most_signed_set(flood: &Flood, stage: Stage) -> Option<&ItemSet> {
    most_signed(flood, stage)?.0
}

/// The set with most signatures, then the smaller hash, if it is here, and how many signed it.
fn most_signed(flood: &Flood, stage: Stage) -> Option<(Option<&ItemSet>, usize)> {
    most(flood.voted(stage))
}

/// The set with most signatures, then the first, of sets by ascending hash with how many signed
/// each.
fn most<S>(signed: impl DoubleEndedIterator<Item = (S, usize)>) -> Option<(S, usize)> {
    // The last of equal ones is taken.
    signed.rev().max_by_key(|(_, count)| *count)
}

#[cfg(test)]
mod tests;
