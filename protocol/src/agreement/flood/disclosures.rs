//! Notices that open something, a secret or a share of one: what was sealed for an agreed set.
//!
//! Whether one is good shows only once the deal that it belongs to is known, which may be later
//! than it comes. So a slot has room for a few that differ, and one that is found to be wrong gives
//! its place back: a later good one of the same author counts. Memory stays bounded by the slots,
//! and so does what is passed on for one of them.
//!
//! One that was found to be wrong is not taken again: others pass it on for a while, and each copy
//! would use up what the author may still say, the good one included.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::held::Held;
use crate::agreement::flood::slot::Slot;
use crate::messages::notice::{Disclosed, Notice};
use crate::topology::party::Party;

/// Maximum number of different notices held of one slot; an honest author says one. Our guess: what
/// was wrong by mistake is said again once or twice.
pub const CANDIDATES: usize = 4;

/// Maximum number of notices of one slot that are ever taken and passed on: too few for a member to
/// have the others flood wrong ones for it at full speed. Our guess.
pub const MOST_TAKEN: u32 = 64;

/// The secrets or shares that are held of one slot.
#[derive(Clone, Debug, Default)]
struct Candidates {
    held: Vec<Held>,
    /// The number of notices that were ever taken.
    taken: u32,
    /// Those of them that were found to be wrong.
    wrong: BTreeSet<Disclosed>,
}

/// The notices that open something, by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Disclosures {
    slots: BTreeMap<Slot, Candidates>,
    /// The slot of each notice that was ever taken, in the order in which they came: [`MOST_TAKEN`]
    /// of one slot at most.
    taken: Vec<Slot>,
}

impl Disclosures {
    fn of(&self, slot: Slot) -> &[Held] {
        self.slots.get(&slot).map_or(&[], |candidates| &candidates.held)
    }

    /// The one that came last.
    pub(super) fn last(&self, slot: Slot) -> Option<&Held> {
        self.of(slot).last()
    }

    /// Whether a notice was taken before: it is held, or was found to be wrong.
    pub(super) fn contains(&self, slot: Slot, notice: &Notice) -> bool {
        self.slots.get(&slot).is_some_and(|candidates| {
            let is_wrong = |revealed| candidates.wrong.contains(revealed);
            candidates.held.iter().any(|held| held.notice == *notice)
                || notice.disclosed().is_some_and(is_wrong)
        })
    }

    /// Keeps a notice if there is room; whether there was.
    pub(super) fn keep(&mut self, slot: Slot, held: Held) -> bool {
        let candidates = self.slots.entry(slot).or_default();
        let room = candidates.held.len() < CANDIDATES && candidates.taken < MOST_TAKEN;
        if room {
            candidates.held.push(held);
            // Counted for good, also if it is retracted: else a member could have wrong ones
            // flooded without end.
            candidates.taken += 1;
            self.taken.push(slot);
        }
        room
    }

    /// Gives back the place of a notice that was found to be wrong.
    pub(super) fn retract(&mut self, slot: Slot, revealed: &Disclosed) {
        if let Some(candidates) = self.slots.get_mut(&slot) {
            let before = candidates.held.len();
            candidates
                .held
                .retain(|held| held.notice.disclosed() != Some(revealed));
            if candidates.held.len() < before {
                candidates.wrong.insert(*revealed);
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Slot, &Held)> {
        let each = |(slot, candidates): (&Slot, _)| (*slot, candidates);
        let slots = self.slots.iter().map(each);
        slots.flat_map(|(slot, candidates)| candidates.held.iter().map(move |held| (slot, held)))
    }

    /// The slot of the notice that was taken after so many others.
    pub(super) fn slot_after(&self, count: usize) -> Option<Slot> {
        self.taken.get(count).copied()
    }

    /// Returns the secrets or shares that are held of one slot.
    pub(super) fn revealed(&self, slot: Slot) -> impl Iterator<Item = &Disclosed> {
        self.of(slot).iter().filter_map(|held| held.notice.disclosed())
    }

    /// Returns the secrets and shares that are held of a round: secrets first, then shares.
    pub(super) fn of_round(&self, round: u32) -> impl Iterator<Item = (Slot, &Disclosed)> {
        let keys = Slot::Key(round, 0)..=Slot::Key(round, Party::MAX);
        let shares = Slot::Share(round, 0, 0)..=Slot::Share(round, Party::MAX, Party::MAX);
        let slots = self.slots.range(keys).chain(self.slots.range(shares));
        slots.flat_map(|(slot, _)| self.revealed(*slot).map(|revealed| (*slot, revealed)))
    }
}
