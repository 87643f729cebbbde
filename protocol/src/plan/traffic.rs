//! The number of bytes that a run sends.

use crate::averaging::entry::ENTRY_BYTES;
use crate::plan::checked::Plan;
use crate::sealing::holders::Threshold;
use crate::sealing::letter::LETTER_BYTES;

/// A notice with its signature and frame: measured, 104 to 127.
const NOTICE_BYTES: u64 = 112;
/// The bytes that accompany a message of gossip.
const MESSAGE_BYTES: u64 = 66;
/// The bytes that accompany a share, and those of the signed answer to it.
const SHARE_BYTES: u64 = 66 + 122;
/// The bytes around a body, and those around a round of averaging.
const BODY_BYTES: u64 = 8;
const ROUND_BYTES: u64 = 120;
/// A share's part of the logs of its sender and its receiver, with the signed answer.
const LOG_ENTRY_BYTES: u64 = 67;

impl Plan {
    /// Bytes that a party sends on average in a run without faults: its shares and their answers,
    /// what everybody says once to everybody (notices, logs, sets, finals), and rounds of
    /// averaging. (Within 10 % of what 10 to 200 simulated parties sent.)
    pub(super) fn bytes_per_party(&self) -> u64 {
        if self.draft().averages() {
            return self.bytes_of_gossip();
        }
        let releases = self.draft().releases().saturating_mul(self.bytes_of_a_release());
        self.bytes_of_mixing().saturating_add(releases)
    }

    /// Messages, and what everybody says of being ready.
    fn bytes_of_gossip(&self) -> u64 {
        let (all, parties) = (
            self.calibration().shares(self.draft()).all as u64,
            self.parties() as u64,
        );
        let coordinates = self.draft().dimension() as u64;
        let message = coordinates.saturating_mul(self.lattice().wire_bytes.into()) + MESSAGE_BYTES;
        let notices = (parties - 1) * 2 * NOTICE_BYTES;
        (all.saturating_mul(message) / parties).saturating_add(notices)
    }

    /// Shares, answers to them, and their part of the logs.
    fn bytes_of_mixing(&self) -> u64 {
        let all_shares = self.calibration().shares(self.draft()).all as u64;
        let parties = self.parties() as u64;
        let coordinates = self.mixed_coordinates() as u64;
        let share = coordinates.saturating_mul(self.lattice().wire_bytes.into()) + SHARE_BYTES;
        let logs = (parties - 1) * (all_shares * LOG_ENTRY_BYTES / parties);
        (all_shares.saturating_mul(share) / parties).saturating_add(logs)
    }

    fn bytes_of_a_release(&self) -> u64 {
        let others = self.parties() as u64 - 1;
        let dimension = self.draft().dimension() as u64;
        let parties = self.parties() as u64;
        // Everybody gets what each party says, once.
        let everybodys = |bytes: u64| parties * others * bytes;
        // READY and START, and of either stage an item and a vote; or, where finals are sealed, of
        // the one stage two items and a vote, and a secret.
        let notices = everybodys(6 * NOTICE_BYTES);
        let sealed = self.threshold(self.parties()).ok().flatten();
        let dealt = |threshold: Threshold| 40 + 32 * threshold.needed() + LETTER_BYTES * threshold.holders();
        let logs = everybodys(sealed.map_or(0, dealt) as u64 + BODY_BYTES);
        let finals = match self.terms() {
            None if self.is_sliced() => self.bytes_of_slices().unwrap_or(0).saturating_mul(parties),
            None => everybodys(dimension * u64::from(self.lattice().final_bytes) + BODY_BYTES),
            Some(terms) => {
                // Both ends of an edge send in each round.
                let ends = 2 * self.draft().public_graph.edges().len() as u64;
                let rounds = terms.expected_rounds as u64 * ROUND_BYTES;
                // That it has done all rounds.
                let said = everybodys(NOTICE_BYTES + ENTRY_BYTES as u64 + BODY_BYTES);
                ends * (dimension * terms.expected_bytes as u64 + rounds) + said
            }
        };
        (notices + logs + finals) / parties
    }
}
