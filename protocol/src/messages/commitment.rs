//! A schedule that is nobody's choice (accountant/docs/static_draws.md): each READY commits to a
//! nonce of this start, each START names the commitments of all of its members and reveals its
//! author's nonce. The seed is a hash of the digest and all nonces.
//!
//! A node signs one START of each number, and has fixed the commitments of everybody in it before
//! it shows its own nonce. So the party that reveals last knows the seed before the others, but has
//! no other nonce to choose: it can only keep its own, and the others give this number up. Each
//! number has a nonce of its own, committed to before anything of that number is revealed: with one
//! nonce for all, a liar would know the seed of every set before it chooses who is left out. Each
//! number gives a coalition one more draw to choose from. So a node reveals [`MOST_REVEALS`] nonces
//! a plan at most, each counted on disk before it leaves; the accountant derives from that how many
//! draws there can be.

use sha2::{Digest as _, Sha256};

use crate::messages::signature::Digest;
use crate::topology::party::Party;

/// The most nonces that a node reveals for one plan, however often it starts and whatever STARTs
/// are given up. Our choice: a START that an accident ends may be tried twice more.
pub const MOST_REVEALS: u64 = 3;

/// 256 random bits of one start of a node for one number of START; secret until that START.
pub type Nonce = [u8; 32];

/// SHA-256 over a nonce and whose it is.
pub type Commitment = [u8; 32];

/// SHA-256 over the commitments of a START's members.
pub type Commitments = [u8; 32];

const NONCE_DOMAIN: &[u8] = b"undertone/nonce/1\0";
const COMMITMENT_DOMAIN: &[u8] = b"undertone/commitment/1\0";
const COMMITMENTS_DOMAIN: &[u8] = b"undertone/commitments/1\0";
const SEED_DOMAIN: &[u8] = b"undertone/schedule-seed/1\0";

/// A nonce of this start for the START of a number: from a secret of this start, which no nonce
/// reveals.
pub fn nonce(secret: &[u8; 32], number: u8) -> Nonce {
    let mut hash = Sha256::new();
    hash.update(NONCE_DOMAIN);
    hash.update(secret);
    hash.update([number]);
    hash.finalize().into()
}

/// The commitment of `party` to a nonce.
pub fn commitment(digest: &Digest, party: Party, nonce: &Nonce) -> Commitment {
    hash(COMMITMENT_DOMAIN, digest, [(party, nonce)])
}

/// Returns the hash by which a START names its members' commitments, ascending by party.
pub fn commitments<'a>(
    digest: &Digest,
    members: impl IntoIterator<Item = (Party, &'a Commitment)>,
) -> Commitments {
    hash(COMMITMENTS_DOMAIN, digest, members)
}

/// The schedule's seed from the nonces of all who begin, ascending by party.
pub fn seed<'a>(digest: &Digest, nonces: impl IntoIterator<Item = (Party, &'a Nonce)>) -> u64 {
    let hash = hash(SEED_DOMAIN, digest, nonces);
    u64::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
}

fn hash<'a>(
    domain: &[u8],
    digest: &Digest,
    entries: impl IntoIterator<Item = (Party, &'a [u8; 32])>,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(domain);
    hash.update(digest);
    for (party, bytes) in entries {
        hash.update((party as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counts() {
        let (digest, a, b) = ([1; 32], [2; 32], [3; 32]);
        let drawn = seed(&digest, [(0, &a), (2, &b)]);
        assert_ne!(drawn, seed(&[9; 32], [(0, &a), (2, &b)]));
        assert_ne!(drawn, seed(&digest, [(0, &b), (2, &a)]));
        assert_ne!(drawn, seed(&digest, [(0, &a), (1, &b)]));
        assert_ne!(drawn, seed(&digest, [(0, &a)]));
        assert_ne!(
            commitment(&digest, 0, &a),
            commitment(&digest, 1, &a),
            "nobody can repeat another's"
        );
        assert_ne!(
            commitment(&digest, 0, &a),
            commitments(&digest, [(0, &a)]),
            "one domain each"
        );
    }

    #[test]
    fn the_seed_is_pinned() {
        // All members must draw the same schedule, whatever their build.
        assert_eq!(seed(&[7; 32], [(0, &[1; 32]), (1, &[2; 32])]), PINNED);
    }
    const PINNED: u64 = 0xbfcf82841f95a272;
}
