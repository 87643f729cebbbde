//! What the daemon says of itself at a glance: budgets, readiness, metrics.

use crate::daemon::service::{MOST_WAITING, Service};
use crate::daemon::status::{BudgetStatus, Metrics, Readiness, RunState};
use crate::telling::process;

impl Service {
    pub(super) fn budgets(&self) -> Vec<BudgetStatus> {
        let ledger = self.shared.ledger();
        self.config()
            .data_sets
            .iter()
            .map(|set| ledger.budget(set))
            .collect()
    }

    /// Whether a run can be taken now.
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
            problems
                .push("the ledger cannot be written: make room on its disk and restart the daemon".into());
        }
        if !self.shared.state.can_be_written() {
            problems.push("the state folder cannot be written: make room on its disk".into());
        }
        Readiness {
            ready: problems.is_empty(),
            problems,
        }
    }

    /// What `GET /metrics` shows.
    pub fn metrics(&self) -> Metrics {
        let count = |state: fn(RunState) -> bool| self.shared.runs.count(state) as u64;
        let (peers_private, peers_public) = self.shared.peers.answering();
        let mut metrics = Metrics {
            uptime_s: self.shared.begun.elapsed().as_secs_f64(),
            cpu_s: process::cpu_s(),
            resident_bytes: process::resident_bytes(),
            open_files: process::open_files(),
            runs_waiting: count(|state| state == RunState::Waiting),
            runs_active: count(|state| matches!(state, RunState::Gathering | RunState::Running)),
            peers_private,
            peers_public,
            budgets: self.budgets(),
            ..Metrics::default()
        };
        self.shared.counters.tell(&mut metrics);
        metrics
    }
}
