//! The gate's verdict, and its statement about a run.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;

/// The statement about a run as it turned out.
#[derive(Debug, Clone)]
pub struct Audit {
    /// The largest loss of any party, departed ones included: the smallest of the valid statements.
    pub mu: f64,
    /// The ε of that loss at the plan's δ, less what of it is left to the draw of the schedule.
    pub epsilon: f64,
    /// The δ of the plan's privacy target.
    pub delta: f64,
    /// The execution of the largest loss, with its coalition as `corrupted` and the sensitivities:
    /// `account inca` on it with the plan's standard deviations gives `mu`, or less.
    pub execution: Execution,
    /// The basis of the statement.
    pub basis: Basis,
    /// With exact sums revealed (`mu` is then infinite once finals are out): the loss of changes
    /// that keep these sums.
    pub same_sum_mu: Option<f64>,
    /// Where correlated noise is uniform and finals are out: among how many values each of those
    /// who published is hidden, at least, by the connectivity of what happened.
    pub among: Option<usize>,
    /// The parties that departed (everybody who may not publish).
    pub departed: BTreeSet<Party>,
    /// The faults, in sentences, with the parties' names.
    pub faults: Vec<String>,
}

/// The basis of an audit's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Every coalition was computed; the execution's loss is not above it.
    Computed,
    /// The bound on what leaves before publishing, any coalition; the execution's loss is not above
    /// it.
    BeforePublishing,
    /// The connectivity of what happened, any coalition of `colluding` parties; the execution's
    /// loss is not above it.
    Connectivity,
    /// A draw of the schedule, any coalition of `colluding` parties that was fixed before it; the
    /// execution's loss is above it only if the draw was a bad one.
    Draw,
    /// The loss of local noise, any coalition and any faults; the execution's is not above it.
    Theorem,
}

/// The gate's decision.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The parties that may publish; `None`: everybody withholds.
    pub publish: Option<BTreeSet<Party>>,
    /// The reason why somebody withholds; empty if nobody of the logs does.
    pub reason: String,
    /// The loss in the run: with the finals of `publish`, or with the shares that left before.
    pub audit: Audit,
}
