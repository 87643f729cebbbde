//! Two of the reference vectors, computed by an independent program: keys, letters, deals and masks
//! to the byte. The example `reference_vectors` answers all of them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rand::rand_core::{TryCryptoRng, TryRng};
use serde::Deserialize;

use crate::lattice::residue::{ResidueVector, Ring};
use crate::sealing::deal::{Deal, Polynomial, Secret};
use crate::sealing::letter::{self, Envelope};
use crate::sealing::mask::{EVERYBODY, MaskKey, MaskPlace};
use crate::sealing::run_key::{PairKey, RunKey, incarnation};

type Named<T> = BTreeMap<usize, T>;

#[derive(Deserialize)]
struct Vectors {
    digest: String,
    parties: usize,
    threshold: usize,
    coefficients: Vec<String>,
    commitments: Vec<String>,
    shares: Named<String>,
    recovered: String,
    run_secrets: Vec<String>,
    run_keys: Vec<String>,
    pair_secrets: Vec<String>,
    pair_keys: Vec<String>,
    incarnations: Vec<String>,
    incarnations_without_pair_keys: Vec<String>,
    ephemeral: String,
    letter_0_to_1: String,
    secrets: Named<String>,
    pair_round_keys: BTreeMap<String, String>,
    width: usize,
    round: u32,
    circle: u32,
    values: Named<Vec<i128>>,
    masked: Named<String>,
    sealed_0: String,
    absent: Vec<usize>,
    sum: Vec<i128>,
    less_one: Named<Vec<i128>>,
    pair_chain_0_1: Vec<[String; 2]>,
}

fn vectors() -> Vec<Vectors> {
    serde_json::from_str(include_str!("vectors.json")).expect("they are written so")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> [u8; 32] {
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
}

/// A generator that gives the ephemeral key of the vectors and nothing else.
struct Given([u8; 32]);

impl TryRng for Given {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("keys are drawn as bytes")
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("keys are drawn as bytes")
    }
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        to.copy_from_slice(&self.0);
        Ok(())
    }
}

impl TryCryptoRng for Given {}

#[test]
fn run_keys_and_incarnations() {
    for of in vectors() {
        for party in 0..of.parties {
            let key = RunKey::from_secret(bytes(&of.run_secrets[party]));
            let pair = PairKey::from_secret(bytes(&of.pair_secrets[party]));
            assert_eq!(hex(key.public()), of.run_keys[party]);
            assert_eq!(hex(pair.public()), of.pair_keys[party]);
            let with = incarnation(key.public(), Some(pair.public()), None);
            assert_eq!(hex(&with), of.incarnations[party]);
            let alone = incarnation(key.public(), None, None);
            assert_eq!(hex(&alone), of.incarnations_without_pair_keys[party]);
        }
    }
}

#[test]
fn deals() {
    for of in vectors() {
        let coefficients: Vec<[u8; 32]> = of.coefficients.iter().map(|c| bytes(c)).collect();
        let polynomial = Polynomial::from_coefficients(&coefficients).expect("canonical");
        let commitments = polynomial.commitments();
        let found: Vec<String> = commitments.iter().map(|c| hex(c)).collect();
        assert_eq!(found, of.commitments);
        let deal = Deal {
            commitments,
            letters: vec![],
        };
        let deal = deal.check(of.threshold, 0).expect("a sound deal");
        for (party, share) in &of.shares {
            assert_eq!(hex(&*polynomial.share(*party)), *share);
            assert_eq!(deal.check_share(*party, &bytes(share)), Ok(()));
        }
        let last = of.shares.iter().rev().take(of.threshold);
        let last = last.map(|(party, share)| (*party, bytes(share))).collect();
        let recovered = deal.recover(&last).expect("enough shares");
        assert_eq!(hex(&*recovered.to_bytes()), of.recovered);
    }
}

#[test]
fn letters() {
    for of in vectors() {
        let [writer, reader] = [0, 1].map(|party| RunKey::from_secret(bytes(&of.run_secrets[party])));
        let digest = bytes(&of.digest);
        let envelope = Envelope {
            digest: &digest,
            round: of.round,
            from: 0,
            to: 1,
        };
        let share = bytes(&of.shares[&1]);
        let mut given = Given(bytes(&of.ephemeral));
        let letter = letter::write(&writer, reader.public(), &envelope, &share, &mut given);
        assert_eq!(hex(&letter), of.letter_0_to_1);
        let read = letter::read(&reader, writer.public(), &envelope, &letter);
        assert_eq!(read.map(|read| *read), Some(share));
    }
}

#[test]
fn chains_of_pairs() {
    for of in vectors() {
        let digest = bytes(&of.digest);
        let keys: Vec<PairKey> = of
            .pair_secrets
            .iter()
            .map(|s| PairKey::from_secret(bytes(s)))
            .collect();
        let mut chain = keys[0].chain(keys[1].public(), &digest, 0, 1);
        for [key, once_key] in &of.pair_chain_0_1 {
            assert_eq!(
                [hex(chain.key()), hex(&*chain.once_key())],
                [key.clone(), once_key.clone()]
            );
            chain.advance();
        }
        for absent in &of.absent {
            for other in (0..of.parties).filter(|other| !of.absent.contains(other)) {
                let mut chain = keys[*absent].chain(keys[other].public(), &digest, *absent, other);
                (1..of.round).for_each(|_| chain.advance());
                let name = format!("{},{}", other.min(*absent), other.max(*absent));
                assert_eq!(hex(&*chain.once_key()), of.pair_round_keys[&name]);
            }
        }
    }
}

fn value(of: &Vectors, party: usize) -> ResidueVector {
    let ring = Ring::even(of.width).expect("a width");
    ResidueVector::of(ring, of.values[&party].iter().copied())
}

fn own_mask(of: &Vectors, author: usize, circle: u32) -> MaskKey {
    let (digest, round) = (bytes(&of.digest), of.round);
    let secret = Secret::from_bytes(&bytes(&of.secrets[&author])).expect("canonical");
    let place = MaskPlace {
        digest: &digest,
        author,
        round,
        circle,
    };
    MaskKey::own(&secret, &place)
}

/// Adds the mask of two parties, with the first one's sign.
fn add_pair_mask(of: &Vectors, own: usize, other: usize, to: &mut ResidueVector) {
    let key = |party: usize| PairKey::from_secret(bytes(&of.pair_secrets[party]));
    let mut chain = key(own).chain(key(other).public(), &bytes(&of.digest), own, other);
    (1..of.round).for_each(|_| chain.advance());
    let mask = MaskKey::pair(&chain.once_key(), of.circle);
    let done = if own < other {
        mask.add_to(to)
    } else {
        mask.subtract_from(to)
    };
    done.expect("short");
}

#[test]
fn masks() {
    for of in vectors() {
        let mut alone = value(&of, 0);
        own_mask(&of, 0, EVERYBODY).add_to(&mut alone).expect("short");
        assert_eq!(hex(&alone.to_bytes()), of.sealed_0);
        for own in 0..of.parties {
            let mut vector = value(&of, own);
            own_mask(&of, own, of.circle).add_to(&mut vector).expect("short");
            for other in (0..of.parties).filter(|other| *other != own) {
                add_pair_mask(&of, own, other, &mut vector);
            }
            assert_eq!(hex(&vector.to_bytes()), of.masked[&own]);
        }
    }
}

#[test]
fn sums_are_opened_for_those_who_are_there() {
    for of in vectors() {
        let ring = Ring::even(of.width).expect("a width");
        let mut sum = ResidueVector::zeros(ring, of.sum.len());
        for own in (0..of.parties).filter(|party| !of.absent.contains(party)) {
            let masked: Vec<u8> = of.masked[&own]
                .as_bytes()
                .chunks(2)
                .map(|byte| u8::from_str_radix(str::from_utf8(byte).expect("hex"), 16).expect("hex"))
                .collect();
            let masked = ResidueVector::from_bytes(ring, of.sum.len(), &masked);
            sum.add(&masked.expect("canonical"));
            own_mask(&of, own, of.circle)
                .subtract_from(&mut sum)
                .expect("short");
            // The absent one's sign takes out what this one put in.
            of.absent
                .iter()
                .for_each(|absent| add_pair_mask(&of, *absent, own, &mut sum));
        }
        assert_eq!(sum.lifted().collect::<Vec<_>>(), of.sum);
    }
}

#[test]
fn words_of_the_odd_ring() {
    for of in vectors() {
        for (width, words) in &of.less_one {
            let ring = Ring::odd(*width).expect("a width");
            let mut vector = ResidueVector::zeros(ring, words.len());
            let key = MaskKey::once(bytes(&of.secrets[&0]));
            key.add_to(&mut vector).expect("short");
            let found: Vec<i128> = vector.residues().map(|residue| residue as i128).collect();
            assert_eq!(found, *words);
        }
    }
}
