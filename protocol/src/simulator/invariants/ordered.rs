//! Invariant 8, order: every share is one that the schedule gives, and a party hands out its shares
//! in the order of their rounds. With PPSC the result is that of Algorithm 1, one iteration after
//! the other, because each party acts on its own edges in order. (PPSC, Algorithm 1.)

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::log::ShareId;
use crate::messages::wire::{self, PrivateFrame};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The shares handed out so far.
#[derive(Default)]
pub struct Ordered {
    shares: BTreeSet<ShareId>,
    /// The latest round of which each party has handed out a share.
    latest: BTreeMap<Party, u32>,
}

impl Ordered {
    /// A machine gave out a frame for the private graph. On a new connection a share may go out
    /// again.
    pub fn private(&mut self, schedule: &Schedule, frame: &[u8]) -> Result<(), Violation> {
        let Ok(PrivateFrame::Share { id, .. }) = wire::read_private(frame) else {
            return Ok(());
        };
        if !schedule.sends_to(id.round, id.from).contains(&id.to) {
            return Err(Violation::new(
                "ordered",
                format!("{id:?} is not in the schedule"),
            ));
        }
        let latest = self.latest.entry(id.from).or_insert(0);
        if self.shares.insert(id) && id.round < std::mem::replace(latest, id.round.max(*latest)) {
            return Err(Violation::new("ordered", format!("{id:?} out of order")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;

    #[test]
    fn shares_out_of_order_or_of_no_schedule_are_seen() {
        let schedule = Schedule::from_out(vec![
            vec![vec![1], vec![], vec![]],
            vec![vec![2], vec![], vec![]],
            vec![vec![1], vec![2], vec![]],
        ]);
        let share = |round, from, to| {
            wire::share_frame(&[0; 32], ShareId { round, from, to }, LatticeWeight(1), &[7])
        };
        let mut ordered = Ordered::default();
        assert_eq!(ordered.private(&schedule, &share(1, 0, 1)), Ok(()));
        assert_eq!(
            ordered.private(&schedule, &share(3, 1, 2)),
            Ok(()),
            "others have an order of their own"
        );
        assert_eq!(ordered.private(&schedule, &share(3, 0, 1)), Ok(()));
        assert_eq!(
            ordered.private(&schedule, &share(1, 0, 1)),
            Ok(()),
            "on a new connection"
        );
        assert!(ordered.private(&schedule, &share(2, 0, 2)).is_err());
        assert!(
            ordered.private(&schedule, &share(2, 1, 0)).is_err(),
            "nobody's edge"
        );
    }
}
