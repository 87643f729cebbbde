//! Keys of one start of a node, what START names them by, and the chain of keys that each pair of
//! parties has in common.

use rand::CryptoRng;
use zeroize::Zeroizing;

use crate::sealing::hash::labelled;
use crate::sealing::resolver::{Curve, SecretBytes};
use crate::topology::party::Party;

fn draw(rng: &mut impl CryptoRng) -> Curve {
    let mut secret: SecretBytes = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *secret);
    Curve::of(&secret)
}

/// The run key: an X25519 key pair of one start of a node, for letters, wiped when the run ends.
pub struct RunKey(Curve);

impl RunKey {
    /// A fresh one.
    pub fn draw(rng: &mut impl CryptoRng) -> Self {
        RunKey(draw(rng))
    }

    /// The one with this secret.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        RunKey(Curve::of(&Zeroizing::new(secret)))
    }

    /// Returns the public key, which READY announces.
    pub fn public(&self) -> &[u8; 32] {
        self.0.public()
    }

    pub(super) fn secret(&self) -> &[u8; 32] {
        self.0.secret()
    }
}

/// The pair key: an X25519 key pair from which the masks of pairs follow. It is dropped, and so
/// wiped, as soon as the chains with everybody in START are made, before the first sealed vector
/// leaves.
pub struct PairKey(Curve);

impl PairKey {
    /// A fresh one.
    pub fn draw(rng: &mut impl CryptoRng) -> Self {
        PairKey(draw(rng))
    }

    /// The one with this secret.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        PairKey(Curve::of(&Zeroizing::new(secret)))
    }

    /// Returns the public key, which READY announces.
    pub fn public(&self) -> &[u8; 32] {
        self.0.public()
    }

    /// The chain of this key's party and of another one, which has a public pair key of its own, in
    /// the plan with a digest. The parties stand in it: a READY that repeats somebody else's key
    /// gets a chain that nobody else has.
    pub fn chain(&self, key: &[u8; 32], digest: &[u8; 32], own: Party, other: Party) -> PairChain {
        let common = self.0.product(key);
        let parties = [own.min(other), own.max(other)].map(index);
        let parts: [&[u8]; 4] = [&*common, digest, &parties[0], &parties[1]];
        let key = Zeroizing::new(labelled("undertone/pair-chain/1", &parts));
        PairChain { key, round: 1 }
    }
}

/// A party as hashes have it: four bytes, little-endian.
pub(super) fn index(party: Party) -> [u8; 4] {
    // A plan has far fewer parties than these hold.
    (party as u32).to_le_bytes()
}

/// The keys that two parties have in common: P_1, P_2, …, one a round, each made of the one before,
/// so that a key that is found later tells no mask of the past.
pub struct PairChain {
    key: SecretBytes,
    round: u32,
}

impl PairChain {
    /// The round r of which this is the key, from 1.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// P_r, which makes all later keys: it never leaves this node.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// The once-key of round r: what may be revealed about a pair of which one member is left out.
    pub fn once_key(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(labelled("undertone/pair-once/1", &[&*self.key]))
    }

    /// Goes on to the next round; the key of this one is wiped.
    pub fn advance(&mut self) {
        self.key = Zeroizing::new(labelled("undertone/pair-next/1", &[&*self.key]));
        self.round += 1;
    }
}

/// The incarnation that a READY makes: START, which names incarnations, fixes everybody's keys and
/// numbers of records.
///
/// A hash has each part's length, so that a number is never taken for a pair key.
pub fn incarnation(key: &[u8; 32], pair: Option<&[u8; 32]>, records: Option<u32>) -> [u8; 16] {
    let records = records.map(u32::to_le_bytes);
    let pair = pair.map(|pair| &pair[..]);
    let parts = [Some(&key[..]), pair, records.as_ref().map(|bytes| &bytes[..])];
    let parts: Vec<&[u8]> = parts.into_iter().flatten().collect();
    let hash = labelled("undertone/incarnation/1", &parts);
    let mut incarnation = [0; 16];
    incarnation.copy_from_slice(&hash[..16]);
    incarnation
}

/// Whether the product of a public key with any secret is zero: such a key makes no secret in
/// common, and a READY with it counts as none, for everybody alike.
///
/// One product tells. Secrets of X25519 are 8k with 2^251 ≤ k < 2^252, and the orders of points are
/// divisors of 8 times a prime above 2^252, on the curve and on its twist: 8k takes a point to zero
/// if its order divides 8, for each k, and never else.
pub fn is_small_order(key: &[u8; 32]) -> bool {
    *Curve::of(&[1; 32]).product(key) == [0; 32]
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    use super::*;

    /// All encodings of points whose order divides 8, on the curve and on its twist: u = 0, 1, −1,
    /// two of order 8, and the numbers from p on that mean 0 and 1. A key's highest bit means
    /// nothing.
    fn small() -> Vec<[u8; 32]> {
        let mut keys = vec![[0; 32], [0; 32]];
        keys[1][0] = 1;
        let prime = |less: u8| {
            let mut key = [0xff; 32];
            (key[0], key[31]) = (less, 0x7f);
            key
        };
        keys.extend([prime(0xec), prime(0xed), prime(0xee)]);
        for order_8 in [
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        ] {
            let bytes: Vec<u8> = (0..64)
                .step_by(2)
                .map(|at| u8::from_str_radix(&order_8[at..at + 2], 16).expect("hex"))
                .collect();
            keys.push(bytes.try_into().expect("32 bytes"));
        }
        let high = keys.clone().into_iter().map(|mut key| {
            key[31] |= 0x80;
            key
        });
        keys.extend(high.collect::<Vec<_>>());
        keys
    }

    #[test]
    fn keys_of_small_order_are_distinguished_from_all_others() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for key in small() {
            assert!(is_small_order(&key), "{key:?}");
            // What one product says all say.
            for _ in 0..5 {
                let secret = RunKey::draw(&mut rng);
                assert_eq!(*secret.0.product(&key), [0; 32]);
            }
        }
        for _ in 0..50 {
            assert!(!is_small_order(RunKey::draw(&mut rng).public()));
            let mut any = [0; 32];
            rand::Rng::fill_bytes(&mut rng, &mut any);
            assert!(!is_small_order(&any), "on the curve or on its twist");
        }
        let mut base = [0; 32];
        base[0] = 9;
        assert!(!is_small_order(&base));
    }

    #[test]
    fn both_ends_of_a_pair_have_one_chain_and_no_other_pair_has_it() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let [a, b, c] = [(); 3].map(|()| PairKey::draw(&mut rng));
        let mut here = a.chain(b.public(), &[5; 32], 3, 1);
        let mut there = b.chain(a.public(), &[5; 32], 1, 3);
        let mut seen = vec![];
        for round in 1..4 {
            assert_eq!((here.round(), here.key()), (round, there.key()));
            assert_eq!(here.once_key(), there.once_key());
            seen.extend([*here.key(), *here.once_key()]);
            here.advance();
            there.advance();
        }
        let others = [
            a.chain(c.public(), &[5; 32], 3, 1),
            a.chain(b.public(), &[6; 32], 3, 1),
            // Parties 2 and 4 repeat the key of another, and party 1 the one of party 3.
            a.chain(b.public(), &[5; 32], 3, 2),
            a.chain(b.public(), &[5; 32], 4, 1),
            a.chain(a.public(), &[5; 32], 3, 1),
        ];
        seen.extend(others.iter().map(|chain| *chain.key()));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn keys_follow_from_the_generator_alone() {
        let draw = |seed| *RunKey::draw(&mut ChaCha8Rng::seed_from_u64(seed)).public();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn incarnations_cover_both_keys_and_the_number_of_records() {
        let (key, pair) = ([1; 32], [2; 32]);
        let all = [
            incarnation(&key, None, None),
            incarnation(&pair, None, None),
            incarnation(&key, Some(&pair), None),
            incarnation(&pair, Some(&key), None),
            incarnation(&key, Some(&key), None),
            incarnation(&key, None, Some(1)),
            incarnation(&key, None, Some(2)),
            incarnation(&key, Some(&pair), Some(1)),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
