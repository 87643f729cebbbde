//! Runs by number, and how many of their parties may be killed.

use crate::telling::failure::Failure;

/// Refuses so many kills that nobody could publish anything.
pub(super) fn check_kills(kills: usize, parties: usize) -> Result<(), Failure> {
    if kills + 2 > parties {
        return Err(Failure::usage("--kills leaves fewer than two parties").field("--kills"));
    }
    Ok(())
}

/// Another seed for each run.
pub(super) fn seed_of_run(seed: u64, number: u64) -> u64 {
    seed.wrapping_mul(1_000_003).wrapping_add(number)
}
