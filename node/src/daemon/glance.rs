//! Summaries of the daemon: budgets, readiness, metrics, and the utility of a mean.

use serde_json::Value;

use crate::daemon::damaged::Damaged;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::{MOST_WAITING, Service};
use crate::daemon::status::{BudgetStatus, Metrics, Readiness, RunState};
use crate::planning::files;
use crate::planning::utility::Utility;
use crate::reporting::process;

impl Service {
    pub(super) fn budgets(&self) -> Vec<BudgetStatus> {
        let ledger = self.shared.ledger();
        let config = self.config();
        config.data_sets.iter().map(|set| ledger.budget(set)).collect()
    }

    /// Whether a run can be taken now; and the files that are not what was written, which keep it
    /// from none.
    pub fn readiness(&self) -> Readiness {
        let mut problems = vec![];
        if self.stopping() {
            problems.push("the daemon is ending".into());
        }
        let waiting = self.shared.runs.count(|state| state == RunState::Waiting);
        if waiting >= MOST_WAITING {
            problems.push(format!("{waiting} runs wait for a place"));
        }
        if !self.shared.ledger().is_sound() {
            problems.push(
                "the ledger cannot be read or written: look at its disk, make room, and restart the daemon"
                    .into(),
            );
        }
        if !self.shared.state.can_be_written() {
            problems.push("the state folder cannot be written: make room on its disk".into());
        }
        let identity = &self.config().identity;
        problems.extend(self.shared.keys.sentence(&identity.name, &identity.peer_id()));
        Readiness {
            ready: problems.is_empty(),
            problems,
            damaged: [
                &self.shared.runs.damaged,
                &self.shared.offers.damaged,
                &self.shared.timetable.damaged,
                &self.shared.keys.damaged,
            ]
            .into_iter()
            .flat_map(Damaged::named)
            .chain(self.shared.receipts.damaged())
            .collect(),
            closed: self
                .budgets()
                .into_iter()
                .filter(|budget| budget.closed_since.is_some())
                .map(|budget| budget.data_set)
                .collect(),
        }
    }

    /// Sentences on what this node's table has that the plan does not describe, for its owner. None
    /// of a run that an earlier daemon had.
    ///
    /// # Errors
    /// There is no such run.
    pub fn told(&self, digest: &str) -> Result<Vec<String>, Refusal> {
        Ok(self.known(digest)?.told())
    }

    /// The utility of a run's mean: the noise that is in it beside what it can be, for each
    /// column where columns have public bounds.
    ///
    /// # Errors
    /// There is no such run, it goes on, or it has no mean.
    pub async fn utility(&self, digest: &str) -> Result<Value, Refusal> {
        let run = self.run(digest)?;
        if !run.state.is_over() {
            return Err(Refusal::new(Kind::Conflict, "the run has not ended yet").field("digest"));
        }
        let Some(error) = run.standard_error else {
            return Err(Refusal::new(Kind::Unknown, "the run has no mean").field("digest"));
        };
        let plan = self.plan(digest).await?;
        self.check(move || {
            let plan = files::parse(plan.as_bytes(), "the run's plan")?;
            Ok(Utility::with_error(&plan, error).json_by_column())
        })
        .await
    }

    /// Returns the numbers of `GET /metrics`. It looks for peers meanwhile, so that the next
    /// request shows which of them answer.
    pub fn metrics(&self) -> Metrics {
        let count = |state: fn(RunState) -> bool| self.shared.runs.count(state) as u64;
        let (peers, peers_private, peers_public) = self.shared.peers.answering();
        let mut metrics = Metrics {
            uptime_s: self.shared.begun.elapsed().as_secs_f64(),
            cpu_s: process::cpu_s(),
            resident_bytes: process::resident_bytes(),
            open_files: process::open_files(),
            runs_waiting: count(|state| state == RunState::Waiting),
            runs_active: count(|state| matches!(state, RunState::Gathering | RunState::Running)),
            peers,
            peers_private,
            peers_public,
            relayed_bytes: self.hub().relayed_bytes(),
            revoked_keys: self.shared.keys.barred().len() as u64,
            budgets: self.budgets(),
            schedules: self.schedules(),
            ..Metrics::default()
        };
        self.shared.counters.tell(&mut metrics);
        let looking = self.downgrade();
        self.in_background(async move {
            if let Some(service) = looking.upgrade() {
                service.shared.peers.look(service.hub()).await;
            }
        });
        metrics
    }
}
