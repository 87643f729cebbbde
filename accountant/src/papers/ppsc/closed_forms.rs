//! PPSC's closed forms as in the paper, for comparison with the paper and nothing else: no claim
//! rests on them (accountant/docs/papers.md).
//!
//! They are loose where they hold (the paper's noise over sensitivity, κ, is 1.31 times the exact
//! trade-off's at ε = 0.1, δ = 10⁻⁶), and its number of iterations, S*, answers another question
//! than privacy: that every state has changed does not give D, what the noises do to the states,
//! its full rank.

use faer::{Mat, Side};

/// Iterations after which every state has changed with probability at least `rho`: S*_ρ (section
/// 3.1), in a private graph of `q` components of at most `n_max` parties, `r_dagger` the least
/// ratio of a component's least and largest degree.
pub fn iterations_to_change_every_state(rho: f64, q: usize, n_max: usize, r_dagger: f64) -> f64 {
    // 1 − ρ^{1/q} without cancellation for ρ near 1.
    let missed = -libm::expm1(libm::log(rho) / q as f64);
    (libm::log(missed) - libm::log(n_max as f64)) / libm::log1p(-(1.0 + r_dagger) / n_max as f64)
}

/// A private phase of PPSC, as far as the accuracy of the consensus that follows depends on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivatePhase {
    /// How many parties there are.
    pub parties: usize,
    /// The sum of the squares of their values.
    pub norm_squared: f64,
    /// Components of the private graph.
    pub components: usize,
    /// Iterations of multi-gossip.
    pub iterations: usize,
    /// Standard deviation of the noise γ of each exchange.
    pub pairwise_std: f64,
}

/// Public rounds after which the expected squared distance from the mean is at most `nu`: the right
/// side of the paper's (5). `connectivity` is the public graph's [`algebraic_connectivity`].
pub fn consensus_rounds(nu: f64, phase: PrivatePhase, connectivity: f64) -> f64 {
    let noise = phase.components as f64 * phase.iterations as f64 * phase.pairwise_std;
    let start = phase.parties as f64 * phase.norm_squared + 2.0 * noise * noise;
    (libm::log(nu) - libm::log(start)) / (2.0 * libm::log1p(-connectivity))
}

/// The second smallest eigenvalue of the Laplacian, λ_G, of a public graph of at least two parties
/// in which each of `edges` weighs `weight`; NaN if the eigenvalues did not converge.
pub fn algebraic_connectivity(parties: usize, edges: &[(usize, usize)], weight: f64) -> f64 {
    let mut laplacian: Mat<f64> = Mat::zeros(parties, parties);
    for &(from, to) in edges {
        laplacian[(from, from)] += weight;
        laplacian[(to, to)] += weight;
        laplacian[(from, to)] -= weight;
        laplacian[(to, from)] -= weight;
    }
    laplacian
        .self_adjoint_eigenvalues(Side::Lower)
        .map_or(f64::NAN, |values| values[1])
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bounds::paper_noise::kappa;

    #[track_caller]
    fn assert_close(name: &str, found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 1e-9 * expected.abs() + 1e-14,
            "{name}: found {found:e}, expected {expected:e}"
        );
    }

    #[test]
    fn closed_forms_are_those_of_an_independent_implementation() {
        let vectors = include_str!("../../../tests/vectors/ppsc.json");
        let vectors: Value = serde_json::from_str(vectors).expect("vectors parse");
        let rows = |name: &str| -> Vec<Vec<f64>> {
            serde_json::from_value(vectors[name].clone()).expect("rows of numbers")
        };
        for row in rows("kappa") {
            assert_close("kappa", kappa(row[0], row[1]), row[2]);
        }
        for row in rows("S_star") {
            let found = iterations_to_change_every_state(row[0], row[1] as usize, row[2] as usize, row[3]);
            assert_close("S*", found, row[4]);
        }
        let cycle: Vec<(usize, usize)> = (0..10).map(|i| (i, (i + 1) % 10)).collect();
        for (name, weight) in [("cycle10_a0_1", 0.1), ("cycle10_a0_25", 0.25)] {
            let expected = vectors["lambda_G"][name].as_f64().expect("a number");
            assert_close(name, algebraic_connectivity(10, &cycle, weight), expected);
        }
        // Table 1's ‖d‖² = 27,100, q = 3, S = 25, δ = 1e-6.
        for row in rows("T_theorem2") {
            assert_close("sigma", kappa(row[0], 1e-6) / row[2], row[3]);
            let connectivity = algebraic_connectivity(10, &cycle, 0.1);
            let phase = PrivatePhase {
                parties: 10,
                norm_squared: 27_100.0,
                components: 3,
                iterations: 25,
                pairwise_std: row[3],
            };
            assert_close("T", consensus_rounds(row[1], phase, connectivity), row[4]);
        }
    }
}
