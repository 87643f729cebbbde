//! `undertone account inca`: the losses of an execution, and the paper's conditions for it.

use std::collections::BTreeMap;

use serde::Serialize;
use undertone_protocol::topology::party::Party;

use crate::account::answer::{AccountError, check_scale, finite, finite_values, is_false, with_sensitivity};
use crate::account::mixing_graph::HiddenStates;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::seen::seen_states;
use crate::execution::trace::Trace;
use crate::execution::usable::uniform_losses;
use crate::losses::gaussian;
use crate::losses::loss::{Noise, largest_mu, squared_losses};
use crate::losses::view::View;

/// The answer of `account inca`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferredLosses {
    /// The largest loss μ over honest parties; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// ε of the loss `mu` at `delta`; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// The δ that was asked for.
    pub delta: f64,
    /// The squared loss μᵢ² of each honest party, its squared sensitivity Δᵢ² included; null if
    /// unbounded.
    #[serde(serialize_with = "finite_values")]
    pub losses: BTreeMap<Party, f64>,
    /// The part of its value that each party injected (INCA, equation 9). With `shares` or
    /// `rolled_back` in the file: the part of anybody's value that each final state carries.
    pub weights: Vec<f64>,
    /// The rank of Lemma 4.4's vectors that are hidden from the adversary.
    pub independent_vectors: Option<usize>,
    /// How many parties are honest.
    pub honest: usize,
    /// Whether that rank is one less than there are honest parties (Theorem 4.5).
    pub rank_condition: Option<bool>,
    /// Whether the hidden exchanges connect the honest parties strongly (Theorem 4.8).
    pub strongly_connected: Option<bool>,
    /// Present, and true, if `mu` is infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The losses of an execution (EXECUTION.json) at these standard deviations. `sensitivity` serves
/// where the file has none.
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
    answer(&execution, losses, delta)
}

/// The losses of an execution whose correlated noise is uniform over residues: its values come in
/// whole before round 1, whatever injection the file names. Exact (Theorem U).
pub fn inca_uniform(
    execution: &str,
    independent_std: f64,
    sensitivity: f64,
    delta: f64,
) -> Result<InferredLosses, AccountError> {
    let execution = Execution::parse(execution)?;
    check_scale("--independent-std", independent_std)?;
    check_scale("--sensitivity", sensitivity)?;
    gaussian::epsilon(delta, 0.0)?;
    if execution.out_degree() > 1 {
        let problem = "a party sends to several in one round: uniform noise goes with a fan-out of 1";
        return Err(ExecutionError::Invalid {
            place: "out".into(),
            problem: problem.into(),
        }
        .into());
    }
    let losses = uniform_losses(&execution, independent_std);
    let losses = with_sensitivity(&execution, losses, sensitivity);
    answer(&execution, losses, delta)
}

fn answer(
    execution: &Execution,
    losses: BTreeMap<Party, f64>,
    delta: f64,
) -> Result<InferredLosses, AccountError> {
    let mu = largest_mu(&losses);
    let hidden = (!execution.goes_beyond_the_paper()).then(|| HiddenStates::of(execution));
    let honest = losses.len();
    let independent_vectors = hidden.as_ref().map(HiddenStates::independent_vectors);
    Ok(InferredLosses {
        mu,
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        losses,
        weights: weights(execution),
        independent_vectors,
        honest,
        rank_condition: independent_vectors.map(|rank| rank + 1 == honest),
        strongly_connected: hidden.as_ref().map(HiddenStates::strongly_connected),
        unbounded: mu.is_infinite(),
    })
}

/// The squared loss μᵢ² of every honest party, its squared sensitivity Δᵢ² included.
pub fn party_losses(execution: &Execution, noise: Noise, sensitivity: f64) -> BTreeMap<Party, f64> {
    let view = View::of(execution);
    let squares = squared_losses(&view, noise);
    let losses = view.honest.iter().copied().zip(squares).collect();
    with_sensitivity(execution, losses, sensitivity)
}

/// Returns the part of its value that each party injected, or the parts of all values that each
/// final state carries.
fn weights(execution: &Execution) -> Vec<f64> {
    if execution.goes_beyond_the_paper() {
        let states = seen_states(execution);
        let equal = vec![1.0; execution.parties()];
        return Trace::keeping(execution, &equal, |party, round| states.contains(&(party, round)))
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

#[cfg(test)]
mod tests;
