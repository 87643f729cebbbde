//! The span of a view's rows over independent noises of unit variance, and the part of the noises
//! themselves that they determine.
//!
//! Where a party's contribution enters together with its own unknown noise, a change of it moves
//! what is seen as that noise does, so that the squared loss of changes c is ‖P E c‖², P the
//! projection onto the span of the rows and E the columns of that party's noises. One
//! factorisation serves all parties.

use faer::Mat;
use faer::linalg::solvers::Qr;
use thiserror::Error;

use crate::losses::contributions::ContributionLoss;

/// Observations so nearly dependent that rounding may have eaten the smallest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("what is seen is too nearly dependent to account for in 64-bit arithmetic")]
pub struct NearlyDependent;

/// The span of independent rows.
pub struct RowSpace {
    /// An orthonormal basis, a vector a column.
    basis: Mat<f64>,
    /// The relative error that entries of the projection may have, to first order.
    rounding: f64,
}

impl RowSpace {
    /// The span of these rows, all of which must be independent and of the first one's length.
    pub fn of(rows: &[Vec<f64>]) -> Result<Self, NearlyDependent> {
        let length = rows.first().map_or(0, Vec::len);
        if rows.len() > length {
            return Err(NearlyDependent);
        }
        let transposed: Mat<f64> = Mat::from_fn(length, rows.len(), |at, row| rows[row][at]);
        let qr: Qr<f64> = transposed.qr();
        let r = qr.thin_R();
        let pivots = (0..rows.len()).map(|at| r[(at, at)].abs());
        let (least, largest) = pivots.fold((f64::INFINITY, 0.0), |(least, largest): (f64, f64), pivot| {
            (least.min(pivot), largest.max(pivot))
        });
        let rounding = if rows.is_empty() {
            0.0
        } else {
            f64::EPSILON * largest / least * (rows.len() as f64).sqrt()
        };
        if rounding.is_nan() || rounding > 1e-6 {
            return Err(NearlyDependent);
        }
        Ok(RowSpace {
            basis: qr.compute_thin_Q(),
            rounding,
        })
    }

    /// The squared losses of contributions that enter beside the noises of these columns, each of
    /// which has the standard deviation that is given with it.
    pub fn loss(&self, columns: &[(usize, f64)]) -> ContributionLoss {
        if self.basis.ncols() == 0 {
            return ContributionLoss::NONE;
        }
        let part: Mat<f64> = Mat::from_fn(columns.len(), self.basis.ncols(), |row, vector| {
            let (column, std) = columns[row];
            self.basis[(column, vector)] / std
        });
        let m = &part * part.transpose();
        ContributionLoss::of(m.as_ref(), self.rounding)
    }
}

/// The places of rows, over unknown noises, that no others explain.
///
/// The entries are sums of a few products of weights; a part below 10⁻¹⁰ of a row is taken for
/// rounding.
pub(crate) fn independent(rows: &[Vec<f64>]) -> Vec<usize> {
    const DEPENDENT: f64 = 1e-10;
    let kept: Vec<(usize, f64)> = rows
        .iter()
        .map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt())
        .enumerate()
        .filter(|&(_, length)| length > 0.0)
        .collect();
    let Some(width) = rows.first().map(Vec::len).filter(|_| !kept.is_empty()) else {
        return vec![];
    };
    let scaled = Mat::from_fn(width, kept.len(), |row, column| {
        rows[kept[column].0][row] / kept[column].1
    });
    let qr = scaled.col_piv_qr();
    let (r, order) = (qr.thin_R(), qr.P().arrays().0);
    let rank = (0..r.nrows().min(kept.len()))
        .take_while(|&k| r[(k, k)].abs() > DEPENDENT)
        .count();
    let mut places: Vec<usize> = order[..rank].iter().map(|&column| kept[column].0).collect();
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_two_noises_tells_half_of_each() {
        let space = RowSpace::of(&[vec![1.0, 1.0, 0.0]]).expect("one row");
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-10, "{found}");
        close(space.loss(&[(0, 1.0)]).one, 0.5);
        close(space.loss(&[(2, 1.0)]).one, 0.0);
        // Contributions beside both cost 2 together; with half the noise four times as much.
        close(space.loss(&[(0, 1.0), (1, 1.0)]).upper, 2.0);
        close(space.loss(&[(0, 0.5)]).upper, 2.0);
        // A second sum tells all three apart only with a third.
        let two = RowSpace::of(&[vec![1.0, 1.0, 0.0], vec![0.0, 1.0, 1.0]]).expect("two rows");
        close(two.loss(&[(1, 1.0)]).one, 2.0 / 3.0);
        close(RowSpace::of(&[]).expect("nothing").loss(&[(0, 1.0)]).upper, 0.0);
    }

    #[test]
    fn rows_that_repeat_are_refused_and_left_out() {
        let rows = vec![vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0], vec![0.0, 0.0, 0.0]];
        assert!(RowSpace::of(&rows[..2]).is_err());
        assert_eq!(independent(&rows).len(), 1);
        assert!(RowSpace::of(&[vec![1.0], vec![2.0]]).is_err());
    }
}
