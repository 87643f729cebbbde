//! A node that has not run for a while: others may have gone on without it.

use crate::agreement::flood::Flood;
use crate::agreement::gathering::{Gathering, GatheringStep, Unstarted};
use crate::time::Time;

impl Gathering {
    /// This node has not run for a while: it neither signs nor begins until it hears what it missed
    /// ([`Gathering::go_on`]). Of nobody it is heard longer than a silence is borne: whoever has
    /// signed a START ends then, since it may be one that the others have gone on with, or given
    /// up.
    pub fn hold_back(&mut self, now: Time) {
        let patience_ms = self.presence.silent_ms(self.me.party).saturating_mul(2);
        self.held_back = Some(now.plus_millis(patience_ms.min(self.attendance.join_ms)));
    }

    /// Whether it neither signs nor begins now.
    pub fn is_held_back(&self) -> bool {
        self.held_back.is_some()
    }

    /// Notes that the node has heard what it may have missed.
    pub fn go_on(&mut self) {
        self.held_back = None;
    }

    /// Others begin without it, whatever else it has missed; or nobody has told it in time.
    pub(super) fn step_held_back(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        let next = self.signed.as_ref().map_or(0, |signed| signed.number + 1);
        if let Some(by) = self.left_out(flood, next).or_else(|| self.excluded(flood)) {
            return Some(GatheringStep::Abort(Unstarted::LeftOut { by }));
        }
        if self.held_back.is_some_and(|until| now < until) {
            return None;
        }
        self.held_back = None;
        // Nobody counts on a node that has signed nothing: it goes on.
        self.signed.as_ref()?;
        Some(GatheringStep::Abort(Unstarted::Unanswered))
    }
}
