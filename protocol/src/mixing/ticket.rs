//! Tickets that decide who was first: the transport that takes a share's first byte, or the round's
//! end that calls the share back.
//!
//! The machine holds no ticket: what became of one reaches it as an input. So its driver (a node,
//! the simulator, a test) keeps them in [`Tickets`], and hands them to its transport.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::messages::log::ShareId;

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const RECALLED: u8 = 2;

/// A share's ticket, held by the machine's driver and by the transport's queue.
///
/// Exactly one of [`Ticket::take`] (before the first byte is handed to the transport) and
/// [`Ticket::recall`] (at the end of the share's round) succeeds. A share is *seen* from the moment
/// it was taken; a recalled one never left.
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// A ticket of a share that is queued and has not left.
    pub fn new() -> Self {
        Self::default()
    }

    /// The transport is about to hand out the first byte. False: the share was recalled and must be
    /// dropped unsent. True again for a share that had been taken before (it is sent again, bit for
    /// bit, after a broken connection).
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

/// The tickets of all shares that a machine has given out, by share.
#[derive(Debug, Default)]
pub struct Tickets(BTreeMap<ShareId, Ticket>);

/// The fate of shares that were called back: each has left, or never will.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Any byte of these may have left before.
    pub left: Vec<ShareId>,
    /// No byte of these has left, and none will.
    pub back: Vec<ShareId>,
}

impl Tickets {
    /// The ticket of a share: a share that is given out again keeps its first one.
    pub fn of(&mut self, share: ShareId) -> Ticket {
        self.0.entry(share).or_default().clone()
    }

    /// Calls shares back, and says which had left.
    pub fn recall(&mut self, shares: &[ShareId]) -> Recalled {
        let (back, left) = shares.iter().partition(|&&share| self.of(share).recall());
        Recalled { left, back }
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

    #[test]
    fn of_shares_that_are_called_back_each_has_left_or_never_will() {
        let id = |to| ShareId {
            round: 1,
            from: 0,
            to,
        };
        let mut tickets = Tickets::default();
        let (taken, queued) = (tickets.of(id(1)), tickets.of(id(2)));
        assert!(taken.take());
        let recalled = tickets.recall(&[id(1), id(2)]);
        assert_eq!(
            recalled,
            Recalled {
                left: vec![id(1)],
                back: vec![id(2)]
            }
        );
        assert!(!queued.take() && tickets.of(id(1)).take());
    }
}
