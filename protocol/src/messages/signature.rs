//! Digests and signatures: what everything else that is said is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// SHA-256 of a plan's bytes, which names the run.
pub type Digest = [u8; 32];

/// The bytes of an ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

impl Serialize for Signature {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut head, mut tail) = ([0; 32], [0; 32]);
        head.copy_from_slice(&self.0[..32]);
        tail.copy_from_slice(&self.0[32..]);
        (head, tail).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (head, tail) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&head);
        signature[32..].copy_from_slice(&tail);
        Ok(Signature(signature))
    }
}
