//! The eigenvalues of a graph's Laplacian, and how far they may be off.

use crate::topology::graph::Graph;

/// The non-zero Laplacian eigenvalues of a connected graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    parties: usize,
    values: Vec<f64>,
    margin: f64,
}

impl Spectrum {
    /// The spectrum of a graph; `None` if it is not connected, or has fewer than two parties.
    ///
    /// Householder's reduction to a tridiagonal matrix, then bisection with Sturm counts: only +,
    /// −, ×, ÷ and √, which IEEE 754 rounds in one way, in a fixed order, so that every node finds
    /// the same bits.
    pub fn of(graph: &Graph) -> Option<Self> {
        let parties = graph.parties();
        if parties < 2 || !graph.connected() {
            return None;
        }
        let (diagonal, off) = tridiagonal(laplacian(graph));
        let largest = 2.0
            * (0..parties)
                .map(|party| graph.neighbours(party).len())
                .max()
                .unwrap_or(0) as f64;
        // The smallest one is 0: the graph is connected, so it is the only one.
        let values = (1..parties)
            .map(|index| eigenvalue(&diagonal, &off, index, largest))
            .collect();
        // The reduction is backward stable: its error is a small multiple of n^1.5 × 2^-53 of the
        // largest eigenvalue (Higham 2002, chapter 19); this is above 10 times that for any plan's
        // n.
        let margin = 4e-14 * parties as f64 * largest;
        Some(Spectrum {
            parties,
            values,
            margin,
        })
    }

    /// The number of parties n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// The eigenvalues in ascending order, λ₂ ≤ … ≤ λ_n.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Each true eigenvalue is within this of the one here.
    pub fn margin(&self) -> f64 {
        self.margin
    }

    /// A lower bound on λ₂, the least non-zero eigenvalue.
    pub fn least(&self) -> f64 {
        self.values[0] - self.margin
    }

    /// An upper bound on λ_n, the largest eigenvalue.
    pub fn largest(&self) -> f64 {
        self.values[self.values.len() - 1] + self.margin
    }

    /// One value for each group that cannot be distinguished.
    pub fn distinct(&self) -> Vec<f64> {
        let mut groups: Vec<(f64, f64)> = Vec::new();
        for &value in &self.values {
            match groups.last_mut() {
                Some((_, last)) if value - *last <= 4.0 * self.margin => *last = value,
                _ => groups.push((value, value)),
            }
        }
        groups
            .into_iter()
            .map(|(first, last)| 0.5 * (first + last))
            .collect()
    }
}

fn laplacian(graph: &Graph) -> Vec<Vec<f64>> {
    let parties = graph.parties();
    let mut matrix = vec![vec![0.0; parties]; parties];
    for (party, row) in matrix.iter_mut().enumerate() {
        row[party] = graph.neighbours(party).len() as f64;
        graph
            .neighbours(party)
            .iter()
            .for_each(|&other| row[other] = -1.0);
    }
    matrix
}

/// Householder's reduction of a symmetric matrix: diagonal and first off-diagonal.
fn tridiagonal(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<f64>) {
    let n = a.len();
    let mut off = vec![0.0; n - 1];
    for k in 0..n - 1 {
        let column: Vec<f64> = (k + 1..n).map(|i| a[i][k]).collect();
        let rest: f64 = column[1..].iter().map(|x| x * x).sum();
        if rest == 0.0 {
            off[k] = column[0];
            continue;
        }
        let norm = (column[0] * column[0] + rest).sqrt();
        let pivot = if column[0] > 0.0 { -norm } else { norm };
        off[k] = pivot;
        let mut v = column;
        v[0] -= pivot;
        let scale = 2.0 / v.iter().map(|x| x * x).sum::<f64>();
        reflect(&mut a, k + 1, &v, scale);
    }
    ((0..n).map(|i| a[i][i]).collect(), off)
}

/// A ← (1 − s v vᵀ) A (1 − s v vᵀ) on rows and columns from `first` on.
fn reflect(a: &mut [Vec<f64>], first: usize, v: &[f64], scale: f64) {
    let product = |row: &Vec<f64>| scale * row[first..].iter().zip(v).map(|(a, v)| a * v).sum::<f64>();
    let mut w: Vec<f64> = a[first..].iter().map(product).collect();
    let half = 0.5 * scale * w.iter().zip(v).map(|(w, v)| w * v).sum::<f64>();
    w.iter_mut().zip(v).for_each(|(w, v)| *w -= half * v);
    for (i, row) in a[first..].iter_mut().enumerate() {
        for (j, entry) in row[first..].iter_mut().enumerate() {
            *entry -= v[i] * w[j] + w[i] * v[j];
        }
    }
}

/// Returns the number of eigenvalues of a tridiagonal matrix below `x` (Sturm).
fn below(diagonal: &[f64], off: &[f64], x: f64) -> usize {
    let mut count = 0;
    let mut pivot = 1.0f64;
    for (i, d) in diagonal.iter().enumerate() {
        let before = if i == 0 {
            0.0
        } else {
            off[i - 1] * off[i - 1] / pivot
        };
        pivot = d - x - before;
        if pivot == 0.0 {
            pivot = f64::MIN_POSITIVE.sqrt();
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

/// The eigenvalue with `index` smaller ones, between 0 and `largest`.
fn eigenvalue(diagonal: &[f64], off: &[f64], index: usize, largest: f64) -> f64 {
    let (mut low, mut high) = (-1.0, largest + 1.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if below(diagonal, off, middle) > index {
            high = middle
        } else {
            low = middle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(graph: &Graph, mut expected: Vec<f64>) {
        let spectrum = Spectrum::of(graph).expect("connected");
        expected.sort_by(f64::total_cmp);
        assert_eq!(spectrum.values().len(), expected.len());
        for (found, expected) in spectrum.values().iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= spectrum.margin(),
                "{found} instead of {expected}"
            );
        }
    }

    #[test]
    fn known_graphs() {
        let pi = std::f64::consts::PI;
        for n in [3, 4, 10, 31] {
            check(
                &Graph::ring(n),
                (1..n)
                    .map(|k| 2.0 - 2.0 * libm::cos(2.0 * pi * k as f64 / n as f64))
                    .collect(),
            );
            check(&Graph::complete(n), vec![n as f64; n - 1]);
            let path: Vec<(usize, usize)> = (1..n).map(|i| (i - 1, i)).collect();
            let path = Graph::from_edges(n, &path).expect("a path");
            check(
                &path,
                (1..n)
                    .map(|k| 2.0 - 2.0 * libm::cos(pi * k as f64 / n as f64))
                    .collect(),
            );
            let star: Vec<(usize, usize)> = (1..n).map(|i| (0, i)).collect();
            let mut expected = vec![1.0; n - 2];
            expected.push(n as f64);
            check(&Graph::from_edges(n, &star).expect("a star"), expected);
        }
    }

    /// The sum of eigenvalues is the trace, the sum of their squares that of all squared entries.
    #[test]
    fn moments_of_random_graphs() {
        for seed in 0..4 {
            let graph = Graph::random_regular(60, 4, seed).expect("a graph");
            let spectrum = Spectrum::of(&graph).expect("connected");
            let sum: f64 = spectrum.values().iter().sum();
            let squares: f64 = spectrum.values().iter().map(|x| x * x).sum();
            assert!(
                (sum - 240.0).abs() < 1e-9 && (squares - 60.0 * 20.0).abs() < 1e-8,
                "{sum} {squares}"
            );
            assert_eq!(Spectrum::of(&graph).expect("again"), spectrum);
        }
    }

    #[test]
    fn distinct_values_and_pieces() {
        assert_eq!(
            Spectrum::of(&Graph::ring(10))
                .expect("connected")
                .distinct()
                .len(),
            5
        );
        assert_eq!(
            Spectrum::of(&Graph::complete(9))
                .expect("connected")
                .distinct()
                .len(),
            1
        );
        assert_eq!(
            Spectrum::of(&Graph::from_edges(4, &[(0, 1), (2, 3)]).expect("edges")),
            None
        );
    }
}
