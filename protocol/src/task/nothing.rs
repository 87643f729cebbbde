//! The empty noise source of a run that only gathers for a task.

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
