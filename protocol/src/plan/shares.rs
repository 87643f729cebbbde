//! The numbers of shares of a run.

use crate::topology::graph::Graph;
use crate::topology::schedule::Schedule;

/// The numbers of shares in a run without faults: of its schedule, or at most those of any that can
/// be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareCounts {
    /// The shares of all parties, over all rounds.
    pub all: usize,
    /// The most shares that one party sends over all rounds.
    pub most_sent: usize,
    /// The most shares that one party is due to receive over all rounds.
    pub most_received: usize,
    /// The most shares that one party is due to receive in one round.
    pub most_at_once: usize,
}

impl ShareCounts {
    /// No shares.
    pub const NONE: ShareCounts = ShareCounts {
        all: 0,
        most_sent: 0,
        most_received: 0,
        most_at_once: 0,
    };

    /// The counts of a schedule for `parties` parties.
    pub fn of(schedule: &Schedule, parties: usize) -> Self {
        let sent = (0..parties).map(|party| schedule.hand_outs(party));
        ShareCounts {
            all: schedule.shares(),
            most_sent: sent.max().unwrap_or(0),
            most_received: schedule.largest_in_degree(),
            most_at_once: schedule.most_at_once(),
        }
    }

    /// Returns the most shares of any schedule in which everybody sends `fanout` shares a round to
    /// neighbours in `graph`.
    pub fn of_any(graph: &Graph, fanout: usize, rounds: usize) -> Self {
        let (most_received, most_at_once) = Schedule::bounds(graph, fanout, rounds);
        let most_sent = rounds * fanout;
        ShareCounts {
            all: graph.parties() * most_sent,
            most_sent,
            most_received,
            most_at_once,
        }
    }

    /// Returns the counts of a schedule in which only one of each two who meet sends: half of all
    /// shares at most.
    pub fn of_pairs(self) -> Self {
        ShareCounts {
            all: self.all / 2,
            ..self
        }
    }
}
