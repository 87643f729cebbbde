//! Storage of long bodies: a node holds everybody's finals, and looks at each only a few times.

use std::sync::Arc;

/// A frame that is kept elsewhere than in memory.
pub trait Shelved: Send + Sync {
    /// The frame, as it was put; `None` if it can no longer be read.
    fn read(&self) -> Option<Arc<[u8]>>;
}

/// Puts a frame elsewhere than in memory; `None` if there is no room, so that it stays.
pub type Shelf = Arc<dyn Fn(&[u8]) -> Option<Arc<dyn Shelved>> + Send + Sync>;

/// Keeps everything in memory.
pub fn in_memory() -> Shelf {
    Arc::new(|_| None)
}
