//! Vectors at rest: a fixed number of whole bytes a coordinate, little-endian two's complement, as
//! they travel and as they are kept.

use std::fmt;

use bytes::Bytes;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::lattice::residue::{ResidueVector, Ring};
use crate::lattice::words::{self, BLOCK, Word, union};

/// An error in a vector from the wire, or in one to be sent there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VectorError {
    /// Not the length that the plan gives.
    #[error("a vector of {found} bytes, expected {expected}")]
    Length {
        /// The number of bytes there.
        found: usize,
        /// The number of bytes expected.
        expected: usize,
    },
    /// A coordinate beyond the plan's bound.
    #[error("coordinate {index} is beyond the plan's bound of {bound} steps")]
    Bound {
        /// The first such coordinate.
        index: usize,
        /// The plan's bound, in steps.
        bound: i128,
    },
    /// A word of all ones where residues are modulo 2^w − 1.
    #[error("coordinate {index} is no residue: all its bits are ones")]
    Ones {
        /// The first such coordinate.
        index: usize,
    },
    /// A coordinate between the steps of its round's grid.
    #[error("coordinate {index} is not a multiple of its round's grid")]
    Grid {
        /// The first such coordinate.
        index: usize,
    },
}

/// A vector at rest, of which clones share the bytes. As secret as the vector; it has no `Debug`
/// that prints its values.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedVector {
    cells: Coordinates,
    width: usize,
    bytes: Bytes,
}

/// The kind of a vector's coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coordinates {
    /// Integers, two's complement at rest, in states of so many bits: 64 or 128.
    Integers(u32),
    /// Residues, unsigned at rest, of the ring's width.
    Residues(Ring),
}

impl fmt::Debug for PackedVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedVector({})", self.len())
    }
}

impl PackedVector {
    /// Coordinates of `width` bytes each, for states whose cells are at least as wide, or exactly
    /// as wide where they are residues.
    pub(super) fn new(cells: Coordinates, width: u32, bytes: Bytes) -> Self {
        let width = width as usize;
        let fits = match cells {
            Coordinates::Integers(state_bits) => width <= state_bits as usize / 8,
            Coordinates::Residues(ring) => width == ring.width(),
        };
        assert!(
            fits && bytes.len().is_multiple_of(width),
            "a plan's widths are below its states'"
        );
        PackedVector { cells, width, bytes }
    }

    pub(super) fn cells(&self) -> Coordinates {
        self.cells
    }

    /// All coordinates, as they are at rest.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A copy of `count` coordinates from number `first` on, which is wiped when the last of its
    /// clones is dropped.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn block(&self, first: usize, count: usize) -> Self {
        let bytes = &self.bytes[first * self.width..(first + count) * self.width];
        PackedVector {
            bytes: Bytes::from_owner(Zeroizing::new(bytes.to_vec())),
            ..*self
        }
    }

    /// Whether all coordinates are residues.
    pub(super) fn check_residues(&self, ring: Ring) -> Result<(), VectorError> {
        match ResidueVector::all_ones(ring, &self.bytes) {
            Some(index) => Err(VectorError::Ones { index }),
            None => Ok(()),
        }
    }

    /// The number of coordinates.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the coordinates from number `first` on.
    pub(super) fn read<W: Word>(&self, first: usize, to: &mut [W]) {
        words::read(&self.bytes[first * self.width..], self.width, to);
    }

    /// Whether all coordinates are at most `bound` in absolute value, and multiples of `grid`.
    pub(super) fn check(&self, bound: i128, grid: i128) -> Result<(), VectorError> {
        if self.cells == Coordinates::Integers(64) {
            self.check_words::<i64>(bound, grid)
        } else {
            self.check_words::<i128>(bound, grid)
        }
    }

    fn check_words<W: Word>(&self, bound: i128, grid: i128) -> Result<(), VectorError> {
        let mut words = [W::default(); BLOCK];
        let grid = grid.unsigned_abs();
        for first in (0..self.len()).step_by(BLOCK) {
            let words = &mut words[..BLOCK.min(self.len() - first)];
            self.read(first, words);
            // The bits that any of them has: none of them is larger, and all of a grid that is a
            // power of two is in them.
            let union = union(words);
            let index = |wrong: &dyn Fn(u128) -> bool| {
                words
                    .iter()
                    .position(|w| wrong(w.magnitude()))
                    .map(|at| first + at)
            };
            let beyond = |w: u128| w > bound.unsigned_abs();
            if let Some(index) = beyond(union).then(|| index(&beyond)).flatten() {
                return Err(VectorError::Bound { index, bound });
            }
            let between = match (grid.is_power_of_two(), u64::try_from(grid)) {
                (true, _) if union & (grid - 1) == 0 => None,
                (true, _) => index(&|w| w & (grid - 1) != 0),
                (false, Ok(grid)) if union <= u128::from(u64::MAX) => {
                    index(&|w| !(w as u64).is_multiple_of(grid))
                }
                (false, _) => index(&|w| !w.is_multiple_of(grid)),
            };
            if let Some(index) = between {
                return Err(VectorError::Grid { index });
            }
        }
        Ok(())
    }
}
