//! The part of a run's outcome that all who agreed on it hold alike. A member that restarted in the
//! middle of the run reads it from the others.
//!
//! Its *record* is JSON, with sorted keys and without spaces, of what the plan and agreed sets fix:
//! two honest nodes have the same bytes. What differs from node to node is not in it: the loss, who
//! was opened for, the standard error of a mean. (Statistics have theirs: it is a part of the file
//! of figures, which is the same at all nodes.) The *mean* is its coordinates as f64,
//! little-endian: a mean, a model, or the sums that statistics come from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use undertone_protocol::messages::signature;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::topology::party::Party;

use crate::party::receipt::Account;
use crate::party::trained;

/// The longest record that is read. Our choice: names of 64 bytes of 200 parties, and a rejected
/// iteration out of every two of 100,000.
pub const RECORD_LIMIT: usize = 1 << 20;

/// The record of an outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRecord {
    /// Parties that departed in a training, each with the first iteration that is without it.
    pub departed: BTreeMap<String, u64>,
    /// The plan's digest, in lower-case hex.
    pub digest: String,
    /// Parties whose data are in the mean, in the plan's order; of a training those of its last
    /// iteration.
    pub included: Vec<String>,
    /// Iterations of a training that are over; 0 of any other task.
    pub iterations: u64,
    /// SHA-256 of the mean's bytes, in lower-case hex.
    pub mean_sha256: String,
    /// σ of a sum's noise, of statistics of a table.
    pub noise: Option<f64>,
    /// The number of records of each party of START, where the plan has only bounds.
    pub records: BTreeMap<String, u32>,
    /// Iterations of a training whose sum was out of range.
    pub rejected: Vec<u64>,
    /// Rows of those who are in the sums, of statistics of a table.
    pub rows: Option<f64>,
    /// The seed of the schedule that START drew, where it did.
    pub seed: Option<u64>,
}

/// The outcome of a run, as all have it that agreed on it. It prints no values.
#[derive(Clone, PartialEq)]
pub struct AgreedOutcome {
    /// The record: who is in it, and of which run.
    pub record: OutcomeRecord,
    /// The mean, in the data's unit.
    pub mean: Vec<f64>,
    record_bytes: Vec<u8>,
}

impl std::fmt::Debug for AgreedOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgreedOutcome({:?})", self.record)
    }
}

/// The SHA-256 of an outcome's record and of its mean: two outcomes are the same if both are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutcomeHashes {
    /// The record's SHA-256.
    pub record: signature::Digest,
    /// The mean's SHA-256.
    pub mean: signature::Digest,
}

/// The reasons why bytes are no outcome of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnusableOutcome {
    /// They do not have the hashes that their sender gave for them.
    #[error("its bytes do not have the hashes that it gave")]
    Hashes,
    /// The record cannot be read.
    #[error("its record is none")]
    Record,
    /// The record is of another plan, or contradicts this one.
    #[error("its record is not of this plan")]
    OtherPlan,
    /// A coordinate is no number.
    #[error("its mean has coordinates that are no numbers")]
    NotFinite,
}

/// The longest mean of this plan, in bytes.
pub fn mean_limit(plan: &Plan) -> usize {
    let draft = plan.draft();
    // A stream's result has a row for each release; a model fits into as many means.
    let most = draft.dimension().saturating_mul(draft.releases() as usize);
    most.saturating_mul(size_of::<f64>())
}

fn mean_bytes(mean: &[f64]) -> impl Iterator<Item = [u8; 8]> + '_ {
    mean.iter().map(|coordinate| coordinate.to_le_bytes())
}

fn hash_of_mean(mean: &[f64]) -> signature::Digest {
    let mut hash = Sha256::new();
    mean_bytes(mean).for_each(|bytes| hash.update(bytes));
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl AgreedOutcome {
    /// The outcome of a run that this node carried through; `None` where it has none that others
    /// are known to hold: after averaging, and where a result is each node's own.
    pub fn of(plan: &Plan, account: &Account, (outcome, mean): (&Outcome, &[f64])) -> Option<Self> {
        let is_common = outcome.sum.is_some() || outcome.training.is_some();
        if account.agreed() != Some(true) || account.is_own() || !(is_common && account.finished()) {
            return None;
        }
        let name = |party: Party| plan.draft().members[party].name.clone();
        let training = outcome.training.as_ref();
        let departed = training.iter().flat_map(|training| &training.departed);
        let figures = account.figures(plan, mean);
        let record = OutcomeRecord {
            departed: departed.map(|(&party, &since)| (name(party), since)).collect(),
            digest: plan.digest_hex(),
            included: outcome.included.iter().map(|&party| name(party)).collect(),
            iterations: training.map_or(0, |training| training.iterations),
            mean_sha256: hex(&hash_of_mean(mean)),
            noise: figures.as_ref().map(|figures| figures.noise),
            records: outcome
                .records
                .iter()
                .map(|(&party, &count)| (name(party), count))
                .collect(),
            rejected: training.map_or(vec![], |training| training.rejected.clone()),
            rows: figures.as_ref().and_then(|figures| figures.rows),
            seed: outcome.schedule_seed,
        };
        let record_bytes = serde_json::to_vec(&record).ok()?;
        Some(AgreedOutcome {
            record,
            mean: mean.to_vec(),
            record_bytes,
        })
    }

    /// Reads an outcome of this plan out of the bytes of its record and its mean.
    ///
    /// # Errors
    /// They are no outcome of this plan, or do not have these hashes.
    pub fn read(
        plan: &Plan,
        hashes: &OutcomeHashes,
        (record_bytes, mean): (&[u8], &[u8]),
    ) -> Result<Self, UnusableOutcome> {
        let found: [signature::Digest; 2] = [record_bytes, mean].map(|bytes| Sha256::digest(bytes).into());
        if found != [hashes.record, hashes.mean] {
            return Err(UnusableOutcome::Hashes);
        }
        let record: OutcomeRecord =
            serde_json::from_slice(record_bytes).map_err(|_| UnusableOutcome::Record)?;
        let members = &plan.draft().members;
        let known = |name: &String| members.iter().any(|member| member.name == *name);
        let is_of_plan = record.digest == plan.digest_hex()
            && record.mean_sha256 == hex(&hashes.mean)
            && !record.included.is_empty()
            && record.included.iter().chain(record.departed.keys()).all(known)
            && record.records.keys().all(known)
            && record.iterations <= trained::planned(plan)
            && mean.len().is_multiple_of(size_of::<f64>())
            && mean.len() <= mean_limit(plan);
        if !is_of_plan {
            return Err(UnusableOutcome::OtherPlan);
        }
        let (coordinates, _) = mean.as_chunks::<8>();
        let mean: Vec<f64> = coordinates
            .iter()
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect();
        let is_finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
        if !mean.iter().all(|coordinate| coordinate.is_finite())
            || !is_finite(record.noise)
            || !is_finite(record.rows)
        {
            return Err(UnusableOutcome::NotFinite);
        }
        Ok(AgreedOutcome {
            record,
            mean,
            record_bytes: record_bytes.to_vec(),
        })
    }

    /// The hashes by which two of them are the same.
    pub fn hashes(&self) -> OutcomeHashes {
        OutcomeHashes {
            record: Sha256::digest(&self.record_bytes).into(),
            mean: hash_of_mean(&self.mean),
        }
    }

    /// The bytes of the record.
    pub fn record_bytes(&self) -> &[u8] {
        &self.record_bytes
    }

    /// The bytes of the mean.
    pub fn mean_bytes(&self) -> Vec<u8> {
        mean_bytes(&self.mean).flatten().collect()
    }
}

#[cfg(test)]
pub(in crate::party) mod tests {
    use super::*;
    use crate::testing::plan_of;

    fn plan() -> Plan {
        plan_of("task = \"mean\"\n[data]\nshape = [2]\n", 4, None)
    }

    pub(in crate::party) fn record(plan: &Plan, mean: &[f64]) -> OutcomeRecord {
        OutcomeRecord {
            departed: BTreeMap::new(),
            digest: plan.digest_hex(),
            included: plan
                .draft()
                .members
                .iter()
                .map(|member| member.name.clone())
                .collect(),
            iterations: 0,
            mean_sha256: hex(&hash_of_mean(mean)),
            noise: None,
            records: BTreeMap::new(),
            rejected: vec![],
            rows: None,
            seed: None,
        }
    }

    /// The bytes that a member would send, with hashes that fit.
    pub(in crate::party) fn sent(record: &OutcomeRecord, mean: &[f64]) -> (OutcomeHashes, Vec<u8>, Vec<u8>) {
        let record = serde_json::to_vec(record).expect("it can be written");
        let hashes = OutcomeHashes {
            record: Sha256::digest(&record).into(),
            mean: hash_of_mean(mean),
        };
        (hashes, record, mean_bytes(mean).flatten().collect())
    }

    fn read(plan: &Plan, record: &OutcomeRecord, mean: &[f64]) -> Result<AgreedOutcome, UnusableOutcome> {
        let (hashes, record, mean) = sent(record, mean);
        AgreedOutcome::read(plan, &hashes, (&record, &mean))
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written_and_any_changed_byte_is_found() {
        let (plan, mean) = (plan(), [1.5, -2.25]);
        let (hashes, record, bytes) = sent(&record(&plan, &mean), &mean);
        let whole = AgreedOutcome::read(&plan, &hashes, (&record, &bytes)).expect("it is one");
        assert_eq!((&whole.mean[..], whole.hashes()), (&mean[..], hashes));
        assert_eq!(
            (whole.record_bytes(), whole.mean_bytes()),
            (&record[..], bytes.clone())
        );
        for at in 0..record.len() + bytes.len() {
            let (mut record, mut bytes) = (record.clone(), bytes.clone());
            match at.checked_sub(record.len()) {
                None => record[at] ^= 1,
                Some(at) => bytes[at] ^= 1,
            }
            let found = AgreedOutcome::read(&plan, &hashes, (&record, &bytes));
            assert_eq!(found, Err(UnusableOutcome::Hashes), "byte {at}");
        }
    }

    #[test]
    fn an_outcome_of_another_plan_or_of_strangers_or_too_long_is_refused() {
        let (plan, mean) = (plan(), [1.5, -2.25]);
        let good = || record(&plan, &mean);
        let stranger = || vec!["mallory".to_owned()];
        for bad in [
            OutcomeRecord {
                digest: "0".repeat(64),
                ..good()
            },
            OutcomeRecord {
                included: vec![],
                ..good()
            },
            OutcomeRecord {
                included: stranger(),
                ..good()
            },
            OutcomeRecord {
                departed: [("mallory".to_owned(), 1)].into(),
                ..good()
            },
            OutcomeRecord {
                records: [("mallory".to_owned(), 1)].into(),
                ..good()
            },
            OutcomeRecord {
                mean_sha256: "0".repeat(64),
                ..good()
            },
            OutcomeRecord {
                iterations: 1_000,
                ..good()
            },
        ] {
            assert_eq!(
                read(&plan, &bad, &mean),
                Err(UnusableOutcome::OtherPlan),
                "{bad:?}"
            );
        }
        let long = [0.0; 3];
        assert_eq!(
            read(&plan, &record(&plan, &long), &long),
            Err(UnusableOutcome::OtherPlan)
        );
        let endless = [f64::NAN, 1.0];
        assert_eq!(
            read(&plan, &record(&plan, &endless), &endless),
            Err(UnusableOutcome::NotFinite)
        );
        assert!(
            !format!("{:?}", read(&plan, &good(), &mean)).contains("2.25"),
            "no value is printed"
        );
    }
}
