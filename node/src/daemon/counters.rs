//! What `GET /metrics` counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::daemon::status::{Metrics, RunState, RunStatus};

/// Counts since the daemon began.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    submitted: u64,
    refused: u64,
    offered: u64,
    ended: BTreeMap<&'static str, u64>,
    private_bytes: u64,
    public_bytes: u64,
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

    /// A run is over.
    pub(super) fn ended(&self, status: &RunStatus) {
        let how = match (status.state, status.outcome.as_deref()) {
            (RunState::Withdrawn, _) => "withdrawn",
            (RunState::Interrupted, _) => "interrupted",
            (_, Some("done")) => "done",
            (_, Some("degraded")) => "degraded",
            (_, Some("aborted")) => "aborted",
            (_, Some("withheld")) => "withheld",
            _ => "failed",
        };
        let mut counts = self.counts();
        *counts.ended.entry(how).or_default() += 1;
        counts.private_bytes += status.private_bytes;
        counts.public_bytes += status.public_bytes;
    }

    /// Fills in what is counted here.
    pub(super) fn tell(&self, metrics: &mut Metrics) {
        let counts = self.counts();
        metrics.runs_submitted = counts.submitted;
        metrics.submissions_refused = counts.refused;
        metrics.offers_received = counts.offered;
        metrics.runs_ended = counts.ended.iter().map(|(how, count)| (*how, *count)).collect();
        metrics.private_bytes = counts.private_bytes;
        metrics.public_bytes = counts.public_bytes;
    }
}
