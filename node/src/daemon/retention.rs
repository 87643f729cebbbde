//! The folders of runs are kept for as long as the configuration says. Receipts, the ledger and the
//! marks beside the key stay for ever: they are what shows what was spent.

use std::time::Duration;

use crate::daemon::backup::damaged_journals;
use crate::daemon::ledger::now_ms;
use crate::daemon::service::Service;
use crate::reporting::failure::{Exit, Failure};

/// How often it is looked for runs that are too old. Our choice: who counts in days does not mind
/// an hour.
const EVERY: Duration = Duration::from_secs(3600);

const DAY_MS: u64 = 24 * 3600 * 1000;

impl Service {
    /// Deletes the folders of runs once they are older than the configuration has them, for as long
    /// as the daemon runs. At first all that is on disk is looked at, so that `/readyz` names what
    /// was damaged: the start does not wait for that.
    pub(super) fn keep_runs(&self) {
        let service = self.downgrade();
        self.in_background(async move {
            if let Some(service) = service.upgrade() {
                service.look_through().await;
            }
            while let Some(service) = service.upgrade() {
                service.delete_old_runs().await;
                drop(service);
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    /// Reads the receipts, and the records of runs that are not in memory.
    async fn look_through(&self) {
        let shared = self.shared.clone();
        let looked = tokio::task::spawn_blocking(move || {
            for (path, failure) in damaged_journals(&shared.config())? {
                shared.runs.damaged.note(&path, &failure);
            }
            shared.receipts.look_through()?;
            shared.runs.look_through().map_err(unreadable)
        });
        if let Err(failure) = looked.await.map_err(unreadable).flatten() {
            tracing::error!("the state folder cannot be looked through: {failure}");
        }
    }

    /// Deletes the runs that are too old now.
    pub(super) async fn delete_old_runs(&self) {
        let Some(days) = self.config().keep_days else {
            return;
        };
        let before_ms = now_ms().saturating_sub(u64::from(days) * DAY_MS);
        let shared = self.shared.clone();
        let deleted = tokio::task::spawn_blocking(move || shared.runs.delete(before_ms, &shared.receipts));
        match deleted.await.map_err(unreadable).flatten() {
            Ok(0) => {}
            Ok(count) => tracing::info!(
                count,
                "runs were deleted, as keep_days has it; their receipts stay"
            ),
            Err(failure) => tracing::error!("runs that are too old cannot be deleted: {failure}"),
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, error.to_string())
}
