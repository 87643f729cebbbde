//! `undertone account gaussian`: the third of ε, δ and the loss μ.

use serde::Serialize;

use crate::account::answer::{AccountError, finite, is_false};
use crate::losses::gaussian::{self, TradeOff};

/// The answer of `account gaussian`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GaussianAccount {
    /// ε of the guarantee; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// δ of the guarantee.
    pub delta: f64,
    /// The loss μ, sensitivity over noise; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// Noise over sensitivity, 1/μ; null for μ = 0.
    #[serde(serialize_with = "finite")]
    pub noise_multiplier: f64,
    /// Present, and true, if `mu` is infinite, or `epsilon` beyond every f64.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The third of ε, δ and the loss μ from the two others. Every answer is on the safe side: see
/// [`crate::losses::gaussian`].
pub fn gaussian(
    epsilon: Option<f64>,
    delta: Option<f64>,
    mu: Option<f64>,
) -> Result<GaussianAccount, AccountError> {
    let (epsilon, delta, mu) = match (epsilon, delta, mu) {
        (Some(epsilon), Some(delta), None) => (epsilon, delta, gaussian::mu(epsilon, delta)?),
        (Some(epsilon), None, Some(mu)) => (epsilon, gaussian::delta(epsilon, mu)?, mu),
        (None, Some(delta), Some(mu)) => (gaussian::epsilon(delta, mu)?, delta, mu),
        (epsilon, delta, mu) => {
            let found = [epsilon, delta, mu].iter().flatten().count();
            return Err(AccountError::Two { found });
        }
    };
    let noise_multiplier = TradeOff { epsilon, delta, mu }.noise_multiplier();
    Ok(GaussianAccount {
        epsilon,
        delta,
        mu,
        noise_multiplier,
        unbounded: mu.is_infinite() || epsilon.is_infinite(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epsilon_beyond_every_number_is_said_to_be_unbounded() {
        let answer = gaussian(None, Some(1e-6), Some(1e200)).expect("μ is a number");
        assert!(answer.unbounded && answer.epsilon.is_infinite());
        let answer = gaussian(None, Some(1e-6), Some(1e5)).expect("μ is a number");
        assert!(!answer.unbounded && answer.epsilon.is_finite());
    }
}
