//! Deals: a secret shared out so that any t shares make it known, fewer tell nothing of it, and
//! anybody can check a share (Feldman's scheme over ristretto255).
//!
//! The secret K is a scalar and f(x) = K + a₁x + … of degree t − 1 has uniformly random
//! coefficients. With the group's base point B the commitments are A₀ = K·B, A₁ = a₁·B, …; party
//! k's share is f(k + 1), and share·B = Σ (k + 1)^m A_m. So no dealer makes different holders open
//! different things, and no holder passes a wrong share. Scalars and points are read in their one
//! canonical encoding only.

use std::collections::BTreeMap;

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::sealing::letter::{self, Envelope, LETTER_BYTES};
use crate::sealing::run_key::RunKey;
use crate::topology::party::Party;

/// An error in a deal, or in a secret or share that should belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DealError {
    /// Not as many commitments as the threshold.
    #[error("{found} commitments, expected {expected}")]
    Commitments {
        /// The number there.
        found: usize,
        /// The threshold t.
        expected: usize,
    },
    /// Not as many letters as holders.
    #[error("{found} letters, expected {expected}")]
    Letters {
        /// The number there.
        found: usize,
        /// The number of holders h.
        expected: usize,
    },
    /// A commitment that is no point of the group in its canonical encoding.
    #[error("commitment {index} is no point")]
    Point {
        /// The first such commitment.
        index: usize,
    },
    /// A secret or share that is no scalar in its canonical encoding.
    #[error("it is no scalar")]
    Scalar,
    /// A secret that is not the one that was dealt.
    #[error("it is not the secret that was dealt")]
    Secret,
    /// A letter that does not open for its reader.
    #[error("the letter to party {holder} does not open")]
    Letter {
        /// The holder that the letter is for.
        holder: Party,
    },
    /// A share that its commitments contradict.
    #[error("it is not party {holder}'s share")]
    Share {
        /// The holder that the share is for.
        holder: Party,
    },
    /// Fewer good shares than the threshold.
    #[error("{found} of {needed} shares")]
    Few {
        /// Good shares.
        found: usize,
        /// The threshold t.
        needed: usize,
    },
}

/// The deal of a party: public, a part of its log.
///
/// Read from bytes, it has as many commitments and letters as these say: whoever reads it limits
/// the bytes first, and [checks](Deal::check) the numbers before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DealParts", into = "DealParts")]
pub struct Deal {
    /// A₀ … A_(t−1), compressed.
    pub commitments: Vec<[u8; 32]>,
    /// A letter to each holder with its share, in the order of holders.
    pub letters: Vec<[u8; LETTER_BYTES]>,
}

/// A letter in pieces that serde knows the lengths of.
#[derive(Serialize, Deserialize)]
struct LetterParts([u8; 32], [u8; 32], [u8; 16]);

/// A deal as it is written: all letters in a row, without lengths of their own.
#[derive(Serialize, Deserialize)]
struct DealParts {
    commitments: Vec<[u8; 32]>,
    letters: Vec<LetterParts>,
}

impl From<LetterParts> for [u8; LETTER_BYTES] {
    fn from(LetterParts(key, share, tag): LetterParts) -> Self {
        let mut letter = [0; LETTER_BYTES];
        letter[..32].copy_from_slice(&key);
        letter[32..64].copy_from_slice(&share);
        letter[64..].copy_from_slice(&tag);
        letter
    }
}

impl From<[u8; LETTER_BYTES]> for LetterParts {
    fn from(letter: [u8; LETTER_BYTES]) -> Self {
        let mut parts = LetterParts([0; 32], [0; 32], [0; 16]);
        parts.0.copy_from_slice(&letter[..32]);
        parts.1.copy_from_slice(&letter[32..64]);
        parts.2.copy_from_slice(&letter[64..]);
        parts
    }
}

impl From<DealParts> for Deal {
    fn from(DealParts { commitments, letters }: DealParts) -> Self {
        let letters = letters.into_iter().map(Into::into).collect();
        Deal { commitments, letters }
    }
}

impl From<Deal> for DealParts {
    fn from(Deal { commitments, letters }: Deal) -> Self {
        let letters = letters.into_iter().map(Into::into).collect();
        DealParts { commitments, letters }
    }
}

impl Deal {
    /// Checks that there are exactly t commitments, all of them points, and exactly h letters. What
    /// is in the letters only their readers find out.
    pub fn check(&self, threshold: usize, holders: usize) -> Result<CheckedDeal, DealError> {
        // The counts come first: decompressing a point costs far more than comparing lengths, and
        // the deal is from a peer that may lie.
        let (found, expected) = (self.commitments.len(), threshold);
        if found != expected || expected == 0 {
            return Err(DealError::Commitments { found, expected });
        }
        let (found, expected) = (self.letters.len(), holders);
        if found != expected {
            return Err(DealError::Letters { found, expected });
        }
        let point = |(index, bytes): (usize, &[u8; 32])| {
            let point = CompressedRistretto(*bytes).decompress();
            point.ok_or(DealError::Point { index })
        };
        let points = self.commitments.iter().enumerate().map(point);
        Ok(CheckedDeal {
            points: points.collect::<Result<_, _>>()?,
        })
    }
}

/// The commitments of a deal that was found to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDeal {
    points: Vec<RistrettoPoint>,
}

impl CheckedDeal {
    /// The number of shares t that make the secret known.
    pub fn threshold(&self) -> usize {
        self.points.len()
    }

    /// The secret of these bytes, if it is the one that was dealt: K·B = A₀.
    pub fn secret(&self, bytes: &[u8; 32]) -> Result<Secret, DealError> {
        let secret = Secret::from_bytes(bytes).ok_or(DealError::Scalar)?;
        // A holder that reveals another secret would give everybody another mask to take out.
        if RistrettoPoint::mul_base(&secret.0) == self.points[0] {
            Ok(secret)
        } else {
            Err(DealError::Secret)
        }
    }

    /// Checks that these bytes are a party's share.
    pub fn check_share(&self, holder: Party, bytes: &[u8; 32]) -> Result<(), DealError> {
        self.share(holder, bytes).map(|_| ())
    }

    fn share(&self, holder: Party, bytes: &[u8; 32]) -> Result<Zeroizing<Scalar>, DealError> {
        let share = scalar(bytes).ok_or(DealError::Scalar)?;
        // Horner's rule, from the highest coefficient down.
        let claimed = self.points.iter().rev();
        let claimed = claimed.fold(RistrettoPoint::identity(), |sum, point| {
            multiple(&sum, place(holder)) + point
        });
        if RistrettoPoint::mul_base(&share) == claimed {
            Ok(share)
        } else {
            Err(DealError::Share { holder })
        }
    }

    /// The secret from the shares of any t holders; bad ones among them count as none.
    pub fn recover(&self, shares: &BTreeMap<Party, [u8; 32]>) -> Result<Secret, DealError> {
        let good = shares.iter().filter_map(|(&holder, bytes)| {
            let share = self.share(holder, bytes).ok()?;
            Some((Scalar::from(place(holder)), share))
        });
        // The iterator is lazy: no share beyond the threshold is checked, since each costs t small
        // multiples of points.
        let good: Vec<(Scalar, Zeroizing<Scalar>)> = good.take(self.threshold()).collect();
        let (found, needed) = (good.len(), self.threshold());
        if found < needed {
            return Err(DealError::Few { found, needed });
        }
        let secret = Secret(Zeroizing::new(at_zero(&good)));
        // Good shares lie on the polynomial that was committed to: this cannot fail.
        self.secret(&secret.to_bytes())
    }
}

/// The value at 0 of the polynomial through these points, whose places differ (Lagrange).
fn at_zero(points: &[(Scalar, Zeroizing<Scalar>)]) -> Scalar {
    let weight = |of: &Scalar| {
        let others = points.iter().map(|(place, _)| place).filter(|place| *place != of);
        let (over, under) = others.fold((Scalar::ONE, Scalar::ONE), |(over, under), place| {
            (over * place, under * (place - of))
        });
        // Places differ, so that no factor of `under` is zero.
        over * under.invert()
    };
    points.iter().map(|(place, share)| weight(place) * **share).sum()
}

/// Returns the argument at which f is evaluated for a party.
fn place(party: Party) -> u64 {
    // Never 0: f(0) is the secret itself. A plan has far fewer parties than this holds.
    (party as u64).saturating_add(1)
}

/// A small multiple of a public point, by doubling: a fraction of what a scalar's 253 bits take.
fn multiple(point: &RistrettoPoint, times: u64) -> RistrettoPoint {
    let bits = (0..u64::BITS - times.leading_zeros()).rev();
    bits.fold(RistrettoPoint::identity(), |sum, bit| {
        let double = sum + sum;
        if times >> bit & 1 == 1 {
            double + point
        } else {
            double
        }
    })
}

fn scalar(bytes: &[u8; 32]) -> Option<Zeroizing<Scalar>> {
    // One encoding only: equal secrets and shares are equal bytes.
    let scalar: Option<Scalar> = Scalar::from_canonical_bytes(*bytes).into();
    scalar.map(Zeroizing::new)
}

/// A party's secret K, from which its own mask follows; wiped when it is dropped, never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Scalar>);

impl Secret {
    /// The secret with this encoding, if it is canonical.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        scalar(bytes).map(Secret)
    }

    /// Its one encoding.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

/// The polynomial of a deal; wiped when it is dropped, never printed.
pub struct Polynomial(Zeroizing<Vec<Scalar>>);

impl Polynomial {
    /// Draws one uniformly of degree `threshold` − 1; the threshold is at least 1.
    pub fn draw(threshold: usize, rng: &mut impl CryptoRng) -> Self {
        assert!(threshold >= 1, "a plan's threshold is at least 1");
        let mut wide = Zeroizing::new([0; 64]);
        let mut coefficients = Zeroizing::new(Vec::with_capacity(threshold));
        for _ in 0..threshold {
            // 512 bits modulo the group's order are as good as uniform; 256 bits would not be.
            rng.fill_bytes(&mut *wide);
            coefficients.push(Scalar::from_bytes_mod_order_wide(&wide));
        }
        Polynomial(coefficients)
    }

    /// The one with these coefficients, lowest first, if there are any and all are canonical.
    pub fn from_coefficients(coefficients: &[[u8; 32]]) -> Option<Self> {
        let scalars = coefficients
            .iter()
            .map(|bytes| scalar(bytes).map(|scalar| *scalar));
        let scalars: Option<Vec<Scalar>> = scalars.collect();
        let scalars = scalars.filter(|scalars| !scalars.is_empty())?;
        Some(Polynomial(Zeroizing::new(scalars)))
    }

    /// K.
    pub fn secret(&self) -> Secret {
        Secret(Zeroizing::new(self.0[0]))
    }

    /// A₀ … A_(t−1), compressed.
    pub fn commitments(&self) -> Vec<[u8; 32]> {
        let commitment = |coefficient| RistrettoPoint::mul_base(coefficient).compress().to_bytes();
        self.0.iter().map(commitment).collect()
    }

    /// Returns the share that a party would hold.
    pub fn share(&self, holder: Party) -> Zeroizing<[u8; 32]> {
        let place = Scalar::from(place(holder));
        let coefficients = self.0.iter().rev();
        let value = coefficients.fold(Scalar::ZERO, |value, coefficient| value * place + coefficient);
        Zeroizing::new(Zeroizing::new(value).to_bytes())
    }
}

/// The context in which a deal is made.
#[derive(Clone, Copy)]
pub struct Dealer<'a> {
    /// The dealer's run key.
    pub key: &'a RunKey,
    /// The dealer.
    pub party: Party,
    /// The digest of the plan.
    pub digest: &'a [u8; 32],
    /// The round; 0 in a run of one result.
    pub round: u32,
}

impl Dealer<'_> {
    /// Draws a secret and deals it to holders, given with their run keys, in their order.
    pub fn deal(
        &self,
        threshold: usize,
        holders: &[(Party, [u8; 32])],
        rng: &mut impl CryptoRng,
    ) -> (Secret, Deal) {
        let polynomial = Polynomial::draw(threshold, rng);
        let write = |&(to, key): &(Party, [u8; 32])| {
            let envelope = Envelope {
                digest: self.digest,
                round: self.round,
                from: self.party,
                to,
            };
            letter::write(self.key, &key, &envelope, &polynomial.share(to), rng)
        };
        let letters = holders.iter().map(write).collect();
        let commitments = polynomial.commitments();
        (polynomial.secret(), Deal { commitments, letters })
    }
}

#[cfg(test)]
mod tests;
