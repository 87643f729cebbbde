//! The integers that states are made of, and their bytes: a fixed number of whole bytes each,
//! little-endian; two's complement where they have a sign.

use std::ops::{AddAssign, SubAssign};

/// Coordinates that are read at once: few enough for the first-level cache, many enough that
/// choosing their width costs nothing.
pub(super) const BLOCK: usize = 1024;

/// Coordinates in a row whose loads and stores overlap: with their number known, the compiler
/// checks no bounds for any one of them.
const GROUP: usize = 8;

/// An integer that a state is made of.
pub(super) trait Word: Copy + Default + AddAssign + SubAssign {
    /// The number of its bytes.
    const SIZE: usize;
    /// From its lowest `width` bytes, which are the first of `bytes`; the others may be anything.
    fn load(bytes: &[u8], width: usize) -> Self;
    /// Writes all of its bytes.
    fn store(self, bytes: &mut [u8]);
    /// The absolute value of a coordinate.
    fn magnitude(self) -> u128;
    /// Half of an even one.
    fn half(self) -> Self;
}

macro_rules! word {
    ($word:ty, $magnitude:expr) => {
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
                $magnitude(self).into()
            }
            #[inline(always)]
            fn half(self) -> Self {
                self >> 1
            }
        }
    };
}

word!(i64, i64::unsigned_abs);
word!(i128, i128::unsigned_abs);
word!(u64, u64::from);
word!(u128, u128::from);

/// The bits that are set in any coordinate's absolute value.
pub(super) fn union<W: Word>(words: &[W]) -> u128 {
    words.iter().fold(0, |union, word| union | word.magnitude())
}

/// Reads as many words as there is room for, of `width` bytes each.
pub(super) fn read<W: Word>(bytes: &[u8], width: usize, words: &mut [W]) {
    // With a width that the compiler knows, a coordinate is a load and two shifts.
    match width {
        3 => read_words(bytes, 3, words),
        4 => read_words(bytes, 4, words),
        5 => read_words(bytes, 5, words),
        6 => read_words(bytes, 6, words),
        7 => read_words(bytes, 7, words),
        width => read_words(bytes, width, words),
    }
}

#[inline(always)]
fn read_words<W: Word>(bytes: &[u8], width: usize, words: &mut [W]) {
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

/// Writes the lowest `width` bytes of each coordinate; returns the bits that any absolute value
/// has.
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
