//! How a run ended, and what happened on the way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Accuracy;
use crate::exchange::Tally;
use crate::lattice::{Lattice, LatticeVector, LatticeWeight};
use crate::log::{AgreedLogs, Log};
use crate::message::Phase;
use crate::mixing::{Party, Share};
use crate::payload::{Coefficient, Payload, Ratio};
use crate::plan::Plan;
use crate::time::Time;

/// What the gate says about the logs of an agreed set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateVerdict {
    /// Who may publish; none: everybody withholds. A function of the logs alone.
    pub publish: Option<BTreeSet<Party>>,
    /// Why somebody withholds, in a sentence.
    pub reason: String,
}

/// How a run ended for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The finals of all parties of the plan were summed, and that set is agreed.
    Done,
    /// Somebody of the plan is missing, or the set is not agreed.
    Degraded,
    /// Nothing private has left this node.
    Aborted {
        /// Why.
        reason: String,
    },
    /// The plan was spent before, or could not be marked as spent. Nothing private has left.
    Spent {
        /// Why.
        reason: String,
    },
    /// This node published no final.
    Withheld {
        /// Why.
        reason: String,
    },
}

/// The end of a run. It prints no values.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How.
    pub ending: Ending,
    /// S: who began; empty if this node did not.
    pub started: BTreeSet<Party>,
    /// When this node held every START.
    pub started_at: Option<Time>,
    /// The seed of the schedule, if START drew it: see [`Plan::with_draw`](crate::plan::Plan::with_draw).
    pub schedule_seed: Option<u64>,
    /// The agreed logs L, if there are any and this node holds them.
    pub logs: Option<Arc<AgreedLogs>>,
    /// This node's own log, if it signed one.
    pub own_log: Option<Log>,
    /// What the gate said about L.
    pub verdict: Option<GateVerdict>,
    /// Whose finals were summed.
    pub included: BTreeSet<Party>,
    /// Whether enough members signed that set; with averaging also whether by their sums a quorum holds this mean.
    pub agreed: bool,
    /// The sum of these finals and of their weights.
    pub sum: Option<Sum>,
    /// With `dissemination = "consensus"`: what `sum` is known to be off by. None for a flood, whose sums are exact.
    pub accuracy: Option<Accuracy>,
    /// This node's own shares.
    pub tally: Tally,
}

impl Outcome {
    /// The plan as it was run: with the schedule that START drew, where it did.
    pub fn plan<'a>(&self, plan: &'a Plan) -> Cow<'a, Plan> {
        match self.schedule_seed {
            Some(seed) => Cow::Owned(plan.with_draw(seed)),
            None => Cow::Borrowed(plan),
        }
    }
}

/// A sum of finals: public.
#[derive(Clone)]
pub struct Sum {
    /// Of the states.
    pub value: LatticeVector,
    /// Of the weights.
    pub weight: LatticeWeight,
}

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Sum({} coordinates, weight {})",
            self.value.len(),
            self.weight.0
        )
    }
}

impl Sum {
    /// Of these finals; none for no final.
    pub(crate) fn of(lattice: &Lattice, finals: &[Share<LatticeVector, LatticeWeight>]) -> Option<Self> {
        let mut value = LatticeVector::zero_like(&finals.first()?.value);
        value.add_multiples(
            &finals
                .iter()
                .map(|last| (Ratio::one(), &last.value))
                .collect::<Vec<_>>(),
        );
        Some(Sum {
            value: lattice.sum(value),
            weight: LatticeWeight(finals.iter().map(|last| last.weight.0).sum()),
        })
    }
}

/// Something worth telling a person. No values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A phase begins.
    Phase(Phase),
    /// So many parties are ready.
    Ready(usize),
    /// A round begins.
    Round(u32),
    /// Something went wrong.
    Fault(String),
    /// A peer sent what it may not send; it was ignored.
    Offence {
        /// Who sent it.
        peer: Party,
        /// What.
        text: String,
    },
    /// Everybody who publishes and is not gone has signed the second set: nobody needs this node any more.
    Complete,
}

/// Where a run is, for a progress line.
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
