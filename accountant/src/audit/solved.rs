//! The weights of the optimal test of a linear-Gaussian view.

use faer::Mat;

/// w of the least rank with RᵀR w = h, for `root` R; an entry of w for each column of R. Columns
/// that the others explain get none.
pub(super) fn solved(root: Mat<f64>, h: impl Fn(usize) -> f64) -> Vec<f64> {
    let rows = root.ncols();
    let mut weights = vec![0.0; rows];
    let qr = root.col_piv_qr();
    let (r, order) = (qr.thin_R(), qr.P().arrays().0);
    let first = if rows == 0 { 0.0 } else { r[(0, 0)].abs() };
    let rank = (0..r.nrows().min(rows))
        .take_while(|&k| r[(k, k)].abs() > 1e-12 * first)
        .count();
    // Σ of the independent rows is R₁₁ᵀ R₁₁.
    let mut u = vec![0.0; rank];
    for k in 0..rank {
        let known: f64 = (0..k).map(|j| r[(j, k)] * u[j]).sum();
        u[k] = (h(order[k]) - known) / r[(k, k)];
    }
    for k in (0..rank).rev() {
        let known: f64 = (k + 1..rank).map(|j| r[(k, j)] * weights[order[j]]).sum();
        weights[order[k]] = (u[k] - known) / r[(k, k)];
    }
    weights
}
