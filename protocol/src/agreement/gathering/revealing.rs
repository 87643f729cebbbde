//! A START whose nonce is counted before it leaves.

use crate::agreement::gathering::{Gathering, GatheringStep};
use crate::messages::notice::Notice;

impl Gathering {
    /// Whether this node's START waits for its nonce to be counted.
    pub fn is_revealing(&self) -> bool {
        self.unsaid.is_some()
    }

    /// Takes note that this node's nonce is counted: its START may be said. `None` where none waits
    /// for that.
    pub fn revealed(&mut self) -> Option<GatheringStep> {
        let notice = self.unsaid.take()?;
        let seats = self.signed.as_ref()?.seats.clone();
        Some(GatheringStep::Start { seats, notice })
    }

    /// Returns the notice that a node floods if it leaves before it has signed a START.
    pub fn withdrawal(&self) -> Option<Notice> {
        let incarnation = self.me.incarnation;
        let first = self.signed.as_ref().is_some_and(|signed| signed.number == 0);
        // A START that is signed but still here binds nobody.
        let unsaid = !self.has_signed() || (first && self.is_revealing());
        unsaid.then_some(Notice::Withdraw { incarnation })
    }
}
