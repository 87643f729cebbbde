//! Parts of states on their way between parties, and where their noise comes from.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lattice::packed::PackedVector;
use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;

/// Where a party's correlated noise comes from.
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

/// Where a node's correlated noise comes from.
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

/// A part of a state on its way between parties, with the weight that it carries.
#[derive(Clone)]
pub struct Portion<P, W> {
    /// The values, which are secret.
    pub value: P,
    /// How much of the parties' values they carry; public.
    pub weight: W,
}

/// A share as it travels: the values at rest.
pub type Share<P, W> = Portion<<P as Payload>::Packed, W>;
