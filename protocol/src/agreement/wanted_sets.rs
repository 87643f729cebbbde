//! Asking for the sets that notices name: one neighbour after the other, each set once at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::of_sets::UnknownSet;
use crate::messages::notice::SetHash;
use crate::time::Time;
use crate::topology::party::Party;

/// The most times that all neighbours are asked for a set: a liar may name one that nobody has. Our
/// choice: a whole stage, where there are two neighbours, and longer where there are more. Whoever
/// signs it later begins the search anew.
const PASSES: u32 = 16;

/// The progress of the search for a set.
struct SetSearch {
    /// The moment when the next neighbour is asked.
    next: Time,
    /// The neighbours that were asked already.
    asked: BTreeSet<Party>,
    /// The number of times that all neighbours were asked.
    passes: u32,
    /// The number of signers when the search was begun.
    signers: usize,
}

/// The sets that this node lacks.
pub struct WantedSets {
    /// A vote's set is waited for that long before it is asked for, since this node will most
    /// likely make the same one, and any set so long before the next neighbour is asked.
    patience_ms: u64,
    searches: BTreeMap<SetHash, SetSearch>,
}

impl WantedSets {
    /// Wants no set yet. Patience is a sixteenth of `settle_ms`, our guess: as long as a pushed
    /// item is waited for.
    pub fn new(settle_ms: u64) -> Self {
        WantedSets {
            patience_ms: (settle_ms / 16).max(1),
            searches: BTreeMap::new(),
        }
    }

    /// Whether nothing is searched for.
    pub fn is_empty(&self) -> bool {
        self.searches.is_empty()
    }

    /// Returns the parties to ask, each with a set, now: signers first, then any connected party,
    /// and then all over again.
    pub fn asks(
        &mut self,
        now: Time,
        unknown: &[UnknownSet],
        connected: &BTreeSet<Party>,
    ) -> Vec<(Party, SetHash)> {
        self.searches
            .retain(|hash, _| unknown.iter().any(|set| set.hash == *hash));
        let mut asks = Vec::new();
        for UnknownSet {
            hash,
            of_start,
            signers,
        } in unknown
        {
            // Gathering stands still without a START's set; a vote's is most likely made here, too.
            let patience_ms = if *of_start { 0 } else { self.patience_ms };
            let begun = SetSearch {
                next: now.plus_millis(patience_ms),
                asked: BTreeSet::new(),
                passes: 0,
                signers: signers.len(),
            };
            let search = self.searches.entry(*hash).or_insert(begun);
            // A new signer may have a set that those who were asked did not.
            if search.signers < signers.len() {
                (search.passes, search.signers) = (0, signers.len());
                search.next = search.next.min(now.plus_millis(patience_ms));
            }
            if now < search.next {
                continue;
            }
            search.next = now.plus_millis(self.patience_ms);
            // Whoever has signed a set has it; others may have pulled it.
            let near = signers.iter().filter(|signer| connected.contains(signer));
            let peers = || near.clone().chain(connected);
            let alone = connected.is_empty();
            // With nobody connected nobody was asked: that is no pass.
            if !alone && peers().all(|peer| search.asked.contains(peer)) {
                search.asked.clear();
                search.passes += 1;
                if search.passes >= PASSES {
                    search.next = Time::FAR;
                    continue;
                }
            }
            if let Some(&peer) = peers().find(|peer| !search.asked.contains(peer)) {
                search.asked.insert(peer);
                asks.push((peer, *hash));
            }
        }
        asks
    }

    /// Returns the moment to ask on.
    pub fn wake(&self) -> Time {
        let next = self.searches.values().map(|search| search.next);
        next.min().unwrap_or(Time::FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(hash: u8, signers: &[Party]) -> UnknownSet {
        UnknownSet {
            hash: [hash; 32],
            of_start: false,
            signers: signers.to_vec(),
        }
    }

    #[test]
    fn signers_are_asked_first_then_the_others_and_nobody_twice_in_a_turn() {
        let mut wanted = WantedSets::new(1600);
        let (at, near) = (Time::from_millis, BTreeSet::from([1, 2, 3]));
        let sets = [unknown(7, &[3, 9])];
        assert!(wanted.asks(at(0), &sets, &near).is_empty(), "it may be made here");
        assert_eq!(wanted.wake(), at(100));
        let mut asked = |ms| wanted.asks(at(ms), &sets, &near);
        assert_eq!(asked(100), [(3, [7; 32])]);
        assert!(asked(199).is_empty());
        assert_eq!(asked(200), [(1, [7; 32])]);
        assert_eq!(asked(300), [(2, [7; 32])]);
        assert_eq!(asked(400), [(3, [7; 32])], "all over again");
        assert!(wanted.asks(at(500), &[], &near).is_empty());
        assert!(wanted.is_empty() && wanted.wake() == Time::FAR);
    }

    #[test]
    fn nobody_is_asked_for_ever_for_a_set_that_nobody_has() {
        let mut wanted = WantedSets::new(1600);
        let near = BTreeSet::from([1, 2, 3]);
        let mut now = Time::ZERO;
        let mut asked = |sets: &[UnknownSet]| {
            let mut count = 0;
            loop {
                count += wanted.asks(now, sets, &near).len();
                match wanted.wake() {
                    Time::FAR => return count,
                    wake => now = wake,
                }
            }
        };
        assert_eq!(asked(&[unknown(7, &[3])]), 3 * PASSES as usize);
        assert_eq!(asked(&[unknown(7, &[3])]), 0);
        let again = asked(&[unknown(7, &[3, 2])]);
        assert!(again >= 3 * PASSES as usize, "a new signer may have it: {again}");
    }

    #[test]
    fn nobody_is_asked_while_nobody_is_connected() {
        let mut wanted = WantedSets::new(1600);
        let sets = [unknown(7, &[3])];
        wanted.asks(Time::ZERO, &sets, &BTreeSet::new());
        let later = Time::from_millis(200);
        assert!(wanted.asks(later, &sets, &BTreeSet::new()).is_empty());
        assert_eq!(
            wanted
                .asks(Time::from_millis(400), &sets, &BTreeSet::from([5]))
                .len(),
            1
        );
    }
}
