//! Parts of states on their way between parties, and where their noise comes from.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::{PackedVector, VectorError};
use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::messages::wire::Bytes;

/// A source of a party's correlated noise.
pub trait NoiseSource<P: Payload> {
    /// Draws the correlated noise η_k (k from 0) for the first time; `round` is the round whose
    /// injection contains it first, 0 for the one before round 1. With PPSC it is the fresh noise γ
    /// of the party's k-th hand-out, and `round` one before that. Each k is asked for at most once
    /// in a run.
    fn draw(&mut self, k: usize, round: u32) -> P::Packed;
}

impl<P: Payload, N: NoiseSource<P> + ?Sized> NoiseSource<P> for Box<N> {
    fn draw(&mut self, k: usize, round: u32) -> P::Packed {
        (**self).draw(k, round)
    }
}

/// The source of a node's correlated noise.
pub type Noise = Box<dyn NoiseSource<LatticeVector> + Send>;

/// A source of noise that one mixing after the other draws from: what it gives is fresh each time.
#[derive(Clone)]
pub struct SharedNoise(Arc<Mutex<Noise>>);

impl SharedNoise {
    /// Shares this source.
    pub fn of(noise: Noise) -> Self {
        SharedNoise(Arc::new(Mutex::new(noise)))
    }
}

impl NoiseSource<LatticeVector> for SharedNoise {
    fn draw(&mut self, k: usize, round: u32) -> PackedVector {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        source.draw(k, round)
    }
}

/// A state that was worked out, or a part of one, with the weight that it carries.
#[derive(Clone)]
pub struct Portion<P, W> {
    /// The values, which are secret.
    pub value: P,
    /// The part of the parties' values that they carry; public.
    pub weight: W,
}

/// A portion with its values at rest.
pub type Resting<P, W> = Portion<<P as Payload>::Packed, W>;

/// A share as it travels between parties. It is made where a state is split, or of what a peer
/// sent; it prints nothing, and goes into a state alone:
///
/// ```compile_fail,E0308
/// # use undertone_protocol::lattice::grid::LatticeWeight;
/// # use undertone_protocol::lattice::vector::LatticeVector;
/// # use undertone_protocol::mixing::machine::Mixing;
/// # use undertone_protocol::mixing::portion::Resting;
/// # type Vectors = Mixing<LatticeVector, LatticeWeight>;
/// fn joins(mixing: &mut Vectors, state: &Resting<LatticeVector, LatticeWeight>) {
///     mixing.accept(1, state) // a state, where a share is expected
/// }
/// ```
pub struct Share<P: Payload, W>(pub(super) Resting<P, W>);

impl<P: Payload, W: Clone> Clone for Share<P, W> {
    fn clone(&self) -> Self {
        Share(self.0.clone())
    }
}

impl<P: Payload, W> Share<P, W> {
    /// Returns the vector and the weight that the share carries.
    pub fn carried(&self) -> &Resting<P, W> {
        &self.0
    }
}

impl Share<LatticeVector, LatticeWeight> {
    /// Builds the portion that a peer sent in round `t`, as [`Lattice::share`] checks it, with the
    /// weight beside it.
    ///
    /// # Errors
    /// It is no share of that round.
    pub(crate) fn received(
        lattice: &Lattice,
        (values, weight): (Bytes, LatticeWeight),
        dimension: usize,
        t: u32,
    ) -> Result<Self, VectorError> {
        let value = lattice.share(values, dimension, t)?;
        Ok(Share(Portion { value, weight }))
    }
}
