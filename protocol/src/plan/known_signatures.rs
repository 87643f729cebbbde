//! Signatures that were verified once need no second verification.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// So many are known at most, in some 3 MB; then all are forgotten. Our choice: what a few hundred
/// parties sign at about the same time.
const MOST: usize = 1 << 16;

/// Signatures that were good when somebody who holds this plan verified them: a node reads the same
/// answer in several logs, and the nodes of a simulation, which hold one plan, all hear the same
/// words.
///
/// What is kept is the hash of key, signature and signed bytes together, so that nothing else than
/// what was verified is taken for it; and nothing of a signature that was not good. Copies share
/// what they know.
#[derive(Clone, Default)]
pub struct KnownSignatures(Arc<Mutex<BTreeSet<[u8; 32]>>>);

impl fmt::Debug for KnownSignatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownSignatures")
    }
}

impl KnownSignatures {
    /// Whether the signature by the owner of `key` is good: because it was before, or because
    /// `verify` says so now.
    pub fn is_good(
        &self,
        key: &[u8],
        signature: &[u8; 64],
        signed: &[u8],
        verify: impl FnOnce() -> bool,
    ) -> bool {
        let mut words = Sha256::new();
        words.update((key.len() as u64).to_le_bytes());
        words.update(key);
        words.update(signature);
        words.update(signed);
        let words = words.finalize().into();
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&words) {
            return true;
        }
        let is_good = verify();
        if is_good {
            let mut known = known();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(words);
        }
        is_good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_good_is_known_and_only_the_very_same() {
        let known = KnownSignatures::default();
        let (key, signature) = ([1; 4], [2; 64]);
        assert!(!known.is_good(&key, &signature, b"words", || false));
        assert!(!known.is_good(&key, &signature, b"words", || false), "not kept");
        assert!(known.is_good(&key, &signature, b"words", || true));
        let unasked = || panic!("it is known");
        assert!(known.is_good(&key, &signature, b"words", unasked));
        assert!(known.clone().is_good(&key, &signature, b"words", unasked));
        assert!(!known.is_good(&[1; 5], &signature, b"words", || false));
        assert!(!known.is_good(&[3; 4], &signature, b"words", || false));
        assert!(!known.is_good(&key, &[3; 64], b"words", || false));
        assert!(!known.is_good(&key, &signature, b"word", || false));
    }

    #[test]
    fn no_more_is_known_than_fits() {
        let known = KnownSignatures::default();
        for word in 0..=MOST as u64 {
            assert!(known.is_good(b"key", &[0; 64], &word.to_le_bytes(), || true));
        }
        let known = known.0.lock().expect("nobody panics").len();
        assert_eq!(known, 1, "all but the last are forgotten");
    }
}
