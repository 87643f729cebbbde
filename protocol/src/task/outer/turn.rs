//! A node's part in the multi-gossip of one outer iteration.

use std::collections::VecDeque;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::mixing::machine::Mixing;
use crate::topology::multi_gossip::HandOver;
use crate::topology::party::Party;

/// The rest of an outer iteration's multi-gossip.
pub(super) struct GossipTurn {
    pub(super) mixing: Mixing<LatticeVector, LatticeWeight>,
    pub(super) due: VecDeque<HandOver>,
}

impl GossipTurn {
    /// Returns the party whose share is waited for, if one is.
    pub(super) fn waits_for(&self, me: Party) -> Option<Party> {
        self.due
            .front()
            .filter(|edge| edge.into == me)
            .map(|edge| edge.out)
    }
}
