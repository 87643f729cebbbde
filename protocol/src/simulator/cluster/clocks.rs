//! Each node's own clock.

use super::*;

impl Simulation<'_> {
    /// The time that a node's clock shows.
    pub(super) fn clock(&self, party: Party) -> Time {
        self.now + self.nodes[party].ahead
    }

    /// The moment at which a node's clock shows this, or now.
    pub(super) fn when(&self, party: Party, shown: Time) -> Time {
        match shown.max(self.clock(party)) {
            Time::FAR => Time::FAR,
            shown => self.now + shown.since(self.clock(party)),
        }
    }

    /// A node wants to be woken when its clock shows this.
    pub(super) fn wake(&mut self, party: Party, until: Time) {
        if until < Time::FAR && until != self.nodes[party].tick {
            self.nodes[party].tick = until;
            self.tick(party);
        }
    }

    fn tick(&mut self, party: Party) {
        let at = self.when(party, self.nodes[party].tick);
        let input = Input::Tick;
        self.schedule(at, Occurrence::Input { party, input });
    }

    pub(super) fn jump(&mut self, party: Party, by_ms: u64) {
        self.nodes[party].ahead += by_ms.saturating_mul(1_000_000);
        if self.nodes[party].tick < Time::FAR {
            self.tick(party);
        }
    }
}
