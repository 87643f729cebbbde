//! The run's clock as a number: it is handed in, never read.

use std::ops::{Add, Sub};

/// A moment, in nanoseconds since an origin that the driver chose (the start of its process, the
/// start of a simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The beginning of a run.
    pub const ZERO: Time = Time(0);
    /// Later than every moment of a run: "no deadline".
    pub const FAR: Time = Time(u64::MAX);

    /// The moment `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Time(nanoseconds)
    }

    /// The moment `milliseconds` after the origin.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Time(milliseconds.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The moment so many `milliseconds` later; saturates at [`Time::FAR`].
    pub const fn plus_millis(self, milliseconds: u64) -> Self {
        Time(self.0.saturating_add(milliseconds.saturating_mul(1_000_000)))
    }

    /// Nanoseconds from `earlier` to this moment, 0 if `earlier` is later.
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;
    /// The moment so many nanoseconds later; saturates.
    fn add(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

impl Sub for Time {
    type Output = u64;
    /// Nanoseconds between the two; 0 if `earlier` is later.
    fn sub(self, earlier: Time) -> u64 {
        self.since(earlier)
    }
}
