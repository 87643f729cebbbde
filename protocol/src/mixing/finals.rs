//! A party's state once its rounds are over, as it is sealed, published or corrected: three kinds
//! of the same vector that must not stand for one another. None prints its values.

use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::mixing::portion::Portion;

/// The state that a party's log is about, as it is sealed: whoever departs is in it.
pub struct LoggedState(pub(super) Portion<LatticeVector, LatticeWeight>);

/// A party's final state, with whoever departed rolled back, as it is published where finals are
/// readable.
///
/// It is made by [`ShareExchange::settle`](super::exchange::ShareExchange::settle) alone, and
/// sealing does not take it:
///
/// ```compile_fail,E0308
/// # use undertone_protocol::mixing::finals::FinalState;
/// # use undertone_protocol::publishing::interface::{FinalError, OwnItem};
/// # use undertone_protocol::publishing::sealed::SealedFinals;
/// # use undertone_protocol::sealing::deal::Secret;
/// type Item = Result<OwnItem, FinalError>;
/// fn seals(finals: &SealedFinals, state: &FinalState, secret: &Secret) -> Item {
///     finals.seal(0, state, None, secret) // `LoggedState` is expected
/// }
/// ```
pub struct FinalState(pub(super) Portion<LatticeVector, LatticeWeight>);

/// The difference of a party's final state from its logged one, added to the vector that it has
/// sealed.
pub struct StateCorrection(pub(super) LatticeVector);

impl LoggedState {
    /// The state and its weight.
    pub(crate) fn portion(&self) -> &Portion<LatticeVector, LatticeWeight> {
        &self.0
    }
}

impl FinalState {
    /// The state and its weight.
    pub(crate) fn portion(&self) -> &Portion<LatticeVector, LatticeWeight> {
        &self.0
    }
}

impl StateCorrection {
    /// Returns the vector that is added.
    pub(crate) fn vector(&self) -> &LatticeVector {
        &self.0
    }
}
