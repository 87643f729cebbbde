//! From K, the covariance of what is observed, and G, what a target's contributions do to it, to
//! the two sides of the squared sensitivity.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, Par, Side};

use crate::account::gossip::threat::{GossipError, Sensitivity};
use crate::losses::contributions::{largest_eigenvalue, tighter};
use crate::losses::gaussian::SLACK;

/// The inverse of K, as L⁻¹ with K = L Lᵀ, and what rounding may have done to it.
pub(super) struct Whitener {
    inverse: Mat<f64>,
    /// The relative error of a solution, to first order: machine precision times K's largest
    /// diagonal entry over its least pivot.
    rounding: f64,
}

impl Whitener {
    /// Factorises a positive definite K; only its lower half is read.
    pub(super) fn of(k: &Mat<f64>) -> Result<Self, GossipError> {
        let size = k.nrows();
        if size == 0 {
            return Ok(Whitener {
                inverse: Mat::new(),
                rounding: 0.0,
            });
        }
        let Ok(factor) = k.llt(Side::Lower) else {
            return Err(GossipError::NearlyDependent);
        };
        let l = factor.L();
        let largest = (0..size).map(|row| k[(row, row)]).fold(0.0, f64::max);
        let least = (0..size)
            .map(|row| l[(row, row)] * l[(row, row)])
            .fold(f64::INFINITY, f64::min);
        let rounding = f64::EPSILON * largest / least;
        if rounding.is_nan() || rounding > 1e-3 {
            return Err(GossipError::NearlyDependent);
        }
        let mut inverse = Mat::identity(size, size);
        l.solve_lower_triangular_in_place(&mut inverse);
        Ok(Whitener { inverse, rounding })
    }

    /// Both sides of the squared sensitivity for M = Gᵀ K⁻¹ G out of `rounds` rounds; G may have
    /// fewer columns, as later contributions are not seen. `triangular`: G is square and lower
    /// triangular, which halves the work.
    pub(super) fn sensitivity(&self, g: &Mat<f64>, rounds: usize, triangular: bool) -> Sensitivity {
        let (rows, columns) = (g.nrows(), g.ncols());
        if rows == 0 || columns == 0 {
            return Sensitivity::NONE;
        }
        let (x, m) = self.squares(g, triangular);
        // From below: c = 1, 1ᵀM1 = ‖X1‖².
        let ones: f64 = (0..rows)
            .map(|row| (0..columns).map(|column| x[(row, column)]).sum::<f64>().powi(2))
            .sum();
        // The target's own noise is unknown: M ≤ I, so that cᵀMc ≤ T.
        let upper = (tighter(m.as_ref(), rounds) * (1.0 + SLACK + self.rounding)).min(rounds as f64);
        Sensitivity {
            lower: ones.min(upper),
            upper,
            unbounded: false,
        }
    }

    /// T λ_max(M) alone, T = `rounds`, which holds for contributions of any dimension.
    pub(super) fn spectral(&self, g: &Mat<f64>, rounds: usize, triangular: bool) -> f64 {
        if g.nrows() == 0 || g.ncols() == 0 {
            return 0.0;
        }
        let (_, m) = self.squares(g, triangular);
        let bound = rounds as f64 * largest_eigenvalue(m.as_ref()) * (1.0 + SLACK + self.rounding);
        bound.min(rounds as f64)
    }

    /// X = L⁻¹ G, and M = Xᵀ X, of which the lower half is filled.
    fn squares(&self, g: &Mat<f64>, triangular: bool) -> (Mat<f64>, Mat<f64>) {
        let (rows, columns) = (g.nrows(), g.ncols());
        let mut x: Mat<f64> = Mat::zeros(rows, columns);
        let mut m: Mat<f64> = Mat::zeros(columns, columns);
        let (lower, whole) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
        if triangular {
            triangular::matmul(
                &mut x,
                lower,
                Accum::Replace,
                &self.inverse,
                lower,
                g,
                lower,
                1.0,
                Par::Seq,
            );
            let upper = BlockStructure::TriangularUpper;
            triangular::matmul(
                &mut m,
                lower,
                Accum::Replace,
                x.transpose(),
                upper,
                &x,
                lower,
                1.0,
                Par::Seq,
            );
        } else {
            matmul(&mut x, Accum::Replace, &self.inverse, g, 1.0, Par::Seq);
            triangular::matmul(
                &mut m,
                lower,
                Accum::Replace,
                x.transpose(),
                whole,
                &x,
                whole,
                1.0,
                Par::Seq,
            );
        }
        (x, m)
    }
}

impl Whitener {
    /// Both sides for many targets at once, a column of `g` each: its T × T matrix G is the lower
    /// triangular Toeplitz matrix of that column. The upper value is valid, but only where the
    /// second is true as small as the careful one.
    ///
    /// With S = L⁻¹ E, E the lower triangular ones, L⁻¹G has the columns Σ_m β_m S_{s+m}, β the
    /// differences of g. So 1ᵀ|M|1 ≤ ‖ |L⁻¹G| 1 ‖² ≤ ‖C |β|‖², C_m = Σ_{j≥m} |S_j|: a product for
    /// all targets instead of T³ operations each. It is 1ᵀM1 itself where S and β have no negative
    /// entry, as measured for all pairs but neighbours on the Facebook graph.
    pub(super) fn quick(&self, g: &Mat<f64>, rounds: usize) -> Vec<(Sensitivity, bool)> {
        /// Nothing lies between 1ᵀM1 and the upper value but this.
        const TIGHT: f64 = 1e-11;
        let (size, targets) = (g.nrows(), g.ncols());
        // C, row by row from the right.
        let mut c: Mat<f64> = Mat::zeros(size, size);
        for row in 0..size {
            let (mut step, mut sum) = (0.0, 0.0);
            for column in (0..=row).rev() {
                step += self.inverse[(row, column)];
                sum += f64::abs(step);
                c[(row, column)] = sum;
            }
        }
        // G1, and |β|.
        let (mut sums, mut changes) = (g.clone(), Mat::zeros(size, targets));
        for target in 0..targets {
            for k in 0..size {
                let before = if k == 0 { 0.0 } else { g[(k - 1, target)] };
                changes[(k, target)] = f64::abs(g[(k, target)] - before);
                if k > 0 {
                    sums[(k, target)] += sums[(k - 1, target)];
                }
            }
        }
        let squares = |factor: &Mat<f64>, columns: &Mat<f64>| {
            let mut product: Mat<f64> = Mat::zeros(size, targets);
            matmul(&mut product, Accum::Replace, factor, columns, 1.0, Par::Seq);
            (0..targets)
                .map(|target| product.col(target).squared_norm_l2())
                .collect::<Vec<f64>>()
        };
        let (lower, upper) = (squares(&self.inverse, &sums), squares(&c, &changes));
        let answer = |(lower, upper): (f64, f64)| {
            let upper = upper * (1.0 + SLACK + self.rounding);
            let tight = upper <= lower * (1.0 + TIGHT + 2.0 * self.rounding);
            let upper = upper.min(rounds as f64);
            (
                Sensitivity {
                    lower: lower.min(upper),
                    upper,
                    unbounded: false,
                },
                tight,
            )
        };
        lower.into_iter().zip(upper).map(answer).collect()
    }
}
