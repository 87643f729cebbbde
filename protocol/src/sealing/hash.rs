//! Hashes that are keys and names.

use sha2::{Digest, Sha256};

/// SHA-256 of a label, which says what the hash is for, a zero byte and the parts in a row.
pub(super) fn labelled(label: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(label);
    hash.update([0]);
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}
