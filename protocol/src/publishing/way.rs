//! The way of publishing that a plan asks for: one file each.

use std::collections::BTreeSet;

use crate::messages::stage::Stage;
use crate::messages::wire::Bytes;
use crate::mixing::finals::FinalState;
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::averaging::publication::AveragedFinals;
use crate::publishing::flood::FloodedFinals;
use crate::publishing::interface::{FinalError, OwnItem, Setup};
use crate::publishing::publication::Publication;
use crate::publishing::sealed::SealedFinals;
use crate::topology::party::Party;

/// The way in which finals become one result, as the plan says.
pub enum Way {
    /// The finals leave sealed, with the logs, and are opened for one agreed set or for none.
    Sealed(SealedFinals),
    /// The finals leave once the gate has passed, to be read at once.
    Readable(ReadableFinals),
    /// The finals never leave: what is mixed is noise of releases to come.
    Kept,
}

/// The way in which readable finals become one result: the rules for everybody's items of the
/// second agreement, and the beginning of a node's [`Publication`].
pub enum ReadableFinals {
    /// Every final goes to everybody, who sums those of the agreed set.
    Flood(FloodedFinals),
    /// Finals go to neighbours only, who average; everybody gets their entries.
    Averaging(AveragedFinals),
}

impl Way {
    /// The way of a plan.
    pub fn of(plan: &Plan, parameters: &MixingParameters) -> Self {
        if parameters.precomputed {
            return Way::Kept;
        }
        if plan.draft().run.sealed {
            return Way::Sealed(SealedFinals::of(plan, parameters));
        }
        Way::Readable(match plan.terms() {
            None => ReadableFinals::Flood(FloodedFinals::of(plan, parameters)),
            Some(terms) => ReadableFinals::Averaging(AveragedFinals::of(plan, parameters, terms.clone())),
        })
    }

    /// The most bytes that a final has, or what stands for one.
    pub fn item_limit(&self) -> usize {
        match self {
            Way::Sealed(finals) => finals.item_limit(),
            Way::Kept => 0,
            Way::Readable(ReadableFinals::Flood(way)) => way.item_limit(),
            Way::Readable(ReadableFinals::Averaging(way)) => way.item_limit(),
        }
    }

    /// The longest frame besides items and notices, in bytes.
    pub fn frame_limit(&self) -> usize {
        match self {
            Way::Readable(ReadableFinals::Averaging(way)) => way.frame_limit(),
            Way::Readable(ReadableFinals::Flood(_)) | Way::Sealed(_) | Way::Kept => 0,
        }
    }

    /// Whether neighbours send each other rounds.
    pub fn has_rounds(&self) -> bool {
        matches!(self, Way::Readable(ReadableFinals::Averaging(_)))
    }
}

impl ReadableFinals {
    /// Whether bytes are an item of a stage.
    ///
    /// # Errors
    /// Why they are none.
    pub fn check_item(&self, stage: Stage, bytes: &Bytes) -> Result<(), FinalError> {
        match self {
            ReadableFinals::Flood(way) => {
                way.read(bytes)?;
                Ok(())
            }
            ReadableFinals::Averaging(way) => way.check_item(stage, bytes),
        }
    }

    /// Returns the most times `settle_ms` that publishing takes once the set is agreed, at least
    /// one.
    pub fn most_stages(&self) -> u64 {
        match self {
            ReadableFinals::Flood(_) => 1,
            ReadableFinals::Averaging(way) => way.most_stages(),
        }
    }

    /// This node publishes its gated final. `early`: rounds that neighbours sent before.
    ///
    /// # Errors
    /// The final has a coordinate that no honest one has.
    pub fn begin(
        &self,
        final_state: FinalState,
        setup: Setup,
        connected: &BTreeSet<Party>,
        early: EarlyRounds,
    ) -> Result<(OwnItem, Box<dyn Publication>), FinalError> {
        match self {
            ReadableFinals::Flood(way) => way.begin(&final_state, setup.me),
            ReadableFinals::Averaging(way) => way.begin(final_state, setup, connected, early),
        }
    }
}
