//! Vectors at rest: a fixed number of whole bytes a coordinate, little-endian two's complement, as they travel and as they are kept.

use std::fmt;
use std::ops::{AddAssign, SubAssign};

use bytes::Bytes;

use super::vector::{LatticeVector, VectorError, Words};

/// Coordinates that are read at once: few enough for the first-level cache, many enough that choosing their width costs nothing.
pub(super) const BLOCK: usize = 1024;

/// Coordinates in a row whose loads and stores overlap: with their number known, the compiler checks no bounds for any one of them.
const GROUP: usize = 8;

/// An integer that a state is made of.
pub(super) trait Word: Copy + Default + AddAssign + SubAssign {
    /// Its bytes.
    const SIZE: usize;
    /// From its lowest `width` bytes, which are the first of `bytes`; the others may be anything.
    fn load(bytes: &[u8], width: usize) -> Self;
    /// Writes all of its bytes.
    fn store(self, bytes: &mut [u8]);
    /// Its absolute value.
    fn magnitude(self) -> u128;
    /// Half of an even one.
    fn half(self) -> Self;
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const SIZE: usize = size_of::<$word>();
            #[inline(always)]
            fn load(bytes: &[u8], width: usize) -> Self {
                let shift = 8 * (Self::SIZE - width) as u32;
                let bytes = bytes
                    .try_into()
                    .expect("the caller gives as many bytes as a word has");
                <$word>::from_le_bytes(bytes) << shift >> shift
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn magnitude(self) -> u128 {
                self.unsigned_abs().into()
            }
            #[inline(always)]
            fn half(self) -> Self {
                self >> 1
            }
        }
    };
}

word!(i64);
word!(i128);

/// A vector at rest, of which clones share the bytes. As secret as the vector; it has no `Debug` that prints its values.
#[derive(Clone)]
pub struct PackedVector {
    state_bits: u32,
    width: usize,
    bytes: Bytes,
}

impl fmt::Debug for PackedVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedVector({})", self.len())
    }
}

impl PackedVector {
    /// Of states of `state_bits`; `bytes` are a multiple of `width`, which is no more than a state's.
    pub(super) fn new(state_bits: u32, width: u32, bytes: Bytes) -> Self {
        let width = width as usize;
        assert!(
            width <= state_bits as usize / 8 && bytes.len().is_multiple_of(width),
            "a plan's widths are below its states'"
        );
        PackedVector {
            state_bits,
            width,
            bytes,
        }
    }

    pub(super) fn state_bits(&self) -> u32 {
        self.state_bits
    }

    /// Coordinates.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The coordinates as words, bit for bit.
    pub fn unpack(&self) -> LatticeVector {
        fn words<W: Word>(packed: &PackedVector) -> Vec<W> {
            let mut words = vec![W::default(); packed.len()];
            packed.read(0, &mut words);
            words
        }
        LatticeVector(if self.state_bits == 64 {
            Words::Narrow(words(self))
        } else {
            Words::Wide(words(self))
        })
    }

    /// Reads the coordinates from number `first` on.
    pub(super) fn read<W: Word>(&self, first: usize, words: &mut [W]) {
        let bytes = &self.bytes[first * self.width..];
        // With a width that the compiler knows, a coordinate is a load and two shifts.
        match self.width {
            3 => read(bytes, 3, words),
            4 => read(bytes, 4, words),
            5 => read(bytes, 5, words),
            6 => read(bytes, 6, words),
            7 => read(bytes, 7, words),
            width => read(bytes, width, words),
        }
    }

    /// Whether all coordinates are at most `bound` in absolute value, and multiples of `grid`.
    pub(super) fn check(&self, bound: i128, grid: i128) -> Result<(), VectorError> {
        if self.state_bits == 64 {
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
            // The bits that any of them has: none of them is larger, and all of a grid that is a power of two is in them.
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

/// The bits that are set in any coordinate's absolute value.
pub(super) fn union<W: Word>(words: &[W]) -> u128 {
    words.iter().fold(0, |union, word| union | word.magnitude())
}

#[inline(always)]
fn read<W: Word>(bytes: &[u8], width: usize, words: &mut [W]) {
    let mut groups = words.chunks_exact_mut(GROUP);
    let mut at = 0;
    for group in groups.by_ref() {
        // A word's load runs into its successors; at the vector's end there are none.
        let Some(window) = bytes.get(at..at + (GROUP - 1) * width + W::SIZE) else {
            group
                .iter_mut()
                .enumerate()
                .for_each(|(i, word)| *word = alone(&bytes[at + i * width..], width));
            at += GROUP * width;
            continue;
        };
        for (i, word) in group.iter_mut().enumerate() {
            *word = W::load(&window[i * width..i * width + W::SIZE], width);
        }
        at += GROUP * width;
    }
    let rest = groups.into_remainder().iter_mut().enumerate();
    rest.for_each(|(i, word)| *word = alone(&bytes[at + i * width..], width));
}

fn alone<W: Word>(bytes: &[u8], width: usize) -> W {
    let mut padded = [0; 16];
    padded[..width].copy_from_slice(&bytes[..width]);
    W::load(&padded[..W::SIZE], width)
}

/// Writes the lowest `width` bytes of each coordinate; returns the bits that any absolute value has.
pub(super) fn write<W: Word>(words: &[W], width: usize, bytes: &mut [u8]) -> u128 {
    match width {
        3 => write_words(words, 3, bytes),
        4 => write_words(words, 4, bytes),
        5 => write_words(words, 5, bytes),
        6 => write_words(words, 6, bytes),
        7 => write_words(words, 7, bytes),
        width => write_words(words, width, bytes),
    }
}

#[inline(always)]
fn write_words<W: Word>(words: &[W], width: usize, bytes: &mut [u8]) -> u128 {
    let mut all = 0;
    let mut at = 0;
    let groups = words.chunks_exact(GROUP);
    let rest = groups.remainder();
    for group in groups {
        all |= union(group);
        match bytes.get_mut(at..at + (GROUP - 1) * width + W::SIZE) {
            // What a word writes beyond its width its successor writes over.
            Some(window) => group
                .iter()
                .enumerate()
                .for_each(|(i, word)| word.store(&mut window[i * width..i * width + W::SIZE])),
            None => group
                .iter()
                .enumerate()
                .for_each(|(i, word)| store_alone(*word, width, &mut bytes[at + i * width..])),
        }
        at += GROUP * width;
    }
    rest.iter()
        .enumerate()
        .for_each(|(i, word)| store_alone(*word, width, &mut bytes[at + i * width..]));
    all | union(rest)
}

fn store_alone<W: Word>(word: W, width: usize, bytes: &mut [u8]) {
    let mut padded = [0; 16];
    word.store(&mut padded[..W::SIZE]);
    bytes[..width].copy_from_slice(&padded[..width]);
}
