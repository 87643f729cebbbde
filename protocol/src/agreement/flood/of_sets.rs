//! The held sets that notices name, and the lacking ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::named_sets::{NamedSets, SPARE_SETS, SetPurpose};
use crate::agreement::flood::{Flood, FloodError};
use crate::messages::notice::{ItemSet, Seat, SetHash};
use crate::messages::set::Set;
use crate::messages::stage::Stage;
use crate::messages::wire;
use crate::topology::party::Party;

/// A set that held notices name, and that is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSet {
    /// The hash by which notices name the set.
    pub hash: SetHash,
    /// Whether it is of those who take part.
    pub of_start: bool,
    /// The parties that have signed the set.
    pub signers: Vec<Party>,
}

impl Flood {
    /// Sets the number of parties of the plan that may lie.
    pub fn with_colluding(mut self, colluding: usize) -> Self {
        self.sets.colluding = colluding;
        self
    }

    /// Returns the number of parties that may lie.
    pub fn colluding(&self) -> usize {
        self.sets.colluding
    }

    fn set(&self, hash: &SetHash) -> Option<&Set> {
        let pulled = || self.sets.pulled.get(hash).map(|(_, set)| set);
        self.sets.own.get(hash).or_else(pulled)
    }

    /// Returns the seats of the set with this hash, if it is here and is a set of seats.
    pub fn seats(&self, hash: &SetHash) -> Option<&[Seat]> {
        match self.set(hash)? {
            Set::Seats(seats) => Some(seats),
            Set::Items(_) => None,
        }
    }

    /// Returns the items of the set with this hash, if it is here and is a set of items.
    pub fn items(&self, hash: &SetHash) -> Option<&ItemSet> {
        match self.set(hash)? {
            Set::Items(items) => Some(items),
            Set::Seats(_) => None,
        }
    }

    /// Every set that votes of a stage are for, by hash: the set, if it is here, and how many have
    /// signed it.
    pub fn voted(&self, stage: Stage) -> impl DoubleEndedIterator<Item = (Option<&ItemSet>, usize)> {
        let purpose = SetPurpose::Stage(stage);
        let of_stage = (purpose, SetHash::default())..=(purpose, [u8::MAX; 32]);
        let voted = self.sets.signers.range(of_stage);
        voted.map(|((_, hash), signers)| (self.items(hash), signers.len()))
    }

    /// Whether anybody has signed a list or a vote of a stage.
    pub fn says_anything_in(&self, stage: Stage) -> bool {
        self.votes(stage).next().is_some() || self.lists(stage).next().is_some()
    }

    /// The set with this hash, for whoever asks for it.
    pub fn set_named(&self, hash: &SetHash) -> Option<&Set> {
        self.set(hash)
    }

    /// Keeps a set that this node signs; returns what to name it by.
    pub fn keep_set(&mut self, set: Set) -> SetHash {
        let hash = wire::set_hash(&set);
        self.sets.own.insert(hash, set);
        hash
    }

    /// Takes a set from a peer, or one that this node made up of what it holds. True: it was
    /// wanted, and is here now.
    ///
    /// # Errors
    /// Nobody may sign such a set.
    pub fn take_set(&mut self, set: Set) -> Result<bool, FloodError> {
        if !set.is_of(self.members.len()) {
            return Err(FloodError::MalformedSet);
        }
        let hash = wire::set_hash(&set);
        let wanted = self
            .unknown_sets()
            .into_iter()
            .any(|unknown| unknown.hash == hash);
        // Memory is bounded by the notices held: a set that none of them names is not kept.
        if !wanted {
            return Ok(false);
        }
        let named = self.sets.signers.keys().filter(|(_, named)| *named == hash);
        let fits =
            |purpose: &SetPurpose| matches!(purpose, SetPurpose::Start(_)) == matches!(set, Set::Seats(_));
        // A liar may name the hash of a set of items in a START, or the other way round.
        let Some(purpose) = named.map(|(purpose, _)| *purpose).find(fits) else {
            return Err(FloodError::MalformedSet);
        };
        self.sets.pulled.insert(hash, (purpose, set));
        Ok(true)
    }

    /// Whether some set that a held notice names is not here.
    pub fn lacks_sets(&self) -> bool {
        let mut named = self.sets.signers.keys();
        named.any(|(_, hash)| self.set(hash).is_none())
    }

    /// Sets that are named and not here, as many of a purpose as there is room for, those first
    /// that most have signed. Sets that no notice names any more give their room back.
    pub fn unknown_sets(&mut self) -> Vec<UnknownSet> {
        let NamedSets { signers, pulled, .. } = &mut self.sets;
        pulled.retain(|hash, (purpose, _)| signers.contains_key(&(*purpose, *hash)));
        let most = self.sets.colluding + SPARE_SETS;
        let mut room: BTreeMap<SetPurpose, usize> = BTreeMap::new();
        for (purpose, _) in self.sets.pulled.values() {
            *room.entry(*purpose).or_insert(0) += 1;
        }
        let named = self.sets.signers.iter();
        let unknown = named.filter(|((_, hash), _)| self.set(hash).is_none());
        let mut unknown: Vec<(&(SetPurpose, SetHash), &BTreeSet<Party>)> = unknown.collect();
        // Sets that only liars signed must not take the room of the one that most have signed.
        unknown.sort_by_key(|(_, signers)| std::cmp::Reverse(signers.len()));
        unknown.retain(|((purpose, _), _)| {
            let taken = room.entry(*purpose).or_insert(0);
            *taken += 1;
            *taken <= most
        });
        unknown
            .into_iter()
            .map(|((purpose, hash), signers)| UnknownSet {
                hash: *hash,
                of_start: matches!(purpose, SetPurpose::Start(_)),
                signers: signers.iter().copied().collect(),
            })
            .collect()
    }
}
