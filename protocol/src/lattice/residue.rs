//! Residues: states, shares and finals where correlated noise is uniformly random, and everything
//! that is masked.
//!
//! A ring has the modulus N = 2^m, or N = 2^m − 1, with m = 8 `width` bits. In the odd one a half
//! exists: the m bits rotated right by one. There a word of all ones would be a second name of 0;
//! it stands for nothing, and is refused wherever it is read.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use crate::lattice::words::{self, BLOCK, Word};

/// The widest residue, in bytes.
pub const MOST_BYTES: usize = 16;

/// The widest residue that one word of 64 bits holds, with a bit to spare for a sum.
const MOST_NARROW: usize = 7;

/// A reason why bytes are no vector of residues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ResidueError {
    /// The bytes have another length than the plan's.
    #[error("residues of {found} bytes, expected {expected}")]
    Length {
        /// The number of bytes there.
        found: usize,
        /// The number of bytes expected.
        expected: usize,
    },
    /// A word of all ones in a ring of 2^m − 1.
    #[error("coordinate {index} is no residue: all its bits are ones")]
    AllOnes {
        /// The first such coordinate.
        index: usize,
    },
}

/// The integers modulo 2^m or 2^m − 1, m a number of whole bytes. A residue is a `u128` below the
/// modulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    width: usize,
    odd: bool,
}

impl Ring {
    /// The integers modulo 2^(8 `width`); `None` if `width` is not 1…16.
    pub const fn even(width: usize) -> Option<Self> {
        Self::of(width, false)
    }

    /// The integers modulo 2^(8 `width`) − 1, in which everything has a half; `None` if `width` is
    /// not 1…16.
    pub const fn odd(width: usize) -> Option<Self> {
        Self::of(width, true)
    }

    const fn of(width: usize, odd: bool) -> Option<Self> {
        if width >= 1 && width <= MOST_BYTES {
            Some(Ring { width, odd })
        } else {
            None
        }
    }

    /// The bytes of a residue.
    pub const fn width(self) -> usize {
        self.width
    }

    /// Whether the modulus is 2^m − 1.
    pub const fn is_odd(self) -> bool {
        self.odd
    }

    /// 2^m − 1: the bits that a residue may have.
    const fn ones(self) -> u128 {
        u128::MAX >> (128 - 8 * self.width)
    }

    /// The sum of two residues.
    pub fn add(self, a: u128, b: u128) -> u128 {
        if self.odd {
            a.add_odd(b, self.ones())
        } else {
            a.wrapping_add(b) & self.ones()
        }
    }

    /// A residue less another.
    pub fn subtract(self, a: u128, b: u128) -> u128 {
        self.add(a, self.negate(b))
    }

    /// Returns the residue whose sum with `residue` is 0.
    pub fn negate(self, residue: u128) -> u128 {
        if self.odd {
            residue.negate_odd(self.ones())
        } else {
            residue.wrapping_neg() & self.ones()
        }
    }

    /// The residue h with h + h = `residue`; for rings of 2^m − 1 only.
    pub fn half(self, residue: u128) -> u128 {
        assert!(self.odd, "only the ring of 2^m - 1 is asked for halves");
        residue.half_odd(8 * self.width as u32)
    }

    /// The residue of an integer.
    pub fn reduce(self, integer: i128) -> u128 {
        let ones = self.ones();
        if !self.odd {
            return integer as u128 & ones;
        }
        let magnitude = integer.unsigned_abs() % ones;
        if integer < 0 {
            self.negate(magnitude)
        } else {
            magnitude
        }
    }

    /// The integer of a residue that is nearest to 0, at most N/2 in absolute value; N/2 itself,
    /// which only a modulus of 2^m has, becomes −N/2.
    pub fn lift(self, residue: u128) -> i128 {
        let unused = 128 - 8 * self.width as u32;
        let lifted = ((residue << unused) as i128) >> unused;
        // In the odd ring N is less by one, and what stands for r − N is nearer to 0 by one.
        if self.odd && lifted < 0 {
            lifted + 1
        } else {
            lifted
        }
    }
}

impl Ring {
    /// [`Ring::lift`] of a residue of a ring of at most eight bytes: a machine's own word.
    fn lift_narrow(self, residue: u64) -> i64 {
        let unused = 64 - 8 * self.width as u32;
        let lifted = ((residue << unused) as i64) >> unused;
        lifted + i64::from(self.odd && lifted < 0)
    }
}

/// A word that holds a residue of 2^m − 1; `ones` is that modulus.
trait Residue: Word + PartialEq + Zeroize {
    fn narrow(residue: u128) -> Self;
    fn add_even(self, other: Self, ones: Self) -> Self;
    fn negate_even(self, ones: Self) -> Self;
    fn add_odd(self, other: Self, ones: Self) -> Self;
    fn negate_odd(self, ones: Self) -> Self;
    fn half_odd(self, bits: u32) -> Self;
}

macro_rules! residue {
    ($word:ty, $add_odd:expr) => {
        impl Residue for $word {
            #[inline(always)]
            fn narrow(residue: u128) -> Self {
                residue as $word
            }
            #[inline(always)]
            fn add_even(self, other: Self, ones: Self) -> Self {
                self.wrapping_add(other) & ones
            }
            #[inline(always)]
            fn negate_even(self, ones: Self) -> Self {
                self.wrapping_neg() & ones
            }
            #[inline(always)]
            fn add_odd(self, other: Self, ones: Self) -> Self {
                $add_odd(self, other, ones)
            }
            #[inline(always)]
            fn negate_odd(self, ones: Self) -> Self {
                if self == 0 { 0 } else { ones - self }
            }
            #[inline(always)]
            fn half_odd(self, bits: u32) -> Self {
                (self >> 1) | ((self & 1) << (bits - 1))
            }
        }
    };
}

residue!(u64, |a: u64, b: u64, ones: u64| {
    // A narrow residue leaves bits to spare: no sum wraps, and no branch keeps the compiler from
    // taking several at once. What reaches the modulus is one more without its highest bit.
    let sum = a + b;
    (sum + (sum + 1 > ones) as u64) & ones
});
residue!(u128, |a: u128, b: u128, ones: u128| {
    let (sum, over) = a.overflowing_add(b);
    if over || sum >= ones {
        sum.wrapping_sub(ones)
    } else {
        sum
    }
});

#[derive(Clone, PartialEq, Eq)]
enum Cells {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

/// Runs the same expression on the cells of either width.
macro_rules! on_cells {
    ($vector:expr, $cells:ident => $body:expr) => {
        match $vector {
            Cells::Narrow($cells) => $body,
            Cells::Wide($cells) => $body,
        }
    };
}

/// Whether words are added to a vector or subtracted from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The residues are added.
    Plus,
    /// The residues are subtracted.
    Minus,
}

/// A vector of residues. It is secret until it is published: it has no `Debug` that prints its
/// values.
#[derive(Clone, PartialEq, Eq)]
pub struct ResidueVector {
    ring: Ring,
    cells: Cells,
}

impl fmt::Debug for ResidueVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResidueVector({})", self.len())
    }
}

impl ResidueVector {
    /// Returns a vector of zeros.
    pub fn zeros(ring: Ring, count: usize) -> Self {
        let cells = if ring.width <= MOST_NARROW {
            Cells::Narrow(vec![0; count])
        } else {
            Cells::Wide(vec![0; count])
        };
        ResidueVector { ring, cells }
    }

    /// The residues of integers.
    pub fn of(ring: Ring, integers: impl IntoIterator<Item = i128>) -> Self {
        let residues = integers.into_iter().map(|integer| ring.reduce(integer));
        let cells = if ring.width <= MOST_NARROW {
            Cells::Narrow(residues.map(u64::narrow).collect())
        } else {
            Cells::Wide(residues.collect())
        };
        ResidueVector { ring, cells }
    }

    /// Reads `count` residues of the ring's width each, and nothing else. Nothing is allocated
    /// before the number of bytes is right.
    pub fn from_bytes(ring: Ring, count: usize, bytes: &[u8]) -> Result<Self, ResidueError> {
        let expected = count.saturating_mul(ring.width);
        if bytes.len() != expected {
            let found = bytes.len();
            return Err(ResidueError::Length { found, expected });
        }
        let mut vector = Self::zeros(ring, count);
        let all_ones = on_cells!(&mut vector.cells, cells => {
            words::read(bytes, ring.width, cells);
            first_of_ones(ring, cells)
        });
        match all_ones {
            Some(index) => Err(ResidueError::AllOnes { index }),
            None => Ok(vector),
        }
    }

    /// The residues' bytes, the ring's width each, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() * self.ring.width];
        on_cells!(&self.cells, cells => words::write(cells, self.ring.width, &mut bytes));
        bytes
    }

    /// A copy of the residues from one place to another.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn part(&self, range: Range<usize>) -> Self {
        let cells = match &self.cells {
            Cells::Narrow(cells) => Cells::Narrow(cells[range].to_vec()),
            Cells::Wide(cells) => Cells::Wide(cells[range].to_vec()),
        };
        let ring = self.ring;
        ResidueVector { ring, cells }
    }

    /// Writes the residues' bytes, the ring's width each, little-endian, to as many bytes.
    ///
    /// # Panics
    /// If there are more or fewer bytes.
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.len() * self.ring.width, "the caller made room");
        on_cells!(&self.cells, cells => {
            words::write(cells, self.ring.width, bytes);
        });
    }

    /// The ring that they belong to.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// The number of coordinates.
    pub fn len(&self) -> usize {
        on_cells!(&self.cells, cells => cells.len())
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The residues, each below the modulus.
    pub fn residues(&self) -> Box<dyn Iterator<Item = u128> + '_> {
        match &self.cells {
            Cells::Narrow(cells) => Box::new(cells.iter().map(|&cell| cell.into())),
            Cells::Wide(cells) => Box::new(cells.iter().copied()),
        }
    }

    /// The integers nearest to 0 that the residues stand for.
    pub fn lifted(&self) -> impl Iterator<Item = i128> + '_ {
        self.residues().map(|residue| self.ring.lift(residue))
    }

    /// The integers nearest to 0, times a factor.
    pub fn to_f64(&self, factor: f64) -> Vec<f64> {
        let ring = self.ring;
        match &self.cells {
            Cells::Narrow(cells) => cells
                .iter()
                .map(|&cell| ring.lift_narrow(cell) as f64 * factor)
                .collect(),
            Cells::Wide(_) => self.lifted().map(|steps| steps as f64 * factor).collect(),
        }
    }

    /// Whether the integers nearest to 0 are at most `bound` in absolute value.
    pub fn within(&self, bound: u128) -> bool {
        let ring = self.ring;
        match &self.cells {
            Cells::Narrow(cells) => {
                let bound = u64::try_from(bound).unwrap_or(u64::MAX);
                cells
                    .iter()
                    .all(|&cell| ring.lift_narrow(cell).unsigned_abs() <= bound)
            }
            Cells::Wide(_) => self.lifted().all(|steps| steps.unsigned_abs() <= bound),
        }
    }

    /// Adds a vector of the same ring and length.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, Sign::Plus);
    }

    /// Subtracts a vector of the same ring and length.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, Sign::Minus);
    }

    fn combine(&mut self, other: &Self, sign: Sign) {
        let alike = self.ring == other.ring && self.len() == other.len();
        assert!(alike, "all vectors of a run have the plan's ring and length");
        match (&mut self.cells, &other.cells) {
            (Cells::Narrow(to), Cells::Narrow(from)) => accumulate(self.ring, sign, to, from),
            (Cells::Wide(to), Cells::Wide(from)) => accumulate(self.ring, sign, to, from),
            _ => unreachable!("a ring has one width of cells"),
        }
    }

    /// Adds residues at rest, or subtracts them: as many as the vector has, each of the ring's
    /// width and checked before.
    pub(crate) fn add_bytes(&mut self, sign: Sign, bytes: &[u8]) {
        let ring = self.ring;
        on_cells!(&mut self.cells, cells => add_bytes(ring, sign, cells, bytes));
    }

    /// Adds an integer to each coordinate, by what `next` says.
    pub(super) fn add_integers(&mut self, mut next: impl FnMut() -> i128) {
        let ring = self.ring;
        match &mut self.cells {
            Cells::Narrow(cells) => cells
                .iter_mut()
                .for_each(|cell| *cell = ring.add((*cell).into(), ring.reduce(next())) as u64),
            Cells::Wide(cells) => cells
                .iter_mut()
                .for_each(|cell| *cell = ring.add(*cell, ring.reduce(next()))),
        }
    }

    /// The first word of all ones, which is no residue of an odd ring, among bytes of whole words.
    pub(crate) fn all_ones(ring: Ring, bytes: &[u8]) -> Option<usize> {
        if !ring.odd {
            return None;
        }
        // There is hardly ever one: whole blocks are looked at before one is looked for.
        let any = match ring.width {
            ..=8 => any_of_ones::<u64>(ring, bytes),
            _ => any_of_ones::<u128>(ring, bytes),
        };
        let ones = |word: &[u8]| word.iter().all(|&byte| byte == u8::MAX);
        any.then(|| bytes.chunks_exact(ring.width).position(ones))
            .flatten()
    }

    /// Halves every coordinate exactly; for rings of 2^m − 1 only.
    pub fn halve(&mut self) {
        assert!(self.ring.odd, "only the ring of 2^m - 1 is asked for halves");
        let bits = 8 * self.ring.width as u32;
        on_cells!(&mut self.cells, cells => {
            cells.iter_mut().for_each(|cell| *cell = cell.half_odd(bits));
        });
    }

    /// Adds to the coordinates, or subtracts from them, the successive words of a stream: each of
    /// the ring's width, little-endian; in a ring of 2^m − 1 a word of all ones is skipped.
    /// Uniformly random words make uniformly random residues.
    ///
    /// `fill` writes the stream's next bytes, a multiple of four at a time: never much more than
    /// are needed, and nothing of them is kept. An error of `fill` leaves the vector half done.
    pub fn add_words<E>(
        &mut self,
        sign: Sign,
        fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ring = self.ring;
        on_cells!(&mut self.cells, cells => add_words(ring, sign, cells, fill))
    }
}

fn any_of_ones<R: Residue>(ring: Ring, bytes: &[u8]) -> bool {
    let mut block = [R::default(); BLOCK];
    let ones = R::narrow(ring.ones());
    bytes.chunks(BLOCK * ring.width).any(|bytes| {
        let block = &mut block[..bytes.len() / ring.width];
        words::read(bytes, ring.width, block);
        block.iter().fold(false, |any, cell| any | (*cell == ones))
    })
}

fn first_of_ones<R: Residue>(ring: Ring, cells: &[R]) -> Option<usize> {
    let ones = R::narrow(ring.ones());
    // All are looked at before one is looked for: that takes several at once.
    let any = ring.odd && cells.iter().fold(false, |any, cell| any | (*cell == ones));
    any.then(|| cells.iter().position(|cell| *cell == ones)).flatten()
}

fn accumulate<R: Residue>(ring: Ring, sign: Sign, to: &mut [R], from: &[R]) {
    let ones = R::narrow(ring.ones());
    let pairs = to.iter_mut().zip(from);
    match (ring.odd, sign) {
        (false, Sign::Plus) => pairs.for_each(|(a, b)| *a = a.add_even(*b, ones)),
        (false, Sign::Minus) => pairs.for_each(|(a, b)| *a = a.add_even(b.negate_even(ones), ones)),
        (true, Sign::Plus) => pairs.for_each(|(a, b)| *a = a.add_odd(*b, ones)),
        (true, Sign::Minus) => pairs.for_each(|(a, b)| *a = a.add_odd(b.negate_odd(ones), ones)),
    }
}

fn add_bytes<R: Residue>(ring: Ring, sign: Sign, to: &mut [R], bytes: &[u8]) {
    let mut block = [R::default(); BLOCK];
    for (to, bytes) in to.chunks_mut(BLOCK).zip(bytes.chunks(BLOCK * ring.width)) {
        let block = &mut block[..to.len()];
        words::read(bytes, ring.width, block);
        accumulate(ring, sign, to, block);
    }
}

fn add_words<R: Residue, E>(
    ring: Ring,
    sign: Sign,
    mut to: &mut [R],
    mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    // Wiping takes as long as masking does: short vectors have short blocks.
    let most = to.len().next_multiple_of(4).min(BLOCK);
    let mut bytes = Zeroizing::new(vec![0; most * ring.width]);
    let mut block = Zeroizing::new(vec![R::default(); most]);
    while !to.is_empty() {
        let count = to.len().next_multiple_of(4).min(BLOCK);
        let bytes = &mut bytes[..count * ring.width];
        fill(bytes)?;
        words::read(bytes, ring.width, &mut block[..count]);
        let kept = keep_residues(ring, &mut block[..count]).min(to.len());
        let (now, later) = to.split_at_mut(kept);
        accumulate(ring, sign, now, &block[..kept]);
        to = later;
    }
    Ok(())
}

/// Moves the words that are residues to the front; returns their number.
fn keep_residues<R: Residue>(ring: Ring, words: &mut [R]) -> usize {
    let Some(first) = first_of_ones(ring, words) else {
        return words.len();
    };
    let (ones, mut kept) = (R::narrow(ring.ones()), first);
    for at in first..words.len() {
        if words[at] != ones {
            words[kept] = words[at];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
