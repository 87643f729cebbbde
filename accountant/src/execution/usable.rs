//! The graph of usable shares: what hides honest values where correlated noise is uniform.

use std::collections::{BTreeMap, BTreeSet};

use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::exchanges::connected;
use crate::execution::share::Fate;

/// The sets of honest parties of whose values the adversary of `execution` learns the sum, and
/// nothing else, if correlated noise is uniform over residues; each in ascending order.
///
/// A share is usable if neither end is corrupted or taken out again, no eavesdropper read it, and
/// it became part of its receiver's state, in whichever round. What moves along usable shares from
/// one value to another nobody sees, since uniform noise moved by anything is uniform (the proof of
/// Theorem C, with integers for its flows). So the view has, of the values of a connected piece of
/// parties, only what all of its finals add up to. It has nothing at all if one of these finals is
/// not seen, or if a share that left the piece joined nobody and was not read: what moves there
/// nobody misses.
pub fn revealed(execution: &Execution) -> Vec<Vec<Party>> {
    let none = (BTreeSet::new(), BTreeSet::new());
    let (corrupted, observed) = match execution.adversary() {
        Adversary::Corrupted(corrupted) => (corrupted, &none.1),
        Adversary::Observed(observed) => (&none.0, observed),
    };
    let parties = execution.parties();
    let hidden = |party: Party| !corrupted.contains(&party) && !execution.rolled_back().contains(&party);
    // A place more, for what is in nobody's state and was not read.
    let nowhere = parties;
    let mut edges = Vec::new();
    for round in 1..=execution.rounds() as u32 {
        for from in (0..parties).filter(|&from| hidden(from) && execution.online(round, from)) {
            if observed.contains(&(from, round - 1)) {
                continue;
            }
            for &to in execution.out(round, from) {
                let outcome = execution.outcome(round, from, to);
                let read = outcome.seen && corrupted.contains(&to);
                // Roll-back adds again what was deducted for a party that departed.
                let back = execution.rolled_back().contains(&to);
                match outcome.fate {
                    Fate::Accepted if hidden(to) => edges.push((from, to)),
                    Fate::Lost if !read && !back => edges.push((from, nowhere)),
                    _ => {}
                }
            }
        }
    }
    let shown = |party: &Party| *party != nowhere && execution.published().contains(party);
    let mut pieces = connected(parties + 1, edges.into_iter());
    pieces.retain(|piece| {
        piece
            .iter()
            .all(|party| !corrupted.contains(party) && shown(party))
    });
    pieces
}

/// The squared loss of each honest party in units of its squared sensitivity, where correlated
/// noise is uniform and each value, with its own noise of standard deviation `independent_std`,
/// comes in whole before round 1: 1/(m σ*²) for each of m parties of whose values the sum is
/// revealed ([`revealed`]), 0 for all others. This is Theorem U, and exact.
pub fn uniform_losses(execution: &Execution, independent_std: f64) -> BTreeMap<Party, f64> {
    let colludes = |party: &Party| match execution.adversary() {
        Adversary::Corrupted(corrupted) => corrupted.contains(party),
        Adversary::Observed(_) => false,
    };
    let honest = (0..execution.parties()).filter(|party| !colludes(party));
    let mut losses: BTreeMap<Party, f64> = honest.map(|party| (party, 0.0)).collect();
    for piece in revealed(execution) {
        let square = 1.0 / (piece.len() as f64 * independent_std * independent_std);
        losses.extend(piece.into_iter().map(|party| (party, square)));
    }
    losses
}

#[cfg(test)]
mod tests;
