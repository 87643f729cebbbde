//! The exchange that a plan has.

use crate::lattice::injection::InjectionError;
use crate::plan::exchange::gossip::Gossip;
use crate::plan::exchange::inca::{Cancelling, Inca};
use crate::plan::exchange::pair_masks::PairwiseMasks;
use crate::plan::exchange::ppsc::{Ppsc, PpscNoise};
use crate::plan::exchange::rules::{Planned, Rules};
use crate::plan::run_file::settings::{CorrelatedNoise, ExchangeName, Rounds};
use std::sync::Arc;

/// The way in which values travel and cancel, with the settings of that way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// INCA (Algorithm 2): noise that cancels between neighbours, round by round.
    Inca(Inca),
    /// PPSC (Algorithm 1): states are handed over, less a fresh noise.
    Ppsc(Ppsc),
    /// Masks that two parties expand from a key in common: no share travels.
    PairMasks(PairwiseMasks),
    /// Gossip averaging of noisy messages over the private graph: nothing cancels.
    Gossip(Gossip),
}

impl Exchange {
    /// The rules of this exchange.
    pub fn rules(&self) -> &dyn Rules {
        match self {
            Exchange::Inca(inca) => inca,
            Exchange::Ppsc(ppsc) => ppsc,
            Exchange::PairMasks(masks) => masks,
            Exchange::Gossip(gossip) => gossip,
        }
    }

    /// Its name in run files and plans.
    pub fn name(&self) -> ExchangeName {
        match self {
            Exchange::Inca(_) => ExchangeName::Inca,
            Exchange::Ppsc(_) => ExchangeName::Ppsc,
            Exchange::PairMasks(_) => ExchangeName::Pairwise,
            Exchange::Gossip(_) => ExchangeName::Gossip,
        }
    }

    /// The number of rounds T, or that the calibration chooses it.
    pub fn rounds(&self) -> Rounds {
        match self {
            Exchange::Inca(inca) => inca.rounds,
            Exchange::Ppsc(ppsc) => ppsc.rounds,
            Exchange::PairMasks(masks) => masks.rounds,
            Exchange::Gossip(gossip) => gossip.rounds,
        }
    }

    /// This exchange in a fixed number of rounds.
    pub fn with_rounds(mut self, fixed: Rounds) -> Self {
        match &mut self {
            Exchange::Inca(inca) => inca.rounds = fixed,
            Exchange::Ppsc(ppsc) => ppsc.rounds = fixed,
            Exchange::PairMasks(masks) => masks.rounds = fixed,
            Exchange::Gossip(gossip) => gossip.rounds = fixed,
        }
        self
    }

    /// The noise that cancels in the sum; Gaussian where none does.
    pub fn correlated(&self) -> CorrelatedNoise {
        match self {
            Exchange::Inca(inca) => inca.noise.correlated(),
            Exchange::Ppsc(ppsc) => ppsc.noise.correlated(),
            Exchange::PairMasks(_) => CorrelatedNoise::Uniform,
            Exchange::Gossip(_) => CorrelatedNoise::Gaussian,
        }
    }

    /// Returns the fan-out k ≥ 1: the number of parties that each sends to in a round.
    pub fn fanout(&self) -> u32 {
        match self {
            Exchange::Inca(Inca {
                noise: Cancelling::Gaussian(gaussian),
                ..
            }) => gaussian.fanout,
            _ => 1,
        }
    }

    /// Whether departed parties are taken out again.
    pub fn rolls_back(&self) -> bool {
        match self {
            Exchange::Inca(Inca {
                noise: Cancelling::Gaussian(gaussian),
                ..
            }) => gaussian.rollback,
            _ => true,
        }
    }

    /// Whether each party adds noise of its own that does not cancel: else the exact sum of every
    /// component of the private graph is revealed.
    pub fn adds_own_noise(&self) -> bool {
        !matches!(self, Exchange::Ppsc(ppsc) if ppsc.noise == PpscNoise::ExactSum)
    }

    /// Whether a component so small that its noise is local is accepted.
    pub fn accepts_local_noise(&self) -> bool {
        matches!(self, Exchange::Ppsc(ppsc) if ppsc.local_noise_ok)
    }

    /// The settings of gossip over edges; `None` for another exchange.
    pub fn gossip(&self) -> Option<&Gossip> {
        match self {
            Exchange::Gossip(gossip) => Some(gossip),
            _ => None,
        }
    }

    /// Whether value and noise can enter in so many rounds: not so where an injection is spelt out
    /// for another number of them.
    pub fn takes_rounds(&self, rounds: u32) -> bool {
        self.planned(rounds).is_ok()
    }

    /// The exchange of `rounds` rounds.
    ///
    /// # Errors
    /// An injection that the settings spell out is not valid, or for another number of rounds.
    pub fn planned(&self, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        self.rules().planned(rounds)
    }
}
