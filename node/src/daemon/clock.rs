//! The clock that schedules go by: an argument of the daemon, so that a test can move it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::daemon::ledger::now_ms;

/// The longest time between two looks at the system's clock: it may be set, and a machine may
/// sleep.
const LOOK: Duration = Duration::from_secs(30);

/// Between two looks at a clock that somebody moves.
const LOOK_AT_MOVED: Duration = Duration::from_millis(5);

/// Tells the time, in UTC.
#[derive(Clone)]
pub struct Clock {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    look: Duration,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({} ms)", self.now_ms())
    }
}

impl Clock {
    /// The machine's own.
    pub fn system() -> Self {
        Clock {
            now_ms: Arc::new(now_ms),
            look: LOOK,
        }
    }

    /// One that somebody moves: `now_ms` gives milliseconds since 1970.
    pub fn moved(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock {
            now_ms: Arc::new(now_ms),
            look: LOOK_AT_MOVED,
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    /// Whole seconds since 1970.
    pub fn now_s(&self) -> u64 {
        self.now_ms() / 1000
    }

    /// Waits until this moment, in milliseconds since 1970. Returns before it once the clock is set
    /// back: the moment may have been chosen by a wrong one, so callers look again.
    pub(super) async fn until(&self, ms: u64) {
        let mut last = self.now_ms();
        loop {
            let now = self.now_ms();
            let left = ms.saturating_sub(now);
            if left == 0 || now < last {
                return;
            }
            last = now;
            sleep(Duration::from_millis(left).min(self.look)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_clock_that_is_set_back_ends_the_wait_and_one_that_goes_on_does_not() {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let shown = now.clone();
        let (looked, mut looks) = watch::channel(());
        let clock = Clock::moved(move || {
            looked.send_replace(());
            shown.load(Ordering::SeqCst)
        });
        let waiting = tokio::spawn(async move { clock.until(2_000_000).await });
        looks.changed().await.expect("it waits");
        now.store(1_500_000, Ordering::SeqCst);
        for _ in 0..3 {
            looks.changed().await.expect("it waits still");
        }
        now.store(0, Ordering::SeqCst);
        timeout(Duration::from_secs(10), waiting)
            .await
            .expect("it returns")
            .unwrap();
    }
}
