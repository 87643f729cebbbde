//! How many runs there are at once.

/// Runs that are mixed at once, as the coordinates of one vector: a state stays within the
/// first-level cache.
pub(super) const BATCH: u64 = 2048;
