//! The effect of multi-gossip on expectations: of states, and of the products of two of them.
//!
//! The edge that a component draws depends on nothing, so both are linear, exactly, and no samples
//! are needed.

use ndarray::{Array1, Array2};

/// The private graph, as disjoint paths: first party and length of each.
pub(super) type Paths<'a> = &'a [(usize, usize)];

/// The linear map that some iterations of multi-gossip apply to expectations. Matrices of all
/// products of two parties' states are read row by row.
#[derive(Debug, Clone)]
pub(super) struct SecondMoments {
    /// The map of the parties' mean states.
    pub(super) means: Array2<f64>,
    /// The map of the mean products of two parties' states.
    pub(super) products: Array2<f64>,
    /// The addition to the mean products by noise of variance 1 in each exchange.
    pub(super) noise: Array2<f64>,
}

/// Directed edges of a path, each with its chance of being drawn: a party evenly, then one of its
/// neighbours evenly.
pub(super) fn edges(length: usize) -> Vec<(usize, usize, f64)> {
    let of_party = |out: usize| {
        let neighbours: Vec<usize> = [out.checked_sub(1), Some(out + 1).filter(|&next| next < length)]
            .into_iter()
            .flatten()
            .collect();
        let chance = 1.0 / (length * neighbours.len()) as f64;
        neighbours
            .into_iter()
            .map(move |into| (out, into, chance))
            .collect::<Vec<_>>()
    };
    (0..length).flat_map(of_party).collect()
}

impl SecondMoments {
    /// Those of `iterations` iterations, one edge of each path in each.
    pub(super) fn of(paths: Paths, iterations: usize) -> Self {
        let parties = paths.iter().map(|&(_, length)| length).sum();
        let one = SecondMoments::of_one(paths, parties);
        let mut all = SecondMoments {
            means: Array2::eye(parties),
            products: Array2::eye(parties * parties),
            noise: Array2::zeros((parties, parties)),
        };
        for _ in 0..iterations {
            all.means = one.means.dot(&all.means);
            all.products = one.products.dot(&all.products);
            all.noise = one.products_after(&all.noise) + &one.noise;
        }
        all
    }

    fn of_one(paths: Paths, parties: usize) -> Self {
        let mut one = SecondMoments {
            means: Array2::zeros((parties, parties)),
            products: Array2::zeros((parties * parties, parties * parties)),
            noise: Array2::zeros((parties, parties)),
        };
        let mut path_of = vec![0; parties];
        for (path, &(first, length)) in paths.iter().enumerate() {
            path_of[first..first + length].fill(path);
            for (out, into, chance) in edges(length) {
                let (out, into) = (first + out, first + into);
                // The out-agent's state goes to the in-agent, all others stay.
                let to = |a: usize| if a == out { into } else { a };
                let of_path = || first..first + length;
                for a in of_path() {
                    one.means[[to(a), a]] += chance;
                    for b in of_path() {
                        one.products[[to(a) * parties + to(b), a * parties + b]] += chance;
                    }
                }
                // The out-agent keeps the noise that the in-agent lacks.
                for (a, of_a) in [(out, 1.0), (into, -1.0)] {
                    for (b, of_b) in [(out, 1.0), (into, -1.0)] {
                        one.noise[[a, b]] += chance * of_a * of_b;
                    }
                }
            }
        }
        // Paths draw independently of each other.
        let means = &one.means;
        for (a, b) in (0..parties).flat_map(|a| (0..parties).map(move |b| (a, b))) {
            for (c, d) in (0..parties).flat_map(|c| (0..parties).map(move |d| (c, d))) {
                if path_of[c] != path_of[d] {
                    one.products[[a * parties + b, c * parties + d]] = means[[a, c]] * means[[b, d]];
                }
            }
        }
        one
    }

    /// The mean products after these iterations, noise left out.
    pub(super) fn products_after(&self, products: &Array2<f64>) -> Array2<f64> {
        let flat = Array1::from_iter(products.iter().copied());
        let after = self.products.dot(&flat);
        after
            .into_shape_with_order(products.dim())
            .expect("as many as before")
    }
}
