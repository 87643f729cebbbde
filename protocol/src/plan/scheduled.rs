//! Plans that a group makes by a schedule of its own, again and again: who proposes one has nothing
//! to choose but who is in it.
//!
//! All members have the same peer list, run file and times. So each of them knows by itself which
//! occurrence is due, whose turn it is to propose, and of what the nonce and the seeds are hashes:
//! a proposer that could choose a nonce could try draws of graphs until one suits it.

use std::fmt;

use libp2p_identity::PeerId;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::plan::hex::{hex, unhex};
use crate::plan::run_file::records::Records;

const OCCURRENCE: &[u8] = b"undertone/occurrence/1";
const NONCE: &[u8] = b"undertone/scheduled-nonce/1";
const SEED: &[u8] = b"undertone/scheduled-seed/2";

/// One time at which a schedule is due: of one peer list, one run file, and one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OccurrenceId(pub [u8; 32]);

impl OccurrenceId {
    /// SHA-256 of a domain, the SHA-256 of the peer list's and of the run file's bytes, and the due
    /// time in seconds since 1970 (big endian).
    pub fn of(list: &[u8; 32], run_file: &[u8; 32], due_s: u64) -> Self {
        let mut hash = Sha256::new_with_prefix(OCCURRENCE);
        hash.update([0]);
        hash.update(list);
        hash.update(run_file);
        hash.update(due_s.to_be_bytes());
        OccurrenceId(hash.finalize().into())
    }

    /// The one member of the list that may propose this attempt, by the order of
    /// SHA-256(occurrence, id), in turn: nobody can choose its place, and one that is away costs
    /// one attempt. `None` of an empty list.
    pub fn proposer(&self, list: impl IntoIterator<Item = PeerId>, attempt: u32) -> Option<PeerId> {
        let place = |id: PeerId| {
            let mut hash = Sha256::new_with_prefix(self.0);
            hash.update(id.to_bytes());
            (<[u8; 32]>::from(hash.finalize()), id)
        };
        let mut order: Vec<_> = list.into_iter().map(place).collect();
        order.sort_unstable();
        let turn = (attempt as usize).checked_rem(order.len())?;
        Some(order[turn].1)
    }
}

impl fmt::Display for OccurrenceId {
    /// 64 lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A member of a plan: its id, and its number of records where the plan has one or a bound.
pub type Identified = (PeerId, Option<Records>);

/// The attempt at an occurrence that a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The time that was due.
    pub occurrence: OccurrenceId,
    /// The number of the try at it, from 0; each has one proposer.
    pub attempt: u32,
}

/// The two keys of a plan file that name an attempt.
#[derive(Deserialize)]
struct Named {
    occurrence: Option<String>,
    attempt: Option<u32>,
}

impl Scheduled {
    /// The attempt that the bytes of a plan file name, before anything in them is checked. `None`
    /// where they name none, or are no plan.
    pub fn named(plan: &[u8]) -> Option<Self> {
        let Named { occurrence, attempt } = serde_json::from_slice(plan).ok()?;
        Some(Scheduled {
            occurrence: OccurrenceId(unhex("occurrence", &occurrence?).ok()?),
            attempt: attempt?,
        })
    }

    /// The nonce of the plan with these members: the first half of SHA-256 of a domain, the
    /// occurrence, the attempt, and of each member id and number of records (0 where the plan does
    /// not have the number).
    pub fn nonce(&self, members: impl IntoIterator<Item = Identified>) -> [u8; 16] {
        let mut hash = Sha256::new_with_prefix(NONCE);
        hash.update([0]);
        hash.update(self.occurrence.0);
        hash.update(self.attempt.to_be_bytes());
        for (id, records) in members {
            let records = match records {
                Some(Records::Exactly(count)) => count,
                Some(Records::AtMost(_)) | None => 0,
            };
            add_id(&mut hash, id);
            hash.update(records.to_be_bytes());
        }
        let [half @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = <[u8; 32]>::from(hash.finalize());
        half
    }

    /// The seed of this name for the plan with these members: the first 8 bytes (big endian) of
    /// SHA-256 of a domain, the occurrence, the attempt, each member's id, and the name. Numbers of
    /// records are left out, and so is the nonce, which has them: a proposer that tried numbers
    /// of its own could choose among graphs.
    pub fn seed(&self, members: impl IntoIterator<Item = PeerId>, name: &str) -> u64 {
        let mut hash = Sha256::new_with_prefix(SEED);
        hash.update([0]);
        hash.update(self.occurrence.0);
        hash.update(self.attempt.to_be_bytes());
        members.into_iter().for_each(|id| add_id(&mut hash, id));
        hash.update(name);
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// A member's id, after its length in bytes.
fn add_id(hash: &mut Sha256, id: PeerId) {
    let id = id.to_bytes();
    hash.update((id.len() as u64).to_be_bytes());
    hash.update(id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::peers::simulated_keypair;

    fn members(parties: usize) -> Vec<Identified> {
        let id = |party| simulated_keypair(party).public().to_peer_id();
        (0..parties).map(|party| (id(party), None)).collect()
    }

    #[test]
    fn occurrences_nonces_and_seeds_are_the_hashes_that_others_compute() {
        // By Python's hashlib: see the comment at each.
        let due = OccurrenceId::of(&[1; 32], &[2; 32], 1_800_000_000);
        // sha256(b"undertone/occurrence/1\0" + b"\1"*32 + b"\2"*32 + (1800000000).to_bytes(8,
        // "big"))
        assert_eq!(
            due.to_string(),
            "77f628e9149904363495922bae125ba51f6699e65ccba22f7352f42ec85ae46c"
        );
        let all = members(3);
        let scheduled = Scheduled {
            occurrence: due,
            attempt: 2,
        };
        // sha256(b"undertone/scheduled-nonce/1\0" + due + (2).to_bytes(4, "big") + of each
        // id (38).to_bytes(8, "big") + id + bytes(8))[:16]
        assert_eq!(
            hex(&scheduled.nonce(all.clone())),
            "ee015056c329a1d56edbd850d85c914f"
        );
        // sha256(b"undertone/scheduled-seed/2\0" + due + (2).to_bytes(4, "big") + of each
        // id (38).to_bytes(8, "big") + id, + b"graph")[:8]
        assert_eq!(
            format!(
                "{:016x}",
                scheduled.seed(all.into_iter().map(|(id, _)| id), "graph")
            ),
            "d09500fc4e453b17"
        );
    }

    #[test]
    fn every_part_of_an_occurrence_and_of_a_nonce_counts() {
        let due = |list: u8, run: u8, at: u64| OccurrenceId::of(&[list; 32], &[run; 32], at);
        let occurrences = [due(1, 2, 3), due(2, 1, 3), due(1, 1, 3), due(1, 2, 4)];
        let mut all = members(4);
        let nonce = |occurrence, attempt, members: &[Identified]| {
            Scheduled { occurrence, attempt }.nonce(members.to_vec())
        };
        let mut nonces: Vec<_> = occurrences.map(|due| nonce(due, 0, &all)).to_vec();
        nonces.push(nonce(occurrences[0], 1, &all));
        nonces.push(nonce(occurrences[0], 0, &all[1..]));
        all[0].1 = Some(Records::Exactly(5));
        nonces.push(nonce(occurrences[0], 0, &all));
        all[0].1 = Some(Records::Exactly(6));
        nonces.push(nonce(occurrences[0], 0, &all));
        let distinct: std::collections::BTreeSet<_> = nonces.iter().collect();
        assert_eq!(distinct.len(), nonces.len());
        let scheduled = Scheduled {
            occurrence: occurrences[0],
            attempt: 0,
        };
        let seed = |members: &[Identified], name| {
            let ids = members.iter().map(|(id, _)| *id);
            scheduled.seed(ids, name)
        };
        let later = Scheduled {
            attempt: 1,
            ..scheduled
        };
        let others = [
            seed(&all, "other"),
            seed(&all[1..], "graph"),
            later.seed(all.iter().map(|(id, _)| *id), "graph"),
        ];
        assert!(!others.contains(&seed(&all, "graph")));
    }

    #[test]
    fn each_member_proposes_in_turn_in_an_order_that_the_occurrence_draws() {
        let ids = || members(7).into_iter().map(|(id, _)| id);
        let mut firsts = std::collections::BTreeSet::new();
        for due_s in 0..60 {
            let due = OccurrenceId::of(&[1; 32], &[2; 32], due_s);
            let turns: Vec<_> = (0..7)
                .filter_map(|attempt| due.proposer(ids(), attempt))
                .collect();
            let each: std::collections::BTreeSet<_> = turns.iter().collect();
            assert_eq!(each.len(), 7, "each once before anybody twice");
            assert_eq!(due.proposer(ids(), 7), Some(turns[0]));
            let backwards: Vec<_> = ids().collect::<Vec<_>>().into_iter().rev().collect();
            assert_eq!(due.proposer(backwards, 3), Some(turns[3]), "not the list's order");
            firsts.insert(turns[0]);
        }
        assert_eq!(firsts.len(), 7, "anybody may be first");
        assert_eq!(OccurrenceId([0; 32]).proposer([], 0), None);
    }
}
