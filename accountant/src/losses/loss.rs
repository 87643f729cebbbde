//! The loss of a linear-Gaussian view: μᵢ² = Δᵢ² hᵢᵀ Σ⁺ hᵢ, Δᵢ how far the value of party i may
//! change, hᵢ its column in B, Σ = σ*² B Bᵀ + σ_Δ² A Aᵀ ([`View`], [`Noise`]).
//!
//! The view is reduced to independent rows by a column-pivoted QR of (σ* B, σ_Δ A)ᵀ, which does not
//! square the condition number as Σ would. A direction that is dropped and carries anything of hᵢ
//! beyond rounding is a value seen without noise: the loss is infinite. A pseudo-inverse with a
//! cut-off would hide exactly that.

use std::collections::BTreeMap;

use faer::Mat;
use ndarray::Array2;
use undertone_protocol::topology::party::Party;

use crate::losses::view::View;

/// Standard deviations of the noise, in the data's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The deviation σ* of each party's own noise, which never cancels.
    pub independent_std: f64,
    /// The deviation σ_Δ (with PPSC σ_γ) of the noise that cancels in the sum of all finals.
    pub correlated_std: f64,
}

/// A row whose part outside the rows kept so far is smaller than this, relatively, depends on them.
/// Our guess: a thousand times the rounding of a few hundred operations, and far below any noise
/// ratio that a plan can have.
const DEPENDENT: f64 = 1e-12;

/// The largest part of a party's column that a dropped direction carries by rounding alone,
/// relative to the column and to what explains it.
const ROUNDING: f64 = 1e-10;

/// The squared losses hᵢᵀ Σ⁺ hᵢ of the view's honest parties at unit sensitivity, in the order of
/// [`View::honest`]; ∞ where a value can be computed without noise.
pub fn squared_losses(view: &View, noise: Noise) -> Vec<f64> {
    let (rows, honest) = view.b.dim();
    let mut losses = vec![0.0; honest];
    let scaled = Scaled::of(view, noise);
    scaled.noiseless(&mut losses);
    let kept = scaled.kept.len();
    if kept == 0 || rows == 0 {
        return losses;
    }
    // R of (σ* B, σ_Δ A)ᵀ, whose first rows are independent: Σ = Rᵀ R.
    let transposed = Mat::from_fn(scaled.m.ncols(), kept, |unknown, row| {
        scaled.m[[scaled.kept[row], unknown]]
    });
    let qr = transposed.col_piv_qr();
    let (r, order) = (qr.thin_R(), qr.P().arrays().0);
    let full = r.nrows().min(kept);
    let first = r[(0, 0)].abs();
    let rank = (0..full)
        .take_while(|&k| r[(k, k)].abs() > DEPENDENT * first)
        .count();
    for (party, loss) in losses.iter_mut().enumerate() {
        let h = |k: usize| scaled.b[[scaled.kept[order[k]], party]];
        // R₁₁ᵀ u = h on the independent rows; then hᵀ Σ⁺ h = ‖u‖².
        let mut u = vec![0.0; rank];
        for k in 0..rank {
            let known: f64 = (0..k).map(|j| r[(j, k)] * u[j]).sum();
            u[k] = (h(k) - known) / r[(k, k)];
        }
        let square = u.iter().map(|x| x * x).sum::<f64>();
        *loss += square;
        // What is left must be explained by these, or it is seen without noise. The rows have
        // length 1, so that u is off by its own rounding in every direction, whatever a row's own
        // terms come to. What is taken for rounding here is outweighed by the loss that is stated:
        // a part ρ of h that is dropped by mistake has ‖u‖ ≥ ρ/ROUNDING.
        for k in rank..kept {
            let explained: f64 = (0..rank).map(|j| r[(j, k)] * u[j]).sum();
            if (h(k) - explained).abs() > ROUNDING * (h(k).abs() + square.sqrt()) {
                *loss = f64::INFINITY;
            }
        }
        if loss.is_nan() {
            // Overflow somewhere: doubt counts as seen.
            *loss = f64::INFINITY;
        }
    }
    losses
}

/// Rows of a view at some noise, (σ* B, σ_Δ A), and of its B, each divided by the length of the
/// former.
struct Scaled {
    m: Array2<f64>,
    b: Array2<f64>,
    /// Rows that carry noise.
    kept: Vec<usize>,
}

impl Scaled {
    /// Scales the rows of a view.
    fn of(view: &View, noise: Noise) -> Self {
        let (rows, honest) = view.b.dim();
        let mut m = Array2::zeros((rows, honest + view.a.ncols()));
        let mut b = view.b.clone();
        let mut kept = Vec::with_capacity(rows);
        for row in 0..rows {
            let (values, noises) = (view.b.row(row), view.a.row(row));
            let scaled = values
                .iter()
                .map(|x| x * noise.independent_std)
                .chain(noises.iter().map(|x| x * noise.correlated_std));
            m.row_mut(row)
                .iter_mut()
                .zip(scaled)
                .for_each(|(entry, x)| *entry = x);
            let length = m.row(row).dot(&m.row(row)).sqrt();
            let size = values.dot(&values).sqrt() + noises.dot(&noises).sqrt();
            // Noise of the size of rounding is none.
            if length > 1e-14 * size * noise.independent_std.max(noise.correlated_std) {
                m.row_mut(row).mapv_inplace(|x| x / length);
                b.row_mut(row).mapv_inplace(|x| x / length);
                kept.push(row);
            }
        }
        Scaled { m, b, kept }
    }

    /// A row without any noise shows whatever values it has.
    fn noiseless(&self, losses: &mut [f64]) {
        for row in (0..self.b.nrows()).filter(|row| !self.kept.contains(row)) {
            let size = self.b.row(row).iter().fold(0.0f64, |size, x| size.max(x.abs()));
            for (loss, value) in losses.iter_mut().zip(self.b.row(row)) {
                if value.abs() > ROUNDING * size {
                    *loss = f64::INFINITY;
                }
            }
        }
    }
}

/// The rank of a list of vectors of one length, by a pivoted QR.
pub fn rank(vectors: &[Vec<f64>]) -> usize {
    let Some(length) = vectors.first().map(Vec::len).filter(|&length| length > 0) else {
        return 0;
    };
    let matrix = Mat::from_fn(length, vectors.len(), |row, column| vectors[column][row]);
    let qr = matrix.col_piv_qr();
    let r = qr.thin_R();
    let full = r.nrows().min(vectors.len());
    let first = r[(0, 0)].abs();
    // The vectors of Lemma 4.4 have entries of at least 1/(k+1); 1e-9 is far from both them and
    // rounding.
    (0..full)
        .take_while(|&k| first > 0.0 && r[(k, k)].abs() > 1e-9 * first)
        .count()
}

/// A squared loss times the squared sensitivity; what cannot change loses nothing.
pub(crate) fn scaled(sensitivity: f64, square: f64) -> f64 {
    if sensitivity == 0.0 {
        0.0
    } else {
        sensitivity * sensitivity * square
    }
}

/// The root of the largest of these squared losses.
pub(crate) fn largest_mu(losses: &BTreeMap<Party, f64>) -> f64 {
    losses
        .values()
        .fold(0.0, |largest: f64, &loss| largest.max(loss))
        .sqrt()
}

/// The largest squared loss of one system, sensitivity included, and whose.
pub(crate) fn largest(honest: &[Party], squares: &[f64], sensitivity: &[f64]) -> (f64, Party) {
    let losses = honest
        .iter()
        .zip(squares)
        .map(|(&party, &square)| (scaled(sensitivity[party], square), party));
    // Overflow somewhere: doubt counts as seen.
    let losses = losses.map(|(square, party)| (if square.is_nan() { f64::INFINITY } else { square }, party));
    losses.fold(
        (f64::NEG_INFINITY, 0),
        |most, loss| if loss.0 > most.0 { loss } else { most },
    )
}

#[cfg(test)]
mod tests;
