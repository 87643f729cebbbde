//! Private data as it stands in memory.

use std::fmt;

use crate::vector_file::layout::Layout;

/// Private data with its layout. No `Debug` prints its values.
#[derive(Clone)]
pub struct VectorFile {
    /// Shape, dtype and names.
    pub layout: Layout,
    /// The values in C order (last index fastest), all finite where the reader did not leave that
    /// to its caller.
    pub values: Vec<f64>,
}

impl fmt::Debug for VectorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VectorFile({:?})", self.layout)
    }
}

/// The nearest f32 that is finite: noise may carry a mean beyond it.
pub(super) fn to_f32(value: f64) -> f32 {
    value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}
