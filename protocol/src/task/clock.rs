//! The clock that a task goes by: the driver's, less the time in which its node did not run and
//! which it need not make up.

use crate::time::Time;

/// A clock that can be made to stand still afterwards.
pub(super) struct TaskClock {
    /// The nanoseconds by which it is behind the driver's.
    behind: u64,
    /// The moment when the node was fed last, by the driver's clock.
    fed: Time,
    /// The moment when it wanted to be fed next, by the driver's clock.
    due: Time,
}

impl TaskClock {
    pub(super) fn new(now: Time) -> Self {
        TaskClock {
            behind: 0,
            fed: now,
            due: Time::FAR,
        }
    }

    /// Returns the time that the clock shows at this moment of the driver's.
    pub(super) fn at(&self, drivers: Time) -> Time {
        Time::from_nanos(drivers.as_nanos().saturating_sub(self.behind))
    }

    /// The moment of the driver's clock at which it shows this, if it does not stand still before.
    pub(super) fn when(&self, shown: Time) -> Time {
        // Far away stays far away.
        shown + self.behind
    }

    /// The node wants to be fed again once this clock shows that.
    pub(super) fn is_due(&mut self, shown: Time) {
        self.due = self.when(shown);
    }

    /// For how many whole milliseconds the node, which is fed now, should have run and has not.
    pub(super) fn missed_ms(&self, drivers: Time) -> u64 {
        drivers.since(self.due.max(self.fed)) / 1_000_000
    }

    /// Since the node was fed last it did not run, and no time has passed.
    pub(super) fn stand_still(&mut self, drivers: Time) {
        self.behind += drivers.since(self.fed);
    }

    /// The node is fed.
    pub(super) fn is_fed(&mut self, drivers: Time) {
        self.fed = self.fed.max(drivers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_stood_still_shows_less_and_wakes_later() {
        let at = Time::from_millis;
        let mut clock = TaskClock::new(at(5));
        assert_eq!(clock.missed_ms(at(9)), 0, "it wanted nothing yet");
        clock.is_fed(at(9));
        clock.is_due(at(20));
        assert_eq!((clock.missed_ms(at(20)), clock.missed_ms(at(27))), (0, 7));
        clock.stand_still(at(27));
        clock.is_fed(at(27));
        assert_eq!((clock.at(at(27)), clock.at(at(30))), (at(9), at(12)));
        assert_eq!((clock.when(at(20)), clock.when(Time::FAR)), (at(38), Time::FAR));
        clock.is_due(Time::FAR);
        assert_eq!(clock.missed_ms(at(3_600_000)), 0, "nothing was due");
    }

    /// Who is fed once more after it was due has run since then; a driver's clock that goes back is
    /// taken for one that stood.
    #[test]
    fn missed_time_counts_from_the_latest_moment_at_which_the_node_ran() {
        let at = Time::from_millis;
        let mut clock = TaskClock::new(at(0));
        clock.is_due(at(20));
        clock.is_fed(at(30));
        assert_eq!((clock.missed_ms(at(30)), clock.missed_ms(at(33))), (0, 3));
        clock.is_fed(at(25));
        clock.stand_still(at(40));
        assert_eq!(clock.at(at(40)), at(30));
    }
}
