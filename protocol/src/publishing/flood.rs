//! Publishing by flooding: every final goes to everybody, and all sum those of the agreed set.

use std::collections::BTreeSet;

use crate::agreement::items::Items;
use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::ItemSet;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes};
use crate::mixing::finals::FinalState;
use crate::mixing::parameters::MixingParameters;
use crate::mixing::portion::{Portion, Resting};
use crate::plan::checked::Plan;
use crate::publishing::interface::{FinalError, OwnItem, Published, PublishingAction, Surroundings};
use crate::publishing::publication::Publication;
use crate::publishing::result::Sum;
use crate::time::Time;
use crate::topology::party::Party;

/// The finals of a plan that floods them.
#[derive(Clone)]
pub struct FloodedFinals {
    lattice: Lattice,
    dimension: usize,
    parties: usize,
}

impl FloodedFinals {
    /// The finals of a plan.
    pub(super) fn of(plan: &Plan, parameters: &MixingParameters) -> Self {
        FloodedFinals {
            lattice: parameters.lattice,
            dimension: parameters.dimension,
            parties: plan.parties(),
        }
    }

    /// A final's length in bytes.
    pub(super) fn item_limit(&self) -> usize {
        wire::FINAL_HEADER + self.dimension * self.lattice.final_bytes as usize
    }

    /// A final from its bytes: its coordinates are looked at only if they might not be summed.
    pub(super) fn read(&self, bytes: &Bytes) -> Result<Resting<LatticeVector, LatticeWeight>, FinalError> {
        let (weight, values) = wire::final_from_bytes(bytes)?;
        let value = self
            .lattice
            .final_state(bytes.slice_ref(values), self.dimension, self.parties)?;
        let travels = self.lattice.ring().is_none();
        if weight.0.unsigned_abs() > i128::MAX as u128 / self.parties as u128 || (weight.0 != 0 && !travels) {
            return Err(FinalError::Weight);
        }
        Ok(Portion { value, weight })
    }

    /// The lattice that they live on.
    pub(super) fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// A node's own final as its item of a stage.
    pub(super) fn item(
        &self,
        final_state: &FinalState,
        stage: Stage,
        me: Party,
    ) -> Result<OwnItem, FinalError> {
        let length = self.item_limit();
        let (frame, written) = wire::body_frame_with(stage, me, length, |bytes| {
            let (weight, values) = bytes.split_at_mut(wire::FINAL_HEADER);
            let state = final_state.portion();
            weight.copy_from_slice(&state.weight.0.to_le_bytes());
            self.lattice.write_final(&state.value, values)
        });
        written.map_err(|_| FinalError::OwnWidth)?;
        Ok(OwnItem { frame, length })
    }

    /// A node publishes its own final.
    pub(super) fn begin(
        &self,
        final_state: &FinalState,
        me: Party,
    ) -> Result<(OwnItem, Box<dyn Publication>), FinalError> {
        let item = self.item(final_state, Stage::Publishing, me)?;
        let flooding = Flooding {
            finals: self.clone(),
            actions: vec![],
        };
        Ok((item, Box::new(flooding)))
    }
}

/// A node that has flooded its final.
struct Flooding {
    finals: FloodedFinals,
    actions: Vec<PublishingAction>,
}

impl Flooding {
    fn end(&mut self, set: &ItemSet, items: &Items, agreed: bool) {
        let included: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        let finals = set.iter().map(|(party, hash)| {
            let bytes = items.version(*party, hash)?.bytes()?;
            self.finals.read(&bytes).ok()
        });
        self.actions.push(PublishingAction::Ended(Box::new(Published {
            sum: Sum::of(&self.finals.lattice, finals),
            ..Published::without_sum(included, agreed)
        })));
    }
}

impl Publication for Flooding {
    fn agreed(&mut self, _now: Time, set: &ItemSet, items: &Items, _around: &Surroundings<'_>) {
        self.end(set, items, true);
    }

    fn unresolved(&mut self, set: &ItemSet, items: &Items) {
        self.end(set, items, false);
    }

    fn into_flooding(self: Box<Self>) -> Box<dyn Publication> {
        self
    }

    fn take_actions(&mut self) -> Vec<PublishingAction> {
        std::mem::take(&mut self.actions)
    }
}
