//! Who is waited for, and for how long.

use crate::messages::notice::{Form, Notice};
use crate::publishing::averaging::machine::{Averaging, FAST_STAGES, LONGEST_WAIT, Mode};
use crate::publishing::interface::{PublishingDeed, Surroundings};
use crate::time::Time;
use crate::topology::party::Party;

/// In ratio consensus a node that waits for round r may wait for one that waits for round r − 1,
/// and so on up to a liar's own neighbours: these should cut it off before others cut off them. So
/// the wait for round r is longer by r modulo this, in as many parts of `settle_ms`. (Where that
/// begins again within such a chain an honest edge may be cut as well: that costs agreement, never
/// truth.)
const STAGGERED_ROUNDS: u32 = 32;

impl Averaging {
    pub(super) fn wait(&mut self, now: Time) {
        self.waits = now;
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
    }

    /// Whether a neighbour whose message is needed is gone or broken, or is not waited for any
    /// more.
    pub(super) fn is_lost(&self, party: Party, now: Time, around: &Surroundings<'_>) -> bool {
        around.gone.contains_key(&party)
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
        let staggered = match &self.stage {
            Mode::Fallback { fallback, .. } => u64::from(fallback.round() % STAGGERED_ROUNDS),
            _ => 0,
        };
        let parts = u64::from(STAGGERED_ROUNDS);
        let longest = settle_ms.saturating_mul(parts * LONGEST_WAIT + staggered) / parts;
        heard.min(self.waits.plus_millis(longest))
    }

    /// While this node waits for others it says so: whoever waits for it must not take it for
    /// silent.
    pub(super) fn tell_waiting(&mut self, now: Time, around: &Surroundings<'_>) {
        if !self.is_waiting(now) || now < self.beat {
            return;
        }
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
        let reached: Vec<Party> = self
            .partners()
            .into_iter()
            .filter(|peer| around.connected.contains(peer))
            .collect();
        self.deeds.extend(
            reached
                .into_iter()
                .map(|peer| PublishingDeed::Tell(peer, Notice::Waiting)),
        );
    }

    fn is_waiting(&self, now: Time) -> bool {
        match &self.stage {
            Mode::Waiting => false,
            Mode::Fast(fast) => fast.wants().is_some(),
            Mode::Fallback { fallback, ends } => {
                now < *ends && self.sent == Some((Form::Ratio, fallback.round()))
            }
        }
    }

    /// When to advance although nothing happened.
    pub fn wake(&self, now: Time, around: &Surroundings<'_>) -> Time {
        let compares = self.given_out_by().min(self.tells_at(around));
        if !self.is_waiting(now) {
            return compares;
        }
        let patience = self
            .partners()
            .into_iter()
            .map(|party| self.patience(party, around))
            .filter(|&at| at > now);
        let ends = match &self.stage {
            Mode::Fast(_) => self.stages_end(FAST_STAGES),
            Mode::Fallback { ends, .. } if !self.ended => *ends,
            _ => Time::FAR,
        };
        patience
            .chain([self.beat, ends, compares])
            .min()
            .unwrap_or(Time::FAR)
    }
}
