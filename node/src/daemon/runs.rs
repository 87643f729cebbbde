//! The runs that the daemon knows: what is said of each, on disk and in memory, and who may still
//! take one back.

mod files;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use libp2p::PeerId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::daemon::damaged::Damaged;
use crate::daemon::event_log::EventLog;
use crate::daemon::ledger::{Ledger, now_ms};
use crate::daemon::mean_file::MeanFile;
use crate::daemon::receipts::Receipts;
use crate::daemon::refusal::{Kind, Refusal, twice, unwritten};
use crate::daemon::rounds_desk::RoundsDesk;
use crate::daemon::state::{checksum, write_record, write_whole};
use crate::daemon::status::{RunState, RunStatus};
use crate::party::events::Events;
use crate::party::spent::make_folders;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::sentences::listed;

/// Ended runs whose events are kept in memory; of older ones only the last event is.
const MOST_FOLLOWED: usize = 8;

/// Runs that are kept in memory; older ones are read from disk when somebody asks.
const MOST_KNOWN: usize = 128;

/// The record of a run that goes on. A start of the daemon, however many runs have ended, reads
/// these and the newest others.
const BEGUN: &str = "begun.json";

/// The record of a run that has ended.
const ENDED: &str = "run.json";

/// Ends the name of a run's folder that is being deleted.
const DELETED: &str = ".deleted";

/// The record of a run on disk, beside its plan and its results.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Record {
    status: RunStatus,
    /// The file of its mean.
    mean: Option<MeanFile>,
    /// SHA-256 of its receipt and of that one's signature, one after the other.
    receipt_sha256: Option<String>,
}

impl Record {
    fn digest(&self) -> &str {
        &self.status.digest
    }
}

/// Whether a run can still be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing private has left.
    Open,
    /// The run's plan is marked as spent.
    Spent,
    /// It was taken back: nothing private may leave.
    Cancelled,
}

/// The reasons why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The run's owner took it back.
    Withdrawn,
    /// The daemon comes to its end.
    DaemonEnds,
    /// The key of this member was revoked.
    Revoked(PeerId),
}

/// A run of this daemon, with its record on disk.
pub(super) struct Run {
    folder: PathBuf,
    /// This node's name in its events.
    party: String,
    /// Since when its events count.
    begun: Instant,
    record: Mutex<Record>,
    stage: Mutex<Stage>,
    stop: watch::Sender<Option<Stop>>,
    /// The events of the run.
    pub(super) events: EventLog,
    /// The signal to an accepted offer to look at the others again.
    pub(super) nudge: Notify,
    /// Where its rounds are handed over, if it has any.
    pub(super) desk: OnceLock<Arc<RoundsDesk>>,
    /// Whether this node has signed a START, by which others may begin.
    signed: AtomicBool,
    /// Sentences on the owner's table, for the owner alone: in memory only.
    told: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    fn new(party: &str, folder: PathBuf, record: Record) -> Self {
        let stage = if record.status.state.is_over() {
            Stage::Spent
        } else {
            Stage::Open
        };
        let events = EventLog::default();
        let (party, begun) = (party.to_owned(), Instant::now());
        Run {
            folder,
            party,
            begun,
            record: Mutex::new(record),
            stage: Mutex::new(stage),
            stop: watch::channel(None).0,
            events,
            nudge: Notify::new(),
            desk: OnceLock::new(),
            signed: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// Keeps sentences on the owner's table until the owner asks for them.
    pub(super) fn tell_owner(&self, sentences: Vec<String>) {
        *locked(&self.told) = sentences;
    }

    /// Sentences on the owner's table.
    pub(super) fn told(&self) -> Vec<String> {
        locked(&self.told).clone()
    }

    /// The folder of the run's files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the status of the run.
    pub(super) fn status(&self) -> RunStatus {
        locked(&self.record).status.clone()
    }

    /// Changes what is said of it.
    pub(super) fn update(&self, change: impl FnOnce(&mut RunStatus)) {
        change(&mut locked(&self.record).status);
    }

    /// Whether it can be taken back; held while that changes.
    pub(super) fn stage(&self) -> MutexGuard<'_, Stage> {
        locked(&self.stage)
    }

    /// Whether this node has signed a START of it.
    pub(super) fn has_signed(&self) -> bool {
        self.signed.load(Ordering::Acquire)
    }

    /// Takes note that it did not start: the START that this node may have signed binds nobody, and
    /// the run waits for its members again.
    pub(super) fn wait_again(&self) {
        self.signed.store(false, Ordering::Release);
        self.update(|status| {
            (status.state, status.phase) = (RunState::Accepted, None);
            (status.round, status.started_ms) = (None, None);
        });
    }

    /// Where its driver's events go.
    pub(super) fn listener(self: &Arc<Self>) -> Events {
        let run = self.clone();
        Events::listened(move |event| run.observe(event), self.begun)
    }

    /// Follows what an event says of phase, round and bytes, and keeps it.
    fn observe(&self, event: &Value) {
        self.update(|status| {
            match event["event"].as_str() {
                Some("signed") => self.signed.store(true, Ordering::Release),
                Some("phase") => {
                    // Gathering anew: the START before came to nothing.
                    let gathers = event["phase"] == "gathering";
                    self.signed.fetch_and(!gathers, Ordering::AcqRel);
                    status.phase = event["phase"].as_str().map(String::from);
                    (status.round, status.waiting_for) = (None, vec![]);
                    if event["without"].is_string() {
                        status.without = listed(&event["without"]);
                    }
                }
                Some("ready" | "waiting") => {
                    status.waiting_for = listed(&event["waiting_for"]);
                }
                Some("peer") => {
                    let of = |key: &str| event[key].as_str().unwrap_or_default();
                    let (peer, state) = (of("peer"), of("state"));
                    if state == "unreachable" || state.ends_with(" connected") {
                        status.unreachable.retain(|lost| lost != peer);
                    }
                    if state == "unreachable" {
                        status.unreachable.push(peer.to_owned());
                    }
                }
                Some("iteration") => {
                    (status.iteration, status.waiting_for) = (event["k"].as_u64(), vec![]);
                }
                Some("round") => {
                    status.round = event["round"]
                        .as_u64()
                        .and_then(|round| u32::try_from(round).ok())
                }
                _ => {}
            }
            for (bytes, key) in [
                (&mut status.private_bytes, "private_bytes"),
                (&mut status.public_bytes, "public_bytes"),
            ] {
                *bytes = event[key].as_u64().unwrap_or(*bytes);
            }
        });
        self.events.push(event.clone());
    }

    /// Takes it back before the start. Refused once the plan is spent.
    pub(super) fn cancel(&self, why: Stop) -> Result<(), Refusal> {
        let mut stage = self.stage();
        if *stage != Stage::Open {
            return Err(Refusal::new(
                Kind::Conflict,
                "the run has begun; what has left cannot be called back",
            )
            .field("digest")
            .hint("let it end; if this node must not go on, stop the daemon: the others go on without it"));
        }
        *stage = Stage::Cancelled;
        self.stop.send_replace(Some(why));
        Ok(())
    }

    /// Stops it wherever it is.
    pub(super) fn stop(&self, why: Stop) {
        if self.cancel(why).is_err() {
            self.stop
                .send_if_modified(|stop| stop.is_none() && stop.replace(why).is_none());
        }
    }

    /// Returns once somebody stopped it.
    pub(super) async fn stopped(&self) -> Stop {
        let mut stop = self.stop.subscribe();
        match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(why)) => why,
            // The sender lives as long as `self`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Returns the reason why it was taken back before anything private had left, if it was.
    pub(super) fn taken_back(&self) -> Option<Stop> {
        let cancelled = *self.stage() == Stage::Cancelled;
        self.stop.borrow().filter(|_| cancelled)
    }

    /// Ends the run in memory and on disk, and reports the end to those who follow. Only the first
    /// end counts.
    pub(super) fn end(&self, mean: Option<MeanFile>, change: impl FnOnce(&mut RunStatus)) {
        let record = {
            let mut record = locked(&self.record);
            if record.status.state.is_over() {
                return;
            }
            change(&mut record.status);
            record.status.waiting_for.clear();
            record.status.ended_ms = Some(now_ms());
            record.mean = mean;
            record.receipt_sha256 = self.read_receipt().ok().map(|[json, signature]| {
                let both = [json, signature].concat();
                checksum(&both)
            });
            record.clone()
        };
        *self.stage() = Stage::Spent;
        match write_record(&self.folder.join(ENDED), &record) {
            // Where it stays the next start removes it.
            Ok(()) => drop(std::fs::remove_file(self.folder.join(BEGUN))),
            Err(error) => {
                tracing::error!(%error, digest = record.status.digest, "the end of a run cannot be written");
            }
        }
        let RunStatus {
            state,
            outcome,
            exit_code,
            ..
        } = &record.status;
        let log = self.events.clone();
        Events::listened(move |event| log.push(event.clone()), self.begun).emit(
            &self.party,
            "finished",
            json!({ "state": state, "outcome": outcome, "exit_code": exit_code }),
        );
        self.events.close();
    }

    /// Adds the result that other members gave to a run that a restart had interrupted, and its
    /// receipt. Does nothing to any other.
    ///
    /// # Errors
    /// The record cannot be written; the run is as it was then.
    pub(super) fn complete(&self, mean: MeanFile, change: impl FnOnce(&mut RunStatus)) -> io::Result<()> {
        let mut record = locked(&self.record);
        if record.status.state != RunState::Interrupted {
            return Ok(());
        }
        let mut completed = record.clone();
        change(&mut completed.status);
        completed.mean = Some(mean);
        completed.receipt_sha256 = Some(checksum(&self.read_receipt()?.concat()));
        write_record(&self.folder.join(ENDED), &completed)?;
        *record = completed;
        Ok(())
    }

    /// SHA-256 of its receipt and of that one's signature, if it has them.
    fn written_receipt(&self) -> Option<String> {
        locked(&self.record).receipt_sha256.clone()
    }

    /// Whether it ended before this time (milliseconds since 1970).
    fn ended_before(&self, ms: u64) -> bool {
        let status = &locked(&self.record).status;
        status.state.is_over() && status.ended_ms.is_some_and(|ended| ended < ms)
    }

    /// The file of its mean, if it has one.
    pub(super) fn mean(&self) -> Option<MeanFile> {
        locked(&self.record).mean.clone()
    }

    /// Refused while it goes on.
    pub(super) fn over(&self) -> Result<(), Refusal> {
        let status = self.status();
        if status.state.is_over() {
            return Ok(());
        }
        Err(Refusal::new(Kind::Conflict, "the run has not ended yet")
            .field("digest")
            .hint("`undertone watch DIGEST` waits for its end"))
    }
}

/// All runs of this daemon, in memory and on disk.
pub(super) struct Runs {
    party: String,
    folder: PathBuf,
    known: Mutex<BTreeMap<String, Arc<Run>>>,
    /// Files of runs that are not what was written.
    pub(super) damaged: Damaged,
}

impl Runs {
    /// Reads the records; those of runs that an earlier daemon did not end are ended now. Damaged
    /// ones are skipped. Refused (exit 2) if the folder cannot be read.
    pub(super) fn open(party: &str, folder: PathBuf, ledger: &Ledger) -> Result<Self, Failure> {
        let refused = |e: io::Error| {
            Failure::usage(format!("{}: cannot be read: {e}", folder.display())).field("state")
        };
        let damaged = Damaged::default();
        let found = on_disk(&folder, &damaged).map_err(refused)?;
        let found: Vec<_> = found
            .into_iter()
            .map(|(place, record)| Run::new(party, place, record))
            .collect();
        for run in &found {
            let charged = ledger.charged(&run.status().digest);
            run.end(None, |status| {
                status.charged = charged.map(|charge| charge.mu_squared);
                status.exit_code = Some(Exit::Aborted.code());
                let (state, reason) = match charged {
                    None => (RunState::Withdrawn, "the daemon ended before the run began"),
                    Some(_) => (
                        RunState::Interrupted,
                        "the daemon ended in the middle of the run, which stays charged",
                    ),
                };
                (status.state, status.reason) = (state, Some(reason.into()));
                if charged.is_some() {
                    status.exit_code = Some(Exit::PrivacyRefused.code());
                }
            });
            run.events.close();
        }
        let known = found
            .into_iter()
            .map(|run| (run.status().digest, Arc::new(run)))
            .collect();
        let runs = Runs {
            party: party.to_owned(),
            folder,
            known: Mutex::new(known),
            damaged,
        };
        runs.forget_old();
        Ok(runs)
    }

    /// Takes a run in, on disk and in memory. Refused if this digest has one that goes on.
    pub(super) fn insert(&self, status: RunStatus, plan: &str) -> Result<Arc<Run>, Refusal> {
        let folder = self.folder.join(&status.digest);
        let mut known = locked(&self.known);
        if known
            .get(&status.digest)
            .is_some_and(|run| !run.status().state.is_over())
        {
            return Err(twice());
        }
        let record = Record {
            status,
            mean: None,
            receipt_sha256: None,
        };
        let written = make_folders(&folder)
            .and_then(|()| write_whole(&folder.join("plan.json"), plan.as_bytes()))
            .and_then(|()| write_record(&folder.join(BEGUN), &record));
        written.map_err(|e| unwritten(&folder, &e))?;
        // Of an earlier try of this plan, which cost nothing.
        let _ = std::fs::remove_file(folder.join(ENDED));
        for name in [BEGUN, ENDED] {
            self.damaged.forget(&folder.join(name));
        }
        let digest = record.status.digest.clone();
        let run = Arc::new(Run::new(&self.party, folder, record));
        known.insert(digest, run.clone());
        drop(known);
        self.forget_old();
        Ok(run)
    }

    /// One run, from memory or from disk.
    pub(super) fn get(&self, digest: &str) -> Option<Arc<Run>> {
        if let Some(run) = locked(&self.known).get(digest) {
            return Some(run.clone());
        }
        let plain = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let folder = self.folder.join(digest);
        let path = folder.join(ENDED);
        if !plain || !path.exists() {
            return None;
        }
        let record = self.damaged.record(&path, Record::digest)?;
        let run = Run::new(&self.party, folder, record);
        run.events.close();
        Some(Arc::new(run))
    }

    /// All that are in memory, the newest first.
    pub(super) fn all(&self) -> Vec<Arc<Run>> {
        let mut runs: Vec<_> = locked(&self.known).values().cloned().collect();
        runs.sort_by_cached_key(|run| std::cmp::Reverse(run.status().submitted_ms));
        runs
    }

    /// How many are in this state.
    pub(super) fn count(&self, state: impl Fn(RunState) -> bool) -> usize {
        locked(&self.known)
            .values()
            .filter(|run| state(run.status().state))
            .count()
    }

    /// Reads the records of all runs on disk, to find those that are damaged.
    pub(super) fn look_through(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            name.to_str().and_then(|digest| self.get(digest));
        }
        Ok(())
    }

    /// Deletes the folders of runs that ended before this time (milliseconds since 1970), also of
    /// those that are on disk alone, once their receipts are kept elsewhere; how many. One whose
    /// record or receipt is damaged stays.
    pub(super) fn delete(&self, before_ms: u64, receipts: &Receipts) -> Result<usize, Failure> {
        let unreadable = |e: io::Error| Failure::storage(&e, format!("{}: {e}", self.folder.display()));
        let mut deleted = 0;
        for entry in std::fs::read_dir(&self.folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(DELETED) {
                // The daemon was killed in the middle of it.
                std::fs::remove_dir_all(self.folder.join(name)).map_err(unreadable)?;
                continue;
            }
            let Some(run) = self.get(name).filter(|run| run.ended_before(before_ms)) else {
                continue;
            };
            match run.receipt() {
                Ok(None) => {}
                Ok(Some(both)) => {
                    let text = both.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                    receipts.keep(name, text)?;
                }
                Err(failure) => {
                    self.damaged.note(&run.folder.join("receipt.json"), &failure);
                    continue;
                }
            }
            deleted += usize::from(self.remove(name, before_ms).map_err(unreadable)?);
        }
        Ok(deleted)
    }

    /// Deletes a run's folder; whether it did. Not if the plan was submitted again meanwhile.
    fn remove(&self, digest: &str, before_ms: u64) -> io::Result<bool> {
        let deleted = self.folder.join(format!("{digest}{DELETED}"));
        {
            let mut known = locked(&self.known);
            if known.get(digest).is_some_and(|run| !run.ended_before(before_ms)) {
                return Ok(false);
            }
            // In one step: whoever is killed in the middle leaves no folder with half its files.
            std::fs::rename(self.folder.join(digest), &deleted)?;
            known.remove(digest);
        }
        std::fs::remove_dir_all(deleted)?;
        Ok(true)
    }

    fn forget_old(&self) {
        let ended: Vec<_> = self
            .all()
            .into_iter()
            .filter(|run| run.status().state.is_over())
            .collect();
        ended
            .iter()
            .skip(MOST_FOLLOWED)
            .for_each(|run| run.events.forget());
        let mut known = locked(&self.known);
        for run in ended.into_iter().skip(MOST_KNOWN) {
            known.remove(&run.status().digest);
        }
    }
}

/// The records of the runs in a folder that had not ended when an earlier daemon did, and of the
/// newest [`MOST_KNOWN`] others; damaged ones are noted. Of all others no more is looked at than
/// when they ended.
fn on_disk(folder: &Path, damaged: &Damaged) -> io::Result<Vec<(PathBuf, Record)>> {
    let (mut found, mut newest) = (vec![], BinaryHeap::new());
    for entry in std::fs::read_dir(folder)? {
        let place = entry?.path();
        let (begun, ended) = (place.join(BEGUN), place.join(ENDED));
        if begun.exists() {
            let ends = ended
                .exists()
                .then(|| damaged.record(&ended, Record::digest))
                .flatten();
            let begins = damaged.record(&begun, Record::digest);
            let ends = ends.filter(|ends: &Record| {
                let same = |begins: &Record| begins.status.submitted_ms == ends.status.submitted_ms;
                ends.status.state.is_over() && begins.as_ref().is_none_or(same)
            });
            if ends.is_some() {
                // Killed after its end was written.
                std::fs::remove_file(&begun)?;
                damaged.forget(&begun);
            }
            found.extend(ends.or(begins).map(|record| (place, record)));
        } else if let Ok(ended) = ended.metadata() {
            // A folder without a record is one that the daemon was killed over before it had taken
            // the run.
            newest.push(Reverse((ended.modified()?, place)));
            if newest.len() > MOST_KNOWN {
                newest.pop();
            }
        }
    }
    for Reverse((_, place)) in newest {
        let record = damaged.record(&place.join(ENDED), Record::digest);
        found.extend(record.map(|record| (place, record)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
