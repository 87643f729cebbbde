//! The injection of a party's value and noise into its own state, round by round (INCA, section
//! 3.1, Definitions 3.3 and 3.4). With T rounds, c has T + 1 factors of the noisy value x̃. The
//! matrix Z has T + 1 rows of factors of the T correlated noises η.

use thiserror::Error;

use crate::lattice::payload::{Coefficient, Ratio};

/// A (c, Z)-Gaussian: in its t-th online round a party adds c_t·x̃ + Σ_k Z_{t,k}·η_k to its own
/// state.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection<C> {
    c: Vec<C>,
    z: Vec<Vec<C>>,
}

/// A reason why a (c, Z) is not a valid Gaussian (Definition 3.4) or does not fit on the lattice.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InjectionError {
    /// Shapes that do not belong to the number of rounds.
    #[error("injection: {what} has {found} entries, expected {expected} for {rounds} rounds")]
    Shape {
        /// The coefficients at fault: c, z, or a row of z.
        what: String,
        /// The length that was found.
        found: usize,
        /// The length it should have.
        expected: usize,
        /// The number of rounds T.
        rounds: usize,
    },
    /// A number that is not finite, or a fraction too large for the lattice.
    #[error("injection: {what} is not usable: {why}")]
    Entry {
        /// The place of the entry.
        what: String,
        /// The reason why they are refused.
        why: String,
    },
    /// Condition (i) for c: the pieces do not add up to the value.
    #[error("injection: the entries of c add up to {sum}, not to 1 (Definition 3.4, condition i)")]
    ValueSum {
        /// The sum of the entries of c, Σ c_t.
        sum: f64,
    },
    /// Condition (i) for Z: a noise term does not cancel.
    #[error(
        "injection: column {column} of z adds up to {sum}, not to 0: its noise would not cancel (Definition 3.4, condition i)"
    )]
    NoiseSum {
        /// The column, from 0.
        column: usize,
        /// The sum of the column's entries, Σ_t Z_{t,k}.
        sum: f64,
    },
    /// Condition (ii) or (iii): a noise term could be solved for.
    #[error(
        "injection: {matrix} is singular (Definition 3.4, condition {condition}): the noise does not hide every piece"
    )]
    Singular {
        /// The matrix that is singular.
        matrix: &'static str,
        /// The condition of Definition 3.4 that it violates: ii or iii.
        condition: &'static str,
    },
}

/// The largest common denominator of c and the largest numerator of c and Z that a plan may use;
/// more would cost state bits.
pub const LARGEST_PART: u64 = 64;

impl<C: Coefficient> Injection<C> {
    /// The number of rounds T.
    pub fn rounds(&self) -> usize {
        self.c.len() - 1
    }

    /// The factors c of the value: one for the start, and one for each round.
    pub fn c(&self) -> &[C] {
        &self.c
    }

    /// The factors of the noises after round `t` (0: at the start): a row of Z.
    pub fn z(&self, t: usize) -> &[C] {
        &self.z[t]
    }

    /// The first round at whose end noise number `k` (from 0) is injected, 0 for the start; one
    /// more than the last round if none does.
    pub fn first_use(&self, k: usize) -> usize {
        self.z
            .iter()
            .position(|row| !row[k].is_zero())
            .unwrap_or(self.c.len())
    }

    fn shape(c: &[C], z: &[Vec<C>]) -> Result<(), InjectionError> {
        let rounds = c.len().saturating_sub(1);
        let check = |what: String, found: usize, expected: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(InjectionError::Shape {
                    what,
                    found,
                    expected,
                    rounds,
                })
            }
        };
        if rounds == 0 {
            return Err(InjectionError::Shape {
                what: "c".into(),
                found: c.len(),
                expected: 2,
                rounds: 1,
            });
        }
        check("z".into(), z.len(), rounds + 1)?;
        z.iter()
            .enumerate()
            .try_for_each(|(t, row)| check(format!("row {t} of z"), row.len(), rounds))
    }
}

fn incremental<C: Coefficient>(rounds: usize, part: C, one: C) -> Injection<C> {
    let mut z = vec![vec![C::zero(); rounds]; rounds + 1];
    for k in 0..rounds {
        z[k][k] = one;
        z[k + 1][k] = one.negated();
    }
    Injection {
        c: vec![part; rounds + 1],
        z,
    }
}

fn early<C: Coefficient>(rounds: usize, one: C) -> Injection<C> {
    let mut c = vec![C::zero(); rounds + 1];
    c[0] = one;
    let mut z = vec![vec![C::zero(); rounds]; rounds + 1];
    z[0] = vec![one; rounds];
    for k in 0..rounds {
        z[k + 1][k] = one.negated();
    }
    Injection { c, z }
}

fn late<C: Coefficient>(rounds: usize, one: C) -> Injection<C> {
    let mut injection = incremental(rounds, C::zero(), one);
    injection.c[0] = one;
    injection
}

impl Injection<f64> {
    /// All of the value at the start, and a fresh noise in every round that leaves in the next: the
    /// injection of uniform noise.
    pub fn late(rounds: usize) -> Self {
        late(rounds, 1.0)
    }

    /// D_Inc (Example 3.2) for one round or more: an equal part of the value in every round.
    pub fn incremental(rounds: usize) -> Self {
        incremental(rounds, 1.0 / (rounds as f64 + 1.0), 1.0)
    }

    /// D_EI (Example 3.1) for one round or more: all of the value at the start.
    pub fn early(rounds: usize) -> Self {
        early(rounds, 1.0)
    }

    /// Any valid (c, Z): with T rounds T + 1 numbers, and T + 1 rows of T. Sums may be off by 1e-9
    /// (numbers that a person typed).
    pub fn custom(c: Vec<f64>, z: Vec<Vec<f64>>) -> Result<Self, InjectionError> {
        Self::shape(&c, &z)?;
        let finite = |what: String, number: f64| {
            if number.is_finite() {
                Ok(())
            } else {
                Err(InjectionError::Entry {
                    what,
                    why: "it is not finite".into(),
                })
            }
        };
        c.iter()
            .enumerate()
            .try_for_each(|(t, &n)| finite(format!("c[{t}]"), n))?;
        for (t, row) in z.iter().enumerate() {
            row.iter()
                .enumerate()
                .try_for_each(|(k, &n)| finite(format!("z[{t}][{k}]"), n))?;
        }
        let sum: f64 = c.iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return Err(InjectionError::ValueSum { sum });
        }
        for column in 0..c.len() - 1 {
            let sum: f64 = z.iter().map(|row| row[column]).sum();
            if sum.abs() > 1e-9 {
                return Err(InjectionError::NoiseSum { column, sum });
            }
        }
        let injection = Injection { c, z };
        injection.regular()?;
        Ok(injection)
    }

    /// Conditions (ii) and (iii) of Definition 3.4.
    fn regular(&self) -> Result<(), InjectionError> {
        let joined: Vec<Vec<f64>> = self
            .c
            .iter()
            .zip(&self.z)
            .map(|(&c, row)| std::iter::once(c).chain(row.iter().copied()).collect())
            .collect();
        if !invertible(joined) {
            return Err(InjectionError::Singular {
                matrix: "(c, z)",
                condition: "ii",
            });
        }
        if !invertible(self.z[..self.rounds()].to_vec()) {
            return Err(InjectionError::Singular {
                matrix: "z without its last row",
                condition: "iii",
            });
        }
        Ok(())
    }
}

/// Gaussian elimination with complete row scaling and partial pivoting; a pivot below 1e-10 of its
/// row counts as 0.
fn invertible(mut rows: Vec<Vec<f64>>) -> bool {
    for row in &mut rows {
        let largest = row.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        if largest == 0.0 {
            return false;
        }
        row.iter_mut().for_each(|x| *x /= largest);
    }
    let size = rows.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()));
        let Some(pivot) = pivot.filter(|&p| rows[p][column].abs() > 1e-10) else {
            return false;
        };
        rows.swap(column, pivot);
        let (head, tail) = rows.split_at_mut(column + 1);
        for row in tail {
            let factor = row[column] / head[column][column];
            row[column..]
                .iter_mut()
                .zip(&head[column][column..])
                .for_each(|(x, p)| *x -= factor * p);
        }
    }
    true
}

impl Injection<Ratio> {
    /// D_Inc (Example 3.2) in exact fractions: an equal part of the value in every round.
    pub fn exact_incremental(rounds: usize) -> Self {
        let part = Ratio::new(1, rounds as i64 + 1).expect("T + 1 is positive and small");
        incremental(rounds, part, Ratio::whole(1))
    }

    /// All of the value at the start, and a fresh noise in every round that leaves in the next: the
    /// injection of uniform noise.
    pub fn exact_late(rounds: usize) -> Self {
        late(rounds, Ratio::one())
    }

    /// D_EI (Example 3.1) in exact fractions: all of the value at the start.
    pub fn exact_early(rounds: usize) -> Self {
        early(rounds, Ratio::whole(1))
    }

    /// Any valid (c, Z) in exact fractions whose common denominators and numerators are at most
    /// [`LARGEST_PART`].
    pub fn exact_custom(c: Vec<Ratio>, z: Vec<Vec<Ratio>>) -> Result<Self, InjectionError> {
        Self::shape(&c, &z)?;
        let injection = Injection { c, z };
        let too_large = |what: &str, why: &str| InjectionError::Entry {
            what: what.into(),
            why: why.into(),
        };
        let entries = || injection.c.iter().chain(injection.z.iter().flatten());
        if entries().any(|r| r.numerator().unsigned_abs() > LARGEST_PART) {
            return Err(too_large("a numerator", "it is larger than 64"));
        }
        for (what, ratios) in [("c", &injection.c), ("z", &injection.z.concat())] {
            match Ratio::common_denominator(ratios.iter().copied()) {
                Some(q) if q <= LARGEST_PART => {}
                _ => return Err(too_large(what, "its common denominator is larger than 64")),
            }
        }
        let sum = |ratios: &mut dyn Iterator<Item = Ratio>| ratios.fold(Ratio::zero(), Ratio::plus);
        let value_sum = sum(&mut injection.c.iter().copied());
        if value_sum != Ratio::whole(1) {
            return Err(InjectionError::ValueSum {
                sum: value_sum.to_f64(),
            });
        }
        for column in 0..injection.rounds() {
            let noise_sum = sum(&mut injection.z.iter().map(|row| row[column]));
            if !noise_sum.is_zero() {
                return Err(InjectionError::NoiseSum {
                    column,
                    sum: noise_sum.to_f64(),
                });
            }
        }
        injection.to_f64().regular()?;
        Ok(injection)
    }

    /// All factors in floating point, for the accountant.
    pub fn to_f64(&self) -> Injection<f64> {
        let floats = |row: &[Ratio]| row.iter().map(|r| r.to_f64()).collect::<Vec<_>>();
        Injection {
            c: floats(&self.c),
            z: self.z.iter().map(|row| floats(row)).collect(),
        }
    }

    /// The common denominator q of c, the factors of the value.
    pub fn value_denominator(&self) -> u64 {
        Ratio::common_denominator(self.c.iter().copied()).expect("checked when it was made")
    }

    /// The common denominator of Z, the factors of the noises.
    pub fn noise_denominator(&self) -> u64 {
        Ratio::common_denominator(self.z.iter().flatten().copied()).expect("checked when it was made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_named_injections_are_valid() {
        for rounds in 1..=12 {
            for exact in [
                Injection::exact_incremental(rounds),
                Injection::exact_early(rounds),
            ] {
                let again = Injection::exact_custom(exact.c.clone(), exact.z.clone());
                assert_eq!(again.as_ref(), Ok(&exact));
                let floats = exact.to_f64();
                assert!(Injection::custom(floats.c.clone(), floats.z.clone()).is_ok());
            }
        }
        assert_eq!(Injection::exact_incremental(7).value_denominator(), 8);
        assert_eq!(Injection::exact_early(7).value_denominator(), 1);
        assert_eq!(Injection::exact_early(7).first_use(6), 0);
        assert_eq!(Injection::exact_incremental(7).first_use(6), 6);
    }

    #[test]
    fn an_invalid_one_says_which_condition_fails() {
        let z = vec![vec![1.0, 0.0], vec![-1.0, 1.0], vec![0.0, -1.0]];
        assert!(matches!(
            Injection::custom(vec![0.5, 0.2, 0.2], z.clone()),
            Err(InjectionError::ValueSum { .. })
        ));
        let mut bad = z.clone();
        bad[2][1] = -0.5;
        assert!(matches!(
            Injection::custom(vec![0.5, 0.25, 0.25], bad),
            Err(InjectionError::NoiseSum { column: 1, .. })
        ));
        let flat = vec![vec![1.0, 1.0], vec![-1.0, -1.0], vec![0.0, 0.0]];
        assert!(matches!(
            Injection::custom(vec![0.5, 0.25, 0.25], flat),
            Err(InjectionError::Singular { condition: "ii", .. })
        ));
        assert!(matches!(
            Injection::custom(vec![1.0], vec![]),
            Err(InjectionError::Shape { .. })
        ));
        assert!(matches!(
            Injection::custom(vec![1.0, f64::NAN, 0.0], z),
            Err(InjectionError::Entry { .. })
        ));
    }
}
