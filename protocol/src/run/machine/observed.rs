//! The stage of a run, for a person.

use crate::messages::stage::{Phase, Stage};
use crate::messages::wire::Bytes;
use crate::mixing::exchange::ShareExchange;
use crate::run::machine::Run;
use crate::run::outcome::{Progress, SliceProgress};
use crate::run::phase::RunPhase;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

impl Run {
    /// The mixing state, for checks of conservation.
    pub(crate) fn holdings(&self) -> Option<&ShareExchange> {
        self.phase.transfers().map(|transfers| &transfers.shares)
    }

    /// The bytes of a party's item, for a simulated party that shows others another one.
    pub(crate) fn item(&self, stage: Stage, author: Party) -> Option<Bytes> {
        self.public_state.items(stage).get(author)?.bytes()
    }

    /// The numbers by which its logs name shares.
    pub(crate) fn log_schedule(&self) -> &Schedule {
        &self.public_state.rules.schedule
    }

    /// Returns the stage that the run is in.
    pub fn progress(&self) -> Progress {
        let exchange = self.holdings();
        let round = match self.phase {
            RunPhase::Gathering(_) | RunPhase::Awaiting(_) | RunPhase::Spending(_) => 0,
            // Shares are kept until finals are corrected: without them all rounds are over.
            _ => exchange.map_or(self.config.mixing.rounds + 1, ShareExchange::round),
        };
        Progress {
            phase: self.phase(),
            ready: self.public_state.flood.ready_parties(),
            round,
            tally: exchange.map_or(self.record.tally, ShareExchange::tally),
            received: exchange.map_or(self.record.received, |exchange| exchange.received.len()),
        }
    }

    /// Returns the parties whose item or secret the present stage lacks and waits for, ascending.
    /// Empty while READYs are gathered, which reports by itself, and while shares are exchanged.
    pub fn awaited(&self) -> Vec<Party> {
        match &self.phase {
            _ if self.record.finished => vec![],
            RunPhase::Opening(phase) => match &phase.summing {
                Some(summing) => self.public_state.awaited_keepers(&summing.sums),
                None => phase.opening.awaited(),
            },
            phase => phase.agreement().map_or(vec![], |agreement| {
                agreement.awaited(self.public_state.holding(agreement.stage()))
            }),
        }
    }

    /// The progress of slices; `None` while none are placed or added up.
    pub fn slices(&self) -> Option<SliceProgress> {
        match &self.phase {
            _ if self.record.finished => None,
            RunPhase::Settling(_) => self.public_state.placed(),
            RunPhase::Opening(phase) => {
                let here = phase.summing.as_ref()?.sums.len();
                Some(SliceProgress::AddingUp(here, self.config.plan.slices()?.count()))
            }
            _ => None,
        }
    }

    fn phase(&self) -> Phase {
        match self.phase {
            _ if self.record.finished => Phase::Done,
            RunPhase::Gathering(_) | RunPhase::Awaiting(_) | RunPhase::Spending(_) => Phase::Gathering,
            RunPhase::Mixing(_) => Phase::Mixing,
            RunPhase::Settling(_) | RunPhase::Auditing(_) => Phase::Settling,
            RunPhase::Publishing(_) | RunPhase::Correcting(_) | RunPhase::Opening(_) => Phase::Publishing,
            RunPhase::HandedOver | RunPhase::Mixed(_) | RunPhase::Over => Phase::Done,
        }
    }
}
