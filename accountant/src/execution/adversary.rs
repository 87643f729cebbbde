//! Who looks at an execution.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

/// Who looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adversary {
    /// Colluding parties: everything that they receive, hold or inject, and all published finals.
    Corrupted(BTreeSet<Party>),
    /// An eavesdropper: the states y_i^(t), t < T, of these (i, t), and all published finals.
    Observed(BTreeSet<(Party, u32)>),
}
