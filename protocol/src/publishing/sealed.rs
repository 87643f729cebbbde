//! Sealed finals: what leaves with the log, and what is read of it once the agreed set is open.
//!
//! A final is its party's state under the party's own mask, residue by residue. Nobody reads one
//! alone: whoever knows the secrets of all members of a set adds up their sealed finals, and the
//! corrections of these, and takes the masks off the sum.

use std::collections::BTreeMap;

use crate::lattice::grid::Lattice;
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::residue::ResidueVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::Stage;
use crate::messages::signature::Digest;
use crate::messages::wire::{self, Bytes};
use crate::mixing::course::Course;
use crate::publishing::interface::{FinalError, OwnItem};
use crate::sealing::deal::Secret;
use crate::sealing::mask::{EVERYBODY, MaskKey, MaskPlace};
use crate::topology::party::Party;

/// The round of everything that is sealed in a run of one result.
pub const ONE_RESULT: u32 = 0;

/// What sealed finals are, in a plan that seals them.
#[derive(Clone)]
pub struct SealedFinals {
    lattice: Lattice,
    dimension: usize,
    digest: Digest,
}

impl SealedFinals {
    /// The sealed finals of a plan.
    pub(super) fn of(course: &Course) -> Self {
        SealedFinals {
            lattice: course.lattice,
            dimension: course.dimension,
            digest: course.digest,
        }
    }

    /// The bytes of a sealed final, and of a correction: residues of the ring's width, nothing
    /// else.
    pub fn bytes(&self) -> usize {
        self.dimension * self.lattice.final_bytes as usize
    }

    /// Whether bytes are a sealed final, or a correction: as many residues as the plan says.
    ///
    /// # Errors
    /// They are none, whoever signed their hash.
    pub fn check(&self, bytes: &Bytes) -> Result<(), FinalError> {
        self.lattice.final_state(bytes.clone(), self.dimension, 1)?;
        Ok(())
    }

    /// A party's state under the mask that follows from its secret, as the item that leaves.
    ///
    /// # Errors
    /// The plan's finals are no residues, or too long for a mask: no plan's are.
    pub fn seal(&self, me: Party, state: &LatticeVector, secret: &Secret) -> Result<OwnItem, FinalError> {
        let mut sealed = state.clone();
        let mask = MaskKey::own(secret, &self.place(me));
        mask.add_to(residues(&mut sealed)?)?;
        Ok(self.item(Stage::Sealed, me, &sealed))
    }

    /// A party's correction of what it has sealed, as the item that leaves.
    pub fn correction(&self, number: u32, me: Party, correction: &LatticeVector) -> OwnItem {
        self.item(Stage::Correction(number), me, correction)
    }

    fn item(&self, stage: Stage, me: Party, vector: &LatticeVector) -> OwnItem {
        let length = self.bytes();
        let write = |bytes: &mut [u8]| {
            // Residues have one width, and always fit.
            self.lattice
                .write_final(vector, bytes)
                .expect("residues fit into as many bytes as they have")
        };
        let (frame, ()) = wire::body_frame_with(&self.digest, stage, me, length, write);
        OwnItem { frame, length }
    }

    /// Σ x̃ of the parties whose `secrets` are given, to the bit: the sum of all `items`, which are
    /// their sealed finals and the corrections of these, less their masks.
    ///
    /// # Errors
    /// An item has another length than the plan's: none that was checked has.
    pub fn open<'a>(
        &self,
        items: impl Iterator<Item = &'a Bytes>,
        secrets: &BTreeMap<Party, &Secret>,
    ) -> Result<LatticeVector, FinalError> {
        let read = |bytes: &Bytes| self.lattice.final_state(bytes.clone(), self.dimension, 1);
        let items = items.map(read).collect::<Result<Vec<_>, _>>()?;
        let first = items.first().ok_or(FinalError::NoResidues)?;
        let mut sum = LatticeVector::zero_like(first);
        let each: Vec<_> = items.iter().map(|item| (Ratio::one(), item)).collect();
        sum.add_multiples(&each);
        for (&party, secret) in secrets {
            MaskKey::own(secret, &self.place(party)).subtract_from(residues(&mut sum)?)?;
        }
        Ok(self.lattice.sum(sum))
    }

    fn place(&self, author: Party) -> MaskPlace<'_> {
        MaskPlace {
            digest: &self.digest,
            author,
            round: ONE_RESULT,
            circle: EVERYBODY,
        }
    }
}

fn residues(vector: &mut LatticeVector) -> Result<&mut ResidueVector, FinalError> {
    vector.residues_mut().ok_or(FinalError::NoResidues)
}
