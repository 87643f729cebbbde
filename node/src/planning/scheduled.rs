//! Plans of a schedule: each member makes the same plan by itself, from its own run file and peer
//! list, of who takes part. So a proposer's plan is held against one's own, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use libp2p::PeerId;
use serde_json::Value;
use thiserror::Error;
use undertone_accountant::calibrate;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::{Defaults, GRACE_MS};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::{Peer, Peers};
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::plan::scheduled::Scheduled;

use crate::planning::make;
use crate::reporting::failure::{Exit, Failure};

/// For how long members wait for START, in milliseconds: a third of an attempt.
const JOIN_MS: u64 = 30_000;

/// Rows of a party that are assumed where each says its own, until it does. Our choice.
const ASSUMED_RECORDS: u64 = 1000;

/// How far calibrated numbers may differ, relatively: libraries differ in last bits.
const CALIBRATED: f64 = 1e-9;

/// A group's own copy of what its plans are made of.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The run file.
    pub text: &'a str,
    /// Its name in messages.
    pub path: &'a Path,
    /// The peer list.
    pub list: &'a Peers,
}

/// A member that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attendee {
    /// Its id in the list.
    pub id: PeerId,
    /// How many records it brings, where the run file leaves that to each.
    pub records: Option<u32>,
}

/// A field in which a plan is not what a member's own run file and list give.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {found} in the offered plan; this node's own run file and peer list give {expected}")]
pub struct Difference {
    /// The dotted key.
    pub field: String,
    found: String,
    expected: String,
}

impl Terms<'_> {
    /// Reads the run file for everybody in the list.
    ///
    /// # Errors
    /// It is no run file for these, or a program would have to hand over what it is of (exit 2).
    pub fn check(&self) -> Result<RunFile, Failure> {
        let run = self.run_file(self.list)?;
        if run.computation.rounds().is_some() {
            return Err(Failure::usage(format!(
                "{}: a program hands over the parts of task = \"rounds\", and a schedule takes what it contributes \
                 from a file",
                self.path.display()
            ))
            .field("task")
            .hint("propose such a run with `undertone submit --propose`, or use another task"));
        }
        Ok(run)
    }

    /// Whether each member says how many records it brings: the run file protects records, and has
    /// no number of them.
    pub fn asks_for_records(&self) -> Result<bool, Failure> {
        let run = self.run_file(self.list)?;
        Ok(run.data.unit == Unit::Record && run.data.records.is_none())
    }

    /// The fewest members that a plan may have: all of the list but `privacy.dropouts`.
    pub fn least(&self) -> Result<usize, Failure> {
        let run = self.run_file(self.list)?;
        let all = self.list.as_slice().len();
        Ok(all.saturating_sub(run.privacy.dropouts).max(3))
    }

    /// The plan of an attempt at which these take part. Nothing in it is anybody's choice. It may
    /// take as long as `undertone plan`.
    ///
    /// # Errors
    /// Too few take part, or one who is not listed; or there is no plan of these (exit 2, 3).
    pub fn plan(&self, attendees: &[Attendee], scheduled: Scheduled) -> Result<Plan, Failure> {
        let (found, least) = (attendees.len(), self.least()?);
        if found < least {
            let all = self.list.as_slice().len();
            return Err(Failure::new(
                Exit::PlanRefused,
                format!("{found} of {all} members take part, and {least} are needed: privacy.dropouts says how many may be absent"),
            )
            .field("members"));
        }
        let takes_part: BTreeSet<PeerId> = attendees.iter().map(|attendee| attendee.id).collect();
        let listed = self.list.as_slice().iter();
        let present: Vec<Peer> = listed
            .filter(|peer| takes_part.contains(&peer.id))
            .cloned()
            .collect();
        if present.len() != found {
            let refused = "a member takes part who is not in the list, or twice";
            return Err(Failure::new(Exit::PlanRefused, refused).field("members"));
        }
        let present = Peers::new(present).map_err(|e| make::peers_failure(self.path, &e))?;
        let mut run = self.run_file(&present)?;
        if run.data.unit == Unit::Record && run.data.records.is_none() {
            run.data.records = Some(RecordCounts::named(self.counts(attendees, &present)?));
        }
        let draft = Draft::scheduled(run, &present, scheduled)
            .map_err(|e| Failure::usage(e.to_string()).field(e.field()))?;
        let calibration = calibrate(&draft, &mut |_| {}).map_err(|e| make::uncalibrated(&e))?;
        let nonce = scheduled.nonce(draft.identified());
        make::assemble_with(draft, calibration, nonce)
    }

    /// The plan of everybody, for what it costs: with as many records as somebody with `own` has,
    /// or as are assumed.
    pub fn forecast(&self, own: Option<u32>, scheduled: Scheduled) -> Result<Plan, Failure> {
        let records = own.unwrap_or(ASSUMED_RECORDS as u32);
        let all = self.list.as_slice().iter();
        let all: Vec<Attendee> = all
            .map(|peer| Attendee {
                id: peer.id,
                records: Some(records),
            })
            .collect();
        self.plan(&all, scheduled)
    }

    fn counts(&self, attendees: &[Attendee], present: &Peers) -> Result<BTreeMap<String, u64>, Failure> {
        let records: BTreeMap<PeerId, Option<u32>> = attendees
            .iter()
            .map(|attendee| (attendee.id, attendee.records))
            .collect();
        let count = |peer: &Peer| match records.get(&peer.id).copied().flatten() {
            Some(count) => Ok((peer.name.clone(), u64::from(count))),
            None => Err(Failure::new(
                Exit::PlanRefused,
                format!("{} did not say how many records it brings", peer.name),
            )
            .field("data.records")),
        };
        present.as_slice().iter().map(count).collect()
    }

    /// The run file for these peers, with the time-outs of a schedule. What it says of who is
    /// absent is left out.
    fn run_file(&self, peers: &Peers) -> Result<RunFile, Failure> {
        let refused = |e| make::run_failure(self.path, &e);
        let mut raw = RawRunFile::parse(self.text).map_err(refused)?;
        raw.run.join_ms = Some(JOIN_MS);
        raw.run.grace_ms.get_or_insert(GRACE_MS);
        raw.run.accept_by = None;
        let absent = |name: &String| {
            let is_listed = self.list.index_of(name).is_some();
            is_listed && peers.index_of(name).is_none()
        };
        if let Some(weights) = &mut raw.data.weights {
            weights.retain(|name, _| !absent(name));
        }
        if let Some(records) = &mut raw.data.records {
            records.forget(absent);
        }
        let run = raw
            .resolve(peers.as_slice().len(), Defaults::File)
            .map_err(refused)?;
        run.supported().map_err(refused)?;
        make::among_machines(&run)?;
        Ok(run)
    }
}

/// The members of a plan, each with its number of records where the plan has that.
pub fn attendees(plan: &Plan) -> Vec<Attendee> {
    let members = plan.draft().members.iter();
    let records =
        |records: undertone_protocol::plan::run_file::records::Records| u32::try_from(records.most()).ok();
    members
        .map(|member| Attendee {
            id: member.id,
            records: member.records.and_then(records),
        })
        .collect()
}

/// Holds a plan against one's own of the same members: every field must be the same, but that
/// calibrated numbers may differ by 10⁻⁹.
///
/// # Errors
/// The first field that differs.
pub fn compare(offered: &Plan, own: &Plan) -> Result<(), Difference> {
    if offered.digest() == own.digest() {
        return Ok(());
    }
    let read = |plan: &Plan| serde_json::from_str::<Value>(plan.to_json()).unwrap_or_default();
    let (offered, own) = (read(offered), read(own));
    differing("", &offered, &own).map_or(Ok(()), Err)
}

fn differing(field: &str, found: &Value, expected: &Value) -> Option<Difference> {
    let below = |key: &str| match field {
        "" => key.to_owned(),
        _ => format!("{field}.{key}"),
    };
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
            let of = |object: &serde_json::Map<String, Value>, key: &str| {
                object.get(key).cloned().unwrap_or_default()
            };
            keys.into_iter()
                .find_map(|key| differing(&below(key), &of(found, key), &of(expected, key)))
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let pairs = found.iter().zip(expected).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (found, expected))| differing(&below(&index.to_string()), found, expected))
        }
        (found, expected) if found == expected || is_as_calibrated(field, found, expected) => None,
        (found, expected) => Some(Difference {
            field: field.to_owned(),
            found: shown(found),
            expected: shown(expected),
        }),
    }
}

fn is_as_calibrated(field: &str, found: &Value, expected: &Value) -> bool {
    let first = field.split('.').next().unwrap_or_default();
    let calibrated =
        ["claims", "predicted"].contains(&first) || (first == "mechanism" && field.ends_with("_std"));
    let (Some(found), Some(expected), true) = (found.as_f64(), expected.as_f64(), calibrated) else {
        return false;
    };
    (found - expected).abs() <= CALIBRATED * found.abs().max(expected.abs())
}

/// A value in a sentence: what is long is cut.
fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = match value {
        Value::Null => "absent".to_owned(),
        value => value.to_string(),
    };
    match text.chars().count() > MOST {
        true => text.chars().take(MOST).chain("…".chars()).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
