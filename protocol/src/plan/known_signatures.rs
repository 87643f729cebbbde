//! Signatures that were verified once need no second verification.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libp2p_identity::PublicKey;
use sha2::{Digest as _, Sha256};

/// Maximum number of remembered signatures, some 3 MB; at the next one all are forgotten, and
/// verified again where they come again. Our choice: what a few hundred parties sign at about the
/// same time.
const MOST: usize = 1 << 16;

/// Signatures that were good when somebody who runs a plan verified them: a node reads the same
/// answer in several logs, and the nodes of a simulation, which hold one plan, all hear the same
/// words.
///
/// What is kept is the hash of key, signature and signed bytes together, so that nothing else than
/// what was verified is taken for it; and nothing of a signature that was not good. Copies share
/// what they know.
#[derive(Clone, Default)]
pub(crate) struct KnownSignatures(Arc<Hashes>);

type Hashes = Mutex<BTreeSet<[u8; 32]>>;

impl fmt::Debug for KnownSignatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownSignatures")
    }
}

/// One hash for each triple: the key has its length before it, the signature always the same one.
fn hash_of(key: &PublicKey, signed: &[u8], signature: &[u8; 64]) -> [u8; 32] {
    let name = key.encode_protobuf();
    let mut hash = Sha256::new();
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name);
    hash.update(signature);
    hash.update(signed);
    hash.finalize().into()
}

impl KnownSignatures {
    /// Whether this is the signature of these bytes by the owner of the key.
    pub(crate) fn verify(&self, key: &PublicKey, signed: &[u8], signature: &[u8; 64]) -> bool {
        let words = hash_of(key, signed, signature);
        if self.known().contains(&words) {
            return true;
        }
        let is_good = key.verify(signed, signature);
        if is_good {
            let mut known = self.known();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(words);
        }
        is_good
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<[u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The known signatures of a plan while anybody runs it, and nothing once nobody does: a daemon
/// keeps plans of runs that are over.
#[derive(Clone, Debug, Default)]
pub(crate) struct WhileRun(Arc<Mutex<Weak<Hashes>>>);

impl WhileRun {
    /// Returns the signatures known to all runs of the plan in this process.
    pub(crate) fn known(&self) -> KnownSignatures {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.upgrade().unwrap_or_default();
        *held = Arc::downgrade(&known);
        KnownSignatures(known)
    }
}

#[cfg(test)]
mod tests {
    use libp2p_identity::Keypair;

    use super::*;

    fn key(byte: u8) -> Keypair {
        Keypair::ed25519_from_bytes([byte; 32]).expect("32 bytes")
    }

    fn signature(key: &Keypair, words: &[u8]) -> [u8; 64] {
        let signature = key.sign(words).expect("it signs");
        signature.try_into().expect("64 bytes")
    }

    #[test]
    fn what_is_known_is_good_and_nothing_else_is() {
        let (owner, other) = (key(1), key(2));
        let known = KnownSignatures::default();
        let good = signature(&owner, b"words");
        for _ in 0..2 {
            assert!(!known.verify(&other.public(), b"words", &good));
            assert_eq!(known.known().len(), 0, "what is not good is not kept");
        }
        for copy in [known.clone(), known.clone()] {
            assert!(copy.verify(&owner.public(), b"words", &good));
            assert_eq!(known.known().len(), 1, "copies share it");
        }
        for place in 0..64 {
            let mut bad = good;
            bad[place] ^= 1;
            assert!(!known.verify(&owner.public(), b"words", &bad));
        }
        assert!(!known.verify(&other.public(), b"words", &good));
        assert!(!known.verify(&owner.public(), b"word", &good));
        assert!(!known.verify(&owner.public(), b"words ", &good));
        // Nor are bytes moved from the signature to what is signed.
        let mut moved = good;
        moved.rotate_left(1);
        assert!(!known.verify(&owner.public(), &[&good[..1], b"words"].concat(), &moved));
        assert_eq!(known.known().len(), 1);
    }

    /// Were it, this one would not be good.
    #[test]
    fn what_is_known_is_not_verified_again() {
        let (owner, known) = (key(1).public(), KnownSignatures::default());
        assert!(!known.verify(&owner, b"words", &[0; 64]));
        known.known().insert(hash_of(&owner, b"words", &[0; 64]));
        assert!(known.verify(&owner, b"words", &[0; 64]));
    }

    #[test]
    fn no_more_is_known_than_fits_and_only_while_it_is_of_use() {
        let (owner, plan) = (key(1), WhileRun::default());
        let known = plan.known();
        known.known().extend((0..MOST as u64).map(|word| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&word.to_le_bytes());
            hash
        }));
        assert!(
            plan.known()
                .verify(&owner.public(), b"words", &signature(&owner, b"words"))
        );
        assert_eq!(known.known().len(), 1, "all but the last are forgotten");
        drop(known);
        assert_eq!(plan.known().known().len(), 0, "nobody runs the plan any more");
    }
}
