//! Gossip averaging with noise in every round (Koskela and Kulkarni): what observers learn of one
//! target's contributions.
//!
//! In round t every node adds its contribution xₜ and unit noise uₜ to its state θₜ, zₜ = θₜ + xₜ +
//! uₜ, and θₜ₊₁ = W zₜ, W the gossip matrix. Observers, picked by S, see, in each of T rounds, one
//! of two things (accountant/docs/papers.md: the papers' H_T of both versions):
//!
//! - [`ObserversView::Sum`](threat::ObserversView::Sum): the sum that secure summation hands them,
//!   S W zₜ (blocks S W^(t−s+1); first version, Theorems 8 and 9);
//! - [`ObserversView::Messages`](threat::ObserversView::Messages): their own messages, S zₜ (blocks
//!   S W^(t−s); first version, Theorem 10; newest version, Theorem 12).
//!
//! With H these blocks, K = H Hᵀ and G the columns of H that the target's contributions take, M =
//! Gᵀ K⁺ G is T × T and the squared sensitivity is max cᵀ M c over contributions |cₜ| ≤ 1. The
//! worst c is not constant (accountant/docs/papers.md). [`Sensitivity`] has both sides: c = 1 from
//! below, and min(1ᵀ|M|1, T λ_max(M)) from above, λ_max the largest eigenvalue, which holds for
//! contributions that are vectors, too.
//!
//! Nothing of size nT, n the nodes, is ever built. K comes from the rows eᵢᵀ Wᵏ, for one observer
//! and symmetric W from the numbers (Wᵏ)ᵢᵢ alone, k ≤ 2T, which are dot products of T rows; G from
//! (Wᵏ)ᵢⱼ. A block of dependent rows is reduced to a basis first: a combination of S W that carries
//! no unknown noise only repeats what earlier blocks said, so that K of the basis is positive
//! definite with pivots of the order of the least singular value of S W, and no pseudo-inverse with
//! a cut-off is needed. As the target's own noise is unknown, G is made of columns of H and M is at
//! most the identity. A target among observers who know their noise has no protection at all.

mod bounds;
pub mod distribution;
pub mod edges;
pub mod execution;
mod gram;
pub mod observers;
pub mod threat;
pub mod varying;
pub mod weights;

use crate::account::gossip::observers::Observers;
use crate::account::gossip::threat::{GossipError, Sensitivity, Threat};
use crate::account::gossip::weights::{Scheme, Weights};

/// `account gossip`: the sensitivity of `target` on a connected graph (EDGES.txt) with these
/// weights.
pub fn account(
    edges: &str,
    scheme: Scheme,
    threat: &Threat<'_>,
    target: usize,
) -> Result<Sensitivity, GossipError> {
    let graph = edges::connected(edges)?;
    sensitivity(&Weights::of(&graph, scheme), threat, target)
}

/// The sensitivity of `target` when every round has the same weights.
pub fn sensitivity(
    weights: &Weights,
    threat: &Threat<'_>,
    target: usize,
) -> Result<Sensitivity, GossipError> {
    if target >= weights.nodes() {
        return Err(GossipError::Target {
            found: target,
            nodes: weights.nodes(),
        });
    }
    let observers = Observers::of(weights, threat, &[target])?;
    Ok(observers.sensitivity(0))
}

#[cfg(test)]
mod tests;
