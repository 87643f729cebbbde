//! The contents of a state. The mixing machine is generic over it, so that the accountant runs the
//! very same machine on unit impulses instead of numbers (INCA, section 4.1: the messages are then
//! the rows of (B, A)).

use serde::{Deserialize, Serialize};

/// A factor of an injection: exact on the lattice, floating on impulses.
pub trait Coefficient: Copy + PartialEq + Send + Sync + 'static {
    /// The factor that adds nothing.
    fn zero() -> Self;
    /// The factor that adds a vector as it is.
    fn one() -> Self;
    /// The sum of two factors.
    fn plus(self, other: Self) -> Self;
    /// The factor of opposite sign.
    fn negated(self) -> Self;
    /// Whether it adds nothing.
    fn is_zero(self) -> bool {
        self == Self::zero()
    }
}

impl Coefficient for f64 {
    fn zero() -> Self {
        0.0
    }
    fn one() -> Self {
        1.0
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn negated(self) -> Self {
        -self
    }
}

/// A reduced fraction with a positive denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(i64, i64)", into = "(i64, i64)")]
pub struct Ratio {
    numerator: i64,
    denominator: i64,
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ratio {
    /// `numerator / denominator`, reduced. `None` if the denominator is 0 or a part does not fit.
    pub fn new(numerator: i64, denominator: i64) -> Option<Self> {
        Self::from_wide(numerator.into(), denominator.into())
    }

    fn from_wide(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let sign = if denominator < 0 { -1 } else { 1 };
        let (mut a, mut b) = (numerator.unsigned_abs(), denominator.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = i128::try_from(a.max(1)).ok()?;
        Some(Ratio {
            numerator: i64::try_from(sign * (numerator / divisor)).ok()?,
            denominator: i64::try_from((denominator / divisor).abs()).ok()?,
        })
    }

    /// A whole number as a fraction.
    pub const fn whole(number: i64) -> Self {
        Ratio {
            numerator: number,
            denominator: 1,
        }
    }

    /// The part above the line.
    pub const fn numerator(self) -> i64 {
        self.numerator
    }

    /// The part below the line, positive.
    pub const fn denominator(self) -> i64 {
        self.denominator
    }

    /// The f64 nearest to it.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The least common multiple of the denominators; None if it does not fit.
    pub fn common_denominator(ratios: impl IntoIterator<Item = Ratio>) -> Option<u64> {
        ratios.into_iter().try_fold(1u64, |multiple, ratio| {
            let denominator = ratio.denominator.unsigned_abs();
            multiple.checked_mul(denominator / greatest_common_divisor(multiple, denominator))
        })
    }
}

impl TryFrom<(i64, i64)> for Ratio {
    type Error = &'static str;
    fn try_from((numerator, denominator): (i64, i64)) -> Result<Self, Self::Error> {
        Ratio::new(numerator, denominator).ok_or("a fraction needs a denominator other than 0")
    }
}

impl From<Ratio> for (i64, i64) {
    fn from(ratio: Ratio) -> Self {
        (ratio.numerator, ratio.denominator)
    }
}

impl Coefficient for Ratio {
    fn zero() -> Self {
        Ratio::whole(0)
    }
    fn one() -> Self {
        Ratio::whole(1)
    }
    /// Sums only ever run over the rows of one checked injection, whose numerators and denominators
    /// are at most 64 (see `Injection::custom`), so they fit by far.
    fn plus(self, other: Self) -> Self {
        let wide = |n: i64| i128::from(n);
        Ratio::from_wide(
            wide(self.numerator) * wide(other.denominator) + wide(other.numerator) * wide(self.denominator),
            wide(self.denominator) * wide(other.denominator),
        )
        .expect("numerators and denominators of an injection are at most 64, and at most 64 rows are summed")
    }
    fn negated(self) -> Self {
        Ratio {
            numerator: -self.numerator,
            denominator: self.denominator,
        }
    }
}

/// A vector that can be mixed: a module over its coefficients, with an exact division into equal
/// parts.
pub trait Payload: Clone + Send + 'static {
    /// The type of the factors that a payload can be multiplied with.
    type Coefficient: Coefficient;
    /// A vector at rest: what is kept, or travels between parties. Its holders share it and
    /// none changes it; a long vector takes fewer bytes so.
    type Packed: Clone + Send;
    /// A zero of the same shape.
    fn zero_like(packed: &Self::Packed) -> Self;
    /// The vector at rest, as it is kept or travels.
    fn pack(&self) -> Self::Packed;
    /// Adds `other`, of the same shape.
    fn add(&mut self, other: &Self);
    /// Adds a multiple of each of these vectors, of the same shape, then divides into `ways` equal
    /// parts and keeps one: in one go, since a long vector costs mostly its way through the caches.
    /// Exact: on the lattice each vector is a multiple of its factor's denominator, and what is
    /// divided of `ways`.
    fn add_and_divide(&mut self, terms: &[(Self::Coefficient, &Self::Packed)], ways: u32);
    /// Subtracts `other`, of the same shape.
    fn subtract(&mut self, other: &Self) {
        self.add_multiples(&[(Self::Coefficient::one().negated(), &other.pack())]);
    }
    /// Adds a multiple of each of these vectors.
    fn add_multiples(&mut self, terms: &[(Self::Coefficient, &Self::Packed)]) {
        self.add_and_divide(terms, 1);
    }
}

impl Payload for f64 {
    type Coefficient = f64;
    type Packed = f64;
    fn zero_like(_: &f64) -> Self {
        0.0
    }
    fn pack(&self) -> f64 {
        *self
    }
    fn add(&mut self, other: &Self) {
        *self += other;
    }
    fn add_and_divide(&mut self, terms: &[(f64, &f64)], ways: u32) {
        terms.iter().for_each(|(factor, other)| *self += factor * *other);
        *self /= f64::from(ways);
    }
}

/// A state as a linear function of the unknowns: one coordinate for each x̃ᵢ and each η.
#[derive(Clone, Debug, PartialEq)]
pub struct Impulse(pub Vec<f64>);

impl Impulse {
    /// The unit vector of unknown `index` among `unknowns`.
    pub fn unit(unknowns: usize, index: usize) -> Self {
        let mut coordinates = vec![0.0; unknowns];
        coordinates[index] = 1.0;
        Impulse(coordinates)
    }
}

impl Payload for Impulse {
    type Coefficient = f64;
    type Packed = Impulse;
    fn zero_like(packed: &Impulse) -> Self {
        Impulse(vec![0.0; packed.0.len()])
    }
    fn pack(&self) -> Impulse {
        self.clone()
    }
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }
    fn add_and_divide(&mut self, terms: &[(f64, &Impulse)], ways: u32) {
        for (factor, other) in terms {
            self.0
                .iter_mut()
                .zip(&other.0)
                .for_each(|(a, b)| *a += factor * b);
        }
        if ways > 1 {
            let part = 1.0 / f64::from(ways);
            self.0.iter_mut().for_each(|a| *a *= part);
        }
    }
}
