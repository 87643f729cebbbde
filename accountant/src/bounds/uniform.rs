//! Bounds on the loss under uniform correlated noise, for every coalition at once: a number of
//! parties.
//!
//! A coalition learns the sum of the values of those who share with each other, and no more
//! (Theorem U; [`revealed`](crate::execution::usable::revealed)). Suppose that more parties than
//! can be against a party must be removed before those who share fall apart. Then every value is
//! hidden among all that are left, whoever they are. The loss of a party is its sensitivity over
//! the deviation of that many parties' own noises. So one number, the connectivity κ, takes the
//! place of all coalitions. It falls by at most one for each share that goes astray.

use std::collections::BTreeSet;

use undertone_protocol::plan::claim::ConnectivityBasis;
use undertone_protocol::topology::connectivity::{at_least, connectivity};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::bounds::connectivity::among;
use crate::class::setting::Setting;
use crate::losses::gaussian::SLACK;

/// Parties who meet each other, and nobody else, in a schedule or in what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// How many they are.
    pub parties: usize,
    /// κ: the least number of them whose removal leaves the others in several pieces; below their
    /// number.
    pub kappa: usize,
}

impl Piece {
    /// The connectivity of a graph that is in one piece.
    pub fn of(graph: &Graph) -> Self {
        Piece {
            parties: graph.parties(),
            kappa: connectivity(graph).kappa,
        }
    }
}

/// The pieces of those who meet in a setting (there may be several with PPSC). None if `removed`
/// parties may leave one alone, or cut some off: their noise is local.
pub fn pieces(setting: &Setting, removed: usize) -> Option<Vec<Piece>> {
    let meetings = meetings(&setting.out, setting.parties());
    let of_members = |members: Vec<Party>| {
        let graph = among_members(&meetings, &members);
        at_least(&graph, removed + 1).ok()?;
        Some(Piece::of(&graph))
    };
    meetings.components().into_iter().map(of_members).collect()
}

/// Returns the removals that the schedule of a setting withstands. From each piece of those who
/// meet in it, as many parties may be removed as can be against one. For each that κ is above that
/// number, so may one share. It is `None` if some party may then be left alone, or cut off: its
/// noise is local.
pub fn withstands(setting: &Setting) -> Option<ConnectivityBasis> {
    let removed = setting.coalition_size();
    let pieces = pieces(setting, removed)?;
    let kappa = pieces.iter().map(|piece| piece.kappa).min()?;
    Some(ConnectivityBasis {
        kappa,
        removed,
        share_faults: if setting.mechanism.rules().shares_travel() {
            kappa - removed - 1
        } else {
            0
        },
        among: pieces.iter().map(|piece| piece.parties).min()? - removed,
    })
}

/// The loss μ of the most sensitive party among `among` parties, each with own noise of standard
/// deviation `independent_std`, rounded up.
pub fn loss(setting: &Setting, among: usize, independent_std: f64) -> f64 {
    setting.largest_sensitivity() / (independent_std * (among as f64).sqrt()) * (1.0 + SLACK)
}

/// Among how many parties the value of `party` is hidden from a coalition that is named, whoever of
/// the others departs, as many as the plan tolerates, and whichever share between two of them goes
/// astray: no more is revealed than if one of its ends were taken away. At least 1, the party
/// alone.
pub fn hidden_from(setting: &Setting, party: Party, coalition: &BTreeSet<Party>) -> usize {
    let parties = 0..setting.parties();
    let others: Vec<Party> = parties.filter(|party| !coalition.contains(party)).collect();
    let graph = among_members(&meetings(&setting.out, setting.parties()), &others);
    let place = others.binary_search(&party).ok();
    let hidden = among(&graph, setting.dropouts + 1);
    place.and_then(|place| hidden.get(place).copied()).unwrap_or(1)
}

/// Returns the graph of parties that meet in a schedule.
pub(crate) fn meetings(out: &[Vec<Vec<Party>>], parties: usize) -> Graph {
    let shares = out.iter().flat_map(|round| {
        let sent = round.iter().enumerate();
        sent.flat_map(|(from, to)| to.iter().map(move |&to| (from.min(to), from.max(to))))
    });
    joined(parties, shares.collect())
}

/// The graph of so many parties with these edges, some of which may be there twice.
pub(crate) fn joined(parties: usize, mut edges: Vec<(Party, Party)>) -> Graph {
    edges.sort_unstable();
    edges.dedup();
    Graph::from_edges(parties, &edges).expect("shares go to others of the parties")
}

/// Returns the graph's edges among `members`, ascending, renumbered in that order.
pub(crate) fn among_members(graph: &Graph, members: &[Party]) -> Graph {
    let place = |party: Party| members.binary_search(&party).ok();
    let inside = |&(a, b): &(Party, Party)| Some((place(a)?, place(b)?));
    joined(members.len(), graph.edges().iter().filter_map(inside).collect())
}

#[cfg(test)]
mod tests;
