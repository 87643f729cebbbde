//! States: vectors of integers, one word a coordinate.

use std::convert::Infallible;
use std::fmt;

use bytes::Bytes;
use rand::Rng;

use crate::lattice::packed::{Coordinates, PackedVector, VectorError};
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::residue::{ResidueVector, Ring, Sign};
use crate::lattice::words::{self, BLOCK, Word};

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Words {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
    Residues(ResidueVector),
}

/// A vector of lattice steps: integers, or residues of integers. It is secret until it is
/// published: it has no `Debug` that prints its values.
#[derive(Clone, PartialEq, Eq)]
pub struct LatticeVector(pub(super) Words);

impl fmt::Debug for LatticeVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatticeVector({})", self.len())
    }
}

impl LatticeVector {
    /// The number of coordinates.
    pub fn len(&self) -> usize {
        match &self.0 {
            Words::Narrow(words) => words.len(),
            Words::Wide(words) => words.len(),
            Words::Residues(residues) => residues.len(),
        }
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The coordinates, in steps; of residues the integers nearest to 0.
    pub fn steps(&self) -> Box<dyn Iterator<Item = i128> + '_> {
        match &self.0 {
            Words::Narrow(words) => Box::new(words.iter().map(|&w| i128::from(w))),
            Words::Wide(words) => Box::new(words.iter().copied()),
            Words::Residues(residues) => Box::new(residues.lifted()),
        }
    }

    /// Whether all coordinates are at most `bound` steps in absolute value.
    pub(crate) fn within(&self, bound: u128) -> bool {
        match &self.0 {
            Words::Residues(residues) => residues.within(bound),
            Words::Narrow(_) | Words::Wide(_) => self.steps().all(|steps| steps.unsigned_abs() <= bound),
        }
    }

    /// The coordinates as residues, if they are.
    pub(crate) fn residues(&self) -> Option<&ResidueVector> {
        match &self.0 {
            Words::Residues(residues) => Some(residues),
            Words::Narrow(_) | Words::Wide(_) => None,
        }
    }

    /// The coordinates as residues, if they are: for masks.
    pub(crate) fn residues_mut(&mut self) -> Option<&mut ResidueVector> {
        match &mut self.0 {
            Words::Residues(residues) => Some(residues),
            Words::Narrow(_) | Words::Wide(_) => None,
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
            Words::Residues(residues) => residues.add_integers(|| {
                let each = scales.iter();
                each.map(|&(scale, cell)| i128::from(integer(scale)) * cell).sum()
            }),
        }
    }

    /// The vector at rest, in as few whole bytes a coordinate as its largest one needs; residues in
    /// as many as their ring has.
    pub fn pack(&self) -> PackedVector {
        match &self.0 {
            Words::Narrow(words) => packed_words(words, 64),
            Words::Wide(words) => packed_words(words, 128),
            Words::Residues(residues) => {
                let ring = residues.ring();
                let bytes = Bytes::from(residues.to_bytes());
                PackedVector::new(Coordinates::Residues(ring), ring.width() as u32, bytes)
            }
        }
    }

    /// The coordinates times a factor.
    pub fn to_f64(&self, factor: f64) -> Vec<f64> {
        match &self.0 {
            Words::Narrow(words) => words.iter().map(|&w| w as f64 * factor).collect(),
            Words::Wide(words) => words.iter().map(|&w| w as f64 * factor).collect(),
            Words::Residues(residues) => residues.to_f64(factor),
        }
    }

    /// Writes `width` bytes a coordinate, if all are at most `bound` in absolute value. Residues
    /// have one width, and always fit.
    pub(super) fn write(&self, width: u32, bound: i128, bytes: &mut [u8]) -> Result<(), VectorError> {
        assert_eq!(
            bytes.len(),
            self.len() * width as usize,
            "the caller made room for the vector"
        );
        match &self.0 {
            Words::Narrow(words) => write_words(words, width as usize, bound, bytes),
            Words::Wide(words) => write_words(words, width as usize, bound, bytes),
            Words::Residues(residues) => {
                bytes.copy_from_slice(&residues.to_bytes());
                Ok(())
            }
        }
    }
}

fn packed_words<W: Word>(words: &[W], state_bits: u32) -> PackedVector {
    let union = words::union(words);
    let width = (128 - union.leading_zeros() + 1).div_ceil(8).min(state_bits / 8);
    let mut bytes = vec![0; words.len() * width as usize];
    words::write(words, width as usize, &mut bytes);
    PackedVector::new(Coordinates::Integers(state_bits), width, Bytes::from(bytes))
}

fn write_words<W: Word>(words: &[W], width: usize, bound: i128, bytes: &mut [u8]) -> Result<(), VectorError> {
    let beyond = |w: u128| w > bound.unsigned_abs();
    // No coordinate is larger than the union of all of their bits.
    if !beyond(words::write(words, width, bytes)) {
        return Ok(());
    }
    let first = words.iter().position(|w| beyond(w.magnitude()));
    first.map_or(Ok(()), |index| Err(VectorError::Bound { index, bound }))
}

impl PackedVector {
    /// The coordinates as words, bit for bit.
    pub fn unpack(&self) -> LatticeVector {
        fn words<W: Word>(packed: &PackedVector) -> Vec<W> {
            let mut words = vec![W::default(); packed.len()];
            packed.read(0, &mut words);
            words
        }
        let mut vector = LatticeVector::zeros(self.cells(), 0);
        vector.0 = match vector.0 {
            Words::Narrow(_) => Words::Narrow(words(self)),
            Words::Wide(_) => Words::Wide(words(self)),
            Words::Residues(none) => {
                let mut residues = ResidueVector::zeros(none.ring(), self.len());
                residues.add_bytes(Sign::Plus, self.bytes());
                Words::Residues(residues)
            }
        };
        vector
    }
}

impl LatticeVector {
    /// Returns a vector of `count` zeros.
    pub(super) fn zeros(cells: Coordinates, count: usize) -> Self {
        LatticeVector(match cells {
            Coordinates::Integers(64) => Words::Narrow(vec![0; count]),
            Coordinates::Integers(_) => Words::Wide(vec![0; count]),
            Coordinates::Residues(ring) => Words::Residues(ResidueVector::zeros(ring, count)),
        })
    }
}

impl LatticeVector {
    /// Draws `count` residues uniformly from the ring.
    pub(crate) fn uniform<R: Rng>(ring: Ring, count: usize, rng: &mut R) -> Self {
        let mut residues = ResidueVector::zeros(ring, count);
        let filled = residues.add_words(Sign::Plus, |bytes| {
            rng.fill_bytes(bytes);
            Ok::<(), Infallible>(())
        });
        match filled {
            Ok(()) => LatticeVector(Words::Residues(residues)),
        }
    }
}

impl Payload for LatticeVector {
    type Coefficient = Ratio;
    type Packed = PackedVector;

    fn zero_like(packed: &PackedVector) -> Self {
        LatticeVector::zeros(packed.cells(), packed.len())
    }

    fn pack(&self) -> PackedVector {
        LatticeVector::pack(self)
    }

    fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Words::Narrow(a), Words::Narrow(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Words::Wide(a), Words::Wide(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Words::Residues(a), Words::Residues(b)) => a.add(b),
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
            Words::Residues(residues) => {
                for (factor, vector) in terms.iter().filter(|(factor, _)| !factor.is_zero()) {
                    residues.add_bytes(sign(*factor), vector.bytes());
                }
                match ways {
                    1 => {}
                    2 => residues.halve(),
                    _ => unreachable!("a plan with residues divides by 2 only: its fan-out is 1"),
                }
            }
        }
    }
}

/// Residues are added and subtracted as they are.
fn sign(factor: Ratio) -> Sign {
    match (factor.numerator(), factor.denominator()) {
        (1, 1) => Sign::Plus,
        (-1, 1) => Sign::Minus,
        _ => unreachable!("a plan with residues has an injection of 1, 0 and -1 only"),
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
