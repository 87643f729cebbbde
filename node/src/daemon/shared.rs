//! The state that the service and its runs share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::daemon::clock::Clock;
use crate::daemon::config::Config;
use crate::daemon::counters::Counters;
use crate::daemon::handed_in::HandedIn;
use crate::daemon::keys::store::Keys;
use crate::daemon::ledger::Ledger;
use crate::daemon::offers::Offers;
use crate::daemon::peers::Peers;
use crate::daemon::receipts::Receipts;
use crate::daemon::runs::Runs;
use crate::daemon::schedule::forecasts::Schedules;
use crate::daemon::schedule::timetable::Timetable;
use crate::daemon::state::State;
use crate::network::hub::Hub;
use crate::party::spent::KeyLock;

/// One daemon's state, which the service, its runs and its answers to others hold together.
pub(super) struct Shared {
    /// As it was loaded last; see [`Shared::config`].
    pub(super) rules: RwLock<Arc<Config>>,
    pub(super) state: State,
    /// Nobody else takes part with this key.
    pub(super) _key: KeyLock,
    pub(super) hub: Hub,
    /// Places for runs that take part: `max_runs` of them.
    pub(super) places: Arc<Semaphore>,
    pub(super) counters: Counters,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) runs: Runs,
    pub(super) receipts: Receipts,
    pub(super) offers: Offers,
    pub(super) handed_in: HandedIn,
    pub(super) keys: Keys,
    /// There are statements, or peers, that others may not have heard of.
    pub(super) keys_news: watch::Sender<()>,
    pub(super) peers: Peers,
    /// Plans are calibrated and verified one at a time: it takes all cores for a while.
    pub(super) checking: Semaphore,
    /// One result at a time is read from other members.
    pub(super) reading: tokio::sync::Mutex<()>,
    pub(super) tasks: Mutex<JoinSet<()>>,
    pub(super) stopping: watch::Sender<bool>,
    pub(super) begun: Instant,
    /// The clock that schedules go by.
    pub(super) clock: Clock,
    pub(super) timetable: Timetable,
    pub(super) schedules: Schedules,
}

impl Shared {
    /// The configuration as it is in force now. Whoever asks twice may get two.
    pub(super) fn config(&self) -> Arc<Config> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
