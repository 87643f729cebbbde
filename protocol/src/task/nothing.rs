//! What a task hands to a run that only gathers for it.

use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::mixing::portion::NoiseSource;

/// Draws nothing: the run that gathers mixes nothing.
pub(super) struct Nothing(pub(super) PackedVector);

impl NoiseSource<LatticeVector> for Nothing {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        self.0.clone()
    }
}
