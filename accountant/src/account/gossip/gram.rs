//! Products of the rows eₒᵀWᵏ (row o of the k-th power of the gossip matrix W) over all noises that
//! observers do not know: what K, the covariance of what is observed, is made of.

use faer::Mat;

use crate::account::gossip::threat::{ObserversNoise, Threat};
use crate::account::gossip::weights::Weights;

/// Below this part of ‖eₒᵀW‖² the noise that one observer does not know is computed from the row
/// itself, not as a difference.
const SAFE_DIFFERENCE: f64 = 1e-2;

/// The products ⟨eₒᵀWᵃ, eₚᵀWᵇ⟩ of rows of powers of the gossip matrix W over unknown noises, for
/// places o and p in the basis.
pub(super) enum Gram {
    /// Symmetric W: (Wᵃ⁺ᵇ)ₒₚ, by o, p and a + b, less (Wᵃ)ₒₒ(Wᵇ)ₒₒ where a single observer's noise
    /// is known.
    Moments {
        moments: Vec<Vec<Vec<f64>>>,
        known: bool,
    },
    /// Any W: all products, row (o, a) at o · `powers` + a.
    Products { products: Mat<f64>, powers: usize },
}

impl Gram {
    /// The product of the rows of o in Wᵃ and of p in Wᵇ.
    pub(super) fn of(&self, (o, a): (usize, usize), (p, b): (usize, usize)) -> f64 {
        match self {
            Gram::Moments {
                moments,
                known: false,
            } => moments[o][p][a + b],
            Gram::Moments { moments, known: true } => {
                moments[o][p][a + b] - moments[o][o][a] * moments[p][p][b]
            }
            Gram::Products { products, powers } => products[(o * powers + a, p * powers + b)],
        }
    }
}

/// Rows eₒᵀWᵏ, k = 0 … `last`, of some nodes o: their Gram matrix, and their entries at some
/// columns.
pub(super) struct Powers {
    pub(super) gram: Gram,
    /// The entries, by node, power and column.
    pub(super) entries: Vec<Vec<Vec<f64>>>,
}

impl Powers {
    pub(super) fn of(
        weights: &Weights,
        threat: &Threat<'_>,
        basis: &[usize],
        last: usize,
        columns: &[usize],
    ) -> Self {
        let known = threat.noise == ObserversNoise::Known;
        if weights.symmetric()
            && (!known || (basis.len() == 1 && threat.observers.len() == 1 && safe(weights, basis[0])))
        {
            Self::by_moments(weights, basis, last, columns, known)
        } else {
            Self::by_products(
                weights,
                if known { threat.observers } else { &[] },
                basis,
                last,
                columns,
            )
        }
    }

    /// Takes `last` products with W a node, and of their rows only the two latest at a time: (Wᵏ)ₒₚ
    /// = ⟨row ⌈k/2⌉ of o, row ⌊k/2⌋ of p⟩.
    fn by_moments(weights: &Weights, basis: &[usize], last: usize, columns: &[usize], known: bool) -> Self {
        let mut moments = vec![vec![Vec::with_capacity(2 * last + 1); basis.len()]; basis.len()];
        let mut entries = vec![Vec::with_capacity(last + 1); basis.len()];
        let mut rows: Vec<Vec<f64>> = basis.iter().map(|&node| unit(weights.nodes(), node)).collect();
        let mut before: Vec<Vec<f64>> = Vec::new();
        for power in 0..=last {
            if power > 0 {
                let after = rows.iter().map(|row| weights.after(row)).collect();
                before = std::mem::replace(&mut rows, after);
            }
            for (o, row) in rows.iter().enumerate() {
                entries[o].push(columns.iter().map(|&column| row[column]).collect());
                for p in 0..basis.len() {
                    if power > 0 {
                        moments[o][p].push(dot(row, &before[p]));
                    }
                    moments[o][p].push(dot(row, &rows[p]));
                }
            }
        }
        Powers {
            gram: Gram::Moments { moments, known },
            entries,
        }
    }

    /// Takes all rows, without the columns whose noise is known, and their products.
    fn by_products(
        weights: &Weights,
        known: &[usize],
        basis: &[usize],
        last: usize,
        columns: &[usize],
    ) -> Self {
        let (nodes, powers) = (weights.nodes(), last + 1);
        let mut rows: Mat<f64> = Mat::zeros(nodes, basis.len() * powers);
        let mut entries = vec![Vec::with_capacity(powers); basis.len()];
        for (o, &node) in basis.iter().enumerate() {
            let mut row = unit(nodes, node);
            for power in 0..=last {
                if power > 0 {
                    row = weights.after(&row);
                }
                entries[o].push(columns.iter().map(|&column| row[column]).collect());
                for (node, entry) in without(&row, known).into_iter().enumerate() {
                    rows[(node, o * powers + power)] = entry;
                }
            }
        }
        Powers {
            gram: Gram::Products {
                products: rows.transpose() * &rows,
                powers,
            },
            entries,
        }
    }
}

/// Whether enough of a single observer's first sum is noise of others.
fn safe(weights: &Weights, observer: usize) -> bool {
    let row = weights.after(&unit(weights.nodes(), observer));
    let whole = dot(&row, &row);
    whole - row[observer] * row[observer] >= SAFE_DIFFERENCE * whole
}

/// The row with zeros at the nodes whose noise is known.
pub(super) fn without(row: &[f64], known: &[usize]) -> Vec<f64> {
    let mut row = row.to_vec();
    known.iter().for_each(|&node| row[node] = 0.0);
    row
}

/// A row of zeros with a 1 at `index`.
pub(super) fn unit(length: usize, index: usize) -> Vec<f64> {
    let mut unit = vec![0.0; length];
    unit[index] = 1.0;
    unit
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
