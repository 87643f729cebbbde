//! Keys, deals, letters, chains and masks, in bytes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;

use rand::rand_core::{TryCryptoRng, TryRng};
use serde::Deserialize;
use serde_json::{Value, from_value, json};
use undertone_protocol::lattice::residue::{ResidueVector, Ring};
use undertone_protocol::sealing::deal::{Deal, Polynomial, Secret};
use undertone_protocol::sealing::letter::{self, Envelope};
use undertone_protocol::sealing::mask::{EVERYBODY, MaskKey, MaskPlace, MaskTooLong};
use undertone_protocol::sealing::run_key::{PairChain, PairKey, RunKey, incarnation};

use crate::Answer;

type Bytes = [u8; 32];

pub(crate) fn answer(given: &Value) -> Answer {
    from_value::<Given>(given.clone())?.answer()
}

/// An input vector of `crypto`: `values` and `secrets` by party, coefficients of party 0's deal,
/// the ephemeral key of its letter to party 1.
#[derive(Deserialize)]
struct Given {
    digest: String,
    parties: usize,
    threshold: usize,
    coefficients: Vec<String>,
    run_secrets: Vec<String>,
    pair_secrets: Vec<String>,
    ephemeral: String,
    secrets: BTreeMap<usize, String>,
    width: usize,
    round: u32,
    circle: u32,
    values: BTreeMap<usize, Vec<i128>>,
    absent: Vec<usize>,
}

impl Given {
    fn answer(&self) -> Answer {
        let mut answer = self.keys()?;
        for part in [self.deal()?, self.letter()?, self.chains()?, self.masks()?] {
            let (Value::Object(answer), Value::Object(part)) = (&mut answer, part) else {
                return Err("answers are objects".into());
            };
            answer.extend(part);
        }
        Ok(answer)
    }

    fn run_keys(&self) -> Result<Vec<RunKey>, Box<dyn Error>> {
        let keys = self
            .run_secrets
            .iter()
            .map(|secret| Ok(RunKey::from_secret(bytes(secret)?)));
        keys.collect()
    }

    fn pair_keys(&self) -> Result<Vec<PairKey>, Box<dyn Error>> {
        let keys = self
            .pair_secrets
            .iter()
            .map(|secret| Ok(PairKey::from_secret(bytes(secret)?)));
        keys.collect()
    }

    fn keys(&self) -> Answer {
        let (run, pair) = (self.run_keys()?, self.pair_keys()?);
        let both = run.iter().zip(&pair);
        let both = both.map(|(run, pair)| hex(&incarnation(run.public(), Some(pair.public()), None)));
        let alone = run.iter().map(|run| hex(&incarnation(run.public(), None, None)));
        Ok(json!({
            "run_keys": run.iter().map(|key| hex(key.public())).collect::<Vec<_>>(),
            "pair_keys": pair.iter().map(|key| hex(key.public())).collect::<Vec<_>>(),
            "incarnations": both.collect::<Vec<_>>(),
            "incarnations_without_pair_keys": alone.collect::<Vec<_>>(),
        }))
    }

    fn polynomial(&self) -> Result<Polynomial, Box<dyn Error>> {
        let coefficients = self.coefficients.iter().map(|coefficient| bytes(coefficient));
        let coefficients = coefficients.collect::<Result<Vec<Bytes>, _>>()?;
        Ok(Polynomial::from_coefficients(&coefficients).ok_or("coefficients are canonical")?)
    }

    /// All shares, and the secret from the last of them.
    fn deal(&self) -> Answer {
        let polynomial = self.polynomial()?;
        let commitments = polynomial.commitments();
        let (shown, letters) = (commitments.iter().map(|c| hex(c)).collect::<Vec<_>>(), vec![]);
        let deal = Deal { commitments, letters }.check(self.threshold, 0)?;
        let share = |party| (party, *polynomial.share(party));
        let shares: BTreeMap<usize, Bytes> = (0..self.parties).map(share).collect();
        let last = (self.parties.saturating_sub(self.threshold)..self.parties).map(share);
        let recovered = deal.recover(&last.collect())?;
        Ok(json!({
            "commitments": shown,
            "shares": shares.iter().map(|(party, share)| (party, hex(share))).collect::<BTreeMap<_, _>>(),
            "recovered": hex(&*recovered.to_bytes()),
        }))
    }

    fn letter(&self) -> Answer {
        let (keys, digest) = (self.run_keys()?, bytes(&self.digest)?);
        let [writer, reader, ..] = &keys[..] else {
            return Err("a letter takes two parties".into());
        };
        let envelope = Envelope {
            digest: &digest,
            round: self.round,
            from: 0,
            to: 1,
        };
        let mut ephemeral = Ephemeral(bytes(&self.ephemeral)?);
        let share = self.polynomial()?.share(1);
        let letter = letter::write(writer, reader.public(), &envelope, &share, &mut ephemeral);
        let read = letter::read(reader, writer.public(), &envelope, &letter);
        if read != Some(share) {
            return Err("the letter does not open".into());
        }
        Ok(json!({ "letter_0_to_1": hex(&letter) }))
    }

    /// The chain of two parties at a round.
    fn chain(&self, own: usize, other: usize, round: u32) -> Result<PairChain, Box<dyn Error>> {
        let (keys, digest) = (self.pair_keys()?, bytes(&self.digest)?);
        let mut chain = keys[own].chain(keys[other].public(), &digest, own, other);
        (1..round).for_each(|_| chain.advance());
        Ok(chain)
    }

    fn chains(&self) -> Answer {
        let mut reported = BTreeMap::new();
        for &absent in &self.absent {
            for there in self.there() {
                let name = format!("{},{}", absent.min(there), absent.max(there));
                reported.insert(name, hex(&*self.chain(absent, there, self.round)?.once_key()));
            }
        }
        let rounds = (1..=3).map(|round| self.chain(1, 0, round));
        let rounds = rounds.map(|chain| chain.map(|chain| [hex(chain.key()), hex(&*chain.once_key())]));
        Ok(json!({
            "pair_round_keys": reported,
            "pair_chain_0_1": rounds.collect::<Result<Vec<_>, _>>()?,
        }))
    }

    fn there(&self) -> impl Iterator<Item = usize> {
        (0..self.parties).filter(|party| !self.absent.contains(party))
    }

    fn own_mask(&self, author: usize, circle: u32) -> Result<MaskKey, Box<dyn Error>> {
        let (digest, round) = (bytes(&self.digest)?, self.round);
        let place = MaskPlace {
            digest: &digest,
            author,
            round,
            circle,
        };
        Ok(MaskKey::own(&self.secret(author)?, &place))
    }

    fn secret(&self, party: usize) -> Result<Secret, Box<dyn Error>> {
        let secret = self.secrets.get(&party).ok_or("a party has a secret")?;
        Ok(Secret::from_bytes(&bytes(secret)?).ok_or("a secret is canonical")?)
    }

    /// The mask of two parties, with the first one's sign.
    fn pair_mask(&self, own: usize, other: usize, to: &mut ResidueVector) -> Result<(), Box<dyn Error>> {
        let key = MaskKey::pair(&self.chain(own, other, self.round)?.once_key(), self.circle);
        Ok(signed(&key, own < other, to)?)
    }

    /// Masks everybody's values, and opens the sum of those who are there.
    fn masks(&self) -> Answer {
        let ring = Ring::even(self.width).ok_or("residues have 1 to 16 bytes")?;
        let value = |party: usize| -> Result<ResidueVector, Box<dyn Error>> {
            let value = self.values.get(&party).ok_or("a party has values")?;
            Ok(ResidueVector::of(ring, value.iter().copied()))
        };
        let mut masked = BTreeMap::new();
        for own in 0..self.parties {
            let mut vector = value(own)?;
            self.own_mask(own, self.circle)?.add_to(&mut vector)?;
            for other in (0..self.parties).filter(|&other| other != own) {
                self.pair_mask(own, other, &mut vector)?;
            }
            masked.insert(own, vector);
        }
        let mut sum = ResidueVector::zeros(ring, value(0)?.len());
        for own in self.there() {
            sum.add(&masked[&own]);
            self.own_mask(own, self.circle)?.subtract_from(&mut sum)?;
            for &absent in &self.absent {
                // The other sign: what `own` added or subtracted goes out again.
                self.pair_mask(absent, own, &mut sum)?;
            }
        }
        let mut sealed = value(0)?;
        self.own_mask(0, EVERYBODY)?.add_to(&mut sealed)?;
        let masked = masked
            .iter()
            .map(|(party, vector)| (party, hex(&vector.to_bytes())));
        Ok(json!({
            "masked": masked.collect::<BTreeMap<_, _>>(),
            "sealed_0": hex(&sealed.to_bytes()),
            "sum": sum.lifted().map(|sum| sum as i64).collect::<Vec<_>>(),
            "less_one": self.less_one()?,
        }))
    }

    /// The first 300 residues of the stream under party 0's secret, by width, in the odd rings.
    fn less_one(&self) -> Answer {
        let key = MaskKey::once(*self.secret(0)?.to_bytes());
        let mut words = BTreeMap::new();
        for width in [1, 3] {
            let mut vector = ResidueVector::zeros(Ring::odd(width).ok_or("a width")?, 300);
            key.add_to(&mut vector)?;
            words.insert(
                width,
                vector.residues().map(|word| word as u64).collect::<Vec<_>>(),
            );
        }
        Ok(json!(words))
    }
}

fn signed(key: &MaskKey, plus: bool, to: &mut ResidueVector) -> Result<(), MaskTooLong> {
    if plus {
        key.add_to(to)
    } else {
        key.subtract_from(to)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Bytes, Box<dyn Error>> {
    let byte = |at| {
        hex.get(at..at + 2)
            .and_then(|byte| u8::from_str_radix(byte, 16).ok())
    };
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("{hex} is not 32 bytes in hexadecimal").into())
}

/// A generator that gives the ephemeral key of a vector and nothing else.
struct Ephemeral(Bytes);

impl TryRng for Ephemeral {
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

impl TryCryptoRng for Ephemeral {}
