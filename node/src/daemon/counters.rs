//! The counters of `GET /metrics`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::daemon::run_seconds::{Buckets, RunSeconds};
use crate::daemon::status::{Metrics, RunState, RunStatus};

/// How a run can end. Each is counted from 0 on: what first shows up as 1 is no increase to a
/// monitor.
const ENDS: [&str; 7] = [
    "done",
    "degraded",
    "aborted",
    "withheld",
    "withdrawn",
    "interrupted",
    FAILED,
];
const FAILED: &str = "failed";

/// The label of runs that ended so.
fn outcome(how: &str) -> Vec<(String, String)> {
    vec![("outcome".to_owned(), how.to_owned())]
}

/// Counts since the daemon began.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    submitted: u64,
    refused: u64,
    offered: u64,
    reloaded: u64,
    not_reloaded: u64,
    occurred: u64,
    missed: u64,
    ended: BTreeMap<&'static str, u64>,
    private_bytes: u64,
    public_bytes: u64,
    run_seconds: RunSeconds,
}

impl Default for Counts {
    fn default() -> Self {
        let run_seconds = RunSeconds::new_with_constructor(Buckets);
        ENDS.into_iter()
            .for_each(|how| drop(run_seconds.get_or_create(&outcome(how))));
        Counts {
            submitted: 0,
            refused: 0,
            offered: 0,
            reloaded: 0,
            not_reloaded: 0,
            occurred: 0,
            missed: 0,
            ended: ENDS.map(|how| (how, 0)).into(),
            private_bytes: 0,
            public_bytes: 0,
            run_seconds,
        }
    }
}

impl Counters {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submitted(&self) {
        self.counts().submitted += 1;
    }

    pub(super) fn refused(&self) {
        self.counts().refused += 1;
    }

    pub(super) fn offered(&self) {
        self.counts().offered += 1;
    }

    /// The configuration was read again, and is in force or refused.
    pub(super) fn reloaded(&self, in_force: bool) {
        let mut counts = self.counts();
        *match in_force {
            true => &mut counts.reloaded,
            false => &mut counts.not_reloaded,
        } += 1;
    }

    /// An occurrence of a schedule is over, with a run or without one.
    pub(super) fn occurred(&self, missed: bool) {
        let mut counts = self.counts();
        *match missed {
            true => &mut counts.missed,
            false => &mut counts.occurred,
        } += 1;
    }

    /// A run is over.
    pub(super) fn ended(&self, status: &RunStatus) {
        let how = match status.state {
            RunState::Withdrawn => "withdrawn",
            RunState::Interrupted => "interrupted",
            _ => status.outcome.as_deref().unwrap_or(FAILED),
        };
        let how = ENDS.into_iter().find(|end| *end == how).unwrap_or(FAILED);
        let mut counts = self.counts();
        *counts.ended.entry(how).or_default() += 1;
        if let (Some(began), Some(ended)) = (status.started_ms, status.ended_ms) {
            let seconds = ended.saturating_sub(began) as f64 / 1000.0;
            counts.run_seconds.get_or_create(&outcome(how)).observe(seconds);
        }
        counts.private_bytes += status.private_bytes;
        counts.public_bytes += status.public_bytes;
    }

    /// Fills in what is counted here.
    pub(super) fn tell(&self, metrics: &mut Metrics) {
        let counts = self.counts();
        metrics.runs_submitted = counts.submitted;
        metrics.submissions_refused = counts.refused;
        metrics.offers_received = counts.offered;
        metrics.reloads = [("done", counts.reloaded), ("refused", counts.not_reloaded)];
        metrics.occurrences = [("run", counts.occurred), ("missed", counts.missed)];
        metrics.runs_ended = counts.ended.iter().map(|(how, count)| (*how, *count)).collect();
        metrics.private_bytes = counts.private_bytes;
        metrics.public_bytes = counts.public_bytes;
        metrics.run_seconds = Some(counts.run_seconds.clone());
    }
}
