//! Losses of the worst contributions to several rounds of gossip averaging (Koskela and Kulkarni,
//! with their errata).
//!
//! M is the matrix that gives c ↦ cᵀMc, the squared loss of contributions that change by cₜ in
//! round t. The worst of all |cₜ| ≤ 1 is at most min(1ᵀ|M|1, T λ_max(M)), T the number of rounds
//! and λ_max the largest eigenvalue, in any dimension; that of one contribution is the largest
//! diagonal entry.

use faer::{MatRef, Side};
use serde::Serialize;

use crate::losses::gaussian::SLACK;

/// The squared losses of one party's contributions, at unit sensitivity of each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ContributionLoss {
    /// A lower bound on the largest squared loss: that of change 1 in every round.
    pub lower: f64,
    /// An upper bound on the largest squared loss, for contributions of any dimension.
    pub upper: f64,
    /// The largest squared loss of a change of one contribution.
    pub one: f64,
}

impl ContributionLoss {
    /// Nothing is seen of the party.
    pub const NONE: Self = ContributionLoss {
        lower: 0.0,
        upper: 0.0,
        one: 0.0,
    };

    /// From M, of which the lower half is read; `rounding` is the relative error that its entries
    /// may have, which `upper` and `one` are moved up by.
    pub fn of(m: MatRef<'_, f64>, rounding: f64) -> Self {
        let size = m.nrows();
        let mut lower = 0.0;
        for column in 0..size {
            lower += m[(column, column)];
            lower += 2.0 * (column + 1..size).map(|row| m[(row, column)]).sum::<f64>();
        }
        let up = 1.0 + SLACK + rounding;
        let upper = tighter(m, size) * up;
        let one = (0..size).map(|at| m[(at, at)]).fold(0.0, f64::max) * up;
        ContributionLoss {
            lower: lower.clamp(0.0, upper),
            upper,
            one,
        }
    }

    /// For a squared sensitivity of `square` in place of 1.
    pub fn times(self, square: f64) -> Self {
        ContributionLoss {
            lower: self.lower * square,
            upper: self.upper * square,
            one: self.one * square,
        }
    }

    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        ContributionLoss {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
            one: self.one.max(other.one),
        }
    }
}

/// min(1ᵀ|M|1, T λ_max(M)), λ_max the largest eigenvalue and T = `rounds`; M's lower half is read.
///
/// T λ_max is computed only where it may be the smaller: any quotient vᵀMv / vᵀv is at most λ_max.
pub(crate) fn tighter(m: MatRef<'_, f64>, rounds: usize) -> f64 {
    let size = m.nrows();
    let (mut absolute, mut negative) = (0.0, false);
    for column in 0..size {
        for row in column..size {
            let entry = m[(row, column)];
            negative |= entry < 0.0;
            absolute += entry.abs() * if row == column { 1.0 } else { 2.0 };
        }
    }
    if !negative || rounds as f64 * steep_quotient(m) >= absolute {
        return absolute;
    }
    absolute.min(rounds as f64 * largest_eigenvalue(m))
}

/// λ_max of M, of which the lower half is read.
pub(crate) fn largest_eigenvalue(m: MatRef<'_, f64>) -> f64 {
    let size = m.nrows();
    // Should they not converge, the trace is no smaller than the largest eigenvalue.
    let trace = || (0..size).map(|row| m[(row, row)]).sum();
    m.self_adjoint_eigenvalues(Side::Lower)
        .map_or_else(|_| trace(), |values| values.last().copied().unwrap_or(0.0))
}

/// A lower bound of M's largest eigenvalue: vᵀMv / vᵀv after a few power iterations, from
/// alternating signs: slow contributions leave M without negative entries.
fn steep_quotient(m: MatRef<'_, f64>) -> f64 {
    /// Our guess; more only saves eigenvalues that would not have been needed.
    const ITERATIONS: usize = 6;
    let size = m.nrows();
    let times = |v: &[f64]| {
        let mut product = vec![0.0; size];
        for column in 0..size {
            product[column] += m[(column, column)] * v[column];
            for row in column + 1..size {
                product[row] += m[(row, column)] * v[column];
                product[column] += m[(row, column)] * v[row];
            }
        }
        product
    };
    let mut v: Vec<f64> = (0..size)
        .map(|t| if t % 2 == 0 { 1.0 } else { -1.0 + 1e-3 })
        .collect();
    let mut quotient = 0.0;
    for _ in 0..ITERATIONS {
        let next = times(&v);
        let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
        let (length, along) = (square(&v), v.iter().zip(&next).map(|(a, b)| a * b).sum::<f64>());
        if length == 0.0 {
            break;
        }
        quotient = f64::max(quotient, along / length);
        v = next;
    }
    // A rounding less, so that it stays below λ_max.
    quotient * (1.0 - 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    #[test]
    fn signs_that_alternate_are_covered() {
        // c = (1, 1) costs nothing, (1, −1) all of it.
        let m: Mat<f64> = Mat::from_fn(2, 2, |row, column| if row == column { 1.0 } else { -1.0 });
        let loss = ContributionLoss::of(m.as_ref(), 0.0);
        assert!(loss.lower == 0.0 && (loss.upper - 4.0).abs() < 1e-10 && (loss.one - 1.0).abs() < 1e-10);
        // Two that have nothing to do with each other, one of which is seen better.
        let m: Mat<f64> = Mat::from_fn(
            2,
            2,
            |row, column| if row == column { 1.0 + row as f64 } else { 0.0 },
        );
        let loss = ContributionLoss::of(m.as_ref(), 0.0);
        assert!((loss.lower - 3.0).abs() < 1e-10 && (loss.upper - 3.0).abs() < 1e-10);
        assert!((loss.one - 2.0).abs() < 1e-10);
        let more = ContributionLoss::of(m.as_ref(), 0.5);
        assert!(
            (more.upper - 4.5).abs() < 1e-10 && (more.one - 3.0).abs() < 1e-10 && more.lower == loss.lower
        );
    }
}
