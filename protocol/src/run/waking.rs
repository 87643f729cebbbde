//! A node that has not run for a while, and arrived when its log was due.

use crate::messages::notice::LateArrivals;
use crate::time::Time;

/// The statements of a node about late arrivals, its own and others', and its wait since its own.
#[derive(Default)]
pub(super) struct Waking {
    /// The number of this node's late arrivals.
    arrivals: u8,
    /// For how long it had not run last, and until when it waits for others' words.
    waits: Option<(u64, Time)>,
    /// The latest statement about late arrivals, and the moment from which the next is allowed.
    said: Vec<LateArrivals>,
    next_word: Time,
}

impl Waking {
    /// Notes a late arrival, after which the node waits for the others' words until then. One that
    /// did so too often does not wait: nobody hears it any more.
    pub(super) fn arrive(&mut self, missed_ms: u64, now: Time, until: Time) {
        let heard = self.arrivals < LateArrivals::MOST;
        self.arrivals += u8::from(heard);
        self.waits = Some((missed_ms, if heard { until } else { now }));
    }

    /// For how long it had not run, and until when it waits, if it does.
    pub(super) fn waits(&self) -> Option<(u64, Time)> {
        self.waits
    }

    /// Ends the wait.
    pub(super) fn end(&mut self) {
        self.waits = None;
    }

    /// Returns the number of this node's late arrivals.
    pub(super) fn arrivals(&self) -> u8 {
        self.arrivals
    }

    /// Adds this node's own late arrivals to those `heard` of others.
    pub(super) fn with_own(&self, me: usize, mut heard: Vec<LateArrivals>) -> Vec<LateArrivals> {
        // Others' statements about this node may be late or false: its own count is the true one.
        heard.retain(|entry| entry.party != me);
        if self.arrivals > 0 {
            let place = heard.partition_point(|entry| entry.party < me);
            let count = self.arrivals;
            heard.insert(place, LateArrivals { party: me, count });
        }
        heard
    }

    /// Whether there is something new to say. When to say it follows from [`Waking::next_word`].
    pub(super) fn is_news(&self, arrivals: &[LateArrivals]) -> bool {
        self.said != arrivals
    }

    /// Returns the moment when the node may speak next.
    pub(super) fn next_word(&self) -> Time {
        self.next_word
    }

    /// Notes that the node says this, and nothing more for a while.
    pub(super) fn say(&mut self, arrivals: Vec<LateArrivals>, next_word: Time) {
        (self.said, self.next_word) = (arrivals, next_word);
    }
}
