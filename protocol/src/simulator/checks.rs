//! The checkers of frames, all of them at once.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::run::outcome::{GateVerdict, Outcome};
use crate::simulator::invariants::clear::Clear;
use crate::simulator::invariants::entered::Entered;
use crate::simulator::invariants::gated::Gated;
use crate::simulator::invariants::once::Once;
use crate::simulator::invariants::opened::RevealedSecrets;
use crate::simulator::invariants::ordered::Ordered;
use crate::simulator::invariants::violation::Violation;
use crate::simulator::scenario::Purpose;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The record that the invariants' checks keep of the messages sent so far.
pub(super) struct Checks {
    once: Once,
    clear: Clear,
    gated: Gated,
    opened: RevealedSecrets,
    entered: Entered,
    ordered: Ordered,
    /// Public frames in which nothing was wrong, by hash. In a flood each is sent by everybody, and
    /// nothing is wrong with it later: what is sent and who may publish only grows; only a new
    /// share could turn out to be in it.
    passed: BTreeMap<[u8; 32], Option<Purpose>>,
}

impl Checks {
    /// Nothing sent yet. What `liar` signed is not looked at; `opening_bytes` are a coordinate's in
    /// an opening, 0 where nothing is averaged.
    pub(super) fn new(liar: Option<Party>, opening_bytes: usize) -> Self {
        Checks {
            once: Once::except(liar),
            clear: Clear::default(),
            gated: Gated::default(),
            opened: RevealedSecrets::except(liar),
            entered: Entered::with_width(opening_bytes),
            ordered: Ordered::default(),
            passed: BTreeMap::new(),
        }
    }

    /// A node was given its verdict.
    pub(super) fn verdict(&mut self, party: Party, verdict: &GateVerdict) {
        self.gated.verdict(party, verdict);
        self.opened.verdict(party, verdict);
    }

    /// A party wants to mark its plan as spent.
    pub(super) fn spend(&mut self, party: Party) -> Option<Violation> {
        self.once.spend(party).err()
    }

    /// A frame was given to the public graph: what it is for, and what is wrong with it.
    pub(super) fn public(&mut self, frame: &[u8]) -> (Option<Purpose>, Vec<Violation>) {
        let hash: [u8; 32] = Sha256::digest(frame).into();
        if let Some(purpose) = self.passed.get(&hash) {
            return (*purpose, Vec::new());
        }
        let checks = [
            self.once.public(frame),
            self.clear.public(frame),
            self.gated.public(frame),
            self.opened.public(frame),
            self.entered.public(frame),
        ];
        let violations: Vec<Violation> = checks.into_iter().filter_map(Result::err).collect();
        let purpose = Purpose::of(frame);
        if violations.is_empty() {
            self.passed.insert(hash, purpose);
        }
        (purpose, violations)
    }

    /// The run is over: what is wrong with what was told to open finals.
    pub(super) fn finish<'a>(&self, outcomes: impl Iterator<Item = &'a Outcome>) -> Option<Violation> {
        self.opened.finish(outcomes).err()
    }

    /// A frame was given to the private graph.
    pub(super) fn private(&mut self, schedule: &Schedule, frame: &[u8]) -> Vec<Violation> {
        if self.clear.private(frame) {
            self.passed.clear();
        }
        [self.once.private(frame), self.ordered.private(schedule, frame)]
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::log::ShareId;
    use crate::messages::stage::Stage;
    use crate::messages::wire;

    #[test]
    fn a_frame_that_passed_is_looked_at_again_when_a_share_turns_out_to_be_in_it() {
        let values: Vec<u8> = (1..40).collect();
        let public = wire::body_frame(Stage::Settling, 0, &values);
        let mut checks = Checks::new(None, 0);
        let passes = (Some(Purpose::Logs), vec![]);
        assert_eq!(
            (checks.public(&public), checks.public(&public)),
            (passes.clone(), passes)
        );
        let schedule = Schedule::from_out(vec![vec![vec![1], vec![]]]);
        let share = wire::share_frame(
            &[0; 32],
            ShareId {
                round: 1,
                from: 0,
                to: 1,
            },
            LatticeWeight(1),
            &values,
        );
        assert_eq!(checks.private(&schedule, &share), []);
        assert_eq!(checks.public(&public).1.len(), 1);
        assert_eq!(
            checks.public(&public).1.len(),
            1,
            "what is wrong once stays wrong"
        );
    }

    #[test]
    fn a_final_passes_only_after_its_verdict() {
        let final_state = wire::body_frame(Stage::Publishing, 1, b"final");
        let mut checks = Checks::new(None, 0);
        assert_eq!(checks.public(&final_state).1.len(), 1);
        checks.verdict(
            1,
            &GateVerdict {
                publish: Some(BTreeSet::from([1])),
                reason: String::new(),
            },
        );
        assert_eq!(checks.public(&final_state), (Some(Purpose::Finals), vec![]));
    }
}
