//! An entry: what a party says of its final before averaging begins. The entries are the items of
//! the second agreement: whose finals are averaged, with which weights, and bit for bit what.

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::lattice::grid::LatticeWeight;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 16 + 8 + 32;

/// An error in the bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// The bytes are more or fewer than [`ENTRY_BYTES`].
    #[error("an entry of another length")]
    Length,
    /// No opening's coordinate is so large.
    #[error("an entry's range is too large")]
    Range,
    /// Weights of so many parties could not be summed.
    #[error("an entry's weight is too large")]
    Weight,
}

/// A party's gated final in short. All of it is public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalEntry {
    /// The final's weight.
    pub weight: LatticeWeight,
    /// The largest coordinate of its opening, by absolute value.
    pub range: u64,
    /// SHA-256 of its opening's coordinates as they travel.
    pub hash: [u8; 32],
}

impl FinalEntry {
    /// The entry of a final with this weight, largest coordinate and opening bytes.
    pub fn new(weight: LatticeWeight, range: u64, opening: &[u8]) -> Self {
        FinalEntry {
            weight,
            range,
            hash: Sha256::digest(opening).into(),
        }
    }

    /// Whether these are the opening's bytes.
    pub fn is_of(&self, opening: &[u8]) -> bool {
        self.hash == <[u8; 32]>::from(Sha256::digest(opening))
    }

    /// The entry as an item.
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..16].copy_from_slice(&self.weight.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.range.to_le_bytes());
        bytes[24..].copy_from_slice(&self.hash);
        bytes
    }

    /// Reads an entry from an item; refused if no final of a plan with so many parties has its
    /// range or its weight.
    pub fn from_bytes(bytes: &[u8], parties: usize) -> Result<Self, EntryError> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().map_err(|_| EntryError::Length)?;
        let part = |range: std::ops::Range<usize>| &bytes[range];
        let weight = i128::from_le_bytes(part(0..16).try_into().expect("16 bytes"));
        let range = u64::from_le_bytes(part(16..24).try_into().expect("8 bytes"));
        if range >= 1 << 47 {
            return Err(EntryError::Range);
        }
        if weight.unsigned_abs() > i128::MAX as u128 / parties as u128 {
            return Err(EntryError::Weight);
        }
        Ok(FinalEntry {
            weight: LatticeWeight(weight),
            range,
            hash: part(24..56).try_into().expect("32 bytes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_pinned() {
        let entry = FinalEntry::new(LatticeWeight(-2), 258, b"opening");
        let hex: String = entry
            .to_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // SHA-256 of "opening".
        let hash = "2b3fdf05c4dda454998927370bf2cf20b0c17bcf1e3d3f294a550e341033ed61";
        assert_eq!(&hex[..48], "feffffffffffffffffffffffffffffff0201000000000000");
        assert_eq!(&hex[48..], hash);
        assert_eq!(FinalEntry::from_bytes(&entry.to_bytes(), 8), Ok(entry));
        assert!(entry.is_of(b"opening") && !entry.is_of(b"Opening"));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let good = FinalEntry::new(LatticeWeight(1), 9, b"").to_bytes();
        assert!(FinalEntry::from_bytes(&good[1..], 8).is_err());
        let far = FinalEntry {
            range: 1 << 47,
            ..FinalEntry::from_bytes(&good, 8).expect("good")
        };
        assert!(FinalEntry::from_bytes(&far.to_bytes(), 8).is_err());
        let heavy = FinalEntry {
            weight: LatticeWeight(i128::MAX / 4),
            ..far
        };
        assert!(FinalEntry::from_bytes(&FinalEntry { range: 0, ..heavy }.to_bytes(), 8).is_err());
    }
}
