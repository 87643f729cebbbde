//! Tensors that are written again as they were read.

use std::fmt;
use std::sync::Arc;

use safetensors::tensor::Dtype as FileDtype;

/// A tensor of whole numbers: it is not averaged, and does not leave. No `Debug` prints its values.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedTensor {
    pub(super) name: String,
    pub(super) dtype: FileDtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Arc<[u8]>,
}

impl fmt::Debug for CarriedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CarriedTensor({:?})", self.name)
    }
}

/// Whether tensors of this type are whole numbers.
pub(super) fn is_whole(dtype: FileDtype) -> bool {
    use FileDtype::{BOOL, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, BOOL | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}
