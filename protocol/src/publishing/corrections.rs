//! Corrections that parties owe of what they have sealed, from agreed logs alone: alike for
//! everybody.
//!
//! A party seals its state as its own log has it: what left is out, whatever was answered, and what
//! it lists as received is in. The run of an agreed set says otherwise in two places, and nowhere
//! else. A member i of the set P that may publish
//!
//! - (a) adds again, for each party outside of P, its shares to that party that left, and subtracts
//!   the party's shares that it had added;
//! - (b) adds again its shares to another member that left by its own log and that the member's
//!   log does not list: they go back to it.
//!
//! Then Σ x̃ over P is the sum of what is sealed and of the corrections. Rounds that differ,
//! answers that are missing, and a share that its sender denies although its receiver lists it (a
//! false input of the sender) change no sum.
//!
//! Where somebody departs before it has given its correction, the others give a second one, which
//! is a *difference*: as (a) for the departed, less what (b) gave back of shares to them already.
//! Without the difference a share would be given back twice.
//!
//! With masks of pairs nothing is exchanged. A member's correction is then the keys of the masks
//! that it has in common with those who are left out, each revealed once.

use std::collections::{BTreeMap, BTreeSet};

use crate::lattice::residue::Sign;
use crate::messages::log::{AgreedLogs, Log, ShareId};
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// A share that a correction adds or subtracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrectionTerm {
    /// One that the giver of the correction sent, or that it got.
    pub share: ShareId,
    /// Plus for a share of its own, minus for another's.
    pub sign: Sign,
}

/// Each one's terms; who owes nothing is not in it.
pub type Corrections = BTreeMap<Party, Vec<CorrectionTerm>>;

/// The first correction of each of `publishers`, who are members of the agreed logs: (a) and (b).
pub fn first_corrections(logs: &AgreedLogs, publishers: &BTreeSet<Party>) -> Corrections {
    let out = |share: &ShareId| !publishers.contains(&share.to) || !is_listed(logs, share);
    let into = |share: &ShareId| !publishers.contains(&share.from);
    corrections(logs, publishers, out, into)
}

/// The next correction of each of `remaining`, once of all who gave the ones before (`before`) some
/// have departed: for each of these as (a), less what (b) gave back.
pub fn next_corrections(
    logs: &AgreedLogs,
    before: &BTreeSet<Party>,
    remaining: &BTreeSet<Party>,
) -> Corrections {
    let departed = |party: &Party| before.contains(party) && !remaining.contains(party);
    let out = |share: &ShareId| departed(&share.to) && is_listed(logs, share);
    let into = |share: &ShareId| departed(&share.from);
    corrections(logs, remaining, out, into)
}

/// Returns, for each party of `of`, the neighbours for whom `departed` holds, ascending: the party
/// owes the keys of its masks with them. For plans in which parties have masks in common instead of
/// shares. A party that owes no key is not in it.
pub fn masks_owed(
    graph: &Graph,
    of: &BTreeSet<Party>,
    departed: impl Fn(Party) -> bool,
) -> BTreeMap<Party, Vec<Party>> {
    let owed = |&party: &Party| {
        let neighbours = graph.neighbours(party).iter().copied();
        let with: Vec<Party> = neighbours.filter(|&other| departed(other)).collect();
        (!with.is_empty()).then_some((party, with))
    };
    of.iter().filter_map(owed).collect()
}

/// Whether the receiver's log has a share.
fn is_listed(logs: &AgreedLogs, share: &ShareId) -> bool {
    let receiver = logs.get(&share.to);
    receiver.is_some_and(|log| log.applied(share.round, share.from).is_some())
}

/// For each party of `of`: the shares that left it for which `out` holds, to be added, and those
/// that it lists for which `into` holds, to be subtracted.
fn corrections(
    logs: &AgreedLogs,
    of: &BTreeSet<Party>,
    out: impl Fn(&ShareId) -> bool,
    into: impl Fn(&ShareId) -> bool,
) -> Corrections {
    let term = |sign| move |share: ShareId| CorrectionTerm { share, sign };
    let terms = |party: &Party| {
        let log = logs.get(party)?;
        let added = left(log).filter(&out).map(term(Sign::Plus));
        let subtracted = received(log).filter(&into).map(term(Sign::Minus));
        let terms: Vec<CorrectionTerm> = added.chain(subtracted).collect();
        (!terms.is_empty()).then_some((*party, terms))
    };
    of.iter().filter_map(terms).collect()
}

/// The shares that left a log's party.
fn left(log: &Log) -> impl Iterator<Item = ShareId> {
    let left = log.sent.iter().filter(|entry| entry.left);
    left.map(|entry| ShareId {
        round: entry.round,
        from: log.party,
        to: entry.to,
    })
}

/// The shares that a log's party has added.
fn received(log: &Log) -> impl Iterator<Item = ShareId> {
    log.received.iter().map(|entry| ShareId {
        round: entry.round,
        from: entry.from,
        to: log.party,
    })
}

#[cfg(test)]
mod tests;
