//! How many bytes a run sends.

use crate::averaging::entry::ENTRY_BYTES;
use crate::averaging::sketch;
use crate::plan::checked::Plan;
use crate::sealing::holders::Threshold;
use crate::sealing::letter::LETTER_BYTES;

/// Frame, signature, ids of one message: measured, 115 to 165.
const FRAME_BYTES: u64 = 140;
/// Bytes of a notice that tells sums of a result, beside its frame.
const SKETCH_BYTES: u64 = 16 + 8 * sketch::SUMS as u64;
/// A share's entries in the logs of its sender and its receiver, with the signed answer: our
/// estimate.
const LOG_ENTRY_BYTES: u64 = 100;
/// A party's part of START, and of the set of a stage. Both travel once in either direction of an
/// edge ([`crate::messages::repeats::Repeats`]).
const START_BYTES: u64 = 24;
const SET_BYTES: u64 = 40;

impl Plan {
    /// Bytes that a party sends on average in a run without faults: its shares and their answers,
    /// notices as often as the public graph has them passed on, logs, sets, and finals or rounds of
    /// averaging. (Within 10 % of what 10 to 200 simulated parties sent.)
    pub(super) fn bytes_per_party(&self) -> u64 {
        let others = self.parties() as u64 - 1;
        let dimension = self.draft().dimension() as u64;
        let parties = self.parties() as u64;
        let all_shares = self.calibration().shares(self.draft()).all as u64;
        let share = dimension * u64::from(self.lattice().wire_bytes) + FRAME_BYTES;
        // Both ends of an edge send. A notice goes to all neighbours but the one that it came from.
        let ends = 2 * self.draft().public_graph.edges().len() as u64;
        let copies = (ends + 1).saturating_sub(parties);
        let notice = copies * FRAME_BYTES;
        // READY and START, and of either stage an item and a vote; or, where finals are sealed, of
        // the one stage two items and a vote, and a secret. A body is asked for, and sent to each
        // party once.
        let sealed = self.threshold(self.parties()).ok().flatten();
        let sets = if sealed.is_some() { 1 } else { 2 };
        let everybodys = 6 * parties * notice + ends * parties * (START_BYTES + sets * SET_BYTES);
        let bodies = |bytes: u64| parties * others * (bytes + FRAME_BYTES);
        let dealt = |threshold: Threshold| 32 * threshold.needed() + LETTER_BYTES * threshold.holders();
        let logs = bodies(all_shares * LOG_ENTRY_BYTES / parties + sealed.map_or(0, dealt) as u64);
        let finals = match self.terms() {
            None => bodies(dimension * u64::from(self.lattice().final_bytes)),
            Some(terms) => {
                let rounds = terms.expected_rounds as u64 * FRAME_BYTES;
                // That it has its result, and sums of it.
                let said = parties * (2 * notice + copies * SKETCH_BYTES) + bodies(ENTRY_BYTES as u64);
                ends * (dimension * terms.expected_bytes as u64 + rounds) + said
            }
        };
        (all_shares * (share + FRAME_BYTES) + everybodys + logs + finals) / parties
    }
}
