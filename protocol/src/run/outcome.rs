//! The end of a run, and what happened on the way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::messages::log::{AgreedLogs, Log};
use crate::messages::stage::Phase;
use crate::mixing::exchange::Tally;
use crate::plan::checked::{Plan, RecordsAtStart};
use crate::publishing::opening::Unopened;
use crate::publishing::result::{Accuracy, Sum};
use crate::time::Time;
use crate::topology::party::Party;

/// The gate's verdict on the logs of an agreed set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateVerdict {
    /// The parties that may publish; `None`: everybody withholds. A function of the logs alone.
    pub publish: Option<BTreeSet<Party>>,
    /// The reason why somebody withholds, in a sentence.
    pub reason: String,
}

/// The ending of a run for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The finals of all parties of the plan were summed, and that set is agreed.
    Done,
    /// The result lacks somebody of the plan, or the set is not agreed.
    Degraded,
    /// Nothing private has left this node.
    Aborted {
        /// The reason.
        reason: String,
    },
    /// The plan was spent before, or could not be marked as spent. Nothing private has left.
    Spent {
        /// The reason.
        reason: String,
    },
    /// This node published no final.
    Withheld {
        /// The reason.
        reason: String,
    },
}

/// The fate of this node's sealed final, as far as it knows: what its run has cost follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedFinal {
    /// The final stays closed: nobody opens it, and nothing of this node's value is revealed.
    Closed,
    /// This node could read no result, and others may have: somebody's secret is lacking here, or
    /// no agreed set was seen in time.
    Unknown,
    /// The final is opened, in the agreed set.
    Opened,
}

/// The end of a run. It prints no values.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The ending.
    pub ending: Ending,
    /// S: who began; empty if this node did not.
    pub started: BTreeSet<Party>,
    /// The moment when this node held every START.
    pub started_at: Option<Time>,
    /// The seed of the schedule, if START drew it: see
    /// [`Plan::with_draw`](crate::plan::checked::Plan::with_draw).
    pub schedule_seed: Option<u64>,
    /// The number of records of each party of START, where the plan has only bounds; else empty.
    pub records: RecordsAtStart,
    /// The agreed logs L, if there are any and this node holds them.
    pub logs: Option<Arc<AgreedLogs>>,
    /// This node's own log, if it signed one.
    pub own_log: Option<Log>,
    /// The gate's verdict on L.
    pub verdict: Option<GateVerdict>,
    /// The parties whose finals were summed.
    pub included: BTreeSet<Party>,
    /// Whether enough members signed that set; with averaging also whether by their sums a quorum
    /// holds this mean; of a training only if this node followed it to its last iteration, for the
    /// others may have gone on without it.
    pub agreed: bool,
    /// The sum of these finals and of their weights.
    pub sum: Option<Sum>,
    /// The known error of `sum`, with `dissemination = "consensus"`. `None` for a flood, whose sums
    /// are exact.
    pub accuracy: Option<Accuracy>,
    /// The fate of this node's final, where finals are sealed. `None` where they are not, and where
    /// this node never sealed one.
    pub sealed: Option<SealedFinal>,
    /// Members of the opened set whose own word did not come, and whose secret others made known,
    /// ascending.
    pub opened_for: Vec<Party>,
    /// Members of the agreed set whose secret nobody here knows, so that nothing was opened here.
    pub unopened: Vec<Unopened>,
    /// The sum of residues is further out than values and noise can be: everybody sees that alike.
    pub out_of_range: bool,
    /// This node's own shares.
    pub tally: Tally,
    /// The outcome of a training; `None` of any other task.
    pub training: Option<TrainingOutcome>,
    /// The outcome of gossip at this node; `None` of any other mechanism. It prints no values.
    pub gossip: Option<Box<GossipOutcome>>,
}

/// The outcome of gossip at one node: others have other estimates.
#[derive(Clone, PartialEq)]
pub struct GossipOutcome {
    /// Rounds that were ended.
    pub rounds: u32,
    /// Releases of this node that have left.
    pub spent: u32,
    /// The parties whose messages were due here and did not come in time.
    pub missed: BTreeMap<Party, MissedMessages>,
    /// The reason why gossip ended before its last round.
    pub stopped: Option<String>,
    /// This node's estimates in the data's unit, one row after the other: of a stream one for each
    /// round that was ended, of the means of all releases so far, added up; of one value one. For
    /// this node's owner alone.
    pub estimates: Vec<f64>,
}

impl fmt::Debug for GossipOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GossipOutcome({} rounds, missed {:?})",
            self.rounds, self.missed
        )
    }
}

/// Messages of one neighbour that did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedMessages {
    /// The first round in which one was missing.
    pub first: u32,
    /// The number of rounds in which one was.
    pub count: u32,
}

/// The outcome of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingOutcome {
    /// Iterations that are over, those that were rejected or not opened included.
    pub iterations: u64,
    /// The number of times that noise was precomputed: 0 where it is not.
    pub mixings: u32,
    /// Iterations that have cost this node's data: its sealed contribution may have been opened.
    pub spent: u64,
    /// Iterations that somebody departed in, whose masks were taken out.
    pub corrected: Vec<u64>,
    /// Iterations whose sum was further out than contributions and noise can be: the model, or the
    /// latest mean, stayed.
    pub rejected: Vec<u64>,
    /// Iterations that were not opened, each with those whose secrets were lacking: they cost what
    /// any other does, the model, or the latest mean, stayed, and what came after is without them.
    pub unopened: BTreeMap<u64, Vec<Party>>,
    /// The parties that departed, each with the first iteration that is without it.
    pub departed: BTreeMap<Party, u64>,
    /// The reason why the training ended before its last iteration.
    pub stopped: Option<String>,
    /// A model: the mean of the last iterates; of means in sequence the last one. `None` if no sum
    /// was opened. Public.
    pub result: Option<Vec<f64>>,
}

impl Outcome {
    /// The plan as it was run: with the schedule that START drew and the numbers of records that it
    /// fixed, where it did.
    pub fn plan<'a>(&self, plan: &'a Plan) -> Cow<'a, Plan> {
        match (self.schedule_seed, self.records.is_empty()) {
            (None, true) => Cow::Borrowed(plan),
            (None, false) => Cow::Owned(plan.with_records(&self.records)),
            (Some(seed), _) => Cow::Owned(plan.with_draw(seed).with_records(&self.records)),
        }
    }
}

/// An event for a person to read. It has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A phase begins.
    Phase(Phase),
    /// The number of parties that are ready.
    Ready(usize),
    /// Before START: these are waited for; after this node has signed it: for their START.
    Awaiting(Vec<Party>),
    /// This node has signed a START: others may begin by it.
    Signed,
    /// This node has given up the START that it signed, since these have not signed the same:
    /// others go on without them.
    GivenUp(Vec<Party>),
    /// The parties that have signed a START without this party: the others begin without it.
    LeftOut(Vec<Party>),
    /// A round begins.
    Round(u32),
    /// This node's final has left, sealed: so many bytes of it.
    Sealed(u64),
    /// The sum of this iteration of a training is open here, and the next model is known.
    Iteration(u64),
    /// The agreed logs of a round of circles let these through: their sums are opened, or nobody's.
    Closed {
        /// The round.
        round: u32,
        /// The set of the round, ascending.
        set: Vec<Party>,
    },
    /// The agreed set is open here; for these others made their secret known, ascending.
    Opened(Vec<Party>),
    /// Something went wrong.
    Fault(String),
    /// A peer sent what it may not send; it was ignored.
    Offence {
        /// The peer that sent it.
        peer: Party,
        /// The text of the fault.
        text: String,
    },
    /// Each public neighbour has ended as well, or is gone, or was waited for long enough: nobody
    /// needs this node any more.
    Complete,
}

/// The progress of sealed finals that travel in slices, at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceProgress {
    /// The finals that are placed, of all members'.
    Placing(usize, usize),
    /// The sums of slices that are here, of all.
    AddingUp(usize, usize),
}

impl fmt::Display for SliceProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SliceProgress::Placing(placed, of) => write!(f, "placing {placed} of {of} finals"),
            SliceProgress::AddingUp(here, of) => write!(f, "adding up, {here} of {of} sums here"),
        }
    }
}

/// The stage that a run is in, for a progress line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// READYs held.
    pub ready: usize,
    /// The round that runs, T + 1 after the last, 0 before the first.
    pub round: u32,
    /// This node's own shares so far.
    pub tally: Tally,
    /// Shares that this node accepted.
    pub received: usize,
}
