//! Masks: uniformly random residues that follow from a party's secret or from a pair's key.
//!
//! A mask is the stream of ChaCha20 (RFC 8439, a nonce of zeros, blocks counted from 0) under its
//! key, read as successive little-endian words of the ring's width; in a ring of 2^m − 1 a word of
//! all ones is skipped. It is never kept: its words are added to a vector as they come. Each key
//! masks one vector, ever.

use chacha20::ChaCha20Rng;
use rand::{Rng, SeedableRng};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::lattice::residue::{ResidueVector, Sign};
use crate::sealing::deal::Secret;
use crate::sealing::hash::labelled;
use crate::sealing::run_key::index;
use crate::topology::party::Party;

/// The circle of everybody, whose sum all nodes read.
pub const EVERYBODY: u32 = u32::MAX;

/// The bytes of a stream: RFC 8439 counts blocks of 64 bytes in 32 bits.
const STREAM_BYTES: u64 = 64 << 32;

/// A vector that takes more than a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a mask has at most 2^32 blocks of 64 bytes")]
pub struct MaskTooLong;

/// The place of an own mask: the inputs of its key, besides the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskPlace<'a> {
    /// The digest of the plan.
    pub digest: &'a [u8; 32],
    /// The party whose vector it seals.
    pub author: Party,
    /// The round; 0 in a run of one result.
    pub round: u32,
    /// The reader of the sum, or [`EVERYBODY`].
    pub circle: u32,
}

/// The key that a mask is derived from; wiped when it is dropped, never printed.
pub struct MaskKey(Zeroizing<[u8; 32]>);

impl MaskKey {
    /// The key of a party's own mask.
    pub fn own(secret: &Secret, place: &MaskPlace<'_>) -> Self {
        let (author, secret) = (index(place.author), secret.to_bytes());
        let (round, circle) = (place.round.to_le_bytes(), place.circle.to_le_bytes());
        // Everything that may differ between two sealed vectors is in the key: no mask is used
        // twice.
        let parts: [&[u8]; 5] = [&*secret, place.digest, &author, &round, &circle];
        MaskKey(Zeroizing::new(labelled("undertone/own-mask/1", &parts)))
    }

    /// The key of a pair's mask in the secure sum of everybody: the once-key of the round.
    pub fn once(once_key: [u8; 32]) -> Self {
        MaskKey(Zeroizing::new(once_key))
    }

    /// The key of a pair's mask in one of the circles of a round, from the round's once-key.
    pub fn pair(once_key: &[u8; 32], circle: u32) -> Self {
        let parts: [&[u8]; 2] = [once_key, &circle.to_le_bytes()];
        MaskKey(Zeroizing::new(labelled("undertone/pair-mask/1", &parts)))
    }

    /// The key of an own mask's part for one slice of its vector. Where a vector travels in slices
    /// each has a mask of its own: a stream in which words are skipped cannot be entered in the
    /// middle.
    pub fn own_slice(&self, slice: u32) -> Self {
        self.of_slice("undertone/own-slice/1", slice)
    }

    /// The key of a pair's mask for one slice of the vector that it masks, from the once-key.
    pub fn pair_slice(&self, slice: u32) -> Self {
        self.of_slice("undertone/pair-slice/1", slice)
    }

    fn of_slice(&self, label: &str, slice: u32) -> Self {
        let parts: [&[u8]; 2] = [&*self.0, &slice.to_le_bytes()];
        MaskKey(Zeroizing::new(labelled(label, &parts)))
    }

    /// Adds the mask to a vector: an own mask, or a pair's at its lower party.
    pub fn add_to(&self, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
        self.apply(Sign::Plus, vector)
    }

    /// Subtracts the mask from a vector: a pair's at its higher party, or what was added.
    pub fn subtract_from(&self, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
        self.apply(Sign::Minus, vector)
    }

    fn apply(&self, sign: Sign, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
        let mut stream = Stream::new(&self.0, vector.len(), vector.ring().width())?;
        vector.add_words(sign, |bytes| stream.fill(bytes))
    }
}

/// The stream of a key. The generator is the cipher: it counts blocks in 64 bits where RFC 8439 has
/// 32 and a nonce of zeros, which is the same for as many blocks as RFC 8439 has.
struct Stream {
    cipher: ChaCha20Rng,
    left: u64,
}

impl Stream {
    /// For `count` words of `width` bytes each. What is too long for a stream is refused before
    /// anything is masked.
    fn new(key: &[u8; 32], count: usize, width: usize) -> Result<Self, MaskTooLong> {
        let bytes = (count as u64).checked_mul(width as u64);
        bytes.filter(|&bytes| bytes <= STREAM_BYTES).ok_or(MaskTooLong)?;
        Ok(Stream {
            cipher: ChaCha20Rng::from_seed(*key),
            // The last words are asked for by fours: what is asked for beyond them is padding.
            left: STREAM_BYTES + 3 * width as u64,
        })
    }

    /// The next bytes. A vector that only just fits may need more, for words that are skipped.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), MaskTooLong> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(MaskTooLong)?;
        self.cipher.fill_bytes(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::residue::Ring;

    fn ring(width: usize, odd: bool) -> Ring {
        let ring = if odd { Ring::odd(width) } else { Ring::even(width) };
        ring.expect("a width")
    }

    fn mask(key: [u8; 32], ring: Ring, count: usize) -> ResidueVector {
        let mut vector = ResidueVector::zeros(ring, count);
        MaskKey::once(key).add_to(&mut vector).expect("short");
        vector
    }

    /// RFC 8439's appendix A.1, test vectors 1 and 2: two blocks under a key of zeros.
    const RFC_8439: [&str; 2] = [
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
         da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
         29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ];

    #[test]
    fn the_stream_is_that_of_rfc_8439() {
        for width in [1, 2, 4, 8, 16] {
            let bytes = mask([0; 32], ring(width, false), 128 / width).to_bytes();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, RFC_8439.concat(), "{width}");
        }
    }

    #[test]
    fn words_are_successive_whatever_their_width_and_ones_are_skipped() {
        let stream = mask([3; 32], ring(1, false), 16 * 3000).to_bytes();
        for width in 1..=16 {
            let even = mask([3; 32], ring(width, false), 2900).to_bytes();
            assert!(even == stream[..2900 * width], "{width}");
            let odd = mask([3; 32], ring(width, true), 2900).to_bytes();
            let words = stream
                .chunks(width)
                .filter(|word| word.iter().any(|&byte| byte != 0xff));
            let words: Vec<u8> = words.take(2900).flatten().copied().collect();
            assert!(odd == words, "{width}");
            assert_eq!(odd != even, width == 1, "eleven of 2,900 bytes are 255");
        }
    }

    #[test]
    fn what_was_added_is_subtracted() {
        for (width, odd) in [(3, false), (3, true), (4, false), (9, true), (16, true)] {
            let ring = ring(width, odd);
            let value = ResidueVector::of(ring, (-700..700).map(|i| i * 3));
            let (key, mut masked) = (MaskKey::once([8; 32]), value.clone());
            key.add_to(&mut masked).expect("short");
            assert_ne!(masked, value);
            key.subtract_from(&mut masked).expect("short");
            assert_eq!(masked, value);
        }
    }

    #[test]
    fn keys_of_different_places_differ() {
        let secret = |byte: u8| {
            let mut bytes = [0; 32];
            bytes[0] = byte;
            Secret::from_bytes(&bytes).expect("canonical")
        };
        let place = MaskPlace {
            digest: &[1; 32],
            author: 1,
            round: 1,
            circle: 1,
        };
        let places = [
            place,
            MaskPlace {
                digest: &[2; 32],
                ..place
            },
            MaskPlace { author: 2, ..place },
            MaskPlace { round: 2, ..place },
            MaskPlace {
                circle: EVERYBODY,
                ..place
            },
        ];
        let mut keys: Vec<[u8; 32]> = places.map(|place| *MaskKey::own(&secret(5), &place).0).to_vec();
        keys.push(*MaskKey::own(&secret(6), &place).0);
        keys.push(*MaskKey::once([5; 32]).0);
        keys.extend([1, EVERYBODY].map(|circle| *MaskKey::pair(&[5; 32], circle).0));
        let once = MaskKey::once([5; 32]);
        keys.extend([0, 1].map(|slice| *once.own_slice(slice).0));
        keys.extend([0, 1].map(|slice| *once.pair_slice(slice).0));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn a_stream_has_as_many_blocks_as_the_standard_counts() {
        let most = usize::try_from(STREAM_BYTES).expect("64 bits");
        for (count, width, fits) in [
            (most, 1, true),
            (most + 1, 1, false),
            (most / 16, 16, true),
            (most / 16 + 1, 16, false),
            (most / 3, 3, true),
            (most / 3 + 1, 3, false),
            (usize::MAX, 16, false),
        ] {
            assert_eq!(
                Stream::new(&[0; 32], count, width).is_ok(),
                fits,
                "{count} {width}"
            );
        }
        let mut stream = Stream::new(&[0; 32], 0, 1).expect("short");
        stream.left = 100;
        assert_eq!(stream.fill(&mut [0; 64]), Ok(()));
        assert_eq!(stream.fill(&mut [0; 64]), Err(MaskTooLong));
        assert_eq!(stream.fill(&mut [0; 36]), Ok(()));
        assert_eq!(stream.fill(&mut [0; 1]), Err(MaskTooLong));
    }
}
