//! The noise of an exchange that PPSC's Theorems 3 and 4 ask for in each iteration of its outer
//! recursions: for reproduction, no claim rests on it (accountant/docs/papers.md).
//!
//! A change of one party's rows is detected from the exact sums of pieces of the private graph, at
//! any σ_γ. The theorems leave such changes out, and more is wrong with them; the number is theirs
//! all the same. Of Theorem 4 the constant is repaired: how far a gradient changes with the
//! parameters stands where it has the longest gradient.
//!
//! Their λ_ppsc is the least positive singular value of D, what the noises do to the states. Every
//! column of D is e_a − e_b of two parties of a piece, or 0: D is the incidence matrix of a graph
//! on them, and a path has the least singular value of all connected graphs, 2 sin(π/2m) for m
//! parties. So no sequence of edges has less than a path of the largest piece.

use std::f64::consts::{PI, SQRT_2};

/// An outer recursion's number of iterations, L, and what is asked of all of them together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OuterIterations {
    /// How many parties there are, n.
    pub parties: usize,
    /// L.
    pub iterations: u64,
    /// ε of all iterations together, which the paper splits evenly.
    pub epsilon: f64,
    /// δ of all iterations together.
    pub delta: f64,
    /// λ_ppsc.
    pub least_singular_value: f64,
}

/// The public facts of linear equations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equations {
    /// ν, the squared error that is allowed.
    pub accuracy: f64,
    /// ‖y*‖, or a bound on it.
    pub solution_norm: f64,
    /// ‖ζ₀‖.
    pub start_norm: f64,
    /// λ_H: how much of an error an outer iteration leaves.
    pub contraction: f64,
}

/// The least that λ_ppsc can be where the largest piece of the private graph has so many parties.
pub fn least_singular_value(largest_piece: usize) -> f64 {
    2.0 * libm::sin(PI / (2.0 * largest_piece.max(2) as f64))
}

impl OuterIterations {
    /// κ(ε/L, δ_#)/λ_ppsc times how far all states together may change in an iteration.
    pub fn of_change(&self, length: f64) -> f64 {
        let (epsilon, l) = (self.epsilon, self.iterations as f64);
        // (δ + e^ε)^{1/L} − e^{ε/L} without cancellation.
        let delta = libm::exp(epsilon / l) * libm::expm1(libm::log1p(self.delta * libm::exp(-epsilon)) / l);
        kappa(epsilon / l, delta) * length / self.least_singular_value
    }

    /// σ_γ* of Theorem 3, for changes of the paper's length 1; with √n in φ*, as in the paper.
    pub fn of_equations(&self, equations: &Equations) -> f64 {
        let n = (self.parties as f64).sqrt();
        self.of_change(equations.accuracy.sqrt() + equations.bound(n) + n)
    }

    /// σ_γ† of Theorem 4, for changes of the paper's length 1. `gradient_change` bounds how far a
    /// party's gradient changes when its parameters change by 1; the paper has the longest gradient
    /// there, which is wrong.
    pub fn of_gradients(&self, gradient_change: f64) -> f64 {
        self.of_change(self.parties as f64 * gradient_change)
    }

    /// The largest λ_H with which Theorem 3 takes L iterations for enough, wherever the solution
    /// is: L ≥ L* with ‖ζ₀‖ + ‖y*‖ for ‖ζ₀ − y*‖, and no slack ε₀. None where the start is as near
    /// as the accuracy asks for, so that any is enough.
    pub fn most_contraction(&self, accuracy: f64, solution_norm: f64, start_norm: f64) -> Option<f64> {
        let apart = solution_norm + start_norm;
        let left = accuracy / (2.0 * self.parties as f64 * apart * apart);
        let most = libm::pow(left, 0.5 / self.iterations as f64);
        (most < 1.0).then_some(most)
    }
}

impl Equations {
    /// φ*, the bound on the states; `spread` is √n as in the paper.
    pub fn bound(&self, spread: f64) -> f64 {
        let rest = (2.0 - self.contraction) / (1.0 - self.contraction) * self.accuracy.sqrt();
        spread * (2.0 * self.solution_norm + self.start_norm) + rest
    }
}

/// Noise over sensitivity that suffices: κ(ε, δ) = (Q⁻¹(δ) + √(Q⁻¹(δ)² + 2ε)) / 2ε (section 3.1),
/// Q the chance that a standard normal exceeds a number. ε > 0, 0 < δ < 1/2.
pub fn kappa(epsilon: f64, delta: f64) -> f64 {
    let quantile = upper_quantile(delta);
    (quantile + (quantile * quantile + 2.0 * epsilon).sqrt()) / (2.0 * epsilon)
}

/// The number that a standard normal exceeds with chance `tail`: Q⁻¹. 0 < `tail` < 1.
fn upper_quantile(tail: f64) -> f64 {
    let excess = |w: f64| 0.5 * libm::erfc(w / SQRT_2);
    let (mut low, mut high) = (-40.0f64, 40.0f64);
    while high - low > f64::EPSILON * high.abs().max(low.abs()) {
        let middle = low + (high - low) / 2.0;
        if middle == low || middle == high {
            break;
        }
        if excess(middle) > tail {
            low = middle
        } else {
            high = middle
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use faer::{Mat, Side};
    use undertone_protocol::topology::graph::Graph;
    use undertone_protocol::topology::multi_gossip::MultiGossip;

    use super::*;

    /// The least positive singular value of what the noises of these exchanges do to the states.
    fn of_exchanges(parties: usize, exchanges: &[(usize, usize)]) -> f64 {
        let mut states = vec![vec![0.0; exchanges.len()]; parties];
        for (s, &(out, into)) in exchanges.iter().enumerate() {
            let handed = std::mem::replace(&mut states[out], vec![0.0; exchanges.len()]);
            states[into].iter_mut().zip(handed).for_each(|(x, y)| *x += y);
            states[into][s] -= 1.0;
            states[out][s] = 1.0;
        }
        let product = |a: usize, b: usize| states[a].iter().zip(&states[b]).map(|(x, y)| x * y).sum::<f64>();
        let squares = Mat::from_fn(parties, parties, product);
        let squares = squares
            .self_adjoint_eigenvalues(Side::Lower)
            .expect("a symmetric matrix");
        let positive = squares.into_iter().filter(|&square| square > 1e-9);
        positive.fold(f64::INFINITY, f64::min).sqrt()
    }

    /// (e^{ε/L} + δ_#)^L = e^ε + δ, from the definition: with few iterations nothing cancels.
    #[test]
    fn delta_is_split_so_that_all_iterations_together_have_it() {
        let iterations = OuterIterations {
            parties: 3,
            iterations: 4,
            epsilon: 2.0,
            delta: 0.01,
            least_singular_value: 0.5,
        };
        let each = libm::pow(0.01 + libm::exp(2.0), 0.25) - libm::exp(0.5);
        let expected = kappa(0.5, each) * 3.0 / 0.5;
        let found = iterations.of_change(3.0);
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn no_sequence_of_edges_has_less_than_a_path() {
        // Met: each pair of a path's neighbours exchanges once, from one end to the other.
        for parties in 2..8 {
            let along: Vec<(usize, usize)> = (0..parties - 1).rev().map(|i| (i, i + 1)).collect();
            let found = of_exchanges(parties, &along);
            assert!(
                (found - least_singular_value(parties)).abs() < 1e-9,
                "{parties}: {found}"
            );
        }
        let (path, ring) = ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], Graph::ring(6));
        let path = Graph::from_edges(6, &path).expect("a graph");
        for graph in [path, ring, Graph::complete(6)] {
            for seed in 0..300 {
                let drawn = MultiGossip::draw(&graph, 6 + seed as usize % 20, seed).expect("neighbours");
                let exchanges = drawn.edges().iter().flatten();
                let exchanges: Vec<(usize, usize)> = exchanges.map(|edge| (edge.out, edge.into)).collect();
                let found = of_exchanges(6, &exchanges);
                assert!(found >= least_singular_value(6) - 1e-9, "seed {seed}: {found}");
            }
        }
    }
}
