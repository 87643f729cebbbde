//! Flooding after a missed message: everybody floods its final, and adds up those of the set that
//! is agreed on.
//!
//! A final is readable as soon as its opening has left, so the flood tells nothing new; and it is
//! the very one that its author committed to in its entry, or it is left out by everybody alike:
//! who lies about it cannot choose another one once it has seen the others'. So `agreed` means here
//! what it means wherever finals are flooded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::items::Items;
use crate::averaging::entry::FinalEntry;
use crate::averaging::terms::AveragingTerms;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::ItemSet;
use crate::mixing::portion::Resting;
use crate::publishing::averaging::opening::Opening;
use crate::publishing::flood::FloodedFinals;
use crate::publishing::interface::{Published, PublishingAction, Surroundings};
use crate::publishing::publication::Publication;
use crate::publishing::result::Sum;
use crate::time::Time;
use crate::topology::party::Party;

/// A node that floods the final to which its entry has committed it.
pub(super) struct FloodedEntries {
    finals: FloodedFinals,
    terms: Arc<AveragingTerms>,
    entries: BTreeMap<Party, FinalEntry>,
    /// The result of this node's rounds, if it has done them all.
    averaged: Option<Published>,
    actions: Vec<PublishingAction>,
}

impl FloodedEntries {
    pub(super) fn new(
        finals: FloodedFinals,
        terms: Arc<AveragingTerms>,
        entries: BTreeMap<Party, FinalEntry>,
        averaged: Option<Published>,
    ) -> Self {
        FloodedEntries {
            finals,
            terms,
            entries,
            averaged,
            actions: Vec::new(),
        }
    }

    /// A party's final, if it is what the party committed to.
    fn committed(
        &self,
        party: Party,
        read: Resting<LatticeVector, LatticeWeight>,
    ) -> Option<Resting<LatticeVector, LatticeWeight>> {
        let opening = Opening::of(&self.terms, read.value.unpack().steps(), read.weight).ok()?;
        (self.entries.get(&party) == Some(&opening.entry)).then_some(read)
    }

    /// The sum of the finals of a set, without those that nobody committed to.
    fn sum(&mut self, set: &ItemSet, items: &Items, agreed: bool) -> Published {
        let (mut included, mut finals) = (BTreeSet::new(), Vec::new());
        for (party, hash) in set {
            let bytes = items.version(*party, hash).and_then(|body| body.bytes());
            let read = bytes.and_then(|bytes| self.finals.read(&bytes).ok());
            match read.map(|read| self.committed(*party, read)) {
                Some(Some(committed)) => {
                    included.insert(*party);
                    finals.push(Some(committed));
                }
                Some(None) => {
                    let reason = "a final that is not the one that it announced".to_string();
                    self.actions.push(PublishingAction::Offence(*party, reason));
                }
                // Held, and not to be read: then there is no sum of this set here.
                None => {
                    included.insert(*party);
                    finals.push(None);
                }
            }
        }
        Published {
            sum: Sum::of(self.finals.lattice(), finals.into_iter()),
            ..Published::without_sum(included, agreed)
        }
    }
}

impl Publication for FloodedEntries {
    fn agreed(&mut self, _now: Time, set: &ItemSet, items: &Items, _around: &Surroundings<'_>) {
        let published = self.sum(set, items, true);
        self.actions.push(PublishingAction::Ended(Box::new(published)));
    }

    fn into_flooding(self: Box<Self>) -> Box<dyn Publication> {
        self
    }

    fn unresolved(&mut self, set: &ItemSet, items: &Items) {
        let published = match self.averaged.take() {
            Some(averaged) => averaged,
            None => self.sum(set, items, false),
        };
        self.actions.push(PublishingAction::Ended(Box::new(published)));
    }

    fn take_actions(&mut self) -> Vec<PublishingAction> {
        std::mem::take(&mut self.actions)
    }
}
