//! A frame that has come in, on its peer's account for as long as it is held.

use tokio::sync::OwnedSemaphorePermit;

/// The bytes of a received frame. They count against the peer's budget until this is dropped: a
/// peer whose budget is used up is not read from.
pub struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// Holds a part of a peer's budget until it is dropped.
#[must_use = "dropping it lets the peer send on"]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl Received {
    /// The bytes, and what keeps them on the peer's account.
    pub fn into_parts(self) -> (Vec<u8>, Permit) {
        (self.bytes, Permit { _permit: self.permit })
    }
}

impl std::ops::Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({} bytes)", self.bytes.len())
    }
}
