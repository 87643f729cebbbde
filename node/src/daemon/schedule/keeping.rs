//! The loop that wakes when a schedule is due: it proposes the attempts that are this node's turn,
//! and writes down what has become of occurrences.

use std::collections::BTreeMap;

use undertone_protocol::plan::scheduled::{OccurrenceId, Scheduled};

use crate::daemon::config::schedules::ATTEMPT_S;
use crate::daemon::refusal::Refusal;
use crate::daemon::schedule::attending::{CLOCKS_S, Due};
use crate::daemon::schedule::timetable::Occasion;
use crate::daemon::service::Service;

/// Between two looks at what goes on, in seconds.
const LOOK_S: u64 = 5;

/// Between two looks otherwise, in seconds: the configuration may be read again.
const SELDOM_S: u64 = 30;

impl Service {
    /// Keeps the schedules until the daemon ends.
    pub(in crate::daemon) fn keep_schedules(&self) {
        let service = self.downgrade();
        self.in_background(async move {
            let mut proposed = BTreeMap::new();
            while let Some(service) = service.upgrade() {
                let next_s = service.tend(&mut proposed);
                let clock = service.shared.clock.clone();
                drop(service);
                clock.until(1000 * next_s).await;
            }
        });
        let service = self.downgrade();
        self.in_background(async move {
            while let Some(service) = service.upgrade() {
                service.look_ahead().await;
                let clock = service.shared.clock.clone();
                drop(service);
                clock.until(clock.now_ms() + 1000 * SELDOM_S).await;
            }
        });
    }

    /// Does what is due now; when to look again, in seconds since 1970. `proposed`: the attempt
    /// that each schedule was proposed for last.
    fn tend(&self, proposed: &mut BTreeMap<String, Scheduled>) -> u64 {
        let (config, now_s) = (self.config(), self.shared.clock.now_s());
        proposed.retain(|name, _| config.schedules.iter().any(|schedule| schedule.name == *name));
        let mut next_s = now_s + SELDOM_S;
        for (index, schedule) in config.schedules.iter().enumerate() {
            next_s = next_s.min(schedule.every.next(now_s));
            self.settle_occasions(&schedule.name, schedule.window_s);
            let Some(due_s) = schedule
                .every
                .last(now_s)
                .filter(|due| now_s < due + schedule.window_s)
            else {
                continue;
            };
            // Less than 12 h of them.
            let attempt = ((now_s - due_s) / ATTEMPT_S) as u32;
            let scheduled = Scheduled {
                occurrence: OccurrenceId::of(&config.list_digest, &schedule.run_digest, due_s),
                attempt,
            };
            next_s = next_s
                .min(due_s + ATTEMPT_S * u64::from(attempt + 1))
                .min(now_s + LOOK_S);
            let due = Due {
                config: config.clone(),
                index,
                due_s,
                scheduled,
            };
            self.begin_occasion(&due);
            let is_mine = due.proposer() == Some(config.identity.peer_id());
            if is_mine && proposed.get(&schedule.name) != Some(&scheduled) && self.is_free_for(&due).is_ok() {
                proposed.insert(schedule.name.clone(), scheduled);
                let service = self.clone();
                self.in_background(async move { service.propose_attempt(due).await });
            }
        }
        next_s.max(now_s + 1)
    }

    /// Notes that an occurrence is due.
    fn begin_occasion(&self, due: &Due) {
        let (occurrence, due_s) = due.key();
        let noted = self
            .shared
            .timetable
            .change(&due.schedule().name, (&occurrence, due_s), |_| Ok(()));
        self.log_unwritten(noted);
    }

    /// Writes down what has become of a schedule's occurrences.
    pub(in crate::daemon) fn settle_occasions(&self, schedule: &str, window_s: u64) {
        let now_s = self.shared.clock.now_s();
        let open = self.shared.timetable.occasions(schedule).into_iter();
        for occasion in open.filter(|occasion| occasion.outcome.is_none()) {
            let is_over = now_s > occasion.due_s + window_s + ATTEMPT_S + CLOCKS_S;
            let Some((outcome, reason)) = self.became(&occasion, is_over) else {
                continue;
            };
            tracing::info!(schedule, outcome, reason, "an occurrence of a schedule is over");
            self.shared.counters.occurred(outcome == MISSED);
            let key = (occasion.occurrence.as_str(), occasion.due_s);
            let settled = self.shared.timetable.change(schedule, key, |occasion| {
                (occasion.outcome, occasion.reason) = (Some(outcome), reason);
                Ok(())
            });
            self.log_unwritten(settled);
        }
    }

    /// The outcome of an occurrence, and why it is not what was hoped; `None` while that is open.
    fn became(&self, occasion: &Occasion, is_over: bool) -> Option<(String, Option<String>)> {
        let spent = self
            .shared
            .ledger()
            .check_occurrence(&occasion.occurrence)
            .is_err();
        let run = occasion
            .digest
            .as_ref()
            .and_then(|digest| self.shared.runs.get(digest));
        let run = run.map(|run| run.status());
        match run {
            Some(run) if !run.state.is_over() => None,
            Some(run) if spent => {
                let outcome = run.outcome.unwrap_or_else(|| "interrupted".into());
                Some((outcome, run.reason))
            }
            Some(run) if is_over => Some((MISSED.into(), run.reason.or(occasion.reason.clone()))),
            None if is_over && !spent => Some((MISSED.into(), occasion.reason.clone())),
            None if is_over => Some(("unknown".into(), occasion.reason.clone())),
            _ => None,
        }
    }

    fn log_unwritten(&self, written: Result<(), Refusal>) {
        if let Err(refusal) = written {
            tracing::error!("what becomes of a schedule cannot be written: {refusal}");
        }
    }
}

/// The outcome of an occurrence that was nobody's run.
const MISSED: &str = "missed";
