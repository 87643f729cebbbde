//! Observable facts of the phase: counts for a person, holdings for checks of conservation.

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{Answer, ShareId, Verdict};
use crate::mixing::exchange::{ShareExchange, Tally, Whereabouts};
use crate::mixing::finals::LoggedState;
use crate::mixing::portion::Portion;
use crate::topology::party::Party;

impl ShareExchange {
    /// Own shares by what became of them so far.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for share in self.outgoing.values() {
            match (&share.answer, share.whereabouts) {
                (_, Whereabouts::Back) => tally.returned += 1,
                (
                    Some(Answer {
                        verdict: Verdict::Accepted { .. },
                        ..
                    }),
                    _,
                ) => tally.accepted += 1,
                (Some(_), _) => tally.refused += 1,
                (None, _) => tally.unanswered += 1,
            }
        }
        tally
    }

    /// Whether any byte of any share has left this node, as far as it knows: for sure if nothing is
    /// called back any more.
    pub fn anything_left(&self) -> bool {
        self.outgoing
            .values()
            .any(|share| share.whereabouts == Whereabouts::Left)
    }

    /// The state, as it is sealed once the log is closed; and for checks of conservation.
    pub(crate) fn state(&self) -> LoggedState {
        LoggedState(self.mixing.state())
    }

    /// The shares that joined the state, as (round, from).
    pub(crate) fn accepted_from(&self) -> impl Iterator<Item = (u32, Party)> {
        self.received
            .iter()
            .filter(|(_, verdict)| **verdict != Verdict::Refused)
            .map(|(key, _)| *key)
    }

    /// Own shares that are deducted, as far as their values are still here (an accepted one's are
    /// dropped).
    pub(crate) fn out(&self) -> impl Iterator<Item = (ShareId, Portion<LatticeVector, LatticeWeight>)> {
        let out = self.outgoing.iter().filter(|(_, share)| share.is_out());
        out.filter_map(|(id, share)| {
            Some((
                *id,
                Portion {
                    value: share.sent.as_ref()?.value.unpack(),
                    weight: share.weight,
                },
            ))
        })
    }

    /// The ids of own shares that are deducted and whose values are still here.
    pub(crate) fn out_ids(&self) -> impl Iterator<Item = ShareId> {
        let out = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.is_out() && share.sent.is_some());
        out.map(|(id, _)| *id)
    }

    /// Returns the number of rounds whose ends the state has had, and one before round 1. With INCA
    /// that is the number of rows of (c, Z) that it has.
    pub(crate) fn injections(&self) -> usize {
        if self.is_over() {
            self.parameters.rounds() as usize + 1
        } else {
            self.round as usize
        }
    }
}
