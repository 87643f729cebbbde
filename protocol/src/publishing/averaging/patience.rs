//! The patience with neighbours: who is waited for, and for how long.

use crate::messages::notice::Notice;
use crate::publishing::averaging::machine::{Averaging, LONGEST_WAIT, Mode};
use crate::publishing::interface::{PublishingAction, Surroundings};
use crate::time::Time;
use crate::topology::party::Party;

impl Averaging {
    pub(super) fn wait(&mut self, now: Time) {
        self.waits = now;
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
    }

    /// Whether a neighbour whose message is needed is gone or broken, or is not waited for any
    /// more.
    pub(super) fn is_lost(&self, party: Party, now: Time, around: &Surroundings<'_>) -> bool {
        around.unreachable.contains_key(&party)
            || self.broken.contains(&party)
            || now >= self.patience(party, around)
    }

    /// Until when a neighbour is waited for: from when this wait began (before, it may have had
    /// nothing to say) or it was last heard of, and whatever it says not for ever.
    fn patience(&self, party: Party, around: &Surroundings<'_>) -> Time {
        let settle_ms = self.setup.settle_ms;
        let heard = around
            .heard
            .get(&party)
            .copied()
            .unwrap_or(self.waits)
            .max(self.waits)
            .plus_millis(settle_ms);
        let longest = settle_ms.saturating_mul(LONGEST_WAIT);
        heard.min(self.waits.plus_millis(longest))
    }

    /// While this node waits for others it says so: whoever waits for it must not take it for
    /// silent.
    pub(super) fn tell_waiting(&mut self, now: Time, around: &Surroundings<'_>) {
        if !self.is_waiting() || now < self.beat {
            return;
        }
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
        let reached: Vec<Party> = self
            .partners()
            .into_iter()
            .filter(|peer| around.connected.contains(peer))
            .collect();
        self.actions.extend(
            reached
                .into_iter()
                .map(|peer| PublishingAction::Tell(peer, Notice::Waiting)),
        );
    }

    fn is_waiting(&self) -> bool {
        matches!(&self.stage, Mode::Rounds(fast) if fast.wants().is_some())
    }

    /// Returns the moment to advance although nothing happened.
    pub fn wake(&self, now: Time, around: &Surroundings<'_>) -> Time {
        match self.stage {
            Mode::Waiting | Mode::GivenOut | Mode::Flooding(_) | Mode::Over => Time::FAR,
            Mode::Holding(_) => self.given_out_by(),
            Mode::Rounds(_) => {
                let patience = self
                    .partners()
                    .into_iter()
                    .map(|party| self.patience(party, around))
                    .filter(|&at| at > now);
                let ends = [self.beat, self.averaging_ends()];
                patience.chain(ends).min().unwrap_or(Time::FAR)
            }
        }
    }
}
