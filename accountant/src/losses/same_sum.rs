//! The loss under PPSC's own adjacency (section 3.1): honest values may change together, by v, as
//! long as Cv stays in range(D), C what values and D what noises do to what is seen.

use faer::{Mat, MatRef, Side};
use ndarray::Array2;

use crate::losses::gaussian::SLACK;
use crate::losses::view::View;

/// Singular values below this part of the largest are zero. The columns of D are differences of two
/// unit vectors (or one of them), so a positive singular value is at least about 1/n of the
/// largest, for n parties; these are 4,096 at most.
const ZERO: f64 = 1e-9;

/// The loss of joint changes that keep every revealed sum, and the smallest noise in a view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SameSum {
    /// The supremum of ‖D⁺Cv‖₂ over changes ‖v‖₂ ≤ 1 with Cv in range(D), never below the true one;
    /// 0 if there is no such change.
    pub largest: f64,
    /// The least positive singular value of D; none if D is zero.
    pub smallest_singular_value: Option<f64>,
}

impl SameSum {
    /// Computes both for a view, whose B is the paper's C, and A its D.
    ///
    /// With D = U S Vᵀ on its range and N an orthonormal basis of {v : (I − U Uᵀ) C v = 0}, the
    /// supremum is the largest singular value of S⁻¹ Uᵀ C N: no ‖C‖ and no least singular value is
    /// pulled out of it, as Theorem 1 and its proof do.
    pub fn of(view: &View) -> Self {
        // The range of D: U and S.
        let (c, d) = (dense(&view.b), dense(&view.a));
        let (u, singular) = match range_of(d.as_ref()) {
            Range::Zero => {
                return SameSum {
                    largest: 0.0,
                    smallest_singular_value: None,
                };
            }
            Range::Unknown => {
                return SameSum {
                    largest: f64::INFINITY,
                    smallest_singular_value: None,
                };
            }
            Range::Spanned { basis, singular } => (basis, singular),
        };
        let smallest_singular_value = singular.last().copied();
        // N: changes that stay in it.
        let inside = u.transpose() * &c;
        let outside = &c - &u * &inside;
        let free = null_space(outside.as_ref());
        if free.ncols() == 0 {
            return SameSum {
                largest: 0.0,
                smallest_singular_value,
            };
        }
        // S⁻¹ Uᵀ C N.
        let stretched = Mat::from_fn(inside.nrows(), inside.ncols(), |row, column| {
            inside[(row, column)] / singular[row]
        });
        let largest = (stretched * free)
            .singular_values()
            .map_or(f64::INFINITY, |all| all.first().copied().unwrap_or(0.0));
        SameSum {
            largest: largest * (1.0 + SLACK),
            smallest_singular_value,
        }
    }
}

fn dense(array: &Array2<f64>) -> Mat<f64> {
    Mat::from_fn(array.nrows(), array.ncols(), |row, column| array[[row, column]])
}

/// The range of a matrix.
enum Range {
    /// The range of the zero matrix.
    Zero,
    /// The decomposition did not converge.
    Unknown,
    /// An orthonormal basis, and the positive singular values in descending order.
    Spanned { basis: Mat<f64>, singular: Vec<f64> },
}

fn range_of(d: MatRef<'_, f64>) -> Range {
    if d.nrows() == 0 || d.ncols() == 0 {
        return Range::Zero;
    }
    let Ok(svd) = d.thin_svd() else {
        return Range::Unknown;
    };
    let mut singular: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    let first = singular[0];
    let rank = singular.iter().take_while(|&&value| value > ZERO * first).count();
    if rank == 0 {
        return Range::Zero;
    }
    singular.truncate(rank);
    Range::Spanned {
        basis: svd.U().subcols(0, rank).to_owned(),
        singular,
    }
}

/// An orthonormal basis of {v : `m` v = 0}. The entries of `m` are of order 1 or rounding.
fn null_space(m: MatRef<'_, f64>) -> Mat<f64> {
    let columns = m.ncols();
    // The eigenvalues are squares of singular values of a projection of unit vectors: 0 or at least
    // about 1/n.
    let gram = m.transpose() * m;
    match gram.self_adjoint_eigen(Side::Lower) {
        Ok(eigen) => {
            let zeros = eigen
                .S()
                .column_vector()
                .iter()
                .take_while(|&&value| value < ZERO)
                .count();
            eigen.U().subcols(0, zeros).to_owned()
        }
        // Doubt widens the set that the supremum ranges over.
        Err(_) => Mat::identity(columns, columns),
    }
}
