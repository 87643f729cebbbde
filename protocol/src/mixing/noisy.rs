//! The input of a run: a party's contribution with its own noise.

use std::fmt;

use crate::clipping::contribution::Clipped;
use crate::lattice::grid::Lattice;
use crate::lattice::vector::LatticeVector;

/// A party's contribution with its own independent noise, x̃ = x + η*: what a run takes. It is made
/// from a clipped contribution by [`LatticeNoise::noisy`](super::noise::LatticeNoise::noisy), so
/// that a value without noise cannot be fed by mistake:
///
/// ```compile_fail,E0308
/// # use std::sync::Arc;
/// # use undertone_protocol::mixing::portion::Noise;
/// # use undertone_protocol::plan::checked::Plan;
/// # use undertone_protocol::run::machine::{Identity, Run};
/// # use undertone_protocol::time::Time;
/// fn joins(plan: Arc<Plan>, identity: Identity, noise: Noise) -> Run {
///     let value = plan.lattice().encode([0.1, 0.2].into_iter());
///     Run::new(plan, identity, value, noise, Time::ZERO) // a vector, where `Noisy` is expected
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Noisy(LatticeVector);

/// Prints no value.
impl fmt::Debug for Noisy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Noisy({} coordinates)", self.0.len())
    }
}

impl Noisy {
    /// For the sampler, which has added the noise, and for simulations, which keep it apart.
    pub(crate) fn with_noise_in(value: LatticeVector) -> Self {
        Noisy(value)
    }

    /// Takes a contribution **without any noise**: whoever learns the result learns it. For PPSC's
    /// recursions, whose noise is that of their exchanges, and for tests of machines.
    pub fn exposed_without_noise(contribution: Clipped) -> Self {
        Noisy(contribution.into_vector())
    }

    /// The contribution, noise included.
    pub fn vector(&self) -> &LatticeVector {
        &self.0
    }

    /// The contribution, noise included.
    pub(crate) fn into_vector(self) -> LatticeVector {
        self.0
    }

    /// The contribution with the noises of its readers' vectors behind it
    /// ([`crate::mixing::gossip::circles`]).
    pub(crate) fn joined_with(self, lattice: &Lattice, noises: Vec<LatticeVector>) -> Self {
        Noisy(lattice.joined(std::iter::once(self.0).chain(noises)))
    }
}
