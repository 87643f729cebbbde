//! The answers of `undertone account`: what the command line prints as tables and, under `--json`, as CONTRACTS names them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use undertone_protocol::mixing::Party;

use crate::execution::{Execution, ExecutionError};
use crate::gaussian::{self, GaussianError, Guarantee};
use crate::loss::{Noise, squared_losses};
use crate::mixing_graph::HiddenStates;
use crate::view::{Trace, View, seen_states};

/// Why an account was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AccountError {
    /// Not exactly two of ε, δ and μ.
    #[error("give exactly two of --epsilon, --delta and --mu, found {found}")]
    Two {
        /// How many were given.
        found: usize,
    },
    /// A number out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// A standard deviation or sensitivity out of range.
    #[error("{flag} must be zero or a positive number, found {found}")]
    Scale {
        /// The flag.
        flag: &'static str,
        /// What was given.
        found: f64,
    },
    /// The execution file.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// `account gaussian`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GaussianAccount {
    /// ε; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// μ; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// 1/μ; null for μ = 0.
    #[serde(serialize_with = "finite")]
    pub noise_multiplier: f64,
    /// Present, and true, if μ is infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The third of ε, δ and μ from the two others. Every answer is on the safe side: see [`crate::gaussian`].
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
    let noise_multiplier = Guarantee { epsilon, delta, mu }.noise_multiplier();
    Ok(GaussianAccount {
        epsilon,
        delta,
        mu,
        noise_multiplier,
        unbounded: mu.is_infinite(),
    })
}

/// `account inca`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferredLosses {
    /// The largest loss over honest parties; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// Of that loss; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// As given.
    pub delta: f64,
    /// μᵢ² of each honest party, its Δᵢ² included; null if unbounded.
    #[serde(serialize_with = "finite_values")]
    pub losses: BTreeMap<Party, f64>,
    /// Of all parties: what each injected of its value (INCA, equation 9); with `shares` or `rolled_back` in the file, what each
    /// final state carries of anybody's.
    pub weights: Vec<f64>,
    /// The rank of Lemma 4.4's vectors that are hidden from the adversary.
    pub independent_vectors: Option<usize>,
    /// n_H.
    pub honest: usize,
    /// Whether that rank is n_H − 1 (Theorem 4.5).
    pub rank_condition: Option<bool>,
    /// Whether the hidden exchanges connect the honest parties strongly (Theorem 4.8).
    pub strongly_connected: Option<bool>,
    /// Present, and true, if μ is infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The losses of an execution (EXECUTION.json) at these standard deviations. `sensitivity` serves where the file has none.
pub fn inca(
    execution: &str,
    noise: Noise,
    sensitivity: f64,
    delta: f64,
) -> Result<InferredLosses, AccountError> {
    let execution = Execution::parse(execution)?;
    check_scale("--independent-std", noise.independent_std)?;
    check_scale("--correlated-std", noise.correlated_std)?;
    check_scale("--sensitivity", sensitivity)?;
    // Refuse a bad δ before any work.
    gaussian::epsilon(delta, 0.0)?;
    let losses = party_losses(&execution, noise, sensitivity);
    let mu = largest_mu(&losses);
    let hidden = (!execution.goes_beyond_the_paper()).then(|| HiddenStates::of(&execution));
    let honest = losses.len();
    let independent_vectors = hidden.as_ref().map(HiddenStates::independent_vectors);
    Ok(InferredLosses {
        mu,
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        losses,
        weights: weights(&execution),
        independent_vectors,
        honest,
        rank_condition: independent_vectors.map(|rank| rank + 1 == honest),
        strongly_connected: hidden.as_ref().map(HiddenStates::strongly_connected),
        unbounded: mu.is_infinite(),
    })
}

/// That a standard deviation or sensitivity is zero or a positive number.
pub(crate) fn check_scale(flag: &'static str, found: f64) -> Result<(), AccountError> {
    if found >= 0.0 && found.is_finite() {
        Ok(())
    } else {
        Err(AccountError::Scale { flag, found })
    }
}

/// μᵢ² of every honest party, its Δᵢ² included.
pub fn party_losses(execution: &Execution, noise: Noise, sensitivity: f64) -> BTreeMap<Party, f64> {
    let view = View::of(execution);
    let squares = squared_losses(&view, noise);
    let sensitivity = |party: Party| execution.sensitivity().map_or(sensitivity, |each| each[party]);
    view.honest
        .iter()
        .zip(squares)
        .map(|(&party, square)| (party, scaled(sensitivity(party), square)))
        .collect()
}

/// Δ² · loss, where nothing that cannot change (Δ = 0) loses anything.
pub(crate) fn scaled(sensitivity: f64, square: f64) -> f64 {
    if sensitivity == 0.0 {
        0.0
    } else {
        sensitivity * sensitivity * square
    }
}

/// The root of the largest.
pub(crate) fn largest_mu(losses: &BTreeMap<Party, f64>) -> f64 {
    losses
        .values()
        .fold(0.0, |largest: f64, &loss| largest.max(loss))
        .sqrt()
}

fn weights(execution: &Execution) -> Vec<f64> {
    if execution.goes_beyond_the_paper() {
        let states = seen_states(execution);
        let even = vec![1.0; execution.parties()];
        return Trace::keeping(execution, &even, |party, round| states.contains(&(party, round)))
            .weights()
            .to_vec();
    }
    let online = |party: Party| {
        (1..=execution.rounds() as u32)
            .filter(|&round| execution.online(round, party))
            .count()
    };
    let Some(injection) = execution.injection() else {
        return vec![];
    };
    (0..execution.parties())
        .map(|party| injection.c()[..=online(party)].iter().sum())
        .collect()
}

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// JSON has no infinity: null.
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

pub(crate) fn finite_values<S: Serializer>(
    values: &BTreeMap<Party, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        values
            .iter()
            .map(|(party, value)| (party.to_string(), value.is_finite().then_some(*value))),
    )
}

#[cfg(test)]
mod tests;
