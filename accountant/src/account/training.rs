//! `undertone account training`: what a training's iterations may cost each, and what so many of
//! them have cost.

use serde::Serialize;

use crate::account::answer::{AccountError, finite};
use crate::losses::{gaussian, releases};

/// The answer of `account training`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrainingAccount {
    /// ε of what was published; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// δ of it, and of the whole training.
    pub delta: f64,
    /// The loss μ of what was published.
    pub mu: f64,
    /// How many iterations were published.
    pub published: u64,
    /// How many there are.
    pub iterations: u64,
    /// The loss of one.
    pub mu_iteration: f64,
    /// ε of one.
    #[serde(serialize_with = "finite")]
    pub epsilon_iteration: f64,
    /// The loss that the whole training may have.
    pub mu_total: f64,
}

/// Returns the loss so far of `published` releases out of `iterations` that share a budget of (ε,
/// δ). Every answer is on the safe side: see [`crate::losses::releases`].
pub fn training(
    epsilon: f64,
    delta: f64,
    iterations: u64,
    published: u64,
) -> Result<TrainingAccount, AccountError> {
    let mu_total = gaussian::mu(epsilon, delta)?;
    let mu_iteration = releases::each(mu_total, iterations);
    let mu = releases::together(mu_iteration, published);
    Ok(TrainingAccount {
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        mu,
        published,
        iterations,
        mu_iteration,
        epsilon_iteration: gaussian::epsilon(delta, mu_iteration)?,
        mu_total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_costs_its_share_of_the_square() {
        let whole = training(3.0, 1e-5, 50, 50).expect("in range");
        assert!(whole.epsilon <= 3.0 && whole.epsilon > 2.999, "{whole:?}");
        assert!((whole.epsilon_iteration - 0.347).abs() < 5e-4, "{whole:?}");
        let half = training(3.0, 1e-5, 50, 25).expect("in range");
        assert!((half.mu / whole.mu - 0.5f64.sqrt()).abs() < 1e-9 && half.epsilon < 2.1);
        let none = training(3.0, 1e-5, 50, 0).expect("in range");
        assert_eq!((none.mu, none.epsilon), (0.0, 0.0));
        training(-1.0, 1e-5, 50, 0).expect_err("no ε");
    }
}
