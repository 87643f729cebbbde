//! Places for heavy work, and the pace of requests.
//!
//! Why these are not tower's `ConcurrencyLimit` and `RateLimit`: a place here is one of uploads and
//! results together, and is kept until the last byte of an answer was taken, where tower's is free
//! once the answer's head is there; a wait that is too long is refused. And tower's rate is of
//! one client's calls in fixed spans of time; here all connections wait in one line, and who leaves
//! it has taken no turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::daemon::api::problem::Problem;
use crate::daemon::refusal::{Kind, Refusal};

/// Uploads and results under way at once: each may hold a vector in memory or on disk.
const HEAVY: usize = 8;
/// Watchers of events at once. Each holds a connection for as long as its run lasts.
const WATCHERS: usize = 128;
/// How long an upload or a result waits for its place.
const PATIENCE: Duration = Duration::from_secs(30);

/// Places for what takes memory or time.
#[derive(Debug)]
pub(super) struct Bounds {
    heavy: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    pace: Pace,
    readers: Pace,
    strangers: Pace,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            heavy: Arc::new(Semaphore::new(HEAVY)),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            pace: Pace::new(Instant::now()),
            readers: Pace::new(Instant::now()),
            strangers: Pace::new(Instant::now()),
        }
    }
}

/// Between two requests where they come faster than that for long. Runs have the machine first:
/// without it, 200 clients that asked as fast as they could made a run take 1.8 times as long (4
/// daemons, 100,000 coordinates, two cores).
const INTERVAL: Duration = Duration::from_millis(2);
/// Requests that need not wait after a quiet time.
const BURST: u32 = 100;

/// Lets requests through one after another, in the order in which they came (a leaky bucket). Who
/// goes away while it waits has taken no turn, so that no debt can pile up.
#[derive(Debug)]
struct Pace {
    next: Mutex<Instant>,
    interval: Duration,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Pace {
            next: Mutex::new(earliest(now)),
            interval: INTERVAL,
        }
    }

    async fn turn(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        let turn = turn(*next, now);
        if turn > now {
            tokio::time::sleep_until(turn).await;
        }
        *next = turn + self.interval;
    }
}

/// The turn of who is next in line.
fn turn(next: Instant, now: Instant) -> Instant {
    next.max(earliest(now))
}

/// After a quiet time there is one burst, not all that was not used.
fn earliest(now: Instant) -> Instant {
    now.checked_sub(INTERVAL * BURST).unwrap_or(now)
}

impl Bounds {
    /// Bounds of places alone: no request waits for its turn.
    pub(super) fn without_pace() -> Self {
        let at_once = || Pace {
            interval: Duration::ZERO,
            ..Pace::new(Instant::now())
        };
        Bounds {
            pace: at_once(),
            readers: at_once(),
            strangers: at_once(),
            ..Bounds::default()
        }
    }

    /// A place for an upload or a result: waited for, with no byte of the body read yet.
    pub(super) async fn heavy(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = tokio::time::timeout(PATIENCE, self.heavy.clone().acquire_owned()).await;
        place
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| busy(format!("{HEAVY} uploads and results are under way")))
    }

    /// Waits for the turn of a request with the token.
    pub(super) async fn turn(&self) {
        self.pace.turn().await;
    }

    /// Waits for the turn of a request with the token that may only read.
    pub(super) async fn readers_turn(&self) {
        self.readers.turn().await;
    }

    /// Waits for the turn of a request without it.
    pub(super) async fn strangers_turn(&self) {
        self.strangers.turn().await;
    }

    /// A place for a watcher, at once or not at all.
    pub(super) fn watcher(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.watchers
            .clone()
            .try_acquire_owned()
            .map_err(|_| busy(format!("{WATCHERS} watch events already")))
    }
}

fn busy(what: String) -> Problem {
    Problem::from(Refusal::new(Kind::Unavailable, what)).hint("try again in a moment")
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_burst_goes_through_at_once_and_a_flood_one_by_one() {
        let begun = Instant::now() + Duration::from_secs(3600);
        let mut next = earliest(begun);
        let mut come = |now: Instant| {
            let turn = turn(next, now);
            next = turn + INTERVAL;
            turn
        };
        assert!((0..BURST).all(|_| come(begun) <= begun));
        let flood: Vec<Instant> = (0..50).map(|_| come(begun)).collect();
        assert_eq!(flood[0], begun);
        assert!(flood.windows(2).all(|pair| pair[1] - pair[0] == INTERVAL));
        // After a quiet hour there is one burst again, not an hour's utility.
        let later = begun + Duration::from_secs(3600);
        let at_once = (0..10 * BURST).filter(|_| come(later) <= later).count() as u32;
        assert_eq!(at_once, BURST + 1);
    }

    #[tokio::test]
    async fn who_goes_away_takes_no_turn() {
        let later = Instant::now() + Duration::from_secs(3600);
        let pace = Pace::new(later + INTERVAL * BURST);
        assert!((0..10_000).all(|_| pace.turn().now_or_never().is_none()));
        assert_eq!(*pace.next.lock().await, later);
    }
}
