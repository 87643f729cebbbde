//! PPSC's closed forms as printed, for comparison with the paper and nothing else: no claim rests
//! on them (ERRATA).
//!
//! They are loose where they hold (κ needs 1.31 times the exact trade-off's noise at ε = 0.1, δ =
//! 10⁻⁶) and S* answers another question than privacy: that every state has changed does not give D
//! its full rank.

use std::f64::consts::SQRT_2;

use faer::{Mat, Side};

/// κ(ε, δ) = (Q⁻¹(δ) + √(Q⁻¹(δ)² + 2ε)) / 2ε (section 3.1): noise over sensitivity that suffices.
/// ε > 0, 0 < δ < 1/2.
pub fn kappa(epsilon: f64, delta: f64) -> f64 {
    let quantile = upper_quantile(delta);
    (quantile + (quantile * quantile + 2.0 * epsilon).sqrt()) / (2.0 * epsilon)
}

/// S*_ρ (section 3.1): iterations after which every state has changed with probability at least
/// `rho`, in a private graph of `q` components of at most `n_max` parties, `r_dagger` the least
/// ratio of a component's least and largest degree.
pub fn iterations_to_change_every_state(rho: f64, q: usize, n_max: usize, r_dagger: f64) -> f64 {
    // 1 − ρ^{1/q} without cancellation for ρ near 1.
    let missed = -(rho.ln() / q as f64).exp_m1();
    (missed.ln() - (n_max as f64).ln()) / (-(1.0 + r_dagger) / n_max as f64).ln_1p()
}

/// The right side of (5): public rounds after which E‖x − mean‖² ≤ `nu`, S = `iterations` over `q`
/// components at σ_γ = `pairwise_std`, `norm_squared` = ‖d‖² over n parties, `connectivity` = λ_G.
pub fn consensus_rounds(
    nu: f64,
    parties: usize,
    norm_squared: f64,
    q: usize,
    iterations: usize,
    pairwise_std: f64,
    connectivity: f64,
) -> f64 {
    let noise = q as f64 * iterations as f64 * pairwise_std;
    (nu.ln() - (parties as f64 * norm_squared + 2.0 * noise * noise).ln()) / (2.0 * (-connectivity).ln_1p())
}

/// λ_G: the second smallest eigenvalue of the Laplacian of a public graph of n ≥ 2 parties in which
/// each of `edges` weighs `weight`; NaN if the eigenvalues did not converge.
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

/// Q⁻¹: the w with Q(w) = `tail`, the chance that a standard normal exceeds w. 0 < `tail` < 1.
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
