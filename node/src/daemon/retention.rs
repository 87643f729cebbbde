//! Means are kept for as long as the configuration says. Receipts, records and the ledger stay for
//! ever: they are what shows what was spent.

use std::time::Duration;

use crate::daemon::ledger::now_ms;
use crate::daemon::service::Service;

/// How often it is looked for means that are too old. Our choice: who counts in days does not mind
/// an hour.
const EVERY: Duration = Duration::from_secs(3600);

const DAY_MS: u64 = 24 * 3600 * 1000;

impl Service {
    /// Deletes means once they are older than the configuration has them, for as long as the
    /// daemon runs.
    pub(super) fn keep_means(&self) {
        let service = self.downgrade();
        self.in_background(async move {
            while let Some(service) = service.upgrade() {
                service.delete_old_means().await;
                drop(service);
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    /// Deletes the means that are too old now.
    pub(super) async fn delete_old_means(&self) {
        let Some(days) = self.config().keep_days else {
            return;
        };
        let before_ms = now_ms().saturating_sub(u64::from(days) * DAY_MS);
        let shared = self.shared.clone();
        let deleted = tokio::task::spawn_blocking(move || shared.runs.delete_means(before_ms)).await;
        match deleted.map_err(std::io::Error::other).flatten() {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "means were deleted, as keep_days has it"),
            Err(error) => tracing::error!(%error, "means that are too old cannot be deleted"),
        }
    }
}
