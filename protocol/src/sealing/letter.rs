//! Letters: a holder's share of a secret, which everybody may carry and nobody else reads.
//!
//! A letter is one message of `Noise_K_25519_ChaChaPoly_SHA256`. Both ends are authenticated by the
//! run keys that START has fixed; there is no reply, and no session that could lose step.

use rand::CryptoRng;
use snow::Builder;
use snow::params::NoiseParams;
use zeroize::Zeroizing;

use crate::sealing::resolver::{Resolver, SecretBytes};
use crate::sealing::run_key::{RunKey, index};
use crate::topology::party::Party;

/// The bytes of a letter: an ephemeral key, a share, a tag.
pub const LETTER_BYTES: usize = 32 + 32 + 16;

const PATTERN: &str = "Noise_K_25519_ChaChaPoly_SHA256";
const LABEL: &[u8] = b"undertone/letter/1\0";

/// The context that a letter is bound to: one that was written for another place does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The digest of the plan.
    pub digest: &'a [u8; 32],
    /// The round of the deal; 0 in a run of one result.
    pub round: u32,
    /// The dealer that wrote the letter.
    pub from: Party,
    /// The holder that reads the letter.
    pub to: Party,
}

impl Envelope<'_> {
    fn prologue(&self) -> Vec<u8> {
        let (from, to) = (index(self.from), index(self.to));
        [LABEL, self.digest, &self.round.to_le_bytes(), &from, &to].concat()
    }
}

fn pattern() -> NoiseParams {
    PATTERN.parse().expect("snow knows its name")
}

/// Writes a share to the owner of a run key.
pub fn write(
    own: &RunKey,
    reader: &[u8; 32],
    envelope: &Envelope<'_>,
    share: &[u8; 32],
    rng: &mut impl CryptoRng,
) -> [u8; LETTER_BYTES] {
    // Drawn here and handed to `snow`, which would otherwise ask the operating system: randomness
    // is an argument, so that a seed repeats a run.
    let mut ephemeral: SecretBytes = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *ephemeral);
    let prologue = envelope.prologue();
    let mut noise = Builder::with_resolver(pattern(), Box::new(Resolver(ephemeral)))
        .local_private_key(own.secret())
        .and_then(|builder| builder.remote_public_key(reader))
        .and_then(|builder| builder.prologue(&prologue))
        .and_then(Builder::build_initiator)
        .expect("all that the pattern asks for is given once");
    let mut letter = [0; LETTER_BYTES];
    let written = noise
        .write_message(share, &mut letter)
        .expect("a share fits into a letter");
    assert_eq!(written, LETTER_BYTES, "the pattern adds a key and a tag");
    letter
}

/// Reads a letter from the owner of a run key; `None` if it was not written by that key, to this
/// one, for this place, or was changed.
pub fn read(
    own: &RunKey,
    author: &[u8; 32],
    envelope: &Envelope<'_>,
    letter: &[u8; LETTER_BYTES],
) -> Option<Zeroizing<[u8; 32]>> {
    let prologue = envelope.prologue();
    // Reading draws nothing: the reader of this pattern has no ephemeral key.
    let mut noise = Builder::with_resolver(pattern(), Box::new(Resolver(Zeroizing::new([0; 32]))))
        .local_private_key(own.secret())
        .and_then(|builder| builder.remote_public_key(author))
        .and_then(|builder| builder.prologue(&prologue))
        .and_then(Builder::build_responder)
        .expect("all that the pattern asks for is given once");
    let mut share = Zeroizing::new([0; 32]);
    // All failures are one: which check failed would help only a forger.
    let read = noise.read_message(letter, &mut *share).ok()?;
    (read == share.len()).then_some(share)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    use super::*;

    const DIGEST: [u8; 32] = [9; 32];
    const PLACE: Envelope<'static> = Envelope {
        digest: &DIGEST,
        round: 2,
        from: 4,
        to: 1,
    };

    #[test]
    fn a_letter_opens_for_its_reader_in_its_place_only() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let [author, reader, other] = [(); 3].map(|()| RunKey::draw(&mut rng));
        let letter = write(&author, reader.public(), &PLACE, &[7; 32], &mut rng);
        let opened = |own: &RunKey, from: &RunKey, place: &Envelope<'_>| {
            read(own, from.public(), place, &letter).map(|share| *share)
        };
        assert_eq!(opened(&reader, &author, &PLACE), Some([7; 32]));
        assert_eq!(opened(&other, &author, &PLACE), None);
        assert_eq!(opened(&reader, &other, &PLACE), None);
        for place in [
            Envelope {
                digest: &[8; 32],
                ..PLACE
            },
            Envelope { round: 3, ..PLACE },
            Envelope { from: 5, ..PLACE },
            Envelope { to: 0, ..PLACE },
            Envelope {
                from: 1,
                to: 4,
                ..PLACE
            },
        ] {
            assert_eq!(opened(&reader, &author, &place), None, "{place:?}");
        }
    }

    #[test]
    fn a_letter_that_was_changed_anywhere_does_not_open() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let [author, reader] = [(); 2].map(|()| RunKey::draw(&mut rng));
        let letter = write(&author, reader.public(), &PLACE, &[7; 32], &mut rng);
        for at in 0..LETTER_BYTES {
            let mut changed = letter;
            changed[at] ^= 1;
            assert!(read(&reader, author.public(), &PLACE, &changed).is_none(), "{at}");
        }
        for nonsense in [[0; LETTER_BYTES], [0xff; LETTER_BYTES]] {
            assert!(read(&reader, author.public(), &PLACE, &nonsense).is_none());
        }
    }

    #[test]
    fn keys_of_small_order_break_nothing() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let key = RunKey::draw(&mut rng);
        let letter = write(&key, &[0; 32], &PLACE, &[7; 32], &mut rng);
        assert!(read(&key, &[0; 32], &PLACE, &letter).is_none());
    }

    #[test]
    fn letters_follow_from_the_generator_and_never_repeat_a_key() {
        let key = RunKey::from_secret([3; 32]);
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut again = ChaCha8Rng::seed_from_u64(4);
        let first = write(&key, key.public(), &PLACE, &[7; 32], &mut rng);
        assert_eq!(first, write(&key, key.public(), &PLACE, &[7; 32], &mut again));
        let second = write(&key, key.public(), &PLACE, &[7; 32], &mut rng);
        assert_ne!(first[..32], second[..32]);
    }
}
