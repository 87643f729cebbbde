//! Starts of nodes that tests tell apart by a number.

use crate::messages::notice::{Incarnation, Notice};
use crate::sealing::run_key::{RunKey, incarnation};

/// The run key of a start.
pub(crate) fn run_key(start: u8) -> RunKey {
    RunKey::from_secret([start; 32])
}

/// The READY of a start, where START draws no schedule.
pub(crate) fn ready(start: u8) -> Notice {
    let (key, pair, records) = (*run_key(start).public(), None, None);
    Notice::Ready { key, pair, records }
}

/// Returns the incarnation that START names for a start.
pub(crate) fn started(start: u8) -> Incarnation {
    incarnation(run_key(start).public(), None, None)
}
