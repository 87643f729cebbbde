//! The way of publishing that a plan asks for: one variant and one file each.

use std::collections::BTreeSet;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::wire::Bytes;
use crate::mixing::course::Course;
use crate::mixing::portion::Portion;
use crate::plan::checked::Plan;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::averaging::publication::AveragedFinals;
use crate::publishing::flood::FloodedFinals;
use crate::publishing::interface::{FinalError, OwnItem, Setup};
use crate::publishing::publication::Publication;
use crate::topology::party::Party;

/// How finals become one result, as the plan says: the rules for everybody's items of the second
/// agreement, and the beginning of a node's [`Publication`].
pub enum Way {
    /// Every final goes to everybody, who sums those of the agreed set.
    Flood(FloodedFinals),
    /// Finals go to neighbours only, who average; everybody gets their entries.
    Averaging(AveragedFinals),
}

impl Way {
    /// The way of a plan.
    pub fn of(plan: &Plan, course: &Course) -> Self {
        match plan.terms() {
            None => Way::Flood(FloodedFinals::of(plan, course)),
            Some(terms) => Way::Averaging(AveragedFinals::of(plan, course, terms.clone())),
        }
    }

    /// The most bytes that an item may have.
    pub fn item_limit(&self) -> usize {
        match self {
            Way::Flood(way) => way.item_limit(),
            Way::Averaging(way) => way.item_limit(),
        }
    }

    /// Whether bytes are an item.
    ///
    /// # Errors
    /// Why they are none.
    pub fn check_item(&self, bytes: &Bytes) -> Result<(), FinalError> {
        match self {
            Way::Flood(way) => {
                way.read(bytes)?;
            }
            Way::Averaging(way) => {
                way.read(bytes)?;
            }
        }
        Ok(())
    }

    /// The longest frame besides items and notices, in bytes.
    pub fn frame_limit(&self) -> usize {
        match self {
            Way::Flood(_) => 0,
            Way::Averaging(way) => way.frame_limit(),
        }
    }

    /// Whether neighbours send each other rounds.
    pub fn has_rounds(&self) -> bool {
        matches!(self, Way::Averaging(_))
    }

    /// How many times `settle_ms` publishing takes at most once the set is agreed, at least one.
    pub fn most_stages(&self) -> u64 {
        match self {
            Way::Flood(_) => 1,
            Way::Averaging(way) => way.most_stages(),
        }
    }

    /// This node publishes its gated final. `early`: rounds that neighbours sent before.
    ///
    /// # Errors
    /// The final has a coordinate that no honest one has.
    pub fn begin(
        &self,
        final_state: Portion<LatticeVector, LatticeWeight>,
        setup: Setup,
        connected: &BTreeSet<Party>,
        early: EarlyRounds,
    ) -> Result<(OwnItem, Box<dyn Publication>), FinalError> {
        match self {
            Way::Flood(way) => way.begin(&final_state, &setup),
            Way::Averaging(way) => way.begin(final_state, setup, connected, early),
        }
    }
}
