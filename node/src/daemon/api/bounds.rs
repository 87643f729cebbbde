//! Places for heavy work, and the pace of requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            heavy: Arc::new(Semaphore::new(HEAVY)),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            pace: Pace::new(Instant::now()),
        }
    }
}

/// Between two requests where they come faster than that for long. Runs have the machine first:
/// without it, 200 clients that asked as fast as they could made a run take 1.8 times as long (4
/// daemons, 100,000 coordinates, two cores).
const INTERVAL: Duration = Duration::from_millis(2);
/// Requests that need not wait after a quiet time.
const BURST: u32 = 100;

/// Lets requests through one after another (a leaky bucket).
#[derive(Debug)]
struct Pace {
    next: Mutex<Instant>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Pace {
            next: Mutex::new(now.checked_sub(INTERVAL * BURST).unwrap_or(now)),
        }
    }

    /// When a request that comes now has its turn. Nobody waits for long: each connection has one
    /// request at a time.
    fn turn(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*next).max(now.checked_sub(INTERVAL * BURST).unwrap_or(now));
        *next = turn + INTERVAL;
        turn
    }
}

impl Bounds {
    /// A place for an upload or a result: waited for, with no byte of the body read yet.
    pub(super) async fn heavy(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = tokio::time::timeout(PATIENCE, self.heavy.clone().acquire_owned()).await;
        place
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| busy(format!("{HEAVY} uploads and results are under way")))
    }

    /// Waits for the request's turn.
    pub(super) async fn turn(&self) {
        let now = Instant::now();
        let turn = self.pace.turn(now);
        if turn > now {
            tokio::time::sleep_until(turn).await;
        }
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
    use super::*;

    #[test]
    fn a_burst_goes_through_at_once_and_a_flood_one_by_one() {
        let begun = Instant::now() + Duration::from_secs(3600);
        let pace = Pace::new(begun);
        assert!((0..BURST).all(|_| pace.turn(begun) <= begun));
        let flood: Vec<Instant> = (0..50).map(|_| pace.turn(begun)).collect();
        assert_eq!(flood[0], begun);
        assert!(flood.windows(2).all(|pair| pair[1] - pair[0] == INTERVAL));
        // After a quiet hour there is one burst again, not an hour's worth.
        let later = begun + Duration::from_secs(3600);
        assert_eq!(
            (0..10 * BURST).filter(|_| pace.turn(later) <= later).count() as u32,
            BURST + 1
        );
    }
}
