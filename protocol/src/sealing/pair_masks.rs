//! The masks of pairs in the secure sum of everybody (`kind = "pairwise"`).
//!
//! A sealed vector has, besides its party's own mask, one mask for each neighbour of the mask graph
//! that has started: the lower party of a pair adds it, the higher one subtracts it, so that it
//! cancels in the sum of both. Where only one of them is in the set that is opened, that one makes
//! the mask's key known, and everybody takes the mask out.

use std::collections::{BTreeMap, BTreeSet};

use crate::lattice::residue::ResidueVector;
use crate::sealing::mask::{MaskKey, MaskTooLong};
use crate::sealing::run_key::{PairChain, PairKey};
use crate::topology::party::Party;

/// Bytes of the key of one mask.
pub const KEY_BYTES: usize = 32;

/// A party's masks with its neighbours, for the present round of its chains; wiped when dropped.
pub struct PairMasks {
    me: Party,
    chains: BTreeMap<Party, PairChain>,
}

impl PairMasks {
    /// The masks of `me` with each of `others`, by their public pair keys, in the plan with a
    /// digest. The secret of its own pair key is wiped.
    pub fn of(me: Party, pair: PairKey, digest: &[u8; 32], others: &BTreeMap<Party, [u8; 32]>) -> Self {
        let chain = |(&other, key): (&Party, &[u8; 32])| (other, pair.chain(key, digest, me, other));
        PairMasks {
            me,
            chains: others.iter().map(chain).collect(),
        }
    }

    /// Masks a vector for its sealing.
    ///
    /// # Errors
    /// The vector is longer than a mask: no plan's is.
    pub fn add_to(&self, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
        let mut chains = self.chains.iter();
        chains.try_for_each(|(&other, chain)| {
            // Both ends compare the same two numbers, so that one adds and the other subtracts.
            let mask = MaskKey::once(*chain.once_key());
            apply(&mask, self.me < other, vector)
        })
    }

    /// Masks one slice of a vector for its sealing.
    ///
    /// # Errors
    /// The slice is longer than a mask: no plan's is.
    pub fn add_to_slice(&self, slice: u32, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
        let mut chains = self.chains.iter();
        chains.try_for_each(|(&other, chain)| {
            let mask = MaskKey::once(*chain.once_key()).pair_slice(slice);
            apply(&mask, self.me < other, vector)
        })
    }

    /// Whether there is a mask with each of these: a vector that lacks one is nobody's to send.
    pub fn are_with_all(&self, mut others: impl Iterator<Item = Party>) -> bool {
        others.all(|other| self.chains.contains_key(&other))
    }

    /// Masks a vector for the circle of one reader: with each of `others`, who are in it, too, and
    /// with whom [there are masks](PairMasks::are_with_all).
    ///
    /// # Errors
    /// The vector is longer than a mask: no plan's is.
    pub fn add_in_circle(
        &self,
        circle: u32,
        others: impl Iterator<Item = Party>,
        vector: &mut ResidueVector,
    ) -> Result<(), MaskTooLong> {
        let mut chains = others.filter_map(|other| Some((other, self.chains.get(&other)?)));
        chains.try_for_each(|(other, chain)| {
            // A pair may be in several circles: with one mask for all, the difference of two sums
            // would be free of it.
            let mask = MaskKey::pair(&chain.once_key(), circle);
            apply(&mask, self.me < other, vector)
        })
    }

    /// Goes on to the masks of the next round; the keys of this one are wiped.
    pub fn advance(&mut self) {
        self.chains.values_mut().for_each(PairChain::advance);
    }

    /// Forgets the masks with all but these.
    pub fn retain(&mut self, parties: &BTreeSet<Party>) {
        self.chains.retain(|other, _| parties.contains(other));
    }

    /// The keys of the chains, which make all masks to come.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = [u8; 32]> {
        self.chains.values().map(|chain| *chain.key())
    }

    /// The keys of the masks with these neighbours, in their order: what this party tells of those
    /// of them that are left out. `None` if one of them is no neighbour. A key tells one mask; no
    /// later one follows from it.
    pub fn reveal(&self, with: &[Party]) -> Option<Vec<u8>> {
        let key = |other: &Party| Some(*self.chains.get(other)?.once_key());
        // All or none: a receiver reads the keys by their places.
        let keys: Vec<[u8; KEY_BYTES]> = with.iter().map(key).collect::<Option<_>>()?;
        Some(keys.concat())
    }
}

/// Takes out of a sum that has the vector of `giver` its masks with these neighbours, whose vectors
/// are not in it: `keys` is what `giver` has revealed of them.
///
/// # Errors
/// The vector is longer than a mask: no plan's is.
pub fn take_out(
    sum: &mut ResidueVector,
    giver: Party,
    with: &[Party],
    keys: &[u8],
) -> Result<(), MaskTooLong> {
    let (keys, _) = keys.as_chunks::<KEY_BYTES>();
    with.iter()
        .zip(keys)
        .try_for_each(|(&other, key)| apply(&MaskKey::once(*key), giver > other, sum))
}

/// Takes out of one slice of a sum, as [`take_out`] does of a whole one.
///
/// # Errors
/// The slice is longer than a mask: no plan's is.
pub fn take_out_of_slice(
    sum: &mut ResidueVector,
    (slice, giver): (u32, Party),
    with: &[Party],
    keys: &[u8],
) -> Result<(), MaskTooLong> {
    let (keys, _) = keys.as_chunks::<KEY_BYTES>();
    with.iter().zip(keys).try_for_each(|(&other, key)| {
        let mask = MaskKey::once(*key).pair_slice(slice);
        apply(&mask, giver > other, sum)
    })
}

/// Takes out of the sum of a circle, which has the vector of `giver`, its masks with those of
/// `with` for whom `masked` holds: the others are in no circle of this reader. `keys` is what
/// `giver` has revealed, of all of `with`.
///
/// # Errors
/// The vector is longer than a mask: no plan's is.
pub fn take_out_of_circle(
    sum: &mut ResidueVector,
    (circle, giver): (u32, Party),
    (with, keys): (&[Party], &[u8]),
    masked: impl Fn(&Party) -> bool,
) -> Result<(), MaskTooLong> {
    let (keys, _) = keys.as_chunks::<KEY_BYTES>();
    let mut of_circle = with.iter().zip(keys).filter(|(other, _)| masked(other));
    of_circle.try_for_each(|(&other, key)| apply(&MaskKey::pair(key, circle), giver > other, sum))
}

fn apply(mask: &MaskKey, plus: bool, vector: &mut ResidueVector) -> Result<(), MaskTooLong> {
    if plus {
        mask.add_to(vector)
    } else {
        mask.subtract_from(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::residue::Ring;

    const DIGEST: [u8; 32] = [9; 32];

    fn ring() -> Ring {
        Ring::even(3).expect("a width")
    }

    fn value(party: Party) -> ResidueVector {
        ResidueVector::of(ring(), (0..200).map(|at| (party * 1000 + at) as i128 - 900))
    }

    /// The masks of each of four parties, of whom each two are neighbours but 0 and 3.
    fn masks() -> Vec<PairMasks> {
        let pair = |party: Party| PairKey::from_secret([party as u8 + 1; 32]);
        let of = |me: Party| {
            let others = (0..4).filter(|&other| other != me && other + me != 3);
            let keys = others.map(|other| (other, *pair(other).public())).collect();
            PairMasks::of(me, pair(me), &DIGEST, &keys)
        };
        (0..4).map(of).collect()
    }

    fn sum(of: &[Party], masks: &[PairMasks]) -> ResidueVector {
        let mut sum = ResidueVector::zeros(ring(), 200);
        for &party in of {
            let mut masked = value(party);
            masks[party].add_to(&mut masked).expect("short");
            assert_ne!(masked, value(party));
            sum.add(&masked);
        }
        sum
    }

    fn plain(of: &[Party]) -> ResidueVector {
        let mut sum = ResidueVector::zeros(ring(), 200);
        of.iter().for_each(|&party| sum.add(&value(party)));
        sum
    }

    #[test]
    fn masks_cancel_in_the_sum_of_everybody_and_in_no_smaller_one() {
        let masks = masks();
        assert_eq!(sum(&[0, 1, 2, 3], &masks), plain(&[0, 1, 2, 3]));
        for few in [&[0][..], &[0, 1], &[0, 1, 2], &[0, 3], &[1, 2, 3]] {
            assert_ne!(sum(few, &masks), plain(few));
        }
    }

    #[test]
    fn what_is_revealed_of_those_who_are_left_out_takes_their_masks_out() {
        let masks = masks();
        for set in [&[0, 1][..], &[1, 2, 3], &[0, 3], &[2]] {
            let mut left = sum(set, &masks);
            for &giver in set {
                let outside = |other: &Party| !set.contains(other) && *other != giver && *other + giver != 3;
                let with: Vec<Party> = (0..4).filter(outside).collect();
                let keys = masks[giver].reveal(&with).expect("neighbours");
                assert_eq!(keys.len(), KEY_BYTES * with.len());
                take_out(&mut left, giver, &with, &keys).expect("short");
            }
            assert_eq!(left, plain(set), "{set:?}");
        }
        assert_eq!(masks[0].reveal(&[1, 3]), None, "0 and 3 have none");
        let (one, two) = (masks[0].reveal(&[1]), masks[1].reveal(&[0]));
        assert_eq!(one, two, "both know the same mask");
    }
}
