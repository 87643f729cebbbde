//! States: vectors of integers, one word a coordinate.

use std::fmt;

use bytes::Bytes;

use crate::lattice::packed::{PackedVector, VectorError};
use crate::lattice::payload::{Payload, Ratio};
use crate::lattice::words::{self, BLOCK, Word};

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Words {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

/// A vector of lattice steps. It is secret until it is published: it has no `Debug` that prints its
/// values.
#[derive(Clone, PartialEq, Eq)]
pub struct LatticeVector(pub(super) Words);

impl fmt::Debug for LatticeVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatticeVector({})", self.len())
    }
}

/// Runs the same expression on the words of either width.
macro_rules! on_words {
    ($vector:expr, $words:ident => $body:expr) => {
        match $vector {
            Words::Narrow($words) => $body,
            Words::Wide($words) => $body,
        }
    };
}

impl LatticeVector {
    /// The number of coordinates.
    pub fn len(&self) -> usize {
        on_words!(&self.0, words => words.len())
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The coordinates, in steps.
    pub fn steps(&self) -> Box<dyn Iterator<Item = i128> + '_> {
        match &self.0 {
            Words::Narrow(words) => Box::new(words.iter().map(|&w| i128::from(w))),
            Words::Wide(words) => Box::new(words.iter().copied()),
        }
    }

    /// Adds to each coordinate, for every (scale, cell), `cell` steps times the integer that a
    /// function makes of `scale`. For noise.
    pub(crate) fn add_each(&mut self, scales: &[(f64, i128)], mut integer: impl FnMut(f64) -> i64) {
        match &mut self.0 {
            Words::Narrow(words) => {
                let scales: Vec<(f64, i64)> =
                    scales.iter().map(|&(scale, cell)| (scale, cell as i64)).collect();
                words.iter_mut().for_each(|w| {
                    scales
                        .iter()
                        .for_each(|&(scale, cell)| *w += integer(scale) * cell)
                });
            }
            Words::Wide(words) => {
                words.iter_mut().for_each(|w| {
                    scales
                        .iter()
                        .for_each(|&(scale, cell)| *w += i128::from(integer(scale)) * cell)
                });
            }
        }
    }

    /// The vector at rest, in as few whole bytes a coordinate as its largest one needs.
    pub fn pack(&self) -> PackedVector {
        let (state_bits, union) = match &self.0 {
            Words::Narrow(words) => (64, words::union(words)),
            Words::Wide(words) => (128, words::union(words)),
        };
        let width = (128 - union.leading_zeros() + 1).div_ceil(8).min(state_bits / 8);
        let mut bytes = vec![0; self.len() * width as usize];
        on_words!(&self.0, words => words::write(words, width as usize, &mut bytes));
        PackedVector::new(state_bits, width, Bytes::from(bytes))
    }

    /// The coordinates times a factor.
    pub fn to_f64(&self, factor: f64) -> Vec<f64> {
        match &self.0 {
            Words::Narrow(words) => words.iter().map(|&w| w as f64 * factor).collect(),
            Words::Wide(words) => words.iter().map(|&w| w as f64 * factor).collect(),
        }
    }

    /// Writes `width` bytes a coordinate, if all are at most `bound` in absolute value.
    pub(super) fn write(&self, width: u32, bound: i128, bytes: &mut [u8]) -> Result<(), VectorError> {
        let width = width as usize;
        assert_eq!(
            bytes.len(),
            self.len() * width,
            "the caller made room for the vector"
        );
        let beyond = |w: u128| w > bound.unsigned_abs();
        // No coordinate is larger than the union of all of their bits.
        if !beyond(on_words!(&self.0, words => words::write(words, width, bytes))) {
            return Ok(());
        }
        let first = on_words!(&self.0, words => words.iter().position(|w| beyond(w.magnitude())));
        first.map_or(Ok(()), |index| Err(VectorError::Bound { index, bound }))
    }
}

impl PackedVector {
    /// The coordinates as words, bit for bit.
    pub fn unpack(&self) -> LatticeVector {
        fn words<W: Word>(packed: &PackedVector) -> Vec<W> {
            let mut words = vec![W::default(); packed.len()];
            packed.read(0, &mut words);
            words
        }
        LatticeVector(if self.state_bits() == 64 {
            Words::Narrow(words(self))
        } else {
            Words::Wide(words(self))
        })
    }
}

impl Payload for LatticeVector {
    type Coefficient = Ratio;
    type Packed = PackedVector;

    fn zero_like(packed: &PackedVector) -> Self {
        LatticeVector(match packed.state_bits() {
            64 => Words::Narrow(vec![0; packed.len()]),
            _ => Words::Wide(vec![0; packed.len()]),
        })
    }

    fn pack(&self) -> PackedVector {
        LatticeVector::pack(self)
    }

    fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Words::Narrow(a), Words::Narrow(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Words::Wide(a), Words::Wide(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            _ => unreachable!("all vectors of a run have the plan's width"),
        }
    }

    fn add_and_divide(&mut self, terms: &[(Ratio, &PackedVector)], ways: u32) {
        match &mut self.0 {
            Words::Narrow(words) => {
                let multiple = |factor: Ratio| {
                    let (quotient, numerator) = (ExactQuotient::by(factor.denominator()), factor.numerator());
                    move |w| quotient.of(w) * numerator
                };
                let quotient = ExactQuotient::by(i64::from(ways));
                add_and_divide(words, terms, multiple, ways, |w| quotient.of(w));
            }
            Words::Wide(words) => {
                let multiple = |factor: Ratio| {
                    let (numerator, denominator) =
                        (i128::from(factor.numerator()), i128::from(factor.denominator()));
                    move |w| w / denominator * numerator
                };
                add_and_divide(words, terms, multiple, ways, |w| w / i128::from(ways));
            }
        }
    }
}

/// Block by block, so that the state goes through the caches once, however many terms there are.
fn add_and_divide<W: Word, M: Fn(W) -> W>(
    state: &mut [W],
    terms: &[(Ratio, &PackedVector)],
    multiple: impl Fn(Ratio) -> M,
    ways: u32,
    quotient: impl Fn(W) -> W,
) {
    let mut coordinates = [W::default(); BLOCK];
    for (block, state) in state.chunks_mut(BLOCK).enumerate() {
        let coordinates = &mut coordinates[..state.len()];
        for (factor, vector) in terms {
            vector.read(block * BLOCK, coordinates);
            let pairs = state.iter_mut().zip(&*coordinates);
            match (factor.numerator(), factor.denominator()) {
                (1, 1) => pairs.for_each(|(a, b)| *a += *b),
                (-1, 1) => pairs.for_each(|(a, b)| *a -= *b),
                _ => {
                    let multiple = multiple(*factor);
                    pairs.for_each(|(a, b)| *a += multiple(*b));
                }
            }
        }
        match ways {
            1 => {}
            2 => state.iter_mut().for_each(|w| *w = w.half()),
            _ => state.iter_mut().for_each(|w| *w = quotient(*w)),
        }
    }
}

/// Divides multiples of a positive number: the odd part of an exact division is a multiplication
/// modulo 2^64, several times as fast as dividing.
#[derive(Clone, Copy)]
pub(super) struct ExactQuotient {
    twos: u32,
    inverse: i64,
}

impl ExactQuotient {
    pub(super) fn by(divisor: i64) -> Self {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Newton's iteration doubles the correct bits: an odd number is its own inverse modulo 8.
        let inverse = (0..5).fold(odd, |inverse, _| {
            inverse.wrapping_mul(2i64.wrapping_sub(odd.wrapping_mul(inverse)))
        });
        ExactQuotient { twos, inverse }
    }

    /// `multiple` / divisor, if it is a multiple.
    pub(super) fn of(self, multiple: i64) -> i64 {
        (multiple >> self.twos).wrapping_mul(self.inverse)
    }
}
