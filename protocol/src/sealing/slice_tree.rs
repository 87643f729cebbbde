//! The hash tree over the slices of a sealed vector: its root, in its party's log, fixes them all,
//! and each slice travels with the hashes that lead from it to the root.

use crate::sealing::hash::labelled;
use crate::sealing::run_key::index;
use crate::topology::party::Party;

/// The bytes of a hash.
pub const HASH_BYTES: usize = 32;

/// A hash of the tree.
pub type SliceHash = [u8; HASH_BYTES];

/// The place of a sealed vector: all that its slices' hashes cover besides their bytes.
#[derive(Clone, Copy, Debug)]
pub struct SlicePlace<'a> {
    /// The digest of the plan, or of a later release of it.
    pub digest: &'a [u8; 32],
    /// The party whose vector it is.
    pub author: Party,
    /// The round of what is sealed; 0 in a run of one result.
    pub round: u32,
}

impl SlicePlace<'_> {
    /// The hash of a slice of this number, from its residues' bytes.
    pub fn leaf(&self, slice: u32, residues: &[u8]) -> SliceHash {
        let (author, round) = (index(self.author), self.round.to_le_bytes());
        let parts: [&[u8]; 5] = [self.digest, &author, &round, &slice.to_le_bytes(), residues];
        labelled("undertone/slice/1", &parts)
    }
}

fn inner(left: &SliceHash, right: &SliceHash) -> SliceHash {
    // Another label than a slice's: no inner node can be shown as a slice.
    labelled("undertone/slices/1", &[left, right])
}

/// The tree over the hashes of all slices. On each level hashes are joined by twos; an odd one at
/// the end is carried up.
pub struct SliceTree {
    /// From the slices' hashes up to the root.
    levels: Vec<Vec<SliceHash>>,
}

impl SliceTree {
    /// The tree of the slices with these hashes, at least one.
    pub fn of(leaves: Vec<SliceHash>) -> Self {
        // Kept whole: an author needs the path of every slice.
        let mut levels = vec![leaves];
        while let Some(level) = levels.last().filter(|level| level.len() > 1) {
            let joined = level.chunks(2).map(|pair| match pair {
                [left, right] => inner(left, right),
                odd => odd[0],
            });
            let joined = joined.collect();
            levels.push(joined);
        }
        SliceTree { levels }
    }

    /// The root.
    pub fn root(&self) -> SliceHash {
        self.levels[self.levels.len() - 1][0]
    }

    /// The hashes that lead from a slice to the root, lowest first.
    pub fn path(&self, slice: u32) -> Vec<SliceHash> {
        let mut at = slice as usize;
        let mut path = Vec::new();
        for level in &self.levels {
            path.extend(level.get(at ^ 1));
            at /= 2;
        }
        path
    }
}

/// The number of hashes that lead from a slice to the root of a tree over so many.
pub fn path_length(slice: u32, slices: usize) -> usize {
    let (mut at, mut left, mut length) = (slice as usize, slices, 0);
    while left > 1 {
        length += usize::from(at ^ 1 < left);
        (at, left) = (at / 2, left.div_ceil(2));
    }
    length
}

/// The root to which a path leads from a slice's hash, in a tree over so many slices. `None` where
/// the path has another length than that slice's.
pub fn root_of(leaf: SliceHash, slice: u32, slices: usize, path: &[SliceHash]) -> Option<SliceHash> {
    // The sides follow from the slice's number: a path that chose them could move a slice.
    let (mut at, mut left, mut hash) = (slice as usize, slices, leaf);
    let mut path = path.iter();
    while left > 1 {
        if at ^ 1 < left {
            let other = path.next()?;
            hash = match at % 2 {
                0 => inner(&hash, other),
                _ => inner(other, &hash),
            };
        }
        (at, left) = (at / 2, left.div_ceil(2));
    }
    // With hashes left over one slice would have several paths, and so several items.
    path.next().is_none().then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: SlicePlace<'_> = SlicePlace {
        digest: &[7; 32],
        author: 3,
        round: 1,
    };

    #[test]
    fn every_slice_leads_to_the_root_by_its_own_path_only() {
        for slices in 1..40_usize {
            let leaves: Vec<SliceHash> = (0..slices as u32).map(|a| PLACE.leaf(a, &[a as u8])).collect();
            let tree = SliceTree::of(leaves.clone());
            for a in 0..slices as u32 {
                let path = tree.path(a);
                assert_eq!(path.len(), path_length(a, slices), "{a} of {slices}");
                assert!(path.len() <= usize::BITS as usize - (slices - 1).leading_zeros() as usize);
                let root = |leaf, at| root_of(leaf, at, slices, &path);
                assert_eq!(root(leaves[a as usize], a), Some(tree.root()));
                assert_ne!(root(PLACE.leaf(a, b"other"), a), Some(tree.root()));
                let other = (a + 1) % slices as u32;
                assert!(other == a || root(leaves[a as usize], other) != Some(tree.root()));
                let longer = [&path[..], &[[0; 32]]].concat();
                assert_eq!(root_of(leaves[a as usize], a, slices, &longer), None);
                if let Some((_, shorter)) = path.split_last() {
                    assert_eq!(root_of(leaves[a as usize], a, slices, shorter), None);
                }
            }
        }
    }

    #[test]
    fn a_hash_covers_the_plan_the_party_the_round_and_the_slice() {
        let hash = PLACE.leaf(2, b"bytes");
        let others = [
            SlicePlace {
                digest: &[8; 32],
                ..PLACE
            }
            .leaf(2, b"bytes"),
            SlicePlace { author: 4, ..PLACE }.leaf(2, b"bytes"),
            SlicePlace { round: 0, ..PLACE }.leaf(2, b"bytes"),
            PLACE.leaf(3, b"bytes"),
            PLACE.leaf(2, b"byte"),
            inner(&PLACE.leaf(2, b"bytes"), &[0; 32]),
        ];
        assert!(others.iter().all(|other| *other != hash));
    }
}
