//! What will be said of a run at its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::messages::log::{AgreedLogs, Log};
use crate::mixing::exchange::Tally;
use crate::publishing::opening::Unopened;
use crate::run::outcome::{GateVerdict, SealedFinal};
use crate::time::Time;
use crate::topology::party::Party;

/// What is known of the outcome so far.
#[derive(Default)]
pub(super) struct Record {
    pub(super) started: BTreeSet<Party>,
    pub(super) started_at: Option<Time>,
    /// The number of the START that this node has begun with.
    pub(super) start_number: u8,
    pub(super) logs: Option<Arc<AgreedLogs>>,
    pub(super) own_log: Option<Log>,
    pub(super) verdict: Option<GateVerdict>,
    pub(super) withheld: Option<String>,
    pub(super) tally: Tally,
    pub(super) received: usize,
    pub(super) sealed: Option<SealedFinal>,
    pub(super) opened_for: Vec<Party>,
    pub(super) unopened: Vec<Unopened>,
    pub(super) out_of_range: bool,
    pub(super) finished: bool,
    /// Until when it waits for its neighbours to end, once it has itself.
    pub(super) stays_until: Option<Time>,
    pub(super) complete: bool,
}
