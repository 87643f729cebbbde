//! What a plan says to the mixing machine of one party: how value and noise get into its states.

use std::sync::Arc;

use crate::lattice::injection::Injection;

/// How value and noise get into a party's states.
#[derive(Clone, Debug)]
pub enum Mechanism<C> {
    /// INCA: a row of the injection (c, Z) in every online round; a share is an equal part of the
    /// state.
    Injection(Arc<Injection<C>>),
    /// PPSC: the value at first. A hand-out sends ω = β − γ with the state's whole weight, and
    /// keeps the fresh noise γ as the state.
    HandOver {
        /// How often this party hands out in the whole run.
        hand_outs: usize,
    },
    /// The value at first, and no shares: for tests of what a mechanism has to answer.
    #[cfg(test)]
    Local,
}

impl<C> From<Arc<Injection<C>>> for Mechanism<C> {
    fn from(injection: Arc<Injection<C>>) -> Self {
        Mechanism::Injection(injection)
    }
}
