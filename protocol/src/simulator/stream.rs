//! Streams of randomness that a seed gives, apart from one another.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::topology::party::Party;

pub(super) fn stream(seed: u64, name: &str, party: Party) -> ChaCha8Rng {
    let mut hash = Sha256::new();
    hash.update(name);
    hash.update(seed.to_le_bytes());
    hash.update((party as u64).to_le_bytes());
    ChaCha8Rng::from_seed(hash.finalize().into())
}
