//! Who was first: the transport that takes a share's first byte, or the round's end that calls the share back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const RECALLED: u8 = 2;

/// A share's ticket, held by the machine and by the transport's queue.
///
/// Exactly one of [`Ticket::take`] (before the first byte is handed to the transport) and [`Ticket::recall`] (at the end of the
/// share's round) succeeds. A share is *seen* from the moment it was taken; a recalled one never left.
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// A ticket of a share that is queued and has not left.
    pub fn new() -> Self {
        Self::default()
    }

    /// The transport is about to hand out the first byte. False: the share was recalled and must be dropped unsent.
    /// True again for a share that had been taken before (it is sent again, bit for bit, after a broken connection).
    pub fn take(&self) -> bool {
        match self
            .0
            .compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(now) => now == TAKEN,
        }
    }

    /// The round is over. True: no byte has left and none will.
    pub fn recall(&self) -> bool {
        match self
            .0
            .compare_exchange(QUEUED, RECALLED, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(now) => now == RECALLED,
        }
    }

    /// Whether the transport has taken the share: any byte of it may have left.
    pub fn left(&self) -> bool {
        self.0.load(Ordering::Acquire) == TAKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_side_wins() {
        let ticket = Ticket::new();
        let transport = ticket.clone();
        assert!(transport.take());
        assert!(!ticket.recall());
        assert!(ticket.left());
        assert!(transport.take(), "sent again after a broken connection");

        let ticket = Ticket::new();
        assert!(ticket.recall());
        assert!(!ticket.take());
        assert!(!ticket.left());
        assert!(ticket.recall());
    }
}
