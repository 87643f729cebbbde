//! The objects of the API that show schedules. No private value is in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A run that this node's group makes by itself. Times are milliseconds since 1970 (UTC).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedule)]
pub struct ScheduleStatus {
    /// The name that this node has for it.
    pub name: String,
    /// When it is due, in UTC, as the configuration says.
    pub every: String,
    /// How long an occurrence is tried, in seconds.
    pub window_s: u64,
    /// The data set that pays, and whose file is contributed.
    pub data_set: String,
    /// How old that file may be, in seconds; None: of any age.
    pub fresh_s: Option<u64>,
    /// Whether all members of a run learn how many rows each of them has, at every run.
    #[serde(default)]
    pub shows_rows: bool,
    /// SHA-256 of the run file: the same at all members.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub run_sha256: String,
    /// SHA-256 of the peer list: the same at all members.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub list_sha256: String,
    /// The next three times at which it is due.
    pub next_ms: Vec<u64>,
    /// ε that a run of everybody claims; None while that is computed, or where no plan can be made.
    pub epsilon: Option<f64>,
    /// How many more runs the budget pays for, 1,000 at most; None while that is computed, or where
    /// nothing limits it.
    pub runs_left: Option<u64>,
    /// When the last one of these is due; None where there are none, or 1,000.
    pub paid_until_ms: Option<u64>,
    /// Its latest occurrences, the newest first.
    pub occasions: Vec<OccasionStatus>,
}

/// One time at which a schedule was due, as this node saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Occasion)]
pub struct OccasionStatus {
    /// When it was due, in milliseconds since 1970 (UTC).
    pub due_ms: u64,
    /// The latest attempt that this node took an offer of, from 0; None: none.
    pub attempt: Option<u32>,
    /// That attempt's plan.
    pub digest: Option<String>,
    /// The name of who proposed it.
    pub proposer: Option<String>,
    /// Names of who is in the plan.
    pub members: Vec<String>,
    /// Names of who is in the peer list and not in the plan.
    pub absent: Vec<String>,
    /// Where this node proposed it: names of who said that they attend.
    pub attended: Vec<String>,
    /// "done", "degraded", "withheld", "interrupted", …; "missed" where there was no run; None
    /// while it goes on.
    pub outcome: Option<String>,
    /// Why there is no result, or why this node is not in it.
    pub reason: Option<String>,
}
