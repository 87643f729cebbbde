//! The objects of the API: the status of the daemon and of its runs. No private value is in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::daemon::keys::store::RevokedKey;
use crate::daemon::rounds_desk::RoundPart;
use crate::daemon::run_seconds::RunSeconds;
use crate::daemon::schedule::schedule_status::ScheduleStatus;
use crate::party::silence::Silence;

/// Where a run is, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// An offer that was accepted: until enough members have accepted it and are up. Its budget is
    /// set aside; it can be withdrawn.
    Accepted,
    /// Until one of `max_runs` places is free.
    Waiting,
    /// It takes part, nothing private has left: it can be withdrawn.
    Gathering,
    /// The plan is spent.
    Running,
    /// It ended by itself: `outcome` and `exit_code` say how.
    Ended,
    /// The owner took the run back before its start, or the daemon ended before it.
    Withdrawn,
    /// The daemon ended or failed in the middle of it; it stays charged.
    Interrupted,
}

fn once() -> u64 {
    1
}

/// An earlier daemon's record does not say whose a result is: then it is its owner's.
fn owners() -> bool {
    true
}

impl RunState {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            RunState::Ended | RunState::Withdrawn | RunState::Interrupted
        )
    }
}

/// A run of this node. Times are milliseconds since 1970 (UTC).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunStatus {
    /// The plan's digest, in lower-case hex.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The plan's name.
    pub name: String,
    /// How far the run is.
    pub state: RunState,
    /// "gathering", "mixing", "settling", "publishing" or "done"; None while it waits.
    pub phase: Option<String>,
    /// The round that runs, from 1; None outside of mixing.
    pub round: Option<u32>,
    /// A training's iterations, or means in sequence, of which the sum is known.
    #[serde(default)]
    pub iteration: Option<u64>,
    /// Means in sequence: the round whose part this party's program is asked for, 0 before the
    /// first; None of other tasks, and of a run that an earlier daemon had.
    #[serde(default)]
    pub asked: Option<u32>,
    /// The fate of this party's part of that round.
    #[serde(default)]
    pub part: Option<RoundPart>,
    /// How many sums are released, each of which costs: 1, but in a training.
    #[serde(default = "once")]
    pub iterations: u64,
    /// Whether its result is its owner's alone: sums over neighbourhoods, which tell more together
    /// than each does. The API gives them to nobody on another machine.
    #[serde(default = "owners")]
    pub owners_alone: bool,
    /// Before the start: names of those who are waited for.
    #[serde(default)]
    pub waiting_for: Vec<String>,
    /// Names of the members that have accepted an offer and are up, this one last; empty for a
    /// plan that was submitted.
    #[serde(default)]
    pub accepted_by: Vec<String>,
    /// Until when an accepted offer waits for others.
    #[serde(default)]
    pub accept_until_ms: Option<u64>,
    /// μ² that is set aside for it and not charged; None if nothing is.
    #[serde(default)]
    pub reserved: Option<f64>,
    /// Names of the members without which the run started.
    #[serde(default)]
    pub without: Vec<String>,
    /// Names of neighbours that this node lost in the run, and that have not come back.
    #[serde(default)]
    pub unreachable: Vec<String>,
    /// The plan's number of rounds, T.
    pub rounds: u32,
    /// The plan's number of parties, n.
    pub parties: usize,
    /// Coordinates of the vector, d.
    pub dimension: usize,
    /// Whose change is protected: "party" or "record".
    pub unit: String,
    /// The data set that it is charged to.
    pub data_set: Option<String>,
    /// Who proposed it, if it came as an offer.
    pub proposer: Option<String>,
    /// The occurrence of a schedule that it is an attempt at, as 64 hex digits; None of another
    /// run.
    #[serde(default)]
    pub occurrence: Option<String>,
    /// Which attempt, from 0.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// When the run was taken.
    pub submitted_ms: u64,
    /// When it got its place.
    pub started_ms: Option<u64>,
    /// When the run ended.
    pub ended_ms: Option<u64>,
    /// ε of the plan's claims.
    pub epsilon_claimed: Option<f64>,
    /// δ of the plan.
    pub delta: f64,
    /// ε as it turned out; None before the end, if nothing left, and if `unbounded`.
    pub epsilon: Option<f64>,
    /// Whether the loss as it turned out is infinite.
    pub unbounded: bool,
    /// μ² that the ledger has for it, None if nothing was charged.
    pub charged: Option<f64>,
    /// "done", "degraded", "aborted", "withheld"; None before the end.
    pub outcome: Option<String>,
    /// Why there is no mean, or one of lower quality.
    pub reason: Option<String>,
    /// What `undertone join` would exit with; None before the end.
    pub exit_code: Option<i32>,
    /// Rounds to which this party contributed nothing, although it took part.
    #[serde(flatten)]
    pub silence: Silence,
    /// Names whose finals were summed.
    pub included: Vec<String>,
    /// Names of those of them who were gone, and whose sealed final others opened.
    #[serde(default)]
    pub opened_for: Vec<String>,
    /// Standard error of the mean, per coordinate, of noise only.
    pub standard_error: Option<f64>,
    /// What a mean can be and what the noise is, in a sentence: as the plan expects it, and once
    /// there is a mean, as it is.
    #[serde(default)]
    pub utility: Option<String>,
    /// Bytes sent on the private graph.
    pub private_bytes: u64,
    /// Bytes sent on the public graph.
    pub public_bytes: u64,
}

/// The fate of an offered plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OfferState {
    /// It waits for `undertone accept DIGEST --input X`.
    Open,
    /// It is a run now.
    Accepted,
    /// The operator of this node said no.
    Declined,
    /// Its time is over: nobody here answered, or too few members accepted it.
    Expired,
}

/// A plan that somebody proposes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Offer)]
pub struct OfferStatus {
    /// The plan's digest, in lower-case hex.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The plan's name.
    pub name: String,
    /// The proposer's name in the peer list.
    pub proposer: String,
    /// The fate of the offer.
    pub state: OfferState,
    /// Why it was not accepted unasked.
    pub reason: Option<String>,
    /// The plan's number of parties, n.
    pub parties: usize,
    /// Coordinates of the vector, d.
    pub dimension: usize,
    /// Whose change is protected: "party" or "record".
    pub unit: String,
    /// ε of its claims.
    pub epsilon_claimed: Option<f64>,
    /// δ of the plan.
    pub delta: f64,
    /// When it came, in milliseconds since 1970 (UTC).
    pub received_ms: u64,
    /// When it is of no use any more: so long after it came as the plan's `accept_by` says, or its
    /// `join_ms` where it does not.
    #[serde(default)]
    pub expires_ms: u64,
}

/// Whether a peer answers on one graph: the listed identity, in our protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reachability {
    /// As the peer list has it.
    pub address: String,
    /// None: not looked at yet.
    pub reachable: Option<bool>,
    /// Why it is not: nobody is there, somebody else is, or it speaks otherwise.
    #[serde(default)]
    pub problem: Option<String>,
    /// The name of the relay over which it answers; None: it does so directly, or not at all.
    #[serde(default)]
    pub relay: Option<String>,
}

/// A peer of the peer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Peer)]
pub struct PeerStatus {
    /// The peer's name in the list.
    pub name: String,
    /// The peer's id in libp2p.
    pub id: String,
    /// Whether it answers on the private graph.
    pub private: Reachability,
    /// Whether it answers on the public graph.
    pub public: Reachability,
    /// Whether its peer list is the same as this node's, to the last byte; None: it did not say.
    /// Schedules of different lists do not meet.
    pub same_list: Option<bool>,
}

/// What a data set has spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Budget)]
pub struct BudgetStatus {
    /// The data set's name.
    pub data_set: String,
    /// Whose change the budget counts: "party" or "record".
    pub unit: String,
    /// ε that it may cost in total.
    pub epsilon: f64,
    /// δ of the total.
    pub delta: f64,
    /// ε that is spent, at that δ and with all that counts in it; None if unbounded.
    pub epsilon_spent: Option<f64>,
    /// Σ μ² that is spent; None if unbounded.
    pub mu_squared: Option<f64>,
    /// The chance that some draw of a schedule, of those that its runs may have tried, hides
    /// nothing.
    #[serde(default)]
    pub draw: f64,
    /// How far, in total variation, the noise of its runs may be from what their claims are about.
    #[serde(default)]
    pub distance: f64,
    /// Σ μ² of runs that were taken and have not begun.
    pub reserved_mu_squared: f64,
    /// Runs that are charged.
    pub runs: usize,
    /// How many more runs that each cost as much as the latest one may be taken, 1,000 at most; of
    /// one that goes on all that is set aside for it counts. None where none has cost anything.
    #[serde(default)]
    pub runs_left: Option<u64>,
    /// Since when charges may be missing, after a restore; None where the data set takes runs. It
    /// stays closed until its operator has said that nothing is missing.
    #[serde(default)]
    pub closed_since: Option<String>,
}

/// What `GET /v1/status` answers: the daemon with all that it knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// This party's name.
    pub party: String,
    /// This party's peer id in libp2p.
    pub id: String,
    /// Seconds since the daemon began.
    pub uptime_s: f64,
    /// Where it listens on the private graph.
    pub private: String,
    /// Where it listens on the public graph.
    pub public: String,
    /// The folder on its machine to which it copies means and receipts, each run's to a folder that
    /// has the digest as its name; None if it keeps them to itself.
    #[serde(default)]
    pub output: Option<String>,
    /// Everybody else in the peer list.
    pub peers: Vec<PeerStatus>,
    /// All runs that it remembers, the newest first.
    pub runs: Vec<RunStatus>,
    /// All offers, the newest first.
    pub offers: Vec<OfferStatus>,
    /// What the data sets have spent.
    pub budgets: Vec<BudgetStatus>,
    /// The schedules, each with its latest occurrence alone: `GET /v1/schedules` has more.
    #[serde(default)]
    pub schedules: Vec<ScheduleStatus>,
    /// Keys that were revoked, for as long as the daemon holds the statements: for ever.
    #[serde(default)]
    pub revoked: Vec<RevokedKey>,
}

/// What `GET /readyz` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether a run can be taken.
    pub ready: bool,
    /// What keeps it from that, in sentences.
    pub problems: Vec<String>,
    /// Files of the state folder that are not what was written, and are not served: which, and
    /// what is wrong with each. Runs are taken all the same.
    pub damaged: Vec<String>,
    /// Data sets that a restore has closed: runs of these are refused until `undertone ledger
    /// adopt` opens them. Others are taken.
    #[serde(default)]
    pub closed: Vec<String>,
}

/// The counters behind `GET /metrics`. They count since the daemon began.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Seconds since the daemon began.
    pub uptime_s: f64,
    /// Processor seconds, where the system tells.
    pub cpu_s: Option<f64>,
    /// Resident memory in bytes, where the system tells.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors, where the system tells.
    pub open_files: Option<u64>,
    /// Runs that wait for a place.
    pub runs_waiting: u64,
    /// Runs that take part now.
    pub runs_active: u64,
    /// Runs that were taken.
    pub runs_submitted: u64,
    /// Submissions that were refused.
    pub submissions_refused: u64,
    /// Ended runs by outcome: ("done", 3), …
    pub runs_ended: Vec<(&'static str, u64)>,
    /// Plans that others offered.
    pub offers_received: u64,
    /// How often the configuration was read again, by what came of it.
    pub reloads: [(&'static str, u64); 2],
    /// Bytes sent on the private graph by runs that ended.
    pub private_bytes: u64,
    /// Bytes sent on the public graph by runs that ended.
    pub public_bytes: u64,
    /// Peers in the list, this node apart.
    pub peers: u64,
    /// Peers that answer on the private graph, of those that were looked at.
    pub peers_private: u64,
    /// Peers that answer on the public graph, of those that were looked at.
    pub peers_public: u64,
    /// Bytes that listed peers have sent to this node as their relay; `None`: it is none.
    pub relayed_bytes: Option<u64>,
    /// Keys that were revoked.
    pub revoked_keys: u64,
    /// What the data sets have spent.
    pub budgets: Vec<BudgetStatus>,
    /// The schedules.
    pub schedules: Vec<ScheduleStatus>,
    /// Occurrences of schedules that are over: those that had a run, and those that were missed.
    pub occurrences: [(&'static str, u64); 2],
    /// How long runs took, by outcome.
    pub(super) run_seconds: Option<RunSeconds>,
}
