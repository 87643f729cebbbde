//! Where a run is, for a person.

use crate::agreement::agreeing::Agreement;
use crate::messages::stage::{Phase, Stage};
use crate::messages::wire::Bytes;
use crate::mixing::exchange::ShareExchange;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::Progress;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

impl Run {
    /// The mixing state, for checks of conservation.
    pub(crate) fn holdings(&self) -> Option<&ShareExchange> {
        match &self.machine {
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => Some(exchange),
            _ => None,
        }
    }

    /// The bytes of a party's item, for a simulated party that shows others another one.
    pub(crate) fn item(&self, stage: Stage, author: Party) -> Option<Bytes> {
        self.commons.items(stage).get(author)?.bytes()
    }

    /// The numbers by which its logs name shares.
    pub(crate) fn log_schedule(&self) -> &Schedule {
        &self.commons.rules.schedule
    }

    /// Where the run is.
    pub fn progress(&self) -> Progress {
        let exchange = self.holdings();
        let round = match self.machine {
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => 0,
            _ => exchange.map_or(self.course.rounds + 1, ShareExchange::round),
        };
        Progress {
            phase: self.phase(),
            ready: self.commons.flood.ready_parties(),
            round,
            tally: exchange.map_or(self.record.tally, ShareExchange::tally),
            received: exchange.map_or(self.record.received, |exchange| exchange.received.len()),
        }
    }

    /// Whose item or secret is not here that the present stage waits for, ascending. Nobody's while
    /// READYs are gathered, which tells by itself, and while shares are exchanged.
    pub fn awaited(&self) -> Vec<Party> {
        let lacking = |agreement: &Agreement, stage| agreement.awaited(self.commons.holding(stage));
        match &self.machine {
            _ if self.record.finished => vec![],
            Machine::Settling { agreement, .. } => lacking(agreement, Stage::Settling),
            Machine::Publishing { agreement, .. } | Machine::Correcting { agreement, .. } => {
                lacking(agreement, agreement.stage())
            }
            Machine::Opening { opening, .. } => opening.awaited(),
            _ => vec![],
        }
    }

    fn phase(&self) -> Phase {
        match self.machine {
            _ if self.record.finished => Phase::Done,
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => Phase::Gathering,
            Machine::Mixing { .. } => Phase::Mixing,
            Machine::Settling { .. } | Machine::Auditing { .. } => Phase::Settling,
            Machine::Publishing { .. } | Machine::Correcting { .. } | Machine::Opening { .. } => {
                Phase::Publishing
            }
            Machine::Mixed { .. } | Machine::Over => Phase::Done,
        }
    }
}
