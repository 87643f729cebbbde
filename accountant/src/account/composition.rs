//! Several releases together.
//!
//! Each release is μ-Gaussian-DP, whatever was chosen after seeing the others: their composition
//! has μ² = Σ μᵢ² (Dong, Roth and Su 2022, corollary 3.3) and is converted to (ε, δ) once, at the
//! end, by the exact trade-off. Adding up εs and δs instead is valid and far looser.

use serde::Serialize;

use crate::account::answer::{finite, is_false};
use crate::losses::charge::Charge;
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
    /// By all that counts in it: that of a run.
    Run(Charge),
}

impl Release {
    /// The charge of the release, no part below the true one.
    pub fn charge(self) -> Result<Charge, GaussianError> {
        match self {
            Release::Loss(mu) if mu >= 0.0 => Ok(Charge::of_loss(mu)),
            Release::Loss(found) => Err(GaussianError::Mu { found }),
            Release::Guarantee { epsilon, delta } => gaussian::mu_of(epsilon, delta).map(Charge::of_loss),
            Release::Run(charge) => Ok(charge),
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
    /// ε of all of them at `delta`; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// The δ that was asked for, all that counts in it together.
    pub delta: f64,
    /// How much of it is the chance that some draw of a schedule hides nothing.
    pub draw_delta: f64,
    /// How much of it sampling the noise of all releases takes, at most: (1 + e^ε) times the
    /// distance in total variation.
    pub sampling_delta: f64,
    /// Present, and true, if nothing bounds what they cost at that δ.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The loss of all `releases`, chosen adaptively or not, and their ε at `delta`, in which the
/// chance of bad draws and what sampling adds are counted ([`charge`](crate::losses::charge)).
/// Neither is ever below the true one.
pub fn compose(releases: &[Release], delta: f64) -> Result<Composed, GaussianError> {
    if !(delta > 0.0 && delta < 1.0) {
        return Err(GaussianError::Delta { found: delta });
    }
    let charges = releases.iter().map(|release| release.charge());
    let all: Charge = charges.collect::<Result<Vec<Charge>, _>>()?.into_iter().sum();
    let epsilon = all.epsilon(delta);
    Ok(Composed {
        releases: releases.len(),
        mu: all.mu(),
        epsilon,
        delta,
        draw_delta: all.draw,
        sampling_delta: all.sampling_delta(epsilon),
        unbounded: epsilon.is_infinite(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mu_of(release: Release) -> f64 {
        release.charge().expect("in range").mu()
    }

    #[test]
    fn squares_add_and_are_converted_once() {
        let answer = compose(
            &[Release::Loss(0.3), Release::Loss(0.4), Release::Loss(0.0)],
            1e-6,
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
            let mu = mu_of(Release::Guarantee { epsilon, delta });
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
        let one = mu_of(releases[0]);
        let all = compose(&releases, 1e-6).expect("an answer");
        assert!((all.mu / one - 4.0).abs() < 1e-10);
        assert!(all.epsilon < 16.0 * 0.5, "better than adding up: {}", all.epsilon);
    }

    /// Draws and sampling are within the δ that was asked for: the noise has what is left of it.
    #[test]
    fn all_that_counts_is_in_delta() {
        let run = Charge {
            draw: 1e-7,
            distance: 1e-8,
            ..Charge::of_loss(0.2)
        };
        let one = compose(&[Release::Run(run)], 1e-6).expect("an answer");
        let two = compose(&[Release::Run(run); 2], 1e-6).expect("an answer");
        for (answer, runs) in [(one, 1.0), (two, 2.0)] {
            assert!((answer.draw_delta / (runs * 1e-7) - 1.0).abs() < 1e-12);
            let sampled = (1.0 + libm::exp(answer.epsilon)) * runs * 1e-8;
            assert!((answer.sampling_delta / sampled - 1.0).abs() < 1e-12);
            let rest = 1e-6 - answer.draw_delta - answer.sampling_delta;
            let alone = gaussian::epsilon(rest, answer.mu).expect("in range");
            assert!((answer.epsilon / alone - 1.0).abs() < 1e-6, "{answer:?} {alone}");
        }
        let plain = compose(&[Release::Loss(0.2); 2], 1e-6).expect("an answer");
        assert!(two.epsilon > plain.epsilon * 1.01 && plain.sampling_delta == 0.0);
        assert!(plain.draw_delta.is_sign_positive() && plain.sampling_delta.is_sign_positive());
        // Ten such draws alone are more than δ, whatever ε is.
        let ten = compose(&[Release::Run(run); 11], 1e-6).expect("an answer");
        assert!(ten.unbounded && ten.mu.is_finite(), "{ten:?}");
    }

    #[test]
    fn nothing_costs_nothing_and_everything_is_said() {
        let none = compose(&[], 1e-6).expect("an answer");
        assert_eq!((none.mu, none.epsilon, none.releases), (0.0, 0.0, 0));
        let open = compose(&[Release::Loss(1.0), Release::Loss(f64::INFINITY)], 1e-6).expect("an answer");
        let json = serde_json::to_value(open).expect("serialises");
        assert!(json["mu"].is_null() && json["epsilon"].is_null() && json["unbounded"] == true);
        assert!(compose(&[Release::Loss(-1.0)], 1e-6).is_err() && compose(&[], 0.0).is_err());
        assert!(
            compose(
                &[Release::Guarantee {
                    epsilon: 1.0,
                    delta: 0.0
                }],
                1e-6
            )
            .is_err()
        );
    }
}
