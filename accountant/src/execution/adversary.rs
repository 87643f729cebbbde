//! The adversary of an execution.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

/// The adversary of an execution, which fixes what is seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adversary {
    /// Colluding parties: everything that they receive, hold or inject, and all published finals.
    Corrupted(BTreeSet<Party>),
    /// An eavesdropper: the states that these parties split in the round after the one given (0 is
    /// before the first), and all published finals.
    Observed(BTreeSet<(Party, u32)>),
}
