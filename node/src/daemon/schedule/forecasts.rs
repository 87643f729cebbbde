//! The cost of a schedule's next run, before there is a plan of it; and numbers that need not be
//! computed twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use undertone_accountant::losses::charge::Charge;

use crate::daemon::config::Config;
use crate::daemon::config::schedules::Schedule;
use crate::daemon::ledger::account::Protected;
use crate::daemon::schedule::file_stamp::FileStamp;

/// The cost of a run of everybody in the list.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Forecast {
    /// SHA-256 of the peer list and of the run file.
    pub(super) of: [[u8; 32]; 2],
    pub(in crate::daemon) charge: Charge,
    pub(in crate::daemon) protected: Protected,
    pub(in crate::daemon) epsilon: Option<f64>,
}

/// Forecasts and counts of schedules, by their names.
#[derive(Default)]
pub(in crate::daemon) struct Schedules {
    forecasts: Mutex<BTreeMap<String, Forecast>>,
    counted: Mutex<BTreeMap<String, (FileStamp, u32)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Schedules {
    /// The number of rows of a schedule's file, if it was counted.
    pub(super) fn counted(&self, schedule: &str, file: FileStamp) -> Option<u32> {
        let counted = locked(&self.counted);
        counted
            .get(schedule)
            .filter(|(of, _)| *of == file)
            .map(|(_, count)| *count)
    }

    pub(super) fn count(&self, schedule: &str, counted: (FileStamp, u32)) {
        locked(&self.counted).insert(schedule.to_owned(), counted);
    }

    /// Returns the cost of a run of this schedule, if it was computed for this list and run file.
    pub(in crate::daemon) fn forecast(&self, config: &Config, schedule: &Schedule) -> Option<Forecast> {
        let forecasts = locked(&self.forecasts);
        let forecast = forecasts.get(&schedule.name)?;
        (forecast.of == [config.list_digest, schedule.run_digest]).then(|| forecast.clone())
    }

    /// Takes what was computed.
    pub(super) fn foresee(&self, schedule: &str, forecast: Forecast) {
        locked(&self.forecasts).insert(schedule.to_owned(), forecast);
    }

    /// Forgets what is of no schedule any more.
    pub(super) fn keep(&self, config: &Config) {
        let is_named = |name: &String| config.schedules.iter().any(|schedule| schedule.name == *name);
        locked(&self.forecasts).retain(|name, _| is_named(name));
        locked(&self.counted).retain(|name, _| is_named(name));
    }
}
