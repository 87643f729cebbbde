//! Where a run is, for a person.

use crate::messages::stage::Phase;
use crate::mixing::exchange::Exchange;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::Progress;

impl Run {
    /// Where the run is.
    pub fn progress(&self) -> Progress {
        let exchange = self.holdings();
        let round = match self.machine {
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => 0,
            _ => exchange.map_or(self.course.rounds + 1, Exchange::round),
        };
        Progress {
            phase: self.phase(),
            ready: self.commons.flood.readies().len(),
            round,
            tally: exchange.map_or(self.record.tally, Exchange::tally),
            received: exchange.map_or(self.record.received, |exchange| exchange.received.len()),
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
