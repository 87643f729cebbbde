//! The number of ten digits that all people of a lobby compare, and what binds them to their part.
//!
//! Each draws 32 bytes, and shows a hash of them before it sees those of anybody else. So nobody,
//! the host included, can choose a part after it knows another's. A hash of the list alone could be
//! tried out: 2^17 lists are enough for two with the same ten digits.

use libp2p_identity::PeerId;
use sha2::{Digest, Sha256};

use crate::plan::peers::number::last_digits;

/// Binds a party to the bytes that it drew for one close and one list.
pub fn commitment(close: u32, list: &[u8; 32], id: &PeerId, drawn: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"undertone/group-commit/1\0");
    hash.update(close.to_be_bytes());
    hash.update(list);
    let id = id.to_bytes();
    // An ed25519 peer id has 38 bytes, none has more than 64 and a few.
    hash.update([id.len() as u8]);
    hash.update(id);
    hash.update(drawn);
    hash.finalize().into()
}

/// The number: ten digits. Commitments and drawn bytes are those of all who sit, in the list's
/// order; as many of one as of the other.
pub fn check_number(list: &[u8; 32], commitments: &[[u8; 32]], drawn: &[[u8; 32]]) -> String {
    let mut hash = Sha256::new_with_prefix(b"undertone/group-number/1\0");
    hash.update(list);
    for part in commitments.iter().chain(drawn) {
        hash.update(part);
    }
    last_digits(hash.finalize().into(), 10)
}
