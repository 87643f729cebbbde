//! PPSC (Wang, Liu, Manchester, Shi): what the states after multi-gossip, and a coalition inside
//! the private graph, give away.
//!
//! In an iteration the out-agent of an edge sends ω = β − γ, β its state, keeps the fresh noise γ,
//! and the in-agent adds ω (Algorithm 1). The states after S iterations are y = C β + D γ (equation
//! 11), β now the values at the start. All sums stay: 1ᵀC = 1ᵀ and 1ᵀD = 0, so the *exact sum* over
//! each component of the edges that were used is public, whatever the noise. Two questions follow,
//! and [`account`] answers both:
//!
//! - one party's value changes (replace-one): the loss is infinite unless each party first adds η*
//!   of its own;
//! - several change, by Δ together, so that every revealed sum stays (the paper's adjacency): the
//!   loss is Δ · sup ‖D⁺Cv‖ / σ over ‖v‖ ≤ 1 with Cv in range(D), σ the deviation of γ. Theorem 1
//!   bounds it by Δ / (λ σ), λ the least singular value of D that there can be, with ‖C‖₁ = 1;
//!   the norm that it needs is ‖C‖₂ > 1, and on a path of four the truth is √2 against the
//!   theorem's 1.307 (tests). [`same_sum`] computes the supremum itself.
//!
//! Everything is a function of the edges that were really used, known from the plan's seed; nothing
//! here holds "with probability ρ".

use std::collections::BTreeMap;

use serde::Serialize;
use undertone_protocol::topology::party::Party;

use crate::account::answer::{AccountError, check_scale, finite, finite_values, is_false, with_sensitivity};

use crate::execution::exchanges::components;
use crate::execution::ppsc_file;
use crate::execution::usable::uniform_losses;
use crate::losses::loss::{Noise, largest_mu, squared_losses};
use crate::losses::view::View;
use crate::losses::{gaussian, same_sum};

/// The answer of `account ppsc`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PpscAccount {
    /// The largest loss μ over honest parties when one value changes (replace-one or zero-out, as
    /// the sensitivity says); null if unbounded.
    #[serde(serialize_with = "finite")]
    pub mu: f64,
    /// ε of the loss `mu` at `delta`; null if unbounded.
    #[serde(serialize_with = "finite")]
    pub epsilon: f64,
    /// The δ that was asked for.
    pub delta: f64,
    /// The loss when honest values change so that no sum which is seen exactly changes; null if
    /// unbounded.
    #[serde(serialize_with = "finite")]
    pub same_sum_mu: f64,
    /// The least positive singular value of D, what the noises do to the states, restricted to what
    /// the adversary sees and does not know; null if D is zero.
    pub smallest_singular_value: Option<f64>,
    /// Whether the adversary learns some sum of honest values (of one alone, at worst) without
    /// noise.
    pub sum_revealed: bool,
    /// The connected components of the exchanges whose mass was accepted; a party without one
    /// stands alone.
    pub components: Vec<Vec<Party>>,
    /// The squared loss μᵢ² of each honest party, its squared sensitivity included; null if
    /// unbounded.
    #[serde(serialize_with = "finite_values")]
    pub losses: BTreeMap<Party, f64>,
    /// Present, and true, if `mu` or `same_sum_mu` is infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

/// The losses of a PPSC execution at these standard deviations: σ_γ of each exchange's noise, σ* of
/// what each party adds first. `sensitivity` serves where the file has none; joint changes are
/// measured against the largest.
pub fn account(
    execution: &str,
    pairwise_std: f64,
    independent_std: f64,
    sensitivity: f64,
    delta: f64,
) -> Result<PpscAccount, AccountError> {
    let execution = ppsc_file::parse(execution)?;
    check_scale("--pairwise-std", pairwise_std)?;
    check_scale("--independent-std", independent_std)?;
    check_scale("--sensitivity", sensitivity)?;
    // Refuse a bad δ before any work.
    gaussian::epsilon(delta, 0.0)?;
    let noise = Noise {
        independent_std,
        correlated_std: pairwise_std,
    };
    // One value changes.
    let view = View::of(&execution);
    let squares = squared_losses(&view, noise);
    let losses = view.honest.iter().copied().zip(squares.iter().copied()).collect();
    let losses = with_sensitivity(&execution, losses, sensitivity);
    let mu = largest_mu(&losses);
    // Several change, and no sum that is seen.
    let together = same_sum::SameSum::of(&view);
    let of_party = |party: Party| execution.sensitivity().map_or(sensitivity, |each| each[party]);
    let largest = view
        .honest
        .iter()
        .map(|&party| of_party(party))
        .fold(0.0, f64::max);
    let change = largest * together.largest;
    let same_sum_mu = if change == 0.0 { 0.0 } else { change / pairwise_std };
    Ok(PpscAccount {
        mu,
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        same_sum_mu,
        smallest_singular_value: together.smallest_singular_value,
        sum_revealed: squares.iter().any(|square| square.is_infinite()),
        components: components(&execution),
        unbounded: mu.is_infinite() || same_sum_mu.is_infinite(),
        losses,
    })
}

/// The losses of a PPSC execution whose γ are uniform over residues. Exact (Theorem U): what is
/// revealed of the honest values is the sums of [`revealed`](crate::execution::usable::revealed),
/// so that nothing is lost by changes that leave these as they are.
pub fn account_uniform(
    execution: &str,
    independent_std: f64,
    sensitivity: f64,
    delta: f64,
) -> Result<PpscAccount, AccountError> {
    let execution = ppsc_file::parse(execution)?;
    check_scale("--independent-std", independent_std)?;
    check_scale("--sensitivity", sensitivity)?;
    gaussian::epsilon(delta, 0.0)?;
    let squares = uniform_losses(&execution, independent_std);
    let sum_revealed = squares.values().any(|square| square.is_infinite());
    let losses = with_sensitivity(&execution, squares, sensitivity);
    let mu = largest_mu(&losses);
    Ok(PpscAccount {
        mu,
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        same_sum_mu: 0.0,
        smallest_singular_value: None,
        sum_revealed,
        components: components(&execution),
        losses,
        unbounded: mu.is_infinite(),
    })
}

#[cfg(test)]
mod noiseless_tests;
#[cfg(test)]
mod on_numbers;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
