//! Several releases together.
//!
//! Each release is μ-Gaussian-DP, whatever was chosen after seeing the others: their composition
//! has μ² = Σ μᵢ² (Dong, Roth and Su 2022, corollary 3.3) and is converted to (ε, δ) once, at the
//! end, by the exact trade-off. Adding up εs and δs instead is valid and far looser.

use serde::Serialize;

use crate::account::answer::{finite, is_false};
use crate::losses::gaussian::{self, GaussianError};

/// How the loss μ of one release, sensitivity over noise, is stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Release {
    /// By the loss μ itself: exact.
    Loss(f64),
    /// By one point of its trade-off. Only for Gaussian mechanisms, as all of ours are: (ε, δ)
    /// alone says less than μ.
    Guarantee {
        /// ε of the guarantee.
        epsilon: f64,
        /// δ of the guarantee.
        delta: f64,
    },
}

impl Release {
    /// The loss μ of the release, never below the true one.
    pub fn mu(self) -> Result<f64, GaussianError> {
        match self {
            Release::Loss(mu) => gaussian::compose(&[mu]),
            Release::Guarantee { epsilon, delta } => gaussian::mu_of(epsilon, delta),
        }
    }
}

/// The answer of `account compose`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Composed {
    /// How many releases were composed.
    pub releases: usize,
    /// The loss of all releases together, √Σ μᵢ²; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// ε of the loss `mu` at `delta`; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// The δ that was asked for, for noise that is really Gaussian.
    pub delta: f64,
    /// What sampling the noise of all releases adds to δ, at most.
    pub sampling_delta: f64,
    /// Present, and true, if `mu` is infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The loss of all `releases`, chosen adaptively or not, and its ε at `delta`. Neither is ever
/// below the true one.
///
/// `sampled` is the sum of what sampling adds to each release's own δ. What is really sent is
/// within a distance dᵢ (total variation) of the ideal, and a release with εᵢ states (1 + e^εᵢ) dᵢ
/// ≥ 2 dᵢ. Distances add up, so that all together have at most (1 + e^ε) Σ dᵢ ≤ (1 + e^ε)/2 of that
/// sum.
pub fn compose(releases: &[Release], delta: f64, sampled: f64) -> Result<Composed, GaussianError> {
    let losses = releases
        .iter()
        .map(|release| release.mu())
        .collect::<Result<Vec<f64>, _>>()?;
    let mu = gaussian::compose(&losses)?;
    let epsilon = gaussian::epsilon(delta, mu)?;
    Ok(Composed {
        releases: releases.len(),
        mu,
        epsilon,
        delta,
        sampling_delta: (sampled / 2.0 * (1.0 + libm::exp(epsilon.min(700.0)))).min(1.0),
        unbounded: mu.is_infinite() || epsilon.is_infinite(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_add_and_are_converted_once() {
        let answer = compose(
            &[Release::Loss(0.3), Release::Loss(0.4), Release::Loss(0.0)],
            1e-6,
            0.0,
        )
        .expect("an answer");
        assert!((answer.mu - 0.5).abs() < 1e-11 && answer.mu >= 0.5);
        assert_eq!((answer.releases, answer.unbounded), (3, false));
        let exact = gaussian::epsilon(1e-6, 0.5).expect("in range");
        assert!(answer.epsilon >= exact && answer.epsilon < exact * (1.0 + 1e-9));
    }

    #[test]
    fn a_guarantee_is_never_taken_for_less_than_it_is() {
        for (epsilon, delta) in [(1.0, 1e-6), (0.0, 0.1), (8.0, 1e-10), (0.1, 1e-300), (3.0, 0.999)] {
            let mu = Release::Guarantee { epsilon, delta }.mu().expect("in range");
            let budget = gaussian::mu(epsilon, delta).expect("in range");
            assert!(
                mu >= budget && mu <= budget * (1.0 + 1e-8),
                "{epsilon}, {delta}: {budget} {mu}"
            );
            assert!(gaussian::delta(epsilon, mu).expect("in range") >= delta);
        }
    }

    #[test]
    fn sixteen_equal_releases_cost_four_times_one() {
        let releases = [Release::Guarantee {
            epsilon: 0.5,
            delta: 1e-6,
        }; 16];
        let one = releases[0].mu().expect("in range");
        let all = compose(&releases, 1e-6, 0.0).expect("an answer");
        assert!((all.mu / one - 4.0).abs() < 1e-10);
        assert!(all.epsilon < 16.0 * 0.5, "better than adding up: {}", all.epsilon);
    }

    #[test]
    fn what_sampling_adds_grows_with_the_loss_of_all() {
        let one = compose(&[Release::Loss(0.2)], 1e-6, 1e-8).expect("an answer");
        assert!(one.sampling_delta >= 1e-8);
        let two = compose(&[Release::Loss(0.2); 2], 1e-6, 2e-8).expect("an answer");
        let of = |epsilon: f64, sum: f64| sum / 2.0 * (1.0 + libm::exp(epsilon));
        assert_eq!(two.sampling_delta, of(two.epsilon, 2e-8));
        assert!(two.sampling_delta > 2.0 * one.sampling_delta);
        let all = compose(&[Release::Loss(f64::INFINITY)], 1e-6, 1e-8).expect("an answer");
        assert_eq!(all.sampling_delta, 1.0);
    }

    #[test]
    fn nothing_costs_nothing_and_everything_is_said() {
        let none = compose(&[], 1e-6, 0.0).expect("an answer");
        assert_eq!((none.mu, none.epsilon, none.releases), (0.0, 0.0, 0));
        let open =
            compose(&[Release::Loss(1.0), Release::Loss(f64::INFINITY)], 1e-6, 0.0).expect("an answer");
        let json = serde_json::to_value(open).expect("serialises");
        assert!(json["mu"].is_null() && json["epsilon"].is_null() && json["unbounded"] == true);
        assert!(compose(&[Release::Loss(-1.0)], 1e-6, 0.0).is_err() && compose(&[], 0.0, 0.0).is_err());
        assert!(
            compose(
                &[Release::Guarantee {
                    epsilon: 1.0,
                    delta: 0.0
                }],
                1e-6,
                0.0
            )
            .is_err()
        );
    }
}
