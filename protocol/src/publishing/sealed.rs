//! Sealed finals: what leaves with the log, and what is read of it once the agreed set is open.
//!
//! A final is its party's state under the party's own mask, residue by residue. Nobody reads one
//! alone: whoever knows the secrets of all members of a set adds up their sealed finals, and the
//! corrections of these, and takes the masks off the sum.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::VectorError;
use crate::lattice::residue::{ResidueVector, Sign};
use crate::lattice::vector::LatticeVector;
use crate::messages::signature::Digest;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes};
use crate::mixing::finals::{LoggedState, StateCorrection};
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::plan::slices::Slices;
use crate::publishing::interface::{FinalError, OwnItem};
use crate::publishing::result::{Sum, sum_of_vectors};
use crate::sealing::deal::Secret;
use crate::sealing::mask::{EVERYBODY, MaskKey, MaskPlace};
use crate::sealing::pair_masks::{KEY_BYTES, PairMasks, take_out, take_out_of_slice};
use crate::sealing::slice_tree::{HASH_BYTES, SliceHash, SlicePlace, SliceTree, path_length};
use crate::topology::party::Party;

/// A party's correction of its sealed final.
pub enum Correction {
    /// The vector to be added to it.
    Vector(StateCorrection),
    /// The keys of its masks with those who are left out, in their order.
    Keys(Vec<u8>),
}

/// The keys of masks that a party has revealed.
pub struct RevealedKeys<'a> {
    /// The party that revealed the keys.
    pub giver: Party,
    /// The parties with which it has these masks in common, ascending.
    pub with: &'a [Party],
    /// A key each.
    pub keys: Bytes,
}

/// The sealed finals of a plan that seals them.
#[derive(Clone)]
pub struct SealedFinals {
    lattice: Lattice,
    dimension: usize,
    digest: Digest,
    /// The round of everything that is sealed.
    round: u32,
    /// The most parties with whom one has masks in common.
    most_masks: usize,
    /// Whether what is sealed goes to its readers alone, and nothing of it to everybody.
    circles: bool,
    /// The slices in which finals travel, to their keepers; `None` where each goes to everybody.
    slices: Option<Slices>,
}

/// A party's final, sealed slice by slice.
pub struct SealedSlices {
    /// The root of the tree over the slices' hashes.
    pub root: SliceHash,
    /// Each slice as it travels: its path in the tree, then its residues.
    pub items: Vec<Vec<u8>>,
}

impl SealedFinals {
    /// The sealed finals of a plan.
    pub(super) fn of(plan: &Plan, parameters: &MixingParameters) -> Self {
        SealedFinals {
            lattice: parameters.lattice,
            dimension: parameters.dimension,
            digest: parameters.digest,
            round: plan.sealed_round(),
            most_masks: if plan.pairs() { plan.parties() - 1 } else { 0 },
            circles: plan.reads_circles(),
            slices: plan.slices(),
        }
    }

    /// The slices in which finals travel; `None` where each goes to everybody.
    pub fn slices(&self) -> Option<&Slices> {
        self.slices.as_ref()
    }

    /// The bytes of a sealed final, and of a correction by a vector: residues of the ring's width,
    /// nothing else. None where what is sealed goes to its readers alone.
    pub fn bytes(&self) -> usize {
        if self.circles {
            return 0;
        }
        self.dimension * self.lattice.final_bytes as usize
    }

    /// The most bytes that an item has.
    pub fn item_limit(&self) -> usize {
        self.bytes().max(KEY_BYTES * self.most_masks)
    }

    /// Whether bytes are a sealed final, or a correction by a vector: as many residues as the plan
    /// says.
    ///
    /// # Errors
    /// They are none, whoever signed their hash.
    pub fn check(&self, bytes: &Bytes) -> Result<(), FinalError> {
        if self.circles {
            return self.check_keys(bytes, 0);
        }
        self.lattice.final_state(bytes.clone(), self.dimension, 1)?;
        Ok(())
    }

    /// Whether bytes are the keys of so many masks. Whether they are the right ones nobody sees
    /// before all is opened: with a wrong one the sum is a uniformly random vector.
    ///
    /// # Errors
    /// They are more or fewer bytes.
    pub fn check_keys(&self, bytes: &Bytes, count: usize) -> Result<(), FinalError> {
        let (found, expected) = (bytes.len(), KEY_BYTES * count);
        if found == expected {
            Ok(())
        } else {
            Err(FinalError::Keys { found, expected })
        }
    }

    /// A party's state under the mask that follows from its secret, and under those that it has in
    /// common with others, as the item that leaves.
    ///
    /// # Errors
    /// The plan's finals are no residues, or too long for a mask: no plan's are.
    pub fn seal(
        &self,
        me: Party,
        state: &LoggedState,
        masks: Option<&PairMasks>,
        secret: &Secret,
    ) -> Result<OwnItem, FinalError> {
        let sealed = SealedState::of(state, masks, &MaskKey::own(secret, &self.place(me)))?;
        Ok(self.item(Stage::Sealed, me, &sealed.0))
    }

    /// A party's state, sealed as [`SealedFinals::seal`] does it, slice by slice.
    ///
    /// # Errors
    /// The plan's finals are no residues, or do not travel in slices.
    pub fn seal_slices(
        &self,
        me: Party,
        state: &LoggedState,
        masks: Option<&PairMasks>,
        secret: &Secret,
    ) -> Result<SealedSlices, FinalError> {
        let slices = self.slices.as_ref().ok_or(FinalError::NoResidues)?;
        let state = state.portion().value.residues().ok_or(FinalError::NoResidues)?;
        let own = MaskKey::own(secret, &self.place(me));
        let place = self.slice_place(me);
        let (mut items, mut leaves) = (Vec::new(), Vec::new());
        for slice in slices.all() {
            let sealed = SealedSlice::of(state, slice, slices.range(slice), (masks, &own))?;
            let path = path_length(slice, slices.count()) * HASH_BYTES;
            let mut item = vec![0; path + slices.bytes(slice)];
            sealed.0.write(&mut item[path..]);
            leaves.push(place.leaf(slice, &item[path..]));
            items.push(item);
        }
        let tree = SliceTree::of(leaves);
        for (slice, item) in slices.all().zip(&mut items) {
            let path = tree.path(slice).concat();
            item[..path.len()].copy_from_slice(&path);
        }
        Ok(SealedSlices {
            root: tree.root(),
            items,
        })
    }

    /// Whether bytes are a slice, or a sum of slices of one number: as many residues as the plan
    /// says, after `path` bytes of a path in a hash tree.
    ///
    /// # Errors
    /// They are none, whoever signed their hash.
    pub fn check_slice(&self, slice: u32, bytes: &Bytes, path: usize) -> Result<(), FinalError> {
        let slices = self.slices.as_ref().ok_or(FinalError::NoResidues)?;
        let (found, expected) = (bytes.len(), path + slices.bytes(slice));
        if found != expected {
            return Err(VectorError::Length { found, expected }.into());
        }
        let count = slices.range(slice).len();
        self.lattice.final_state(bytes.slice(path..), count, 1)?;
        Ok(())
    }

    /// The sum of one slice of the parties whose `secrets` are given, in bytes: of their sealed
    /// slices, less their masks. What corrections change is not in it.
    ///
    /// # Errors
    /// A slice cannot be read any more.
    pub fn add_slices(
        &self,
        slice: u32,
        sealed: impl Iterator<Item = Option<Bytes>>,
        secrets: &BTreeMap<Party, &Secret>,
    ) -> Result<Vec<u8>, FinalError> {
        let mut sum = self.zeros(slice)?;
        let length = sum.len() * sum.ring().width();
        for bytes in sealed {
            let bytes = bytes.ok_or(FinalError::Unreadable)?;
            // Its path comes first.
            let residues = bytes.len().checked_sub(length).ok_or(FinalError::Unreadable)?;
            sum.add_bytes(Sign::Plus, &bytes[residues..]);
        }
        for (&party, secret) in secrets {
            let own = MaskKey::own(secret, &self.place(party));
            own.own_slice(slice).subtract_from(&mut sum)?;
        }
        Ok(sum.to_bytes())
    }

    /// Σ x̃ of the parties that were opened, to the bit, from the sums of all slices in order:
    /// `vectors` are the corrections by vectors, `keys` those by keys.
    ///
    /// # Errors
    /// A sum or a correction cannot be read any more, or has another length than the plan's.
    pub fn join_slices(
        &self,
        sums: impl Iterator<Item = Option<Bytes>>,
        vectors: impl Iterator<Item = Option<Bytes>>,
        keys: &[RevealedKeys<'_>],
    ) -> Result<OpenedSum, FinalError> {
        let mut joined = Vec::with_capacity(self.bytes());
        for (slice, bytes) in (0..).zip(sums) {
            let bytes = bytes.ok_or(FinalError::Unreadable)?;
            if keys.is_empty() {
                joined.extend_from_slice(&bytes);
                continue;
            }
            let mut sum = self.zeros(slice)?;
            sum.add_bytes(Sign::Plus, &bytes);
            for RevealedKeys { giver, with, keys } in keys {
                take_out_of_slice(&mut sum, (slice, *giver), with, keys)?;
            }
            joined.extend_from_slice(&sum.to_bytes());
        }
        let read = |bytes: Option<Bytes>| {
            let bytes = bytes.ok_or(FinalError::Unreadable)?;
            Ok::<_, FinalError>(self.lattice.final_state(bytes, self.dimension, 1)?)
        };
        let all = std::iter::once(Some(Bytes::from(joined))).chain(vectors);
        let sum = sum_of_vectors(all.map(read))?.ok_or(FinalError::NoResidues)?;
        Ok(OpenedSum(self.lattice.sum(sum)))
    }

    fn zeros(&self, slice: u32) -> Result<ResidueVector, FinalError> {
        let slices = self.slices.as_ref().ok_or(FinalError::NoResidues)?;
        let ring = self.lattice.ring().ok_or(FinalError::NoResidues)?;
        Ok(ResidueVector::zeros(ring, slices.range(slice).len()))
    }

    fn slice_place(&self, author: Party) -> SlicePlace<'_> {
        SlicePlace {
            digest: &self.digest,
            author,
            round: self.round,
        }
    }

    /// A party's correction of what it has sealed, as the item that leaves.
    pub fn correction(&self, number: u32, me: Party, correction: &Correction) -> OwnItem {
        let stage = Stage::Correction(number);
        match correction {
            Correction::Vector(correction) => self.item(stage, me, correction.vector()),
            Correction::Keys(keys) => {
                let write = |bytes: &mut [u8]| bytes.copy_from_slice(keys);
                let (frame, ()) = wire::body_frame_with(stage, me, keys.len(), write);
                let length = keys.len();
                OwnItem { frame, length }
            }
        }
    }

    fn item(&self, stage: Stage, me: Party, vector: &LatticeVector) -> OwnItem {
        let length = self.bytes();
        let write = |bytes: &mut [u8]| {
            // Residues have one width, and always fit.
            self.lattice
                .write_final(vector, bytes)
                .expect("residues fit into as many bytes as they have")
        };
        let (frame, ()) = wire::body_frame_with(stage, me, length, write);
        OwnItem { frame, length }
    }

    /// Σ x̃ of the parties whose `secrets` are given, to the bit: the sum of all `items`, which are
    /// their sealed finals and the corrections of these by vectors, less their masks; `keys` are
    /// the corrections by keys.
    ///
    /// # Errors
    /// An item cannot be read any more, or has another length than the plan's: none that was
    /// checked has.
    pub fn open(
        &self,
        items: impl Iterator<Item = Option<Bytes>>,
        keys: &[RevealedKeys<'_>],
        secrets: &BTreeMap<Party, &Secret>,
    ) -> Result<OpenedSum, FinalError> {
        let read = |bytes: Option<Bytes>| {
            let bytes = bytes.ok_or(FinalError::Unreadable)?;
            Ok::<_, FinalError>(self.lattice.final_state(bytes, self.dimension, 1)?)
        };
        let mut sum = sum_of_vectors(items.map(read))?.ok_or(FinalError::NoResidues)?;
        for (&party, secret) in secrets {
            MaskKey::own(secret, &self.place(party)).subtract_from(residues(&mut sum)?)?;
        }
        for RevealedKeys { giver, with, keys } in keys {
            take_out(residues(&mut sum)?, *giver, with, keys)?;
        }
        Ok(OpenedSum(self.lattice.sum(sum)))
    }

    fn place(&self, author: Party) -> MaskPlace<'_> {
        MaskPlace {
            digest: &self.digest,
            author,
            round: self.round,
            circle: EVERYBODY,
        }
    }
}

/// A state under its masks: even to whoever lacks one of their keys. Made by adding them alone.
struct SealedState(LatticeVector);

impl SealedState {
    fn of(state: &LoggedState, masks: Option<&PairMasks>, own: &MaskKey) -> Result<Self, FinalError> {
        let mut sealed = state.portion().value.clone();
        let vector = residues(&mut sealed)?;
        masks.map_or(Ok(()), |masks| masks.add_to(vector))?;
        own.add_to(vector)?;
        Ok(SealedState(sealed))
    }
}

/// A slice of a state under its masks, as [`SealedState`] is.
struct SealedSlice(ResidueVector);

impl SealedSlice {
    fn of(
        state: &ResidueVector,
        slice: u32,
        range: Range<usize>,
        (masks, own): (Option<&PairMasks>, &MaskKey),
    ) -> Result<Self, FinalError> {
        let mut part = state.part(range);
        masks.map_or(Ok(()), |masks| masks.add_to_slice(slice, &mut part))?;
        own.own_slice(slice).add_to(&mut part)?;
        Ok(SealedSlice(part))
    }
}

/// The sum of the vectors that the members of an open set have contributed: their masks are off. It
/// prints nothing; once it counts it is a [`Sum`](crate::publishing::result::Sum).
pub struct OpenedSum(LatticeVector);

impl OpenedSum {
    /// A reader's sum of a circle, in steps, whose masks are off.
    pub(crate) fn of_circle(lattice: &Lattice, steps: impl Iterator<Item = i128>) -> Self {
        OpenedSum(lattice.vector(steps))
    }

    /// The sum, with the weight that it has.
    pub(crate) fn weighing(self, weight: LatticeWeight) -> Sum {
        Sum {
            value: self.0,
            weight,
        }
    }
}

fn residues(vector: &mut LatticeVector) -> Result<&mut ResidueVector, FinalError> {
    vector.residues_mut().ok_or(FinalError::NoResidues)
}
