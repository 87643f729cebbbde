//! The clock that a run goes by.

use std::time::{Duration, Instant};

use undertone_protocol::time::Time;

/// Time since a run began here. Time that the machine was suspended counts: the others may have
/// gone on meanwhile, and a node that does not see that it slept would seal its vector for nobody.
pub(super) struct RunClock {
    begun: Duration,
}

/// Returns the time on the system's clock that goes on while the machine is suspended.
#[cfg(target_os = "linux")]
fn shown() -> Duration {
    let shown = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = Duration::try_from(shown);
    since_boot.unwrap_or_default()
}

/// Returns the time on the system's clock that nobody sets.
#[cfg(not(target_os = "linux"))]
fn shown() -> Duration {
    use std::sync::OnceLock;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

impl RunClock {
    /// It starts now.
    pub(super) fn start() -> Self {
        RunClock { begun: shown() }
    }

    /// Returns the time since the run began.
    pub(super) fn now(&self) -> Time {
        Time::from_nanos(shown().saturating_sub(self.begun).as_nanos() as u64)
    }

    /// The moment for a timer at which it will show this, if the machine is not suspended before.
    pub(super) fn when(&self, shown: Time) -> Instant {
        let left = shown.since(self.now());
        Instant::now() + Duration::from_nanos(left.min(u64::MAX / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_shows_what_the_timers_wait_for() {
        let clock = RunClock::start();
        let before = Instant::now();
        let shown = clock.now();
        assert!(shown < Time::from_millis(60_000), "it begins at 0: {shown:?}");
        let wake = clock.when(shown.plus_millis(5000));
        assert!(wake <= before + Duration::from_millis(5000) + before.elapsed());
        assert!(wake > before, "it is to come");
        assert!(
            clock.when(Time::ZERO) <= Instant::now(),
            "what is over is due now"
        );
        assert!(clock.when(Time::FAR) > before + Duration::from_secs(1 << 30));
        assert!(clock.now() >= shown, "it never runs backwards");
    }
}
