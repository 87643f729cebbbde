//! A node that is told to leave before the run is over.

use crate::agreement::agreeing::Step;
use crate::mixing::ticket::Recalled;
use crate::publishing::interface::Published;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, SealedFinal};

impl Run {
    /// Ends the run for this node before its time. No share that is still here leaves any more; if
    /// one has left, the final is withheld. Who has published its final already has that in its
    /// result, with what is here of the others'.
    pub(super) fn leave(&mut self) {
        let reason = self.reason_to_leave();
        match &mut self.machine {
            Machine::Mixed { .. } | Machine::Over => {}
            Machine::Publishing { .. } if self.record.finished => {}
            Machine::Publishing {
                publication: Some(publication),
                ..
            } if publication.is_under_way() => {
                publication.leave(self.now, &self.commons.around(&self.gone));
                self.carry_out_publication();
            }
            Machine::Publishing { .. } => self.publish(Step::Over),
            Machine::Correcting { .. } | Machine::Opening { .. } if self.record.finished => {}
            Machine::Correcting { .. } | Machine::Opening { .. } => {
                self.finish(Ending::Withheld { reason }, Published::default());
            }
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => {
                self.withdraw();
                self.finish(Ending::Aborted { reason }, Published::default());
            }
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => {
                if exchange.recall_all() {
                    // How it ends is known with the answer.
                    self.leaving = true;
                    return;
                }
                // A sealed final that has left may be opened, whether a share ever left or not;
                // shares of noise alone tell nothing.
                let shares_left = exchange.anything_left() && !self.course.ahead;
                let ending = if shares_left || self.record.sealed.is_some() {
                    Ending::Withheld { reason }
                } else {
                    Ending::Aborted { reason }
                };
                self.finish(ending, Published::default());
            }
        }
        self.machine = Machine::Over;
    }

    fn reason_to_leave(&self) -> String {
        let mut reason = "this node was told to leave".to_string();
        if self.record.sealed == Some(SealedFinal::Unknown) {
            reason += "; its sealed final has left, and the others may open it";
        }
        reason
    }

    /// What became of shares that were called back: the round ends, or this node leaves.
    pub(super) fn recalled(&mut self, recalled: &Recalled) {
        if let Some(exchange) = self.exchange() {
            exchange.recalled(recalled);
        }
        if self.leaving {
            self.leave();
        }
    }
}
