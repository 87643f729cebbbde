//! The parties for which START does not wait for ever: those that cannot be reached.

use crate::agreement::gathering::Gathering;
use crate::agreement::presence::Standing;
use crate::messages::notice::Seat;
use crate::time::Time;
use crate::topology::party::Party;

impl Gathering {
    /// Returns the parties that were not ready and there when this node signed START first,
    /// ascending, with their standings.
    pub fn without(&self) -> &[(Party, Standing)] {
        &self.without
    }

    /// Whether these have been all who can be reached for long enough.
    pub(super) fn is_grace_over(&mut self, now: Time, ready: &[Seat], standings: &[Standing]) -> bool {
        let waits = |standing: &Standing| *standing != Standing::Ready && !standing.is_away();
        if standings.iter().any(waits) {
            // Somebody may still come: the grace counts anew once nobody can.
            self.complete = None;
            return false;
        }
        match &self.complete {
            Some((since, these)) if these == ready => now >= since.plus_millis(self.attendance.grace_ms),
            _ => {
                self.complete = Some((now, ready.to_vec()));
                self.attendance.grace_ms == 0
            }
        }
    }
}
