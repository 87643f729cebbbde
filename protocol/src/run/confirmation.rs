//! Whether an agreed set was opened at all, where a release follows: what the members of a run
//! agree on if some secret came late, or not at all.

use std::collections::BTreeSet;

use crate::agreement::agreeing::Agreement;
use crate::topology::party::Party;

/// How far a node has come in it.
pub(super) enum Confirmation {
    /// Every secret came in time, or is still waited for; this node was asked nothing.
    Unasked,
    /// Every secret came in time, and this node has told others, who asked, that it has them all.
    Answered,
    /// Some secret did not come in the first half of opening: parties agree on whose are known.
    Under(Box<Agreement>),
    /// It is agreed that secrets of members are lacking: nobody uses the sum, and the next release
    /// is of these.
    Without(BTreeSet<Party>),
    /// The set is opened, or nothing follows.
    Over,
}

impl Confirmation {
    /// Those of whom the next release is, if the agreed set was not opened.
    pub(super) fn remaining(&self) -> Option<&BTreeSet<Party>> {
        match self {
            Confirmation::Without(remaining) => Some(remaining),
            _ => None,
        }
    }

    /// The agreement that is under way.
    pub(super) fn agreement(&self) -> Option<&Agreement> {
        match self {
            Confirmation::Under(agreement) => Some(agreement),
            _ => None,
        }
    }
}
