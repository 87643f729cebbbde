//! The parties for which START does not wait for ever: those that cannot be reached.

use crate::agreement::flood::Flood;
use crate::agreement::gathering::Gathering;
use crate::agreement::presence::Standing;
use crate::messages::notice::Seat;
use crate::time::Time;
use crate::topology::party::Party;

impl Gathering {
    /// Returns the parties that were not ready and there when this node signed START first,
    /// ascending, with their standings then; of those that were still waited for, with what this
    /// node has found by now. A node that joined another's START may find out only after it why a
    /// party is away.
    pub fn without(&self, flood: &Flood, now: Time) -> Vec<(Party, Standing)> {
        let found = self.presence.standings(flood, now);
        let latest = |&(party, stood): &(Party, Standing)| {
            let known = if stood.is_away() { stood } else { found[party] };
            (party, known)
        };
        self.without.iter().map(latest).collect()
    }

    /// Whether a START signed by now was signed before the time to be ready was over: some member's
    /// grace has ended its wait for those left out.
    pub fn is_within_join(&self, now: Time) -> bool {
        now < self.opened.plus_millis(self.attendance.join_ms)
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
