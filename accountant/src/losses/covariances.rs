//! The losses of one view at many noises: what takes long is done once.

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par, Side};
use ndarray::{Array2, Axis};

use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;

/// A pivot that lost more digits than this is not trusted, as in [`crate::execution::rows`]: the
/// losses are computed with care.
const DOUBT: f64 = 1e-7;

/// Columns that are multiplied at once: our choice, a few of which fit into a cache.
const COLUMNS: usize = 128;

/// A view y = B x̃ + A η, and B Bᵀ and A Aᵀ, of which only what is on and below the diagonal is
/// filled.
pub(crate) struct Covariances {
    view: View,
    values: Mat<f64>,
    noises: Mat<f64>,
}

impl Covariances {
    /// Computes both products.
    pub(crate) fn of(view: View) -> Self {
        let mut order: Vec<usize> = (0..view.a.nrows()).collect();
        order.sort_by_cached_key(|&row| view.a.row(row).iter().filter(|&&x| x != 0.0).count());
        let view = View {
            b: view.b.select(Axis(0), &order),
            a: view.a.select(Axis(0), &order),
            honest: view.honest,
        };
        Covariances {
            values: product(&view.b),
            noises: product(&view.a),
            view,
        }
    }

    /// Returns the losses as [`squared_losses`] has them, by a Cholesky factorisation of Σ = σ*² B
    /// Bᵀ + σ_Δ² A Aᵀ. They are within 10⁻⁷ of it, relatively, as at most nine of sixteen digits
    /// are lost. Where a pivot loses more, [`squared_losses`] itself is asked.
    pub(crate) fn squared_losses(&self, noise: Noise) -> Vec<f64> {
        let rows = self.view.b.nrows();
        let (own, common) = (noise.independent_std.powi(2), noise.correlated_std.powi(2));
        let sigma = Mat::from_fn(rows, rows, |row, column| {
            if row < column {
                return 0.0;
            }
            own * self.values[(row, column)] + common * self.noises[(row, column)]
        });
        let careful = || squared_losses(&self.view, noise);
        let Ok(factors) = sigma.llt(Side::Lower) else {
            return careful();
        };
        let pivots = factors.L();
        if (0..rows).any(|row| pivots[(row, row)].powi(2) <= DOUBT * sigma[(row, row)]) {
            return careful();
        }
        // μ² = hᵀ Σ⁻¹ h = ‖L⁻¹ h‖², h a party's column of B.
        let mut columns = dense(&self.view.b);
        solve_lower_triangular_in_place(pivots, columns.as_mut(), Par::Seq);
        (0..columns.ncols())
            .map(|party| columns.col(party).squared_norm_l2())
            .collect()
    }
}

fn dense(array: &Array2<f64>) -> Mat<f64> {
    Mat::from_fn(array.nrows(), array.ncols(), |row, column| array[[row, column]])
}

/// `array` times its transpose, on and below the diagonal.
///
/// States know nothing of later noises, so that most of A is 0 where rows are in the order of what
/// they know: columns that begin further down are multiplied from there on only.
fn product(array: &Array2<f64>) -> Mat<f64> {
    let (rows, columns) = array.dim();
    let mut begins = vec![rows; columns];
    for (index, row) in array.rows().into_iter().enumerate() {
        for (begin, x) in begins.iter_mut().zip(row) {
            if *x != 0.0 {
                *begin = index.min(*begin);
            }
        }
    }
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by_key(|&column| begins[column]);
    let mut product = Mat::zeros(rows, rows);
    for chunk in order.chunks(COLUMNS) {
        let begin = begins[chunk[0]];
        let part = Array2::from_shape_fn((rows - begin, chunk.len()), |(row, column)| {
            array[[begin + row, chunk[column]]]
        });
        let part =
            MatRef::from_row_major_slice(part.as_slice().expect("row-major"), part.nrows(), part.ncols());
        triangular::matmul(
            product
                .as_mut()
                .submatrix_mut(begin, begin, rows - begin, rows - begin),
            BlockStructure::TriangularLower,
            Accum::Add,
            part,
            BlockStructure::Rectangular,
            part.transpose(),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
    }
    product
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn losses_are_those_of_the_careful_way_in_doubt_too() {
        let b = array![[0.5, 0.0, 0.25], [0.0, 0.5, 0.25], [0.5, 0.5, 0.5]];
        let plain = array![[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [-1.0, -1.0, 0.0]];
        // The third row is the sum of the others: Σ is singular.
        let doubtful = array![[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [1.0, 1.0, 0.5]];
        for a in [plain, doubtful] {
            let view = View {
                honest: vec![0, 1, 2],
                b: b.clone(),
                a,
            };
            let covariances = Covariances::of(view.clone());
            for correlated_std in [0.1, 1.0, 30.0] {
                let noise = Noise {
                    independent_std: 0.7,
                    correlated_std,
                };
                let (fast, careful) = (covariances.squared_losses(noise), squared_losses(&view, noise));
                for (fast, careful) in fast.into_iter().zip(careful) {
                    assert!((fast / careful - 1.0).abs() < 1e-9, "{fast} {careful}");
                }
            }
        }
    }
}
