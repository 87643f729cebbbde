//! The solutions of some linear equations, and the nearest of them to a point.

use super::ordered::{dot, norm};

/// The set {y : A·y = b}, kept as an orthonormal basis of what the equations look at.
///
/// Made by Householder's QR of Aᵀ, the triangle's transpose then turned into coefficients of b, so
/// that a projection is one product with an orthonormal matrix. Equations that follow from earlier
/// ones are left out, whether or not they contradict them: what the rows hold may be private, and
/// no error may tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// Orthonormal rows, each as long as a point.
    basis: Vec<Vec<f64>>,
    /// The value of each row of the basis at every solution.
    values: Vec<f64>,
}

/// An equation is taken to follow from the others where this share of its length is left after
/// theirs. Our choice: 2⁻⁴⁰, between rounding (2⁻⁵²) and anything that people write down.
const DEPENDENT: f64 = 1.0 / (1u64 << 40) as f64;

impl Affine {
    /// The solutions of Σ_i `rows[k][i]`·y_i = `values[k]`. Rows are of one length; a row of zeros
    /// says nothing.
    pub fn new(rows: &[Vec<f64>], values: &[f64]) -> Self {
        let mut affine = Affine {
            basis: vec![],
            values: vec![],
        };
        let mut reflections: Vec<Vec<f64>> = vec![];
        for (row, value) in rows.iter().zip(values) {
            affine.add(&mut reflections, row, *value);
        }
        affine
    }

    /// Whether every equation was needed: none followed from earlier ones.
    pub fn has_rank(&self, rank: usize) -> bool {
        self.basis.len() == rank
    }

    /// Adds an equation. Of Aᵀ = Q·R, with Q a product of reflections: its column of R above the
    /// diagonal is known to the solutions so far, the diagonal brings one coefficient more.
    fn add(&mut self, reflections: &mut Vec<Vec<f64>>, row: &[f64], value: f64) {
        let rank = self.basis.len();
        let length = norm(row);
        let mut column = row.to_vec();
        reflections.iter().for_each(|normal| reflect(normal, &mut column));
        let left = column.get(rank..).map_or(0.0, norm);
        if left.is_nan() || left <= DEPENDENT * length {
            return;
        }
        // The reflection that turns what is left into its first coordinate, away from cancellation.
        let diagonal = if column[rank] > 0.0 { -left } else { left };
        let mut normal = vec![0.0; row.len()];
        normal[rank..].copy_from_slice(&column[rank..]);
        normal[rank] -= diagonal;
        let scale = norm(&normal);
        normal.iter_mut().for_each(|n| *n /= scale);
        let mut rest = value;
        for (above, known) in column[..rank].iter().zip(&self.values) {
            rest -= above * known;
        }
        reflections.push(normal);
        // Q's next column: a unit vector, reflected by all in reverse.
        let mut next = vec![0.0; row.len()];
        next[rank] = 1.0;
        reflections
            .iter()
            .rev()
            .for_each(|normal| reflect(normal, &mut next));
        self.basis.push(next);
        self.values.push(rest / diagonal);
    }

    /// Moves a point to the nearest solution.
    pub fn project(&self, point: &mut [f64]) {
        // All at the point as it was: the basis is orthonormal.
        let off = self.basis.iter().zip(&self.values);
        let off: Vec<f64> = off.map(|(row, value)| dot(row, point) - value).collect();
        for (row, off) in self.basis.iter().zip(off) {
            point.iter_mut().zip(row).for_each(|(p, r)| *p -= off * r);
        }
    }
}

/// x − 2·(n·x)·n, for a normal n of length 1.
fn reflect(normal: &[f64], vector: &mut [f64]) {
    let twice = 2.0 * dot(normal, vector);
    vector.iter_mut().zip(normal).for_each(|(v, n)| *v -= twice * n);
}
