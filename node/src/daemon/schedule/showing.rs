//! The view of schedules that the API gives.

use crate::daemon::config::Config;
use crate::daemon::config::schedules::Schedule;
use crate::daemon::schedule::schedule_status::{OccasionStatus, ScheduleStatus};
use crate::daemon::schedule::timetable::Occasion;
use crate::daemon::service::Service;

/// Due times that are shown.
const NEXT: usize = 3;

impl Service {
    /// All schedules of the configuration, in its order, each with its latest occurrences.
    pub fn schedules(&self) -> Vec<ScheduleStatus> {
        let config = self.config();
        config
            .schedules
            .iter()
            .map(|schedule| self.shown(&config, schedule))
            .collect()
    }

    /// All schedules, each with its latest occurrence alone.
    pub(in crate::daemon) fn schedules_in_brief(&self) -> Vec<ScheduleStatus> {
        let mut schedules = self.schedules();
        schedules
            .iter_mut()
            .for_each(|schedule| schedule.occasions.truncate(1));
        schedules
    }

    fn shown(&self, config: &Config, schedule: &Schedule) -> ScheduleStatus {
        self.settle_occasions(&schedule.name, schedule.window_s);
        let now_s = self.shared.clock.now_s();
        let coming = || {
            std::iter::successors(Some(schedule.every.next(now_s)), |due| {
                Some(schedule.every.next(*due))
            })
        };
        let runs_left = self.runs_paid_for(config, schedule, None);
        let last = runs_left.filter(|left| (1..1000).contains(left));
        let paid_until = last.and_then(|left| coming().nth(left as usize - 1));
        let forecast = self.shared.schedules.forecast(config, schedule);
        ScheduleStatus {
            name: schedule.name.clone(),
            every: schedule.every.to_string(),
            window_s: schedule.window_s,
            data_set: schedule.data_set.clone(),
            fresh_s: schedule.fresh_s,
            shows_rows: schedule.terms(&config.peers).asks_for_records().unwrap_or(false),
            run_sha256: hex(&schedule.run_digest),
            list_sha256: hex(&config.list_digest),
            next_ms: coming().take(NEXT).map(|due_s| 1000 * due_s).collect(),
            epsilon: forecast.and_then(|forecast| forecast.epsilon),
            runs_left,
            paid_until_ms: paid_until.map(|due_s| 1000 * due_s),
            occasions: self
                .shared
                .timetable
                .occasions(&schedule.name)
                .into_iter()
                .map(occasion)
                .collect(),
        }
    }
}

fn occasion(of: Occasion) -> OccasionStatus {
    OccasionStatus {
        due_ms: 1000 * of.due_s,
        attempt: of.attempt,
        digest: of.digest,
        proposer: of.proposer,
        members: of.members,
        absent: of.absent,
        attended: of.attended,
        outcome: of.outcome,
        reason: of.reason,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
