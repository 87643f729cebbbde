//! A plan's instructions to the mixing machine of one party: how value and noise get into its
//! states.

use std::sync::Arc;

use crate::lattice::injection::Injection;

/// The mechanism by which value and noise get into a party's states.
#[derive(Clone, Debug)]
pub enum Mechanism<C> {
    /// INCA: a row of the injection (c, Z) in every online round; a share is an equal part of the
    /// state.
    Injection(Arc<Injection<C>>),
    /// PPSC: the value at first. A hand-out sends ω = β − γ with the state's whole weight, and
    /// keeps the fresh noise γ as the state.
    HandOver {
        /// The number of this party's hand-outs in the whole run.
        hand_outs: usize,
    },
    /// Masks of pairs: the value at first. A share is a fresh noise, which its sender deducts: no
    /// more than what two parties expand from a key that they have in common. So a node sends none;
    /// whoever looks at what a coalition learns draws them.
    Masks {
        /// The number of masks that this party draws, and its neighbours add.
        masks: usize,
    },
}

impl<C> From<Arc<Injection<C>>> for Mechanism<C> {
    fn from(injection: Arc<Injection<C>>) -> Self {
        Mechanism::Injection(injection)
    }
}
